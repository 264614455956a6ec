"""The generated tables of docs/reference.md: ``<!-- reference TABLE -->`` to ``<!-- end -->``."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.budgets.sample import sample
from tfcalc import catalog, hardware
from tfcalc.cli.commands import command
from tfcalc.cli.main import main as program
from tfcalc.cli.options import Option
from tfcalc.configs import declared
from tfcalc.configs.family import find
from tfcalc.number_formats import MULTIPLIED

LONGEST = 60
"""Characters of an example value."""

OPEN = ("model", "config", "defaults", "changed")
"""Keys of JSON whose own keys are the fields of the model that was asked about."""


def presets() -> Iterator[str]:
    """Every model that can be named."""
    yield "| model | `model_type` | parameters | longest sequence | source |"
    yield "| --- | --- | ---: | ---: | --- |"
    for name, one in catalog.index().items():
        longest = f"{one.context:,}" if one.context else ""
        yield _row(f"`{name}`", f"`{one.family}`", f"{one.total_params:,}", longest, catalog.preset(name).source)


def model_types() -> Iterator[str]:
    """Every ``model_type`` of a config.json that is counted."""
    yield "| `model_type` | class, where a config names none |"
    yield "| --- | --- |"
    for name in declared.model_types():
        yield _row(f"`{name}`", f"`{find(name).architecture}`")


def cards() -> Iterator[str]:
    """Every accelerator: dense peaks in TFLOP/s, and memory."""
    formats = MULTIPLIED
    yield _row("accelerator", "memory", "its driver reports", *formats, "sources")
    yield _row("---", "---", "---", *("---:" for _ in formats), "---")
    for card in hardware.accelerators():
        peaks = (f"{card.peaks[name] / hardware.TERA:,.4g}" if name in card.peaks else "" for name in formats)
        doubt = hardware.STATUS[card.status]
        sources = f"{doubt}: {card.sources}" if doubt else card.sources
        yield _row(f"`{card.name}`", card.memory, card.memory_reported, *peaks, sources)


def options(of: str) -> Iterator[str]:
    """The options of one command, in the order of its help."""
    yield "| option | value | meaning |"
    yield "| --- | --- | --- |"
    for one in command(of).options:
        yield _row(_flags(one), _value(one), one.help)


def _flags(option: Option) -> str:
    return option.name.upper() if option.argument else ", ".join(f"`{flag}`" for flag in option.flags)


def _value(option: Option) -> str:
    if option.known:
        return ", ".join(f"`{word}`" for word in option.known)
    if option.switch:
        return ""
    return "whole number" if option.number else "amount" if option.amount else "text"


def json_keys(of: str) -> Iterator[str]:
    """The keys of a command's ``--json``, as the examples of its help print them, each with the first value seen."""
    yield "| key | of type | for example |"
    yield "| --- | --- | --- |"
    found: dict[str, Any] = {}
    with _project() if of == "budget" else contextlib.nullcontext():
        answers = [_answer(line) for line in command(of).examples]
    for answer in answers:
        for key, value in _keys(answer or {}):
            found.setdefault(key, value)
    for key, value in found.items():
        example = json.dumps(value, ensure_ascii=False)
        shown = f"`{example}`" if len(example) <= LONGEST else ""
        yield _row(f"`{key}`", _type(value), shown)


@contextlib.contextmanager
def _project() -> Iterator[None]:
    """In a repository with budgets, and with recorded values."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        sample(Path(folder))
        _answer("tfcalc budget --update")
        yield


def _answer(line: str) -> dict[str, Any] | None:
    """What an example prints as JSON, or nothing where its answer has another form."""
    _, *arguments = shlex.split(line)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        program([word for word in arguments if word != "-q"] + ["--json"])
    try:
        answer = json.loads(out.getvalue())
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _keys(value: dict[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """Every key with its value, and after it those of an object or of a list's objects, unless they are alike."""
    for name, inner in value.items():
        key = f"{within}{name}"
        yield key, inner
        if name in OPEN:
            continue
        if isinstance(inner, dict):
            yield from _keys(inner, f"{key}.")
        elif isinstance(inner, list):
            for item in inner:
                if isinstance(item, dict) and item.keys() != value.keys():
                    yield from _keys(item, f"{key}[].")


def _type(value: Any) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "boolean", int: "integer", float: "number"}
    return names.get(type(value), "null")


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


TABLES: dict[str, Callable[..., Iterator[str]]] = {
    "presets": presets,
    "model-types": model_types,
    "cards": cards,
    "options": options,
    "json": json_keys,
}
