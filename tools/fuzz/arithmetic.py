"""What a formula with numbers in it comes to, read without knowing how it was written."""

from __future__ import annotations

import math
import re
from fractions import Fraction

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def evaluated(text: str) -> Fraction | None:
    """What a formula with numbers in it comes to; None where it has letters left.

    >>> evaluated("2(3·4² + ⌊7/2⌋) - 1/2"), evaluated("2h")
    (Fraction(203, 2), None)
    """
    text = text.replace(",", "").replace("−", "-")
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda match: "^" + match[0].translate(SUPERSCRIPTS), text)
    tokens: list[str] = re.findall(r"\d+|[A-Za-zτρμ]\w*|[-+*/^()⌊⌋·,]|√", text)
    if any(re.match(r"[A-Za-zτρμ√]", token) for token in tokens) or "".join(tokens) != re.sub(r"\s", "", text):
        return None
    place = 0

    def peek() -> str:
        return tokens[place] if place < len(tokens) else ""

    def take() -> str:
        nonlocal place
        place += 1
        return tokens[place - 1]

    def sum_() -> Fraction:
        sign = 1
        if peek() in "+-" and peek():
            sign = -1 if take() == "-" else 1
        value = sign * product_()
        while peek() in ("+", "-"):
            value = value + product_() if take() == "+" else value - product_()
        return value

    def product_() -> Fraction:
        value = power()
        while peek() and peek() not in "+-)⌋":
            if peek() == "/":
                take()
                value = value / power()
            else:
                if peek() in "·*":
                    take()
                value = value * power()
        return value

    def power() -> Fraction:
        token = take()
        if token == "(":
            value = sum_()
            take()
        elif token == "⌊":
            value = Fraction(math.floor(sum_()))
            take()
        else:
            value = Fraction(int(token))
        if peek() == "^":
            take()
            value = value ** int(take())
        return value

    value = sum_()
    return value if place == len(tokens) else None
