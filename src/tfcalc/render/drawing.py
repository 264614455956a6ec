"""Curves in a file: a Vega-Lite specification, which is plain JSON, or the same as SVG or PNG."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tfcalc.errors import Unavailable
from tfcalc.render.chart import ticks
from tfcalc.report.chart import Bars
from tfcalc.report.style import SVG, VEGA

if TYPE_CHECKING:
    from tfcalc.report.chart import Chart, Curve

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
VERSION = "5.21"
WIDTH, HEIGHT = 640, 400
SIZES = {"iec": ("GiB", 2**30), "si": ("GB", 10**9)}
"""Unit of an axis of bytes, and how many it is."""


def drawing(chart: Chart | Bars, ending: str) -> bytes:
    """The chart as a file that ends so. Raises Unavailable for SVG and PNG without vl-convert."""
    specified = stacked(chart) if isinstance(chart, Bars) else specification(chart)
    text = json.dumps(specified, indent=2, ensure_ascii=False)
    if ending == VEGA:
        return (text + "\n").encode()
    try:
        import vl_convert
    except ImportError:
        hint = f"pip install 'tfcalc[plot]', or give -o FILE{VEGA}"
        raise Unavailable("vl-convert-python is not installed", hint) from None
    if ending == SVG:
        return str(vl_convert.vegalite_to_svg(text, vl_version=VERSION)).encode()
    return bytes(vl_convert.vegalite_to_png(text, vl_version=VERSION, scale=2))


def specification(chart: Chart) -> dict[str, object]:
    """The chart in the words of Vega-Lite: exact numbers, a line for each curve, a point for each mark."""
    by_factors = chart.logarithmic
    axes = {
        "x": _axis(chart.x, "x", by_factors[0], _lengths(chart) if chart.length else {"format": "~s"}),
        "y": _axis(chart.y, "y", by_factors[1], {"format": "%" if chart.unit == "share" else "~s"}),
    }
    scaled: dict[str, object] = {}
    if chart.unit == "bytes":
        unit, size = SIZES[chart.units]
        axes["y"] |= {"field": unit, "title": f"{chart.y}, {unit}", "axis": {"format": "~r"}}
        scaled = {"transform": [{"calculate": f"datum.y / {size}", "as": unit}]}
    labels = [curve.label for curve in chart.curves]
    color = {"field": "curve", "type": "nominal", "title": None, "sort": labels}
    rows = [{"curve": curve.label, "x": x, "y": y} for curve in chart.curves for x, y in curve.points]
    layers: list[dict[str, object]] = [
        *(_band(curve, axes, scaled) for curve in chart.curves if curve.band),
        {
            "data": {"values": rows},
            **scaled,
            "mark": {"type": "line", "point": True},
            "encoding": {**axes, **({"color": color} if len(labels) > 1 else {})},
        },
    ]
    if chart.marks:
        marked = [{"x": mark.x, "y": mark.y, "label": mark.label} for mark in chart.marks]
        layers += [
            {"data": {"values": marked}, **scaled, "mark": {"type": kind, **look}, "encoding": {**axes, **more}}
            for kind, look, more in (
                ("point", {"shape": "cross", "size": 120, "color": "black"}, {}),
                ("text", {"align": "left", "dx": 8, "dy": -8}, {"text": {"field": "label", "type": "nominal"}}),
            )
        ]
    return {"$schema": SCHEMA, "title": chart.title, "width": WIDTH, "height": HEIGHT, "layer": layers}


def _band(curve: Curve, axes: dict[str, dict[str, object]], scaled: dict[str, object]) -> dict[str, object]:
    """The area between the lowest and the highest that an estimate may be."""
    rows = [{"x": x, "y": low, "high": high} for (x, _), (low, high) in zip(curve.points, curve.band, strict=True)]
    return {
        "data": {"values": rows},
        **scaled,
        "mark": {"type": "area", "opacity": 0.2},
        "encoding": {**axes, "y2": {"field": "high"}},
    }


def stacked(bars: Bars) -> dict[str, object]:
    """Bars in the words of Vega-Lite, the parts of each side by side."""
    unit, size = SIZES[bars.units] if bars.unit == "bytes" else (bars.unit, 1)
    rows = [
        {"row": row, "part": part, "place": place, "size": amount}
        for row, sizes in bars.rows
        for place, (part, amount) in enumerate(zip(bars.parts, sizes, strict=True))
    ]
    y = {"field": "row", "type": "nominal", "title": None, "sort": [row for row, _ in bars.rows]}
    x = {"field": unit, "type": "quantitative", "axis": {"format": "~r"}}
    drawn: dict[str, object] = {
        "data": {"values": rows},
        "transform": [{"calculate": f"datum.size / {size}", "as": unit}],
        "mark": "bar",
        "encoding": {
            "y": y,
            "x": x,
            "color": {"field": "part", "type": "nominal", "title": None, "sort": list(bars.parts)},
            "order": {"field": "place"},
        },
    }
    head = {"$schema": SCHEMA, "title": bars.title, "width": WIDTH}
    if not bars.bands:
        return head | drawn
    ends = [
        {"row": row, unit: low / size, "high": high / size}
        for (row, _), (low, high) in zip(bars.rows, bars.bands, strict=True)
    ]
    band = {
        "data": {"values": ends},
        "mark": {"type": "rule", "strokeWidth": 2},
        "encoding": {"y": y, "x": x, "x2": {"field": "high"}},
    }
    return head | {"layer": [drawn, band]}


def _lengths(chart: Chart) -> dict[str, object]:
    """The ticks of an axis of lengths, and their labels: ``8k`` of 8,192, as lengths are typed."""
    xs, _ = chart.numbers
    places = [round(each) for each in ticks(xs, by_factors=chart.logarithmic[0], doubles=True)]
    return {"values": places, "labelExpr": "datum.value % 1024 == 0 ? datum.value / 1024 + 'k' : datum.value"}


def _axis(title: str, field: str, by_factors: bool, axis: dict[str, object]) -> dict[str, object]:
    scale = {"type": "log", "nice": False} if by_factors else {"zero": field == "y"}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}
