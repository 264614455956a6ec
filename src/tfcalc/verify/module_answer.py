"""The answer of ``verify --module``: a person's own class, tensor by tensor, beside tfcalc's count."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from tfcalc.answers.conventions_text import PARAMETERS
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.declared import (
    LAST,
    Key,
    Record,
    Told,
    When,
    boolean,
    by_name,
    choice,
    integer,
    integers,
    optional,
    record,
    records,
    text,
    texts,
)
from tfcalc.report.opening import Rule, Way, found, given, ratio, total
from tfcalc.report.sheet import Cell, Column, Share, Sheet
from tfcalc.units import short_bytes
from tfcalc.verify.module_parts import TorchParameter, differences
from tfcalc.verify.verification import ComparedRow, CountedTwice

MOST_NAMES = 4
"""Tensors without a gradient that the verdict names."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass of it, and a backward pass from the sum of all results.

    ``expected`` are the FLOPs that tfcalc has for the same, None where nothing is compared.
    """

    inputs: tuple[Mapping[str, object], ...]
    outputs: tuple[Mapping[str, object], ...]
    flops: int
    backward: int
    by_module: tuple[Mapping[str, Any], ...]
    expected: int | None
    device: str


class StepOfModule(NamedTuple):
    """A training step: the most bytes that are live at once, in which phase, and how many of each kind."""

    peak: int
    phase: str
    optimizer: str
    bytes: Mapping[str, int]


HAD = Told(lambda one, *_: found(f"as the class has it: {one.within.reference}"))
TAKEN = Told(lambda *_: given("the shape of what the class was called with: --inputs, or its own arguments"))


def _shape_of(origin: Told) -> Key[tuple[int, ...]]:
    """The shape of a tensor that the process told of."""
    return integers("its shape", lambda one: one["shape"], origin)


class ModuleInput(Record):
    """An argument of forward."""

    name = text("name of the argument", lambda one: one["name"])
    shape = _shape_of(TAKEN)
    kind = choice(("float", "ids", "mask", "none"), "vectors, token ids, a mask, or None", lambda one: one["kind"])


class ModuleOutput(Record):
    """A tensor that forward returned."""

    name = text("its place in the result; empty for the result itself", lambda one: one["name"])
    shape = _shape_of(HAD)


class ModuleBuffer(Record):
    """A tensor that is stored and is no parameter."""

    name = text("its name in the module", lambda one: one["name"])
    shape = _shape_of(HAD)


def _size(tensor: ModuleTensor) -> Rule:
    return ratio(*(f".shape.{axis}" for axis in range(len(tensor.shape))))


class ModuleTensor(Record):
    """A parameter of the class."""

    name = text("its name in the module", lambda one: one.name)
    shape = integers("its shape", lambda one: one.shape, HAD)
    params = integer("how many numbers it has", lambda one: one.params, Told(_size))
    roles = texts("what it is: W_Q, b_O, γ, E, …", lambda one: one.roles)
    meaning = text("the same in words", lambda one: one.meaning)
    stacked = boolean("whether each role is a part of it", lambda one: one.stacked)
    used: Key[bool | None] = Key(
        {"type": ["boolean", "null"], "description": "whether the pass used it; null without a pass"},
        lambda one: one.used,
    )
    trained = boolean("whether it requires a gradient", lambda one: one.trained)
    gradient: Key[bool | None] = Key(
        {"type": ["boolean", "null"], "description": "whether it gets one; null without a pass"},
        lambda one: one.gradient,
    )


def _sum_of_tensors(check: ModuleCheck) -> Rule:
    return total(*(f"module.tensors.{place}.params" for place in range(len(check.parameters))))


def _without_gradient(module: OwnModule) -> Way:
    check: ModuleCheck = module.within
    idle = [f"module.tensors.{place}.params" for place, one in enumerate(check.parameters) if one in check.idle]
    return total(*idle) if idle else given("0: every parameter that is trained gets a gradient")


class ModuleFlops(Record):
    """A module inside it, and what it computes itself."""

    name = text("its name in the module; empty for the class itself", lambda one: one["name"])
    forward_flops = integer(
        "FLOPs of its own matrix products, without those of modules that it calls",
        lambda one: one["flops"],
        Told(lambda one: found(f"counted in the pass by {one.within.reference}")),
    )


PARTS_OF_STEP = ("parameters", "buffers", "gradients", "optimizer", "activations", "temporary", "inputs")


def _at_the_peak(kind: str, meaning: str) -> Key[int]:
    """Bytes of a kind of memory when most is live."""
    return integer(meaning, lambda step: step.bytes[kind], found(f"{TRACKED}, without data"))


TRACKED = "PyTorch's MemTracker over a training step"


class ModuleStep(Record):
    """Memory of a training step, when most of it is live."""

    peak_bytes = integer(
        "the most bytes that are live at once",
        lambda step: step.peak,
        total(*(f".{one}_bytes" for one in PARTS_OF_STEP)),
    )
    phase = choice(("forward", "backward", "optimizer"), "when that is", lambda step: step.phase)
    optimizer = text("the optimizer", lambda step: step.optimizer)
    parameters_bytes = _at_the_peak("parameters", "the parameters, in the format that the class gives them")
    buffers_bytes = _at_the_peak("buffers", "tensors that are stored and no parameters")
    gradients_bytes = _at_the_peak("gradients", "gradients that there are by then")
    optimizer_bytes = _at_the_peak("optimizer", "the optimizer's states")
    activations_bytes = _at_the_peak("activations", "what is saved for backward, and the module's results")
    temporary_bytes = _at_the_peak("temporary", "tensors between operations of backward")
    inputs_bytes = _at_the_peak("inputs", "what forward was given, and the rest")


class OwnModule(Record):
    """A person's own class, and one pass through it."""

    place = text("its file and name, as given", lambda check: check.place)
    class_ = text("its name", lambda check: check.name)
    arguments = by_name(
        ("integer", "number", "string", "boolean", "null"),
        "arguments of its constructor, defaults among them",
        lambda check: dict(check.arguments),
        Told(lambda _, name: given(f"{name}, as the class was called with it: --args, or its default")),
    )
    target = text("what it was compared with; empty without --against", lambda check: check.target)
    params = integer(
        "its parameters, shared ones once",
        lambda check: check.total,
        Told(lambda module: _sum_of_tensors(module.within)),
    )
    params_without_gradient = optional(
        "parameters that would be trained and get no gradient; null without PyTorch",
        lambda check: sum(one.params for one in check.idle) if check.run else None,
        Told(_without_gradient),
    )
    forward_flops = optional(
        "FLOPs of its matrix products in one forward pass",
        lambda check: check.run and check.run.flops,
        Told(lambda one: found(f"the matrix products of one pass, counted by the reference: {one.within.reference}")),
    )
    backward_flops = optional(
        "FLOPs of its matrix products in one backward pass",
        lambda check: check.run and check.run.backward,
        Told(lambda one: found(f"the matrix products of autograd, counted by {one.within.reference}")),
    )
    target_forward_flops = optional(
        "the same of the target by tfcalc, where its inputs are sequences of one length",
        lambda check: check.run and check.run.expected,
        Told(lambda one: found(f"{one.target} on the same inputs by tfcalc; tfcalc explain {one.target} --of flops")),
    )
    device = choice(
        ("meta", "cpu", None),
        "where it was run: without data (meta), or with data (cpu)",
        lambda check: check.run and check.run.device,
    )
    inputs = records(ModuleInput, "what forward was given", lambda check: check.run.inputs if check.run else ())
    outputs = records(
        ModuleOutput, "the tensors that forward returned", lambda check: check.run.outputs if check.run else ()
    )
    flops_by_module = records(
        ModuleFlops,
        "the modules that multiply matrices in forward",
        lambda check: check.run.by_module if check.run else (),
    )
    step = record(
        ModuleStep,
        "memory of a training step, with --of memory",
        lambda check: check.step,
        when=When(lambda check: check.step is not None),
    )
    tensors = records(ModuleTensor, "its parameters", lambda check: check.parameters)
    buffers = records(ModuleBuffer, "what it stores besides", lambda check: check.buffers)


COMPARED = When(lambda check: check.rows)


class ModuleCheck(CountedTwice):
    """The verdict on a class, and what it rests on; ``rows`` compare it role by role, where it is compared."""

    form = "--module without --against"
    lacks: ClassVar[Sequence[str]] = ("total_params",)

    total_params = integer(
        "parameters by tfcalc",
        lambda check: check.rows[-1].counted,
        Told(lambda check: found(f"{check.target} by tfcalc; tfcalc explain {check.target} opens it")),
        when=COMPARED,
    )
    reference_params = integer(
        "parameters by the reference", lambda check: check.total, Told(_sum_of_tensors), when=COMPARED
    )
    module = record(OwnModule, "your own class", lambda check: check, place=LAST)

    definitions: ClassVar[Mapping[str, object]] = {"parameters": PARAMETERS}

    def __init__(
        self,
        place: str,
        name: str,
        arguments: Mapping[str, object],
        parameters: tuple[TorchParameter, ...],
        buffers: tuple[Mapping[str, object], ...],
        torch: str,
        run: Pass | None,
        target: str,
        heading: str,
        rows: tuple[ComparedRow, ...],
        model: Mapping[str, object],
        notes: tuple[str, ...] = (),
        of: str = "params",
        step: StepOfModule | None = None,
    ) -> None:
        self.of, self.step = of, step
        self.place, self.name, self.arguments, self.parameters = place, name, arguments, parameters
        self.buffers, self.run, self.target, self.heading = buffers, run, target, heading
        self.rows, self.described, self.notes = rows, model, notes
        self.reference = _counted_by(torch)

    @property
    def subjects(self) -> str:
        """Number of tensors, as text."""
        return f"{len(self.parameters):,} tensors"

    @property
    def total(self) -> int:
        """Its parameters, those that several of its modules share once."""
        return sum(one.params for one in self.parameters)

    @property
    def idle(self) -> tuple[TorchParameter, ...]:
        """Parameters that would be trained and get no gradient."""
        return tuple(one for one in self.parameters if one.idle)

    @property
    def equal(self) -> bool:
        """Return whether the count equals tfcalc's, and every parameter gets a gradient."""
        return not self.idle and (not self.rows or not self.rows[-1].difference)

    @property
    def further_differences(self) -> list[str]:
        """Differences in words."""
        found = differences(self.rows) if self.rows and self.rows[-1].difference else []
        if self.idle:
            names = ", ".join(one.name for one in self.idle[:MOST_NAMES])
            more = f" and {len(self.idle) - MOST_NAMES} more" if len(self.idle) > MOST_NAMES else ""
            size = sum(one.params for one in self.idle)
            found.append(f"{size:,} parameters get no gradient: {names}{more}")
        return found

    @property
    def in_a_line(self) -> str:
        """One line."""
        if self.of == "memory" and self.step is not None:
            return f"{short_bytes(self.step.peak, 'iec')} peak of a training step, in {self.step.phase}"
        if self.of == "flops" and self.run is not None:
            return f"{self.run.flops:,} FLOPs forward, {self.run.backward:,} backward (matrix products)"
        counted = f"{self.total:,} parameters"
        if not self.rows:
            said = [*self.disagreements] or ["every one gets a gradient"] * all(one.gradient for one in self.parameters)
            return "; ".join([f"{counted} in {len(self.parameters):,} tensors", *said])
        expected = self.rows[-1].counted
        if self.agrees:
            return f"agrees: {len(self.parameters):,} tensors, {counted} equal to {self.target}"
        if expected == self.total:
            return f"DIFFERS: {counted} are those of {self.target}, but {'; '.join(self.disagreements)}"
        less = expected - self.total
        apart = f"{abs(less):,} {'fewer' if less > 0 else 'more'} than the {expected:,} of {self.target}"
        return "; ".join([f"DIFFERS: {counted}, {apart}", *self.disagreements])

    def sheet(self) -> Sheet:
        """A row per tensor, per module that multiplies, or per kind of memory; equal ones of a list share a row."""
        if self.of == "memory" and self.step is not None:
            return self._sheet(
                [Column("at the peak", numeric=False), Column("bytes")],
                [[kind, size] for kind, size in self.step.bytes.items() if size],
                self.step.peak,
                [*self._called(), f"Optimizer: {self.step.optimizer}. Loss: the sum of all outputs"],
                f"{TRACKED} on CPU tensors without data; CUDA's workspaces and its allocator's rounding are not in it",
            )
        if self.of == "flops" and self.run is not None:
            folded = folds([(str(one["name"]), (one["flops"],)) for one in self.run.by_module])
            return self._sheet(
                [Column("module", numeric=False), Column("forward FLOPs"), Column("share")],
                [
                    [name or self.name, flops * times, Share(flops * times, self.run.flops)]
                    for name, times, (flops,) in folded
                ],
                self.run.flops,
                self._called(),
                self.reference,
            )
        return self._of_tensors()

    def _sheet(
        self, columns: list[Column], rows: list[list[Cell]], quiet: int, notes: list[str], assumption: str
    ) -> Sheet:
        return Sheet(
            title=self.verdict,
            subtitle=f"{self.name}({', '.join(f'{name}={value}' for name, value in self.arguments.items())})",
            columns=columns,
            rows=rows,
            quiet=quiet,
            notes=notes,
            assumptions=[assumption],
        )

    def _of_tensors(self) -> Sheet:
        trained = any(one.gradient is not None for one in self.parameters)
        columns = [
            Column("tensor", numeric=False),
            Column("shape", numeric=False),
            Column("parameters"),
            Column("what", numeric=False, folds=True),
            *([Column("gradient", numeric=False)] if trained else []),
        ]
        rows: list[list[Cell]] = []
        tensors = [
            (one.name, (one.shape, one.params, one.meaning, one.trained, one.gradient)) for one in self.parameters
        ]
        for name, times, (shape, params, meaning, learns, got) in folds(tensors):
            gradient = "frozen" if not learns else "yes" if got else "none"
            size = f"{times} of " * (times > 1) + _shape(shape)
            rows.append([name, size, params * times, meaning, *([gradient] if trained else [])])
        return Sheet(
            title=self.verdict,
            subtitle=f"{self.name}({', '.join(f'{name}={value}' for name, value in self.arguments.items())})"
            + (f" beside {self.heading}" if self.heading else ""),
            columns=columns,
            rows=rows,
            quiet=self.total,
            notes=[*self._of_pass(), *self.notes],
            assumptions=[self.reference],
        )

    def _of_pass(self) -> list[str]:
        if self.run is None:
            return ["No pass was run: a class without torch.nn.Module; arrays of its attributes"]
        beside = ""
        if self.run.expected is not None:
            same = self.run.expected == self.run.flops
            beside = f", as {self.target}" if same else f"; {self.target} has {self.run.expected:,}"
        held = [f"{one['name']} {_shape(one['shape'])}" for one in self.buffers]
        return [
            *self._called(),
            f"FLOPs of this pass (matrix products): {self.run.flops:,}{beside}",
            *([f"Buffers, which are no parameters: {', '.join(held)}"] if held else []),
        ]

    def _called(self) -> list[str]:
        """Line on what forward took and made."""
        assert self.run is not None
        taken = ", ".join(f"{one['name']} {_of_kind(one)}" for one in self.run.inputs)
        made = ", ".join(f"{one['name']} {_shape(one['shape'])}".strip() for one in self.run.outputs)
        return [f"Forward: {taken} -> {made}"]


NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
"""The place of a module in a list, in its name: ``blocks.0.up``."""


def folds(named: Sequence[tuple[str, Any]]) -> list[tuple[str, int, Any]]:
    """Rows of equal values whose names differ in a number alone: one row, and how many it stands for.

    >>> folds([("blocks.0.up", 8), ("blocks.0.down", 4), ("blocks.1.up", 8), ("blocks.1.down", 4), ("head", 2)])
    [('blocks.[0-1].up', 2, 8), ('blocks.[0-1].down', 2, 4), ('head', 1, 2)]
    """
    alike: dict[tuple[str, Any], list[str]] = {}
    for name, values in named:
        alike.setdefault((NUMBER.sub("*", name), values), []).append(name)
    return [(_in_one(names), len(names), values) for (_, values), names in alike.items()]


def _in_one(names: Sequence[str]) -> str:
    """One name for all of these: ``blocks.[0-5].up`` where they are those from 0 to 5, else ``blocks.*.up``."""
    if len(names) == 1:
        return names[0]
    places = [[int(one) for one in NUMBER.findall(name)] for name in names]
    ends = [(min(each), max(each)) for each in zip(*places, strict=True)]
    if prod(high - low + 1 for low, high in ends) != len(names):
        return NUMBER.sub("*", names[0])
    spans = iter([str(low) if low == high else f"[{low}-{high}]" for low, high in ends])
    return NUMBER.sub(lambda _: next(spans), names[0])


def _counted_by(torch: str) -> str:
    return f"PyTorch {torch}: named_parameters, FlopCounterMode, autograd" if torch else "arrays of its attributes"


def _of_kind(one: Mapping[str, object]) -> str:
    if one["kind"] == "none":
        return "None"
    return _shape(one["shape"]) + ("" if one["kind"] == "float" else f" {one['kind']}")


def _shape(shape: object) -> str:
    assert isinstance(shape, Sequence)
    return " × ".join(map(str, shape)) or "1"
