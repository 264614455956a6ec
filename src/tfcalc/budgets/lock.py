"""tfcalc.lock.json: the numbers of all budgets as they were recorded, with what they rest on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcalc.errors import BadFile
from tfcalc.files import content, whole_number
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import shortened

if TYPE_CHECKING:
    from tfcalc.budgets.limit_check import Value
    from tfcalc.budgets.numbers import JudgedNumber

NAME = "tfcalc.lock.json"
SCHEMA_VERSION = 1
LARGEST = 4 << 20
LONGEST_VERSION = 40
DIGITS = 16
ABSURD = 10**30
"""Bound of all numbers of answers."""
REMEDY = "restore it from git, or delete it and run tfcalc budget --update"

Key = tuple[str, str, str]
"""Model, scenario ("" for none) and metric."""


class LockRecord(NamedTuple):
    """Recorded ``value``, and digests of the ``definitions`` it depends on and of the model's own ``fields``.

    ``reason`` is why it was last raised.
    """

    model: str
    scenario: str | None
    metric: str
    value: Value
    definitions: str
    fields: str
    reason: str = ""

    @property
    def key(self) -> Key:
        """Key of the record."""
        return self.model, self.scenario or "", self.metric


class Lock(NamedTuple):
    """Recorded values, the ``version`` of tfcalc that counted them, and the conventions and scenarios of then."""

    version: str
    conventions: Mapping[str, object]
    scenarios: Mapping[str, Mapping[str, object]]
    records: Mapping[Key, LockRecord]

    def text(self) -> str:
        """The file: sorted, a line for each value, the same bytes for the same values."""
        lines = [json.dumps(self.records[key]._asdict(), ensure_ascii=False) for key in sorted(self.records)]
        head = {
            "schema_version": SCHEMA_VERSION,
            "tfcalc": self.version,
            "conventions": _sorted(self.conventions),
            "scenarios": {name: _sorted(self.scenarios[name]) for name in sorted(self.scenarios)},
        }
        opened = json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}")
        values = ",\n    ".join(lines)
        return opened + ',\n  "values": [' + (f"\n    {values}\n  " if lines else "") + "]\n}\n"


def _sorted(values: Mapping[str, object]) -> dict[str, object]:
    return {name: values[name] for name in sorted(values)}


def digest(value: object) -> str:
    """Short hash of a value."""
    from hashlib import sha256

    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:DIGITS]


def record(key: Key, number: JudgedNumber, options: Mapping[str, object], reason: str = "") -> LockRecord:
    """Record of a number that was computed with these ``options`` of a scenario."""
    model, scenario, metric = key
    definitions = digest([number.conventions, dict(options)])
    return LockRecord(model, scenario or None, metric, number.value, definitions, digest(number.model), reason)


def read(path: Path, name: str) -> Lock:
    """Read the recorded values of a file that is called ``name``. Raises BadFile where it cannot be read."""
    try:
        raw = content(path, LARGEST)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file can be called so"
        raise BadFile(f"{name} cannot be read: {why}", "tfcalc budget --update writes it") from None
    if len(raw) > LARGEST:
        raise BadFile(f"{name} is larger than 4 MiB", REMEDY)
    try:
        return _parsed(json.loads(raw.decode(), parse_int=whole_number, parse_constant=_refused))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        what = "it lacks " if isinstance(error, KeyError) else ""
        raise BadFile(f"{name} is no file of recorded values: {what}{error}", REMEDY) from None


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _parsed(table: Any) -> Lock:
    """Raises KeyError, TypeError or ValueError for anything else than what ``text`` writes."""
    if table["schema_version"] != SCHEMA_VERSION:
        raise ValueError(f"its schema_version is {table['schema_version']!r}, not {SCHEMA_VERSION}")
    version, conventions, scenarios = table["tfcalc"], table["conventions"], table["scenarios"]
    records = [LockRecord(**one) for one in table["values"]]
    tables = [conventions, scenarios, *scenarios.values()]
    if not isinstance(version, str) or not all(isinstance(one, dict) for one in tables):
        raise TypeError("its tfcalc, conventions or scenarios are of another type")
    for one in records:
        number = isinstance(one.value, int | float) and not isinstance(one.value, bool)
        texts = (
            one.model,
            one.metric,
            one.definitions,
            one.fields,
            one.reason,
            "" if one.scenario is None else one.scenario,
        )
        if not number or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"the record {_short(one)} is of another type")
        if abs(one.value) > ABSURD:
            raise ValueError(f"the record {_short(one)} is too large")
    return Lock(shortened(version, LONGEST_VERSION), conventions, scenarios, {one.key: one for one in records})


def _short(one: LockRecord) -> str:
    return f"{one.model!r:.80} {one.metric!r:.80}"
