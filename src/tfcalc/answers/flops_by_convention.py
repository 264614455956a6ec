"""One workload by every convention: what tfcalc counts under each definition, and what papers' formulas give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from tfcalc.analysis.common import FLOPS, subject
from tfcalc.analysis.papers import RULES, SIX_ND_KAPLAN, PaperRule
from tfcalc.analysis.shape import MEANINGS, SYMBOLS, Shape, shape_of
from tfcalc.analysis.six_nd import MULTIPLY_ADD, Counted, counted
from tfcalc.answers.flops import Flops, flops
from tfcalc.core.notation import write
from tfcalc.core.polynomial import Polynomial
from tfcalc.errors import UsageError
from tfcalc.model import own_run
from tfcalc.named_tuple import NamedTuple
from tfcalc.report import exact, polynomial
from tfcalc.report.declared import Key, Record, When, integer, optional, records, text
from tfcalc.report.opening import Stated, found, ratio, total
from tfcalc.report.sheet import Cell, Column, Sheet, Short, of
from tfcalc.units import short
from tfcalc.workload import Conventions, Workload

if TYPE_CHECKING:
    from tfcalc.analysis.common import Subject
    from tfcalc.core.component import Component
    from tfcalc.model import Model
    from tfcalc.report.opening import Way
    from tfcalc.report.paths import Step

PHASES = ("forward", "train")


class Convention(NamedTuple):
    """One way to count: its ``formula``, closed or in words; ``reason`` says why there is no number where none is.

    ``ratio`` is that to the exact count.
    """

    name: str
    formula: str | Polynomial
    flops: int | None
    reference: str
    reason: str = ""
    ratio: float | None = None


COMPARED = When(lambda compared: compared.once, "exact_flops")
"""Of an answer by all conventions."""


class ByConvention(Record):
    """The workload counted by one convention."""

    convention = text("its name", lambda row: row.name)
    flops = optional("FLOPs by it; null where it is not defined", lambda row: row.flops)
    ratio: Key[float | None] = Key(
        {"type": ["number", "null"], "description": "flops in multiples of exact_flops; null where it is not defined"},
        lambda row: row.ratio,
        ratio(".flops", over=("exact_flops",)),
    )
    formula = text(
        "its formula", lambda row: write(row.formula) if isinstance(row.formula, Polynomial) else row.formula
    )
    reference = text("who counts so", lambda row: row.reference)
    not_defined = text("why it is not defined; empty where it is", lambda row: row.reason)

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:
        """The FLOPs follow from the formula of whoever counts so."""
        if steps == ("flops",):
            yield Stated("formula", f"{self.convention}: {self.reference}", self.formula)
        yield from super().origins(steps)


class FlopsByConvention(Flops):
    """FLOPs of one workload by every convention; ``exact_flops`` is PyTorch's count, nothing recomputed."""

    exact_flops = integer(
        "the count that the others are compared with",
        lambda compared: flops(compared.question.model, compared.once).answer,
        total("model_flops"),
        when=COMPARED,
    )
    six_nd_params = integer(
        "N with embeddings: active parameters",
        lambda compared: compared.counted.every,
        total("components[].params"),
        when=COMPARED,
    )
    six_nd_non_embedding_params = integer(
        "N without embeddings",
        lambda compared: compared.counted.without_embeddings,
        found("the parameters without embeddings, as scaling laws count them"),
        when=COMPARED,
    )
    compared = records(
        ByConvention, "one item for each convention", lambda compared: compared.conventions_told, when=COMPARED
    )

    def __init__(self, question: Subject, once: Workload) -> None:
        super().__init__(question, Conventions())
        self.once = once

    @cached_property
    def _root(self) -> Component:
        return self.question.model.tree(self.once)

    @cached_property
    def counted(self) -> Counted:
        """N, by two definitions."""
        return counted(self._root)

    @cached_property
    def conventions_told(self) -> tuple[Convention, ...]:
        """A row for each."""
        shape, unlike = shape_of(self._root, self.once)
        fewer = shape._replace(N=self.counted.without_embeddings)
        again = [Convention("recomputed", "exact + recomputation in backward", self.total_flops, "--recompute")]
        rows = (
            *_counted(self.question.model, self.once, self.exact_flops),
            *(again if self.recompute_flops else []),
            *(_quoted(rule, fewer if rule is SIX_ND_KAPLAN else shape, unlike, self.run) for rule in RULES),
        )
        return tuple(row._replace(ratio=None if row.flops is None else row.flops / self.exact_flops) for row in rows)

    def row(self, name: str) -> Convention:
        """The convention of this name."""
        return next(row for row in self.conventions_told if row.name == name)

    def sheet(self) -> Sheet:
        """A row per convention."""
        return Sheet(
            title=f"{self.headline()}; {self._range()}",
            subtitle=self.heading,
            columns=[
                Column("convention", numeric=False),
                Column("FLOPs"),
                Column("ratio"),
                Column("reference", numeric=False, spare=1),
                Column("formula", numeric=False, folds=True, formula=True),
            ],
            rows=[list(_cells(row, place)) for place, row in enumerate(self.conventions_told)],
            quiet=of(self.exact_flops, FlopsByConvention.exact_flops),
            notes=[*self._undefined(), *self.notes],
            legend=self._letters(),
            **(self.footer._asdict() | {"not_counted": "", "see_also": ("--formulas", "--assumptions", "--json")}),
        )

    def _range(self) -> str:
        ratios = [row.ratio for row in self.conventions_told if row.flops and row.ratio is not None]
        return f"{len(ratios)} conventions say {min(ratios):.2f} to {max(ratios):.2f} times as many"

    def _letters(self) -> dict[str, str]:
        rows = self.conventions_told
        shown = [row.formula for row in rows if isinstance(row.formula, Polynomial) and not row.reason]
        used = frozenset().union(*(formula.free_symbols for formula in shown))
        return {letter: meaning for letter, meaning in MEANINGS.items() if letter in used}

    def _undefined(self) -> Iterator[str]:
        every, without = (short(params, billion="B") for params in self.counted)
        yield f"N: {every} active parameters, {without} without embeddings; ratio: to the exact row"
        rows = self.conventions_told
        for reason in dict.fromkeys(row.reason for row in rows if row.reason):
            yield f"Not defined for {reason}: {', '.join(row.name for row in rows if row.reason == reason)}"


def _cells(row: Convention, place: int) -> Iterator[Cell]:
    yield row.name
    yield of(None if row.flops is None else Short(row.flops), FlopsByConvention.compared, place, ByConvention.flops)
    yield "not defined" if row.ratio is None else f"{row.ratio:.4f}"
    yield row.reference
    yield "" if row.reason else row.formula


def compare_conventions(model: Model, workload: Workload | None = None) -> FlopsByConvention:
    """The FLOPs of ``model`` on ``workload``, a forward pass or a training step, by each convention with a name.

    The definitions that a convention fixes (pairs, operations) are its own, whatever ``workload`` says. Where a paper's
    formula is not about the model, its row has the reason and no number. Raises UsageError for another phase, and
    InvalidModel as :func:`~tfcalc.flops`.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> gpt = Transformer(kind="decoder", vocab_size=1000, positions="none")
    >>> found = compare_conventions(gpt, Workload(phase="train"))
    >>> found.row("Megatron-LM").flops == found.exact_flops
    True
    """
    workload = own_run(model, workload).of_flops
    if workload.phase not in PHASES:
        raise UsageError(
            f"conventions are compared on a forward pass or a training step, not {workload.phase}", "add --train"
        )
    once = replace(workload, attention="full", recompute="none")
    return FlopsByConvention(subject(model, replace(workload, attention="full"), Conventions(), of=FLOPS), once)


def _counted(model: Model, once: Workload, exactly: int) -> Iterator[Convention]:
    """Yield the counts that tfcalc makes from the tree, by each of its own definitions."""

    def by(attention: str = "full", count: str = "matmul") -> int:
        return flops(model, replace(once, attention=attention), Conventions(count=count)).answer

    counted, counter = flops(model, replace(once, convolutions="counter")).answer, "PyTorch's FlopCounterMode"
    yield Convention("exact", "2·M·K·N per matrix product", exactly, counter if counted == exactly else "as it runs")
    if counted != exactly:
        yield Convention("as counted", "groups of convolutions ignored in backward", counted, counter)
    yield Convention("multiply-adds", "exact / 2", exactly // MULTIPLY_ADD, "ptflops, thop, fvcore")
    yield Convention("causal", "unmasked pairs only", by("causal"), "--attention causal")
    yield Convention("causal-half", "half of all pairs", by("causal-half"), "Megatron-LM's code, MaxText")
    yield Convention("all operations", "exact + elementwise", by(count="all"), "--count all")


def _quoted(rule: PaperRule, sizes: Shape, unlike: dict[str, str], run: Workload) -> Convention:
    """A paper's formula, in numbers and in letters."""
    name = rule.called(run.training)
    formula = polynomial(rule.flops(SYMBOLS, run.training, run.recompute))
    reason = rule.outside(unlike, run.recompute if run.training else "none")
    count = None if reason else exact(rule.flops(sizes, run.training, run.recompute))
    return Convention(name, formula, count, rule.reference, reason)
