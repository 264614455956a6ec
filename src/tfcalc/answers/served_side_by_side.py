"""A served model on several GPUs, or shared in several ways, side by side: which part of a token differs most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tfcalc.answers.serve import Serve
from tfcalc.answers.serve_base import ServedAnswer
from tfcalc.answers.serve_in_words import requests_in_words, why_unknown
from tfcalc.answers.serve_keys import TOKEN_PARTS, EstimateKeys, ExactKeys, FloorKeys, RangeKeys
from tfcalc.errors import UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.declared import Key, Record, records, texts
from tfcalc.report.sheet import Bytes, Cell, Column, Sheet, of
from tfcalc.units import short_seconds

if TYPE_CHECKING:
    from tfcalc.answers.serve_case import ServeCase, ServedAt
    from tfcalc.answers.serve_question import ServeQuestion

LEAST, MOST = 2, 6
"""Ways to serve a model that stand side by side."""


class ServedKeys(Record):
    """The model on some GPUs: the keys that an answer about these alone has."""

    deployment = Serve.deployment
    fits = ServedAnswer.fits
    exact = Serve.exact
    floor = Serve.floor
    estimate = Serve.estimate
    no_estimate = Serve.no_estimate
    price_per_gpu_hour = Serve.price_per_gpu_hour


class ServedNumber(NamedTuple):
    """A number of a served model: what it is ``called``, its ``keys``, and the number as it is ``written``.

    A ``part`` is one of the number above that is none.
    """

    called: str
    keys: tuple[Key[Any], ...]
    written: Callable[[ServeCase], Cell]
    part: bool = False


def _seconds(seconds: float) -> str | None:
    return short_seconds(seconds) if seconds else None


def _floor(called: str, key: Key[Any], seconds: Callable[[ServeCase], float], *, part: bool = False) -> ServedNumber:
    return ServedNumber(called, (Serve.floor, key), lambda one: _seconds(seconds(one)), part)


def _estimate(
    called: str, keys: tuple[Key[Any], ...], written: Callable[[ServeCase], Cell], *, part: bool = False
) -> ServedNumber:
    return ServedNumber(called, (Serve.estimate, *keys), lambda one: None if one.by is None else written(one), part)


def _part(called: str, key: Key[Any], seconds: Callable[[ServedAt], float]) -> ServedNumber:
    return _estimate(called, (EstimateKeys.parts_ms, key), lambda one: _seconds(seconds(one.at)), part=True)


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
        "a token, estimated",
        (EstimateKeys.tpot_ms, RangeKeys.value),
        lambda one: short_seconds(one.at.token.value),
    ),
    *(_part(name, *part) for name, part in TOKEN_PARTS.items()),
    _estimate(
        "first token, estimated",
        (EstimateKeys.ttft_ms, RangeKeys.value),
        lambda one: short_seconds(one.at.first.value),
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


def _signed(seconds: float) -> str:
    return f"{'+' if seconds > 0 else '-'}{short_seconds(abs(seconds))}"


class ServedSideBySide(ServedAnswer):
    """A served model on several GPUs, or shared in several ways."""

    form: ClassVar[str] = "several GPUs, or several ways to share a model, side by side"

    traffic = Serve.traffic.made(lambda answer: answer.question.load)
    served = records(
        ServedKeys, "the model on each, in the order in which they were asked for", lambda answer: answer.each
    )
    assumptions = texts("what was assumed", lambda answer: tuple(answer.assumed()))

    def __init__(self, each: Sequence[Serve]) -> None:
        self.each = tuple(each)

    @property
    def question(self) -> ServeQuestion:
        """The question of the first, whose model and requests are those of all."""
        return self.each[0].question

    @property
    def holds(self) -> bool:
        """Return whether it fits in each of these ways."""
        return all(one.holds for one in self.each)

    @property
    def succeeded(self) -> bool:
        """Return whether it fits in each, and keeps the limits."""
        return all(one.succeeded for one in self.each)

    @property
    def names(self) -> tuple[str, ...]:
        """Names that tell them apart: the GPUs of each, or how these share the model, or both."""
        for name in (lambda one: one.gpus, lambda one: one.ways):
            if len(names := dict.fromkeys(map(name, self.each))) == len(self.each):
                return tuple(names)
        return tuple(one.where for one in self.each)

    @property
    def estimated(self) -> tuple[Serve, ...]:
        """Answers with an estimate, the fastest token first."""
        return tuple(
            sorted((one for one in self.each if one.case.by is not None), key=lambda one: one.case.at.token.value)
        )

    # --- for people

    @property
    def heading(self) -> str:
        """The model, and the requests."""
        formats = " or ".join(dict.fromkeys(one.formats for one in self.each))
        gpus = dict.fromkeys(one.gpus for one in self.each)
        where = f" on {' or '.join(gpus)}" if len(gpus) < len(self.each) else ""
        return f"{self.question.model.summary}{where}, {formats}, {requests_in_words(self.question.load)}"

    def assumed(self) -> Iterator[str]:
        """Yield what was assumed of one of them, or of several."""
        yield from dict.fromkeys(line for one in self.each for line in one.assumed())

    @property
    def title(self) -> str:
        """The fastest and the slowest, by their floors where fewer than two have an estimate."""
        of_floors = len(self.estimated) < LEAST
        fitting = [one for one in self.each if one.holds] if of_floors else self.estimated
        if not fitting:
            return f"it fits in none of {len(self.each)} ways"

        def seconds(one: Serve) -> float:
            return float(one.case.at.floor_of_token.seconds if of_floors else one.case.at.token.value)

        fastest, *_, slowest = sorted(fitting, key=seconds) * LEAST
        named = dict(zip(self.each, self.names, strict=True))
        least = "at least " * of_floors
        told = f"{named[fastest]}: {least}{short_seconds(seconds(fastest))} a token"
        if fastest is slowest:
            return told
        told += f"; {named[slowest]}: {least}{short_seconds(seconds(slowest))}"
        if of_floors or fastest.case.at.token.high < slowest.case.at.token.low:
            return told
        return f"{told}; their bands overlap"

    def sheet(self) -> Sheet:
        """A column for each, and a row for each number and for the parts of a token."""
        rows: list[list[Cell]] = []
        depths: list[int] = []
        for row in NUMBERS:
            cells = [row.written(one.case) if one.holds else None for one in self.each]
            if any(cell is not None for cell in cells):
                rows.append(
                    [row.called, *(of(cell, ServedSideBySide.served, at, *row.keys) for at, cell in enumerate(cells))]
                )
                depths.append(int(row.part))
        return Sheet(
            title=self.title,
            subtitle=self.heading,
            columns=[Column("", numeric=False), *map(Column, self.names)],
            rows=rows,
            depths=depths,
            quiet=self.title,
            notes=tuple(self._notes()),
            assumes=(),
            not_counted="",
            see_also=("--assumptions", "--json"),
            assumptions=tuple(self.assumed()),
        )

    def _notes(self) -> Iterator[str]:
        named = dict(zip(self.each, self.names, strict=True))
        if len(self.estimated) >= LEAST:
            fastest, *others = self.estimated
            parts = {
                one: {name: seconds(one.case.at) for name, (_, seconds) in TOKEN_PARTS.items()}
                for one in self.estimated
            }
            for one in others:
                differences = {name: seconds - parts[fastest][name] for name, seconds in parts[one].items()}
                largest = sorted(differences.items(), key=lambda item: -abs(item[1]))
                told = ", ".join(f"{name} {_signed(more)}" for name, more in largest if more)
                yield f"{named[one]} beside {named[fastest]}: {told}"
            shared = {name: {each[name] for each in parts.values()} for name in TOKEN_PARTS}
            same = {name: of_all.pop() for name, of_all in shared.items() if len(of_all) == 1 and of_all != {0.0}}
            if same:
                told = ", ".join(f"{name} {short_seconds(seconds)}" for name, seconds in same.items())
                whole = f"the {short_seconds(fastest.case.at.token.value)} that the fastest takes"
                yield f"The same in each: {told}; {short_seconds(sum(same.values()))} of {whole}"
        for one in self.each:
            if not one.holds:
                yield f"{named[one]}: {one.title}"
            elif one.case.by is None and not one.question.floor:
                yield f"{named[one]}: nothing is estimated: {why_unknown(one.case)}"
            elif one.promise is not None:
                yield f"{named[one]}: {one.promised}"


def side_by_side(answers: Sequence[Serve]) -> ServedSideBySide:
    """Put answers of :func:`~tfcalc.serve` about one model and the same requests side by side.

    Args:
        answers: two to six of them.

    Returns:
        ServedSideBySide: ``served`` has the keys of each.

    Raises:
        UsageError: there are fewer or more, or they are of several models or requests.
    """
    check_ways(len(answers))
    if len({one.question.load for one in answers}) > 1 or len({one.question.model for one in answers}) > 1:
        raise UsageError("ways to serve it are of several models, or of several loads", "ask the same of each")
    return ServedSideBySide(answers)


def check_ways(number: int) -> None:
    """Raise UsageError where this number of ways to serve a model cannot be side by side."""
    if not LEAST <= number <= MOST:
        raise UsageError(f"{number:,} ways to serve a model side by side", f"take {LEAST} to {MOST}")
