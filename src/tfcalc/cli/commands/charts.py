"""Charts, for the commands whose answers have one: in the terminal, or in a file by its ending."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfcalc.cli.options import Option
from tfcalc.cli.output import PAGES, deliver, style_of
from tfcalc.errors import UsageError
from tfcalc.render.chart import render
from tfcalc.render.drawing import drawing
from tfcalc.report.style import PICTURES

if TYPE_CHECKING:
    from tfcalc.cli.settings import Settings
    from tfcalc.report.chart import Bars, Chart

CHART = Option(
    "chart", ("--chart",), "a chart in the terminal; -o FILE.svg, .png or .vl.json draws one", switch=True, front=True
)


def drawn_in_file(settings: Settings) -> str:
    """The ending of the file that was asked for, if it is that of a picture; else nothing."""
    target = str(settings.get("output", ""))
    return next((each for each in PICTURES if target.endswith(each)), "")


def deliver_file(chart: Callable[[], Chart | Bars], settings: Settings) -> bool:
    """Write the chart where a file of one is asked for; whether it was."""
    ending = drawn_in_file(settings)
    if not ending:
        return False
    settings.refuse(("format", "quiet", "chart"), f"with -o {settings.get('output')}", {})
    deliver(drawing(chart(), ending), settings)
    return True


def deliver_chart(chart: Callable[[], Chart], settings: Settings, *, always: bool = False) -> bool:
    """Write the chart where one is asked for; whether it was."""
    if deliver_file(chart, settings):
        return True
    on_page = str(settings.get("output", "")).endswith(PAGES)
    if not (settings.get("chart") or always) or (on_page and not settings.get("chart")):
        return False
    if settings.get("format", "table") != "table" or settings.get("quiet"):
        raise UsageError("--chart is for a terminal, or a text file", "leave --format and -q out, or --chart")
    deliver(render(chart(), style_of(settings)), settings)
    return True
