"""A served model: what fits, how long a token and the first one take at least, an estimate of both, and the cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

from tfcalc.analysis.common import model_of
from tfcalc.answers.conventions_text import windows_in_words
from tfcalc.answers.serve_base import ServedAnswer, rate_in_words, without_products
from tfcalc.answers.serve_question import (
    ENGINE,
    INPUT,
    OUTPUT,
    Limits,
    ServeChange,
    ServeQuestion,
    card_of,
    changes,
    options_of,
    sharing_of,
)
from tfcalc.core.number import ceil_div
from tfcalc.core.traced import value_of
from tfcalc.dimensions import check_size
from tfcalc.errors import InvalidModel, TfcalcError, UsageError
from tfcalc.hardware import GIGA, NODE, parse_gpu
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import Serving
from tfcalc.report.chart import Chart, Curve
from tfcalc.report.declared import (
    Key,
    Record,
    When,
    boolean,
    integer,
    number,
    optional,
    optional_boolean,
    optional_number,
    optional_record,
    record,
    records,
    text,
    texts,
)
from tfcalc.report.opening import Constant, Rule, Stated, found, given, ratio
from tfcalc.report.sheet import Bytes, Cell, Column, Sheet, Short, of
from tfcalc.serving.engine_rules import AS_OTHERS, version_of
from tfcalc.serving.engine_rules import engine as engine_named
from tfcalc.timing.estimate import HOURS_OF_A_MONTH, SECONDS_OF_AN_HOUR
from tfcalc.timing.rates import NO_PRICES, price_of
from tfcalc.timing.served import (
    ALL_SEEN,
    NO_DRAFT,
    OWN,
    WIDENED,
    Bounds,
    Disaggregated,
    Draft,
    Guess,
    Load,
    ServedModel,
    TokenSeconds,
    banded,
)
from tfcalc.timing.serving import Sharing, engine_of, rates_table
from tfcalc.units import short_bytes, short_seconds

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.serving.traffic import ChosenExperts
    from tfcalc.timing.rates import Price
    from tfcalc.timing.served_runs import OwnRates, ServedRuns
    from tfcalc.timing.serving import EngineRates, ServingBand

MILLI, MILLION = 1000, 10**6
MOST_GPUS = 128
"""Most GPUs that are tried to share a model."""
DOES_NOT_FIT = "it does not fit"
MOST_STAGES = MOST_GPUS // NODE
"""Most stages that are tried: as many as these GPUs have servers. Each takes time to count, and a message."""
TTFT, TPOT, CAPACITY = "ttft", "tpot", "capacity"
CANNOT, SHOULD_NOT = "cannot", "should not"
"""Verdicts that deny: by a proof, and by what is assumed or estimated."""
UNKNOWN = "unknown"
"""Verdict where nothing is estimated."""


class ServedAt:
    """The served model at a number of requests, of all replicas; they come at a rate, where it is not 0."""

    def __init__(self, answer: Serve, concurrency: int, arriving: float = 0.0) -> None:
        self.answer, self.concurrency, self.arriving = answer, concurrency, arriving
        self.of, self.by = answer.of, answer.by

    @property
    def requests(self) -> int:
        """Requests of a group of GPUs that makes tokens, of the one that has most."""
        return -(-self.concurrency // self.answer.decoding)

    @property
    def running(self) -> int:
        """Requests that run at once, of all groups and replicas."""
        return min(self.concurrency, int(self.of.running(self.requests)) * self.answer.decoding)

    @cached_property
    def floor_of_token(self) -> Bounds:
        """Bounds of a token."""
        return self.of.floor_of_token(self.requests)

    @cached_property
    def floor_of_first(self) -> Bounds:
        """Bounds of the first token."""
        return self.of.floor_of_prompt(self.requests)

    @cached_property
    def token(self) -> Guess:
        """Estimate of a token."""
        assert self.by is not None
        return self._banded(self.parts.seconds, self.floor_of_token, first=False)

    @cached_property
    def first(self) -> Guess:
        """Estimate of the first token."""
        assert self.by is not None
        return self._banded(self.of.first_token(self.requests, self.by), self.floor_of_first, first=True)

    def _banded(self, seconds: float, floor: Bounds, *, first: bool) -> Guess:
        assert self.by is not None
        band, version = self.answer.band(first=first), "" if self.answer.own else self.answer.version
        unseen = self.of.unseen(self.requests, self.by) if first and not self.answer.own else ALL_SEEN
        return banded(seconds, floor, self.by, band, version, unseen)

    @cached_property
    def parts(self) -> TokenSeconds:
        """Estimate of a token, part by part."""
        assert self.by is not None
        return self.of.parts(self.requests, self.by)

    @cached_property
    def rate(self) -> Guess:
        """Tokens per second of all replicas: no more than come, nor than as many requests as can run make."""
        assert self.by is not None
        if self.arriving:
            most = self.arriving * self.answer.question.load.answer
            return Guess(*(min(one, most) for one in self.answer.full.rate))
        of, requests = self.of, self.requests
        first = self._banded(of.first_of_running(requests, self.by), self.floor_of_first, first=True)
        full = self._banded(of.token_of_full(requests, self.by), self.floor_of_token, first=False)
        groups = self.concurrency / requests
        ends = zip(first, self.token, full, strict=True)
        value, low, high = (groups * of.rate(requests, *each) for each in ends)
        return Guess(value, high, low)

    @property
    def rate_of_gpu(self) -> float:
        """Tokens per second of a GPU."""
        return float(self.rate.value / self.answer.question.gpus)

    @property
    def ended(self) -> float:
        """Requests that end each second."""
        return float(self.rate.value / self.answer.question.load.answer)

    @property
    def floor_rate(self) -> float:
        """Tokens per second that are never exceeded: each request takes its floor, and caches of no more have room."""
        load, token = self.answer.question.load, self.floor_of_token.seconds
        seconds = self.floor_of_first.seconds + (load.answer - 1) * token
        rates = [self.concurrency * load.answer / seconds] if seconds else [0.0]
        most = max(1, int(self.of.certain_capacity))
        further = (load.answer - 1) * self.of.floor_of_running(most).seconds
        if further and not load.static:
            rates.append(self.answer.decoding * most * load.answer / further)
        if self.floor_between:
            rates.append(self.answer.decoding * load.answer / self.floor_between)
        return float(min(rates))

    @property
    def seconds_of_request(self) -> float:
        """Seconds that a request takes where tokens come at that rate, all requests at once."""
        tokens = self.concurrency * self.answer.question.load.answer
        return tokens / self.floor_rate if self.floor_rate else 0.0

    @property
    def floor_between(self) -> float:
        """Seconds between two answers of a group, below which they never are, where other GPUs read prompts."""
        return float(self.of.floor_between())

    @property
    def cost(self) -> Guess | None:
        """US dollars for a million tokens of answers."""
        price = self.answer.price
        if price is None:
            return None
        per_second = price.typical * self.answer.question.gpus / SECONDS_OF_AN_HOUR
        rate = self.rate
        return Guess(*(MILLION * per_second / one for one in (rate.value, rate.high, rate.low)))


BY_RATES = found("by the rates of serving_rates.toml, of operators and of engines, fitted to published runs")
BY_OWN = found("the least squares of log(estimate / measured) of one's own runs; 1 without them")
BY_BYTES = found("bytes over the bandwidth, FLOPs over the dense peak, bytes sent over the link: the largest")
FOLD = found("a sum over the operations of a step, on one GPU")
GIVEN = given("given by the options, or their defaults")
BY_BAND = found("the estimate times the first and the last tenth of measured over estimated, of systems left out")


OF_BAND = {
    "static-dense": "dense models, in static batches",
    "served-dense": "dense models, served",
    "experts": "mixtures, served",
    "prompt": "prompts of static batches",
    "first": "first tokens under load",
}
"""Runs of each class of which a band was learned (serving_rates.toml)."""


class RangeKeys(Record):
    """An estimate, and the band in which four of five measured runs lay, each estimated without its own system's."""

    value = number("the estimate", lambda one: one.value, BY_RATES)
    low = number("lower end of the band", lambda one: one.low, BY_BAND)
    high = number("upper end of the band", lambda one: one.high, BY_BAND)


class TokenPartsKeys(Record):
    """A token's time, part by part."""

    kernels = number("kernels", lambda one: MILLI * one.kernels, BY_RATES)
    all_reduce = number("sums over GPUs", lambda one: MILLI * one.all_reduces, BY_RATES)
    to_experts = number(
        "vectors to experts on GPUs of other groups, and back", lambda one: MILLI * one.exchanges, BY_RATES
    )
    launches = number("launches of kernels", lambda one: MILLI * one.launches, BY_RATES)
    host = number("what the host does in a step", lambda one: MILLI * one.host, BY_RATES)
    prefill_between = number("prompts of others in between", lambda one: MILLI * one.prompts, BY_RATES)


def _milli(one: Guess) -> Guess:
    return Guess(*(MILLI * each for each in one))


class DeploymentKeys(Record):
    """GPUs, how they share the model, the engine, and number formats."""

    gpu = text("the GPU", lambda one: one.question.card.name)
    gpus = integer("GPUs in all", lambda one: one.question.gpus, GIVEN)
    tp = integer("GPUs that share each layer", lambda one: one.question.sharing.tp, GIVEN)
    pp = integer("stages of the pipeline", lambda one: one.question.sharing.pp, GIVEN)
    dp = integer("groups with requests of their own that share experts", lambda one: one.question.sharing.dp, GIVEN)
    ep = integer("groups of GPUs that share the experts", lambda one: one.question.sharing.ep, GIVEN)
    replicas = integer("copies of what serves a request", lambda one: one.question.replicas, GIVEN)
    prefill_groups = optional(
        "groups of GPUs that read prompts alone, in a replica; null where all do both",
        lambda one: one.question.load.apart.prompts if one.question.load.apart else None,
        GIVEN,
    )
    decode_groups = optional(
        "groups of GPUs that make tokens alone, in a replica; null where all do both",
        lambda one: one.question.load.apart.tokens if one.question.load.apart else None,
        GIVEN,
    )
    engine = text("the engine", lambda one: one.engine)
    engine_version = text("its version; empty where none was said", lambda one: one.version)
    weights = text("number format of the weights", lambda one: one.of.traffic.recipe.format.name)
    kv = text("number format of the cache", lambda one: one.of.plan.kv)
    draft_model = text(
        "the model that guesses tokens; empty where none was said",
        lambda one: one.question.guesser.summary if one.question.guesser else "",
    )


class TrafficKeys(Record):
    """The requests."""

    input_tokens = integer("tokens of a prompt", lambda one: one.prompt, GIVEN)
    output_tokens = integer("tokens of an answer", lambda one: one.answer, GIVEN)
    concurrency = integer("requests at once", lambda one: one.concurrency, GIVEN)
    prefix_tokens = integer("tokens of a prompt that are cached already", lambda one: one.prefix, GIVEN)
    static = boolean("one batch, read at once", lambda one: one.static)
    drafted_tokens = integer("tokens that are guessed for each step", lambda one: one.draft.tokens, GIVEN)
    acceptance = number("probability that one of them is accepted", lambda one: one.draft.accepted, GIVEN)
    tokens_per_step = number(
        "tokens that a step makes of a request, on average", lambda one: one.draft.made, found("(1 - a^(n+1))/(1 - a)")
    )


class ExpertsKeys(Record):
    """Experts of a layer that the tokens of a step are sent to, on one GPU."""

    least = integer("fewest", lambda one: value_of(one[0].least()), found("k of E, over the groups of GPUs"))
    expected = number(
        "on average, if each token chooses alike",
        lambda one: one[0].expected(one[1]),
        found("E (1 - (1 - k/E)^T), over the groups of GPUs"),
    )
    most = integer("most", lambda one: value_of(one[0].most(one[1])), found("min(E, kT)"))


class ExactKeys(Record):
    """Bytes and FLOPs of one GPU, of a step those of a GPU of each stage; no rate is in them."""

    weights_bytes = integer("bytes of the weights", lambda one: one.of.weights, FOLD)
    weights_bytes_per_step = integer(
        "bytes of weights that a decode step reads, of the fewest experts",
        lambda one: one.step_weights,
        FOLD,
    )
    cache_bytes_per_step = integer("bytes of the cache that it reads and writes", lambda one: one.step_cache, FOLD)
    flops_per_step = integer("FLOPs of its matrix products", lambda one: one.step_flops, FOLD)
    draft_bytes_per_step = integer(
        "bytes that a draft model moves to guess the tokens of a step; 0 without one",
        lambda one: one.guessed_bytes,
        FOLD,
    )
    draft_flops_per_step = integer("FLOPs of guessing them; 0 without one", lambda one: one.guessed_flops, FOLD)
    prefill_bytes = integer("bytes that reading a prompt moves", lambda one: value_of(one.of.prompt.least_bytes), FOLD)
    prefill_flops = integer("FLOPs of reading a prompt", lambda one: value_of(one.of.prompt.flops), FOLD)
    experts_touched = optional_record(
        ExpertsKeys, "experts of a layer that are read; null without experts", lambda one: one.experts
    )
    arithmetic_intensity_flop_per_byte = number(
        "FLOPs of a decode step over its bytes",
        lambda one: one.step_flops / max(1, one.step_weights + one.step_cache),
        found("the quotient"),
    )
    ridge_flop_per_byte = optional_number(
        "FLOPs for each byte from which the peak bounds, in the format of the weights; null where no peak is known",
        lambda one: one.ridge,
        found("peak over bandwidth of the datasheet"),
    )
    cache_room_bytes = integer(
        "bytes of a GPU that the engine leaves to the cache",
        lambda one: one.of.room,
        found("its share of the memory, less the weights, its profile run and what is outside of it"),
    )
    cache_bytes_per_request = integer(
        "bytes of a request's cache at its end", lambda one: one.of.cache_of_request, FOLD
    )
    handed_over_bytes = integer(
        "bytes of a prompt's cache that a GPU sends to one that goes on with it; 0 where the same does",
        lambda one: one.of.handed_over,
        FOLD,
    )
    capacity_requests = integer(
        "requests that run at once to their ends, in all",
        lambda one: one.capacity,
        found("the room of the cache over that of a request at its end, of all groups and replicas"),
    )
    capacity_tokens = integer(
        "tokens that the caches hold, in all",
        lambda one: one.capacity * one.question.load.longest,
        found("requests times their tokens"),
    )


OF_BYTES = found("bytes over the bandwidth")
OF_FLOPS = found("FLOPs over the dense peak of their format")
OF_MESSAGES = found("bytes sent over the link")


def _bound(meaning: str, of: Callable[[ServedAt], float], how: Stated) -> Key[float]:
    return number(f"milliseconds of {meaning}", lambda one: MILLI * of(one), how)


class FloorKeys(Record):
    """Floor of physics: no token is faster."""

    tpot_ms = number(
        "milliseconds of a token",
        lambda one: MILLI * one.floor_of_token.seconds,
        Rule("most", (".tpot_bandwidth_ms", ".tpot_compute_ms", ".tpot_link_ms")),
        BY_BYTES,
    )
    tpot_bandwidth_ms = _bound("a token, of its bytes", lambda one: one.floor_of_token.bandwidth, OF_BYTES)
    tpot_compute_ms = _bound("a token, of its FLOPs", lambda one: one.floor_of_token.compute, OF_FLOPS)
    tpot_link_ms = _bound("a token, of messages", lambda one: one.floor_of_token.link, OF_MESSAGES)
    ttft_ms = number(
        "milliseconds to the first token",
        lambda one: MILLI * one.floor_of_first.seconds,
        Rule("most", (".ttft_bandwidth_ms", ".ttft_compute_ms", ".ttft_link_ms")),
        BY_BYTES,
    )
    ttft_bandwidth_ms = _bound("the first token, of its bytes", lambda one: one.floor_of_first.bandwidth, OF_BYTES)
    ttft_compute_ms = _bound("the first token, of its FLOPs", lambda one: one.floor_of_first.compute, OF_FLOPS)
    ttft_link_ms = _bound("the first token, of messages", lambda one: one.floor_of_first.link, OF_MESSAGES)
    tokens_per_second = number(
        "tokens per second, at most",
        lambda one: one.floor_rate,
        ratio(
            "traffic.concurrency",
            "traffic.output_tokens",
            Constant(MILLI, "milliseconds of a second"),
            over=(".request_ms",),
        ),
        BY_BYTES,
    )
    request_ms = number(
        "milliseconds from a request to its last token at that rate, all at once",
        lambda one: MILLI * one.seconds_of_request,
        found("the time to the first token, and that of each further one; prompts of others are read in between"),
    )
    bound = text("what bounds a token: bandwidth, compute, link", lambda one: one.floor_of_token.name)


class EstimateKeys(Record):
    """An estimate, with its band."""

    tpot_ms = record(RangeKeys, "milliseconds of a token after the first", lambda one: _milli(one.token))
    ttft_ms = record(RangeKeys, "milliseconds to the first token", lambda one: _milli(one.first))
    tokens_per_second = record(RangeKeys, "tokens per second, of all GPUs", lambda one: one.rate)
    tokens_per_second_per_gpu = number("tokens per second of a GPU", lambda one: one.rate_of_gpu, BY_RATES)
    usd_per_million_output_tokens = optional_record(
        RangeKeys, "US dollars for a million tokens of answers; null without a price", lambda one: one.cost
    )
    parts_ms = record(TokenPartsKeys, "milliseconds of a token, part by part", lambda one: one.parts)


class MoreKeys(Record):
    """A change that serves more requests within the limits."""

    change = text("the options that ask for it", lambda one: one.options)
    largest_concurrency = integer(
        "requests within the limits, at most", lambda one: one.concurrency, found("by bisection over the estimate")
    )
    tokens_per_second = number("tokens per second, of all GPUs", lambda one: one.at.rate.value, BY_RATES)
    usd_per_million_output_tokens = optional_number(
        "US dollars for a million tokens of answers; null without a price",
        lambda one: one.at.cost.value if one.at.cost else None,
        BY_RATES,
    )
    price_per_gpu_hour = optional_number(
        "US dollars for a GPU and an hour of it; null where none is known",
        lambda one: one.at.answer.price.typical if one.at.answer.price else None,
        given("given by --price for GPUs of this kind, or the dated list"),
    )


class SloKeys(Record):
    """Verdict on the limits, and the largest number of requests within them."""

    met = optional_boolean(
        "at the requests asked for, by the estimate; null without one, where the floor does not say no",
        lambda one: one.met,
    )
    verdict = text(
        "cannot (by the memory or the floor), should, may, should not (by the band), unknown (without an estimate)",
        lambda one: one.verdict,
    )
    largest_concurrency = integer(
        "requests within the limits, at most; without an estimate more than this are impossible",
        lambda one: one.largest,
        found("by bisection over the estimate, or over the floor where nothing is estimated"),
    )
    decided_by = text("what does not allow more: ttft, tpot, capacity", lambda one: one.decided_by)
    more = records(MoreKeys, "what would serve more: each was tried, the cheapest first", lambda one: one.more)


class CalibrationKeys(Record):
    """Runs that the estimate rests on."""

    engine = text("the era of the engine", lambda one: one.by.name)
    rows = integer("runs that its rates were fitted to", lambda one: one.by.rows, found("a count"))
    units = integer("systems that these are of", lambda one: one.by.units, found("a count"))
    own_runs = integer("runs of one's own", lambda one: len(one.own.runs) if one.own else 0, found("a count"))
    of_tokens = number("what a token's seconds are multiplied with", lambda one: one.by.of_tokens, BY_OWN)
    of_prompts = number("what those of prompts are multiplied with", lambda one: one.by.of_prompts, BY_OWN)


def of_estimate(part: Callable[[ServedAt], float]) -> Callable[[ServedAt], float | None]:
    """Return what the estimate says of this part; None where nothing is estimated."""
    return lambda one: None if one.by is None else part(one)


class PointKeys(Record):
    """Times and rates at another number of requests; what is estimated is null where nothing is."""

    concurrency = integer("requests at once", lambda one: one.concurrency, GIVEN)
    tpot_ms = optional_number("milliseconds of a token", of_estimate(lambda one: MILLI * one.token.value), BY_RATES)
    ttft_ms = optional_number(
        "milliseconds to the first token", of_estimate(lambda one: MILLI * one.first.value), BY_RATES
    )
    tokens_per_second = optional_number(
        "tokens per second, of all GPUs", of_estimate(lambda one: one.rate.value), BY_RATES
    )
    tokens_per_second_per_gpu = optional_number(
        "tokens per second of a GPU", of_estimate(lambda one: one.rate_of_gpu), BY_RATES
    )
    floor_tpot_ms = number(
        "milliseconds of a token, at least", lambda one: MILLI * one.floor_of_token.seconds, BY_BYTES
    )
    floor_tokens_per_second = number("tokens per second, at most", lambda one: one.floor_rate, BY_BYTES)


class Promise:
    """Limits that the served model is to keep, by the estimate; by the floor where nothing is estimated."""

    def __init__(self, answer: Serve) -> None:
        self.answer, self.limits = answer, answer.question.limits

    def _late(self, at: ServedAt) -> str:
        """Name what is too late at this number of requests; nothing where all is in time."""
        if self.limits.ttft is not None and self._first(at) > self.limits.ttft:
            return TTFT
        return TPOT if self.limits.tpot is not None and self._token(at) > self.limits.tpot else ""

    def _first(self, at: ServedAt) -> float:
        return float(at.floor_of_first.seconds if self.answer.by is None else at.first.value)

    def _token(self, at: ServedAt) -> float:
        return float(at.floor_of_token.seconds if self.answer.by is None else at.token.value)

    @property
    def met(self) -> bool | None:
        """Return whether the estimate is within the limits; None where nothing is estimated, and the floor is."""
        if not self.answer.holds or self._late(self.answer.at):
            return False
        return None if self.answer.by is None else True

    @cached_property
    def largest(self) -> int:
        """The most requests that are within the limits."""
        if not self.answer.holds:
            return 0
        low, high = 0, max(1, self.answer.capacity)
        if not self._late(self.answer.point(high)):
            return high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._late(self.answer.point(middle)) else (middle, high)
        return low

    @cached_property
    def more(self) -> tuple[ServesMore, ...]:
        """The changes that serve more, each tried; none where nothing is estimated."""
        if self.answer.by is None:
            return ()
        found: list[ServesMore] = []
        for each in map(kept, changes(self.answer.question)):
            if each is None or each.concurrency <= self.largest:
                continue
            less = (one for one in found if each.options.endswith(f" {one.options}"))
            if all(each.concurrency > one.concurrency for one in less):  # else a part of the change is enough
                found.append(each)
        return tuple(found)

    @property
    def decided_by(self) -> str:
        """Name what does not allow more."""
        if not self.answer.holds:
            return CAPACITY
        return self._late(self.answer.point(self.largest + 1)) if self.largest < self.answer.capacity else CAPACITY

    @property
    def verdict(self) -> str:
        """Return how sure it is at the requests asked for."""
        at = self.answer.at
        if not self.answer.holds:
            return SHOULD_NOT if self.answer.of.holds else CANNOT
        if self.answer.by is None:
            return CANNOT if self.met is False else UNKNOWN
        pairs = [
            (limit, guess, floor.seconds)
            for limit, guess, floor in (
                (self.limits.ttft, at.first, at.floor_of_first),
                (self.limits.tpot, at.token, at.floor_of_token),
            )
            if limit is not None
        ]
        if any(floor > limit for limit, _, floor in pairs):
            return CANNOT
        if all(guess.high <= limit for limit, guess, _ in pairs):
            return "should"
        return SHOULD_NOT if any(guess.low > limit for limit, guess, _ in pairs) else "may"


class ServesMore(NamedTuple):
    """A change that serves more, and the largest number of requests that it keeps the limits for."""

    options: str
    at: ServedAt

    @property
    def concurrency(self) -> int:
        """Requests within the limits, at most."""
        return self.at.concurrency


def kept(change: ServeChange) -> ServesMore | None:
    """Return how many requests a changed question keeps its limits for; None where it cannot be, or nobody knows."""
    try:
        answer = Serve(change.question)
        if answer.promise is None or answer.by is None or not answer.promise.largest:
            return None
    except TfcalcError:  # a format that the model does not have, GPUs that do not share it
        return None
    return ServesMore(change.options, answer.point(answer.promise.largest))


HAS_LIMITS = When(lambda answer: answer.promise is not None, "slo")
HAS_CURVE = When(lambda answer: answer.question.curve and answer.holds, "curve")


class Serve(ServedAnswer):
    """A served model on GPUs that were named."""

    form: ClassVar[str] = "a model that writes text"

    deployment = record(DeploymentKeys, "GPUs, engine, formats", lambda answer: answer)
    traffic = record(TrafficKeys, "the requests", lambda answer: answer.question.load)
    exact = record(
        ExactKeys, "bytes and FLOPs of one GPU, of a step those of a GPU of each stage", lambda answer: answer
    )
    floor = record(FloorKeys, "what no run is faster than", lambda answer: answer.at)
    estimate = optional_record(
        EstimateKeys, "by rates of published runs; null where none are known", lambda answer: answer.estimated
    )
    no_estimate = text("why nothing is estimated; empty where it is", lambda answer: answer.unknown)
    calibration = optional_record(
        CalibrationKeys, "runs behind the estimate; null without one", lambda answer: answer if answer.by else None
    )
    slo = record(SloKeys, "the limits that were given", lambda answer: answer.promise, when=HAS_LIMITS)
    curve = records(PointKeys, "at other numbers of requests", lambda answer: answer.points, when=HAS_CURVE)
    requests_per_second = optional_number(
        "requests that come each second; null where the number at once was given",
        lambda answer: answer.question.rate or None,
        GIVEN,
    )
    price_per_gpu_hour = optional_number(
        "US dollars for a GPU and an hour; null where none is known",
        lambda answer: answer.price.typical if answer.price else None,
        given("given by --price, or the dated list"),
    )
    usd_per_month = optional_number(
        f"US dollars for all GPUs and a month of {HOURS_OF_A_MONTH} hours; null where no price is known",
        lambda answer: answer.price.typical * answer.question.gpus * HOURS_OF_A_MONTH if answer.price else None,
        ratio("price_per_gpu_hour", "deployment.gpus", Constant(HOURS_OF_A_MONTH, "hours of a month")),
    )
    holding_gpus = optional(
        "GPUs that would hold it; null where these do, or none that was tried does",
        lambda answer: answer.holding.gpus if answer.holding else None,
        found("twice as many are tried, until they hold it"),
    )
    assumptions = texts("what was assumed", lambda answer: tuple(answer.assumed()))

    def __init__(self, question: ServeQuestion) -> None:
        self.question = question

    @cached_property
    def of(self) -> ServedModel:
        """The model on the GPUs of a replica."""
        question = self.question
        where = question.sharing, question.card
        guesser = None
        if question.guesser is not None:
            load = question.load._replace(draft=NO_DRAFT)
            guesser = ServedModel(question.guesser, question.plan, *where, load, question.engine)
        asked = question.model, question.plan, *where, question.load, question.engine, guesser
        return ServedModel(*asked, question.utilization)

    def _shared(self, sharing: Sharing) -> ServedModel | None:
        """The model shared in another way; None where it cannot be."""
        try:
            found = Serve(self.question._replace(sharing=sharing)).of
            return found if found.weights else None
        except InvalidModel:
            return None

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return self.question.engine.partition("@")[0].lower()

    @property
    def version(self) -> str:
        """Version of the engine, as it was said."""
        return self.question.engine.partition("@")[2]

    @cached_property
    def unknown(self) -> str:
        """Say why nothing is estimated; nothing where it is."""
        card = self.question.card
        if not self.holds:
            return DOES_NOT_FIT
        if self.question.floor:
            return "--floor asks for the floor alone"
        if self._published is None:
            if engine_of(self.question.engine) is None:
                known = dict.fromkeys(era["engine"] for era in rates_table()["engines"].values())
                return f"no run of {self.engine} is known (--engine {', '.join(known)}; or runs of yours, --calibrate)"
            return f"no run of {self.engine} on {card.name}, or on another GPU of its generation, is known"
        if self.of.reads_source:
            return "no run of an encoder with a decoder is known"
        talking = self.of.talking
        if not self.of.machine.joins(talking) and not self._ran_over(talking):
            joined = (
                f"no more than {card.domain} {card.name} have a fast link"
                if card.domain > 1
                else f"{card.name} has PCIe"
            )
            sent = "sums over" if talking == self.question.sharing.tp else "messages between"
            return f"{joined}, and {sent} {talking} take 1 to 10 times as long, by the host (--link, as measured there)"
        return ""

    @cached_property
    def _published(self) -> EngineRates | None:
        """Rates of the engine on this generation of GPUs; of another, where one's own runs say the rest."""
        known = engine_of(self.question.engine, self.question.card)
        if known is not None or self.question.runs is None or self.of.machine.operators is None:
            return known
        return engine_of(self.question.engine) or engine_of(AS_OTHERS)

    def _ran_over(self, gpus: int) -> bool:
        """Return whether as many of these GPUs sent each other messages in a run of one's own."""
        own = self.question.runs
        return own is not None and any(
            run.of.talking == gpus and run.of.card.name == self.question.card.name for run in own.runs
        )

    @cached_property
    def own(self) -> OwnRates | None:
        """The rates as one's own runs change them; None without any."""
        if self.question.runs is None or self.unknown:
            return None
        assert self._published is not None
        return self.question.runs.changing(self._published)

    @cached_property
    def by(self) -> EngineRates | None:
        """Rates of the engine; None where nothing is estimated."""
        if self.unknown:
            return None
        return self._published if self.own is None else self.own.rates

    def band(self, *, first: bool) -> ServingBand:
        """Return the band of a token, or of the first one: by published runs, or by one's own."""
        known = self.of.band(first=first)
        return known if self.own is None else self.own.band(known, first=first)

    @cached_property
    def at(self) -> ServedAt:
        """The model at the requests that were asked for."""
        return ServedAt(self, self.question.load.concurrency, self.question.rate)

    @property
    def estimated(self) -> ServedAt | None:
        """The model at these requests, where there is an estimate."""
        return None if self.by is None else self.at

    def point(self, concurrency: int) -> ServedAt:
        """Return the model at this many requests."""
        return ServedAt(self, concurrency)

    @cached_property
    def promise(self) -> Promise | None:
        """The limits, where there are some."""
        return Promise(self) if self.question.limits.given else None

    @cached_property
    def price(self) -> Price | None:
        """Price of a GPU and an hour."""
        return price_of(self.question.card, self.question.price, self.question.prices)

    @property
    def capacity(self) -> int:
        """Requests that run at once, in all."""
        return int(self.of.capacity * self.decoding)

    @property
    def most_at_once(self) -> int:
        """Requests that the engine runs at once, of those that have room; 1 where none has."""
        return max(1, min(self.capacity, self.of.most * self.decoding))

    @cached_property
    def full(self) -> ServedAt:
        """The model with as many requests as run at once."""
        return self.point(self.most_at_once)

    @property
    def keeps_up(self) -> bool:
        """Return whether as many requests can end as come, by the estimate."""
        return not self.question.rate or self.full.ended >= self.question.rate

    @property
    def decoding(self) -> int:
        """Groups of GPUs that make tokens, each with a copy of the model."""
        return self.question.replicas * self.question.load.decoding

    @cached_property
    def points(self) -> list[ServedAt]:
        """Numbers of requests from one to all that fit, each twice the last."""
        most = max(1, self.capacity)
        sizes = {2**power for power in range(most.bit_length()) if 2**power <= most}
        sizes |= {most, self.question.load.concurrency}
        if self.promise is not None and self.promise.largest:
            sizes.add(self.promise.largest)
        return [self.point(size) for size in sorted(sizes)]

    @cached_property
    def holding(self) -> Sharing | None:
        """Layout of more GPUs of the same kind that hold it; None where these do, or none that was tried does."""
        if self.holds:
            return None
        larger = (one for one in layouts(self.question) if one.gpus > self.question.sharing.gpus)
        return next((one for one in larger if (found := self._shared(one)) is not None and found.serves), None)

    @cached_property
    def holding_all(self) -> ServeQuestion | None:
        """GPUs that run all requests at once, in few stages; None where these do, or none were found."""
        load = self.question.load
        if self.at.running >= self.at.concurrency or load.apart is not None:
            return None
        found = fewest(self.question._replace(limits=Limits(), rate=0.0), staged=False)
        answer = Serve(found)
        return found if answer.holds and answer.at.running >= load.concurrency else None

    @property
    def holds(self) -> bool:
        """Return whether weights and one request fit in what the engine leaves them; for the floor, on the GPUs."""
        return bool(self.of.holds if self.question.floor else self.of.serves)

    # --- exact numbers

    @property
    def in_a_step(self) -> int:
        """Requests of a step on a GPU, of those that run at once."""
        running = int(self.of.running(self.at.requests))
        return max(1, running // self.question.sharing.dp // self.question.sharing.pp)

    @property
    def step_weights(self) -> int:
        """Bytes of weights of a step, of the fewest experts."""
        step = self.of.token
        return value_of(step.least_weights - step.gathered + self.in_a_step * step.gathered)

    @property
    def expected_weights(self) -> int:
        """Bytes of weights of a step, of the experts that its tokens are sent to on average."""
        step, requests = self.of.token, self.in_a_step
        gathered = value_of(step.gathered)
        return round(step._replace(tokens=requests * self.of.checked).expected_weights) + (requests - 1) * gathered

    @property
    def step_cache(self) -> int:
        """Bytes of the cache of a step."""
        step = self.of.token
        return self.in_a_step * value_of(step.cached + step.written)

    @property
    def step_flops(self) -> int:
        """FLOPs of a step."""
        return self.in_a_step * value_of(self.of.token.flops)

    @property
    def guessed_bytes(self) -> int:
        """Bytes that guessing the tokens of a step moves."""
        if self.of.guesser is None:
            return 0
        step = self.of.guesser.token
        weights = value_of(step.least_weights - step.gathered)
        each = weights + self.in_a_step * value_of(step.gathered + step.cached + step.written)
        return self.question.load.draft.tokens * each

    @property
    def guessed_flops(self) -> int:
        """FLOPs of guessing them."""
        if self.of.guesser is None:
            return 0
        return self.question.load.draft.tokens * self.in_a_step * value_of(self.of.guesser.token.flops)

    @property
    def experts(self) -> tuple[ChosenExperts, int] | None:
        """Routing of the layers with most experts, and the tokens of a step."""
        routings = self.of.token.routings
        if not routings:
            return None
        return max(
            routings, key=lambda one: value_of(one.number)
        ), self.in_a_step * self.of.checked * self.question.sharing.dp

    @property
    def ridge(self) -> float | None:
        """FLOPs for each byte from which the peak bounds."""
        peak, bandwidth = self.of.machine.products(self.of.numbers).peak, self.question.card.bandwidth
        return peak / bandwidth if peak and bandwidth else None

    # --- for people

    @property
    def succeeded(self) -> bool:
        """Return whether it fits, serves all that come, and keeps the limits."""
        if not self.holds or not self.keeps_up:
            return False
        return self.promise is None or bool(self.promise.met)

    @property
    def where(self) -> str:
        """The GPUs, and how they share the model."""
        ways = f" ({self.ways})" if self.ways else ""
        apart = self.question.load.apart
        groups = f", groups for prompts and for tokens {apart.prompts}:{apart.tokens}" if apart else ""
        return f"{self.gpus}{ways}{groups}"

    @property
    def gpus(self) -> str:
        """Number and name of the GPUs."""
        return f"{self.question.gpus} x {self.question.card.name}"

    @property
    def ways(self) -> str:
        """Ways in which they share the model; empty where each has a copy, and there is one."""
        q = self.question
        ways = [f"{name} {size}" for name, size in zip(Sharing._fields, q.sharing, strict=True) if size > 1]
        return ", ".join(ways + [f"{q.replicas} replicas"] * (q.replicas > 1))

    @property
    def formats(self) -> str:
        """Number formats of weights and cache."""
        return f"weights {self.of.traffic.recipe.format.name}, cache {self.of.plan.kv}"

    @property
    def heading(self) -> str:
        """The model, on what, and the requests."""
        q = self.question
        return f"{q.model.summary} on {self.where}, {self.formats}, {requests_in_words(q.load)}"

    @property
    def subject(self) -> str:
        """The heading, of a number that is opened alone: it says where the model does not fit."""
        return self.heading if self.holds else f"{self.heading}; {self._would_hold}"

    @property
    def _would_hold(self) -> str:
        """Say that it does not fit, and what would hold it."""
        if self.holding is None:
            return f"{DOES_NOT_FIT}, nor on up to {MOST_GPUS} GPUs"
        return f"{DOES_NOT_FIT}: {self._holding_in_words(self.holding)}"

    def _holding_in_words(self, sharing: Sharing) -> str:
        return f"{options_of(self.question.card, sharing.gpus * self.question.load.groups, sharing)} would hold it"

    def why_null(self, keys: Sequence[str]) -> str:
        """Say why there is no number at these keys; empty where nothing is known of it."""
        if keys[0] != Serve.estimate.name:
            return ""
        return self._would_hold if self.unknown == DOES_NOT_FIT else self.unknown

    def assumed(self) -> Iterator[str]:
        """Yield what was assumed."""
        yield "floor: bytes over the bandwidth, FLOPs over the dense peak, overlapped; activations are not counted"
        yield "tpot is the time of a token after the first; a request that ends is followed by another"
        yield self._room_in_words()
        if self.question.card.own_link:
            yield f"GPUs send each other {self.question.card.link / GIGA:,.4g} GB/s in one direction (--link)"
        if self.by is not None:
            yield f"prompts are read {self.of.read_at_once:,} tokens at a time"
            yield "experts are chosen alike and independently"
            if self.of.exchange.over.expected:
                many, bits = self.of.exchange.over.expected, 8 * self.of.exchange.bytes
                yield f"a token goes to {many:.3g} further GPUs for its experts in {bits:g} bits, and comes back in 16"
            yield f"{self.by.name}: {self.by.rows:,} runs of {self.by.units} systems, up to version {self.by.newest}"
        draft = self.question.load.draft
        if draft.tokens:
            yield f"{draft.tokens} tokens guessed, {draft.made:.3g} made in a step; {self._guessed_by()}"
        if self.price is not None:
            yield f"{self.price.typical:,.2f} USD a GPU hour, {self.price.origin}"

    def _guessed_by(self) -> str:
        model = self.question.guesser
        if model is None:
            return "the time of the draft itself is not in it (--draft-model)"
        return f"{model.summary} guesses them one after another, on the same GPUs"

    def _room_in_words(self) -> str:
        rules, sharing = self.of.rules, self.question.sharing
        beside = short_bytes(sum(rules.profile))
        share = f"{100 * rules.share(self.of.memory, sharing.tp, sharing.pp):.3g} % {rules.budget}"
        return f"{rules.called} takes {share}; its profile run and what is outside of it take {beside} (assumed)"

    @property
    def title(self) -> str:
        """The answer in a sentence."""
        if not self.holds:
            return self._does_not_fit()
        if self.by is None:
            floor = (
                f"at least {short_seconds(self.at.floor_of_token.seconds)} a token, by {self.at.floor_of_token.name}"
            )
            first = short_seconds(self.at.floor_of_first.seconds)
            told = f"{floor}, and {first} for the first; {rate_in_words(self.at.floor_rate)} tokens/s at most"
            told = self._waiting + told
            told = told if self.promise is None else f"{self._allowed(self.promise)}: {told}"
            return f"{self._found}; {told}" if self.question.fewest and self.succeeded else told
        at = self.at
        users = f"each user waits {_span(at.token)} a token and {_span(at.first)} for the first"
        users = self._waiting + users
        rate = f"{_rate(at.rate.value)} tokens/s in all"
        if self.question.rate and self.keeps_up:
            rate = f"{rate_in_words(at.rate.value)} tokens/s are asked for and made"
        if self.question.gpus > 1:
            rate += f", {_rate(at.rate_of_gpu)} a GPU"
        cost = at.cost
        if cost is not None:
            rate += f": {cost.value:,.2f} USD per million output tokens"
        told = f"{users}; {rate}"
        if self.promise is not None:
            told = f"{self.promised}: {told}"
        if self.question.fewest and self.succeeded:
            told = f"{self._found}; {told}"
        return told if self.keeps_up else f"{self._too_many}; {told}"

    @property
    def _found(self) -> str:
        """The fewest GPUs, where they were asked for."""
        many, gpus = self.at.concurrency, self.question.gpus
        return f"{self.where} serve{'s' * (gpus == 1)} {many:,} request{'s' * (many > 1)} at once"

    @property
    def _too_many(self) -> str:
        """Number of requests that come and that end, and the GPUs that would serve all of them."""
        q, ended = self.question, self.full.ended
        verdict = CANNOT if self.full.floor_rate < q.rate * q.load.answer else SHOULD_NOT
        more = options_of(q.card, ceil(q.rate / ended * q.replicas) * q.gpus_of_replica, q.sharing)
        return (
            f"{verdict.upper()}: {q.rate:g} requests/s come, and {self.gpus} serve{'s' * (q.gpus == 1)} {ended:.3g}; "
            f"{more} would serve them"
        )

    @property
    def _waiting(self) -> str:
        """Number of requests that run at once, and the GPUs that run all; nothing where these do."""
        at, found = self.at, self.holding_all
        if at.running >= at.concurrency:
            return ""
        held = f" (all at once: {options_of(found.card, found.gpus, found.sharing)})" if found else ""
        why = "wait for room"
        if at.running >= self.of.most * self.decoding:
            why = f"wait, as {self.of.rules.called} runs no more" + ", by its max_num_seqs" * bool(
                self.of.rules.batched
            )
        return f"{at.running:,} of {at.concurrency:,} requests run at once, the others {why}{held}; "

    @property
    def promised(self) -> str:
        """Number of requests within the limits, how they are served, what decides it; and those asked for."""
        promise = self.promise
        assert promise is not None
        largest, decides = promise.largest, f"{SAID_BY[promise.decided_by]} decides"
        if not largest:
            return f"not one request is within the limits; {decides}; {self._verdict(promise)}"
        most = f"{largest:,} request{'s are' if largest > 1 else ' is'} within the limits by the estimate"
        if largest != self.at.concurrency:
            at = self.point(largest)
            times = f"{short_seconds(at.token.value)} a token and {short_seconds(at.first.value)} for the first"
            cost = f", {at.cost.value:,.2f} USD per million" if at.cost else ""
            most += f", at {times}, {at.rate.value:,.0f} tokens/s{cost}"
        return f"{most}; {decides}; {self._verdict(promise)}"

    def _allowed(self, promise: Promise) -> str:
        if not promise.largest:
            return f"CANNOT: not one request is within the limits: {SAID_BY[promise.decided_by]} decides"
        many = f"more than {promise.largest:,} requests cannot be within the limits"
        return f"{many}; {self._verdict(promise)}"

    def _verdict(self, promise: Promise) -> str:
        """Say how sure it is that as many requests as were asked for are within the limits."""
        requests = f"{self.at.concurrency:,} request{'s' * (self.at.concurrency > 1)}"
        if promise.verdict == UNKNOWN:
            return f"whether {requests} would be within them is not known"
        return f"{requests} {promise.verdict} be within them"

    def _does_not_fit(self) -> str:
        of = self.of
        each = f"weights and one request take {short_bytes(of.weights + of.cache_of_request)} on each GPU"
        has = f"{self.question.card.name} has {short_bytes(of.memory)} in all"
        verdict = CANNOT
        if of.holds:  # what an engine takes for itself is assumed
            verdict = SHOULD_NOT
            left = short_bytes(max(0, of.left))
            has = f"{of.rules.called} leaves {left} of {short_bytes(of.memory)} to them (assumed)"
        if self.holding is None:
            return f"{verdict.upper()}: {each}, {has}; no more than {MOST_GPUS} GPUs were tried"
        return f"{verdict.upper()}: {each}, {has}; {self._holding_in_words(self.holding)}"

    def sheet(self) -> Sheet:
        """The bytes and FLOPs of a step, or a line for each number of requests."""
        if self.question.curve and self.holds:
            return self._curve() if self.by is not None else self._curve_of_floors()
        card, at = self.question.card, self.at
        bandwidth = card.bandwidth or float("inf")
        weights = of(Bytes(self.step_weights), Serve.exact, ExactKeys.weights_bytes_per_step)
        cache = of(Bytes(self.step_cache), Serve.exact, ExactKeys.cache_bytes_per_step)
        products = of(Short(self.step_flops), Serve.exact, ExactKeys.flops_per_step)
        step = self.of.floor_of_step(self.of.running(at.requests))
        multiplied = f"{MILLI * step.compute:,.3g}" if self.of.machine.multiplies else None
        rows: list[list[Cell]] = [
            [
                "weights, read once" if self.experts is None else "weights of the fewest experts",
                weights,
                None,
                f"{MILLI * self.step_weights / bandwidth:,.3g}",
            ],
            ["cache", cache, None, f"{MILLI * self.step_cache / bandwidth:,.3g}"],
            ["products", None, products, multiplied],
        ]
        if self.guessed_bytes:
            moved = of(Bytes(self.guessed_bytes), Serve.exact, ExactKeys.draft_bytes_per_step)
            guessing = of(Short(self.guessed_flops), Serve.exact, ExactKeys.draft_flops_per_step)
            rows.append(["draft", moved, guessing, f"{MILLI * self.guessed_bytes / bandwidth:,.3g}"])
        if step.link:
            sent = "messages between GPUs" if self.of.exchange.over.certain else "sums over GPUs"
            rows.append([sent, None, None, f"{MILLI * step.link:,.3g}"])
        of_stages = self.question.sharing.pp > 1
        columns = [
            Column("a decode step, stage after stage" if of_stages else "a decode step on each GPU", numeric=False),
            Column("bytes"),
            Column("FLOPs"),
            Column("ms at peak"),
        ]
        return self._sheet(columns, rows if self.holds else [], *self._notes())

    def pictures(self) -> tuple[Chart, ...]:
        """The curve, where it is asked for, and a request fits."""
        return (self.chart(),) if self.question.curve and self.holds else ()

    def chart(self) -> Chart:
        """Tokens per second over requests at once: by the estimate with its band, or by the floor, at most.

        Raises UsageError where not even one request fits.
        """
        if not self.holds:
            raise UsageError("there is no curve: the model does not fit", "give a larger GPU, or more of them")
        floor = Curve("at most", tuple((one.concurrency, one.floor_rate) for one in self.points))
        curves: tuple[Curve, ...] = (floor,)
        if self.by is not None:
            rates = [(one.concurrency, one.rate) for one in self.points]
            band = tuple((rate.low, rate.high) for _, rate in rates)
            curves = (Curve("estimate", tuple((users, rate.value) for users, rate in rates), band), floor)
        return Chart(
            title=f"{self.heading}: tokens per second",
            x="requests at once",
            y="tokens per second, all GPUs",
            unit="tokens/s",
            length=False,
            curves=curves,
        )

    def _curve(self) -> Sheet:
        rows: list[list[Cell]] = [
            [
                of(one.concurrency, Serve.curve, place, PointKeys.concurrency),
                of(f"{one.rate.value:,.0f}", Serve.curve, place, PointKeys.tokens_per_second),
                of(
                    f"{one.rate.value / self.question.gpus:,.0f}",
                    *(Serve.curve, place, PointKeys.tokens_per_second_per_gpu),
                ),
                f"{one.rate.value / one.concurrency:,.1f}",
                of(short_seconds(one.token.value), Serve.curve, place, PointKeys.tpot_ms),
                of(short_seconds(one.first.value), Serve.curve, place, PointKeys.ttft_ms),
                f"{one.cost.value:,.2f}" if one.cost else None,
            ]
            for place, one in enumerate(self.points)
        ]
        names = ("users", "tokens/s", "a GPU", "per user", "token", "first", "USD/M")
        columns = [Column(name, spare=spare) for name, spare in zip(names, (0, 0, 1, 2, 0, 0, 3), strict=True)]
        return self._sheet(columns, rows, *self._notes())

    def _curve_of_floors(self) -> Sheet:
        rows: list[list[Cell]] = [
            [
                of(one.concurrency, Serve.curve, place, PointKeys.concurrency),
                of(f"{one.floor_rate:,.0f}", Serve.curve, place, PointKeys.floor_tokens_per_second),
                f"{one.floor_rate / self.question.gpus:,.0f}",
                of(short_seconds(one.floor_of_token.seconds), Serve.curve, place, PointKeys.floor_tpot_ms),
                short_seconds(one.floor_of_first.seconds),
            ]
            for place, one in enumerate(self.points)
        ]
        columns = [Column(name) for name in ("users", "tokens/s at most", "a GPU", "token at least", "first at least")]
        return self._sheet(columns, rows, *self._notes())

    def _notes(self) -> Iterator[str]:
        if not self.holds:
            yield from self._told_of_length()
            q = self.question
            if not q.fewest and q.load.apart is None and self.holding and self.holding.gpus > q.sharing.gpus + 1:
                yield f"--gpu {q.card.name.lower()} --for gpus finds the fewest GPUs that hold it"
            return
        at = self.at
        floor = at.floor_of_token
        first = short_seconds(at.floor_of_first.seconds)
        yield f"Floor: {short_seconds(floor.seconds)} a token, by {floor.name}; {first} for the first"
        if not self.of.machine.multiplies:
            yield without_products(self.question.card.name)
        if self.question.sharing.gpus > 1 and not self.of.machine.link:
            sent = "Sums over" if self.of.talking == self.question.sharing.tp else "Messages between"
            yield f"{sent} GPUs are in no floor: how fast their link is, is not known (--link)"
        elif self.of.exchange.over.expected and not self.of.exchange.over.certain:
            yield "Tokens sent to experts are in no floor: a router may choose those of a token's own GPUs alone"
        if self.question.card.own_link and self.by is not None:
            yield "The band is of GPUs with fast links; sums are counted at the rate of --link, which no run tells of"
        if self.experts is not None:
            routing, tokens = self.experts
            least, most = value_of(routing.least()), value_of(routing.most(tokens))
            expected = f"{routing.expected(tokens):,.1f} expected"
            chosen = f"Experts of a layer that are read: {least:,} to {most:,}, {expected}"
            bandwidth, read = self.question.card.bandwidth, self.expected_weights
            if read > self.step_weights and bandwidth:
                chosen += f": weights of {short_bytes(read)}, {short_seconds(read / bandwidth)} at peak"
            yield chosen
        if self.by is None:
            if not self.question.floor:
                yield f"Nothing is estimated: {self.unknown}"
        else:
            told = ((name, seconds(self)) for name, (_, seconds) in TOKEN_PARTS.items())
            each = ", ".join(f"{name} {short_seconds(seconds)}" for name, seconds in told if seconds)
            made = ", of a token" if self.question.load.draft.tokens else ""
            yield f"Estimate for {self.engine}{made}: {each}"
            if self.own is not None:
                yield from self._told_of_own(self.own)
            yield from self._told_of_bands(self.band(first=False), self.band(first=True))
            if self.own is None and not self.question.load.static:
                yield from self._told_of_server(self.by)
            if self.of.token.keeps_states and not self.of.token.routings:
                yield f"In none of them {self.engine} served a model that keeps states and has no experts: it may not"
            if self.of.exchange.over.expected:
                yield "In few of these runs did tokens go to experts of other groups (DP with EP)"
            if self.question.sharing.pp > 1 and not self.of.rules.by_layers:
                one_by_one = "prompts that stages read at the same time are counted one after another"
                yield f"In none of these runs did GPUs have stages (--pp): {one_by_one}, and it may be faster"
            if self.question.load.apart is not None:
                yield "In none of these runs did other GPUs read the prompts: the bands are of servers that do both"
            if self.version and self.own is None and version_of(self.version) > version_of(self.by.newest):
                yield f"{self.engine} {self.version} is newer than all of these runs: it may be faster"
        if self.of.rules.instead and not self.question.floor:
            yield self.of.rules.instead
        draft = self.question.load.draft
        if draft.tokens:
            yield f"A step makes {draft.made:.3g} tokens of each request; {self._guessed_by()}"
        yield from self._told_of_length()
        if self.question.rate and self.keeps_up:
            yield f"{self.question.rate:g} requests/s keep {self.question.load.concurrency:,} at work (Little's law)"
            yield "The bands are of runs in which a request came when another ended: in bursts they wait longer"
        if self.promise is not None:
            yield from self._told_of_more(self.promise)
        if self.question.fewest:
            yield from self._told_of_fewest()
        requests = f"{self.capacity:,} request{'s' * (self.capacity != 1)}"
        shorter = f"; while they are written they take less, so that {at.running:,} run at once"
        yield f"Room for {requests} of {self.question.load.longest:,} tokens{shorter * (at.running > self.capacity)}"
        if self.of.joins_keys:
            yield f"{BY_BYTES_ALONE}: {LOGGED_LESS}"
        if self.question.price is not None and self.usd_per_month is not None:
            yield f"{self.gpus} cost {self.usd_per_month:,.0f} USD in a month of {HOURS_OF_A_MONTH} hours"
        yield from windows_in_words(self.of.windows, self.question.load.longest)
        if not self.capacity:
            yield f"Not one has room as {self._room_in_words()}"

    def _told_of_fewest(self) -> Iterator[str]:
        """Yield which ways to share the model were tried, and one that is quicker on more GPUs."""
        tried = f"of up to {MOST_GPUS} GPUs by --tp, and by --pp up to {MOST_STAGES}"
        if not self.succeeded:
            yield f"No replicas {tried}, keep the limits"
            return
        apart = "; --dp and --ep were not tried" if self.experts is not None else ""
        yield f"No fewer serve {self.question.load.concurrency:,} at once, in replicas {tried}{apart}"
        if self.question.sharing.pp > 1 and self.by is not None:
            quicker = fewest(self.question, staged=False)
            at = Serve(quicker).at
            if at.answer.succeeded and at.token.value < self.at.token.value:
                times = f"{short_seconds(at.token.value)} a token and {short_seconds(at.first.value)} for the first"
                yield f"With fewer stages: {options_of(quicker.card, quicker.gpus, quicker.sharing)}, {times}"

    def _told_of_length(self) -> Iterator[str]:
        """Yield that the model was made for shorter requests, where it was."""
        longest = self.question.model.longest
        if isinstance(longest, int) and self.question.load.longest > longest:
            yield f"The model was made for {longest:,} tokens, fewer than the {self.question.load.longest:,} asked for"

    @staticmethod
    def _told_of_more(promise: Promise) -> Iterator[str]:
        """Yield what would serve more."""
        for one in promise.more:
            cost = f", {one.at.cost.value:,.2f} USD per million" if one.at.cost else ""
            listed = one.at.answer.price if promise.answer.question.price is not None and cost else None
            if listed and one.at.answer.question.price is None:
                cost += f" ({listed.typical:,.2f} USD a GPU hour by the list, not --price)"
            yield f"{one.options} would serve {one.concurrency:,}: {one.at.rate.value:,.0f} tokens/s{cost}"

    @staticmethod
    def _told_of_own(own: OwnRates) -> Iterator[str]:
        """Yield what one's own runs change, and how far they are off without and with it."""
        of_published = own.errors(lambda run, first: run.seconds(own.by, first=first))
        ratios = [one for each in own.left_out.values() for one in each]
        left_out = [abs(1 / one - 1) for one in ratios]
        changed = " and ".join(f"{name} x {value:.3g}" for name, value in own.factors.items())
        many = f"{len(own.runs):,} run{'s' * (len(own.runs) != 1)}"
        yield f"By {many} of yours: {changed}; {_mean(of_published)} off before, {_mean(left_out)} left out"
        if own.unused:
            reasons = ", ".join(sorted({one.why for one in own.unused})[:3])
            yield f"Rows of yours that are left out: {len(own.unused):,} ({reasons})"

    def _told_of_server(self, by: EngineRates) -> Iterator[str]:
        """Yield what is known of what a server takes before a first token, where that is most of it, or not known."""
        at = self.at
        beside = self.of.beside_reading(at.requests, by)
        if not by.fewest:
            known = f"; on other GPUs it was up to {short_seconds(by.server)}" if by.server else ""
            yield f"No run of a server tells a first token here: what it takes beside prompts is not known{known}"
        elif at.requests < by.fewest:
            seconds = short_seconds(beside)
            known = f"which are known of {by.fewest} requests or more"
            yield f"The band of the first begins without the {seconds} that a server takes itself, {known}"
        elif 2 * beside > at.first.value:
            yield f"{short_seconds(beside)} of the first are the server's own, beside reading prompts"

    def _told_of_bands(self, token: ServingBand, first: ServingBand) -> Iterator[str]:
        if {token.kind, first.kind} <= {*OF_BAND}:
            times, of_first = (f"{band.low:.3g} to {band.high:.3g} times the estimate of" for band in (token, first))
            runs, of_prompts = (f"({band.rows:,}: {OF_BAND[band.kind]})" for band in (token, first))
            told = f"took {times} a token {runs}, and {of_first} the first {of_prompts}"
            yield f"Four of five published runs, each estimated without its own system's, {told}"
        else:
            yield self._told_of_band(token, "a token")
            yield self._told_of_band(first, "the first")

    @staticmethod
    def _told_of_band(band: ServingBand, what: str) -> str:
        ends = f"{band.low:.3g} to {band.high:.3g} times the estimate of {what}"
        if band.kind == WIDENED:
            return f"The band of published runs, widened by {band.rows:,} of yours: {ends}"
        if band.kind == OWN:
            return f"Four of five of {band.rows:,} times of yours took {ends}, each estimated without its own run"
        return f"Four of five of {band.rows:,} published runs ({OF_BAND[band.kind]}) took {ends}"

    def _sheet(self, columns: list[Column], rows: list[list[Cell]], *notes: str) -> Sheet:
        return Sheet(
            title=self.title,
            subtitle=self.heading,
            columns=columns,
            rows=rows,
            quiet=self.title,
            notes=notes,
            assumes=(),
            not_counted="",
            see_also=("--assumptions", "--curve", "--slo ttft=500ms,tpot=50ms", "--json"),
            assumptions=tuple(self.assumed()),
        )


class ServedNumber(NamedTuple):
    """A number of a served model: what it is ``called``, its ``keys``, and the number as it is ``written``.

    A ``part`` is one of the number above that is none.
    """

    called: str
    keys: tuple[Key[Any], ...]
    written: Callable[[Serve], Cell]
    part: bool = False


def _seconds(seconds: float) -> str | None:
    return short_seconds(seconds) if seconds else None


def _floor(called: str, key: Key[Any], seconds: Callable[[Serve], float], *, part: bool = False) -> ServedNumber:
    return ServedNumber(called, (Serve.floor, key), lambda one: _seconds(seconds(one)), part)


def _estimate(
    called: str, keys: tuple[Key[Any], ...], written: Callable[[Serve], Cell], *, part: bool = False
) -> ServedNumber:
    return ServedNumber(called, (Serve.estimate, *keys), lambda one: None if one.by is None else written(one), part)


def _part(called: str, key: Key[Any], seconds: Callable[[Serve], float]) -> ServedNumber:
    return _estimate(called, (EstimateKeys.parts_ms, key), lambda one: _seconds(seconds(one)), part=True)


TOKEN_PARTS: dict[str, tuple[Key[Any], Callable[[Serve], float]]] = {
    "kernels": (TokenPartsKeys.kernels, lambda one: one.at.parts.kernels),
    "all-reduces": (TokenPartsKeys.all_reduce, lambda one: one.at.parts.all_reduces),
    "to experts and back": (TokenPartsKeys.to_experts, lambda one: one.at.parts.exchanges),
    "launches": (TokenPartsKeys.launches, lambda one: one.at.parts.launches),
    "host": (TokenPartsKeys.host, lambda one: one.at.parts.host),
    "prompts of others": (TokenPartsKeys.prefill_between, lambda one: one.at.parts.prompts),
}
"""Parts of the estimate of a token, in seconds."""

NUMBERS = (
    ServedNumber(
        "weights of a step", (Serve.exact, ExactKeys.weights_bytes_per_step), lambda one: Bytes(one.step_weights)
    ),
    ServedNumber("cache of a step", (Serve.exact, ExactKeys.cache_bytes_per_step), lambda one: Bytes(one.step_cache)),
    _floor("a token at least", FloorKeys.tpot_ms, lambda one: one.at.floor_of_token.seconds),
    _floor("bytes", FloorKeys.tpot_bandwidth_ms, lambda one: one.at.floor_of_token.bandwidth, part=True),
    _floor("products", FloorKeys.tpot_compute_ms, lambda one: one.at.floor_of_token.compute, part=True),
    _floor("messages", FloorKeys.tpot_link_ms, lambda one: one.at.floor_of_token.link, part=True),
    _estimate(
        "a token, estimated", (EstimateKeys.tpot_ms, RangeKeys.value), lambda one: short_seconds(one.at.token.value)
    ),
    *(_part(name, *part) for name, part in TOKEN_PARTS.items()),
    _estimate(
        "first token, estimated", (EstimateKeys.ttft_ms, RangeKeys.value), lambda one: short_seconds(one.at.first.value)
    ),
    _estimate("tokens/s a GPU", (EstimateKeys.tokens_per_second_per_gpu,), lambda one: f"{one.at.rate_of_gpu:,.0f}"),
    ServedNumber("requests at once", (Serve.exact, ExactKeys.capacity_requests), lambda one: f"{one.capacity:,}"),
    _estimate(
        "USD per million",
        (EstimateKeys.usd_per_million_output_tokens, RangeKeys.value),
        lambda one: f"{one.at.cost.value:,.2f}" if one.at.cost else None,
    ),
)
"""Numbers that are told of each of several ways to serve a model, in the order of a table."""

SAID_BY = {TTFT: "the first token", TPOT: "the time of a token", CAPACITY: "the memory", "": "the memory"}
"""What decides, in words."""


BY_BYTES_ALONE = "That room is by bytes alone, as how engines page one key for several tokens is not known"
LOGGED_LESS = "of DeepSeek-V4-Flash vLLM 0.25 logged half as much"
"""Source: vllm-project/recipes#762, 8 B200 and 1,048,576 tokens: 20.43 requests with TP 8, and 156.9 with DP 8."""


def _rate(number: float) -> str:
    """Write tokens per second, of which there may be less than one."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def _mean(errors: list[float]) -> str:
    return f"{100 * sum(errors) / len(errors):.0f} %"


def requests_in_words(load: Load) -> str:
    """The requests: ``64 x (2,048 + 500 tokens)``."""
    kind = "static batch of " if load.static else ""
    return f"{kind}{load.concurrency:,} x ({load.prompt:,} + {load.answer:,} tokens)"


def _span(one: Guess) -> str:
    return f"{short_seconds(one.value)} ({short_seconds(one.low)} to {short_seconds(one.high)})"


def layouts(question: ServeQuestion) -> Iterator[Sharing]:
    """Yield ways to share a model among more and more GPUs: each layer by as many as can, and have fast links; stages.

    Without fast links it is as many as a server has, as it is by default.
    """
    domain = max(NODE, question.card.domain)
    able = {size: question.shares(size) for size in powers(min(domain, MOST_GPUS))}
    for gpus in powers(MOST_GPUS):
        tp = max(size for size, can in able.items() if can and size <= gpus)
        yield Sharing(tp, gpus // tp)


def powers(most: int) -> list[int]:
    """Return the powers of two up to a number.

    >>> powers(9)
    [1, 2, 4, 8]
    """
    return [2**power for power in range(most.bit_length())]


def fewest(question: ServeQuestion, *, staged: bool = True) -> ServeQuestion:
    """Return the question with the fewest GPUs of its kind that serve its requests at once, within its limits.

    Replicas share each layer, and have stages of a pipeline, but no more than it takes where they are not to be
    ``staged``; of equally many GPUs those have the fewest stages. Where none serves a request, it is the first that
    holds the model, or the question as it is.
    """
    best = held = None
    reached = question.load.concurrency * MOST_GPUS, MOST_GPUS  # GPUs in all, and stages
    late: dict[int, int] = {}
    ways = _ways(question) if staged else [(sharing.gpus, sharing) for sharing in layouts(question)]
    for least, sharing in ways:
        if (least, sharing.pp) >= reached:
            break
        if sharing.pp > late.get(sharing.tp, MOST_GPUS):
            continue
        one = question._replace(sharing=sharing, gpus=sharing.gpus)
        answer = Serve(one)
        try:
            if not answer.of.serves:
                continue
            each = most = min(answer.of.capacity, answer.of.most)
            if answer.promise is not None:
                each = min(answer.promise.largest, most)
        except InvalidModel:
            continue
        held = held or one
        if each < most:  # in time, further stages serve no more than further replicas
            late[sharing.tp] = min(sharing.pp, late.get(sharing.tp, MOST_GPUS))
        gpus = sharing.gpus * ceil_div(question.load.concurrency, each) if each else 0
        if each and (gpus, sharing.pp) < reached:
            best, reached = one._replace(gpus=gpus), (gpus, sharing.pp)
    return best or held or question


def _ways(question: ServeQuestion) -> list[tuple[int, Sharing]]:
    """Return ways to share a model, each with the GPUs that its requests take at least; those with the fewest first.

    GPUs that share a model have no more room than all but one have without it, and one with all of it.
    """
    alone = Serve(question._replace(sharing=Sharing(), gpus=1)).of
    empty, beside, each = alone.left_beside(0), alone.left_beside(alone.weights), max(1, int(alone.cache_of_request))
    able = [size for size in range(min(MOST_GPUS, max(NODE, question.card.domain)), 0, -1) if question.shares(size)]
    found = []
    for gpus in range(1, MOST_GPUS + 1):
        most = min(((gpus - 1) * empty + beside) // each, alone.most)
        if most >= 1:
            least = gpus * ceil_div(question.load.concurrency, most)
            found += [(least, Sharing(tp, gpus // tp)) for tp in able if gpus % tp == 0 and gpus <= MOST_STAGES * tp]
    return sorted(found, key=lambda way: (way[0], way[1].pp, way[1].gpus))


def arriving(question: ServeQuestion) -> ServeQuestion:
    """Return the question with as many requests at once as its rate keeps at work: the fewest that are served so fast.

    By Little's law that is the rate times what a request takes, which grows with their number. Where more come than can
    be served it is all that run at once. Raises UsageError where nothing is estimated.
    """
    answer = Serve(question)
    if answer.by is None:
        remedy = "give how many there are at once" if answer.holds else "without --rate it is said on what it does"
        raise UsageError(f"a rate of requests needs an estimate, and {answer.unknown}", remedy)

    low, high = 0, answer.most_at_once
    while high - low > 1 and answer.keeps_up:
        middle = (low + high) // 2
        low, high = (middle, high) if answer.point(middle).ended < question.rate else (low, middle)
    return question._replace(load=question.load._replace(concurrency=high))


def serve(
    model: Model | str,
    gpu: str = "h100",
    prompt: int = INPUT,
    answer: int = OUTPUT,
    concurrency: int = 1,
    *,
    tp: int | None = None,
    pp: int = 1,
    dp: int = 1,
    ep: int = 1,
    plan: Serving | None = None,
    engine: str = ENGINE,
    prefix: int = 0,
    static: bool = False,
    disaggregated: tuple[int, int] | None = None,
    draft: tuple[int, float] = (0, 0.0),
    draft_model: Model | str | None = None,
    ttft: float | None = None,
    tpot: float | None = None,
    price: float | None = None,
    prices: Mapping[str, Price] = NO_PRICES,
    rate: float = 0.0,
    fewest: bool = False,
    floor: bool = False,
    curve: bool = False,
    runs: ServedRuns | None = None,
    link: float | None = None,
    utilization: float | None = None,
) -> Serve:
    """Find how fast a model is served: a floor that physics sets, an estimate with its band, capacity and cost.

    Args:
        model: as in :func:`~tfcalc.params`.
        gpu: the GPUs by their name and number (``"4xh100"``).
        prompt: tokens of a prompt.
        answer: tokens of an answer.
        concurrency: requests at once, of all GPUs.
        tp: GPUs that share each layer; by default all of them.
        pp: stages of the pipeline.
        dp: groups with requests of their own that share experts.
        ep: groups of GPUs that share the experts.
        plan: number formats of weights and cache; its other fields are not read.
        engine: the engine, with its version: ``"vllm@0.19.0"``.
        prefix: tokens of each prompt that are cached already.
        static: one batch, read at once; nothing comes in between.
        disaggregated: groups of GPUs that read prompts, and groups that make tokens.
        draft: tokens that are guessed for each step, and the part of them that is accepted, of 1.
        draft_model: the model that guesses them, one after another on the same GPUs; without one that takes no time.
        ttft: seconds that a first token may take.
        tpot: seconds that any other token may take.
        price: US dollars for a GPU and an hour; by default a dated list.
        prices: the same by the names of GPUs, before the list.
        rate: requests that come each second, in the place of ``concurrency``.
        fewest: find the fewest GPUs that serve all requests at once, in the place of those of ``gpu``.
        floor: the floor alone, and no estimate.
        curve: further numbers of requests.
        runs: runs of one's own, to which the engine's rates are fitted (``timing.served_runs.read_served``).
        link: bytes per second that a GPU sends to the others, as measured; by default the datasheet's.
        utilization: the part of a GPU's memory that the engine takes, by default its own.

    Returns:
        Serve: ``exact`` bytes and FLOPs of a step, the ``floor``, the ``estimate`` (None where no runs are known),
        ``fits``, and with limits ``slo``.

    Raises:
        InvalidModel: the GPUs cannot share the model, or it writes no text.
        UsageError: GPUs that make no whole replicas; a prompt or an answer without tokens.

    >>> import tfcalc
    >>> found = serve(tfcalc.load("llama-3-8b"), "h100", 1000, 100)
    >>> found.exact.weights_bytes, found.floor.bound, found.floor.tpot_ms < found.estimate.tpot_ms.value
    (16060522496, 'bandwidth', True)
    """
    sizes = {
        "prompt": prompt,
        "answer": answer,
        "concurrency": concurrency,
        "tp": 1 if tp is None else tp,
        "pp": pp,
        "dp": dp,
        "ep": ep,
    }
    for what, size in sizes.items():
        check_size(what, size)
    if draft[0] < 0 or not 0 <= draft[1] <= 1:
        raise UsageError(f"a draft of {draft} is no tokens with their acceptance", "write (3, 0.7)")
    if draft_model is not None and not draft[0]:
        raise UsageError("a draft model guesses no tokens where none are said", "say them: --speculate 3@0.7")
    count, name = parse_gpu(gpu)
    apart = None if disaggregated is None else Disaggregated(*disaggregated)
    sharing, gpus = sharing_of(count, tp=tp, pp=pp, dp=dp, ep=ep, groups=1 if apart is None else apart.groups)
    asked = plan or Serving()
    question = ServeQuestion(
        model_of(model),
        Serving(weights=asked.weights, kv=asked.kv),
        card_of(name, link),
        gpus,
        sharing,
        Load(prompt, answer, concurrency, prefix, static, Draft(*draft), apart),
        engine=engine,
        limits=Limits(ttft, tpot),
        price=price,
        floor=floor,
        curve=curve,
        prices=prices,
        fewest=fewest,
        rate=rate,
        runs=runs,
        guesser=None if draft_model is None else model_of(draft_model),
        utilization=utilization,
    )
    if tp is None and count > 1:
        question = question.laid_out(lambda one: bool(Serve(one).of.serves))
    if link is not None and question.sharing.tp == 1 and apart is None and not fewest:
        raise UsageError("a link has no effect where GPUs share no layer", "leave it out, or take --tp 2 or more")
    return served(question)


def served(question: ServeQuestion) -> Serve:
    """Return the answer of a question of serving, as :func:`serve`. Raises InvalidModel, and UsageError."""
    load = question.load
    if load.prefix >= load.prompt:
        raise UsageError(
            f"a cached prefix of {load.prefix:,} tokens leaves nothing of a prompt of {load.prompt:,}",
            f"take --prefix {load.prompt - 1} or less",
        )
    if question.runs is None:
        rules = engine_named(question.engine)
        if not question.floor:
            rules.check_cache(question.plan.kv)
    if question.fewest:
        question = fewest(question)
    if question.rate:
        question = arriving(question)
    answer = Serve(question)
    assert answer.of.weights  # what cannot be shared is refused now, before a number of GPUs is proposed for it
    if question.gpus % question.gpus_of_replica:
        fact = f"{question.gpus:,} GPUs are no whole number of replicas of {question.gpus_of_replica:,}"
        raise UsageError(fact, f"take --gpu {question.gpus_of_replica}x{question.card.name.lower()}")
    return answer
