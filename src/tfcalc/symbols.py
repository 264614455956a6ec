"""From sizes to symbols and back: the same model with ``h`` where it has 512."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

from tfcalc.core.number import Num
from tfcalc.core.polynomial import symbol
from tfcalc.dimensions import Dimension, facet

T = TypeVar("T")


def with_symbols(described: T, make: Callable[[str], Any] = symbol, *, general: bool = False) -> T:
    """A model or workload with a symbol for every size that was given or assumed.

    A size that follows from others keeps following from them (``d_ff = 4h``), unless ``general`` asks for a symbol of
    its own. ``make`` turns a letter into a symbol: tfcalc's own by default, or ``sympy.Symbol``.

    >>> from tfcalc.workload import Workload
    >>> with_symbols(Workload(batch_size=8)).batch_size
    b
    """
    present = values(described)
    symbolic = {
        name: make(known.symbol)
        for name, known in dimensions(described).items()
        if known.symbol in present or (general and known.follows)
    }
    return replace(described, **symbolic)  # type: ignore[type-var]  # T is a dataclass


def values(*described: Any) -> dict[str, Num]:
    """What each symbol stands for: ``{"h": 512, …}``, of the sizes that were given or assumed.

    >>> from tfcalc.workload import Workload
    >>> values(Workload(batch_size=8, seq_len=1024))
    {'b': 8, 'l': 1024}
    """
    return {
        known.symbol: value
        for one in described
        for name, known in dimensions(one).items()
        if (value := one.assumed.get(name) if getattr(one, name) is None else getattr(one, name)) is not None
    }


def dimensions(described: Any) -> dict[str, Dimension]:
    """The sizes of a model or workload, by field name."""
    return {item.name: known for item in fields(described) if isinstance(known := facet(item), Dimension)}


def legend(letters: frozenset[str], *described: Any) -> dict[str, str]:
    """What each of these letters means, in the order of the fields."""
    return {
        known.symbol: known.meaning
        for one in described
        for known in dimensions(one).values()
        if known.symbol in letters
    }
