"""The FLOPs of a whole training run, beside the rule of thumb 6ND."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfcalc.analysis.common import subject
from tfcalc.analysis.flops import flops
from tfcalc.analysis.remarks import needs_tokens
from tfcalc.analysis.six_nd import Size, Term, difference, sized
from tfcalc.conventions import Conventions
from tfcalc.dimensions import check_size
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.report import Report
from tfcalc.report.sheet import Cell, Column, Rounded, Share, Sheet, Short
from tfcalc.units import short
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.footprint.plans import Training as TrainingPlan
    from tfcalc.model import Model

PF_DAY = 1000 * 10**12 * 24 * 60 * 60
"""8.64·10¹⁹ FLOPs: a petaFLOP/s for a day (Amodei and Hernandez 2018; Brown et al. 2020, appendix D)."""

MOST_TOKENS = 10**18
PER_TOKEN = "tokens times the FLOPs per token of a training step, rounded down"
LEAST_SHARE = 0.0005
"""Of the exact count: what a table shows of a difference; the JSON has all of it."""
ACTIVE = "active parameters"
SIX_ND, PARTLY = "6ND", "4ND + 2TD"
"""The rule of thumb, and what becomes of it where only T of N parameters are trained: 6TD + 4(N - T)D."""


@dataclass(frozen=True, slots=True)
class Rule:
    """6ND by one definition of N (``named``), and what the exact count has beyond it."""

    named: str
    size: Size
    flops: int
    difference: tuple[Term, ...]

    @property
    def params(self) -> int:
        """N."""
        return self.size.params


@dataclass(frozen=True, slots=True)
class Training:
    """A run over ``tokens``: ``step`` is one of its steps, ``steps`` how many fill up, ``rest`` the tokens beyond."""

    step: Report
    tokens: int
    steps: int
    rest: int
    parts: dict[str, int]
    total: int
    rules: tuple[Rule, Rule]
    rule: str = "6ND"

    def sheet(self) -> Sheet:
        """The exact count and its parts; then 6ND by each definition, and what the exact count has beyond it."""
        lines = [("exact", "", self.total), *(("exact", name, flops) for name, flops in self.parts.items() if flops)]
        for rule in self.rules:
            whole = f"{self.rule}, N {rule.named}"
            terms = [term for term in rule.difference if abs(term.flops) >= LEAST_SHARE * self.total]
            lines += [(whole, "", rule.flops), *((whole, term.what, term.flops) for term in terms)]
        rows: list[list[Cell]] = [
            [part or whole, Short(flops), Rounded(flops / PF_DAY), Share(flops, self.total)]
            for whole, part, flops in lines
        ]
        return Sheet(
            title=f"{short(self.total)} FLOPs of training on {self.tokens:,} tokens ({pf_days(self.total)} PF-days)",
            subtitle=self.step.heading,
            columns=[
                Column("count", numeric=False, folds=True),
                Column("FLOPs"),
                Column("PF-days"),
                Column("of exact"),
            ],
            rows=rows,
            quiet=self.total,
            notes=[*self._notes(), *self.step.notes],
            **(self.step.footer._asdict() | {"not_counted": "", "see_also": ("--assumptions", "--json")}),
            depths=[1 if part else 0 for _, part, _ in lines],
            paths=[f"{whole}.{part}" if part else whole for whole, part, _ in lines],
        )

    def _notes(self) -> Iterator[str]:
        per_step = self.step.totals["tokens"]
        more = f", and {self.rest:,} tokens of a partial step, in proportion, rounded down" if self.rest else ""
        yield f"{self.steps:,} step{'s' * (self.steps != 1)} of {per_step:,} tokens{more}; 1 PF-day = 8.64e19 FLOPs"
        every, without = (short(rule.params, billion="B") for rule in self.rules)
        yield f"N: {every} active parameters, {without} without embeddings; indented: exact less {self.rule}"
        if self.rule != SIX_ND:
            trained = self.rules[0].params - self.rules[0].size.frozen
            yield f"T: {short(trained, billion='B')} of them are trained; frozen weights need no gradients (4 for 6)"

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``: the keys of a step, and those of the run."""
        every, without = self.rules
        found = self.step.to_dict()
        components = found.pop("components")
        told = {
            "training_flops": PER_TOKEN,
            "six_nd_params": f"{ACTIVE}, {every.named}",
            "six_nd_non_embedding_params": f"{ACTIVE}, {without.named}",
            **({} if self.rule == SIX_ND else {"six_nd": f"{self.rule}, T the trained ones of N"}),
            "pf_day_flops": PF_DAY,
        }
        return {
            **found,
            "conventions": {**self.step.conventions, **told},
            "training_tokens": self.tokens,
            "training_steps": self.steps,
            "training_rest_tokens": self.rest,
            "training_flops": self.total,
            **{f"training_{name}_flops": flops for name, flops in self.parts.items()},
            "pf_days": self.total / PF_DAY,
            **_rule("six_nd", every),
            **_rule("six_nd_non_embedding", without),
            "components": components,
        }


def _rule(key: str, rule: Rule) -> dict[str, object]:
    return {
        f"{key}_params": rule.params,
        f"{key}_flops": rule.flops,
        f"{key}_difference": [{"what": term.what, "flops": term.flops} for term in rule.difference],
    }


def training(
    model: Model,
    tokens: int,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    plan: TrainingPlan | None = None,
) -> Training:
    """A run of ``model`` over ``tokens``, in steps of ``workload``: their number times the FLOPs of each.

    A ``plan`` says what of the model is trained, where that is not all of it (LoRA).

    Where the tokens do not fill the last step, it is counted in proportion. Raises InvalidModel as
    :func:`~tfcalc.analysis.flops.flops`, UsageError for tokens that are none, or a workload that is no training step.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> training(Transformer(), 5120, Workload(phase="train")).total == 10 * flops(
    ...     Transformer(), Workload(phase="train")
    ... ).answer
    True
    """
    try:
        check_size("tokens", tokens, most=MOST_TOKENS)
    except InvalidModel as error:
        raise UsageError(error.message, error.hint) from None
    workload = (workload or Workload(phase="train")).replaced(convolutions="run")
    if not workload.training:
        raise UsageError(
            f"a run of {tokens:,} tokens is made of training steps, not of {workload.phase}", "add --train"
        )
    conventions = conventions or Conventions()
    step = flops(model, workload, conventions, training=plan)
    needs_tokens(step, "a training run")
    per_step = int(step.totals["tokens"])
    asked = subject(model, workload, conventions, plan, "FLOPs")
    node, tuned = asked.node, asked.tuning is not None
    every, without = sized(node.component, tuned=tuned)
    steps, rest = divmod(tokens, per_step)

    def of_run(amount: int) -> int:
        return amount * tokens // per_step

    def rule(named: str, n: Size) -> Rule:
        terms, so_far = [], n.flops(per_step)
        for term in difference(node, per_step, n, conventions.count == "all", tuned=tuned):
            terms.append(Term(term.what, of_run(so_far + term.flops) - of_run(so_far)))  # so that they add up exactly
            so_far += term.flops
        return Rule(named, n, n.flops(tokens), tuple(terms))

    return Training(
        step=step,
        tokens=tokens,
        steps=steps,
        rest=rest,
        parts={name: of_run(int(step.totals[f"{name}_flops"])) for name in ("forward", "backward", "recompute")},
        total=of_run(step.answer),
        rules=(rule("with embeddings", every), rule("without embeddings", without)),
        rule=PARTLY if tuned else SIX_ND,
    )


def pf_days(flops: int) -> str:
    """``3,737``."""
    return f"{flops / PF_DAY:,.4g}"
