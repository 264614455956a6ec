"""Curves in a file: a Vega-Lite specification, which is plain JSON, or the same as SVG or PNG."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tfcalc.errors import Unavailable
from tfcalc.render.chart import ticks

if TYPE_CHECKING:
    from tfcalc.report.chart import Chart

VEGA, SVG, PNG = ".vl.json", ".svg", ".png"
ENDINGS = (VEGA, SVG, PNG)
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
VERSION = "5.21"
WIDTH, HEIGHT = 640, 400
SIZES = {"iec": ("GiB", 2**30), "si": ("GB", 10**9)}
"""Unit of an axis of bytes, and how many it is."""


def drawing(chart: Chart, ending: str) -> bytes:
    """The chart as a file that ends so. Raises Unavailable for SVG and PNG without vl-convert."""
    text = json.dumps(specification(chart), indent=2, ensure_ascii=False)
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
        {
            "data": {"values": rows},
            **scaled,
            "mark": {"type": "line", "point": True},
            "encoding": {**axes, **({"color": color} if len(labels) > 1 else {})},
        }
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


def _lengths(chart: Chart) -> dict[str, object]:
    """The ticks of an axis of lengths, and their labels: ``8k`` of 8,192, as lengths are typed."""
    xs, _ = chart.numbers
    places = [round(each) for each in ticks(xs, by_factors=chart.logarithmic[0], doubles=True)]
    return {"values": places, "labelExpr": "datum.value % 1024 == 0 ? datum.value / 1024 + 'k' : datum.value"}


def _axis(title: str, field: str, by_factors: bool, axis: dict[str, object]) -> dict[str, object]:
    scale = {"type": "log", "nice": False} if by_factors else {"zero": field == "y"}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}
