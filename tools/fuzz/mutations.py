"""Texts that are nearly right: valid ones with an edit or three, by character and by token."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

HOSTILE = [
    *(
        "\x00",
        "\x1b",
        "\x1b[31m",
        "\n",
        "\r",
        "\t",
        " ",
        "\x7f",
        "\x9b",
        "\xa0",
        "\u200b",
        "\u202e",
        "\u2028",
        "\ufeff",
    ),
    *("\u0663", "\uff17", "\xb2", "\xbd", "\u2167", "\xd7", "\u2212", "\u017f", "\u0130", "\ud800", "\U0001f600", "é"),
    *("'", '"', "\\", "`", "$", "%", "{", "}", "[", "]", "(", ")", "<", ">", "|", "&", ";", ":", "#", "=", ",", "."),
    *("*", "?", "!", "^", "~", "/", "//", "-", "--", "+", "_", "@", "..", "**", "e", "E", "k", "Ki", "0", "9", "00"),
    *("e9", "e999", "e-999", "9" * 20, "9" * 70, "nan", "inf", "None", "true", "0x", "1e"),
]
"""What is put into a text: characters that mean something somewhere, and those that no terminal may be given."""

TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


def edited(draw: random.Random, text: str, others: Sequence[str] = ()) -> str:
    """The text after one to three edits; ``others`` are texts that pieces are taken from."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        text = _edit(draw, text, others)
    return text


def _edit(draw: random.Random, text: str, others: Sequence[str]) -> str:
    kind, length = draw.randrange(12), len(text)
    place = draw.randrange(length + 1)
    if kind == 0:
        return text[:place] + text[place + draw.choice((1, 1, 2, 5)) :]
    if kind <= 3:
        return text[:place] + draw.choice(HOSTILE) + text[place:]
    if kind == 4:
        return text[:place] + draw.choice(HOSTILE) + text[place + 1 :]
    if kind == 5:
        return text[:place]
    if kind == 6:
        end = min(length, place + draw.choice((1, 3, 8)))
        return text[:end] + text[place:end] * draw.choice((1, 1, 2, 30)) + text[end:]
    if kind == 7:
        return text.swapcase() if draw.random() < 0.5 else text.upper()
    if kind == 8 and others:
        other = draw.choice(others)
        return text[:place] + other[draw.randrange(len(other) + 1) :]
    if kind == 9:
        return draw.choice((" ", "\t", "", "\n")) + text + draw.choice((" ", "\n", "\r\n", ""))
    tokens = TOKEN.findall(text)
    if not tokens:
        return draw.choice(HOSTILE)
    one, other_place = draw.randrange(len(tokens)), draw.randrange(len(tokens))
    if kind == 10:
        tokens[one], tokens[other_place] = tokens[other_place], tokens[one]
    else:
        tokens[one] = draw.choice((*draw.choice((HOSTILE, tokens)), ""))
    return "".join(tokens)
