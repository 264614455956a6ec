"""Which kernel PyTorch's scaled_dot_product_attention chooses on a GPU, where nobody asks for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfcalc.core.component import Component
    from tfcalc.model import Model
    from tfcalc.workload import Workload


def chosen(model: Model, run: Workload, compute: str) -> str:
    """``flash`` for 16-bit numbers, ``efficient`` for fp32; ``math`` where fp32 heads share keys in all layers.

    ``compute`` is the number format that layers compute in.

    Flash attention takes no fp32, and no values of another width than keys (latent attention's); the memory-efficient
    kernel no shared keys (``enable_gqa``). Source: aten's sdp_utils.cpp (``check_tensor_shapes``,
    ``check_batch_size_and_num_heads_dense``); transformers asks for ``enable_gqa`` where there is no mask, as a window
    needs one.
    """
    if compute != "fp32":
        return "flash" if _of_one_width(_parts(model, run.replaced(kernel="flash"))) else "efficient"
    return "math" if _share_keys(_parts(model, run.replaced(attention="causal"))) else "efficient"


def _parts(model: Model, run: Workload) -> list[Component]:
    return [node.component for node in model.tree(run).walk()]


def _of_one_width(parts: Sequence[Component]) -> bool:
    """Whether keys and values of some heads are equally wide, or nothing attends."""
    widths = [{product.columns for product in part.own.products} for part in parts if part.kind == "attend"]
    return not widths or any(len(each) == 1 for each in widths)


def _share_keys(parts: Sequence[Component]) -> bool:
    """Whether some map of keys is narrower than that of queries, and no layer has a window."""
    if any(part.own.limit is not None for part in parts):
        return False
    for part in parts:
        widths = {tensor.name: tensor.shape[-1] for leaf in part.parts for tensor in leaf.own.weights if tensor.shape}
        if "W_K" in widths and widths["W_K"] != widths.get("W_Q", widths["W_K"]):
            return True
    return False
