"""Remarks on a count of FLOPs, beside the definitions that it was made by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tfcalc.core.measure import overcounted_flops
from tfcalc.errors import UsageError
from tfcalc.report import exact

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.workload import Workload

LENGTHS = frozenset("lcs")
"""Letters of which one stands in the FLOPs of every model that reads sequences of any length."""

SAMPLES = "none: the model reads samples of one fixed size"


def remarks(model: Model, run: Workload) -> Iterator[str]:
    """A sentence each: what does not fit, and what is counted though few would expect it."""
    yield from model.remarks(run)
    if run.decoding and run.latent == "expanded" and model.tree(run.replaced(latent="absorbed")) != model.tree(run):
        yield "Keys and values of all cached tokens are expanded at each step, as in transformers (--mla absorbed: not)"
    yield from _overcounted(model, run)


def overcounted(model: Model, run: Workload) -> int:
    """FLOPs of a step that PyTorch's counter has, though nothing runs them."""
    counts = run.training and run.convolutions == "counter"
    return exact(model.tree(run).total(overcounted_flops)) if counts else 0


def _overcounted(model: Model, run: Workload) -> Iterator[str]:
    """PyTorch's counter is followed where it errs if that is asked for, but never without saying so."""
    if count := overcounted(model, run):
        yield (
            f"{count:,} of these FLOPs are not run: PyTorch's counter ignores the groups of convolutions in backward "
            "(--grouped-convolutions run leaves them out)"
        )


def needs_tokens(conventions: Mapping[str, object], what: str) -> None:
    """Raise UsageError for a model that reads no tokens, whatever is asked ``what`` is counted by them."""
    if conventions["tokens"] == SAMPLES:
        raise UsageError(f"{what} needs tokens, and this model reads none", "count a step: --train --batch N")
