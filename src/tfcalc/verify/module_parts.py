"""The tensors of a person's class beside those that tfcalc expects, role by role (W_Q, b_O, γ, …)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from tfcalc.named_tuple import NamedTuple
from tfcalc.report.explanation import Line
from tfcalc.verify.verification import ComparedRow

OTHERS = "others"
STACKED: Mapping[str, tuple[str, ...]] = {"W_QKV": ("W_Q", "W_K", "W_V"), "b_QKV": ("b_Q", "b_K", "b_V")}
"""Names that tfcalc has for several roles in one tensor."""


class TorchParameter(NamedTuple):
    """One parameter of their class, and what the pass told about it.

    ``roles`` are what it is; ``stacked`` says that each role is a piece of it, not all of it several times. Without a
    pass ``used`` and ``gradient`` are None.
    """

    name: str
    shape: tuple[int, ...]
    trained: bool
    gradient: bool | None
    used: bool | None
    roles: tuple[str, ...]
    stacked: bool

    @property
    def params(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def idle(self) -> bool:
        """Return whether it would be trained and gets no gradient."""
        return self.trained and self.gradient is False

    @property
    def meaning(self) -> str:
        """Description in a few words: ``W_Q, W_K, W_V stacked``, ``W_K by its name, never used``."""
        named = ", ".join(self.roles)
        if not self.used:
            by_name = f"{named} by its name" if named else ""
            return by_name if self.used is None else f"{by_name}, never used".lstrip(", ")
        if len(self.roles) < 2:
            return named
        if self.stacked:
            return f"{named} stacked"
        return f"{self.roles[0]}, also used as {', '.join(self.roles[1:])}"


def parameter(said: Mapping[str, Any]) -> TorchParameter:
    """One of what the process says."""
    uses = said["uses"]
    roles = tuple(dict.fromkeys(use["role"] for use in uses))
    places = {str(use["place"]) for use in uses}
    return TorchParameter(
        name=said["name"],
        shape=tuple(said["shape"]),
        trained=said["trained"],
        gradient=said["gradient"],
        used=said["used"],
        roles=roles,
        stacked=1 < len(roles) <= len(places),
    )


def side_by_side(expected: Sequence[Line], found: Sequence[TorchParameter]) -> tuple[ComparedRow, ...]:
    """A row for each role, and the total; roles that one tensor of either side has together share a row."""
    ours: dict[tuple[str, ...], int] = {}
    for line in expected:
        for name in line.names:
            key = STACKED.get(name, (name,))
            ours[key] = ours.get(key, 0) + line.value // len(line.names)
    theirs: dict[tuple[str, ...], int] = {}
    for one in found:
        key = one.roles if one.stacked else one.roles[:1] or (OTHERS,)
        theirs[key] = theirs.get(key, 0) + one.params
    groups = _groups([*ours, *theirs])
    rows = [ComparedRow(", ".join(group), _sum(ours, group), _sum(theirs, group)) for group in groups]
    return (*rows, ComparedRow("total", sum(ours.values()), sum(theirs.values())))


def _groups(keys: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The roles, those together that any key has together; in their first order."""
    groups: list[dict[str, None]] = []
    for key in keys:
        touched = [group for group in groups if not group.keys().isdisjoint(key)]
        if touched:
            for other in touched[1:]:
                touched[0].update(other)
                groups.remove(other)
            touched[0].update(dict.fromkeys(key))
        else:
            groups.append(dict.fromkeys(key))
    return [tuple(group) for group in groups]


def _sum(sizes: Mapping[tuple[str, ...], int], group: tuple[str, ...]) -> int:
    return sum(size for key, size in sizes.items() if key[0] in group)


def differences(rows: Sequence[ComparedRow]) -> list[str]:
    """Missing and extra parameters in words: ``W_O is missing (262,144)``."""
    absent = [row for row in rows[:-1] if row.counted and not row.reference]
    fewer = [row for row in rows[:-1] if row.counted > row.reference > 0]
    more = [row for row in rows[:-1] if row.reference > row.counted > 0]
    foreign = [row for row in rows[:-1] if row.reference and not row.counted]
    found = []
    if absent:
        verb = "is" if len(absent) == 1 and "," not in absent[0].path else "are"
        found.append(f"{_named(absent)} {verb} missing ({sum(row.counted for row in absent):,})")
    found += [f"{row.path}: {row.difference:,} fewer" for row in fewer]
    found += [f"{row.path}: {-row.difference:,} more" for row in more]
    if foreign:
        found.append(f"{_named(foreign)} not expected ({sum(row.reference for row in foreign):,})")
    return found


def _named(rows: Sequence[ComparedRow]) -> str:
    names = ", ".join(row.path for row in rows).split(", ")
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
