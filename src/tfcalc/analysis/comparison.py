"""One workload by every convention: what tfcalc counts under each definition, and what papers' formulas give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfcalc.analysis.flops import flops
from tfcalc.analysis.papers import RULES, SIX_ND_KAPLAN, Rule
from tfcalc.analysis.shape import MEANINGS, SYMBOLS, Shape, shape_of
from tfcalc.analysis.six_nd import MULTIPLY_ADD, counted
from tfcalc.conventions import Conventions
from tfcalc.core.notation import write
from tfcalc.core.polynomial import Polynomial
from tfcalc.errors import UsageError
from tfcalc.report import Report, exact, polynomial
from tfcalc.report.sheet import Cell, Column, Sheet, Short
from tfcalc.units import short
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model

PHASES = ("forward", "train")


@dataclass(frozen=True, slots=True)
class Convention:
    """One way to count: its ``formula``, closed or in words; ``reason`` says why there is no number where none is."""

    name: str
    formula: str | Polynomial
    flops: int | None
    reference: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ConventionComparison:
    """``exact`` is the count that the others are held against: PyTorch's, nothing computed twice."""

    step: Report
    exact: int
    rows: tuple[Convention, ...]
    params: dict[str, int]

    def row(self, name: str) -> Convention:
        """The convention of this name."""
        return next(row for row in self.rows if row.name == name)

    def sheet(self) -> Sheet:
        """A row per convention."""
        return Sheet(
            title=f"{self.step.headline()}; {self._range()}",
            subtitle=self.step.heading,
            columns=[
                Column("convention", numeric=False),
                Column("FLOPs"),
                Column("ratio"),
                Column("reference", numeric=False, spare=1),
                Column("formula", numeric=False, folds=True, formula=True),
            ],
            rows=[list(self._cells(row)) for row in self.rows],
            quiet=self.exact,
            notes=[*self._undefined(), *self.step.notes],
            legend=self._legend(),
            **(self.step.footer._asdict() | {"not_counted": "", "see_also": ("--formulas", "--assumptions", "--json")}),
        )

    def _range(self) -> str:
        ratios = [row.flops / self.exact for row in self.rows if row.flops]
        return f"{len(ratios)} conventions say {min(ratios):.2f} to {max(ratios):.2f} times as many"

    def _cells(self, row: Convention) -> Iterator[Cell]:
        yield row.name
        yield None if row.flops is None else Short(row.flops)
        yield "not defined" if row.flops is None else f"{row.flops / self.exact:.4f}"
        yield row.reference
        yield "" if row.reason else row.formula

    def _legend(self) -> dict[str, str]:
        shown = [row.formula for row in self.rows if isinstance(row.formula, Polynomial) and not row.reason]
        used = frozenset().union(*(formula.free_symbols for formula in shown))
        return {letter: meaning for letter, meaning in MEANINGS.items() if letter in used}

    def _undefined(self) -> Iterator[str]:
        every, without = (short(params, billion="B") for params in self.params.values())
        yield f"N: {every} active parameters, {without} without embeddings; ratio: to the exact row"
        for reason in dict.fromkeys(row.reason for row in self.rows if row.reason):
            yield f"Not defined for {reason}: {', '.join(row.name for row in self.rows if row.reason == reason)}"

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``: the keys of the step, and a list of the conventions."""
        found = self.step.to_dict()
        components = found.pop("components")
        compared = [
            {
                "convention": row.name,
                "flops": row.flops,
                "ratio": None if row.flops is None else row.flops / self.exact,
                "formula": write(row.formula) if isinstance(row.formula, Polynomial) else row.formula,
                "reference": row.reference,
                "not_defined": row.reason,
            }
            for row in self.rows
        ]
        more = {"six_nd_params": self.params["all"], "six_nd_non_embedding_params": self.params["without embeddings"]}
        return {**found, "exact_flops": self.exact, **more, "compared": compared, "components": components}


def compare_conventions(model: Model, workload: Workload | None = None) -> ConventionComparison:
    """The FLOPs of ``model`` on ``workload``, a forward pass or a training step, by each convention with a name.

    The definitions that a convention fixes (pairs, operations) are its own, whatever ``workload`` says. Where a paper's
    formula is not about the model, its row has the reason and no number. Raises UsageError for another phase, and
    InvalidModel as :func:`~tfcalc.analysis.flops.flops`.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> gpt = Transformer(kind="decoder", vocab_size=1000, positions="none")
    >>> found = compare_conventions(gpt, Workload(phase="train"))
    >>> found.row("Megatron-LM").flops == found.exact
    True
    """
    workload = workload or Workload()
    if workload.phase not in PHASES:
        raise UsageError(
            f"conventions are compared on a forward pass or a training step, not {workload.phase}", "add --train"
        )
    once = replace(workload, attention="full", recompute="none")
    step = flops(model, replace(workload, attention="full"), Conventions())
    root = model.tree(once)
    n = counted(root)
    shape, unlike = shape_of(root, once)
    fewer = shape._replace(N=n.without_embeddings)
    exactly = flops(model, once).answer
    return ConventionComparison(
        step=step,
        exact=exactly,
        rows=(
            *_counted(model, once, exactly),
            *(
                [Convention("recomputed", "exact + recomputation in backward", step.answer, "--recompute")]
                if _again(step)
                else []
            ),
            *(_quoted(rule, fewer if rule is SIX_ND_KAPLAN else shape, unlike, workload) for rule in RULES),
        ),
        params={"all": n.every, "without embeddings": n.without_embeddings},
    )


def _again(step: Report) -> bool:
    return bool(step.totals["recompute_flops"])


def _counted(model: Model, once: Workload, exactly: int) -> Iterator[Convention]:
    """What tfcalc counts from the tree, by each of its own definitions."""

    def by(attention: str = "full", count: str = "matmul") -> int:
        return flops(model, replace(once, attention=attention), Conventions(count=count)).answer

    yield Convention("exact", "2·M·K·N per matrix product", exactly, "PyTorch's FlopCounterMode")
    as_run = flops(model, replace(once, convolutions="run")).answer
    if as_run != exactly:
        yield Convention("as run", "convolution groups respected in backward", as_run, "--grouped-convolutions run")
    yield Convention("multiply-adds", "exact / 2", exactly // MULTIPLY_ADD, "ptflops, thop, fvcore")
    yield Convention("causal", "unmasked pairs only", by("causal"), "--attention causal")
    yield Convention("causal-half", "half of all pairs", by("causal-half"), "Megatron-LM's code, MaxText")
    yield Convention("all operations", "exact + elementwise", by(count="all"), "--count all")


def _quoted(rule: Rule, sizes: Shape, unlike: dict[str, str], run: Workload) -> Convention:
    """A paper's formula, in numbers and in letters."""
    name = rule.called(run.training)
    formula = polynomial(rule.flops(SYMBOLS, run.training, run.recompute))
    reason = rule.outside(unlike, run.recompute if run.training else "none")
    count = None if reason else exact(rule.flops(sizes, run.training, run.recompute))
    return Convention(name, formula, count, rule.reference, reason)
