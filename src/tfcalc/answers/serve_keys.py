"""Keys of a served model that writes text, record by record: GPUs, requests, exact numbers, floor, estimate, limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfcalc.answers.serve_case import ServedAt
from tfcalc.core.traced import value_of
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.declared import (
    Key,
    Record,
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
)
from tfcalc.report.opening import Constant, Rule, Stated, found, given, ratio
from tfcalc.report.sheet import Cell
from tfcalc.timing.served import Guess
from tfcalc.units import short_seconds

MILLI = 1000
BY_RATES = found("by the rates of serving_rates.toml, of operators and of engines, fitted to published runs")
BY_OWN = found("the least squares of log(estimate / measured) of one's own runs; 1 without them")
BY_BYTES = found("bytes over the bandwidth, FLOPs over the dense peak, bytes sent over the link: the largest")
FOLD = found("a sum over the operations of a step, on one GPU")
GIVEN = given("given by the options, or their defaults")
BY_BAND = found("the estimate times the first and the last tenth of measured over estimated, of systems left out")


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
    flops_per_step = integer("FLOPs of its matrix products", lambda one: one.step_products, FOLD)
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
        lambda one: one.step_products / max(1, one.step_weights + one.step_cache),
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
        lambda one: one.at.case.price.typical if one.at.case.price else None,
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


class CurveColumn(NamedTuple):
    """Column of the table of a curve: its ``name``, a cell as it is ``written``, and the ``keys`` of it, if any.

    Those that are ``spare`` are left out where they do not fit, the largest first.
    """

    name: str
    written: Callable[[ServedAt], Cell]
    keys: tuple[Key[Any], ...] = ()
    spare: int = 0


CURVE = (
    CurveColumn("users", lambda one: one.concurrency, (PointKeys.concurrency,)),
    CurveColumn("tokens/s", lambda one: f"{one.rate.value:,.0f}", (PointKeys.tokens_per_second,)),
    CurveColumn("a GPU", lambda one: f"{one.rate_of_gpu:,.0f}", (PointKeys.tokens_per_second_per_gpu,), 1),
    CurveColumn("per user", lambda one: f"{one.rate.value / one.concurrency:,.1f}", spare=2),
    CurveColumn("token", lambda one: short_seconds(one.token.value), (PointKeys.tpot_ms,)),
    CurveColumn("first", lambda one: short_seconds(one.first.value), (PointKeys.ttft_ms,)),
    CurveColumn("USD/M", lambda one: f"{one.cost.value:,.2f}" if one.cost else None, spare=3),
)
"""Columns of a curve by the estimate."""
CURVE_OF_FLOORS = (
    CurveColumn("users", lambda one: one.concurrency, (PointKeys.concurrency,)),
    CurveColumn("tokens/s at most", lambda one: f"{one.floor_rate:,.0f}", (PointKeys.floor_tokens_per_second,)),
    CurveColumn("a GPU", lambda one: f"{one.floor_rate / one.case.question.gpus:,.0f}"),
    CurveColumn("token at least", lambda one: short_seconds(one.floor_of_token.seconds), (PointKeys.floor_tpot_ms,)),
    CurveColumn("first at least", lambda one: short_seconds(one.floor_of_first.seconds)),
)
"""Columns of a curve by the floor, where nothing is estimated."""


TOKEN_PARTS: dict[str, tuple[Key[Any], Callable[[ServedAt], float]]] = {
    "kernels": (TokenPartsKeys.kernels, lambda one: one.parts.kernels),
    "all-reduces": (TokenPartsKeys.all_reduce, lambda one: one.parts.all_reduces),
    "to experts and back": (TokenPartsKeys.to_experts, lambda one: one.parts.exchanges),
    "launches": (TokenPartsKeys.launches, lambda one: one.parts.launches),
    "host": (TokenPartsKeys.host, lambda one: one.parts.host),
    "prompts of others": (TokenPartsKeys.prefill_between, lambda one: one.parts.prompts),
}
"""Parts of the estimate of a token, in seconds."""
