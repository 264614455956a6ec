"""FLOPs by PyTorch's own counter: a config built by transformers, run forward and backward without data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

from tfcalc.core.measure import matmul_backward_flops, matmul_flops
from tfcalc.errors import Unavailable
from tfcalc.questions.common import run_tree
from tfcalc.report import exact
from tfcalc.verify.hugging_face import build
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.configs.published import Published

EXPERTS = "batched_mm"
"""How transformers is asked to run experts: the counter does not see its grouped_mm."""


class Flops(NamedTuple):
    """Forward and backward, of matrix products."""

    forward: int
    backward: int


def ours(model: Published, run: Workload) -> Flops:
    """Tfcalc's count; ``run`` is a training step, or a forward pass where it is none."""
    root = run_tree(model, run)
    return Flops(exact(root.total(matmul_flops)), exact(root.total(matmul_backward_flops)) if run.training else 0)


def theirs(model: Published, run: Workload) -> Flops:
    """PyTorch's count of the same, eager attention. Raises Unavailable where transformers cannot build or run it."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    built = build({**model.config, "_attn_implementation": "eager"}, model.architecture)
    _choose_experts(built.config)
    built.train(run.training)
    forward, both = FlopCounterMode(display=False), FlopCounterMode(display=False)
    try:
        with warnings.catch_warnings(), torch.device("meta"):
            warnings.simplefilter("ignore")
            given = inputs(built, run)
            if not run.training:
                with forward, torch.no_grad():
                    built(**given)
                return Flops(int(forward.get_total_flops()), 0)
            with both:
                with forward:
                    out = built(**given)
                _differentiable(out).backward()
    except Exception as error:
        raise Unavailable(
            f"cannot run it without data: {type(error).__name__}: {str(error).splitlines()[0]}"
        ) from error
    first = int(forward.get_total_flops())
    return Flops(first, int(both.get_total_flops()) - first)
