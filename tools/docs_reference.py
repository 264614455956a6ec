"""The generated tables of docs/reference.md: ``<!-- reference TABLE -->`` to ``<!-- end -->``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tfcalc import catalog, hardware
from tfcalc.cli.commands import command
from tfcalc.cli.options import Option
from tfcalc.cli.other_names import TAKEN, Meaning
from tfcalc.configs import config
from tfcalc.configs.family import find
from tfcalc.number_formats import MULTIPLIED
from tfcalc.schemas import definition, schema
from tfcalc.schemas.keys import ListedKey, keys
from tfcalc.units import rounded

SHARED = ("model.", "conventions.", "components[].")
"""Keys that have a table of their own, as many answers have them."""
ELSEWHERE = {
    "compare": ("models[].model.",),
    "overview": ("model.",),
    "verify": ("model.", "conventions."),
}
"""The same for answers that have others of these names."""


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
    for name in config.model_types():
        yield _row(f"`{name}`", f"`{find(name).architecture}`")


def cards() -> Iterator[str]:
    """Every accelerator: dense peaks in TFLOP/s, and memory."""
    formats = MULTIPLIED
    yield _row("accelerator", "memory", "its driver reports", *formats, "sources")
    yield _row("---", "---", "---", *("---:" for _ in formats), "---")
    for card in hardware.accelerators():
        peaks = (rounded(card.peaks[name] / hardware.TERA, 4) if name in card.peaks else "" for name in formats)
        doubt = hardware.STATUS[card.status]
        sources = f"{doubt}: {card.sources}" if doubt else card.sources
        yield _row(f"`{card.name}`", card.memory, card.memory_reported, *peaks, sources)


def options(of: str) -> Iterator[str]:
    """The options of one command, in the order of its help."""
    yield from option_rows(command(of).options)


def option_rows(options: Iterable[Option]) -> Iterator[str]:
    """A row for each of these options."""
    yield "| option | value | meaning |"
    yield "| --- | --- | --- |"
    for one in options:
        yield _row(_flags(one), _value(one), one.help)


def _flags(option: Option) -> str:
    return option.name.upper() if option.argument else ", ".join(f"`{flag}`" for flag in option.flags)


def _value(option: Option) -> str:
    if option.known:
        return ", ".join(f"`{word}`" for word in option.known)
    if option.switch:
        return ""
    return "whole number" if option.number else "amount" if option.amount else "text"


FORMER = "tfcalc 0.1"
"""Whose names of options are still taken, and nobody is to learn."""


def others() -> Iterator[str]:
    """Flags of other programs, each with what it stands for here."""
    yield "| of | flag | stands for |"
    yield "| --- | --- | --- |"
    for program, flags in TAKEN.items():
        if program == FORMER:
            continue
        for flag, meaning in flags.items():
            yield _row(program, f"`{flag}`", _meaning(meaning))


def _meaning(meaning: Meaning) -> str:
    words = "; ".join(f"{theirs} is {ours}" for theirs, ours in meaning.words.items())
    found = " or ".join(f"`{_set(meaning, option)}`" for option in meaning.options)
    served = f", in serving and at rest `{_set(meaning, meaning.served)}`" if meaning.served else ""
    return found + served + (f" ({words})" if words else "")


def _set(meaning: Meaning, option: str) -> str:
    return f"{option} {meaning.value_of(option)}".rstrip()


def json_keys(of: str) -> Iterator[str]:
    """The keys of an answer's JSON, from its schema; of what many answers share, that it is there."""
    yield from _key_rows(key for key in keys(schema(of)) if not key.path.startswith(ELSEWHERE.get(of, SHARED)))


def shared_keys(of: str) -> Iterator[str]:
    """The keys of what many answers share: the model, the conventions, a component."""
    yield from _key_rows(keys(definition(of)), timed=of != "conventions")


def _key_rows(rows: Iterable[ListedKey], *, timed: bool = True) -> Iterator[str]:
    yield _row("key", "type", *(["when"] if timed else []), "meaning")
    yield _row(*["---"] * (4 if timed else 3))
    for key in rows:
        when = [", ".join(key.when)] if timed else []
        yield _row(f"`{key.path}`", " or ".join(key.types), *when, key.meaning)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


TABLES: dict[str, Callable[..., Iterator[str]]] = {
    "presets": presets,
    "model-types": model_types,
    "cards": cards,
    "options": options,
    "others": others,
    "json": json_keys,
    "json-shared": shared_keys,
}
