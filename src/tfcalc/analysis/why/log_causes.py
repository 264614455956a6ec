"""Causes of numbers in log lines: each beside the one that the model gives, with the constant by which they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from tfcalc.analysis.why import log_engines, log_oom, log_trainers
from tfcalc.analysis.why import log_lines as log
from tfcalc.analysis.why.answer import Reason, Why, exact
from tfcalc.analysis.why.given import numbers_in
from tfcalc.analysis.why.log_question import CLOSE, GIB, NEAR, LogCause, LogQuestion, LogRemark
from tfcalc.analysis.why.why import MEMORY, conventions_of
from tfcalc.errors import UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted

if TYPE_CHECKING:
    from tfcalc.hardware import Accelerator

HALF = Fraction(1, 2)
ON_A_GPU = (
    log.WEIGHTS,
    log.POOL,
    log.TOKENS,
    log.BLOCKS,
    log.CONCURRENCY,
    log.NEEDED,
    log.ESTIMATED,
    log.CACHE,
    log.RANK,
    log.STATES,
)
OF_A_CARD = (
    log.WEIGHTS,
    log.POOL,
    log.LACKING,
    log.NEEDED,
    log.CACHE,
    log.CONTEXT,
    log.OF_DEVICE,
    log.BUFFER,
    log.GRAPH,
    log.STATES,
    log.SUM,
    log.TRIED,
)
BEARS_ON = {
    "tensor_parallel": ON_A_GPU,
    "gpu": (log.MFU, log.RATE, *OF_A_CARD),
    "tokens": (log.FLOS,),
    **dict.fromkeys(("batch_size", "seq_len"), (log.TRIED, log.ITERATION)),
    **dict.fromkeys(("source_len", "phase", "train"), (log.TRIED,)),
}
"""Kinds of numbers that what is said beside a log bears on."""


def of_log(asked: LogQuestion) -> Why:
    """The answer about log lines: of each number what the model gives, and remarks on all together."""
    found = [one for number in asked.numbers for one in _explained(number, asked)]
    agree = tuple(one.reason for one in found if one.agrees)
    differ = tuple(one.reason for one in found if not one.agrees)
    remarks = list(_remarks(asked))
    told = next((one for one in remarks if one.explains), None) if not found else None
    first = asked.numbers[0]
    return Why(
        given=first.text if len(asked.numbers) == 1 else f"{first.text} …",
        heading="" if all(one.key == log.SHARE for one in asked.numbers) else asked.model.summary,
        reasons=agree,
        nearest=differ,
        notes=tuple(str(one) for one in remarks if one is not told),
        model=asked.model.described(),
        of=("log",),
        ways=len(agree),
        logged_by=first.program,
        told="" if told is None else told.words,
    )


class LogReason(NamedTuple):
    """A cause of a number in the log, and whether it agrees with that."""

    reason: Reason
    agrees: bool


def _explained(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[LogReason]:
    if not number.value:
        return
    known = False
    for unit, candidates in _candidates(number, asked):
        options = list(candidates)
        known = known or bool(options)
        for one in _chosen(number, options):
            far = abs(one.value - number.value) > number.value * NEAR
            if number.key == log.WEIGHTS and far and (other := _by_search(number, asked)) is not None:
                yield other
            else:
                yield _reason(number, one, unit)
    if not known and (found := _by_search(number, asked)) is not None:
        yield found


def _chosen(number: log.LoggedNumber, options: list[LogCause]) -> list[LogCause]:
    """The cause to tell, of all that a number may have; several where nothing decides between them."""
    if number.key == log.TRIED and all(abs(one.value - number.value) <= number.rounded for one in options):
        return options
    for slack in (number.rounded, max(number.rounded, number.value * CLOSE)):
        if close := [one for one in options if abs(one.value - number.value) <= slack]:
            return [min(close, key=lambda each: each.rare)]
    return [min(options, key=lambda each: abs(each.value - number.value))] if options else []


def _reason(number: log.LoggedNumber, one: LogCause, unit: str) -> LogReason:
    given = one.value if number.key in (log.RATE, log.SHARE) else number.value  # these are in TFLOP/s
    far = abs(one.value - number.value) > max(number.rounded, number.value * one.within)
    found = Reason(
        value=exact(one.value),
        unit=unit,
        cause=one.cause,
        steps=(number.key,),
        arithmetic=one.arithmetic,
        command=one.command,
        distance=float((one.value - given) / given) if given else 0.0,
        reading="rounded",
        changes=((exact(one.value), one.arithmetic),),
        shown=exact(one.value),
        given=exact(given),
        said=number.text,
    )
    return LogReason(found, one.value <= WHOLE if one.measure else not far)


WHOLE = 100
"""Per cent of a peak."""


def _candidates(number: log.LoggedNumber, asked: LogQuestion) -> Iterator[tuple[str, Iterable[LogCause]]]:
    """The unit of a number, and what the model gives for it; nothing where another search knows more."""
    match number.key:
        case log.WEIGHTS:
            yield "bytes", log_engines.weights(asked)
        case log.TOKENS | log.BLOCKS:
            yield "tokens", log_engines.room(number, asked)
        case log.CONCURRENCY:
            yield "requests", log_engines.concurrency(number, asked)
        case log.ESTIMATED:
            yield "tokens", log_engines.longest(asked)
        case log.NEEDED:
            yield "bytes", log_engines.needed(number, asked)
        case log.CACHE:
            yield "bytes", log_engines.cache(number, asked)
        case log.CONTEXT | log.OF_DEVICE:
            yield "bytes", log_engines.cells(number, asked)
        case log.BUFFER | log.GRAPH:
            yield "bytes", log_engines.on_card(number, asked)
        case log.SPEED:
            yield "tokens", log_engines.speeds(number)
        case log.RANK:
            yield "params", log_trainers.of_rank(number, asked)
        case log.STATES:
            yield "bytes", log_trainers.states(asked)
        case log.SUM:
            yield "bytes", log_trainers.sum_of_states(asked)
        case log.TRAINABLE:
            yield "params", log_trainers.trained(number, asked)
        case log.TRAINED_SHARE:
            yield "percent", log_trainers.trained_share(asked)
        case log.DECAYED:
            yield "params", log_trainers.decayed(number, asked)
        case log.MFU:
            yield "percent", log_trainers.share_of_peak(number, asked)
            yield "percent", log_trainers.by_time(number, asked)
        case log.RATE:
            yield "percent", log_trainers.share_of_peak(number, asked)
        case log.TRIED:
            yield "bytes", log_oom.candidates(number, asked) or log_oom.every(number, asked)
        case log.FLOS:
            yield "flops", log_trainers.flos(asked)
        case log.SHARE:
            yield "percent", log_trainers.of_peak(number)


OF_SEARCH = {log.WEIGHTS: MEMORY, log.FILE: MEMORY, log.PARAMS: "params", log.TRAINABLE: "params", log.ALL: "params"}


def _by_search(number: log.LoggedNumber, asked: LogQuestion) -> LogReason | None:
    """The number by the search for conventions, that of a number alone."""
    of = OF_SEARCH.get(number.key)
    if of is None:
        return None
    beside = log_trainers.with_trained(number, asked)
    value = number.value - beside
    if value < 1:
        return None
    if of == MEMORY:
        text = f"{float(value / GIB):.4f}".rstrip("0").rstrip(".") + " GiB"
    else:
        text = _as_written(value, number.rounded)
    found = conventions_of(text, asked.model, of, called=asked.called)
    one = next(iter(found.reasons or found.nearest), None)
    if one is None:
        return None
    agrees = bool(found.reasons) or (of == MEMORY and abs(one.distance) <= NEAR)
    one = _with(one, int(beside))
    return LogReason(one.of_log(one.cause, number.text), agrees)


def _with(one: Reason, trained: int) -> Reason:
    """The reason of a model's number, with what is trained beside the model."""
    if not trained:
        return one
    value = one.value + trained
    return replace(
        one,
        value=value,
        cause=f"{one.cause}, and what is trained",
        arithmetic=f"{one.arithmetic}; + {trained:,} = {value:,}",
        distance=(one.distance * one.given) / (one.given + trained),
        changes=(*one.changes, (trained, "what is trained beside it")),
        shown=one.shown + trained,
        given=one.given + trained,
    )


def _as_written(value: Fraction, rounded: Fraction) -> str:
    """The number as it was written: ``30.532B`` where it was rounded, else in full."""
    for name, size in (("B", 10**9), ("M", 10**6)):
        if rounded > HALF and value >= size:
            digits = max(0, len(str(size // int(2 * rounded))) - 1)
            return f"{float(value / size):.{digits}f}{name}"
    return f"{int(value):,}"


def _remarks(asked: LogQuestion) -> Iterator[LogRemark]:
    """Remarks on all numbers together."""
    yield from log_oom.remarks(asked)
    yield from log_engines.remarks(asked)
    yield from log_trainers.remarks(asked)
    if asked.gpu is not None:
        yield from _on_card(asked, asked.gpu)


def _on_card(asked: LogQuestion, gpu: Accelerator) -> Iterator[LogRemark]:
    """Share of a card's memory that the bytes of a log are."""
    whole = gpu.usable(context=0).bytes
    for one in asked.numbers:
        if one.key in OF_A_CARD and whole:
            share = f"{float(one.value / whole):.1%}".replace("%", " %")
            yield LogRemark(one.text, f"{share} of the {whole / GIB:.1f} GiB of {gpu.name}")


def refuse_nameless(numbers: Sequence[log.LoggedNumber]) -> None:
    """Raise UsageError where nobody says what model a log is of, and what it says is of one."""
    if all(one.key == log.SHARE for one in numbers):
        return
    one = numbers[0]
    raise UsageError(f"the line is {one.program}'s, and names no model", "put it behind: tfcalc why LINE llama-3-8b")


def refuse_unknown(text: str, called: str) -> None:
    """Raise UsageError for a text of a log that has no number of those that are known."""
    if not log.looks_logged(text):
        return
    name = called or "llama-3-8b"
    if log.measured(text):
        raise UsageError(
            f"{quoted(text)} has a time or a speed, which is measured, and nothing that why knows",
            f"tfcalc serve {name} --gpu h100 estimates tokens per second, tfcalc train {name} --gpu h100 --tokens 1B "
            "the seconds of a step",
        )
    programs = ", ".join(dict.fromkeys(one.program for one in log.PATTERNS if one.key != log.SHARE))
    number = next((one.replace(" ", "") for one in numbers_in(text) if not one[-1:].isdigit()), "13.5GB")
    raise UsageError(
        f"{quoted(text)} looks like a log line, and none of its numbers is known here",
        f"known are sizes, rates and counts of {programs}; ask about one number with its unit: "
        f"tfcalc why {number} {name}",
    )
