"""The program asked by a page: words go in, and what is shown comes out. The answer is the program's own."""

from __future__ import annotations

import gc
import io
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcalc import __version__
from tfcalc.cli.app import LINE, taken_by
from tfcalc.cli.commands import OVERVIEW
from tfcalc.cli.main import main
from tfcalc.configs.published import SAME_AS
from tfcalc.errors import TfcalcError
from tfcalc.named_tuple import NamedTuple
from tfcalc.page import forms, links, shown
from tfcalc.report.declared import pictures_of
from tfcalc.report.number import entries_of
from tfcalc.report.sheet import FIRST, at_sight, next_sight
from tfcalc.report.style import Style
from tfcalc.training.peaks import peaks_shared

if TYPE_CHECKING:
    from tfcalc.cli.settings import Settings
    from tfcalc.model import Model
    from tfcalc.report.answer import Answered
    from tfcalc.report.sheet import Sheet
    from tfcalc.training.peaks import Peaks

KEPT = 64
"""Answers that are kept, so that who goes back sees them at once."""
SELDOM = 1_000_000
"""Objects that are made before garbage is looked for: more than an answer makes. It is looked for after it."""
_ANSWERS: dict[tuple[str, ...], dict[str, Any]] = {}
_SAID: dict[tuple[str, ...], forms.Remembered] = {}
"""Options that were said last, by the model, for who comes to a question from one that cannot say them."""
_STEPS: dict[Model, Peaks] = {}
"""Steps that ran for the answer at first sight, for the whole one."""


class AnswerTaken(NamedTuple):
    """An answer that was not written, and its sheet."""

    answer: Answered
    settings: Settings
    sheet: Sheet


class Run(NamedTuple):
    """Outcome of a run of the program: its ``code``, what it wrote, and the answer, where that was not written.

    The ``line`` is what the words were read as.
    """

    code: int
    text: str
    told: str
    drawn: AnswerTaken | None
    line: tuple[str, ...]


def run(words: Sequence[str]) -> Run:
    """Run the program with these words, and keep its answer where it would be printed as a table."""
    kept: list[AnswerTaken] = []

    def keep(answer: Answered, settings: Settings) -> bool:
        written = settings.get("quiet") or settings.get("output") or settings.get("latex") or settings.get("sympy")
        if written or settings.get("format", "table") != "table":
            return False
        kept.append(AnswerTaken(answer, settings, answer.sheet()))  # here, as some questions are refused no earlier
        return True

    with _streams() as (out, err), taken_by(keep):
        code = main(list(words))
    return Run(code, out.getvalue(), err.getvalue(), kept[0] if kept else None, LINE.get())


@contextmanager
def _streams() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    before, out, err = (sys.stdout, sys.stderr), io.StringIO(), io.StringIO()
    sys.stdout, sys.stderr = out, err
    try:
        yield out, err
    finally:
        sys.stdout, sys.stderr = before


def ask(link: str) -> str:
    """Answer a link, in JSON: what the page shows of it.

    ``exit`` is the program's code, ``told`` what it said on the standard error, ``html`` the answer (``text`` where it
    is one), ``waits`` the sight that has more of it, or 0; ``words``, ``command`` and ``link`` are the question,
    ``tabs`` and ``form`` what may be asked instead.
    """
    try:
        config = links.config_of(link)
    except TfcalcError as error:
        return _refused(error.exit_code, f"tfcalc: {error}")
    if config is not None:
        paste(config)
    return asked(links.words_of(link))


def _refused(code: int, told: str) -> str:
    """Return why no question came of it, as :func:`ask` does."""
    return json.dumps({"exit": code, "told": told, "html": "", "text": "", "waits": 0})


def sight(number: int, name: str, *arguments: str | bool) -> str:
    """Answer as the function of this name does, without what is left to a later sight, which ``waits`` says."""
    answer: Callable[..., str] = globals()[name]
    if number == FIRST:
        _STEPS.clear()
    with at_sight(number):
        return answer(*arguments)


def tidy() -> None:
    """Forget what no answer on the screen needs, while nobody waits for one."""
    _STEPS.clear()
    gc.collect()


def changed(words: str, name: str, value: str | bool, *further: str | bool) -> str:
    """Answer the words (a list in JSON) with one option, the model or the part changed; as :func:`ask`.

    ``further`` changes are made after it: again a name and a value each.
    """
    after: Sequence[str] = json.loads(words)
    given = (name, value, *further)
    for option, to in zip(given[::2], given[1::2], strict=True):
        after = _with_change(after, str(option), to)
    return asked(after)


def _with_change(words: Sequence[str], name: str, value: str | bool) -> Sequence[str]:
    before = links.parts(links.in_full(words))
    arguments = [option.name for option in links.options_of(before.words) if option.argument]
    if name == "model" and name not in arguments:  # of words that are no question about one model
        return links.parts([OVERVIEW, str(value)]).words
    if name in arguments:
        return forms.with_argument(before, name, str(value)).words
    said = _said(before)
    said.add(before)
    return forms.with_change(before, name, value, said).words


def _said(question: links.Asked) -> forms.Remembered:
    """The options that were said last of the model of a question, however its name is written."""
    name = tuple(map(str.lower, forms.model_of(question)))
    return _SAID.setdefault(name, forms.Remembered())


def typed(line: str) -> str:
    """Answer a command line as it is typed, with or without the name of the program; as :func:`ask`."""
    try:
        words = shlex.split(line)
    except ValueError:  # of a quotation mark that is left open
        words = line.split()
    return asked(words[1:] if words[:1] == ["tfcalc"] else words)


def pasted(text: str, words: str) -> str:
    """Answer the words (a list in JSON) about a config that was pasted; as :func:`ask`.

    Of a config that is refused itself, whatever is asked of it, there are no ``words``: the one before stays.
    """
    before = Path(links.PASTED).read_bytes() if os.path.isfile(links.PASTED) else None
    paste(text.encode("utf-8", "surrogatepass"))  # what no text can be is refused where it is read
    found = run(["params", links.PASTED])
    if found.code <= 1:
        return asked(_about_pasted(json.loads(words)))
    if before is None:
        Path(links.PASTED).unlink()
    else:
        paste(before)
    return _refused(found.code, found.told.rstrip("\n"))


def _about_pasted(words: Sequence[str]) -> list[str]:
    """The words with the pasted config in the place of the model, and without sizes that were changed of that."""
    before = links.parts(links.in_full(words))
    place = "model" if any(option.name == "model" for option in links.options_of(before.words)) else ""
    after = forms.with_argument(before, "model", links.PASTED).words if place else ["overview", links.PASTED]
    sizes = {option.name for option in links.options_of(after) if option.group == "model"}
    kept = tuple(one for one in links.parts(after).typed if one.option is None or one.option.name not in sizes)
    return links.parts(after)._replace(typed=kept).words


def paste(config: bytes) -> None:
    """Write the config that the page asks about to where the program reads it."""
    Path(links.PASTED).write_bytes(config)
    _ANSWERS.clear()


def written(words: str, form: str) -> str:
    """Return what the program prints for these words (a list in JSON) in this format, or why it does not; as JSON."""
    found = run([*json.loads(words), "--format", form])
    return json.dumps({"exit": found.code, "text": found.text, "told": found.told})


def asked(words: Sequence[str]) -> str:
    """Answer the words of a command line; as :func:`ask`."""
    key = tuple(words)
    if key not in _ANSWERS:
        while len(_ANSWERS) >= KEPT:
            del _ANSWERS[next(iter(_ANSWERS))]
        with peaks_shared(_STEPS):
            found = _answered(list(words))
        if found["waits"]:
            return _with_tabs(found)
        _ANSWERS[key] = found
    return _with_tabs(_ANSWERS[key])


def _with_tabs(found: dict[str, Any]) -> str:
    """The answer, in JSON, with the questions that may be asked instead, with what was said last of this model."""
    words = found["words"]
    question = links.parts(links.in_full(words))
    said = _said(question)
    if found["exit"] <= 1:
        said.add(question)
    return json.dumps({**found, "tabs": forms.tabs(words, said)})


def _answered(words: list[str]) -> dict[str, Any]:
    found = run(words)
    html, known = "", dict[str, Any]()
    if found.drawn is not None:
        if links.in_full(words) != list(found.line):  # of a question in words, or of a model with a card behind it
            words = list(found.line)
        html, known = _in_html(found.drawn, words)
    return {
        "exit": found.code,
        "told": found.told.rstrip("\n"),
        "html": html,
        "text": found.text if found.drawn is None else "",
        "waits": next_sight(),
        "words": words,
        "command": shlex.join(["tfcalc", *words]),
        "link": links.link_of(words, _config(words)),
        "model": forms.name_of_model(words),
        "form": forms.form(words, known),
        "shape": forms.shape(words),
    }


def _in_html(drawn: AnswerTaken, words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The answer to these words, and what it was made with."""
    answer, settings, sheet = drawn
    style = Style(
        notation=settings.get("notation", "lbhn"),
        units=settings.get("units", "iec"),
        formulas=settings.get("formulas", False),
        assumptions=settings.get("assumptions", False),
        letters=sheet.letters,
    )
    said = entries_of(answer)  # few of them are read: a simulated allocator is not run for the others
    known = in_effect(said, getattr(answer, "definitions", {}))
    return shown.answer(sheet, style, words, said, pictures_of(answer)), known


def _config(words: Sequence[str]) -> bytes | None:
    return Path(links.PASTED).read_bytes() if forms.is_pasted(words) and os.path.isfile(links.PASTED) else None


SAID_IN = ("conventions", "traffic", "deployment")
"""Keys of answers with the values that they were made with."""
CALLED_IN: Mapping[str, str] = {"recomputation": "recompute", "tp": "tensor_parallel"}
"""What options are called there, where it is another word."""


def in_effect(said: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The values that an answer was made with, by the options' names: as it says them, and by its ``definitions``."""
    model, known = said.get("model"), dict[str, Any]()
    if isinstance(model, Mapping):
        for key in ("defaults", "config", "changed"):
            known |= model.get(key, {})
        known |= {key: value for key, value in model.items() if isinstance(value, int)}
        known |= {name: known[field] for name in forms.SHAPE for field in SAME_AS[name] if known.get(field)}
    for values in (definitions, *map(said.get, SAID_IN)):
        if isinstance(values, Mapping):
            known |= {CALLED_IN.get(str(called), str(called)): value for called, value in values.items()}
    names = _names()
    return {names[key]: value for key, value in known.items() if key in names and isinstance(value, int | float | str)}


@cache
def _names() -> Mapping[str, str]:
    """Names of the options of all questions, by the keys of answers that they set."""
    return {key: option.name for tab in forms.TABS for option in links.options_of([tab.command]) for key in option.keys}


def begin() -> str:
    """Return what the page needs before its first question, in JSON: the version, and the words that it offers."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # a page reaches nothing
    gc.freeze()  # what is loaded stays; looking through it for garbage took a tenth of an answer's time
    gc.set_threshold(SELDOM)
    return json.dumps({"version": __version__, "offers": forms.offers()})
