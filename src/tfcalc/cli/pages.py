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
from tfcalc.report.page import OpenedNumber, PageAnswer, PageSection, WholePage
from tfcalc.report.sheet import Column, Sheet
from tfcalc.report.style import PICTURES, SVG

if TYPE_CHECKING:
    from tfcalc.cli.settings import Given, Settings
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
    said = answer.to_dict()
    asked = as_asked(str(said.get("command", "")), settings)
    section = section_of(answer, asked)
    sections = tuple(filter(None, (section, assumptions((section,)))))
    name = getattr(answer, "subject", "") or asked
    deliver_page(WholePage(name, "", asked, __version__, sections, said), settings)


def section_of(answer: Answered, asked: str) -> PageSection:
    """The section with the answer that was ``asked`` for."""
    sheet, command = answer.sheet(), str(answer.to_dict().get("command", ""))
    told = tuple(opened(command, cast("Openable", answer), dict.fromkeys(sheet.numbers().values())))
    return PageSection(command, "Answer", "", (PageAnswer(asked, sheet, command, told),), tuple(pictures_of(answer)))


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
    options = [as_option(one) for one in typed if one.called.startswith("-")]
    return " ".join(("tfcalc", command, *map(shlex.quote, named), *dict.fromkeys(options)))


def as_option(given: Given) -> str:
    """An option as it was given, with its value as a shell reads it."""
    whole = isinstance(given.value, bool) or given.short
    return given.words if whole else f"{given.called} {shlex.quote(str(given.value))}"


def opened(path: str, answer: Openable, keys: Iterable[Keys]) -> Iterator[OpenedNumber]:
    """The numbers of the answer at this ``path`` by their keys, each with the sheet that says where it comes from."""
    found = Opened(answer)
    for each in keys:
        yield OpenedNumber(".".join((path, *each)), found.open(each).sheet())


def assumptions(sections: Iterable[PageSection]) -> PageSection | None:
    """Assumptions of these sections in full, and what they do not count; None where there are none."""
    rows: list[list[str | None]] = []
    for one in sections:
        told = dict.fromkeys(line for answer in one.answers for line in _assumed(answer.sheet))
        rows += [[one.title if not place else None, line] for place, line in enumerate(told)]
    sheet = Sheet(
        title=f"{len(rows)} assumptions and definitions",
        columns=[Column("section", numeric=False), Column("what is assumed", numeric=False, folds=True)],
        rows=rows,
        quiet=None,
    )
    said = PageAnswer("", sheet)
    return (
        PageSection("assumptions", "Assumptions", "What the answers above rest on, in full.", (said,)) if rows else None
    )


def _assumed(sheet: Sheet | None) -> Iterator[str]:
    if sheet is not None and sheet.columns:
        yield from (*sheet.assumes, *sheet.assumptions)
        if sheet.not_counted:
            yield f"not counted: {sheet.not_counted}"
