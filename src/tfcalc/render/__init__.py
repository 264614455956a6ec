"""Formats of answers: one module per format, from the same sheet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from tfcalc.printable import inert, printable

if TYPE_CHECKING:
    from tfcalc.report.chart import Picture
    from tfcalc.report.sheet import Sheet
    from tfcalc.report.style import Style


MODULES = {"csv": "as_csv", "html": "html", "latex": "latex", "markdown": "markdown", "plain": "plain"}
"""Of each format but tables its module."""
WITH_FORMULAS = ("csv", "latex")
"""Formats that have the formulas anyway."""


def rendered(sheet: Sheet, form: str, style: Style) -> str:
    """The sheet as text in this format: ``csv``, ``html``, ``latex``, ``markdown``, ``plain``, or else a table.

    What a config or a file is the author of cannot move a cursor or break a line, as every text of the sheet is made
    printable here; nor is any line a command to a CI system.
    """
    if not (sheet.columns or form in ("csv", "html")):
        return inert(style.text(_renderer("line")(cast("Sheet", shown(sheet)), style)))
    sheet = sheet.as_asked(style._replace(formulas=style.formulas or form in WITH_FORMULAS)).bare()
    if form == "csv" and not sheet.columns:
        render = _renderer("line", "render_field")
    else:
        render = _renderer(MODULES.get(form, "table"))
    return inert(style.text(render(cast("Sheet", shown(sheet)), style)))


def in_notebook(sheet: Sheet, pictures: Sequence[Picture], style: Style) -> str:
    """HTML for a notebook: the pictures as images, which no style of it changes, above the table."""
    drawn = [
        _renderer("picture", "image")(cast("Picture", shown(each)), f"picture-{place}")
        for place, each in enumerate(pictures)
    ]
    return "".join([*drawn, rendered(sheet, "html", style)])


def framed(sheet: Sheet, library: str = "") -> Any:
    """The rows of the sheet as a frame of pandas or polars, with its formulas and all that is opened for programs."""
    return _renderer("as_frame", "frame")(sheet, library)


def _renderer(module: str, name: str = "render") -> Callable[..., Any]:
    """Return the function that renders a format; its module is imported when it is asked for."""
    found: Callable[..., Any] = getattr(import_module(f"tfcalc.render.{module}"), name)
    return found


def shown(value: object) -> object:
    """Return the value with every text in it printable, at any depth."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {shown(key): shown(inner) for key, inner in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        same: Callable[..., object] = type(value)
        return same(*map(shown, value))
    return [shown(inner) for inner in value] if isinstance(value, list | tuple) else value
