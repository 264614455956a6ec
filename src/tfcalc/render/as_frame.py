"""Frames of pandas or polars: the rows of an answer as columns of plain numbers and texts."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from tfcalc.errors import Unavailable, UsageError, one_of
from tfcalc.render import shown
from tfcalc.report.sheet import (
    Bytes,
    Cell,
    InUnit,
    Rounded,
    Share,
    Sheet,
    Short,
    Times,
    Tokens,
    for_programs,
    heading_for_programs,
)
from tfcalc.report.style import Style

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LIBRARIES = ("pandas", "polars")


def frame(sheet: Sheet, library: str = "") -> Any:
    """The rows of a sheet as a frame of this library, or of the first that is installed.

    Raises UsageError for an answer without rows and another library, Unavailable where none is installed.
    """
    if not sheet.columns:
        raise UsageError("this answer has no rows", "to_dict() has its numbers")
    opened = sheet.as_asked(Style()._replace(formulas=True)).bare()
    return frame_of(columns(cast("Sheet", shown(opened))), library)


def frame_of(values: Mapping[str, Sequence[object]], library: str = "") -> Any:
    """The columns as a frame; what is raised is as in :func:`frame`."""
    if library:
        one_of("library", library, LIBRARIES)
    found = next((name for name in LIBRARIES if library in ("", name) and find_spec(name)), None)
    if found is None:
        missing = f"{library} is not installed" if library else "neither pandas nor polars is installed"
        raise Unavailable(missing, f"pip install {library or LIBRARIES[0]}")
    return import_module(found).DataFrame(dict(values))


def columns(sheet: Sheet) -> dict[str, list[object]]:
    """The cells by the heading of their column, whole numbers as such; the path last, where rows have one.

    A column of counts and sizes is two of them. A heading that is there twice is numbered.
    """
    found: dict[str, list[object]] = {}
    for place, column in enumerate(sheet.columns):
        cells = [row[place] if place < len(row) else None for row in sheet.rows]
        if any(isinstance(cell, Times) for cell in cells):
            found[_free("count", found)] = [cell.copies if isinstance(cell, Times) else None for cell in cells]
            found[_free("each", found)] = [cell.each if isinstance(cell, Times) else None for cell in cells]
        else:
            found[_free(heading_for_programs(column.heading, cells), found)] = list(_alike(cells))
    if sheet.paths:
        found[_free("path", found)] = list(sheet.paths)
    return found


def _alike(cells: list[Cell]) -> Iterator[object]:
    """The cells of one column: numbers where each is one, or none; else texts, as polars takes no mixture."""
    plain = [_plain(cell) for cell in cells]
    numbers = all(one is None or isinstance(one, int | float) for one in plain)
    fractions = any(isinstance(one, float) for one in plain)
    for one in plain:
        if one is None or not numbers:
            yield None if one is None else str(one)
        else:
            assert isinstance(one, int | float)
            yield float(one) if fractions else one


def _plain(cell: Cell) -> int | float | str | None:
    match cell:
        case None | "":
            return None
        case bool():
            return str(cell)
        case int() | float():
            return cell
        case Share():
            return cell.fraction
        case Bytes() | InUnit():
            return int(cell.size)
        case Tokens():
            return int(cell.length)
        case Rounded() | Short():
            return cell.value
        case _:
            return for_programs(cell, Style())


def _free(heading: str, taken: dict[str, list[object]]) -> str:
    """The heading, with a number behind it where it is taken."""
    name, number = heading, 2
    while name in taken:
        name, number = f"{heading} {number}", number + 1
    return name
