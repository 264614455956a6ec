"""The answer of ``formula``: a closed form with its legend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfcalc.core.number import Num
from tfcalc.core.polynomial import Polynomial
from tfcalc.errors import UsageError, nearest
from tfcalc.printable import quoted
from tfcalc.report import declared
from tfcalc.report.declared import HEAD, TOGETHER, Answer, Key, When, as_field, by_name, shared, some_conventions
from tfcalc.report.sheet import Column, Factors, Matrices, Order, Sheet, for_people
from tfcalc.report.style import Style

PLAIN = Style()


@dataclass(frozen=True, kw_only=True, repr=False)
class ClosedForm(Answer):
    """Base of the closed form of a part, and of those of all parts: ``text`` writes the form of the whole."""

    command = "formula"
    about = (
        "The closed form of a quantity; without a target that of the complete model's parameters, and of every part."
    )

    target = declared.text("the target as it was asked for", lambda found: found.whole.target, place=HEAD)
    path = declared.text("path of the component, or the term", lambda found: found.whole.path, place=HEAD)
    of = declared.text("quantity: params, trainable, flops, memory or time", lambda _: "params", place=HEAD)
    model: Key[Mapping[str, object]] = shared("model", place=HEAD)
    conventions: Key[Mapping[str, object]] = some_conventions(place=HEAD)
    formula = shared("formula", lambda found: found.text(PLAIN))
    ascii = declared.text("the same in ASCII", lambda found: found.text(Style(script="ascii")))
    latex_ = declared.text("the same in LaTeX", lambda found: found.text(Style(script="latex")))
    legend: Key[Mapping[str, str]] = by_name("string", "what each letter means", place=TOGETHER)

    def text(self, style: Style = PLAIN) -> str:
        """The form as one line."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, repr=False)
class Formula(ClosedForm):
    """The answer of :func:`~tfcalc.formula`: a closed form.

    Attributes:
        target: the part, as it was asked for.
        of: ``params``, ``trainable``, ``flops``, ``memory`` or ``time``.
        title: the quantity, in words.
        closed: the form as an exact polynomial.
        order: whether ``closed`` is only the asymptotic growth, to be read as O(…).
        legend: the meaning of each letter.
        notes: the definitions that it rests on.
        letters: the letters that were given in the place of some of these.
        matrices: the same form matrix by matrix, where it was asked for so.
        sympy: the same as sympy writes it, where that was asked for.
        sizes: the value of each letter that was given or assumed.
        value: the number at these sizes, of a term of memory.
    """

    target: Key[str] = as_field(ClosedForm.target)
    path: Key[str] = as_field(ClosedForm.path)
    of: Key[str] = as_field(ClosedForm.of)
    sympy: Key[str] = declared.text("the same as sympy writes it; with --sympy", when=When(lambda found: found.sympy))
    title: str
    closed: Polynomial
    order: bool
    notes: tuple[str, ...] = ()
    letters: Mapping[str, str] = field(default_factory=dict)
    matrices: tuple[Factors, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    value: int | None = None

    @property
    def subject(self) -> str:
        """The quantity, and what it is of."""
        return f"{self.title} of {self.target}"

    def at(self, **sizes: Num) -> Any:
        """Its value at these sizes, given by the letters of its legend: ints give an exact int, arrays an array.

        A size that is not given stays a symbol. Raises UsageError for a letter that does not occur in it, or a number
        that is not whole.

        >>> from tfcalc import formula
        >>> formula("core").at(h=512, n=6)
        44140544
        """
        for letter, size in sizes.items():
            if letter not in self.legend:
                raise UsageError(f"{letter!r} does not occur in {self}", nearest(letter, self.legend))
            if size is None or isinstance(size, float | str | bytes):
                raise UsageError(f"{letter} = {quoted(size)} is no size", "give an int, or an array of them")
        return self.closed.at(sizes)

    def cell(self) -> Polynomial | Order | Matrices:
        """The formula as a cell of a table."""
        if self.matrices:
            return Matrices(self.matrices)
        return Order(self.closed) if self.order else self.closed

    def text(self, style: Style = PLAIN) -> str:
        """The formula as one line."""
        return for_people(self.cell(), style._replace(letters=self.letters))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def __str__(self) -> str:
        return self.text()

    def latex(self) -> str:
        """The formula for math mode: ``4 h^{2} + 4 h``."""
        return self.text(Style(script="latex"))

    _repr_html_ = None  # type: ignore[assignment]  # notebooks show the LaTeX

    def _repr_latex_(self) -> str:
        return f"${self.latex()}$"

    def sheet(self) -> Sheet:
        """One row: the formula, or the number that it is once all symbols are; its legend below."""
        known = not (self.order or self.matrices or self.closed.free_symbols)
        cell = self.closed.terms.get((), 0) if known else self.cell()
        return Sheet(
            title=f"{self.title} of {self.target}" + (f" ({self.path})" if self.path != self.target else ""),
            columns=[Column("formula", numeric=False)],
            rows=[[cell]],
            quiet=cell,
            notes=self.notes,
            legend=self.legend,
            letters=self.letters,
        )
