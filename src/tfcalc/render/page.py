"""A page as one HTML file that needs nothing else: no script, no network, no other file.

What a config is the author of is text on it, and a policy in its head forbids whatever would load or run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import cast

from tfcalc.printable import printable
from tfcalc.render import shown
from tfcalc.render.picture import DARK, FILLED, LIGHT, STYLE, anchor, figure, identity
from tfcalc.report.page import OpenedNumber, PageAnswer, PageSection, WholePage
from tfcalc.report.sheet import At, Bytes, Cell, Share, Sheet, for_people, for_programs
from tfcalc.report.style import Style

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
COLOURS = (
    f":root{{color-scheme:light dark;{FILLED}{LIGHT}}}@media screen and (prefers-color-scheme:dark){{:root{{{DARK}}}}}"
)


def page(whole: WholePage, style: Style) -> str:
    """The page as HTML."""
    title = escape(printable(whole.title))
    css = (Path(__file__).with_name("page.css")).read_text(encoding="utf-8")
    sections = "".join(_section(_shown(section), style) for section in whole.sections)
    made_by = f"<code>{escape(printable(whole.made_by))}</code>"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}: what it costs</title>\n<style>\n{COLOURS}\n{STYLE}\n{css}</style>\n</head>\n<body>\n"
        f"<header>\n<h1>{title}</h1>\n<p>{escape(printable(whole.subtitle))}</p>\n"
        f'<p class="made">Made by tfcalc {escape(whole.version)}: {made_by}</p>\n{_contents(whole.sections)}</header>\n'
        f"<main>\n{sections}</main>\n{_data(whole.data)}</body>\n</html>"
    )


def _shown(section: PageSection) -> PageSection:
    """The section with every text in it printable."""
    return cast("PageSection", shown(section))


def _contents(sections: Iterable[PageSection]) -> str:
    links = "".join(f'<li><a href="#{anchor(one.name)}">{escape(one.title)}</a></li>' for one in sections)
    return f'<nav aria-label="Sections"><ol>{links}</ol></nav>\n'


def _section(section: PageSection, style: Style) -> str:
    name, heading = identity(section.name), f'<h2 id="{identity(section.name)}">{escape(section.title)}</h2>\n'
    about = f"<p>{escape(section.about)}</p>\n" if section.about else ""
    figures = "".join(figure(one, f"{name}-{place}") for place, one in enumerate(section.pictures))
    several = len(section.answers) > 1
    told = [_answer(one, section.title, style, "" if several else figures) for one in section.answers]
    return f'<section aria-labelledby="{name}">\n{heading}{about}{figures * several}{"".join(told)}</section>\n'


def _answer(one: PageAnswer, title: str, style: Style, figures: str) -> str:
    """An answer, with its pictures below the first line of it."""
    called = f"<h3>{escape(one.called)}</h3>\n" if one.called else ""
    command = f'<p class="command"><code>{escape(one.command)}</code></p>\n' if one.command else ""
    sheet = one.sheet
    if sheet is None:
        return f'{called}<p class="missing">{escape(one.missing)}</p>\n{command}'
    style = style._replace(letters=sheet.letters)
    above = "".join(f"<p>{escape(line)}</p>\n" for line in (sheet.subtitle,) if line)
    notes = "".join(f"<li>{escape(line)}</li>" for line in sheet._replace(see_also=()).below(style))
    return (
        f'{called}<p class="answer">{escape(sheet.title)}</p>\n{above}{figures}'
        f"{_table(sheet, style, one.links, f'{one.called or title}: {sheet.title}')}"
        f"{f'<ul>{notes}</ul>' if notes else ''}\n{_numbers(one, style)}{command}"
    )


def _numbers(answer: PageAnswer, style: Style) -> str:
    """Origins of the numbers: closed until a number is clicked, which browsers open for a link into it."""
    if not answer.opened:
        return ""
    told = "".join(_opened(one, style) for one in answer.opened)
    several = f"{len(answer.opened)} numbers" if len(answer.opened) > 1 else "number"
    return f"<details><summary>Where the {several} come{'s' * (several == 'number')} from</summary>\n{told}</details>\n"


def _opened(one: OpenedNumber, style: Style) -> str:
    sheet = one.sheet
    notes = "".join(f"<p>{escape(line)}</p>" for line in sheet._replace(see_also=(), legend={}).below(style))
    return (
        f'<section class="origin" id="{escape(identity(one.path))}" aria-label="{escape(one.path)}">'
        f"<h3>{escape(sheet.title)}</h3>{_table(sheet, style, {}, sheet.title)}{notes}</section>\n"
    )


def _table(sheet: Sheet, style: Style, links: Mapping[At, str], name: str) -> str:
    if not sheet.rows:
        return ""
    sheet = sheet.bare()
    headed = any(column.heading for column in sheet.columns)
    heading = "".join(
        f'<th scope="col"{_side(column.numeric)}>{escape(style.text(column.heading))}</th>'
        if column.heading
        else "<td></td>"
        for column in sheet.columns
    )
    rows = "".join(f"<tr>{''.join(_cells(sheet, row, style, links))}</tr>" for row in range(len(sheet.rows)))
    head = f"<thead><tr>{heading}</tr></thead>" if headed else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(name)}"><table>{head}'
        f"<tbody>{rows}</tbody></table></div>\n"
    )


def _cells(sheet: Sheet, row: int, style: Style, links: Mapping[At, str]) -> Iterator[str]:
    for place, (cell, column) in enumerate(zip(sheet.rows[row], sheet.columns, strict=True)):
        text, path = escape(for_people(cell, style)), links.get((row, place))
        exact = _exact(cell, style)
        if path and text:
            text = f'<a href="#{anchor(path)}"{exact}>{text}</a>'
        elif exact and text:
            text = f"<span{exact}>{text}</span>"
        if place == 0 and text:
            depth = f' style="padding-left:{0.6 + 1.1 * sheet.depth(row):.1f}em"' if sheet.depth(row) else ""
            yield f'<th scope="row"{_side(column.numeric)}{depth}>{text}</th>'
        else:
            yield f"<td{_side(column.numeric)}{_bar(cell)}>{text}</td>"


def _side(numeric: bool) -> str:
    return ' class="n"' if numeric else ""


def _exact(cell: Cell, style: Style) -> str:
    """The whole number, where it is rounded."""
    if not isinstance(cell, Bytes):
        return ""
    return f' title="{int(for_programs(cell, style)):,} bytes"'


def _bar(cell: Cell) -> str:
    """The share as a bar behind its number."""
    if not isinstance(cell, Share):
        return ""
    part = 100 * min(max(cell.fraction, 0), 1)
    return f' style="background:linear-gradient(to left,var(--bar) {part:.1f}%,transparent 0)"'


def _data(data: Mapping[str, object]) -> str:
    """Answers as JSON, for programs: a block of data, which no browser runs."""
    text = json.dumps(data, separators=(",", ":"))
    inside = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<script type="application/json" id="answers">{inside}</script>\n'
