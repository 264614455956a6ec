"""Printing a polynomial as a textbook would: ``4h² + 4h``, ``n(12h² + 13h)``, ``4lbh(2h + l)``.

There are two ways of grouping. Parameters and bytes are printed as one polynomial per layer count:
``n(28h² + 32h) + (4 + 2V)h``. FLOPs have their common factor taken out: ``4nlbh(14h + 3l) + 2lbhV``.
In both, equal groups of several counts are printed once: ``12(n - 1)lbh(6h + l)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from math import gcd

from tfcalc.core.polynomial import Atom, Floor, Minimum, Monomial, Polynomial, letters_of, symbol
from tfcalc.named_tuple import NamedTuple

COUNTS = ("n", "n_0", "n_e", "n_d")
"""Letters that count equal parts, such as layers: always first in a product."""

ORDER = (*COUNTS, "l", "s", "c", "b", "h", "a", "g", "d", "d_v", "f", "T", "V")
"""Order of letters in a product, from left to right."""

TABLES = ("T", "V")
"""Rows of a table: first in the size of a table (Vh), last in a matrix product (2lbhV)."""

WORKLOAD = ("l", "s", "c", "b")

MOST_WRITTEN = 1_000
"""Polynomials whose text is remembered."""

SCOPES = ("vis", "aud", "enc", "dec")
"""Suffixes of a nested model's letters: ``h_vis`` is the ``h`` of the vision model."""

NOTATIONS: dict[str, dict[str, str]] = {
    "lbhn": {},
    "bsld": {
        "b": "bs",
        "l": "L",
        "h": "d",
        "n": "N_l",
        "n_0": "N_0",
        "n_e": "N_e",
        "n_d": "N_d",
        "a": "h",
        "a_e": "h_e",
        "a_d": "h_d",
        "d": "d_h",
        "f": "d_ff",
    },
    "names": {
        "b": "batch_size",
        "l": "seq_len",
        "s": "source_len",
        "c": "cached_tokens",
        "h": "d_model",
        "n": "n_layers",
        "n_0": "dense_layers",
        "n_e": "encoder_layers",
        "n_d": "decoder_layers",
        "a": "n_heads",
        "a_e": "encoder_heads",
        "a_d": "decoder_heads",
        "g": "n_kv_heads",
        "d": "head_dim",
        "d_v": "value_dim",
        "d_n": "qk_nope_dim",
        "d_r": "qk_rope_dim",
        "r": "kv_rank",
        "r_q": "query_rank",
        "f": "d_ff",
        "f_e": "encoder_d_ff",
        "f_d": "decoder_d_ff",
        "f_x": "expert_d_ff",
        "f_s": "shared_expert_d_ff",
        "E": "n_experts",
        "E_s": "n_shared_experts",
        "k": "experts_per_token",
        "V": "vocab_size",
        "V_t": "target_vocab_size",
        "T": "max_len",
        "D": "max_distance",
        "B": "buckets",
    },
}
"""Other letters for the same sizes; those not named keep their own."""


def within(letter: str) -> tuple[str, str]:
    """Return the letter without its suffix, and the nested model that it belongs to (``""`` for none).

    >>> within("h_vis"), within("d_v"), within("h")
    (('h', 'vis'), ('d_v', ''), ('h', ''))
    """
    own, _, scope = letter.rpartition("_")
    return (own, scope) if scope in SCOPES and own else (letter, "")


def spelled(letter: str, notation: str) -> str:
    """Return the letter as a notation prints it, that of a nested model included.

    >>> spelled("h", "bsld"), spelled("h_vis", "bsld"), spelled("r_q", "bsld")
    ('d', 'd_vis', 'r_q')
    """
    others = NOTATIONS[notation]
    own, scope = within(letter)
    return others.get(letter) or (f"{others.get(own, own)}_{scope}" if scope else letter)


@cache
def counts(letter: str) -> bool:
    """Return whether a letter counts equal parts.

    >>> counts("n_e"), counts("n_vis"), counts("n_positions")
    (True, True, False)
    """
    return within(letter)[0] in COUNTS


@cache
def is_table(letter: str) -> bool:
    """Return whether a letter is a table's number of rows: ``V``, ``T_t``."""
    return _base(letter) in TABLES


@cache
def place(letter: str) -> int:
    """Return a letter's position in a product, by ``ORDER``; an indexed letter (``d_n``) goes with its base.

    >>> place("h") < place("h_vis") + 1 <= place("a_e") < place("d_n") < place("E")
    True
    """
    for known in (letter, within(letter)[0], _base(letter)):
        if known in ORDER:
            return ORDER.index(known)
    return len(ORDER)


def _base(letter: str) -> str:
    """Return a letter without its index (``d`` of ``d_n``); a whole word is returned as it is."""
    head, _, index = within(letter)[0].partition("_")
    return head if len(head) == 1 and len(index) <= 1 else letter


def wrap(formula: str, width: int) -> list[str]:
    """Break a printed formula into lines of at most ``width`` columns, each but the first beginning with its sign.

    Lines break at the ``+`` and ``-`` between terms; within a term wider than a line, at those inside its brackets.
    Names and products are not broken, so a line with a wide one is wider.

    >>> wrap("n(28h² + 32h) + (4 + 2V)h", 20)
    ['n(28h² + 32h)', '+ (4 + 2V)h']
    >>> wrap("n(28h² + 32h) + (4 + 2V)h", 12)
    ['n(28h²', '+ 32h)', '+ (4 + 2V)h']
    """
    lines: list[str] = []
    for piece in _pieces(formula, width):
        if lines and len(lines[-1]) + 1 + len(piece) <= width:
            lines[-1] += f" {piece}"
        else:
            lines.append(piece)
    return lines


def terms(formula: str) -> list[str]:
    """Return the terms of a printed sum, each but the first with its sign.

    >>> terms("n(28h² + 32h) - h")
    ['n(28h² + 32h)', '- h']
    """
    return _cut(formula, [index for index, depth in _signs(formula) if depth == 0])


def _pieces(formula: str, width: int) -> list[str]:
    """Return the pieces that are not broken: the terms that fit, and the inner terms of those that do not."""
    signs = _signs(formula)
    if len(formula) <= width or not signs:
        return [formula]
    outermost = min(depth for _, depth in signs)
    parts = _cut(formula, [index for index, depth in signs if depth == outermost])
    return [piece for part in parts for piece in _pieces(part, width)]


def _signs(formula: str) -> list[tuple[int, int]]:
    """Return the index of each plus or minus between two terms, and its depth in brackets."""
    signs, depth = [], 0
    for index, character in enumerate(formula):
        depth += (character in "(⌊") - (character in ")⌋")
        if formula[index - 1 : index + 2] in (" + ", " - "):
            signs.append((index, depth))
    return signs


def _cut(formula: str, places: list[int]) -> list[str]:
    return [formula[start:end].rstrip() for start, end in zip([0, *places], [*places, None], strict=True)]


class Script(NamedTuple):
    """Symbols of an output format; ``apart``: the sign for a product is printed between any two factors."""

    symbol: Callable[[str], str]
    power: Callable[[str, int], str]
    times: str
    floor: tuple[str, str]
    minimum: tuple[str, str] = ("min(", ")")
    cross: str = " × "
    apart: bool = False


def _superscript(base: str, power: int) -> str:
    return base + str(power).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))


def _latex_symbol(letter: str) -> str:
    if len(letter) == 1 or letter.isdigit():
        return letter
    head, _, index = letter.partition("_")
    return f"{head}_{{{index.replace('_', ',')}}}" if len(head) == 1 else r"\mathrm{" + letter.replace("_", r"\_") + "}"


UNICODE = Script(str, _superscript, "·", ("⌊", "⌋"))
ASCII = Script(str, lambda base, power: f"{base}^{power}", "*", ("floor(", ")"), cross=" x ")
LATEX = Script(
    _latex_symbol,
    lambda base, power: f"{base}^{{{power}}}",
    " ",
    (r"\left\lfloor ", r"\right\rfloor "),
    (r"\min(", ")"),
    r" \times ",
    apart=True,
)
LATEX_OF_NUMBERS = LATEX._replace(times=r" \cdot ")
SCRIPTS = {"text": UNICODE, "ascii": ASCII, "latex": LATEX}


def write(
    number: object,
    *,
    script: Script = UNICODE,
    letters: Mapping[str, str] | None = None,
    factored: bool | None = None,
) -> str:
    """Return a polynomial (or a plain number) as text.

    ``letters`` replace its own. ``factored`` takes out common factors; by default if a size of the workload occurs.

    >>> from tfcalc.core.polynomial import symbols
    >>> h, l, b, n, V = symbols("h l b n V")
    >>> write(n * (28 * h * h + 32 * h) + 4 * h + 2 * V * h)
    'n(28h² + 32h) + (4 + 2V)h'
    >>> write(8 * l * b * h * h + 4 * l * l * b * h)
    '4lbh(2h + l)'
    >>> write(12 * (n - 1) * l * b * h * (6 * h + l) + 2 * l * b * h * V)
    '12(n - 1)lbh(6h + l) + 2lbhV'
    """
    if not isinstance(number, Polynomial):
        return f"{number}"
    if factored is None:
        factored = not number.free_symbols.isdisjoint(WORKLOAD)
    return _written(tuple(number.terms.items()), script, frozenset((letters or {}).items()), factored)


@lru_cache(MOST_WRITTEN)
def _written(
    terms: tuple[tuple[Monomial, int], ...], script: Script, letters: frozenset[tuple[str, str]], factored: bool
) -> str:
    """The polynomial of these terms as text. A page has the same one in many of its tables."""
    writer = _Writer(script, dict(letters))
    group = writer.factored if factored else writer.collected
    return _added(group(count, rest) for count, rest in _merged(_by_count(Polynomial(dict(terms)))))


def write_product(
    factors: Iterable[object], *, script: Script = UNICODE, letters: Mapping[str, str] | None = None
) -> str:
    """Return factors with multiplication signs between them, sums in brackets.

    >>> from tfcalc.core.polynomial import symbols
    >>> h, n = symbols("h n")
    >>> write_product([n - 1, 4 * h, h])
    '(n - 1) × 4h × h'
    """
    written = [write(factor, script=script, letters=letters) for factor in factors]
    alone = len(written) == 1
    return script.cross.join(text if alone else bracketed(text) for text in written)


def write_tensor(
    factors: Iterable[Polynomial | int], *, script: Script = UNICODE, letters: Mapping[str, str] | None = None
) -> str:
    """Return a product that shows each factor: the number first, factors that are not a letter in brackets.

    >>> from tfcalc.core.polynomial import symbols
    >>> h, a, d, g = symbols("h a d g")
    >>> write_tensor([1, 2, h, g * d]), write_tensor([a * d, h]), write_tensor([3, h, h]), write_tensor([2, h, 4 * h])
    ('2h(gd)', '(ad)h', '3h·h', '2h(4h)')
    """
    number, pieces = 1, []
    for factor in factors:
        if isinstance(factor, Polynomial) and factor.free_symbols:
            written = write(factor, script=script, letters=letters)
            pieces.append(
                written if len(factor.free_symbols) == 1 and factor == symbol(*factor.free_symbols) else f"({written})"
            )
        else:
            number *= factor.terms.get((), 0) if isinstance(factor, Polynomial) else factor
    if len(pieces) == 1 and number == 1:
        return pieces[0].removeprefix("(").removesuffix(")") if pieces[0].startswith("(") else pieces[0]
    text = str(number) if number != 1 or not pieces else ""
    for before, piece in pairwise(["", *pieces]):
        apart = before and "(" not in (before[0], piece[0])
        text += (script.times if apart else "") + piece
    return text


def bracketed(formula: str) -> str:
    """Return a printed formula for use as a factor: in brackets if it is a sum or negative.

    >>> bracketed("n - 1"), bracketed("n(h + 1)")
    ('(n - 1)', 'n(h + 1)')
    """
    return f"({formula})" if formula.startswith("-") or len(terms(formula)) > 1 else formula


Group = tuple[Polynomial, Polynomial]
"""A count (n, n_e, …), and the polynomial that is counted."""


def _by_count(number: Polynomial) -> list[Group]:
    """Group the terms by their count (n, n_e, …)."""
    groups: dict[Monomial, dict[Monomial, int]] = {}
    for powers, factor in number.terms.items():
        count = tuple(item for item in powers if _counts(item[0]))
        rest = tuple(item for item in powers if not _counts(item[0]))
        groups.setdefault(count, {})[rest] = factor
    ranked = sorted(groups.items(), key=lambda group: (-len(group[0]), _rank_all(group[0])))
    return [(Polynomial({count: 1}), Polynomial(rest)) for count, rest in ranked]


def _merged(groups: list[Group]) -> list[Group]:
    """Merge groups whose terms are in proportion: ``n(4h² + 4h) - 4h² - 4h`` is ``4(n - 1)(h² + h)``."""
    if len(groups) == 1:
        return groups
    merged: list[Group] = []
    rest = list(groups)
    while rest:
        (count, number), *rest = rest
        shape, size = _primitive(number)
        shares = [_share(other, shape) for _, other in rest]
        if any(shares):
            count = count * size + sum(share * many for share, (many, _) in zip(shares, rest, strict=True))
            rest = [(many, other - shape * share) for share, (many, other) in zip(shares, rest, strict=True)]
            rest = [(many, other) for many, other in rest if other.terms]
            number = shape
        merged.append((count, number))
    return merged


def _primitive(number: Polynomial) -> tuple[Polynomial, int]:
    """Return a sum divided by its common integer factor (negative if all terms are), and that factor."""
    size = gcd(*number.terms.values())
    if all(factor < 0 for factor in number.terms.values()):
        size = -size
    return Polynomial({powers: factor // size for powers, factor in number.terms.items()}), size


def _share(number: Polynomial, shape: Polynomial) -> int:
    """Return k where ``k · shape`` has the terms of ``number``, else 0; a shape of one term must be all of it."""
    if not shape.free_symbols or len(shape.terms) == 1 != len(number.terms):
        return 0
    ratios = {divmod(number.terms.get(powers, 0), factor) for powers, factor in shape.terms.items()}
    ((share, left),) = ratios if len(ratios) == 1 else ((0, 0),)
    return 0 if left else share


def _added(texts: Iterable[str]) -> str:
    """Return the sum of texts, starting with a positive one if there is one."""
    ordered = list(texts)
    first = next((index for index, text in enumerate(ordered) if not text.startswith("-")), 0)
    ordered.insert(0, ordered.pop(first)) if ordered else ordered.append("0")
    return ordered[0] + "".join(f" - {text[1:]}" if text.startswith("-") else f" + {text}" for text in ordered[1:])


class _Writer(NamedTuple):
    script: Script
    letters: Mapping[str, str]

    def collected(self, count: Polynomial, rest: Polynomial) -> str:
        """Return ``n(12h² + 13h)``; without a count and with h in all terms: ``(4 + 2V)h``."""
        if len(rest.terms) == 1 or len(count.terms) > 1:
            return self.product(count, rest, shared=())
        if all(factor < 0 for factor in rest.terms.values()):
            text = self.collected(count, -rest)
            return f"-{text}" if len(terms(text)) == 1 else self.sum(rest)
        powers, shared = _only(count), _shared(rest)
        inner = _without(rest, shared)
        if [atom for atom, _ in shared] == ["h"] and "h" not in inner.free_symbols and () in inner.terms:
            return self.join([*self.powers(powers), self.bracketed(inner), *self.powers(shared)])
        if powers:
            return self.join([*self.powers(powers), self.bracketed(rest)])
        layers = gcd(*rest.terms.values())
        if len(rest.terms) > 2 and layers > 2:  # likely a number of equal layers: 58(…)
            return self.join([str(layers), self.bracketed(_without(rest, (), layers))])
        return self.sum(rest)

    def factored(self, count: Polynomial, rest: Polynomial) -> str:
        """Return a product with the common factors taken out: ``4nlbh(14h + 3l)``."""
        return self.product(count, rest, shared=_shared(rest))

    def product(self, count: Polynomial, rest: Polynomial, shared: Monomial) -> str:
        """Return number, count, ``shared`` letters, and the rest in brackets, as one product."""
        (many, size), (shape, factor) = _primitive(count), _primitive(rest)
        if len(count.terms) == len(rest.terms) == 1:
            return self.monomial(size * factor, (*_only(many), *_only(shape)))
        taken = [*self.bracketed_if_sum(many, shared), *self.bracketed_if_sum(_without(shape, shared), ())]
        number = size * factor
        sign, numeral = "-" if number < 0 else "", [str(abs(number))] if abs(number) != 1 else []
        if not numeral and taken in ([self.bracketed(many)], [self.bracketed(shape)]):  # a sum alone needs no brackets
            return self.sum(count * rest)
        return sign + self.join([*numeral, *taken])

    def bracketed_if_sum(self, number: Polynomial, shared: Monomial) -> list[str]:
        """Return its letters with those ``shared``; a sum in brackets, then these."""
        if len(number.terms) == 1:
            return self.powers((*_only(number), *shared))
        return [self.bracketed(number), *self.powers(shared)]

    def sum(self, number: Polynomial) -> str:
        ranked = sorted(number.terms.items(), key=lambda term: _rank(term[0]))
        return _added(self.monomial(factor, powers) for powers, factor in ranked)

    def bracketed(self, number: Polynomial) -> str:
        return f"({self.sum(number)})"

    def monomial(self, factor: int, powers: Monomial) -> str:
        above = self.powers(tuple(item for item in powers if item[1] > 0))
        below = self.powers(tuple((atom, -power) for atom, power in powers if power < 0))
        sign, size = ("-" if factor < 0 else ""), abs(factor)
        text = sign + self.join([*([] if size == 1 and above else [str(size)]), *above])
        if not below:
            return text
        several = sum(power < 0 for _, power in powers) > 1  # though they may be one piece
        return text + "/" + (f"({self.join(below)})" if several else below[0])

    def powers(self, powers: Monomial) -> list[str]:
        """Return its letters as pieces; as one piece with signs between them if they would read as a word."""
        pieces = [self.power(atom, power) for atom, power in _arranged(powers)]
        letters = [atom for atom, _ in powers if isinstance(atom, str)]
        if len(letters) > 2 and not self.script.apart and not all(map(_runs_together, letters)):
            return [self.script.times.join(pieces)]
        return pieces

    def divisor(self, number: Polynomial | int) -> str:
        """Return the divisor of a fraction: anything longer than a number or letter in brackets."""
        if isinstance(number, int):
            return str(number)
        text = self.sum(number)
        return text if list(number.terms.values()) == [1] and sum(map(len, number.terms)) == 1 else f"({text})"

    def join(self, pieces: list[str]) -> str:
        """Join pieces: letters side by side; longer names, numbers after the first piece, and LaTeX with a sign."""
        if self.script.apart:
            return self.script.times.join(pieces)
        text = pieces[0] if pieces else ""
        numeric = any(piece[0].isdigit() for piece in pieces[1:])
        for before, after in pairwise(pieces):
            (*first, last), (head, *rest) = self.factors(before), self.factors(after)
            signs = (rest and before[0].isalpha()) or (first and head[0].isalpha())
            apart = numeric or signs or _worded(last) or _worded(head)
            text += self.script.times * apart + after
        return text

    def factors(self, piece: str) -> list[str]:
        """Split a piece of several factors; a bracket is one factor."""
        return piece.split(self.script.times) if piece[0].isalpha() else [piece]

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


def _runs_together(letter: str) -> bool:
    """Return whether a letter needs no sign beside others, as papers write ``4nlbh``, ``2lbhV``."""
    own = within(letter)[0]
    return own in (*COUNTS, *WORKLOAD, "h", "f", "k") or (len(own) == 1 and own.isupper())


def _worded(piece: str) -> bool:
    """Return whether a piece begins with a word, of which a letter beside it would seem to be a part."""
    return piece[0].isalpha() and len(piece.rstrip("⁰¹²³⁴⁵⁶⁷⁸⁹^0123456789")) > 1


def _counts(atom: Atom) -> bool:
    """Return whether an atom counts equal parts: ``n``, and ``⌊n/2⌋``."""
    return counts(atom) if isinstance(atom, str) else all(map(counts, letters_of(atom)))


def _only(number: Polynomial) -> Monomial:
    """Return the monomial of a polynomial of one term."""
    (powers,) = number.terms
    return powers


def _place(atom: Atom) -> int:
    return place(atom) if isinstance(atom, str) else len(ORDER)


def _arranged(powers: Monomial) -> list[tuple[Atom, int]]:
    running = any(atom in WORKLOAD for atom, _ in powers)

    def key(item: tuple[Atom, int]) -> tuple[bool, int, bool, str]:
        atom = item[0]
        first = _counts(atom) or (not running and isinstance(atom, str) and is_table(atom))
        return (not first, _place(atom), not isinstance(atom, str), str(atom))

    return sorted(powers, key=key)


def _rank(powers: Monomial) -> tuple[int, ...]:
    """Sort key of terms: falling powers of h, then of the other symbols; rising powers of a table's rows."""
    exponents: dict[int, int] = {}
    for atom, power in powers:
        exponents[_place(atom)] = exponents.get(_place(atom), 0) + power
    return (
        *(-exponents.get(index, 0) for index in FIRST),
        *(exponents.get(index, 0) for index in LAST),
        -exponents.get(len(ORDER), 0),
        -sum(power for atom, power in powers if atom in ORDER),
    )


LAST = tuple(ORDER.index(letter) for letter in TABLES)
FIRST = (ORDER.index("h"), *(index for index, letter in enumerate(ORDER) if letter not in ("h", *TABLES)))


def _rank_all(powers: Monomial) -> tuple[int, ...]:
    return tuple(_place(atom) for atom, _ in powers)


def _shared(number: Polynomial) -> Monomial:
    """The monomial that divides every term."""
    monomials = [dict(powers) for powers in number.terms]
    lowest = {atom: min(powers.get(atom, 0) for powers in monomials) for atom in monomials[0]}
    return tuple((atom, power) for atom, power in lowest.items() if power > 0)


def _without(number: Polynomial, shared: Monomial, factor: int = 1) -> Polynomial:
    inverse = Polynomial({tuple((atom, -power) for atom, power in shared): 1})
    divided = number * inverse
    return Polynomial({powers: size // factor for powers, size in divided.terms.items()})
