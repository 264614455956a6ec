"""Layouts of a training run over GPUs: the fastest that fit, what a step takes, and what the run costs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from tfcalc.analysis.common import model_of
from tfcalc.answers.conventions_text import PAIRS
from tfcalc.answers.plan_case import PlanCase
from tfcalc.answers.plan_commands import command_of_fsdp
from tfcalc.answers.plan_keys import (
    COLUMNS,
    ESTIMATED,
    BandKeys,
    LayoutOfCase,
    ListedLayout,
    OneLayout,
    PartsKeys,
    PlannedLayout,
    seconds_in_words,
)
from tfcalc.answers.plan_question import PlanQuestion, modules_again, states_of_stack
from tfcalc.core.component import MODULES
from tfcalc.errors import UsageError, one_of
from tfcalc.hardware import GIGA, NODE, TERA, Accelerator, accelerators, named, parse_gpu
from tfcalc.model import default_length
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.declared import Record, When, boolean, integer, number, optional_number, record, records, text, texts
from tfcalc.report.opening import Constant, found, given, ratio
from tfcalc.report.report import charts
from tfcalc.report.sheet import Rounded, Sheet, of
from tfcalc.search.axes import Axes
from tfcalc.search.gpus import SAID
from tfcalc.search.layouts import ALIKE, stages_of_zero, unsaid_stage
from tfcalc.timing.device_memory import READ
from tfcalc.timing.estimate import CODE, EAGER, SECONDS_OF_A_DAY, Estimate
from tfcalc.timing.rates import FSDP, STACKS, machine_of
from tfcalc.timing.rates_file import read_rates
from tfcalc.training.precisions import OF_MEGATRON
from tfcalc.units import rounded, short, short_bytes

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.report.chart import Bars

LEAST_SHARE = 0.001
"""Share of a step from which on a part is told."""
MOST_GPUS = 2**17
"""Largest number of GPUs that is tried."""
WORDS = {
    "tp": "{0} GPUs share each layer",
    "pp": "{0} pipeline stages",
    "ppx": "{0} pipeline stages, each with {1} chunks of layers (--vpp)",
    "cp": "{0} GPUs share each sequence",
    "ep": "{0} groups of GPUs share the experts",
    "etp": "{0} GPUs share each expert",
    "dp": "{0} copies share the batch",
    "hsdp": "{0} replicas of whole shards",
    "b": "micro-batches of {0} sequences, else of 1",
    "zero": "stage {0} of ZeRO, else {1} (3: FSDP)",
    "full": "layers run again in backward",
    "selective": "modules run again in backward",
}
"""What each word of a layout says (``PlannedLayout.words``), with its numbers."""
ONE_COPY = "dp1"
NEAR = 0.1
"""Part of a batch within which another one is proposed."""
UNPUBLISHED = "no step of stage 2 is published"
FEWEST = When(lambda plan: plan.question.fewest)
OF_RUN = When(lambda plan: plan.question.tokens is not None, "training_tokens")
COST = When(lambda plan: plan.question.tokens is not None and plan.case.price is not None, "cost")
IN_DAYS = When(lambda plan: plan.question.budget_days is not None, "budget_days")
FROM_FILE = When(lambda plan: plan.question.rates is not None)
FRONT = When(lambda plan: plan.question.pareto)
FITS = When(lambda plan: plan.fits)
FITS_NOT = When(lambda plan: not plan.fits)


class Trial(NamedTuple):
    """Trial of a number of GPUs: whether a layout ``fits``, and the ``days`` of the run, if one is asked about."""

    gpus: int
    fits: bool
    days: float | None = None

    @property
    def in_words(self) -> str:
        """``24: none fits``, ``32: 0.0904 days``."""
        said = "fits" if self.days is None else f"{rounded(self.days)} days"
        return f"{self.gpus:,}: {said if self.fits else 'none fits'}"


class TrialKeys(Record):
    """A number of GPUs that was tried."""

    gpus = integer("GPUs in all", lambda trial: trial.gpus, found("tried: powers of two, and quarters between"))
    fits = boolean("whether a layout fits", lambda trial: trial.fits)
    days = optional_number(
        "days of the run; null where no layout fits, or without --tokens",
        lambda trial: trial.days,
        found(ESTIMATED),
    )


class Cure(NamedTuple):
    """A change with which a layout fits, tried: what it is, as options, and the layout."""

    change: str
    listed: LayoutOfCase


class CureKeys(Record):
    """A change of the question with which a layout fits."""

    change = text("what to ask for", lambda cure: cure.change)
    fastest = record(ListedLayout, "the fastest layout that fits then", lambda cure: cure.listed)


class NearBatch(NamedTuple):
    """A batch nearby that more ``copies`` can share, its fastest layout, and how much ``faster`` that is by tokens."""

    sequences: int
    copies: int
    listed: LayoutOfCase
    faster: float


class NearBatchKeys(Record):
    """A batch nearby that more copies of the model can share."""

    sequences = integer(
        "sequences of a step, of all GPUs",
        lambda near: near.sequences,
        found("the nearest multiple of the copies that share it"),
    )
    copies = integer(
        "copies of the model that could share it",
        lambda near: near.copies,
        found("GPUs over a power of two, the most with a multiple nearby"),
    )
    fastest = record(ListedLayout, "its fastest layout", lambda near: near.listed)
    faster = number(
        "how many more tokens per second that makes, as a share",
        lambda near: near.faster,
        found("its tokens per second and GPU over those of the fastest layout of the batch that was asked for, less 1"),
    )


class Plan(OneLayout):
    """The fastest layout, with those that are next to it."""

    form = "without --why and --why-not"

    layout = record(PlannedLayout, "the fastest layout, or the one that was given", lambda plan: plan.one.layouts)
    micro_batches = integer(
        "micro-batches of a step on each copy",
        lambda plan: plan.one.layouts.batches,
        found("global batch over copies and micro-batch"),
    )
    step_seconds_low = number("lower end of the band", lambda plan: plan.estimate.low, found("step over 1 + p90"))
    step_seconds_high = number("upper end of the band", lambda plan: plan.estimate.high, found("step over 1 - p90"))
    floor_seconds = number(
        "seconds that no run is below: model FLOPs over the dense peak",
        lambda plan: plan.case.floor,
        found("FLOPs of a step, nothing recomputed, over the peak of all GPUs at this precision"),
    )
    band = record(BandKeys, "how far published runs were from the estimate", lambda plan: plan.estimate.band)
    parts = record(PartsKeys, "where the seconds go", lambda plan: plan.case.parts(plan.one))
    tokens_per_second = number("of all GPUs", ratio(OneLayout.tokens_per_step, over=(OneLayout.step_seconds,)))
    tokens_per_second_per_gpu = number("of a GPU", ratio("tokens_per_second", over=("gpus",)))
    mfu = number(
        "model FLOPs utilisation: all pairs of attention, nothing recomputed, dense 16-bit peak",
        lambda plan: plan.case.mfu(plan.step_seconds),
        found("FLOPs per token times tokens per second and GPU, over the dense 16-bit peak"),
    )
    bubble_share = number(
        "share of the step that a stage waits for others",
        lambda plan: float(plan.one.parts.bubble) / float(plan.one.seconds),
        found("bubble over step"),
    )
    training_tokens = integer(
        "tokens of the run", lambda plan: plan.question.tokens, given("given by --tokens"), when=OF_RUN
    )
    days = number("days of the run", lambda plan: plan.seconds_of_run / SECONDS_OF_A_DAY, found(ESTIMATED), when=OF_RUN)
    gpu_hours = number(
        "hours of the run, of all GPUs", ratio("days", "gpus", Constant(24, "hours of a day")), when=OF_RUN
    )
    cost = number("US dollars of the run", ratio("gpu_hours", "price_per_gpu_hour"), when=COST)
    price_per_gpu_hour = number(
        "US dollars for a GPU and an hour",
        lambda plan: plan.case.price.typical,
        given("given by --price, or the dated list"),
        when=COST,
    )
    price_source = text("where the price is from", lambda plan: plan.case.price.origin, when=COST)
    budget_days = number(
        "days in which the run is to end",
        lambda plan: plan.question.budget_days,
        given("given by --budget-days"),
        when=IN_DAYS,
    )
    tried = records(TrialKeys, "numbers of GPUs that were tried", lambda plan: plan.trials, when=FEWEST)
    searched = integer("layouts in which everything divides", lambda plan: plan.case.found.number, found("enumerated"))
    fitting = integer(
        "of them those that fit by the closed form",
        lambda plan: len(plan.case.found.places),
        found("compared with what may be allocated: what is usable, less the error of published peaks"),
    )
    equal_within = integer(
        "layouts within 2 % of the fastest: equal, as far as the estimate can tell",
        lambda plan: len(plan.alike),
        found("counted"),
    )
    roomiest = record(
        ListedLayout, "the one among these that takes least memory", lambda plan: plan.smallest_alike, when=FITS
    )
    near_batch = record(
        NearBatchKeys,
        "a batch nearby that more copies can share, and whose tokens take over 2 % less time",
        lambda plan: plan.evener,
        when=When(lambda plan: plan.evener is not None),
    )
    layouts = records(ListedLayout, "the fastest layouts", lambda plan: plan.listed)
    pareto = records(
        ListedLayout,
        "layouts of which none is both faster and smaller, the fastest first",
        lambda plan: plan.front,
        when=FRONT,
    )
    remedies = records(CureKeys, "changes with which a layout fits, tried", lambda plan: plan.cures, when=FITS_NOT)
    rates_file = text(
        "the file of --rates, and what it was fitted to", lambda plan: plan.question.rates.words, when=FROM_FILE
    )
    assumptions = texts("what was assumed", lambda plan: tuple(plan.assumed()))

    def __init__(self, case: PlanCase, trials: Sequence[Trial] = ()) -> None:
        super().__init__(case)
        self.trials, self.one = trials, case.best

    @cached_property
    def alike(self) -> list[int]:
        """Places of the layouts that are as fast as the best."""
        return self.case.found.alike(float(self.one.seconds))

    @property
    def smallest_alike(self) -> LayoutOfCase:
        """The one among these that takes least memory."""
        return self._at(min(self.alike, key=lambda place: float(self.case.found.memory[place])))

    def _at(self, place: int) -> LayoutOfCase:
        return LayoutOfCase(self.case, self.case.evaluated(place))

    @property
    def listed(self) -> list[LayoutOfCase]:
        """The first of them; where none fits, those that take least memory."""
        top = self.question.top
        fitting = [LayoutOfCase(self.case, one) for one in self.case.recommended(top)]
        return fitting or [self._at(place) for place in self.case.found.smallest(top)]

    @property
    def front(self) -> list[LayoutOfCase]:
        """The front of seconds and memory."""
        return [self._at(place)._replace(by_tape=False) for place in self.case.found.front]

    @cached_property
    def cures(self) -> list[Cure]:
        """Changes of the question with which a layout fits: other axes, gradients shared, more GPUs, larger GPUs."""
        return list(self._cures())

    def _cures(self) -> Iterator[Cure]:
        """Yield them, each beside the axes that were given; all these are free where no layout fits otherwise."""
        question, ways = self.question, {"": self.question.fixed}
        if question.fixed != Axes():
            if found := self._with(fixed=Axes()):
                yield Cure("all axes free", found)
            else:
                ways[", all axes free"] = Axes()
        if question.fixed.zero is None and (found := self._with(fixed=question.fixed._replace(zero=(2,)))):
            yield Cure("--zero 2", found)
        more = ((gpus, question.card) for gpus in _doubled(question.gpus))
        larger = ((question.gpus, card) for card in _larger(question.card))
        for machines in more, larger:
            yield from islice(self._on(machines, ways), 1)

    def _on(self, machines: Iterable[tuple[int, Accelerator]], ways: Mapping[str, Axes]) -> Iterator[Cure]:
        for gpus, card in machines:
            for way, fixed in ways.items():
                if found := self._with(fixed=fixed, gpus=gpus, card=card):
                    yield Cure(f"--gpu {gpus}x{card.name.lower()}{way}", found)

    def _with(self, **changes: object) -> LayoutOfCase | None:
        """Return the fastest layout that fits after these changes; None where none does."""
        try:
            case = self.case.with_question(**changes, all_timed=False, measured=None)
            return LayoutOfCase(case, case.best) if case.fits(case.best) else None
        except UsageError:
            return None

    @property
    def seconds_of_step(self) -> float:
        """Seconds of a step of the best layout."""
        return self.case.seconds(self.one)

    @cached_property
    def estimate(self) -> Estimate:
        """Seconds of a step of the best layout."""
        return Estimate(self.seconds_of_step, self.case.band)

    @property
    def seconds_of_run(self) -> float:
        """Seconds of all steps."""
        assert self.question.tokens is not None
        return self.question.tokens / self.question.tokens_per_step * self.estimate.seconds

    @property
    def succeeded(self) -> bool:
        """Return whether a layout fits, and ends in time."""
        return self.fits and (self.question.budget_days is None or self.days <= self.question.budget_days)

    def assumed(self) -> Iterator[str]:
        """Assumptions of the answer."""
        machine, question = self.case.machine, self.question
        yield (
            f"links: {machine.bus / GIGA:,.0f} GB/s among {machine.domain} GPUs, "
            f"{rounded(machine.nic / GIGA, 4)} GB/s of each GPU to others (links.csv)"
        )
        if question.fixed.zero is None:
            alone, piped = (
                ", ".join(map(str, stages_of_zero(self.case.space, pipeline=pipeline))) for pipeline in (False, True)
            )
            yield (
                f"stages of ZeRO that are tried: {alone}; in a pipeline {piped}; another where it is given (--zero); "
                f"{UNPUBLISHED}, whose gradients are summed up for each micro-batch"
            )
        yield "experts are balanced; a token goes to a node once" if self.one.layouts.ep > 1 else "equal devices"
        yield f"MFU: {PAIRS['full']}, nothing recomputed, dense 16-bit peak {rounded(machine.peak / TERA, 5)} TFLOP/s"
        if question.tokens is not None and self.case.price is None:
            yield "no price is known for this GPU: --price 2.50"
        yield (
            "memory of what is listed: that of memory --train, with --cp but for keys that go around the ring; of all "
            "else a closed form of Megatron-core: what is saved for backward on the GPU, nothing recomputed but whole "
            "layers or named modules; runs that offload take less"
        )
        yield "of layouts that take the same seconds and bytes one is listed, that with the least --cp"
        if self.case.possible.unruled:
            yield f"{self.case.possible.unruled}: what divides is checked by heads, experts and layers alone"
        if question.precision in READ:
            low = question.precision
            yield f"products save what they read in {low}, as Transformer Engine's do; weights have 16 bits, or twice 8"
        if question.modules:
            yield "recomputed: " + ", ".join(f"{name} ({MODULES[name]})" for name in question.modules)
        yield "not in it: data loading, checkpoints, failures, warm-up"

    def sheet(self) -> Sheet:
        """The fastest layouts; then where the step goes, and what the run costs."""
        key = Plan.pareto if self.question.pareto and self.fits else Plan.layouts
        return Sheet(
            title=self._title(),
            subtitle=self.heading,
            columns=COLUMNS,
            rows=[one.cells(key, place) for place, one in enumerate(getattr(self, key.name))],
            quiet=of(self.gpus, Plan.gpus)
            if self.question.fewest
            else of(Rounded(self.step_seconds), Plan.step_seconds),
            notes=tuple(self._notes()),
            assumes=(),
            not_counted="",
            see_also=("--assumptions", "--json" + " (commands that open the others, too)" * (len(self.layouts) > 1)),
            assumptions=tuple(self.assumed()),
        )

    def pictures(self) -> tuple[Bars, ...]:
        """Seconds of the listed layouts, by what they go to, with the band of each."""
        timed = [(one.layout.words, self.case.parts(one.source.one)._asdict()) for one in self.layouts]
        longest = max((sum(parts.values()) for _, parts in timed), default=0.0)
        if not longest:
            return ()
        seen = [name for name in timed[0][1] if any(parts[name] > LEAST_SHARE * longest for _, parts in timed)]
        steps = [Estimate(one.step_seconds, self.case.band) for one in self.layouts]
        found: Bars = charts().Bars(
            title="Seconds of a step by what they go to, of the layouts that are listed",
            parts=tuple(name.replace("_", " ") for name in seen),
            rows=tuple((words, tuple(parts[name] for name in seen)) for words, parts in timed),
            unit="seconds",
            bands=tuple((step.low, step.high) for step in steps),
        )
        return (found,)

    def _title(self) -> str:
        best = self.layout.words
        if not self.fits:
            sizes = (abs(self.beyond), self.in_case.peak, self.usable_bytes)
            short_by, needed, usable = (short_bytes(size, "iec") for size in sizes)
            by = f"{short_by} beyond" if self.beyond > 0 else f"with {needed} of"
            return f"{SAID[self.status]}: {best} is the closest, {by} the {usable} usable"
        low, high = self.step_seconds_low, self.step_seconds_high
        span = f"{seconds_in_words(low)} to {seconds_in_words(high)}"
        if self.question.budget_days is None:
            gpus = f"{self.gpus:,} GPU{'s' * (self.gpus > 1)} at least: " * self.question.fewest
            return f"{gpus}{best}: {seconds_in_words(self.step_seconds)} a step ({span})"
        ends = (low / self.step_seconds * self.days, high / self.step_seconds * self.days)
        span = " to ".join(rounded(one) for one in ends)
        said = f"{rounded(self.days, 4)} days ({span}) as {best}"
        if self.succeeded:
            return f"{self.gpus:,} GPUs: {said}"
        return f"NOT IN {rounded(self.budget_days, 4)} DAYS: {self.gpus:,} GPUs are the fastest, {said}"

    @property
    def _alike(self) -> str:
        if self.equal_within == 1:
            return "no other lies within 2 % of the first"
        return f"{self.equal_within:,} lie within 2 % of the first, too close to tell"

    def _notes(self) -> Iterator[str]:
        yield self.in_case.memory_in_words
        yield from self._of_length()
        if not self.fits:
            yield from self._what_fits()
        elif self.searched > 1:
            rest = self.searched - self.fitting
            yield f"{self.searched:,} layouts: {self.fitting:,} fit, {rest:,} do not; {self._alike}"
            if unpublished := self._unpublished():
                yield unpublished
            if self.question.pareto:
                yield "GiB of the table by the closed form, those of the verdict by a step that runs, if one is known"
            if apart := self._by_closed_form:
                yield f"GiB by the closed form, which may be some per cent too few: {', '.join(apart)}"
            if shared := self._sharing_unruled:
                yield f"By the closed form alone, as {self.case.possible.unruled}: {', '.join(shared)}"
            if self.equal_within > 1 and self.roomiest.layout.words != self.layout.words:
                spare = short_bytes(self.roomiest.spare_bytes, "iec")
                yield f"Most memory to spare among these: {self.roomiest.layout.words}, {spare}"
        if self.evener is not None:
            near, faster = self.near_batch, f"{self.near_batch.faster:.0%}".replace("%", " %")
            even = f"A batch of {near.sequences:,} sequences, which divides evenly over up to {near.copies:,} copies"
            than = f"is {faster} faster a token than {self.global_batch_size:,}"
            yield f"{even}, {than}: {near.fastest.layout.words}"
        step = self.one.seconds
        shares = {name.replace("_", " "): float(part / step) for name, part in self.one.parts._asdict().items()}
        told = [
            f"{name} {share:.1%}"
            for name, share in sorted(shares.items(), key=lambda item: -item[1])
            if share > LEAST_SHARE
        ]
        yield f"Where the step goes: {', '.join(told)}".replace("%", " %")
        if (low := self.question.precision) in READ:
            peak = f"{rounded(self.case.machine.peak / TERA, 4)} TFLOP/s"
            yield f"MFU is over the dense 16-bit peak ({peak}), also with {low}, so that runs compare (it may exceed 1)"
        if self.question.tokens is not None:
            yield self._of_run()
        if self.question.fewest:
            yield f"Numbers of GPUs that were tried: {', '.join(one.in_words for one in self.trials)}"
            usual = self.question.states == OF_MEGATRON.name
            states = "fp32 gradients, master weights and moments" if usual else self.question.states
            asks = f"tfcalc train {self.question.model_words} --gpu {self.question.card.name.lower()}"
            yield f"Counted with {states}; of bf16 throughout, under FSDP, {asks} tells"
        estimated = self.estimate.in_words(self.question.stack, by_file=self.question.rates is not None)
        yield f"{estimated}; never below {seconds_in_words(self.floor_seconds)}"
        if (own := self.case.by_transformers(self.one)) is not None:
            yield (
                f"Rates of {CODE[EAGER]} would give {seconds_in_words(own.seconds)}; tfcalc train tells the longer of "
                f"both. That code allocates {short_bytes(own.peak, 'iec')}: {command_of_fsdp(self.question, own)}"
            )
        if self.question.rates is not None:
            yield f"Rates: {self.question.rates.words}"
        yield from self._opened()

    def _of_length(self) -> tuple[str, ...]:
        """Remarks on sequences that are longer than the model was made for, whoever shares them."""
        run, _ = self.case.asked(self.one.layouts)
        return self.question.model.remarks(run.replaced(seq_len=self.question.length))

    def _opened(self) -> Iterator[str]:
        """Meanings of the words of the layouts, each where it comes first, and the commands that open the first one."""
        shown = self.pareto if self.question.pareto and self.fits else self.layouts
        first: dict[str, str] = {}
        usual = unsaid_stage(sharded=self.layouts[0].source.one.layouts.shards is not None)
        for word in (word for one in shown for word in one.layout.words.split()):
            numbers = re.findall("[0-9]+", word)
            kind = re.sub("[0-9]", "", word)
            if word != ONE_COPY:
                first.setdefault(kind, f"{word}: {WORDS[kind].format(*numbers, usual)}")
        yield "; ".join(first[kind] for kind in WORDS if kind in first)
        if "pipeline_model" in (how := self.layouts[0].source.ends):
            yield f"The layers of a stage do not make as many chunks: {how} of Megatron-core"
        plan_of_it, *others = self.layouts[0].commands
        of_ranks = " (what is saved for backward in 16 bits)" * bool(others and self.question.precision in READ)
        yield f"To open the first{of_ranks}: {(others or [plan_of_it])[0]}"

    @cached_property
    def evener(self) -> NearBatch | None:
        """The nearest batch that more copies can share, where that is faster than what layouts are equal within."""
        asked, copies = self.question.sequences, self.question.gpus
        while asked % copies:
            near = max(1, round(asked / copies)) * copies
            if abs(near - asked) <= NEAR * asked:
                listed = self._with(sequences=near)
                now = self.case.rate(self.step_seconds)
                faster = listed.case.rate(listed.seconds) / now - 1 if listed else 0.0
                return NearBatch(near, copies, listed, faster) if listed and faster > ALIKE else None
            if copies % 2:
                return None
            copies //= 2
        return None

    @property
    def _by_closed_form(self) -> list[str]:
        """Layouts listed beside others whose step ran on the tape, and whose own is not known there."""
        taped = [self.case.on_tape(one.source.one.layouts) is not None for one in self.layouts]
        if not any(taped) or self.question.pareto:
            return []
        return [one.layout.words for one, known in zip(self.layouts, taped, strict=True) if not known]

    @property
    def _sharing_unruled(self) -> list[str]:
        """Layouts listed whose GPUs share layers that no rule splits, which ``ranks`` and ``memory`` refuse."""
        shown = self.pareto if self.question.pareto else self.layouts
        shared = (one.layout.words for one in shown if one.source.one.layouts.tp * one.source.one.layouts.pp > 1)
        return list(shared) if self.case.possible.unruled else []

    def _unpublished(self) -> str:
        """Remark on a first layout with ZeRO 2, or 3 with experts, which no run tells; empty of any other one."""
        question, stage, found = self.question, self.one.layouts.zero, self.case.found
        published = stage < 2 or (stage > 2 and self.case.space.experts <= 1)
        if question.stack == FSDP or question.fixed.zero is not None or published:
            return ""
        said = f"No step of ZeRO {stage}{' with experts' * (stage > 2)} is published"
        stages = found.column("zero")
        known = [place for place in found.places if stages[place] == 1]
        if not known:
            return said
        first = self._at(min(known, key=lambda place: float(found.seconds[place])))
        words = PlannedLayout(first.one.layouts, None).words  # type: ignore[arg-type]  # words ask no answer
        return f"{said}; without it {words} is the first, {first.behind:.1%} behind (--zero 1)".replace("%", " %")

    def _what_fits(self) -> Iterator[str]:
        if self.searched > 1:
            yield f"{self.searched:,} layouts, of which none fits"
        for cure in self.remedies:
            yield f"It fits with {cure.change}: {cure.fastest.layout.words}, {cure.fastest.taken}"
        if not self.remedies:
            yield f"It fits on no number of these GPUs up to {MOST_GPUS:,}, at this batch, nor on a larger GPU"

    def _of_run(self) -> str:
        tokens, hours = short(self.training_tokens, billion="B"), short(round(self.gpu_hours))
        said = f"{tokens} tokens: {rounded(self.days, 4)} days, {hours} GPU hours"
        price = self.case.price
        if price is None:
            return f"{said}; --price 2.50 says what they cost"
        span = f", {price.low:,.2f} to {price.high:,.2f} were seen" if price.low != price.high else ""
        return f"{said}, {short(round(self.cost))} USD at {price.typical:,.2f} ({price.origin}{span})"


def _doubled(gpus: int) -> Iterator[int]:
    while (gpus := 2 * gpus) <= MOST_GPUS:
        yield gpus


def _larger(card: Accelerator) -> list[Accelerator]:
    """Return the GPUs with more memory of which runs are known, the smallest first."""
    known = [one for one in accelerators() if machine_of(one) and one.usable().bytes > card.usable().bytes]
    return sorted(known, key=lambda one: one.usable().bytes)


def plan(
    model: Model | str,
    gpu: str,
    sequences: int,
    seq_len: int | None = None,
    *,
    tokens: int | None = None,
    stack: str = "megatron",
    precision: str = "bf16",
    checkpointing: str | None = None,
    recompute_modules: Sequence[str] = (),
    states: str | None = None,
    price: float | None = None,
    rates: str | None = None,
    top: int = 5,
    **axes: int | Sequence[int],
) -> Plan:
    """Find the layouts of a training step that are fastest.

    Args:
        model: as in :func:`~tfcalc.params`.
        gpu: the GPUs by their name and number (``"64xh100"``); without a number the fewest that hold the model.
        sequences: sequences of a step, of all GPUs.
        seq_len: tokens of a sequence; by default as many as the model usually trains on.
        tokens: tokens of the whole run, for days and dollars.
        stack: whose code runs: megatron, fsdp, deepspeed or megatron-2022.
        precision: number format of the matrix products.
        checkpointing: none, full or selective; by default none and full are tried.
        recompute_modules: modules that backward runs again, as Megatron-core names them: core_attn, mlp, moe, …
        states: number formats of weights, gradients and optimizer, a precision of :func:`~tfcalc.memory`: moments in
            16 bits are ``"bf16-master-fp32-grads-bf16-moments"``.
        price: US dollars for a GPU and an hour; by default a dated list.
        rates: a file of rates that ``tfcalc calibrate`` wrote; by default those of published runs.
        top: layouts that are listed.
        axes: what is fixed of the layout, a value or several: ``tp``, ``pp``, ``vpp``, ``cp``, ``ep``, ``etp``,
            ``micro_batch``, ``zero``, ``replicas``.

    Returns:
        Plan: the fastest layout that fits, ``step_seconds`` with a band, ``parts``, and ``layouts`` next to it.

    Raises:
        UsageError: nothing divides, or no rate is known for the GPU.

    >>> import tfcalc
    >>> at = {"tp": 1, "pp": 1, "vpp": 1, "cp": 1, "zero": 1, "micro_batch": 8}
    >>> found = plan(tfcalc.load("gpt2"), "8xh100", 64, checkpointing="none", **at)
    >>> found.layout.dp, found.fits, found.step_seconds > found.floor_seconds
    (8, True, True)
    """
    model = model_of(model)
    counted, name = parse_gpu(gpu)
    known = dict.fromkeys(("none", "full", "selective"))
    kind = None if checkpointing is None else one_of("checkpointing", checkpointing, known)
    modules = modules_again(kind, recompute_modules, stack)
    kind = "selective" if modules else kind
    if unknown := next((axis for axis in axes if axis not in Axes._fields), ""):
        raise UsageError(f"{unknown} is no axis of a layout", f"those are {', '.join(Axes._fields[:-1])}")
    fixed = {axis: (values,) if isinstance(values, int) else tuple(values) for axis, values in axes.items()}
    return planned(
        PlanQuestion(
            model=model,
            card=named(name)[0],
            gpus=counted,
            fewest=name == gpu.strip(),
            sequences=sequences,
            length=default_length(model) if seq_len is None else int(seq_len),
            fixed=Axes(**fixed, again=None if kind is None else (int(kind == "full"),)),
            stack=one_of("stack", stack, dict.fromkeys(STACKS)),
            precision=precision,
            states=states_of_stack(states, stack),
            tokens=tokens,
            price=price,
            top=top,
            modules=modules,
            rates=None if rates is None else read_rates(rates),
        )
    )


def planned(question: PlanQuestion) -> Plan:
    """Return the answer of a plan's question. Raises UsageError where nothing divides, or no rate is known."""
    return _on_fewest(question) if question.fewest else Plan(PlanCase(question))


def _on_fewest(question: PlanQuestion) -> Plan:
    """Return the plan on the fewest GPUs that hold the model, and on which the run ends within ``budget_days``.

    Powers of two are tried, of GPUs and then of nodes, and quarters between the last two. Where none is enough, it is
    that on the number which is fastest. Raises UsageError where no number has a layout that fits.
    """
    case = PlanCase(question._replace(gpus=1))
    trials: dict[int, Trial] = {}
    plans: dict[int, Plan] = {}

    def enough(gpus: int, *, within: bool = True) -> bool:
        here = case.with_question(gpus=gpus)
        if question.budget_days is not None and within:
            assert question.tokens is not None
            least = question.tokens / question.tokens_per_step * here.floor / SECONDS_OF_A_DAY
            if least > question.budget_days:
                return False
        try:
            found = Plan(here)
        except UsageError:
            return False
        days = found.days if found.fits and question.tokens is not None else None
        trials[gpus] = Trial(gpus, found.fits, days)
        if found.fits:
            plans[gpus] = found
        return found.succeeded

    powers = [1, *_doubled(1)]
    reached = next((gpus for gpus in powers if enough(gpus)), None)
    if reached is not None:
        node = min(question.domain or case.machine.domain, NODE)
        between = [reached * part // 8 for part in (5, 6, 7)]
        reached = next((gpus for gpus in between if gpus and gpus % node == 0 and enough(gpus)), reached)
    if not plans:  # all are too few by their peak alone: the fastest are among the most GPUs that have a layout
        for gpus in reversed(powers):
            enough(gpus, within=False)
            if gpus in plans and plans[gpus].days > min(one.days for one in plans.values()):
                break
    if not plans:
        raise UsageError(
            f"no number of GPUs up to {MOST_GPUS:,} has a layout that fits", "give a larger batch, or free an axis"
        )
    if reached is None:  # the run ends on none in time
        least = (1 + ALIKE) * min(one.days for one in plans.values())
        reached = min(gpus for gpus, one in plans.items() if one.days <= least)
    return Plan(plans[reached].case, [trials[gpus] for gpus in sorted(trials)])
