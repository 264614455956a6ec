"""A file of rates that were fitted to somebody's own runs: as ``calibrate`` writes it, and ``--rates`` reads it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfcalc.errors import BadFile, UsageError
from tfcalc.files import check_plain, content
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.timing.calibration import SHARES
from tfcalc.timing.estimate import CALIBRATED, MEASURED, ErrorBand, band_of
from tfcalc.timing.rates import Rates, rates_of, table

LARGEST_FILE = 1 << 16
VERSION = 1
MOST_RATE = 1e6
WIDEST = 0.9
"""Error of nine in ten runs from which on a band has no upper end worth naming."""
HEAD = """\
# Rates of a training step, fitted by tfcalc calibrate to runs that were measured; read by --rates of train and plan.
"""


class RatesFile(NamedTuple):
    """Rates of a file, ``called`` as it was typed: their table, the error of the runs that they were fitted to.

    ``fitted_on`` says which these were.
    """

    called: str
    fitted_on: str
    table: Mapping[str, Any]
    band: ErrorBand

    @property
    def stacks(self) -> tuple[str, ...]:
        """Names of the stacks that ran."""
        return tuple(self.table["stacks"])

    def stack(self, usual: str) -> str:
        """Return the usual stack where the file has it, else its own."""
        return usual if usual in self.stacks else self.stacks[0]

    def covers(self, generation: str, stack: str) -> bool:
        """Return whether it has rates of these GPUs with this stack."""
        return generation in self.table["generations"] and stack in self.stacks

    @property
    def words(self) -> str:
        """``rates.toml, fitted to 12 runs: runs.jsonl``."""
        return f"{self.called}, fitted to {self.fitted_on}"


def rates_for(generation: str, stack: str, file: RatesFile | None) -> Rates:
    """Return the rates of the file, or without one those of published runs. Raises UsageError where it has none."""
    if file is None:
        return rates_of(generation, stack)
    if not file.covers(generation, stack):
        has = f"{', '.join(file.table['generations'])} with {', '.join(file.stacks)}"
        raise UsageError(f"{quoted(file.called)} has no rates of {generation} with {stack}", f"it has those of {has}")
    return rates_of(generation, stack, file.table)


def band_for(
    generation: str, stack: str, file: RatesFile | None, *, experts: bool, measured: bool = False, alone: bool = False
) -> ErrorBand:
    """Return the band of the file's own runs, or without a file that of published runs."""
    known = band_of(generation, stack, experts=experts, measured=measured, alone=alone)
    return known if file is None else file.band


def read_rates(place: str) -> RatesFile:
    """Read a file of rates. Raises BadFile for anything else."""
    try:
        raw = content(Path(place), LARGEST_FILE)
    except OSError as error:
        raise BadFile(f"{quoted(place)} cannot be read: {error.strerror}", "write it by tfcalc calibrate") from None
    if len(raw) > LARGEST_FILE:
        raise BadFile(f"{quoted(place)} is larger than 64 KiB", "a file of rates is a few lines")
    import tomllib  # only where a file is named

    try:
        found: dict[str, Any] = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{quoted(place)} is not TOML: {error}", "write it by tfcalc calibrate") from None
    check_plain(found, of="a file of rates", called=quoted(place), failure=BadFile)
    if found.get("version") != VERSION:
        fact = f"{quoted(place)}: version {quoted(found.get('version'))} is not known"
        raise BadFile(fact, f"version = {VERSION} is; write it by tfcalc calibrate")
    flaw = next(_flaws(found), "")
    if flaw:
        raise BadFile(f"{quoted(place)}: {flaw}", "calibrate again: tfcalc calibrate LOG -o FILE")
    band = found["band"]
    known = ErrorBand(str(band["kind"]), float(band["p50"]), float(band["p90"]), int(band["runs"]))
    return RatesFile(place, str(found["fitted_on"]), {name: found[name] for name in SECTIONS}, known)


SECTIONS = ("generations", "machine", "stacks")


NEWER = frozenset(("host",))
"""Rates that files of earlier versions do not have, and that are 0 then."""


def _flaws(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with such a file: the first counts."""
    if not isinstance(found.get("fitted_on"), str):
        yield "fitted_on is no text"
    band = found.get("band")
    if not isinstance(band, dict) or band.get("kind") not in (CALIBRATED, MEASURED):
        yield f"band.kind is neither {CALIBRATED} nor {MEASURED}"
        return
    for name, most in (("p50", WIDEST), ("p90", WIDEST), ("runs", MOST_RATE)):
        if not _number(band.get(name)) or not 0 <= band[name] <= most:
            yield f"band.{name} {quoted(band.get(name))} is no number from 0 to {most:g}"
    known = table()
    for kind in ("generations", "stacks"):
        sections = found.get(kind)
        if not isinstance(sections, dict) or not sections:
            yield f"it has no {kind}"
            return
        for name, section in sections.items():
            if name not in known[kind]:
                yield f"{kind}.{quoted(name)} is not known"
            else:
                yield from _flaws_of(section, known[kind][name], f"{kind}.{name}")
    yield from _flaws_of(found.get("machine"), {"scale": 1.0, **known["machine"]}, "machine")


def _flaws_of(section: object, known: Mapping[str, Any], called: str) -> Iterator[str]:
    """Yield what is wrong with one section: it has the keys of rates.toml, and numbers that can be such rates."""
    if not isinstance(section, dict) or NEWER.union(section) != NEWER.union(known):
        yield f"{called} does not have the rates {', '.join(known)}"
        return
    for name, value in section.items():
        if isinstance(known[name], Mapping):
            yield from _flaws_of(value, known[name], f"{called}.{name}")
        elif isinstance(known[name], bool):
            if value is not known[name]:
                yield f"{called}.{name} {quoted(value)} is not {str(known[name]).lower()}"
        elif not _number(value) or not 0 < value <= (1 if name in SHARES else MOST_RATE):
            yield f"{called}.{name} {quoted(value)} is no such rate"


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def written(table_: Mapping[str, Any], band: ErrorBand, fitted_on: str) -> str:
    """Return the text of a file of rates."""
    lines = [HEAD, f"version = {VERSION}", f"fitted_on = {json.dumps(fitted_on)}", "", "[band]"]
    lines.append("# |estimate / measured - 1| of runs that were left out in turn: its middle, and its ninth tenth")
    lines += _lines({"kind": band.kind, "p50": band.typical, "p90": band.most, "runs": band.runs})
    for kind in SECTIONS:
        sections = (
            {kind: table_[kind]} if kind == "machine" else {f"{kind}.{one}": of for one, of in table_[kind].items()}
        )
        for name, section in sections.items():
            lines += ["", f"[{name}]", *_lines(section)]
            for generation, rates in section.items():
                if isinstance(rates, Mapping):
                    lines += ["", f"[{name}.{generation}]", *_lines(rates)]
    return "\n".join(lines) + "\n"


def _lines(section: Mapping[str, Any]) -> Iterator[str]:
    for name, value in section.items():
        if isinstance(value, Mapping):
            continue
        told = json.dumps(value) if isinstance(value, str | bool | int) else f"{value:.6g}"
        yield f"{name} = {told}"
