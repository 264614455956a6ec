"""Pages: an answer, or those of a report, as a file that is opened in a browser, or as Markdown with its pictures."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

from tfcalc import __version__
from tfcalc.cli.output import PAGES, deliver, style_of, write_file
from tfcalc.cli.settings import FLAG
from tfcalc.errors import UsageError
from tfcalc.render.drawing import drawing
from tfcalc.render.page import page
from tfcalc.render.page_markdown import page_markdown
from tfcalc.render.picture import drawn
from tfcalc.report.chart import Divided
from tfcalc.report.declared import pictures_of
from tfcalc.report.number import Opened
from tfcalc.report.page import OpenedNumber, PageSection, WholePage
from tfcalc.report.sheet import Column, Sheet
from tfcalc.report.style import PICTURES, SVG

if TYPE_CHECKING:
    from tfcalc.cli.settings import Settings
    from tfcalc.report.answer import Answered
    from tfcalc.report.number import Openable

HTML, MARKDOWN = PAGES
Keys = tuple[str, ...]


def deliver_page(whole: WholePage, settings: Settings) -> None:
    """Write the page that the name of the file asks for, and beside one in Markdown its pictures."""
    target = str(settings.get("output"))
    settings.refuse(("format", "quiet"), f"with -o {target}", {})
    settings.refuse(("ascii",), f"with -o {target}", {})
    if target.endswith(HTML):
        deliver(page(whole, style_of(settings)), settings)
        return
    folder, name = os.path.split(target)
    said = page_markdown(whole, style_of(settings), name.removesuffix(MARKDOWN))
    for file, svg in said.files.items():
        write_file(os.path.join(folder, file), svg.encode())
    deliver(said.text, settings)


def deliver_answer(answer: Answered, settings: Settings) -> None:
    """Write one answer as a page: its pictures, its table, where each number in it comes from, and what it assumes.

    A file of a picture gets the first of these alone. Raises UsageError where there is none.
    """
    if str(settings.get("output")).endswith(PICTURES):
        _deliver_picture(answer, settings)
        return
    said, sheet = answer.to_dict(), answer.sheet()
    command = str(said.get("command", ""))
    asked = as_asked(command, settings)
    shown = set(sheet.numbers().values())
    section = PageSection(
        command,
        "Answer",
        "",
        asked,
        sheet,
        tuple(pictures_of(answer)),
        tuple(opened(command, cast("Openable", answer), shown)),
    )
    assumed = assumptions((section,))
    sections = (section, assumed) if assumed.sheet is not None and assumed.sheet.rows else (section,)
    name = getattr(answer, "subject", "") or asked
    deliver_page(WholePage(name, "", asked, __version__, sections, said), settings)


def _deliver_picture(answer: Answered, settings: Settings) -> None:
    target = str(settings.get("output"))
    ending = next(each for each in PICTURES if target.endswith(each))
    settings.refuse(("format", "quiet"), f"with -o {target}", {})
    picture = next(iter(pictures_of(answer)), None)
    if picture is None:
        raise UsageError(f"-o {target} draws a picture, and this answer has none", "-o FILE.html writes a page")
    if not isinstance(picture, Divided):
        deliver(drawing(picture, ending), settings)
    elif ending == SVG:
        deliver(drawn(picture, "picture", alone=True).svg.encode(), settings)
    else:
        raise UsageError(f"-o {target}: a whole that is divided is drawn as SVG alone", f"-o FILE{SVG}")


def as_asked(command: str, settings: Settings) -> str:
    """The command line that gives an answer, of what was typed: ``tfcalc compare gpt2 'gpt2 --layers 6' -o x.html``."""
    typed = [one for one in settings.given.values() if one.source == FLAG]
    arguments = [one.value for one in typed if one.called.isupper()]
    named = [str(word) for value in arguments for word in (value if isinstance(value, tuple) else (value,))]
    options = [
        one.words if isinstance(one.value, bool) or one.short else f"{one.called} {shlex.quote(str(one.value))}"
        for one in typed
        if one.called.startswith("-")
    ]
    return " ".join(("tfcalc", command, *map(shlex.quote, named), *dict.fromkeys(options)))


def opened(command: str, answer: Openable, keys: Iterable[Keys]) -> Iterator[OpenedNumber]:
    """The numbers of a command's answer at these keys, each with the sheet that says where it comes from."""
    found = Opened(answer)
    for each in keys:
        yield OpenedNumber(".".join((command, *each)), found.open(each).sheet())


def assumptions(sections: Iterable[PageSection]) -> PageSection:
    """Assumptions of these sections in full, and what they do not count."""
    rows: list[list[str | None]] = []
    for one in sections:
        if one.sheet is not None and one.sheet.columns:
            told = [*one.sheet.assumes, *one.sheet.assumptions]
            told += [f"not counted: {one.sheet.not_counted}"] * bool(one.sheet.not_counted)
            rows += [[one.title if not place else None, line] for place, line in enumerate(dict.fromkeys(told))]
    sheet = Sheet(
        title=f"{len(rows)} assumptions and definitions",
        columns=[Column("section", numeric=False), Column("what is assumed", numeric=False, folds=True)],
        rows=rows,
        quiet=None,
    )
    return PageSection("assumptions", "Assumptions", "What the answers above rest on, in full.", "", sheet)
