"""The generated tables of docs/ledger.md: errors of tfcalc and of its peers on the same public measurements.

They are made of recorded answers (``benchmarks/ledger/answers``), so that making the page asks nobody.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median, quantiles

from benchmarks.ledger.__main__ import ANSWERS, OURS, UNSEEN
from benchmarks.ledger.peers import PEERS
from benchmarks.ledger.points import KINDS, MEMORY, Point, points

CLOSE = 0.08
FEW, MANY = 5, 40
"""Rows that a median is made of at least; groups that a table has at most."""
WORST = 5
"""Rows of each kind that are listed because tfcalc is farthest off there."""
EXACT = 0.0005
"""What one decimal of a percentage shows."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one calculator said: its version, the day, numbers and refusals by the measurements' names."""

    name: str
    version: str
    asked: str
    numbers: Mapping[str, float]
    refused: Mapping[str, str]

    def error(self, point: Point) -> float | None:
        """Its number over what was measured, less one; None where it says none."""
        number = self.numbers.get(point.id)
        return None if number is None else number / point.measured - 1

    def knows(self, kind: str) -> bool:
        """Return whether it was asked questions of this kind."""
        return self.name not in PEERS or kind in PEERS[self.name][1]


@cache
def said() -> tuple[Said, ...]:
    """What each has said: tfcalc, then the peers by name."""
    found = [_read(path.stem) for path in sorted(ANSWERS.glob("*.jsonl"))]
    return tuple(sorted(found, key=lambda one: (one.name != OURS, one.name != UNSEEN, one.name)))


def _read(name: str) -> Said:
    first, *rows = (json.loads(line) for line in (ANSWERS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines())
    numbers = {row["id"]: row["answer"] for row in rows if "answer" in row}
    refused = {row["id"]: row["refused"] for row in rows if "refused" in row}
    return Said(first["peer"], first["version"], first["asked"], numbers, refused)


def _of(kind: str) -> list[Point]:
    return [point for point in points().values() if point.kind == kind]


def _known(one: Said, asked: Iterable[Point]) -> dict[str, float]:
    """Errors of those that it answers."""
    return {point.id: error for point in asked if (error := one.error(point)) is not None}


def peers() -> Iterator[str]:
    """Who is compared, of which version, asked when, and how much of it."""
    kinds = Counter(point.kind for point in points().values())
    asked_peers = [one.name for one in said() if one.name in PEERS]
    yield f"{sum(kinds.values()):,} measurements; {len(asked_peers)} peers."
    yield ""
    yield "| calculator | version | asked on | what | answers | of |"
    yield "| --- | --- | --- | --- | ---: | ---: |"
    for one in said():
        if one.name == UNSEEN:
            continue
        asked = [kind for kind in KINDS if one.knows(kind)]
        count = len(one.numbers) + len(one.refused)
        told = "all" if len(asked) == len(KINDS) else ", ".join(asked)
        yield f"| {one.name} | {one.version} | {one.asked} | {told} | {len(one.numbers):,} | {count:,} |"
    for name, (_, its) in PEERS.items():
        if name not in asked_peers:
            yield f"| {name} | | not yet | {', '.join(its)} | | |"


def kinds() -> Iterator[str]:
    """The errors of each kind of measurement."""
    for kind, meaning in KINDS.items():
        asked = _of(kind)
        yield f"**{meaning[0].upper()}{meaning[1:]}** ({len(asked):,}):"
        yield ""
        columns = f"answers | refused | off, median | off, p90 | leans | within {CLOSE:.0%}"
        yield f"| calculator | {columns} | tfcalc on its rows | nearer than tfcalc |"
        yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
        for one in said():
            if one.knows(kind) and (one.name != UNSEEN or _known(one, asked)):
                yield f"| {' | '.join(_row(one, asked))} |"
        yield ""


def _row(one: Said, asked: Sequence[Point]) -> Iterator[str]:
    errors, ours = _known(one, asked), _known(said()[0], asked)
    refused = sum(point.id in one.refused for point in asked)
    yield one.name
    yield f"{len(errors):,}"
    yield f"{refused:,}"
    if not errors:
        yield from ("–",) * 6
        return
    sizes = [abs(error) for error in errors.values()]
    yield _share(median(sizes))
    yield _share(quantiles(sizes, n=10, method="inclusive")[-1] if len(sizes) > 1 else sizes[0])
    yield _signed(median(errors.values()))
    yield f"{sum(size <= CLOSE for size in sizes) / len(sizes):.0%}"
    both = [(abs(errors[id]), abs(ours[id])) for id in errors if id in ours]
    if one.name == OURS or not both:
        yield from ("–", "–")
        return
    yield _share(median(mine for _, mine in both))
    nearer = sum(its < mine and mine >= EXACT for its, mine in both)
    yield f"{nearer} of {len(both)}"


def _share(size: float) -> str:
    return f"{size:.1%}" if size < 10 else f"{size:,.0%}"


def _signed(error: float) -> str:
    return "0.0%" if abs(error) < EXACT else f"{error:+.1%}"


GROUPS: Mapping[str, Callable[[Point], str]] = {
    "family": lambda point: point.family,
    "card": lambda point: point.card,
    "engine": lambda point: point.engine,
    "version": lambda point: f"{point.engine} {point.version}".strip() if point.version else "",
    "quantity": lambda point: str(point.row["quantity"]) if point.kind == MEMORY else "",
    "source": lambda point: point.source,
}


def by(group: str, *words: str) -> Iterator[str]:
    """The median of how far each calculator is off, by what the words say: a kind, grouped by card, say."""
    kind = " ".join(words)
    asked = _of(kind)
    grouped = defaultdict[str, list[Point]](list)
    for point in asked:
        if name := GROUPS[group](point):
            grouped[name].append(point)
    who = [one for one in said() if one.knows(kind) and _known(one, asked)]
    largest = sorted(grouped, key=lambda name: (-len(grouped[name]), name))
    yield f"| {group} | rows | {' | '.join(one.name for one in who)} |"
    yield f"| --- | ---: |{' ---: |' * len(who)}"
    for name in largest[:MANY]:
        yield f"| {name} | {len(grouped[name])} | {' | '.join(_cell(one, grouped[name]) for one in who)} |"
    if rest := largest[MANY:]:
        left = [point for name in rest for point in grouped[name]]
        yield f"| {len(rest)} others | {len(left)} | {' | '.join(_cell(one, left) for one in who)} |"


def _cell(one: Said, asked: Sequence[Point]) -> str:
    """How far it is off in the median; of how many, where it does not answer all."""
    sizes = [abs(error) for error in _known(one, asked).values()]
    if not sizes:
        return "–"
    return _share(median(sizes)) + (f" ({len(sizes)})" if len(sizes) < len(asked) else "")


def refused() -> Iterator[str]:
    """Why each gave no number, in its own words where it has any, most often first."""
    yield "| calculator | what | rows | why |"
    yield "| --- | --- | ---: | --- |"
    for one in said():
        for kind in KINDS:
            asked = [point.id for point in _of(kind) if point.id in one.refused]
            reasons = Counter(_reason(one.refused[id]) for id in asked)
            told = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common(4))
            others = sum(count for _, count in reasons.most_common()[4:])
            if asked and one.name != UNSEEN:
                yield f"| {one.name} | {kind} | {len(asked)} | {told}{f'; others ({others})' if others else ''} |"


def _reason(text: str) -> str:
    """A reason without what is single about it, so that equal ones meet.

    >>> _reason("UnsupportedModelError: model_type 'bert' is not supported; supported: llama")
    'UnsupportedModelError: model_type … is not supported'
    """
    plain = text.removeprefix("not among what it models: ")
    plain = re.sub(r"'[^']*'|\{.*|\d[\d,.]*", "…", plain)
    return re.split(r"; |\. |, got|, but", plain)[0].replace("|", "/").replace("<", "‹")[:70].strip()


def losses() -> Iterator[str]:
    """Groups in which a peer is nearer than tfcalc, in the median of the rows that both answer."""
    ours = said()[0]
    yield "| what | where | rows of both | tfcalc | peer | its median |"
    yield "| --- | --- | ---: | ---: | --- | ---: |"
    found = []
    for kind in KINDS:
        for group in ("family", "card", "engine", "quantity"):
            names = sorted({GROUPS[group](point) for point in _of(kind)} - {""})
            for name in names:
                within = [point for point in _of(kind) if GROUPS[group](point) == name]
                found += list(_lost(ours, within, kind, f"{group} {name}"))
    for gap, line in sorted(found, reverse=True):
        assert gap > 0
        yield line


def _lost(ours: Said, within: Sequence[Point], kind: str, where: str) -> Iterator[tuple[float, str]]:
    own = _known(ours, within)
    for one in said():
        if one.name not in PEERS:
            continue
        its = _known(one, within)
        both = own.keys() & its.keys()
        if len(both) < FEW:
            continue
        mine, other = (median(abs(errors[id]) for id in both) for errors in (own, its))
        if mine - other >= EXACT:
            yield mine - other, f"| {kind} | {where} | {len(both)} | {_share(mine)} | {one.name} | {_share(other)} |"


def worst() -> Iterator[str]:
    """The measurements that tfcalc is farthest off from, of each kind in which it is off."""
    yield "| what | measurement | source | tfcalc |"
    yield "| --- | --- | --- | ---: |"
    for kind in KINDS:
        errors = _known(said()[0], _of(kind))
        for name, error in sorted(errors.items(), key=lambda one: (-abs(one[1]), one[0]))[:WORST]:
            if abs(error) >= EXACT:
                yield f"| {kind} | `{name}` | {points()[name].source} | {_signed(error)} |"


TABLES: Mapping[str, Callable[..., Iterator[str]]] = {
    "peers": peers,
    "kinds": kinds,
    "by": by,
    "refused": refused,
    "losses": losses,
    "worst": worst,
}
