"""Tfcalc's FLOPs beside those of PyTorch's own counter."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tfcalc.answers.conventions_text import as_json, as_text
from tfcalc.core.measure import matmul_backward_flops, matmul_flops
from tfcalc.core.number import Num
from tfcalc.core.traced import value_of
from tfcalc.errors import Unavailable, UsageError
from tfcalc.model import asked_run
from tfcalc.report import exact
from tfcalc.verify.count import built, unbuilt
from tfcalc.verify.verification import ComparedRow, NotComparable, VerifiedFlops
from tfcalc.workload import Conventions, Workload
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.configs.published import HFModel
    from tfcalc.model import Model
    from tfcalc.verify.flops import CountedFlops

RAN = {
    "forward": "a forward pass",
    "train": "forward and backward",
    "prefill": "a forward pass",
    "decode": "a decoded token of each sequence",
}
MOST_LAYERS = 200
"""More are not run, one by one, for the sake of counting them."""


def verify_flops(model: Model, workload: Workload | None = None) -> VerifiedFlops:
    """Forward and backward FLOPs of this workload, counted by FlopCounterMode while it runs without data.

    Raises Unavailable where PyTorch or transformers is not installed or cannot run it, UsageError for a definition that
    the counter does not have.
    """
    workload = asked_run(model, workload).of_flops.replaced(convolutions="counter")
    model.check(workload)
    _only_what_the_counter_has(workload)
    try:
        import torch
    except ImportError:
        raise Unavailable("PyTorch is not installed", "pip install 'tfcalc[verify]'") from None
    if isinstance(model, Transformer):
        counted, found, reference = _classic(model, workload)
    else:
        workload = workload.replaced(experts="all")  # as transformers' code runs them
        counted, found, reference = _published(model, workload)
    return VerifiedFlops(
        heading=model.summary,
        compared=RAN[workload.phase],
        against=f"FlopCounterMode of PyTorch {torch.__version__}",
        column="FlopCounterMode",
        reference=reference,
        rows=(
            ComparedRow("forward", counted.forward, found.forward),
            *(
                [ComparedRow("backward and recomputation", counted.backward, found.backward)]
                if workload.training
                else []
            ),
            ComparedRow("total", sum(counted), sum(found)),
        ),
        model=model.described(),
        conventions=as_json("flops", workload, Conventions()),
        notes=tuple(as_text("flops", workload, Conventions())),
    )


def _only_what_the_counter_has(run: Workload) -> None:
    for what, given, had in (
        ("attention", run.attention, "full"),
        ("mla", run.latent, "expanded"),
        ("logits", run.logits, "all"),
    ):
        if given != had:
            raise UsageError(f"PyTorch's counter has no {what} {given!r}", f"verify with {what} {had}")
    if run.fused:
        raise UsageError(f"without data PyTorch runs no {run.kernel} kernel", "verify with attention kernel eager")
    if run.recompute not in ("none", "full"):
        raise UsageError(f"transformers cannot recompute {run.recompute!r}", "verify with recompute none or full")


def _published(model: Model, run: Workload) -> tuple[CountedFlops, CountedFlops, str]:
    """Tfcalc's count, PyTorch's, and of what."""
    from tfcalc.verify.flops import ours, theirs

    published = cast("HFModel", model)
    found = theirs(published, run)
    return ours(published, run), found, f"{published.architecture} of transformers without data, eager attention"


def _classic(model: Transformer, run: Workload) -> tuple[CountedFlops, CountedFlops, str]:
    """The classic model, as torch.nn's modules run it."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from tfcalc.verify.flops import CountedFlops

    layers = max(value_of(model.size(f"{stack}_layers")) for stack in model.stacks)
    if run.decoding or run.recompute != "none" or layers > MOST_LAYERS:
        raise UsageError(
            f"torch.nn's modules are run forward and backward, of at most {MOST_LAYERS} layers", "verify phase train"
        )
    missing = unbuilt(model)
    if missing:
        raise NotComparable(
            f"cannot compare: PyTorch has no module with {' or '.join(missing)}",
            "its parameters can be: leave --of out",
        )
    reference, described = built(model)
    reference.train(run.training)
    root = model.tree(run)

    def read(length: Num) -> torch.Tensor:
        shape = (length, run.batch_size)
        if model.vocab_size is None:
            return torch.empty(*shape, model.d_model, device="meta", requires_grad=run.input_gradient)
        return torch.zeros(shape, dtype=torch.long, device="meta")

    forward, both = FlopCounterMode(display=False), FlopCounterMode(display=False)
    with both:
        with forward, torch.set_grad_enabled(run.training):
            out = reference(read(run.source.length), read(run.target.length))
        if run.training:
            out.sum().backward()
    counted = CountedFlops(
        exact(root.total(matmul_flops)), exact(root.total(matmul_backward_flops)) if run.training else 0
    )
    first = int(forward.get_total_flops())
    return counted, CountedFlops(first, int(both.get_total_flops()) - first), described
