"""The answer of ``verify --module``: a person's own class, tensor by tensor, beside tfcalc's count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tfcalc.answers.conventions_text import PARAMETERS
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
from tfcalc.report.sheet import Cell, Column, Sheet
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
    expected: int | None
    device: str


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
    ) -> None:
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
        """A row per tensor."""
        trained = any(one.gradient is not None for one in self.parameters)
        columns = [
            Column("tensor", numeric=False),
            Column("shape", numeric=False),
            Column("parameters"),
            Column("what", numeric=False, folds=True),
            *([Column("gradient", numeric=False)] if trained else []),
        ]
        rows: list[list[Cell]] = []
        for one in self.parameters:
            gradient = "frozen" if not one.trained else "yes" if one.gradient else "none"
            rows.append([one.name, _shape(one.shape), one.params, one.meaning, *([gradient] if trained else [])])
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
        taken = ", ".join(f"{one['name']} {_of_kind(one)}" for one in self.run.inputs)
        made = ", ".join(f"{one['name']} {_shape(one['shape'])}".strip() for one in self.run.outputs)
        beside = ""
        if self.run.expected is not None:
            same = self.run.expected == self.run.flops
            beside = f", as {self.target}" if same else f"; {self.target} has {self.run.expected:,}"
        held = [f"{one['name']} {_shape(one['shape'])}" for one in self.buffers]
        return [
            f"Forward: {taken} -> {made}",
            f"FLOPs of this pass (matrix products): {self.run.flops:,}{beside}",
            *([f"Buffers, which are no parameters: {', '.join(held)}"] if held else []),
        ]


def _counted_by(torch: str) -> str:
    return f"PyTorch {torch}: named_parameters, FlopCounterMode, autograd" if torch else "arrays of its attributes"


def _of_kind(one: Mapping[str, object]) -> str:
    if one["kind"] == "none":
        return "None"
    return _shape(one["shape"]) + ("" if one["kind"] == "float" else f" {one['kind']}")


def _shape(shape: object) -> str:
    assert isinstance(shape, Sequence)
    return " × ".join(map(str, shape)) or "1"
