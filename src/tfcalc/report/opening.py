"""Origins of the numbers of an answer: a key's is declared with it (:mod:`tfcalc.report.declared`).

A number follows from others of the same answer by a :class:`Rule`, is the :class:`Same` as another, is
:class:`Stated` (given, counted, found by a search), or is the answer to another question (:class:`Elsewhere`), whose
own numbers lie behind it: ``compare.models.1.total_params.components.lm_head.params``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose, prod
from typing import Any, Protocol

from tfcalc.named_tuple import NamedTuple

Number = int | float


class Constant(NamedTuple):
    """A number that no answer has."""

    value: Number
    what: str


class Declared(Protocol):
    """A key as an answer declares it."""

    name: str


Named = str | Constant


class Rule(NamedTuple):
    """``sum`` of the ``terms``; ``difference``: that sum less the other; ``ratio``: their product over the others'.

    ``floor``, ``remainder`` and ``rounded`` (to two decimals) are those of the ratio; ``relative`` is by how much the
    term is above the other, as a fraction of that; ``least`` and ``most`` are those of the terms.
    """

    how: str
    terms: tuple[Named, ...]
    others: tuple[Named, ...] = ()
    note: str = ""

    @property
    def constants(self) -> str:
        """Constants of the rule, and what each is: ``6 of 6ND``."""
        both = (*self.terms, *self.others)
        return "; ".join(f"{each.value:,} {each.what}" for each in both if isinstance(each, Constant))

    def at(self, terms: list[Number], others: list[Number]) -> Number:
        """Return what the rule makes of the terms."""
        match self.how:
            case "sum" | "difference":
                return sum(terms) - sum(others)
            case "floor":
                return prod(terms) // prod(others)
            case "remainder":
                return prod(terms) % prod(others)
            case "rounded":
                return round(prod(terms) / prod(others), DECIMALS)
            case "relative":
                return (sum(terms) - sum(others)) / sum(others)
            case "least":
                return min(terms)
            case "most":
                return max(terms)
            case _:
                return prod(terms) / prod(others) if others else prod(terms)

    def gives(self, value: Number, terms: list[Number], others: list[Number]) -> bool:
        """Return whether they make this number."""
        adds = self.how in ("sum", "difference")
        if not adds and others and not prod(others):
            return False
        found = self.at(terms, others)
        if not isinstance(found, float):
            return found == value
        largest = max(map(abs, (*terms, *others))) if adds else 0
        return isclose(found, value, rel_tol=PRECISE, abs_tol=PRECISE * largest)

    def written(self, terms: list[str], others: list[str]) -> str:
        """``total_flops / tokens``."""
        if self.how in ("sum", "difference"):
            return " + ".join(terms) + "".join(f" - {each}" for each in others)
        if self.how in ("least", "most"):
            return f"{'min' if self.how == 'least' else 'max'}({', '.join(terms)})"
        if self.how == "relative":
            (one,), (other,) = terms, others
            return f"({one} - {other}) / {other}"
        over, under = " · ".join(terms), " · ".join(others)
        both = f"{over} / ({under})" if len(others) > 1 else f"{over} / {under}" if others else over
        whole = {"floor": f"⌊{both}⌋", "remainder": f"{over} mod {under}", "rounded": f"round({both}, {DECIMALS})"}
        return whole.get(self.how, both)


DECIMALS = 2
"""Of what is rounded."""
PRECISE = 1e-12
"""What floating point leaves open, of a result or of the largest that is added."""


def total(*terms: Named | Declared, less: Named | Declared | None = None) -> Rule:
    """The sum of the terms, ``less`` this one."""
    return Rule("sum", _by_name(*terms)) if less is None else Rule("difference", _by_name(*terms), _by_name(less))


def ratio(*terms: Named | Declared, over: tuple[Named | Declared, ...] = ()) -> Rule:
    """The product of the terms ``over`` that of these."""
    return Rule("ratio", _by_name(*terms), _by_name(*over))


def _by_name(*terms: Named | Declared) -> tuple[Named, ...]:
    """Terms by their names. A key has none yet in the body of its own class, where a word names it."""
    names = tuple(term if isinstance(term, str | Constant) else term.name for term in terms)
    assert all(names), "a key of the class that is being made is named by a word"
    return names


class Same(NamedTuple):
    """Number that is the same as one at another path of the same answer."""

    path: str


class Stated(NamedTuple):
    """A number that is ``given``, ``found`` by a search or a simulation, or a ``count``; and how, in a line.

    ``formula`` is its closed form, where it has one.
    """

    how: str
    note: str
    formula: str = ""


def given(note: str) -> Stated:
    """Return the origin of a number that somebody gave, or published."""
    return Stated("given", note)


def found(note: str) -> Stated:
    """Return the origin of a number that a search, a simulation or another program found."""
    return Stated("found", note)


def count(note: str) -> Stated:
    """Return the origin of a number that is a count."""
    return Stated("count", note)


def told_apart(names: Sequence[str]) -> list[str]:
    """Names of the parts of a list in paths: a part's own name, where no other has the same, or its place.

    >>> told_apart(["q", "q", "out", "3", ""])
    ['0', '1', 'out', '3', '4']
    """
    return [
        name if name and names.count(name) == 1 and not name.isdigit() else str(place)
        for place, name in enumerate(names)
    ]


class Elsewhere(Protocol):
    """Another question, whose answer the number is."""

    def opened(self, prefix: str, further: tuple[str, ...]) -> Any:
        """Open the number at ``prefix``; or one that lies behind it, at ``further`` keys of its answer.

        It is an Explanation or a Derivation: answers themselves, which are defined above this module. Raises UsageError
        where there is none.
        """
        ...


Way = Rule | Same | Stated | Elsewhere
