"""Each formula that ``formula`` and ``explain`` print of a preset in LaTeX, with the number that it has to be."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from tests.latex_reader import number, worth
from tfcalc import Workload, formulas
from tfcalc.answers.explain import opened, to_open
from tfcalc.model import default_run
from tfcalc.report.sheet import InNumbers, for_people
from tfcalc.report.style import Style

STYLE = Style(script="latex")
ASKED = {
    "params": ("params", None),
    "FLOPs": ("flops", None),
    "FLOPs of a training step": ("flops", Workload(phase="train", seq_len=512)),
    "bytes": ("memory", None),
}
"""What is opened of each part: the quantity, and the run."""


class Printed(NamedTuple):
    """A formula ``in_latex``, or a product ``in numbers``, and the number that it stands for."""

    where: str
    text: str
    is_worth: Fraction
    number: int

    def __str__(self) -> str:
        return f"{self.where}: {self.text} is {self.is_worth} in LaTeX, and {self.number:,}"


def summary(model: Any) -> Iterator[Printed]:
    """The table of ``formula`` without a part."""
    at = {**model.values(), **default_run(model).values()}
    counted = to_open(model, "flops", None, None)
    for part in formulas(model).parts:
        numbers = {"params": part.params, "approx": part.approx_params}
        numbers["flops"] = opened(part.path, "flops", counted).answer
        for name, known in numbers.items():
            text = STYLE.formula(getattr(part.forms, name))
            assert known is not None, part.path
            yield Printed(f"{name} of {part.path}", text, worth(text, at), known)


def explanations(model: Any, asked: str) -> Iterator[Printed]:
    """Each part opened: its lines in symbols, in numbers and as a formula, and their sum."""
    of, run = ASKED[asked]
    at = {**model.values(), **(run or default_run(model)).values()}
    tree = to_open(model, of, run, None)
    for part in formulas(model).parts:
        found = opened(part.path, of, tree)
        for line in found.lines:
            where = f"{asked} of {line.names} in {part.path}"
            for cell in (line.symbols, line.formula):
                if text := for_people(cell, STYLE):
                    yield Printed(where, text, worth(text, at), line.value)
            if text := for_people(line.numbers, STYLE):
                yield Printed(where, text, number(text), line.value)
        where, text = f"{asked} of {part.path}", for_people(found.formula, STYLE)
        yield Printed(where, text, worth(text, at), found.answer)
        text = for_people(InNumbers(found.formula, found.sizes), STYLE)
        yield Printed(where, text, number(text), found.answer)
