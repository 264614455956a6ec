"""Printing a polynomial as a textbook would: ``4h² + 4h``, ``n(12h² + 13h)``, ``4lbh(2h + l)``.

Two ways of grouping are in use. What is stored (parameters, bytes) is written as a polynomial per layer count:
``n(28h² + 32h) + (4 + 2V)h``. What is run (FLOPs) has its common factor taken out: ``4nlbh(14h + 3l) + 2lbhV``.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from math import gcd
from typing import NamedTuple

from tfcalc.core.polynomial import Atom, Floor, Minimum, Monomial, Polynomial

COUNTS = ("n", "n_e", "n_d")
"""Symbols that count equal parts; they go to the front and stay there."""

ORDER = (*COUNTS, "l", "s", "b", "h", "a", "g", "d", "d_v", "f", "T", "V", "V_t")
"""From left to right in a product."""

TABLES = ("T", "V", "V_t")
"""Rows of a table: written first where a table is meant (Vh), last where a product is (2lbhV)."""

WORKLOAD = ("l", "s", "b")


class Script(NamedTuple):
    """How the pieces of a formula are put on paper."""

    symbol: Callable[[str], str]
    power: Callable[[str, int], str]
    times: str
    floor: tuple[str, str]
    minimum: tuple[str, str] = ("min(", ")")


def _superscript(base: str, power: int) -> str:
    return base + str(power).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))


def _latex_symbol(letter: str) -> str:
    if len(letter) == 1:
        return letter
    head, _, index = letter.partition("_")
    return f"{head}_{{{index.replace('_', ',')}}}" if len(head) == 1 else r"\mathrm{" + letter.replace("_", r"\_") + "}"


UNICODE = Script(str, _superscript, "·", ("⌊", "⌋"))
ASCII = Script(str, lambda base, power: f"{base}^{power}", "*", ("floor(", ")"))
LATEX = Script(
    _latex_symbol,
    lambda base, power: f"{base}^{{{power}}}",
    " ",
    (r"\left\lfloor ", r"\right\rfloor "),
    (r"\min(", ")"),
)
SCRIPTS = {"text": UNICODE, "ascii": ASCII, "latex": LATEX}

NOTATIONS: dict[str, dict[str, str]] = {
    "lbhn": {},
    "bsld": {"b": "bs", "l": "L", "h": "d", "n": "N_l", "n_e": "N_e", "n_d": "N_d", "a": "h", "d": "d_k", "f": "d_ff"},
    "names": {
        "b": "batch_size",
        "l": "seq_len",
        "s": "source_len",
        "h": "d_model",
        "n": "n_layers",
        "n_e": "encoder_layers",
        "n_d": "decoder_layers",
        "a": "n_heads",
        "g": "n_kv_heads",
        "d": "head_dim",
        "d_v": "value_dim",
        "f": "d_ff",
        "V": "vocab_size",
        "V_t": "target_vocab_size",
        "T": "max_len",
        "D": "max_distance",
        "B": "buckets",
    },
}
"""Other letters for the same symbols; those not named keep their own."""


def write(
    number: object,
    *,
    script: Script = UNICODE,
    letters: Mapping[str, str] | None = None,
    factored: bool | None = None,
) -> str:
    """A polynomial (or a plain number) in print.

    ``factored`` takes out what its terms share; by default that is done where the size of a workload stands in it.

    >>> from tfcalc.core.polynomial import symbols
    >>> h, l, b, n, V = symbols("h l b n V")
    >>> write(n * (28 * h * h + 32 * h) + 4 * h + 2 * V * h)
    'n(28h² + 32h) + (4 + 2V)h'
    >>> write(8 * l * b * h * h + 4 * l * l * b * h)
    '4lbh(2h + l)'
    """
    if not isinstance(number, Polynomial):
        return f"{number}"
    writer = _Writer(script, letters or {})
    if factored is None:
        factored = not number.free_symbols.isdisjoint(WORKLOAD)
    groups = _by_count(number)
    group = writer.factored if factored else writer.collected
    return " + ".join(group(count, rest) for count, rest in groups).replace("+ -", "- ") or "0"


def _by_count(number: Polynomial) -> list[tuple[Monomial, Polynomial]]:
    """The terms by what they count (n, n_e, …), each with what is counted."""
    groups: dict[Monomial, dict[Monomial, int]] = {}
    for powers, factor in number.terms.items():
        count = tuple(item for item in powers if item[0] in COUNTS)
        rest = tuple(item for item in powers if item[0] not in COUNTS)
        groups.setdefault(count, {})[rest] = factor
    ranked = sorted(groups.items(), key=lambda group: (-len(group[0]), _rank_all(group[0])))
    return [(count, Polynomial(terms)) for count, terms in ranked]


class _Writer(NamedTuple):
    script: Script
    letters: Mapping[str, str]

    def collected(self, count: Monomial, rest: Polynomial) -> str:
        """``n(12h² + 13h)``; by the hidden size where that stands alone: ``(4 + 2V)h``."""
        if len(rest.terms) == 1:
            ((powers, factor),) = rest.terms.items()
            return self.monomial(factor, (*count, *powers))
        shared = _shared(rest)
        inner = _without(rest, shared)
        if [atom for atom, _ in shared] == ["h"] and "h" not in inner.free_symbols and () in inner.terms:
            return self.join([*self.powers(count), self.bracketed(inner), *self.powers(shared)])
        shared_by_all = reduce(gcd, rest.terms.values())
        if not count and len(rest.terms) > 2 and shared_by_all > 2:  # so many equal layers: 58(…)
            return self.join([str(shared_by_all), self.bracketed(_without(rest, (), shared_by_all))])
        return self.join([*self.powers(count), self.bracketed(rest)]) if count else self.sum(rest)

    def factored(self, count: Monomial, rest: Polynomial) -> str:
        """``4nlbh(14h + 3l)``."""
        if len(rest.terms) == 1:
            return self.collected(count, rest)
        shared = _shared(rest)
        factor = reduce(gcd, rest.terms.values())
        inner = _without(rest, shared, factor)
        outer = [*([str(factor)] if factor != 1 else []), *self.powers((*count, *shared))]
        return self.join([*outer, self.bracketed(inner)]) if outer else self.sum(inner)

    def sum(self, number: Polynomial) -> str:
        ranked = sorted(number.terms.items(), key=lambda term: _rank(term[0]))
        return " + ".join(self.monomial(factor, powers) for powers, factor in ranked).replace("+ -", "- ")

    def bracketed(self, number: Polynomial) -> str:
        return f"({self.sum(number)})"

    def monomial(self, factor: int, powers: Monomial) -> str:
        above = self.powers(tuple(item for item in powers if item[1] > 0))
        below = self.powers(tuple((atom, -power) for atom, power in powers if power < 0))
        sign, size = ("-" if factor < 0 else ""), abs(factor)
        text = sign + self.join([*([] if size == 1 and above else [str(size)]), *above])
        if not below:
            return text
        return text + "/" + (f"({self.join(below)})" if len(below) > 1 else below[0])

    def powers(self, powers: Monomial) -> list[str]:
        return [self.power(atom, power) for atom, power in _arranged(powers)]

    def divisor(self, number: Polynomial | int) -> str:
        """What stands below a line: a number or a letter as it is, anything longer in brackets."""
        if isinstance(number, int):
            return str(number)
        text = self.sum(number)
        return text if list(number.terms.values()) == [1] and sum(map(len, number.terms)) == 1 else f"({text})"

    def join(self, pieces: list[str]) -> str:
        """Letters stand side by side; longer names need a sign between them, and LaTeX a space."""
        if self.script is LATEX:
            return " ".join(pieces)
        worded = any(piece[0].isalpha() and len(piece.rstrip("⁰¹²³⁴⁵⁶⁷⁸⁹^0123456789")) > 1 for piece in pieces)
        numeric = any(piece[0].isdigit() for piece in pieces[1:])
        return (self.script.times if worded or numeric else "").join(pieces)

    def power(self, atom: Atom, power: int) -> str:
        if isinstance(atom, Floor):
            opening, closing = self.script.floor
            dividend = self.sum(atom.dividend) if len(atom.dividend.terms) == 1 else self.bracketed(atom.dividend)
            base = f"{opening}{dividend}/{self.divisor(atom.divisor)}{closing}"
        elif isinstance(atom, Minimum):
            opening, closing = self.script.minimum
            base = f"{opening}{self.sum(atom.one)}, {self.sum(atom.other)}{closing}"
        else:
            base = self.script.symbol(self.letters.get(atom, atom))
        return base if power == 1 else self.script.power(base, power)


def _place(atom: Atom) -> int:
    return ORDER.index(atom) if isinstance(atom, str) and atom in ORDER else len(ORDER)


def _arranged(powers: Monomial) -> list[tuple[Atom, int]]:
    running = any(atom in WORKLOAD for atom, _ in powers)

    def place(item: tuple[Atom, int]) -> tuple[bool, int, bool, str]:
        first = item[0] in COUNTS or (item[0] in TABLES and not running)
        return (not first, _place(item[0]), not isinstance(item[0], str), str(item[0]))

    return sorted(powers, key=place)


def _rank(powers: Monomial) -> tuple[int, ...]:
    """Terms by falling powers of h, then of the other symbols; those of a table by rising ones."""
    exponents = dict(powers)
    first = ("h", *(letter for letter in ORDER if letter not in ("h", *TABLES)))
    others = sum(power for atom, power in powers if _place(atom) == len(ORDER))
    return (*(-exponents.get(letter, 0) for letter in first), *(exponents.get(t, 0) for t in TABLES), -others)


def _rank_all(powers: Monomial) -> tuple[int, ...]:
    return tuple(_place(atom) for atom, _ in powers)


def _shared(number: Polynomial) -> Monomial:
    """The monomial that divides every term."""
    every = [dict(powers) for powers in number.terms]
    lowest = {atom: min(powers.get(atom, 0) for powers in every) for atom in every[0]}
    return tuple((atom, power) for atom, power in lowest.items() if power > 0)


def _without(number: Polynomial, shared: Monomial, factor: int = 1) -> Polynomial:
    inverse = Polynomial({tuple((atom, -power) for atom, power in shared): 1})
    divided = number * inverse
    return Polynomial({powers: size // factor for powers, size in divided.terms.items()})
