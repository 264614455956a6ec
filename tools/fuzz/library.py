"""The library's functions, with values of any kind."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from typing import Any

import tfcalc
from tfcalc.answers.params import params
from tools.fuzz.configs import PRESETS, TYPES, mutated
from tools.fuzz.findings import FOUND
from tools.fuzz.material import JUNK, TARGETS, number_near
from tools.fuzz.parsed import holds, parsed
from tools.fuzz.program import guarded


class Whole:
    """Something with __index__."""

    def __index__(self) -> int:
        return 8


Question = tuple[str, Any, Callable[[], Any]]
"""What is asked, of what, and the call."""

SIZES: list[Any] = [512, 8, 6, "512", b"8", object(), Whole(), Fraction(1, 2), 1 + 0j, 8.0, (8,), {8}, range(3)]
VALUES = [*JUNK, *SIZES, "x" * 5000]
KEYS: list[Any] = [7, None, ("a",), "x"]
OBJECTS: list[Any] = [object(), b"x", {1, 2}, (1, 2), 7]
NUMBERS: list[Any] = [1, 2, 512, 0, -1, 1.5, "x", None, 10**30]
PICTURE = r'img width="\d+" alt="[^"<>]*" src="data:image/svg\+xml;base64,[\w+/=]*">'
ELEMENT = re.compile(rf"<(?!/?(table|caption|tr|th|td|div|br)[ >]|{PICTURE})")


def library(draw: random.Random) -> None:
    """A report with fields of any kind; a config with anything in it; a formula at anything."""
    asked = draw.choice([_params, _flops, _training, _serving, _config, _formula])
    what, given, ask = asked(draw)
    FOUND.case += f" {what}"
    state, found = guarded(ask, f"library {what}")
    FOUND.exits[f"library {state}"] += 1
    if state == "crash":
        FOUND.bug("uncaught-library", f"{what}: {_last(found)}", (given, found))
    elif state == "hang":
        FOUND.bug("hang", f"library {what}", given)
    elif state == "ok" and asked is not _formula:
        _report(what, given, found)


def _report(what: str, given: Any, found: Any) -> None:
    """A report has an answer, and can be shown in every way."""
    if type(found.answer) is not int or found.answer <= 0:
        FOUND.bug("library-answer", f"{what}: {found.answer!r}", given)
    for method in ("to_json", "__str__", "_repr_html_"):
        state, text = guarded(getattr(found, method))
        if state == "crash":
            FOUND.bug("uncaught-library", f"{what}.{method}: {_last(text)}", (given, text))
        elif state == "ok" and method == "_repr_html_" and ELEMENT.search(text):
            FOUND.bug("html", "an element of the config's", (given, text[:300]))


def _last(trace: object) -> str:
    return str(trace).strip().splitlines()[-1]


def _chosen(draw: random.Random, described: type) -> dict[str, Any]:
    """Values of any kind for one or two fields."""
    names = draw.sample([item.name for item in fields(described)], draw.choice([1, 1, 2]))
    return {name: draw.choice(VALUES) if draw.random() < 0.6 else number_near(draw) for name in names}


def _model(draw: random.Random) -> Any:
    return tfcalc.load(draw.choice(PRESETS)) if draw.random() < 0.5 else tfcalc.Transformer()


def _params(draw: random.Random) -> Question:
    given = _chosen(draw, tfcalc.Transformer)
    return "params(Transformer)", given, lambda: tfcalc.params(tfcalc.Transformer(**given))


def _flops(draw: random.Random) -> Question:
    given, model = _chosen(draw, tfcalc.Workload), _model(draw)
    return "flops(Workload)", given, lambda: tfcalc.flops(model, tfcalc.Workload(**given))


def _training(draw: random.Random) -> Question:
    given, model, run = _chosen(draw, tfcalc.Training), _model(draw), tfcalc.Workload(phase="train")
    return "memory(Training)", given, lambda: tfcalc.memory(model, run, training=tfcalc.Training(**given))


def _serving(draw: random.Random) -> Question:
    given, model = _chosen(draw, tfcalc.Serving), _model(draw)
    return "memory(Serving)", given, lambda: tfcalc.memory(model, serving=tfcalc.Serving(**given))


def _config(draw: random.Random) -> Question:
    data: dict[Any, Any] = mutated(draw, draw.choice(TYPES))
    if draw.random() < 0.2:
        data[draw.choice(KEYS)] = draw.choice(OBJECTS)
    return "params(from_config)", data, lambda: tfcalc.params(tfcalc.from_config(data))


def _formula(draw: random.Random) -> Question:
    target, of = draw.choice(TARGETS), draw.choice(["params", "flops"])
    sizes = {draw.choice("hnlbafVdgT"): draw.choice(NUMBERS) for _ in range(2)}
    return "formula.at", (target, of, sizes), lambda: tfcalc.formula(target, of).at(**sizes)


def configs(draw: random.Random) -> None:
    """A config with anything in it, read alone: a model that has parameters and a printable name, or a refusal."""
    data = mutated(draw, draw.choice(TYPES))
    model = parsed("config", data, lambda: tfcalc.from_config(data), exits=(3,))
    if model is None:
        return
    count = parsed("parameters", data, lambda: params(model).total_params, exits=(3,))
    holds("a model has parameters", count is None or (type(count) is int and count > 0), data, count)
