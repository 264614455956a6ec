"""The FLOPs of a whole training run, beside the rule of thumb 6ND."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.common import FLOPS, subject
from tfcalc.analysis.remarks import needs_tokens
from tfcalc.analysis.six_nd import Difference6ND, Size, difference, sized
from tfcalc.answers.flops import Flops, check_tuning
from tfcalc.dimensions import MOST_TOKENS, check_size
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.model import own_run
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.declared import Key, Record, When, integer, number, records, text
from tfcalc.report.opening import Constant, Rule, found, given, ratio, total
from tfcalc.report.sheet import Cell, Column, Rounded, Share, Sheet, Short, of
from tfcalc.units import rounded, short
from tfcalc.workload import Conventions, Workload

if TYPE_CHECKING:
    from tfcalc.analysis.common import Subject
    from tfcalc.answers.train import Train
    from tfcalc.model import Model
    from tfcalc.plans import Training as TrainingPlan
    from tfcalc.report.opening import Way
    from tfcalc.report.paths import Step

PF_DAY = 1000 * 10**12 * 24 * 60 * 60
"""8.64·10¹⁹ FLOPs: a petaFLOP/s for a day (Amodei and Hernandez 2018; Brown et al. 2020, appendix D)."""

PER_TOKEN = "tokens times the FLOPs per token of a training step, rounded down"
LEAST_SHARE = 0.0005
"""Of the exact count: what a table shows of a difference; the JSON has all of it."""
ACTIVE = "active parameters"
SIX_ND, PARTLY = "6ND", "4ND + 2TD"
"""The rule of thumb, and what becomes of it where only T of N parameters are trained: 6TD + 4(N - T)D."""


RUN = When(lambda run: run.run_tokens, "training_tokens")
"""Of an answer about a whole run."""
FLOOR = When(lambda run: run.timed is not None and run.timed.floor, "floor_hours")
TIMED = When(lambda run: run.timed is not None and run.timed.seconds_of_step is not None, "hours")
BANDED = When(lambda run: run.timed is not None and run.timed.banded, "hours_low", mutual=True)
BY_TRAIN = found("the answer of train to the same question")
DIFFERENCE = "the FLOPs of these products, and of those that 6ND counts though nothing runs them"


class RuleOfThumb(NamedTuple):
    """6ND by one definition of N (``named``), and how the exact count differs from it."""

    named: str
    size: Size
    flops: int
    difference: tuple[Difference6ND, ...]

    @property
    def params(self) -> int:
        """N."""
        return self.size.params


class DifferenceTerm(Record):
    """A part of the difference between the exact count and 6ND."""

    what = text("what 6ND leaves out, or counts too much", lambda term: term.what)
    flops = integer("FLOPs of the run", lambda term: term.flops)


def part_of_run(name: str) -> Rule:
    """A pass of all steps, in proportion to the tokens."""
    return ratio(f"{name}_flops", "training_tokens", over=("tokens",))


class FlopsOfRun(Flops):
    """A run over ``training_tokens``, in steps of one workload: exact, and by 6ND."""

    training_tokens = integer("tokens of the run", lambda run: run.run_tokens, given("given by --tokens"), when=RUN)
    training_steps = integer("whole steps", Rule("floor", ("training_tokens",), ("tokens",)), when=RUN)
    training_rest_tokens = integer(
        "tokens of a last, partial step", Rule("remainder", ("training_tokens",), ("tokens",)), when=RUN
    )
    training_flops = integer(
        "FLOPs of the run",
        lambda run: run.of_run(run.total_flops),
        total("training_forward_flops", "training_backward_flops", "training_recompute_flops"),
        when=RUN,
    )
    training_forward_flops = integer(
        "of them forward", lambda run: run.of_run(run.forward_flops), part_of_run("forward"), when=RUN
    )
    training_backward_flops = integer(
        "of them backward", lambda run: run.of_run(run.backward_flops), part_of_run("backward"), when=RUN
    )
    training_recompute_flops = integer(
        "of them recomputed", lambda run: run.of_run(run.recompute_flops), part_of_run("recompute"), when=RUN
    )
    pf_days = number(
        "training_flops in petaFLOP/s-days",
        ratio("training_flops", over=(Constant(PF_DAY, "FLOPs of a petaFLOP/s-day"),)),
        when=RUN,
    )
    six_nd_params = integer(
        "N with embeddings: active parameters",
        lambda run: run.rules[0].params,
        total("components[].params"),
        when=RUN,
    )
    six_nd_flops = integer(
        "FLOPs by 6ND, N with embeddings",
        lambda run: run.rules[0].flops,
        ratio(Constant(6, "of 6ND"), "six_nd_params", "training_tokens"),
        when=RUN,
    )
    six_nd_difference = records(
        DifferenceTerm,
        "exact FLOPs less those of 6ND, term by term",
        lambda run: run.rules[0].difference,
        found(DIFFERENCE),
        when=RUN,
    )
    six_nd_non_embedding_params = integer(
        "N without embeddings",
        lambda run: run.rules[1].params,
        found("the parameters without embeddings, as scaling laws count them"),
        when=RUN,
    )
    six_nd_non_embedding_flops = integer(
        "FLOPs by 6ND, N without embeddings",
        lambda run: run.rules[1].flops,
        ratio(Constant(6, "of 6ND"), "six_nd_non_embedding_params", "training_tokens"),
        when=RUN,
    )
    six_nd_non_embedding_difference = records(
        DifferenceTerm,
        "exact FLOPs less those of 6ND without embeddings, term by term",
        lambda run: run.rules[1].difference,
        found(DIFFERENCE),
        when=RUN,
    )
    floor_hours = number(
        "hours that no run is below, as train has them",
        lambda run: run.timed.hours(run.timed.floor),
        BY_TRAIN,
        when=FLOOR,
    )
    hours = number("hours of the run, as train has them", lambda run: run.timed.duration, BY_TRAIN, when=TIMED)
    hours_low = number("lower end of the hours", lambda run: run.timed.hours_low, BY_TRAIN, when=BANDED)
    hours_high = number("upper end of the hours", lambda run: run.timed.hours_high, BY_TRAIN, when=BANDED)
    gpu_hours = number("hours of the run, of all GPUs", lambda run: run.timed.gpu_hours, BY_TRAIN, when=TIMED)
    headroom_flops = Flops.headroom_flops.made(total("limit_flops", less="training_flops"))

    def __init__(self, question: Subject, by: Conventions, tokens: int, train: Train | None = None) -> None:
        super().__init__(question, by)
        self.run_tokens, self.train = tokens, train
        self.timed = train.only if train is not None else None

    def of_run(self, amount: int) -> int:
        """Return the amount of all steps from that of one: a last, partial step in proportion, rounded down."""
        return amount * self.run_tokens // self.tokens

    @property
    def answer_key(self) -> str:
        """The FLOPs of the run."""
        return FlopsOfRun.training_flops.name

    @property
    def tuned(self) -> bool:
        """Return whether a part alone is trained."""
        return self.question.tuning is not None

    @property
    def rule(self) -> str:
        """The rule of thumb."""
        return PARTLY if self.tuned else SIX_ND

    @cached_property
    def rules(self) -> tuple[RuleOfThumb, RuleOfThumb]:
        """The rule of thumb by each definition of N."""
        every, without = sized(self.question.node.component, tuned=self.tuned)
        return self._rule("with embeddings", every), self._rule("without embeddings", without)

    def _rule(self, named: str, n: Size) -> RuleOfThumb:
        terms, so_far = [], n.flops(self.tokens)
        for term in difference(self.question.node, self.tokens, n, self.everything, tuned=self.tuned):
            of_run = self.of_run(so_far + term.flops) - self.of_run(so_far)  # so that they add up exactly
            terms.append(Difference6ND(term.what, of_run))
            so_far += term.flops
        return RuleOfThumb(named, n, n.flops(self.run_tokens), tuple(terms))

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definitions of a step's numbers, and of those of a run."""
        every, without = self.rules
        return {
            **super().definitions,
            "training_flops": PER_TOKEN,
            "six_nd_params": f"{ACTIVE}, {every.named}",
            "six_nd_non_embedding_params": f"{ACTIVE}, {without.named}",
            **({} if self.rule == SIX_ND else {"six_nd": f"{self.rule}, T the trained ones of N"}),
            "pf_day_flops": PF_DAY,
        }

    def headline(self) -> str:
        """``3.23e+23 FLOPs of training on 300,000,000,000 tokens (3,737 PF-days)``."""
        said = f"{short(self.training_flops)} FLOPs of training on {self.training_tokens:,} tokens"
        return f"{said} ({pf_days(self.training_flops)} PF-days)"

    def sheet(self) -> Sheet:
        """The exact count and its parts; then 6ND by each definition, and how the exact count differs from it."""
        if self.limit is not None:
            return super().sheet()
        passes = {
            "forward": FlopsOfRun.training_forward_flops,
            "backward": FlopsOfRun.training_backward_flops,
            "recompute": FlopsOfRun.training_recompute_flops,
        }
        keys = (
            (FlopsOfRun.six_nd_flops, FlopsOfRun.six_nd_difference),
            (FlopsOfRun.six_nd_non_embedding_flops, FlopsOfRun.six_nd_non_embedding_difference),
        )
        exactly = self.training_flops
        lines: list[tuple[str, str, int, tuple[Key[Any] | int, ...]]] = [
            ("exact", "", exactly, (FlopsOfRun.training_flops,)),
            *(("exact", name, flops, (key,)) for name, key in passes.items() if (flops := getattr(self, key.name))),
        ]
        for rule, (whole_key, difference_key) in zip(self.rules, keys, strict=True):
            whole = f"{self.rule}, N {rule.named}"
            lines.append((whole, "", rule.flops, (whole_key,)))
            lines += [
                (whole, term.what, term.flops, (difference_key, place, DifferenceTerm.flops))
                for place, term in enumerate(rule.difference)
                if abs(term.flops) >= LEAST_SHARE * exactly
            ]
        rows: list[list[Cell]] = [
            [part or whole, of(Short(flops), *keys), Rounded(flops / PF_DAY), Share(flops, exactly)]
            for whole, part, flops, keys in lines
        ]
        return Sheet(
            title=self.headline(),
            subtitle=self.heading,
            columns=[
                Column("count", numeric=False, folds=True),
                Column("FLOPs"),
                Column("PF-days"),
                Column("of exact"),
            ],
            rows=rows,
            quiet=of(exactly, self.answer_key),
            notes=[*self._of_run(), *(self.train.lines if self.train else ()), *self.notes],
            **(self.footer._asdict() | {"not_counted": "", "see_also": ("--assumptions", "--json")}),
            depths=[1 if part else 0 for _, part, *_ in lines],
            paths=[f"{whole}.{part}" if part else whole for whole, part, *_ in lines],
        )

    def _of_run(self) -> Iterator[str]:
        steps, rest = self.training_steps, self.training_rest_tokens
        more = f", and {rest:,} tokens of a partial step, in proportion, rounded down" if rest else ""
        yield f"{steps:,} step{'s' * (steps != 1)} of {self.tokens:,} tokens{more}; 1 PF-day = 8.64e19 FLOPs"
        every, without = (short(rule.params, billion="B") for rule in self.rules)
        yield f"N: {every} active parameters, {without} without embeddings; indented: exact less {self.rule}"
        if self.tuned:
            trained = self.rules[0].params - self.rules[0].size.frozen
            yield f"T: {short(trained, billion='B')} of them are trained; frozen weights need no gradients (4 for 6)"

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:
        """Yield where the number at these steps comes from.

        Where some parameters are frozen, 6ND is 4ND + 2TD: those are multiplied twice and not three times.
        """
        yield from super().origins(steps)
        key = str(steps[0])
        if self.tuned and key.startswith("six_nd") and key.endswith("_flops"):
            frozen = 4 * getattr(self, key.replace("_flops", "_params")) * self.training_tokens
            made = total(
                Constant(frozen, "4ND: each of N forward, and backward to its input"),
                Constant(getattr(self, key) - frozen, "2TD: T are trained"),
            )
            yield made._replace(note=made.constants)


def flops_of_run(
    model: Model,
    tokens: int,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    plan: TrainingPlan | None = None,
    train: Train | None = None,
) -> FlopsOfRun:
    """A run of ``model`` over ``tokens``, in steps of ``workload``: their number times the FLOPs of each.

    A ``plan`` says what of the model is trained, where that is not all of it (LoRA). ``train`` is the answer about the
    same run on GPUs, whose hours are told.

    Where the tokens do not fill the last step, it is counted pro rata. Raises InvalidModel as
    :func:`~tfcalc.flops`, UsageError for tokens that are none, or a workload that is no training step.

    >>> from tfcalc.answers.flops import flops
    >>> from tfcalc.zoo.transformer import Transformer
    >>> flops_of_run(Transformer(), 5120, Workload(phase="train")).answer == 10 * flops(
    ...     Transformer(), Workload(phase="train")
    ... ).answer
    True
    """
    try:
        check_size("tokens", tokens, most=MOST_TOKENS)
    except InvalidModel as error:
        raise UsageError(error.message, error.hint) from None
    workload = own_run(model, workload or Workload(phase="train")).of_flops.replaced(convolutions="run")
    if not workload.training:
        raise UsageError(
            f"a run of {tokens:,} tokens is made of training steps, not of {workload.phase}", "add --train"
        )
    by = conventions or Conventions()
    question = subject(model, workload, by, plan, FLOPS)
    if question.tuning is not None:
        check_tuning(question.tuning, question.run)
    found = FlopsOfRun(question, by, tokens, train)
    needs_tokens(found.conventions, "a training run")
    return found


def pf_days(flops: int) -> str:
    """``3,737``."""
    return rounded(flops / PF_DAY, 4)
