"""The generated tables of docs/accuracy.md on runs of real GPUs: measured beside predicted (:mod:`tests.real_runs`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from tests.real_runs import CLOSE, UNITS, Compared, all_compared, size_of, spread

CARD = {"reserved": "reserved", "nvidia-smi": "whole card"}
"""What a card shows beyond what is allocated, by quantity."""
SHOWN = 0.0005
"""What one decimal of a percentage shows."""


def statistics() -> Iterator[str]:
    """The distribution of the errors, now and in version 0.1.0."""
    errors = "median | p10 | p90 | p90 of its size"
    yield f"| compared | rows | with a number | {errors} | within {CLOSE:.0%} | within the band |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    found = all_compared()
    for name in dict.fromkeys(map(_compared, found)):
        yield from _distribution(name, [one for one in found if _compared(one) == name])
    yield from _distribution("all", found)


def _compared(one: Compared) -> str:
    return "difference of two peaks" if one.run.less else CARD.get(one.run.quantity, "allocated")


def _distribution(name: str, found: Sequence[Compared]) -> Iterator[str]:
    banded = [one for one in found if one.high]
    within = f"{sum(one.within for one in banded)} of {len(banded)}" if banded else ""
    yield f"| {name} | {_in_cells([one.error for one in found])} | {within} |"
    yield f"| {name}, 0.1.0 | {_in_cells([one.run.before for one in found])} | |"


def _in_cells(errors: Sequence[float | None]) -> str:
    said, size = spread(errors), spread(size_of(error) for error in errors)
    shares = " | ".join(map(_share, (said.median, said.p10, said.p90)))
    return f"{said.rows} | {said.numbers} | {shares} | {_share(size.p90).removeprefix('+')} | {said.close:.0%}"


def _share(error: float | None) -> str:
    """With its sign, if it has one: ``-0.3%``."""
    return "–" if error is None else f"{error:+.1%}" if abs(error) >= SHOWN else "0.0%"


def group(name: str) -> Iterator[str]:
    """The rows of one source: what all have in common, then each with its options."""
    found = all_compared(lambda run: run.group == name)
    common = _common([_options(one.run.arguments) for one in found if one.run.arguments])
    if common:
        yield f"Options of all: `{' '.join(common)}`."
        yield ""
    yield "| run | options | measured | predicted | error | 0.1.0 | what is left |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | --- |"
    for one in found:
        yield f"| {' | '.join(_cells(one, common))} |"


def _cells(one: Compared, common: Iterable[str]) -> Iterator[str]:
    run = one.run
    yield run.run
    yield " ".join(f"`{option}`" for option in _options(run.arguments) if option not in common)
    yield f"{run.measured:,} {run.unit}"
    yield "–" if one.predicted is None else _predicted(one)
    yield _share(one.error)
    yield _share(run.before)
    yield "; ".join(text for text in (one.why_not, run.assumed and f"assumed: {run.assumed}", run.cause) if text)


def _predicted(one: Compared) -> str:
    """With the band, where it is one of what a card shows."""
    band = (one.low, one.high) if one.run.quantity in CARD else ()
    digits, unit = _digits(one.run.measured), UNITS[one.run.unit]
    number, *ends = (f"{size / unit:,.{digits}f}" for size in (one.predicted or 0, *band))
    return f"{number} ({'–'.join(ends)})" if ends else number


def _options(arguments: Sequence[str]) -> list[str]:
    """Each option with its value, the model first.

    >>> _options(["memory", "gpt2", "--train", "--batch", "2"])
    ['gpt2', '--train', '--batch 2']
    """
    starts = [place for place, word in enumerate(arguments) if place == 1 or word.startswith("--")]
    return [" ".join(arguments[start:end]) for start, end in pairwise([*starts, len(arguments)])]


def _common(asked: Sequence[Sequence[str]]) -> list[str]:
    return [option for option in asked[0] if all(option in other for other in asked)] if len(asked) > 1 else []


def _digits(measured: float) -> int:
    """As many as the source prints."""
    return len(str(measured).partition(".")[2])


TABLES: dict[str, Callable[..., Iterator[str]]] = {"statistics": statistics, "group": group}
