"""Bytes that it takes to hold, to train, or to serve a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tfcalc.analysis.common import Subject, check_arguments, check_plans, refuse_idle, subject
from tfcalc.analysis.folds import Fold, Folded, of_answer
from tfcalc.answers.conventions_text import NOT_COUNTED, as_json, as_text
from tfcalc.answers.memory_base import (
    OF_BUFFERS,
    PARTS,
    Memory,
    called,
    memory_breakdown,
)
from tfcalc.core.component import Component
from tfcalc.core.measure import (
    SMALLEST_BUFFER,
    Passes,
    bytes_held,
    held,
    held_bytes,
    in_bytes,
    matmul_flops,
    params,
    stored,
    weight_bytes,
)
from tfcalc.core.traced import value_of
from tfcalc.defaults import assumed_dtype, own_format, resolve_dtype
from tfcalc.errors import UsageError
from tfcalc.model import legend, own_run, remembering
from tfcalc.plans import SFT, Serving, Training
from tfcalc.report import Entry, Footer, exact
from tfcalc.report.opening import total
from tfcalc.serving.weights import hold
from tfcalc.workload import AUTO, Conventions

if TYPE_CHECKING:
    from tfcalc.core.component import Cost
    from tfcalc.core.measure import Item
    from tfcalc.model import Model
    from tfcalc.report.opening import Way
    from tfcalc.serving.weights import WeightStorage
    from tfcalc.training.peaks import Peaks
    from tfcalc.workload import Workload


class StoredBytes:
    """The bytes of weights, of buffers, or of both, in the format of an answer."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __call__(self, memory: Any) -> int:
        """The number."""
        of = held_bytes if self.what == "all" else weight_bytes
        return exact(memory.question.node.component.total(of(memory.by.bits)))

    def of(self, memory: Any, path: str = "") -> Folded:
        """Tensor by tensor."""
        bits = memory.by.bits

        def items(cost: Cost) -> list[Item]:
            if self.what == "weights":
                return held(cost._replace(buffers=()), bits)
            if self.what == "all":
                return held(cost, bits)
            return [in_bytes(each.name, each.shape, max(bits, SMALLEST_BUFFER)) for each in cost.buffers]

        return Folded(Fold("memory", held_bytes(bits), of_answer(items)), memory, path)


PARTS_AT_REST: Mapping[str, Fold | StoredBytes] = {
    "bytes": StoredBytes("all"),
    "params": Fold("params", params, of_answer(stored)),
    "flops": Fold("flops", matmul_flops, of_answer(Passes(forward=True, elementwise=False).items)),
}
"""What the numbers of a component are sums of."""


ALL_BUT_BUFFERS = total("components[].bytes", less=Memory.buffers_bytes)


class AtRest(Memory):
    """The weights and buffers of a model, in one number format: nothing runs."""

    form = "at rest"
    constants: ClassVar[Mapping[str, object]] = {"phase": "at rest"}

    own_rules: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "total": (lambda memory: memory.whole.value, total(Memory.weights_bytes, Memory.buffers_bytes), PARTS),
        "weights": (StoredBytes("weights"), ALL_BUT_BUFFERS),
        "buffers": (total(Memory.total_bytes, less=Memory.weights_bytes), StoredBytes("buffers"), OF_BUFFERS),
    }

    def __init__(self, question: Subject, chosen: Conventions, depth: int | None = None) -> None:
        self.question, self.depth, self.chosen = question, depth, chosen

    @cached_property
    def by(self) -> Conventions:
        """The definitions, with the format that auto stands for."""
        return resolve_dtype(self.question.model, self.chosen)

    @property
    def model_(self) -> Model:
        """The model that is asked about."""
        return self.question.model

    @property
    def dtype_asked(self) -> str:
        """The number format that was asked for, or auto."""
        return self.chosen.dtype

    @property
    def title(self) -> str:
        """The quantity."""
        return f"of weights, in {self.by.dtype}"

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definitions with the number format of the weights."""
        return as_json("memory", self.question.run, self.by)

    @property
    def subtitle(self) -> str:
        """The model, and its format."""
        by = self.definitions
        return f"{called(self.model_)}, weights in {by.get('weights') or by['dtype']}, at rest"

    @cached_property
    def whole(self) -> Entry:
        """The breakdown."""
        held = held_bytes(self.by.bits)
        return self.question.entry(held, {"bytes": held}, self.depth)

    @property
    def legend(self) -> Mapping[str, str]:
        """The meaning of each letter of the breakdown."""
        return self.question.legend(self.whole)

    @property
    def footer(self) -> Footer:
        """Number format of the weights, and the reason for it."""
        by = self.by
        return _footer(
            (f"{by.dtype}, {by.bits} bits per weight", *assumed_dtype(self.model_, by.dtype)),
            tuple(as_text("memory", self.question.run, by)),
            chosen=self.chosen.dtype != AUTO,
        )

    def folds_of_part(self, entry: Entry, key: str) -> Iterator[Way]:
        """The items that a number of a component is the sum of."""
        if key in PARTS_AT_REST:
            yield PARTS_AT_REST[key].of(self, entry.path)


class InFormat(AtRest):
    """Weights and buffers of a model in a quantized format, scales and what is not quantized among them."""

    own_rules: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **AtRest.own_rules,
        "weights": (lambda memory: memory.bytes_of_weights, ALL_BUT_BUFFERS),
        "buffers": (total(Memory.total_bytes, less=Memory.weights_bytes), OF_BUFFERS),
    }

    def __init__(self, question: Subject, name: str, chosen: Conventions, depth: int | None = None) -> None:
        super().__init__(question, chosen, depth)
        self.name = name

    @cached_property
    def recipe(self) -> WeightStorage:
        """Storage of the weights."""
        from tfcalc.serving.stored import recipe_at_rest

        return recipe_at_rest(self.model_, self.name)

    @cached_property
    def _stored(self) -> tuple[Component, Component]:
        """Weights and buffers, as trees of tensors."""
        from tfcalc.serving.stored import buffers_of, tree_for

        model, run = self.model_, self.question.run
        tree = remembering(model).tree(remembering(run))
        return hold(tree_for(self.recipe, model, run, tree), self.recipe), buffers_of(tree, self.recipe)

    @property
    def bytes_of_weights(self) -> int:
        """Without the buffers."""
        return value_of(self._stored[0].total(bytes_held))

    @cached_property
    def _breakdown(self) -> tuple[Entry, frozenset[str]]:
        stored, buffers = self._stored
        parts = (*stored.parts, *([buffers] if buffers.own.held else []))
        return memory_breakdown(stored._replace(parts=parts), self.depth)

    @cached_property
    def whole(self) -> Entry:
        """The breakdown."""
        return self._breakdown[0]

    @property
    def legend(self) -> Mapping[str, str]:
        """The meaning of each letter of the breakdown."""
        return legend(self._breakdown[1], self.model_, self.question.run)

    @property
    def title(self) -> str:
        """The quantity."""
        return f"of weights, in {self.recipe.format.name}"

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definitions with the format of the weights, and that of the tensors which are not quantized."""
        return {
            "phase": "at rest",
            "weights": self.recipe.format.name,
            "unquantized": self.recipe.dtype,
            "units": self.chosen.units,
            "not_counted": NOT_COUNTED,
        }

    @property
    def footer(self) -> Footer:
        """Format of the weights, and its source."""
        name, dtype = self.recipe.format.name, self.recipe.dtype
        return _footer(
            (f"tensors that {name} leaves unquantized in {dtype}",),
            (f"{self.recipe.format.source}; unquantized tensors in {dtype}", f"not counted: {NOT_COUNTED}"),
            chosen=bool(self.name),
        )

    def folds_of_part(self, _entry: Entry, _key: str) -> Iterator[Way]:
        """Return no items: each tensor is in a format of its own."""
        return iter(())


def _footer(assumes: tuple[str, ...], assumptions: tuple[str, ...], *, chosen: bool) -> Footer:
    """Return the footer of the memory of a model at rest; no training goes with a format that was ``chosen``."""
    return Footer(
        assumes,
        not_counted="gradients, optimizer, activations, KV cache, CUDA context",
        see_also=(*(() if chosen else ("--train",)), "--serve", "--gpu h100", "--assumptions"),
        assumptions=assumptions,
    )


def memory_of(
    model: Model,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    weights: str | None = None,
    depth: int | None = None,
    peaks: Peaks | None = None,
) -> Memory:
    """Return the answer of :func:`tfcalc.memory`, of which nothing is found before it is read.

    ``peaks`` are those of the model that other answers have found. Raises as :func:`tfcalc.memory` for what cannot be
    asked.
    """
    by = Conventions() if conventions is None else conventions
    check_arguments(model, workload, by)
    check_plans(training, serving)
    if training is not None or (workload is not None and workload.training):
        from tfcalc.answers.training_memory import TrainingMemory

        if serving is not None:
            raise UsageError("training and serving cannot be combined", "choose one")
        if by.dtype != AUTO:
            raise UsageError(f"--dtype {by.dtype} has no effect on training", "give --precision")
        if weights:
            raise UsageError(f"--weights {weights} has no effect on training", "give --precision")
        run = own_run(model, workload).replaced(phase="train")
        if training is not None and training.method != SFT:
            from tfcalc.answers.method_memory import MethodMemory

            return MethodMemory(model, run, training, by, depth, peaks)
        return TrainingMemory(model, run, training or Training(), by, depth, peaks)
    if serving is not None:
        from tfcalc.answers.serving_memory import ServingMemory

        return ServingMemory(model, own_run(model, workload), serving, by, depth)
    if workload is not None:
        refuse_idle(workload, ("seq_len", "source_len"), "on a model at rest")
    return _at_rest(model, by, weights, depth)


def _at_rest(model: Model, by: Conventions, weights: str | None, depth: int | None) -> AtRest:
    """The bytes of weights and buffers, in ``by.dtype`` or in a format of ``weights``.

    An empty format is that which the config states. Raises InvalidModel, and UsageError for a format that is not known.
    """
    question = subject(model, None, by)
    if weights and by.dtype != AUTO:
        fact = f"--dtype {by.dtype} and --weights {weights} both give the format"
        raise UsageError(fact, "leave one of them out")
    own = own_format(model) if by.dtype == AUTO else None
    if weights or (own and not own.format.plain):
        return InFormat(question, weights or "", by, depth)
    return AtRest(question, by, depth)
