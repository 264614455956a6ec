"""The answer of ``verify --module``: a person's own class, tensor by tensor, beside tfcalc's count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfcalc.answers.conventions_text import PARAMETERS
from tfcalc.report import SCHEMA_VERSION
from tfcalc.report.sheet import Cell, Column, Sheet
from tfcalc.verify.module_parts import TorchParameter, differences
from tfcalc.verify.verification import ComparedRow

if TYPE_CHECKING:
    from tfcalc.verify.opened import OfModule

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


@dataclass(frozen=True, slots=True)
class ModuleCheck:
    """The verdict on a class, and what it rests on; ``rows`` compare it role by role, where it is compared."""

    place: str
    name: str
    arguments: Mapping[str, object]
    parameters: tuple[TorchParameter, ...]
    buffers: tuple[Mapping[str, object], ...]
    torch: str
    run: Pass | None
    target: str
    heading: str
    rows: tuple[ComparedRow, ...]
    model: Mapping[str, object]
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Its parameters, those that several of its modules share once."""
        return sum(one.params for one in self.parameters)

    @property
    def idle(self) -> tuple[TorchParameter, ...]:
        """Parameters that would be trained and get no gradient."""
        return tuple(one for one in self.parameters if one.idle)

    @property
    def agrees(self) -> bool:
        """Return whether the count equals tfcalc's, and every parameter gets a gradient."""
        return not self.idle and (not self.rows or not self.rows[-1].difference)

    @property
    def disagreements(self) -> list[str]:
        """Differences in words."""
        found = differences(self.rows) if self.rows and self.rows[-1].difference else []
        if self.idle:
            names = ", ".join(one.name for one in self.idle[:MOST_NAMES])
            more = f" and {len(self.idle) - MOST_NAMES} more" if len(self.idle) > MOST_NAMES else ""
            size = sum(one.params for one in self.idle)
            found.append(f"{size:,} parameters get no gradient: {names}{more}")
        return found

    @property
    def verdict(self) -> str:
        """One line."""
        counted = f"{self.total:,} parameters"
        if not self.rows:
            said = self.disagreements or ["every one gets a gradient"] * all(one.gradient for one in self.parameters)
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
            assumptions=[_counted_by(self.torch)],
        )

    def _of_pass(self) -> list[str]:
        if self.run is None:
            return ["No pass was run: a class without torch.nn.Module; arrays of its attributes"]
        taken = ", ".join(f"{one['name']} {_of_kind(one)}" for one in self.run.inputs)
        given = ", ".join(f"{one['name']} {_shape(one['shape'])}".strip() for one in self.run.outputs)
        beside = ""
        if self.run.expected is not None:
            same = self.run.expected == self.run.flops
            beside = f", as {self.target}" if same else f"; {self.target} has {self.run.expected:,}"
        held = [f"{one['name']} {_shape(one['shape'])}" for one in self.buffers]
        return [
            f"Forward: {taken} -> {given}",
            f"FLOPs of this pass (matrix products): {self.run.flops:,}{beside}",
            *([f"Buffers, which are no parameters: {', '.join(held)}"] if held else []),
        ]

    def opener(self) -> OfModule:
        """Origins of its numbers."""
        from tfcalc.verify.opened import OfModule

        return OfModule(self, _counted_by(self.torch))

    def to_dict(self) -> dict[str, object]:
        """JSON object of the answer."""
        compared: dict[str, object] = {}
        if self.rows:
            compared = {"total_params": self.rows[-1].counted, "reference_params": self.total}
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "verify",
            "model": dict(self.model),
            "conventions": {"parameters": PARAMETERS, "reference": _counted_by(self.torch)},
            "agrees": self.agrees,
            "verdict": self.verdict,
            "compared": f"{len(self.parameters):,} tensors",
            "disagreements": self.disagreements,
            **compared,
            "components": [
                {
                    "path": row.path,
                    "params": row.counted,
                    "reference_params": row.reference,
                    "difference": row.difference,
                }
                for row in self.rows[:-1]
            ],
            "module": {
                "place": self.place,
                "class": self.name,
                "arguments": dict(self.arguments),
                "target": self.target,
                "params": self.total,
                "params_without_gradient": sum(one.params for one in self.idle) if self.run else None,
                "forward_flops": self.run.flops if self.run else None,
                "target_forward_flops": self.run.expected if self.run else None,
                "device": self.run.device if self.run else None,
                "inputs": [dict(one) for one in self.run.inputs] if self.run else [],
                "outputs": [dict(one) for one in self.run.outputs] if self.run else [],
                "tensors": [
                    {
                        "name": one.name,
                        "shape": list(one.shape),
                        "params": one.params,
                        "roles": list(one.roles),
                        "meaning": one.meaning,
                        "stacked": one.stacked,
                        "used": one.used,
                        "trained": one.trained,
                        "gradient": one.gradient,
                    }
                    for one in self.parameters
                ],
                "buffers": [dict(one) for one in self.buffers],
            },
        }


def _counted_by(torch: str) -> str:
    return f"PyTorch {torch}: named_parameters, FlopCounterMode, autograd" if torch else "arrays of its attributes"


def _of_kind(one: Mapping[str, object]) -> str:
    if one["kind"] == "none":
        return "None"
    return _shape(one["shape"]) + ("" if one["kind"] == "float" else f" {one['kind']}")


def _shape(shape: object) -> str:
    assert isinstance(shape, Sequence)
    return " × ".join(map(str, shape)) or "1"
