"""What tfcalc says that autograd keeps, beside what PyTorch's hooks see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tfcalc.configs.published import HFModel
from tfcalc.defaults import resolve_training
from tfcalc.errors import Unavailable, UsageError
from tfcalc.held.plans import Training
from tfcalc.held.training.precisions import precision as named
from tfcalc.implementations.training import every_kept
from tfcalc.questions.common import asked_run
from tfcalc.questions.training_plan import numerics
from tfcalc.questions.training_report import notes, stated
from tfcalc.verify.verification import NotComparable, Verification, side_by_side

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.workload import Workload

RECIPES = {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "bf16-mixed": "autocast"}
"""What the referee calls them; others differ in states alone."""
INSIDE, ELSEWHERE = "layers", "outside the layers"


def verify_memory(model: Model, workload: Workload | None = None, plan: Training | None = None) -> Verification:
    """The bytes that a training step keeps for backward, module by module, counted while it runs without data.

    Raises Unavailable where PyTorch or transformers is not installed or cannot run it, UsageError for what they cannot
    be asked.
    """
    plan = plan or Training()
    workload = asked_run(model, workload).replaced(phase="train")
    model.check(workload)
    workload, plan = resolve_training(model, workload, plan)
    recipe = _recipe(model, workload, plan)
    try:
        import torch

        from tfcalc.verify.saved import saved
        from tfcalc.verify.step import step, without_data
    except ImportError:
        raise Unavailable("PyTorch is not installed", "pip install 'tfcalc[verify]'") from None
    assert isinstance(model, HFModel)
    tree = model.tree(workload)
    if not any(node.component.kind == "loss" for node in tree.walk()):
        raise NotComparable(f"cannot compare: {model.architecture} has no loss", "verify a language model")
    attends = any(node.component.kind == "attention" for node in tree.walk())
    eager = workload.kernel == "eager" or not attends
    with without_data():
        source = workload.source.length if model.data.get("is_encoder_decoder") else workload.seq_len
        ready = step(
            {**model.data, "architectures": [model.architecture]},
            batch=workload.batch_size,  # type: ignore[arg-type]  # numbers here
            seq=source,  # type: ignore[arg-type]
            target=workload.seq_len,  # type: ignore[arg-type]
            attention="eager" if eager else "sdpa",
            recipe=recipe,
            dropout=workload.dropout,
        )
        # a fused kernel is what PyTorch chooses by itself, where it can be had
        theirs = saved(
            ready.model,
            ready.inputs,
            recipe=recipe,
            kernel="math" if workload.kernel == "math" else "auto",
            as_recorded=plan.device == "recorded",
        )
    formats = numerics(named(plan.precision), plan)._replace(traced=True)  # without data, nobody can look at a mask
    kept = every_kept(tree, model, workload, formats, experts="batched_mm")  # grouped_mm needs data
    ours = [(one.keeper.partition(".")[2], one.storage.bytes) for one in kept]
    return Verification(
        heading=model.summary,
        compared="tensors saved for backward",
        against=f"saved_tensors_hooks of PyTorch {torch.__version__}",
        column="PyTorch",
        reference=f"{model.architecture} of transformers run forward, on CPU tensors without data that CUDA's choices "
        "are put onto; its layers together",
        rows=side_by_side(_in_layers(ours), _in_layers(theirs.by_module.items())),
        model=model.described(),
        unit="bytes",
        conventions=stated(workload, plan),
        notes=tuple(notes(workload, plan)),
    )


def _recipe(model: Model, run: Workload, plan: Training) -> str:
    if not isinstance(model, HFModel):
        raise NotComparable(
            "cannot compare: saved tensors are verified only for models that have a config.json",
            "name one, or verify parameters or FLOPs",
        )
    if plan.precision not in RECIPES:
        raise UsageError(
            f"--precision {plan.precision} saves the same tensors as its compute format", "verify with --precision bf16"
        )
    for what, given, had in (
        ("recompute", run.recompute, "none"),
        ("backend", plan.backend.replace("auto", "transformers"), "transformers"),
    ):
        if given != had:
            raise UsageError(f"transformers' hooks do not tell {what} {given!r}", f"verify with {what} {had}")
    return RECIPES[plan.precision]


def _in_layers(modules: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Bytes inside the layers and outside: which layer keeps what several share is a matter of who asks first."""
    found: Counter[str] = Counter()
    for name, size in modules:
        found[INSIDE if any(part.isdigit() for part in name.split(".")) else ELSEWHERE] += size
    return dict(found)
