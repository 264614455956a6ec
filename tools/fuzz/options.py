"""Options read one by one: from the command line, from a variable and from a settings file alike."""

from __future__ import annotations

import json
import os
import random
from functools import cache
from typing import Any

from tfcalc.cli.commands import every
from tfcalc.cli.commands.formula import letters_of, numbers_of
from tfcalc.cli.options import Option
from tfcalc.cli.settings import settle
from tfcalc.errors import is_one_of
from tools.fuzz.material import NUMBERS, TEXTS, WORDS
from tools.fuzz.mutations import edited
from tools.fuzz.numbers import TEXTS as WRITTEN
from tools.fuzz.parsed import holds, parsed
from tools.fuzz.program import WORK
from tools.fuzz.questions import option_value

RAW: list[object] = [0, -1, 1, 512, 10**12, 10**12 + 1, 10**400, 1.5, True, False, None, [], [1], {}, {"a": 1}]


@cache
def _all() -> tuple[Option, ...]:
    """Every option of every command, once."""
    found = {(option.name, option.flags): option for option in every()}
    return tuple(option for option in found.values() if not option.several)


def options(draw: random.Random) -> None:
    """One value for one option, from each place that it may come from."""
    option = draw.choice(_all())
    text = option_value(draw, option, 0.3)
    if draw.random() < 0.4:
        text = edited(draw, text, (*WRITTEN, *WORDS[:60]))
    flagged = parsed("option", (option.name, text), lambda: _value(option, {option.name: text}, {}))
    if flagged is not None:
        _fits(option, text, flagged)
    kind = draw.random()
    if not option.flags or kind > 0.3:
        return
    if kind < 0.15:
        variable = f"TFCALC_{draw.choice(option.keys).upper()}"
        if text and "\x00" not in text:
            found = parsed("variable", (variable, text), lambda: _value(option, {}, {variable: text}))
            expected = flagged if option.variable else None
            holds("a variable is read as the option", found == expected, variable, text, found, flagged)
        return
    value = text if kind < 0.25 else draw.choice(RAW)
    found = parsed("filed", (option.name, value), lambda: _from_file(draw, option, value), exits=(3,))
    if value is text and any("\ud800" <= mark <= "\udfff" for mark in text):
        return  # TOML has no halves of characters
    if option.typed:
        holds("a file does not set what is only typed", found is None, option.name, value, found)
    elif value is text:
        holds("a file is read as the option", found == flagged, option.name, text, found, flagged)
    elif found is not None:
        _fits(option, value, found)


def _value(option: Option, flags: dict[str, object], variables: dict[str, str]) -> Any:
    return settle([option], flags, variables).get(option.name)


def _from_file(draw: random.Random, option: Option, value: object) -> Any:
    """The value as a settings file gives it, whose key may have dashes."""
    folder = WORK / "settings" / "one"
    folder.mkdir(parents=True, exist_ok=True)
    key = draw.choice(option.keys)
    key = key.replace("_", "-") if draw.random() < 0.3 else key
    written = "''" if value is None else "{a = 1}" if value == {"a": 1} else json.dumps(value)
    path = folder / "tfcalc.toml"
    path.write_text(f"{key} = {_in_toml(written)}\n", encoding="utf-8", errors="surrogatepass")
    here = os.getcwd()
    os.chdir(folder)
    try:
        return _value(option, {}, {})
    finally:
        os.chdir(here)
        path.unlink()


def _in_toml(written: str) -> str:
    """What JSON writes in two halves, as TOML has it; and what only JSON leaves as it is."""
    whole = json.dumps(json.loads(written), ensure_ascii=False) if written.startswith('"') else written
    return whole.replace("\x7f", "\\u007F")


def _fits(option: Option, text: object, value: object) -> None:
    """What was read is what the option holds."""
    if option.switch:
        fits = type(value) is bool
    elif option.number:
        values = value if option.spreads and isinstance(value, tuple | range) else (value,)
        fits = all(type(each) is int and option.least <= each <= option.most for each in values)
    elif option.amount:
        fits = isinstance(value, int | float) and 0 < value <= 1e30
    elif option.known:
        fits = isinstance(value, str) and is_one_of(value, option.known)
    else:
        fits = isinstance(value, str)
    holds("an option holds what it says", fits, option.name, text, value)


def substitutes(draw: random.Random) -> None:
    """Numbers for letters: h=512,n=6; or other letters: h=d,l=n."""
    if draw.random() < 0.2:
        text = edited(draw, draw.choice(("h=d,l=n", "h = d", "d_model=x", "h=d,h=e")), TEXTS["substitute"])
        letters = parsed("letters", text, lambda: letters_of(text))
        holds(
            "each size has one letter", letters is None or len(letters) == len(text and text.split(",")), text, letters
        )
        return
    pairs = [f"{draw.choice(('h', 'n', 'd_model', 'V', 'n_layers'))}={draw.choice((*NUMBERS[:40], '512', '1k'))}"]
    text = ",".join(pairs * draw.choice((1, 1, 2))) if draw.random() < 0.5 else draw.choice(TEXTS["substitute"])
    text = edited(draw, text, TEXTS["substitute"]) if draw.random() < 0.7 else text
    found = parsed("substitute", text, lambda: numbers_of(text))
    for name, value in (found or {}).items():
        holds("a letter has a whole number", bool(name.strip()) and type(value) is int, text, name, value)
    if found is not None:
        holds("each letter has one number", len(found) == len(text and text.split(",")), text, found)
