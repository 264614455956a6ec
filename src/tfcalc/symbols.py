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
    """A model or workload with a symbol for every size.

    A size that follows from others keeps following from them (``d_ff = 4h``), unless ``general`` asks for a symbol of
    its own. ``make`` turns a letter into a symbol: tfcalc's own by default, or ``sympy.Symbol``.

    >>> from tfcalc.workload import Workload
    >>> with_symbols(Workload(batch_size=8)).batch_size
    b
    """
    given = {
        name: make(known.symbol)
        for name, known in dimensions(described).items()
        if getattr(described, name) is not None or (general and name in _FREE)
    }
    return replace(described, **given)  # type: ignore[type-var]  # T is a dataclass


_FREE = ("d_ff", "head_dim", "value_dim", "n_kv_heads", "encoder_layers", "decoder_layers", "source_len")
"""Sizes that follow from others by default, and may always be had apart."""


def values(*described: Any) -> dict[str, Num]:
    """What each symbol stands for: ``{"h": 512, …}``.

    >>> from tfcalc.workload import Workload
    >>> values(Workload(batch_size=8, seq_len=1024))
    {'b': 8, 'l': 1024}
    """
    return {
        known.symbol: getattr(one, name)
        for one in described
        for name, known in dimensions(one).items()
        if getattr(one, name) is not None
    }


def dimensions(described: Any) -> dict[str, Dimension]:
    """The sizes of a model or workload, by field name."""
    return {item.name: known for item in fields(described) if isinstance(known := facet(item), Dimension)}


def legend(letters: frozenset[str], *described: Any) -> dict[str, str]:
    """What each of these letters means, in the order of the fields."""
    return {
        known.symbol: known.meaning.partition(" [")[0]
        for one in described
        for known in dimensions(one).values()
        if known.symbol in letters
    }
