"""An answer as HTML for the page: the verdict first, its table, the lines below; what can be opened is a link."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import cast

from tfcalc.cli.commands import COMMANDS
from tfcalc.page.forms import along
from tfcalc.page.links import Asked, in_full, link_of, link_to, parts, with_options
from tfcalc.printable import printable
from tfcalc.render import shown as printed
from tfcalc.render.picture import figure
from tfcalc.report.chart import Picture
from tfcalc.report.sheet import TITLE, At, Cell, Column, Share, Sheet, for_people
from tfcalc.report.style import Style

PATH = re.compile(r"[a-z]+\.[^ ].*")
"""A number by its path, as a derivation names its terms."""


def answer(
    sheet: Sheet,
    style: Style,
    words: Sequence[str],
    said: Mapping[str, object],
    pictures: Sequence[Picture] = (),
) -> str:
    """The answer to these words, whose JSON is ``said``."""
    sheet = sheet.as_asked(style)
    opens = sheet.numbers() if said.get("command") != "explain" else {}
    sheet = sheet.bare()
    title, asked = _text(sheet.title), parts(in_full(words))
    if TITLE in opens:
        title = _link(explaining(asked, opens[TITLE]), title, "opens")
    head = f'<header><h2 class="verdict">{title}</h2>'
    head += f'<p class="subtitle">{_text(sheet.subtitle)}</p></header>' if sheet.subtitle else "</header>"
    drawn = "".join(_figure(picture, place, asked) for place, picture in enumerate(pictures))
    return head + drawn + _table(sheet, style, asked, said, opens) + "".join(_below(sheet, style, asked))


def _figure(picture: Picture, place: int, asked: Asked) -> str:
    """The picture, of whose parts a click opens the numbers."""

    def link(path: str) -> str:
        return explaining(asked, path.split(".")[1:])

    return figure(cast("Picture", printed(picture)), f"picture-{place}", link)


def explaining(asked: Asked, keys: Sequence[str]) -> str:
    """The link that opens a number of the answer to this: ``explain/memory.peak_bytes/llama-3-8b?train``."""
    return link_to(Asked("explain", (".".join((asked.first, *keys)), *asked.named), asked.typed))


def _text(text: str) -> str:
    return escape(printable(text))


def _link(link: str, text: str, kind: str) -> str:
    return f'<a class="{kind}" href="#{escape(link)}">{text}</a>'


def _table(
    sheet: Sheet,
    style: Style,
    asked: Asked,
    said: Mapping[str, object],
    opens: Mapping[At, Sequence[str]],
) -> str:
    if not sheet.columns:
        return ""
    heading = "".join(
        f'<th scope="col"{_side(column)}>{_text(column.heading)}</th>'
        if column.heading
        else f"<td{_side(column)}></td>"
        for column in sheet.columns
    )
    rows = []
    for index, row in enumerate(sheet.rows):
        cells = []
        for place, (cell, column) in enumerate(zip(row, sheet.columns, strict=True)):
            shown = _text(for_people(cell, style))
            if isinstance(cell, str) and PATH.fullmatch(cell):
                shown = shown.replace(".", ".<wbr>").replace("_", "_<wbr>")  # where a narrow column breaks it
            if (index, place) in opens:
                shown = _link(explaining(asked, opens[index, place]), shown, "opens")
            elif (link := _linked(cell, row, asked, said)) is not None:
                shown = _link(link, shown, "asks" if isinstance(cell, str) and not PATH.fullmatch(cell) else "opens")
            shown += _bar(cell)
            depth = f' class="d{min(sheet.depth(index), 8)}"' if place == 0 and sheet.depth(index) else ""
            tag = "th" if place == 0 and isinstance(cell, str) and cell else "td"
            scope = ' scope="row"' if tag == "th" else ""
            cells.append(f"<{tag}{scope}{depth or _side(column)}>{shown}</{tag}>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    kind = ' class="derived"' if said.get("command") == "explain" else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(printable(sheet.title))}"><table{kind}>'
        f"<thead><tr>{heading}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _side(column: Column) -> str:
    return ' class="n"' if column.numeric else ""


def _bar(cell: Cell) -> str:
    """A bar of a share's length; what it shows is written beside it."""
    if not isinstance(cell, Share):
        return ""
    width = round(100 * min(max(cell.fraction, 0), 1), 1)
    return (
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{width}" height="8" rx="1"></rect></svg>'
    )


def _linked(cell: Cell, row: Sequence[Cell], asked: Asked, said: Mapping[str, object]) -> str | None:
    """The link of a cell that is a question itself: a term of a derivation, a command, or a change of options."""
    if said.get("command") == "explain":
        return _further(cell, row, asked, said)
    if not isinstance(cell, str) or not cell:
        return None
    first = cell.split(maxsplit=1)[0]
    if cell.startswith("--"):
        return link_of(with_options(asked, cell.split()))
    if first in COMMANDS and said.get("command") == "overview":
        commands = said.get("commands")
        name, *options = cell.split()
        known = commands if isinstance(commands, Mapping) else {}
        of_line = [str(line) for line in known.values() if shlex.split(str(line))[1:2] == [name]]
        full = next((line for line in of_line if set(options) <= set(shlex.split(line))), "")
        words = shlex.split(full)[1:] if full else [name, *asked.named, *options]
        return link_of(along(asked, words))
    return None


def _further(cell: Cell, row: Sequence[Cell], asked: Asked, said: Mapping[str, object]) -> str | None:
    """The link that opens a term of what was opened, from the row of a derivation: by this question, or another one."""
    terms = said.get("terms")
    if not isinstance(terms, list) or cell is not row[1]:
        return None
    term = next((one for one in terms if one["path"] and one["path"] == row[0]), None)
    if term is None:
        return None
    if str(term["what"]).startswith("tfcalc "):
        line = parts(in_full(shlex.split(term["what"])[1:]))
        return link_to(Asked("explain", (term["path"], *line.named), line.typed))
    return link_to(asked._replace(named=(term["path"], *asked.named[1:])))


def _below(sheet: Sheet, style: Style, asked: Asked) -> Iterator[str]:
    """The lines below the table; what else may be asked is a link."""
    notes = sheet._replace(see_also=()).below(style)
    if notes:
        yield '<ul class="notes">' + "".join(f"<li>{_with_commands(note)}</li>" for note in notes) + "</ul>"
    further = [each for each in sheet.see_also if not (_is_of_output(each) or "COMMAND" in each)]
    links = [f"<li>{link}</li>" for each in further if (link := _see_also(each, asked))]
    if links:
        yield f'<ul class="further" aria-label="See also">{"".join(links)}</ul>'


def _is_of_output(each: str) -> bool:
    """Return whether it only says how an answer is written, for which the page has buttons."""
    return each.split(maxsplit=1)[0] in ("--json", "-q", "--format")


def _see_also(each: str, asked: Asked) -> str:
    """``--gpu h100 (does it fit?)`` as a link: the same question with this option; a command as the question it is.

    Empty where there is a control instead (``--batch N``), or where it is what was asked.
    """
    line = each.partition(" (")[0]
    try:
        typed = shlex.split(line)
    except ValueError:
        return _text(each)
    if "…" in line or not PLACES.isdisjoint(typed):
        return "" if line.startswith("-") else _text(each)
    if line.startswith("-"):
        link = link_of(with_options(asked, typed))
        return _link(link, _text(each), "asks") if link != link_to(asked) else ""
    if typed[:1] == ["tfcalc"]:
        return _link(link_of(typed[1:]), _text(each), "asks")
    return _text(each)


ABOUT_IT = "lists|says|tells|shows|opens|asks|counts|has|lays|makes|writes|finds"
"""Words by which a line goes on behind a command that it names."""
COMMAND = re.compile(rf"\btfcalc (?:[^;:,()]|,(?! ))+?(?= (?:{ABOUT_IT})\b|\Z|[;:)]|, )")
"""A command in a line, which may be asked: up to what is said of it, the line's end, a bracket or the next clause."""
PLACES = frozenset(("N", "NAME", "FILE", "MODEL"))
"""Words of a command in the place of those that its reader knows."""


def _with_commands(note: str) -> str:
    found = COMMAND.search(note)
    try:
        words = shlex.split(found[0])[1:] if found else []
    except ValueError:
        words = []
    if found is None or not words or not PLACES.isdisjoint(words):
        return _text(note)
    return _text(note[: found.start()]) + _link(link_of(words), _text(found[0]), "asks") + _text(note[found.end() :])
