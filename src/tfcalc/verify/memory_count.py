"""Saved tensors by tfcalc, beside those that PyTorch's hooks see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tfcalc.answers.training_memory import notes, stated
from tfcalc.backends.sdpa import chosen
from tfcalc.configs.published import HFModel
from tfcalc.defaults import resolve_training
from tfcalc.errors import Unavailable, UsageError
from tfcalc.model import asked_run
from tfcalc.plans import SFT, Training
from tfcalc.training.plan_checks import numerics
from tfcalc.training.precisions import precision as named
from tfcalc.training.step import every_kept
from tfcalc.verify.count import refuse_to_build_forever
from tfcalc.verify.verification import NotComparable, VerifiedBytes, side_by_side
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.core.component import Component
    from tfcalc.model import Model
    from tfcalc.verify.saved import Saved
    from tfcalc.workload import Workload

RECIPES = {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "bf16-mixed": "autocast"}
"""Names in the reference; others differ in states alone."""
INSIDE, ELSEWHERE = "layers", "outside the layers"


def verify_memory(model: Model, workload: Workload | None = None, plan: Training | None = None) -> VerifiedBytes:
    """Bytes that a training step saves for backward, module by module, counted while it runs without data.

    Raises Unavailable where PyTorch or transformers is not installed or cannot run it, UsageError for what they cannot
    be asked.
    """
    plan = plan or Training()
    workload = asked_run(model, workload).of_flops.replaced(phase="train")  # hooks tell what is saved once
    model.check(workload)
    workload, plan = resolve_training(model, workload, plan)
    recipe = _recipe(model, workload, plan)
    try:
        import torch
    except ImportError:
        raise Unavailable("PyTorch is not installed", "pip install 'tfcalc[verify]'") from None
    tree = model.tree(workload)
    formats = numerics(named(plan.precision), plan)._replace(traced=True)  # without data, nobody can look at a mask
    kept = every_kept(tree, model, workload, formats, experts="batched_mm")  # grouped_mm needs data
    if isinstance(model, HFModel):
        theirs, code = _of_transformers(model, tree, workload, plan, recipe), f"{model.architecture} of transformers"
    else:
        assert isinstance(model, Transformer)
        theirs, code = _of_torch(model, workload, plan, recipe), "torch.nn modules"
    ours = [(one.keeper.partition(".")[2], one.storage.bytes) for one in kept]
    return VerifiedBytes(
        heading=model.summary,
        compared="tensors saved for backward",
        against=f"saved_tensors_hooks of PyTorch {torch.__version__}",
        column="PyTorch",
        reference=f"{code} run forward, on CPU tensors without data that CUDA's choices are put onto; its layers "
        "together",
        rows=side_by_side(_in_layers(ours), _in_layers(theirs.by_module.items())),
        model=model.described(),
        conventions=stated(workload, plan),
        notes=tuple(notes(workload, plan)),
    )


def _of_transformers(model: HFModel, tree: Component, run: Workload, plan: Training, recipe: str) -> Saved:
    """Bytes saved by transformers' code, with the attention kernel that PyTorch chooses by itself."""
    from tfcalc.verify.saved import saved
    from tfcalc.verify.step import step, without_data

    if not any(node.component.kind == "loss" for node in tree.walk()):
        raise NotComparable(f"cannot compare: {model.architecture} has no loss", "verify a language model")
    own = chosen(model, run, named(plan.precision).compute)
    if run.kernel == "efficient" != own:
        raise NotComparable(f"cannot compare: PyTorch itself chooses {own} attention", "leave --attention-kernel out")
    attends = any(node.component.kind == "attention" for node in tree.walk())
    eager = run.kernel == "eager" or not attends
    with without_data():
        source = run.source.length if model.data.get("is_encoder_decoder") else run.seq_len
        ready = step(
            {**model.data, "architectures": [model.architecture]},
            batch=run.batch_size,  # type: ignore[arg-type]  # numbers here
            seq=source,  # type: ignore[arg-type]
            target=run.seq_len,  # type: ignore[arg-type]
            attention="eager" if eager else "sdpa",
            recipe=recipe,
            dropout=run.dropout,
        )
        kernel = "math" if run.kernel == "math" else "auto"
        return saved(ready.model, ready.inputs, recipe=recipe, kernel=kernel, as_recorded=plan.device == "recorded")


def _of_torch(model: Transformer, run: Workload, plan: Training, recipe: str) -> Saved:
    """Bytes saved by PyTorch's own modules."""
    from tfcalc.verify.saved import saved
    from tfcalc.verify.step import without_data
    from tfcalc.verify.torch_step import torch_step

    if model.norm == "rmsnorm":
        raise NotComparable(
            "cannot compare: nn.RMSNorm on CPU tensors saves other tensors than CUDA's kernel", "verify with layernorm"
        )
    refuse_to_build_forever(model)
    with without_data():
        try:
            module, inputs = torch_step(model, run, recipe)
        except RuntimeError as error:
            raise NotComparable(f"cannot compare: PyTorch does not build it: {str(error).splitlines()[0]}") from None
        kernel, recorded = "math" if run.kernel == "eager" else run.kernel, plan.device == "recorded"
        return saved(module, inputs, recipe=recipe, kernel=kernel, as_recorded=recorded, loss=lambda out: out)


def _recipe(model: Model, run: Workload, plan: Training) -> str:
    own = "transformers" if isinstance(model, HFModel) else "torch"
    if plan.precision not in RECIPES:
        raise UsageError(
            f"--precision {plan.precision} saves the same tensors as its compute format", "verify with --precision bf16"
        )
    for what, given, had in (
        ("recompute", run.recompute, "none"),
        ("backend", plan.backend.replace("auto", own), own),
        ("loss", plan.loss, "auto"),
        ("method", plan.method, SFT),
        ("compile", plan.compile, False),
    ):
        if given != had:
            raise UsageError(f"PyTorch's hooks do not tell {what} {given!r}", f"verify with {what} {had}")
    return RECIPES[plan.precision]


def _in_layers(modules: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Bytes inside the layers and outside: which layer keeps what several share is a matter of who asks first."""
    found: Counter[str] = Counter()
    for name, size in modules:
        found[INSIDE if any(part.isdigit() for part in name.split(".")) else ELSEWHERE] += size
    return dict(found)
