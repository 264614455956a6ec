"""Reading of what somebody typed for ``check``: a number with unit and precision, or a formula with sizes put in."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from tfcalc.analysis.common import subject
from tfcalc.analysis.quantities import QUANTITIES
from tfcalc.analysis.remarks import needs_tokens
from tfcalc.analysis.six_nd import Counted, counted
from tfcalc.analysis.targets import find
from tfcalc.analysis.why import given
from tfcalc.analysis.why.given import BYTES_UNIT, FLOPS, PARAMS, WrittenNumber
from tfcalc.core.measure import active_params
from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.core.traced import value_of
from tfcalc.dimensions import MOST_TOKENS, check_size
from tfcalc.errors import UsageError
from tfcalc.expressions import Ratio, settled
from tfcalc.model import with_symbols
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.report import polynomial
from tfcalc.workload import Conventions, Workload

if TYPE_CHECKING:
    from tfcalc.analysis.closed_form import Formula
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.report.explanation import Line

NOTHING, ONE = Ratio(Polynomial({})), Ratio(Polynomial({(): 1}))

UNITS = {BYTES_UNIT: ("memory",), FLOPS: ("flops",), PARAMS: ("params", "trainable")}
"""The quantities that a unit is of."""


def number_in(text: str, of: str, letters: Collection[str]) -> WrittenNumber | None:
    """The number that a text is, with its unit and precision; None where it is a formula.

    A letter of the right formula is no prefix: ``4k`` is 4·k where that has a k. Raises UsageError for a unit of
    another quantity.

    >>> number_in("168.4MiB", "memory", ()).readings[0].takes(Fraction(176_562_176)), number_in("4h", "params", "h")
    (True, None)
    """
    try:
        number = given.read(text)
    except UsageError:
        return None
    if number.text.lstrip("0123456789,_.~≈ ") in letters:
        return None
    if number.unit and of not in UNITS[number.unit]:
        wanted, *_ = UNITS[number.unit]
        raise UsageError(f"{quoted(text)} is in {QUANTITIES[wanted]}, not in {QUANTITIES[of]}", f"add --of {wanted}")
    return number


BY_THUMB = re.compile(r"([26]?)[*·]?N[*·]?D")


def by_thumb(text: str) -> str:
    """The factor of a rule of thumb, 6 of ``6 N D``; "1" where it has none, and "" of any other text.

    >>> by_thumb(" 6 * N D "), by_thumb("ND"), by_thumb("4h")
    ('6', '1', '')
    """
    found = BY_THUMB.fullmatch("".join(text.split()))  # in one pass, however much space there is
    return (found[1] or "1") if found else ""


def said_of(text: str) -> str:
    """The quantity that a formula or a number says itself to be of; "" where it says none.

    >>> said_of("6ND"), said_of("168.4MiB"), said_of("4h"), said_of("24lbh²")
    ('flops', 'memory', '', 'flops')
    """
    if by_thumb(text):
        return "flops"
    try:
        unit = given.read(text).unit
    except UsageError:
        return "flops" if _has_tokens(text) else ""
    return UNITS[unit][0] if unit else ""


def _has_tokens(text: str) -> bool:
    """Return whether a formula has batch and length among its letters, which no parameters have."""
    letters = {letter for word in re.findall(r"[A-Za-z_]+", text) if len(word) <= SIZES for letter in word}
    return "b" in letters and bool(letters & {"l", "s"})


SIZES = 4
"""Letters that sizes have side by side; a longer word is a name."""


def rounds_to(value: Ratio, number: WrittenNumber) -> bool:
    """Return True if a value is written so, rounded to as many digits; a number in full is no other."""
    exactly = as_fraction(value)
    return exactly is not None and any(one.takes(exactly) for one in number.readings if one.cost == given.ROUNDED)


def as_fraction(value: Ratio) -> Fraction | None:
    """The number that it is; None where it has letters."""
    return None if value.top.free_symbols else Fraction(value.top.terms.get((), 0), value.bottom)


def put_in(form: Polynomial, sizes: Mapping[str, int]) -> Ratio:
    """The form with numbers in the place of some letters; a quotient stays exact.

    >>> from tfcalc.core.polynomial import symbols
    >>> h, t = symbols("h t")
    >>> put_in(10 * h + 24 * h / t, {"t": 16})
    Ratio(top=23*h, bottom=2)
    """
    found = Ratio(Polynomial({}))
    for powers, factor in form.terms.items():
        known, left = Fraction(factor), Polynomial({(): 1})
        for atom, power in powers:
            if not isinstance(atom, str):
                for _ in range(power):
                    left = left * settled(Polynomial({((atom, 1),): 1}).at(sizes) * Polynomial({(): 1}))
            elif atom in sizes:
                known *= Fraction(sizes[atom]) ** power
            else:
                left = left * Polynomial({((atom, power),): 1})
        found = found + Ratio(left).times(known)
    return found


def of_number(value: Fraction) -> Ratio:
    """The number as a form without letters."""
    return Ratio.of(Polynomial({(): value.numerator}), value.denominator)


RUN_TOKENS = "D"
"""The letter of the tokens of a whole training run."""


def step_of_a_run(run: Workload, of: str, tokens: int) -> Workload:
    """The step that a training run consists of. Raises UsageError where the workload is none."""
    check_size("tokens", tokens, most=MOST_TOKENS)
    if of != "flops" or not run.training:
        what = f"a run of {tokens:,} tokens is made of the FLOPs of training steps"
        raise UsageError(what, "add --of flops --train, or leave --tokens out")
    return run.replaced(convolutions="run")


class RightForm(NamedTuple):
    """The right formula with the meaning of its letters, their sizes, and its value where that is not theirs.

    ``forgotten`` are the letters that a text lacks for a mistake where their size is 1, as that of a batch.
    """

    form: Polynomial
    legend: dict[str, str]
    sizes: dict[str, int]
    forgotten: frozenset[str]
    value: int | None = None
    scale: Ratio = ONE

    @classmethod
    def of(cls, own: Formula, model: Model, run: Workload, tokens: int | None) -> RightForm:
        """The form of a step or, of ``tokens`` in all, of a run."""
        form, legend, sizes = settled(own.closed), dict(own.legend), dict(own.sizes)
        sized = frozenset(size.symbol for one in (model, run) for size in one.dimensions().values())
        if tokens is None:
            return cls(form, legend, sizes, sized, own.value)
        needs_tokens(own.conventions, "a training run")
        step = polynomial(with_symbols(run).target.tokens)
        scale = Ratio(symbol(RUN_TOKENS) / step)
        legend |= {RUN_TOKENS: "tokens of the run"}
        return cls(form * scale.top, legend, sizes | {RUN_TOKENS: tokens}, sized, scale=scale)

    def at(self, sizes: Mapping[str, int]) -> Ratio:
        """The form with these sizes put in; of all letters its value."""
        if self.value is not None and sizes and sizes.keys() >= self.form.free_symbols & self.sizes.keys():
            return of_number(Fraction(self.value))
        return put_in(self.form, sizes)

    def could_put(self, yours: Ratio) -> dict[str, int]:
        """The sizes of the letters that a formula lacks; nothing where it just lacks a batch of 1."""
        sizes = {letter: self.sizes[letter] for letter in self._lacking(yours) if letter in self.sizes}
        meant = any(size != 1 or letter not in self.forgotten for letter, size in sizes.items())
        return sizes if meant or not yours.top.free_symbols else {}

    def put_in(self, yours: Ratio) -> dict[str, int]:
        """The sizes that a formula has as numbers: all of them in a number, else those that make it right.

        The sizes of a plan, such as the degree of tensor parallelism, are put in where the text has no letter for them.

        Raises UsageError for a number where a size is not known.
        """
        sizes, lacking = self.could_put(yours), self._lacking(yours)
        if yours.top.free_symbols or not lacking:
            planned = {letter: size for letter, size in sizes.items() if letter not in self.forgotten}
            return sizes if self.at(sizes) == yours else planned
        unknown = [letter for letter in lacking if letter not in sizes]
        if unknown and self.value is None:
            meanings = " and ".join(self.legend.get(letter, letter) for letter in unknown)
            remedy = "give it (--vocab-size 32000), or check a formula" if "V" in unknown else "check a formula"
            raise UsageError(f"a number can only be right where all sizes are known, and {meanings} is not", remedy)
        return sizes

    def _lacking(self, yours: Ratio) -> list[str]:
        used = self.form.free_symbols
        return [
            letter
            for letter in (*self.legend, *sorted(used - self.legend.keys()))
            if letter in used - yours.top.free_symbols
        ]

    def line(self, line: Line, sizes: Mapping[str, int], *, whole_number: bool) -> Ratio:
        """One item of its sum, with these sizes put in; of a ``whole_number`` its value."""
        form = Polynomial({(): line.value}) if whole_number else settled(line.formula)
        return put_in(form * self.scale.top, self.sizes if whole_number else sizes)

    def off(self, yours: Ratio) -> float | None:
        """The relative difference from the right one, with all sizes put in; None where one of them is not known."""
        right, here = (as_fraction(one) for one in (self.at(self.sizes), put_in(yours.top, self.sizes)))
        return None if not right or here is None else float(here / yours.bottom / right - 1)


class RuleLetters(NamedTuple):
    """The letters of 6ND: N, the active parameters, and D, the tokens; each as a form, and as a number.

    N is ``counted`` with the tables of embeddings and without; ``factor`` is 6 of training, else 2.
    """

    params: Polynomial
    tokens: Polynomial
    counted: Counted
    read: int
    factor: int

    @property
    def letters(self) -> dict[str, Polynomial]:
        """Forms that the letters stand for."""
        return {"N": self.params, RUN_TOKENS: self.tokens}

    def letters_beside(self, taken: Collection[str]) -> dict[str, Polynomial]:
        """Forms of the letters that mean nothing else already."""
        return {letter: form for letter, form in self.letters.items() if letter not in taken or form == symbol(letter)}

    def behind(self, number: WrittenNumber) -> int | None:
        """The N with which the rule gives this number; None where it does not."""
        products = ((n, of_number(Fraction(self.factor * n * self.read))) for n in self.counted)
        return next((n for n, flops in products if rounds_to(flops, number)), None)

    def sizes(self, n: int) -> str:
        """``N = 124,439,808 and D = 1,024``."""
        return f"N = {n:,} and D = {self.read:,}"


def rule_of_thumb(
    target: str, model: Model, run: Workload, training: Training | None, tokens: int | None, *, general: bool
) -> RuleLetters:
    """The rule of one part: its own parameters, and the tokens of the workload or of a whole run."""
    asked = subject(model, run, Conventions(), training, QUANTITIES["flops"], general=general)
    numbers, forms = asked.twins
    node, twin = find(numbers, target), find(forms, target)
    read = polynomial(with_symbols(run, general=general).target.tokens) if tokens is None else symbol(RUN_TOKENS)
    return RuleLetters(
        polynomial(twin.component.each(active_params)),
        read,
        counted(node.component._replace(copies=1)),
        value_of(run.target.tokens) if tokens is None else tokens,
        6 if run.training else 2,
    )


def rounded_from(yours: Ratio, right: Polynomial) -> Polynomial | None:
    """The terms of the right form that yours are, with coefficients rounded to fewer figures; None where they are not.

    >>> from tfcalc.core.polynomial import symbol
    >>> h = symbol("h")
    >>> rounded_from(Ratio(10 * h * h), 12 * h * h + 13 * h)
    12*h^2
    """
    mine = yours.top.terms
    if yours.bottom != 1 or not mine or not mine.keys() <= right.terms.keys():
        return None
    own = {powers: right.terms[powers] for powers in mine}
    fewer = all(own[powers] == factor or _rounded(own[powers], factor) for powers, factor in mine.items())
    return Polynomial(own) if fewer and own != mine else None


def _rounded(exactly: int, said: int) -> bool:
    digits = str(abs(said))
    scale: int = 10 ** (len(digits) - len(digits.rstrip("0")))
    return scale > 1 and abs(exactly - said) * 2 <= scale
