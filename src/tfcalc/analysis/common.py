"""Steps that every question takes first: check, build the tree, and build its symbolic twin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tfcalc.core.component import Component, Measure, Node
from tfcalc.core.measure import matmul_flops, params
from tfcalc.dimensions import check_sizes, facet
from tfcalc.errors import InvalidModel, UsageError, nearest
from tfcalc.model import asked_run, default_run, legend, with_symbols
from tfcalc.printable import quoted
from tfcalc.report import Entry, breakdown
from tfcalc.tape.groups import apart
from tfcalc.workload import Conventions, Workload

if TYPE_CHECKING:
    from collections.abc import Collection

    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training
    from tfcalc.training.adapters import Tuning


FLOPS = "FLOPs"
"""What an error calls them."""
ALWAYS: Mapping[str, Measure] = {"params": params, "flops": matmul_flops}
"""What stands at every component of the JSON, whichever question was asked."""


class Subject:
    """A model on a workload, as a tree of numbers, and as the same tree of symbols, which is built when it is read."""

    def __init__(
        self, model: Model, run: Workload, node: Node, tuning: Tuning | None, twin: Callable[[], Component]
    ) -> None:
        self.model, self.run, self.node, self.tuning, self._twin = model, run, node, tuning, twin

    @cached_property
    def twins(self) -> tuple[Node, Node]:
        """The tree of numbers and that of symbols, part by part."""
        forms = self._twin()
        return apart(self.node.component, forms).root(), forms.root()

    def entry(self, measure: Measure, extras: Mapping[str, Measure], depth: int | None) -> Entry:
        """The breakdown of one quantity, down to the layers, or as far as any ``depth`` may reach."""
        return breakdown(*self.twins, measure, {**ALWAYS, **extras}, inside_blocks=depth is not None)

    def legend(self, entry: Entry) -> dict[str, str]:
        """Return the meanings of the letters in this breakdown."""
        used = frozenset().union(*(part.formula.free_symbols for part in entry.walk()))
        return legend(used, self.model, self.run) | self.ranks(used)

    def ranks(self, used: frozenset[str]) -> dict[str, str]:
        """Return the meaning of the letter of the adapters' rank, if it is used."""
        known = {} if self.tuning is None else self.tuning.legend
        return {letter: meaning for letter, meaning in known.items() if letter in used}


def run_tree(model: Model, workload: Workload, plan: Training | None = None) -> Component:
    """The model's tree on this workload, trained by this ``plan``, with what backward recomputes marked."""
    root = model.tree(workload)
    if plan is not None:
        from tfcalc.training.adapters import tuned

        root = tuned(root, plan)
    if not workload.training:
        return root
    from tfcalc.core.recomputation import as_run, check_modules, modules_in, recomputing

    root = as_run(root) if workload.convolutions == "run" else root
    modules = workload.named_modules
    if modules:
        check_modules(modules, modules_in(root), model.summary)
    return recomputing(root, workload.recompute, workload.every, early_stop=workload.early_stop, modules=modules)


def model_of(model: Model | str) -> Model:
    """Return the model of a name, or the model itself. Raises as :func:`tfcalc.load`."""
    if not isinstance(model, str):
        return model
    from tfcalc.catalog import load  # a room above: it knows all models by name

    return load(model)


TRAIN = "train"
"""Keyword that asks about a training step, as ``--train`` does."""


def run_of(model: Model, workload: Workload | int | None, words: Mapping[str, Any]) -> Workload | None:
    """Return a workload with these fields, of which a length alone may be given; ``train=True`` is its phase.

    Raises UsageError for a word that is none of its fields.
    """
    known = {item.name for item in fields(Workload)}
    if unknown := [word for word in words if word not in known | {TRAIN}]:
        raise UsageError(f"{unknown[0]} is no keyword of this question", nearest(unknown[0], sorted({*known, TRAIN})))
    if not isinstance(workload, Workload | int | None):
        raise _no_workload(workload)
    run = None if isinstance(workload, int) else workload
    if run is not None:
        check_sizes(run)
    given = {word: value for word, value in words.items() if word != TRAIN}
    given |= {"phase": "train"} if words.get(TRAIN) and (run is None or run.phase == Workload().phase) else {}
    given |= {"seq_len": workload} if isinstance(workload, int) else {}
    return (run or default_run(model)).replaced(**given) if given else run


def check_arguments(model: Model, workload: Workload | None, conventions: Conventions | None) -> None:
    """Raise InvalidModel where one of these is something else, or holds what is no size and no known word."""
    if not hasattr(model, "tree"):
        raise InvalidModel(f"{quoted(model)} is not a model", "give tfcalc.Transformer(…), or tfcalc.load(name)")
    if not isinstance(workload, Workload | None):
        raise _no_workload(workload)
    if not isinstance(conventions, Conventions | None):
        raise InvalidModel(f"{quoted(conventions)} are not conventions", "give tfcalc.Conventions(…)")
    for given in (workload, conventions):
        if given is not None:
            check_sizes(given)


def _no_workload(given: object) -> InvalidModel:
    return InvalidModel(f"{quoted(given)} is not a workload", "give tfcalc.Workload(…)")


def check_plans(training: Training | None, serving: Serving | None) -> None:
    """Raise InvalidModel where a plan for memory is something else, or holds what is no size and no known word."""
    from tfcalc.plans import Serving, Training

    for given, kind in ((training, Training), (serving, Serving)):
        if not isinstance(given, kind | None):
            raise InvalidModel(f"{quoted(given)} is not a plan", f"give tfcalc.{kind.__name__}(…)")
        if given is not None:
            check_sizes(given)


def subject(
    model: Model,
    workload: Workload | None,
    conventions: Conventions | None = None,
    training: Training | None = None,
    of: str = "",
    *,
    general: bool = False,
) -> Subject:
    """Check the model against the workload and build its trees, with what ``training`` adds and freezes.

    ``general`` gives a symbol of its own to each size that follows from others.

    Raises InvalidModel; UsageError where a field of ``training`` changes nothing ``of`` what is asked for, or one of
    the workload no FLOPs.
    """
    check_arguments(model, workload, conventions)
    workload = asked_run(model, workload).of_flops
    model.check(workload)
    if of == FLOPS:
        refuse_idle_in_flops(model, workload)
    tuning = tuning_for(model, training, of)
    plan, symbolic = (None, None) if tuning is None else (tuning.plan, tuning.symbolic)

    def twin() -> Component:
        return run_tree(with_symbols(model, general=general), with_symbols(workload, general=general), symbolic)

    return Subject(model, workload, run_tree(model, workload, plan).root(), tuning, twin)


def tuning_for(model: Model, training: Training | None, of: str) -> Tuning | None:
    """Return the tuning of the model's trained part; None where all of it is trained. Raises as :func:`subject`."""
    if training is None:
        return None
    from tfcalc.training.adapters import TUNING, tuning_of  # few ask for it

    check_plans(training, None)
    twice = training.dora and of == FLOPS  # DoRA computes what dropout leaves of a map's input a second time
    return tuning_of(model, training, of, (*TUNING, "lora_dropout") if twice else TUNING)


TRAINING = frozenset(
    {"batch_size", "seq_len", "source_len", "phase", "kernel", "recompute", "recompute_modules", "dropout"}
)
"""What changes the memory of a training step."""
MEGATRON = TRAINING - {"source_len"}
"""The same of Megatron-LM's: a stack that reads one sequence; its paper of 2022 has one kind of attention."""
SERVING = frozenset({"seq_len", "source_len", "kernel"})
"""What changes the memory of serving; its plan has the rest."""
PAGED_SERVING = SERVING - {"kernel"}
"""The same with a paged cache, which has kernels of its own."""
REMEDIES = {
    "cached": "give --context",
    "batch_size": "give --concurrency",
    "phase": "leave it out",
}
"""What to say in serving instead."""


def refuse_idle(workload: Workload, effective: Collection[str], where: str) -> None:
    """Raise UsageError for a field that is not at its default and changes nothing ``where`` it is given."""
    instead = REMEDIES if effective in (SERVING, PAGED_SERVING) else {}
    for item in fields(workload):
        value = getattr(workload, item.name)
        if value != item.default and item.name not in effective:
            raise idle_error(item.name, value, where, instead.get(item.name, ""))


def refuse_idle_source(model: Model, workload: Workload) -> None:
    """Raise UsageError for a source's length of a model that reads no source."""
    if workload.source_len is not None and not _changes(model, workload, "source_len"):
        raise idle_error("source_len", workload.source_len, f"in {model.summary}", "it reads no source; leave it out")


IN_BACKWARD = ("kernel", "dropout", "input_gradient", "convolutions")
"""What changes the FLOPs of a backward pass alone."""
STRUCTURAL = ("latent", "experts", "source_len")
"""What changes the FLOPs of models that have such a part."""
OF_FLOPS = (*IN_BACKWARD, *STRUCTURAL, "seq_len", "attention", "logits", "recompute", "recompute_modules", "early_stop")
"""What may change FLOPs, or may not: by the model, the phase, and what else is asked for."""


def refuse_idle_in_flops(model: Model, workload: Workload) -> None:
    """Raise UsageError for a part of models that the workload has another way of, where this model has no such part."""
    for item in fields(workload):
        value = getattr(workload, item.name)
        if item.name in STRUCTURAL and value != item.default and not _changes(model, workload, item.name):
            raise idle_error(item.name, value, f"on the FLOPs of {model.summary}")


def _changes(model: Model, workload: Workload, name: str) -> bool:
    """Return True if a field makes another tree than its default, at a length at which it might."""
    default = next(item.default for item in fields(workload) if item.name == name)
    probe = workload if workload.decoding else workload.replaced(seq_len=workload.seq_len + 1)
    other = {name: probe.seq_len + 1 if name == "source_len" else default}
    return model.tree(probe) != model.tree(probe.replaced(**other))


def idle_error(name: str, value: object, where: str, remedy: str = "") -> UsageError:
    """``--experts all has no effect on the memory of training; leave it out``."""
    flag = next(known.flags[0] for item in fields(Workload) if item.name == name and (known := facet(item)))
    called = flag.split("/")[value is False] if isinstance(value, bool) else f"{flag} {value}"
    return UsageError(f"{called} has no effect {where}", remedy or "leave it out")
