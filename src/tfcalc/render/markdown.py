"""Markdown: a pipe table, as GitHub shows it, in which all words are words.

Names and reasons come from files that anyone can write who opens a pull request.
"""

from __future__ import annotations

import re

from tfcalc.report.sheet import Sheet, for_people
from tfcalc.report.style import Style

APART = "&#8203;"
"""A space of no width: GitHub looks for mentions, addresses and emoji in what entities stand for, too."""
SHORTEST_HASH = 7
ACTIVE = re.compile(
    r"(?P<mark>[<`$|])"
    r"|(?P<entity>&)(?=#?\w{1,40};)"
    r"|(?P<escape>\\)(?=[!-/:-@\[-`{-~]|\Z)"
    r"|(?P<star>\*)(?!(?<=\s\*)\s)"
    r"|(?P<line>(?<![^\W_])_|_(?![^\W]))"
    r"|(?P<bracket>\[)"
    r"|(?P<mention>@|\#(?=\w))"
    r"|(?P<emoji>:)(?=(?!\d{1,100}:)[\w+-]{1,100}:|100:|1234:)"
    r"|(?P<address>:(?=//)|\bwww(?=\.)|\bGH-(?=\d))"
    rf"|(?P<hash>\b(?=\d*[a-f])(?=[a-f]*\d)[\da-f]{{{SHORTEST_HASH},40}}\b)",
    re.IGNORECASE,
)
"""Characters that Markdown or GitHub would interpret, each where it does: ``d_model`` is a word."""
BLOCK = re.compile(r" {0,3}(#{1,6}(\s|\Z)|[-+*](\s|\Z)|\d{1,9}[.)](\s|\Z)|>|(=+|-+)\s*\Z|([-_*]\s*){3,}\Z|~~~)")
"""Beginnings of lines that are no paragraph."""


def render(sheet: Sheet, style: Style) -> str:
    """The title in bold, the table, and the notes as a list; what to type next is not for a page."""
    heading = "| " + " | ".join(text(style.text(column.heading)) for column in sheet.columns) + " |"
    rule = "| " + " | ".join("---:" if column.numeric else "---" for column in sheet.columns) + " |"
    rows = []
    for index, row in enumerate(sheet.rows):
        cells = [text(style.text(for_people(cell, style))) for cell in row]
        cells[0] = "&nbsp;&nbsp;" * sheet.depth(index) + cells[0].replace("_", r"\_")
        rows.append("| " + " | ".join(cells) + " |")
    below = sheet._replace(see_also=()).below(style)
    return "\n".join(
        [
            f"**{text(style.text(sheet.title))}**",
            *(["", line(style.text(sheet.subtitle))] if sheet.subtitle else []),
            "",
            heading,
            rule,
            *rows,
            *(["", *(f"- {line(style.text(note))}" for note in below)] if below else []),
        ]
    )


def text(words: str) -> str:
    r"""Words as they are written, with nothing in them that Markdown or GitHub reads as more than words.

    >>> text("at most 24 GiB (see #12), says @ada"), text("a|b *c* <d> d_model")
    ('at most 24 GiB (see &#35;&#8203;12), says &#64;&#8203;ada', 'a&#124;b &#42;c&#42; &lt;d> d_model')
    >>> text("https://a.b :tada: GH-1"), text("[a](b) $x$")
    ('https:&#8203;//a.b :&#8203;tada: GH-&#8203;1', '\\[a](b) &#36;x&#36;')
    """
    escaped = ACTIVE.sub(_escaped, words)
    return escaped.replace("~", "&#126;") if words.count("~") > 1 else escaped  # a single one strikes nothing out


def line(words: str) -> str:
    """A line of its own, whose beginning makes no list, no heading and no code of it.

    >>> line("1. chat is new"), line("chat is new"), line("7 are new")
    ('&#49;. chat is new', 'chat is new', '7 are new')
    """
    words = words.strip() if words.startswith(" " * 4) else words
    if not BLOCK.match(words):
        return text(words)
    words = words.lstrip()
    return f"&#{ord(words[0])};{text(words[1:])}"


def _escaped(found: re.Match[str]) -> str:
    one = found[0]
    match found.lastgroup:
        case "mark" if one == "<":
            return "&lt;"
        case "bracket":
            return r"\["
        case "mention":
            return f"&#{ord(one)};{APART}"
        case "emoji" | "address":
            return one + APART
        case "hash":
            return APART.join(one[place : place + SHORTEST_HASH - 1] for place in range(0, len(one), SHORTEST_HASH - 1))
    return f"&#{ord(one)};"
