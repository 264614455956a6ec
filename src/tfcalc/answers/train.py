"""A training run on one GPU or a few: does it fit, or with which change; how long it takes, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, ClassVar

from tfcalc.analysis.common import model_of
from tfcalc.answers.conventions_text import PAIRS
from tfcalc.answers.fit import (
    ALL_TRIED,
    cards_of,
    name_of,
    named_card,
    not_searched,
    of_those_searched,
    searched,
)
from tfcalc.answers.memory_base import of_training
from tfcalc.answers.train_keys import RunKeys, row, row_as_asked
from tfcalc.answers.train_run import (
    HALF,
    NO_CHECKPOINTING,
    NO_FORMAT,
    NO_GPU,
    NO_LAYERS,
    NO_METHOD,
    NOT_IN_FILE,
    PRODUCTS_IN_FP8,
    RunOnCard,
    TrainQuestion,
)
from tfcalc.answers.training_memory import FUSED_TAKE_LESS, OWN_CODE
from tfcalc.answers.verdict import NO_EXPERT_PARALLELISM
from tfcalc.core.traced import value_of
from tfcalc.dimensions import MOST_TOKENS, check_size
from tfcalc.errors import UsageError
from tfcalc.hardware import MOST_GPUS
from tfcalc.model import default_run
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import FP32
from tfcalc.placed.schedules import schedule_of
from tfcalc.plans import DPO, GRPO, PPO, SFT, Training
from tfcalc.report.declared import Answer, When, integer, optional, record, records, text, texts
from tfcalc.report.opening import found, given
from tfcalc.report.sheet import FIRST, NOT_YET, WHOLE, Cell, Column, Sheet, later
from tfcalc.search.gpus import ANY_CARD, NO, RISKY, SAID, common, of_card
from tfcalc.search.remedies import FSDP
from tfcalc.timing.estimate import (
    CODE,
    HOURS_OF_A_MONTH,
    SECONDS_OF_A_DAY,
    SECONDS_OF_AN_HOUR,
    Pace,
)
from tfcalc.timing.rates import machine_of
from tfcalc.timing.rates_file import read_rates
from tfcalc.training.methods import WRITES
from tfcalc.training.peaks import Peaks
from tfcalc.units import rounded, short
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.timing.rates import Price

PASSES = {
    DPO: "floor and estimate have the reference model's pass, where it is in the run; five steps of TRL 1.16 on an "
    "H100, by which this way of counting it was chosen, were within 15 %",
    GRPO: "the floor has the passes that score them, and those that write completions on the same GPUs, of which each "
    "reads the weights once for a token of all completions",
    PPO: "the floor has both models that are trained, and no passes that write and score completions",
}
"""What of a method beside training is in the floor."""
UNTIMED = {
    GRPO: "Four steps of TRL's GRPO on an H100 took 13 to 51 ms for each token of a completion (models of 0.5 to 1.5B)"
}
"""What is known of a method's seconds, where no rate follows from it (tests/oracle/memory/h100-preference.jsonl)."""
AT_A_SHARE = {
    GRPO: "with --mfu completions are written as fast as weights can be read",
    PPO: "with --mfu nothing is in the hours that writes and scores completions",
}
"""What the hours of a said MFU leave out of a method that writes completions."""
IN_FP8 = "plan --precision fp8 estimates Megatron-LM's"


NO_PEAK = "; a share of the peak tells nothing without one: name the GPU (tfcalc gpus), or give --tokens-per-second"
"""What to do where a card's peak is not known."""

PAGES = "what pages to the host, where the GPU is full"
"""States of a paged optimizer that do not fit."""

ONE = When(lambda answer: answer.question.card is not None, "run")
SEVERAL = When(lambda answer: answer.question.card is None, "runs")
FROM_FILE = When(lambda answer: answer.question.rates is not None)


COLUMNS = (
    Column("GPU", numeric=False),
    Column("change", numeric=False, folds=True),
    Column("peak GiB"),
    Column("tokens/s"),
    Column("hours"),
    Column("USD"),
)

IN_TIME = When(lambda answer: answer.question.days is not None and answer.only.possible)


class MoreGpus(NamedTuple):
    """A number of GPUs that end a run in time, the ``options`` that ask for them, and when it ``ends``, in words."""

    gpus: int
    options: str
    ends: str


class Train(Answer):
    """A training run: on the GPUs that were named, or a line for each common GPU."""

    command: ClassVar[str] = "train"
    about: ClassVar[str] = "A training run on one GPU or a few: whether it fits, how long it takes, what it costs."

    training_tokens = integer("tokens of the run", lambda answer: answer.question.tokens, given("given by --tokens"))
    rates_file = text(
        "the file of --rates, and what it was fitted to", lambda answer: answer.rates_used, when=FROM_FILE
    )
    run = record(RunKeys, "the run on the GPUs that were named", lambda answer: answer.only, when=ONE)
    runs = records(RunKeys, "the run on each GPU, the cheapest first", lambda answer: answer.each, when=SEVERAL)
    not_searched = texts(
        "GPUs on which not all changes were tried, and none makes it fit", lambda answer: answer.rest, when=SEVERAL
    )
    gpus_in_time = optional(
        "GPUs of this kind that end the run within --days; null where no number is known",
        lambda answer: answer.in_time and answer.in_time.gpus,
        found("the fewest whole servers of those tried; at the same rate per GPU, where one is given"),
        when=IN_TIME,
    )
    assumptions = texts("what was assumed", lambda answer: tuple(answer.assumed()))

    def __init__(self, question: TrainQuestion) -> None:
        self.question = question

    @cached_property
    def only(self) -> RunOnCard:
        """The run on the GPUs that were named."""
        card = self.question.card
        assert card is not None
        return RunOnCard(self.question, card, named_card(card), Peaks(self.question.model))

    @cached_property
    def _asked(self) -> list[RunOnCard]:
        """The run on each GPU that is asked about, and that has a verdict."""
        if self.question.card:
            return [self.only]
        peaks = Peaks(self.question.model)
        asked = [RunOnCard(self.question, *each, peaks, grows=False) for each in cards_of(self.question.cards)]
        with_verdict = [one for one in asked if one.answers]
        if not with_verdict:
            assert asked[0].judge  # why there is none is raised here
        return with_verdict

    @cached_property
    def _searched(self) -> tuple[list[RunOnCard], list[RunOnCard]]:
        return searched(self._asked)

    @cached_property
    def each(self) -> list[RunOnCard]:
        """The run on each of the GPUs on which it fits, the cheapest first, then the fastest."""
        return sorted((one for one in self.fitting if not one.beyond), key=_order)

    @property
    def fitting(self) -> list[RunOnCard]:
        """The run on each of the GPUs on which it fits, whatever speed was said."""
        return [one for one in self._searched[0] if one.possible]

    @property
    def rest(self) -> list[str]:
        """Names of the GPUs for which no time was left."""
        return [one.accelerator.name for one in self._searched[1]]

    @property
    def rates_used(self) -> str:
        """The file of rates, in words."""
        assert self.question.rates is not None
        return self.question.rates.words

    @property
    def succeeded(self) -> bool:
        """Return whether it fits as asked; without a GPU, whether it can fit on one."""
        return self.only.judge.holds if self.question.card else later(lambda: bool(self.each), True)

    @property
    def heading(self) -> str:
        """The model, and how it is trained: on a GPU that was named with the change that makes it fit."""
        if self.question.card and self.only.possible:
            return of_training(self.question.model, *self.only.resolved)
        return self._asked[0].judge.subtitle

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definitions of the step as asked, on the first GPU."""
        return self._asked[0].judge.report.definitions

    def assumed(self) -> Iterator[str]:
        """Yield what was assumed."""
        told = [self.only] if self.question.card else self.each
        pace = self.question.pace
        if pace.given:
            yield f"seconds: {pace.words}, as it was said"
        timed = [] if pace.given else [one for one in told if one.seconds_of_step is not None]
        for stack in dict.fromkeys(one.code for one in timed):
            whose = f"{CODE[stack]} (rates.toml)" if self.question.rates is None else self.rates_used
            yield f"seconds: rates of {whose}; data loading and checkpoints are not in it"
        yield "floor: FLOPs of visible pairs, nothing recomputed, over the dense peak"
        yield f"MFU: {PAIRS[self.question.pairs]} (--attention), nothing recomputed, dense peak; as flops --mfu"
        method = self.question.plan.method
        if method != SFT:
            yield f"{method}: tokens are those that are trained on; {PASSES[method]}"
        for one in [self.only] if self.question.card else self.each:
            if one.paged:
                yield f"{one.accelerator.name}: {PAGES} is not in the hours"
            if one.price is not None:
                yield f"{one.accelerator.name}: {one.price.typical:,.2f} USD an hour, {one.price.origin}"

    def sheet(self) -> Sheet:
        """The answer in a line, or a table over GPUs."""
        if self.question.card:
            return self._of_card()
        return later(self._of_all, None) or self._before_the_rest()

    @property
    def lines(self) -> tuple[str, ...]:
        """Lines that another answer tells of it: its title, and what its numbers rest on."""
        sheet = self.sheet()
        return sheet.title, *sheet.notes

    def _of_card(self) -> Sheet:
        """The run as asked, or with the change that makes it fit; before that is found, the peak and the verdict."""
        judge = self.only.judge
        at_once = judge.in_sight == FIRST and judge.fits
        return later(self._in_full, None, FIRST if at_once else WHOLE) or self._before_the_rest()

    def _before_the_rest(self) -> Sheet:
        """Return the run as asked, on each GPU that is asked about."""
        of_all = f"{NOT_YET} which of these GPUs hold it, and how long {self._tokens} take"
        title = self.only.judge.sheet().title if self.question.card else of_all
        at = [Train.run] if self.question.card else []
        rows = [row_as_asked(one, *at) for one in self._asked]
        return Sheet(title, COLUMNS, rows, None, self._asked[0].judge.subtitle)

    @property
    def _tokens(self) -> str:
        return f"{short(self.question.tokens, billion='B')} tokens"

    def _in_full(self) -> Sheet:
        one = self.only
        tokens = self._tokens
        if not one.possible:
            closest = "; ".join(one.judge.verdict.split(": ")[1:])
            what = OWN_CODE if one.may_fit_fused else "it"
            none = f"no change that was tried makes {what} fit"
            return self._sheet(f"{SAID[one.status]}: {closest}", [], none, *_of_experts(one))
        with_change = f" with {one.flags}" if one.flags else ""
        verdict = f"{SAID[one.judge.status]}{'; fits' if one.flags else ''}{with_change}"
        if one.seconds_of_step is None:
            title = (
                f"{verdict}: {tokens} in at least {_of_floor(one)}"
                if one.floor
                else f"{verdict}; how long {tokens} take is not known"
            )
        else:
            title = (
                f"{verdict}: {tokens} in {duration(one.hours(one.seconds_of_step))}{self._span(one)}{self._money(one)}"
            )
        if in_time := self._in_time:
            title = f"{in_time}; on {name_of(one)}: {title}"
        return self._sheet(title, [row(one, Train.run)], *self._notes(one))

    def _span(self, one: RunOnCard) -> str:
        if self.question.pace.given:
            return f" at {self.question.pace.words}"
        if one.timed is None:
            return ""
        low, high = (duration(one.hours(end)) for end in (one.timed.low, one.timed.high))
        unit = high.rpartition(" ")[2]
        return f" ({low.removesuffix(f' {unit}')} to {high})"

    def _money(self, one: RunOnCard) -> str:
        assert one.seconds_of_step is not None
        money = f", {money_in_words(one.cost(one.seconds_of_step))}" if one.price else ""
        return f", {rounded(one.gpu_hours)} GPU hours{money}"

    def _shares(self) -> Iterator[str]:
        """Yield what gives hours where nothing is estimated."""
        if self.question.card is not None and self.only.accelerator.name == ANY_CARD:
            one, number = self.only, f"{self.only.card.gpus}x" * (self.only.card.gpus > 1)
            alike = (gpu for gpu in common() if gpu.memory == one.accelerator.memory and one.format in gpu.peaks)
            yield from (f"--gpu {number}{gpu.name} (hours on a card of {gpu.memory})" for gpu in alike)
        if self.question.card is not None and self.only.seconds_of_step is None and self.only.floor:
            if self.question.plan.method not in WRITES:
                one = self.only
                hours = one.hours(one.at_a_share(USUAL_SHARE))
                an_hour, said = (one.price.typical, "") if one.price else (A_PRICE, f" --price {A_PRICE:.2f}")
                told = f"{duration(hours)}, {money_in_words(hours * one.gpus * an_hour)}"
                yours = f"your share of the peak{', and your price; with these' if said else '; with this'}"
                pairs = f", {PAIRS[self.question.pairs]}" * (one.at_the_peak > one.floor)
                yield f"--mfu {USUAL_SHARE:.0%}{said} ({yours}{pairs}: {told})"
            half = next((name for name in HALF if name in self.only.accelerator.peaks), "")
            if half and self.only.format == FP32.name:
                yield f"--precision {half}-mixed (products in 16 bits)"

    def _sooner(self) -> Iterator[str]:
        """Yield what ends a long run sooner: more sequences at once, and more GPUs."""
        if self.question.plan.method != SFT:
            return
        if self.question.card is None:
            cheapest = next((one for one in self.each if one.seconds_of_step), None)
            if cheapest and cheapest.hours(cheapest.seconds_of_step or 0) > HOURS_OF_A_MONTH:
                yield f"--gpu {name_of(cheapest)} --days 30 (how many of them end it within a month)"
            return
        one = self.only
        if not one.possible:
            return
        hours = one.hours(one.seconds_of_step or one.floor)
        run, plan = one.ran
        if hours > HOURS_OF_A_RUN and value_of(run.batch_size) * value_of(plan.grad_accum) == 1:
            yield "--batch N (sequences at once, not 1: fit --train --gpu NAME says how many)"
        if self.question.days is None and (more := self._more_gpus(one, HOURS_OF_A_MONTH)):
            yield f"{more.options} (to end within a month: {more.ends})"

    def _more_gpus(self, one: RunOnCard, within: float) -> MoreGpus | None:
        """The GPUs that end the run within these hours, and when they do; None where none are known.

        More than one server's are whole servers. Each number is tried, but where a speed was measured.
        """
        seconds = one.seconds_of_step or (one.timed.seconds if one.timed else one.floor)
        if not seconds or one.hours(seconds) <= within or one.gpus != one.card.gpus:
            return None
        gpus = _of_servers(one.hours(seconds) * one.gpus / within)
        shared = "" if one.gpus > 1 else " --fsdp"
        if self.question.pace.tokens_per_second or self.question.pace.step_time:
            return MoreGpus(gpus, f"--gpu {gpus}x{one.accelerator.name}{shared}", "at the same rate per GPU")
        found: RunOnCard | None = None
        for _ in range(NUMBERS_OF_GPUS):
            tried = self._on(one, gpus)
            if tried is None or (found is not None and gpus >= found.gpus):
                break
            hours = tried.hours(tried.seconds_of_step or tried.floor)
            found = tried if hours <= within else found
            if (next_ := _of_servers(gpus * hours / within)) == gpus:
                break
            gpus = next_
        if found is None:
            return None
        hours = found.hours(found.seconds_of_step or found.floor)
        ends = duration(hours) if found.seconds_of_step else f"at least {duration(hours)}, at the peak"
        return MoreGpus(found.gpus, f"--gpu {found.gpus}x{one.accelerator.name}{shared}", ends)

    def _on(self, one: RunOnCard, gpus: int) -> RunOnCard | None:
        """The run on this number of GPUs, which share all states where one was asked about; None where it cannot be."""
        if gpus > MOST_GPUS:
            return None
        plan = self.question.plan if one.gpus > 1 else self.question.plan.replaced(**FSDP)
        card = of_card(f"{gpus}x{one.accelerator.name}", instead="")
        found = RunOnCard(self.question._replace(card=card, plan=plan), card, one.accelerator, one.peaks, grows=False)
        return found if found.answers and found.possible and (found.seconds_of_step or found.floor) else None

    @cached_property
    def in_time(self) -> MoreGpus | None:
        """The GPUs that end the run within the days that were asked for: those that were named, or more."""
        one, hours = self.only, (self.question.days or 0.0) * HOURS_OF_A_DAY
        seconds = one.seconds_of_step or one.floor
        if seconds and one.hours(seconds) <= hours:
            return MoreGpus(one.gpus, name_of(one), "" if one.seconds_of_step else "at the peak")
        return self._more_gpus(one, hours)

    @property
    def _in_time(self) -> str:
        """Number of GPUs that end the run within the days that were asked for; "" where none were."""
        if self.question.days is None:
            return ""
        within = duration(self.question.days * HOURS_OF_A_DAY)
        if self.in_time is None:
            return f"How many GPUs end it within {within} is not known"
        return f"Within {within}: {', '.join(filter(None, (self.in_time.options, self.in_time.ends)))}"

    def _notes(self, one: RunOnCard) -> Iterator[str]:
        if not one.judge.fits:
            yield from _of_experts(one)
        if other := one.other_format:
            flag = f": --precision {other}-mixed" if other in HALF and one.format == FP32.name else ""
            least = f"In {one.format} it takes at least {duration(one.hours(one.floor))}"
            yield f"{least}, so its products have another format, such as {other}{flag}"
        if self.question.pace.mfu is not None and self.question.plan.method in WRITES:
            yield f"{why_unknown(one)}; {AT_A_SHARE[self.question.plan.method]}"
        if self.question.pace.given and one.estimate is not None:
            low, high = (duration(one.hours(end)) for end in (one.estimate.low, one.estimate.high))
            estimate = f"{duration(one.hours(one.estimate.seconds))}, {low} to {high}"
            yield f"Without a speed that is given the estimate is {estimate}, by rates of {CODE[one.code]}"
        if one.seconds_of_step is None:
            share = "" if one.floor else NO_PEAK
            yield f"{why_unknown(one) or f'Nobody timed {one.untimed}'}, so nothing is estimated{share}"
            if one.timed is not None:
                yield f"Without {one.untimed}: {duration(one.hours(one.timed.seconds))}{self._span(one)}"
        elif one.estimate is not None and not self.question.pace.given:
            floor = duration(one.hours(one.floor))
            by_file = self.question.rates is not None
            yield f"{one.estimate.in_words(one.code, by_file=by_file)}; never below {floor}"
            if by_others := one.by_others:
                told = f"would give {duration(one.hours(by_others[1]))}; the longer of both is told"
                yield f"Rates of {CODE[by_others[0]]} {told}"
            if self.question.rates is not None:
                yield f"Rates: {self.rates_used}"
            if one.paged:
                yield f"Not in these hours: {PAGES}"
            if one.moving:
                yield (
                    f"{one.moving * 100:.0f} % of a step moves bytes: fp32 adapters read and give copies in fp32, "
                    "so that LoRA may be slower than full training; --lora-dtype bf16 makes fewer"
                )
        if one.price is not None and one.seconds_of_step is not None:
            yield f"Price: {_in_words(one.price)}"
        elif one.seconds_of_step is not None:
            yield "No price is known for this GPU: --price 2.50 for 2.50 USD an hour"

    def _of_all(self) -> Sheet:
        rows = [row(one, Train.runs, place) for place, one in enumerate(self.each)]
        tokens = self._tokens
        left = tuple(not_searched(self.rest))
        if not rows:
            among = f"{'any' if self.question.cards else 'any common'} GPU{of_those_searched(self.rest)}"
            perhaps = any(one.may_fit_fused for one in self._searched[0])
            state, why = (SAID[RISKY], [f"{OWN_CODE} does not fit; {FUSED_TAKE_LESS}"]) if perhaps else (SAID[NO], [])
            return self._sheet(f"{state} on {among}, {ALL_TRIED}: {tokens}", [], *why, *left)
        first = self.each[0]
        seconds = first.seconds_of_step
        if seconds is None:
            bound = f" in at least {duration(first.hours(first.floor))}" if first.floor else ", how long is not known"
            return self._sheet(f"{tokens}{bound}, on {name_of(first)}", rows, *left)
        with_all = all(one.seconds_of_step is not None and one.price is not None for one in self.each)
        among = "" if with_all and not self.rest else " of those with an estimate and a price"
        least = (
            f"cheapest on {name_of(first)}{among}"
            if first.price
            else f"fastest on {name_of(first)} of those with an estimate"
        )
        told = f"{duration(first.hours(seconds))}{self._span(first)}{self._money(first)}"
        return self._sheet(f"{tokens}, {least}: {told}", rows, *self._how_sure(first), *left)

    def _how_sure(self, first: RunOnCard) -> Iterator[str]:
        """Yield how sure the first line of a table is, and what its rows without an estimate are."""
        name, by_file = name_of(first), self.question.rates is not None
        if first.estimate is not None and not self.question.pace.given:
            words = first.estimate.in_words(first.code, by_file=by_file)
            yield f"{name}: {words[:1].lower()}{words[1:]}"
        if first.price is not None:
            yield f"{name}: {_in_words(first.price)}"
        if any(one.seconds_of_step is None for one in self.each):
            yield "> is the GPU's peak, which no run is below: no run on such a GPU is known, or none of this kind"
        if small := [one.accelerator.name for one in self._searched[0] if not one.possible]:
            yield f"Not on these, {ALL_TRIED}: {', '.join(small)}"

    def _sheet(self, title: str, rows: list[list[Cell]], *notes: str) -> Sheet:
        return Sheet(
            title=title,
            subtitle=self.heading,
            columns=COLUMNS,
            rows=rows,
            quiet=title,
            notes=(*notes, *self.question.model.left_out),
            assumes=(),
            not_counted="",
            see_also=(*self._shares(), *self._sooner(), "--assumptions", "--json"),
            assumptions=tuple(self.assumed()),
        )


def _in_words(price: Price) -> str:
    """``2.95 USD a GPU hour (source, date); 1.99 to 5.00 were seen``."""
    span = f"; {price.low:,.2f} to {price.high:,.2f} were seen" if price.low < price.high else ""
    return f"{price.typical:,.2f} USD a GPU hour ({price.origin}){span}"


def _of_floor(one: RunOnCard) -> str:
    """The time, and the money, that no run is below; and that they are no estimate."""
    money = f", {money_in_words(one.cost(one.floor))}" if one.price else ""
    return f"{duration(one.hours(one.floor))}{money} (at the GPU's peak; no estimate)"


def why_unknown(one: RunOnCard) -> str:
    """Say why nothing is estimated; nothing where it is."""
    why, plan, file = one.unknown, one.plan, one.question.rates
    if why == NO_METHOD:
        return UNTIMED.get(plan.method, f"No run of such code with --method {plan.method} is known")
    if why == NO_GPU:
        return f"No run on {one.card.stated if one.accelerator.name == ANY_CARD else one.accelerator.name} is known"
    if why == NOT_IN_FILE and file is not None:
        return f"{file.called} has no rates of {one.accelerator.name}"
    told = {
        PRODUCTS_IN_FP8: f"No run in fp8 is known of one GPU's libraries ({IN_FP8})",
        NO_FORMAT: f"No run in {one.format} is known (--precision bf16)",
        NO_CHECKPOINTING: "No run with --checkpointing selective-op is known",
        NO_LAYERS: "It has no layers",
    }
    return told.get(why, "")


def _of_servers(gpus: float) -> int:
    """A number of GPUs, rounded up to whole servers beyond one."""
    return ceil(gpus) if gpus < OF_A_SERVER else ceil(gpus / OF_A_SERVER) * OF_A_SERVER


def _of_experts(one: RunOnCard) -> Iterator[str]:
    """Yield what finds layouts of a mixture's experts, which is not among the changes."""
    if one.judge.case.whole_mixture and machine_of(one.accelerator) is not None:
        yield f"{NO_EXPERT_PARALLELISM}: {one.judge.case.layouts_of_experts()}"


OF_A_SERVER, HOURS_OF_A_DAY = 8, 24
"""GPUs of a server, which are rented together."""
NUMBERS_OF_GPUS = 6
"""Numbers of GPUs that are tried at most to end a run in time."""
USUAL_SHARE, A_PRICE = 0.35, 2.50
"""MFU that is proposed where nothing is estimated; US dollars of a GPU and an hour, where no price is known."""
HOURS_OF_A_RUN = 1
"""Hours from which on a run with one sequence at a time is told of larger batches; of more GPUs from a month on."""


def _order(one: RunOnCard) -> tuple[bool, float, float]:
    seconds = one.seconds_of_step
    if seconds is None:
        return True, 0.0, one.hours(one.floor)
    hours = one.hours(seconds)
    return one.price is None, hours * one.gpus * one.price.typical if one.price else 0.0, hours


def duration(hours: float) -> str:
    """``45 minutes``, ``2.8 hours``, ``12.3 days``.

    >>> duration(0.75), duration(2.8), duration(300), duration(0.001), duration(1)
    ('45 minutes', '2.8 hours', '12.5 days', '3.6 seconds', '1 hour')
    """
    days = hours * SECONDS_OF_AN_HOUR / SECONDS_OF_A_DAY
    amount, unit = (rounded(days), "day") if days >= 3 else (rounded(hours), "hour")
    if hours < 1:
        amount, unit = f"{60 * hours:,.2g}", "minute"
    if hours < 1 / 60:
        amount, unit = f"{hours * SECONDS_OF_AN_HOUR:,.2g}", "second"
    return f"{amount} {unit}{'s' * (amount != '1')}"


def money_in_words(dollars: float) -> str:
    """``8.30 USD``.

    >>> money_in_words(8.3), money_in_words(12_345_678)
    ('8.30 USD', '12.3M USD')
    """
    return f"{dollars:,.2f} USD" if dollars < 1000 else f"{short(round(dollars))} USD"


def train(
    model: Model | str,
    tokens: int,
    workload: Workload | None = None,
    training: Training | None = None,
    *,
    gpu: str | None = None,
    price: float | None = None,
    mfu: float | None = None,
    tokens_per_second: float | None = None,
    step_time: float | None = None,
    rates: str | None = None,
) -> Train:
    """Find whether a training run fits, how long it takes, and what it costs.

    Args:
        model: as in :func:`~tfcalc.params`.
        tokens: tokens of the whole run.
        workload: batch and length of a step on one GPU; by default as in :func:`~tfcalc.memory`.
        training: how it is trained; by default all weights, with AdamW.
        gpu: the GPU, or several (``"h100"``, ``"8xh100"``); by default each common one.
        price: US dollars for a GPU and an hour; by default a dated list.
        mfu: share of the peak that it is said to reach; or one of the next two, in the place of an estimate.
        tokens_per_second: measured tokens per second of all GPUs.
        step_time: measured seconds of a step.
        rates: a file of rates that ``tfcalc calibrate`` wrote; by default those of published runs.

    Returns:
        Train: ``run`` on these GPUs, or ``runs`` on each common one: verdict, seconds with a band, hours, GPU hours,
        US dollars.

    Raises:
        InvalidModel: as :func:`tfcalc.memory`.
        UsageError: a utilisation that is none, or two speeds.

    >>> import tfcalc
    >>> run = train(tfcalc.load("gpt2"), 10**9, gpu="h100", mfu=0.4, price=2.0).run
    >>> run.status, round(run.cost / run.gpu_hours, 2)
    ('fits', 2.0)
    """
    pace = Pace(mfu, tokens_per_second, step_time)
    if sum(one is not None for one in pace) > 1:
        raise UsageError("mfu, tokens_per_second and step_time each say how fast it runs", "give one of them")
    file = None if rates is None else read_rates(rates)
    card = None if gpu is None else of_card(gpu, instead="")
    return trained(TrainQuestion(model_of(model), workload, training or Training(), tokens, card, pace, price, file))


def trained(question: TrainQuestion) -> Train:
    """Return the answer of a training's question. Raises UsageError for a utilisation that is none."""
    check_size("tokens", question.tokens, most=MOST_TOKENS)
    stages, chunks = question.plan.pipeline_parallel, question.plan.virtual_pipeline
    if stages != 1 and chunks != 1:
        schedule_of(chunks).check(stages, question.plan.grad_accum, chunks)
    mfu = question.pace.mfu
    if mfu is not None and not 0 < mfu <= 1:
        raise UsageError(f"an MFU of {mfu:g} is not from 0 to 1", "write 40% or 0.4")
    workload = question.workload or default_run(question.model).replaced(phase="train")
    answer = Train(question._replace(workload=workload.replaced(attention="full"), pairs=workload.attention))
    if question.pace.given:
        told = answer.fitting if question.card is None else [answer.only] * answer.only.possible
        if told and all(one.beyond for one in told):
            max(told, key=lambda one: one.fastest_flops).check_pace()
    return answer
