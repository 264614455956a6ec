"""A page as Markdown, for pull requests: its pictures are SVG files beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast
from urllib.parse import quote

from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import printable
from tfcalc.render import rendered, shown
from tfcalc.render.markdown import line, text
from tfcalc.render.picture import drawn
from tfcalc.report.chart import Picture
from tfcalc.report.page import PageAnswer, PageSection, WholePage
from tfcalc.report.style import Style


class MarkdownPage(NamedTuple):
    """The text, and the SVG of each picture by the name of its file."""

    text: str
    files: dict[str, str]


def page_markdown(whole: WholePage, style: Style, name: str) -> MarkdownPage:
    """The page, and its pictures in files whose names begin with ``name``."""
    files: dict[str, str] = {}
    lines = [f"# {text(printable(whole.title))}", ""]
    lines += [line(printable(whole.subtitle)), ""] if whole.subtitle else []
    lines += [f"Made by tfcalc {whole.version}: {_code(whole.made_by)}", ""]
    for section in whole.sections:
        lines += _section(section, style, name, files)
    return MarkdownPage("\n".join(lines).rstrip("\n"), files)


def _section(section: PageSection, style: Style, name: str, files: dict[str, str]) -> Iterator[str]:
    yield from (f"## {section.title}", "")
    told = any(one.sheet is not None for one in section.answers)
    if section.about and told:
        yield from (section.about, "")
    for place, picture in enumerate(section.pictures):
        made = drawn(cast("Picture", shown(picture)), section.name, alone=True)
        file = f"{name}-{section.name}{f'-{place}' * bool(place)}.svg"
        files[file] = made.svg
        yield from (f"![{text(printable(picture.title))}]({_address(file)})", "")
    for one in section.answers:
        yield from _answer(one, style)


def _answer(one: PageAnswer, style: Style) -> Iterator[str]:
    if one.called:
        yield from (f"### {text(printable(one.called))}", "")
    if one.sheet is None:
        yield from (line(printable(one.missing)), "")
        return
    yield rendered(one.sheet, "markdown" if one.sheet.columns else "plain", style)
    yield ""
    if one.command:
        yield from (_code(one.command), "")


def _code(words: str) -> str:
    """A command as code, with more backticks around it than it has in it."""
    words = printable(words)
    longest = max((len(run) for run in _runs(words)), default=0)
    fence, space = "`" * (longest + 1), " " * bool(longest)
    return f"{fence}{space}{words}{space}{fence}"


def _runs(words: str) -> list[str]:
    return "".join(letter if letter == "`" else " " for letter in words).split()


def _address(file: str) -> str:
    """A file name as the address of a picture."""
    return quote(file)
