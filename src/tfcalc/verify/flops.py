"""FLOPs by PyTorch's own counter: a config built by transformers, run forward and backward without data."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tfcalc.core.measure import matmul_again_flops, matmul_backward_flops, matmul_flops
from tfcalc.errors import Unavailable
from tfcalc.questions.common import run_tree
from tfcalc.report import exact
from tfcalc.verify.hugging_face import build
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.configs.published import Published

AS_COUNTED = {"attn_implementation": "eager", "experts_implementation": "batched_mm"}
"""How transformers is asked to run: the counter sees neither fused attention on meta nor grouped experts."""


class Flops(NamedTuple):
    """Of matrix products; what is computed again in backward is part of the backward pass here."""

    forward: int
    backward: int


def ours(model: Published, run: Workload) -> Flops:
    """Tfcalc's count of a training step, or of a forward pass."""
    root = run_tree(model, run)
    backward = root.total(matmul_backward_flops) + root.total(matmul_again_flops) if run.training else 0
    return Flops(exact(root.total(matmul_flops)), exact(backward))


def theirs(model: Published, run: Workload) -> Flops:
    """PyTorch's count of the same. Raises Unavailable where transformers cannot build it, or not run it without data.

    The backward pass starts from all outputs; dropout follows ``run.dropout``, checkpointing ``run.recompute``.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from tfcalc.verify.inputs import inputs

    built = build(model.config | {f"_{name}": how for name, how in AS_COUNTED.items()}, model.architecture)
    built.train(run.training)
    forward, both = FlopCounterMode(display=False), FlopCounterMode(display=False)
    try:
        with warnings.catch_warnings(), torch.device("meta"):
            warnings.simplefilter("ignore")
            _prepare(built, run)
            if run.decoding:
                return Flops(_decoded(built, run), 0)
            given = inputs(built, run)
            with both:
                with forward, torch.set_grad_enabled(run.training):
                    out = built(**given)
                if run.training:
                    sum(one.float().sum() for one in _differentiable(out)).backward()
    except Exception as error:
        first_line = (str(error).splitlines() or [""])[0]
        raise Unavailable(f"it does not run without data: {type(error).__name__}: {first_line}") from error
    first = int(forward.get_total_flops())
    return Flops(first, int(both.get_total_flops()) - first)


def _decoded(built: Any, run: Workload) -> int:
    """The FLOPs of one more token for each sequence, after all but that were run to fill the cache."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from tfcalc.verify.inputs import inputs

    before = run.replaced(phase="prefill", seq_len=run.target.seen - 1)
    with torch.no_grad():
        cache = built(**inputs(built, before), use_cache=True).past_key_values
        with FlopCounterMode(display=False) as counter:
            built(**inputs(built, run), past_key_values=cache, use_cache=True)
    return int(counter.get_total_flops())


def _prepare(built: Any, run: Workload) -> None:
    """Dropout off where it is not wanted; checkpointing of each layer where it is."""
    import torch

    if not run.dropout:
        for module in built.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            for name, value in vars(module).items():
                if "drop" in name and isinstance(value, float):
                    setattr(module, name, 0.0)
    if run.recompute == "full":
        built.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": not run.early_stop})
        built.enable_input_require_grads()


def _differentiable(out: Any) -> Iterator[Any]:
    """The outputs that have a gradient."""
    for value in out.values():
        if hasattr(value, "grad_fn") and value.grad_fn is not None:
            yield value
