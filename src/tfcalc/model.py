"""Protocols of models and workloads: what every model can do, whatever its family.

Models and workloads with symbols instead of sizes, and the letters of sizes: ``h`` instead of 512.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, cast

from tfcalc.core.component import Component
from tfcalc.core.notation import spelled
from tfcalc.core.number import Num
from tfcalc.core.polynomial import symbol
from tfcalc.core.traced import Guards, guarded, traced, value_of
from tfcalc.dimensions import Dimension
from tfcalc.errors import UsageError, nearest
from tfcalc.printable import quoted
from tfcalc.workload import UnsaidLength, Workload

if TYPE_CHECKING:
    from tfcalc.nn.module import Module


class Sized(Protocol):
    """A model or a workload: sizes with a letter each."""

    def dimensions(self) -> dict[str, Dimension]:
        """Return all sizes, by name."""
        ...

    def values(self) -> dict[str, Num]:
        """Return the value of each letter, of the sizes that were given or assumed."""
        ...

    def replaced(self, **sizes: Num) -> Self:
        """Return a copy with other sizes, by name."""
        ...

    def also_called(self, name: str, /) -> tuple[str, ...]:
        """Return other names of the size of this name."""
        ...

    def places(self, name: str, /) -> list[str]:
        """Return the sizes that change with this one: for layers, those of both stacks. Raises UsageError."""
        ...

    def described(self) -> dict[str, object]:
        """Return its fields as in the JSON, including sizes that follow from others."""
        ...


class Model(Sized, Protocol):
    """A model with a component tree and a module: a Transformer by its fields, or a config.json."""

    @property
    def longest(self) -> Num | None:
        """Longest sequence that it can read; None without a limit."""
        ...

    @property
    def usual_length(self) -> int:
        """Tokens of a sequence where none are asked for, if the model can read as many."""
        ...

    @property
    def summary(self) -> str:
        """Description of the model in a few words."""
        ...

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions about values that were not given, a sentence each."""
        ...

    def tree(self, workload: Workload) -> Component:
        """Return the component tree on this workload."""
        ...

    def module(self) -> Module:
        """Return the model as a module that runs."""
        ...

    @property
    def left_out(self) -> tuple[str, ...]:
        """Warnings about sizes that nobody gave."""
        ...

    def remarks(self, workload: Workload) -> tuple[str, ...]:
        """Return notes on the model on this workload, a sentence each."""
        ...

    def check(self, workload: Workload) -> None:
        """Raise InvalidModel if the model, or the model on this workload, is invalid."""
        ...

    def with_vocabulary(self, vocabulary: Num) -> Self:
        """Return the model with this vocabulary, if it has none of its own."""
        ...


def default_run(model: Model) -> Workload:
    """Return a workload of one sequence of the model's usual length, or of as many tokens as it can read."""
    return Workload(seq_len=default_length(model))


def default_length(model: Model) -> int:
    """Return the tokens of a sequence where none are asked for: the usual ones, or as many as the model can read."""
    return shortened(model.usual_length, model)


def shortened(length: int, model: Model) -> int:
    """Return the length in tokens, or the longest that the model was made for, where that is known and less."""
    return min(length, model.longest) if isinstance(model.longest, int) else length


def own_run(model: Model, workload: Workload | None) -> Workload:
    """Return the workload that was asked for, with the model's usual length where none was given; or the default."""
    usual = default_run(model)
    if workload is None:
        return usual
    return workload.replaced(seq_len=usual.seq_len) if isinstance(workload.seq_len, UnsaidLength) else workload


def asked_run(model: Model, workload: Workload | None) -> Workload:
    """Return that, where a token is decoded over as many as are asked for."""
    workload = own_run(model, workload)
    return workload.replaced(cached=workload.seq_len) if workload.decoding and workload.cached is None else workload


T = TypeVar("T", bound="Sized")


def with_symbols(described: T, make: Callable[[str], Num] = symbol, *, general: bool = False) -> T:
    """Return a model or workload with a symbol for every size that was given or assumed.

    A size that follows from others still follows from them (``d_ff = 4h``), unless ``general`` gives it a symbol of its
    own. ``make`` turns a letter into a symbol: tfcalc's own by default, or ``sympy.Symbol``.

    >>> from tfcalc.workload import Workload
    >>> with_symbols(Workload(batch_size=8)).batch_size
    b
    """
    present = described.values()
    symbolic = {
        name: make(known.symbol)
        for name, known in described.dimensions().items()
        if known.symbol in present or (general and known.follows)
    }
    return described.replaced(**symbolic)


def remembering(described: T, *, widths: bool = False) -> T:
    """Return a model or workload with Traced sizes, so that all results have a value and a closed form.

    With ``widths`` sizes that follow from others by arithmetic (``d = h/a``, ``f = 4h``) have letters of their own.

    >>> from tfcalc.workload import Workload
    >>> remembering(Workload(batch_size=8)).target.tokens
    4096 = b*l
    """
    if widths:
        sizes, given = described.described(), described.values()
        apart = {
            name: cast("int", sizes[name])
            for name, known in described.dimensions().items()
            if len(known.follows) > 1 and known.symbol not in given
        }
        described = described.replaced(**apart)
    known = described.values()
    return with_symbols(described, lambda letter: traced(letter, value_of(known[letter])))


def guarding(described: T, guards: Guards) -> T:
    """Return a model or workload with Guarded sizes, whose comparisons are recorded in ``guards``."""
    known = described.values()
    return with_symbols(described, lambda letter: guarded(letter, value_of(known[letter]), guards))


def values(*described: Sized) -> dict[str, Num]:
    """Return the value of each symbol, ``{"h": 512, …}``, of the sizes that were given or assumed.

    >>> from tfcalc.workload import Workload
    >>> values(Workload(batch_size=8, seq_len=1024))
    {'b': 8, 'l': 1024}
    """
    return {letter: value for sized in described for letter, value in sized.values().items()}


def spellings(*described: Sized, notation: str = "lbhn") -> dict[str, str]:
    """Return the letter of each size, by all its names: its field, its options, and its letter in a notation.

    >>> from tfcalc.workload import Workload
    >>> known = spellings(Workload(), notation="bsld")
    >>> known["L"], known["seq_len"], known["seq"], "l" in known
    ('l', 'l', 'l', False)
    """
    sizes = [(sized, name, size) for sized in described for name, size in sized.dimensions().items()]
    return {
        called: size.symbol
        for sized, name, size in sizes
        for called in (name, *sized.also_called(name), *(flag.strip("-").replace("-", "_") for flag in size.flags))
    } | {spelled(size.symbol, notation): size.symbol for _, _, size in sizes}


def letters(names: Iterable[str], *described: Sized, notation: str = "lbhn") -> dict[str, str]:
    """Return the letter of each of these sizes, given by name or by the letter of a notation.

    Raises UsageError for one that is no size, with this notation's letter if another notation's is given.

    >>> from tfcalc.workload import Workload
    >>> letters(["batch_size", "l"], Workload()), letters(["L"], Workload(), notation="bsld")
    ({'batch_size': 'b', 'l': 'l'}, {'L': 'l'})
    """
    known = spellings(*described, notation=notation)
    own = {size.symbol for sized in described for size in sized.dimensions().values()}
    for name in names:
        if name in known:
            continue
        if name in own:
            raise UsageError(f"{name!r} is no letter of notation {notation}", f"write {spelled(name, notation)}")
        raise UsageError(f"symbol {name!r} is not known", nearest(name, known))
    return {name: known[name] for name in names}


def own_letters(others: Mapping[str, str], *described: Sized, notation: str = "lbhn") -> dict[str, str]:
    """Return the user's own letter for each letter, ``{"h": "d"}``, from sizes by name or by letter of a notation.

    Raises UsageError for an unknown size, and if an own letter is no letter or is given two times.

    >>> from tfcalc.workload import Workload
    >>> own_letters({"seq": "n", "b": "B"}, Workload())
    {'l': 'n', 'b': 'B'}
    """
    by_name = letters(others, *described, notation=notation)
    for other in others.values():
        if not re.fullmatch(LETTER, other):
            raise UsageError(f"{quoted(other)} cannot be a letter", "write letters as h=d,l=n")
        if list(others.values()).count(other) > 1:
            raise UsageError(f"{quoted(other)} is given for two sizes", "give each a letter of its own")
    own = {by_name[name]: other for name, other in others.items()}
    if len(own) < len(others):
        raise UsageError(f"{' and '.join(map(quoted, others))} name one size twice", "give it one letter")
    return own


LETTER = "[A-Za-zα-ωΑ-Ω][A-Za-zα-ωΑ-Ω0-9_]*"


def legend(used: frozenset[str], *described: Sized) -> dict[str, str]:
    """Return the meaning of each of these letters, in the order of the fields."""
    sizes = [size for sized in described for size in sized.dimensions().values()]
    return {size.symbol: size.meaning for size in sizes if size.symbol in used}
