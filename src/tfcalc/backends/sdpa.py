"""Choice of a kernel by PyTorch's scaled_dot_product_attention on a GPU, where nobody asks for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfcalc.core.traced import value_of
from tfcalc.workload import EITHER

if TYPE_CHECKING:
    from tfcalc.core.component import Component
    from tfcalc.core.number import Num
    from tfcalc.model import Model
    from tfcalc.workload import Workload


def chosen(model: Model, run: Workload, compute: str, capability: str = "") -> str:
    """``flash`` for 16-bit numbers, ``efficient`` for fp32; ``math`` for fp32 heads that share keys without a mask.

    ``compute`` is the number format that layers compute in, ``capability`` the GPU's, where it is known.

    Flash attention takes no GPU before Ampere (8.0; ``check_flash_attention_hardware_support``), no fp32, and no values
    of another width than keys (latent attention's); the memory-efficient kernel no shared keys (``enable_gqa``).
    Source: aten's sdp_utils.cpp (``check_tensor_shapes``, ``check_batch_size_and_num_heads_dense``); transformers asks
    for ``enable_gqa`` where there is no mask, as a window that ends within the sequence needs one
    (``use_gqa_in_sdpa`` in integrations/sdpa_attention.py). By Metal, what needs gradients is computed by ``math``
    (aten's attention.cpp: ``_scaled_dot_product_attention_math_for_mps`` is for inference).
    """
    if capability == METAL:
        return "math"
    if compute != "fp32" and not capability.startswith(BEFORE_AMPERE):
        return "flash" if _of_one_width(_parts(model, run.replaced(kernel="flash"))) else "efficient"
    parts = _parts(model, run.replaced(attention="causal"))
    if not _share_keys(parts):
        return "efficient"
    masked = {_masked(part.own.limit, run) for part in parts if part.kind == "attend"}
    return EITHER if len(masked) > 1 else "efficient" if True in masked else "math"


METAL = "mps"
"""Stands for a compute capability where PyTorch computes by Metal."""
BEFORE_AMPERE = ("3.", "5.", "6.", "7.")
"""Compute capabilities, by their beginnings, of GPUs without bf16 tensor cores and without flash attention."""


def _parts(model: Model, run: Workload) -> list[Component]:
    return [node.component for node in model.tree(run).walk()]


def _masked(window: Num | None, run: Workload) -> bool:
    """Return whether some key of the sequence is outside of the window."""
    return window is not None and value_of(run.seq_len) >= value_of(window)


def _of_one_width(parts: Sequence[Component]) -> bool:
    """Return whether keys and values of some heads are equally wide, or nothing attends."""
    widths = [{product.columns for product in part.own.products} for part in parts if part.kind == "attend"]
    return not widths or any(len(each) == 1 for each in widths)


def _share_keys(parts: Sequence[Component]) -> bool:
    """Return whether some map of keys is narrower than that of queries."""
    for part in parts:
        widths = {tensor.name: tensor.shape[-1] for leaf in part.parts for tensor in leaf.own.weights if tensor.shape}
        if "W_K" in widths and widths["W_K"] != widths.get("W_Q", widths["W_K"]):
            return True
    return False
