"""Quantities that can be asked of a part: parameters, FLOPs, bytes, or the growth of the time it takes."""

from __future__ import annotations

from typing import Any

from tfcalc.core.component import Measure
from tfcalc.core.measure import flops_of, held_bytes, params, steps, trainable_params
from tfcalc.core.number import product
from tfcalc.core.polynomial import Atom, Floor, Minimum, Monomial, Polynomial, symbol
from tfcalc.errors import one_of
from tfcalc.workload import Conventions, Workload

QUANTITIES = {
    "params": "parameters",
    "trainable": "trainable parameters",
    "flops": "FLOPs",
    "memory": "bytes",
    "time": "time",
}
"""What each is called in print."""

OTHER_WORDS = {
    "parameters": "params",
    "parameter": "params",
    "flop": "flops",
    "bytes": "memory",
    "complexity": "time",
    "time-complexity": "time",
}
"""What people type for them."""


def measure_of(of: str, run: Workload, by: Conventions) -> Measure:
    """Return the measure of a quantity on this workload, by these definitions. Raises UsageError for an unknown one."""
    match one_of("quantity", of, QUANTITIES):
        case "params":
            return params
        case "trainable":
            return trainable_params
        case "flops":
            return flops_of(run.training, by.count == "all")
        case "memory":
            return held_bytes(by.bits)
        case _:
            return steps


HEADS = ("a", "g")
"""A model has at most as many heads as it is wide, so that in a bound h may stand for them."""

WIDTHS = ("d", "d_v")
"""But not where heads have a width of their own: a·d is about h, and h·d would be far above it."""


REACH = "k"
"""Of a pattern of attention (or the experts of a token): no larger than the sequence."""

SLACK = "slack of "
"""What a floor leaves out, less than 1: l - k·⌊l/k⌋ grows like k, for l cancels."""


def growth(number: Polynomial, *, with_batch: bool = False, bound_heads: bool = True) -> Polynomial:
    """Return the growth of a closed form: the terms that no other term outgrows, without their factors.

    It is that of one sequence, or of the whole batch (``with_batch``). Heads are bounded by the width, unless they are
    to be distinguished.

    ``12nlh² + 4nl²h + 6nl²a + 13nlh`` grows like ``n(lh² + l²h)``: a ≤ h, and lh is outgrown by lh². A pattern of
    attention reaches no further than the sequence, k ≤ l: l²/k outgrows l.

    >>> from tfcalc.core.polynomial import symbols
    >>> h, l, a, b = symbols("h l a b")
    >>> growth(8 * b * l * h * h + 4 * b * l * l * h + 5 * b * l * l * a + 3 * b * l * h) == l * h * h + l * l * h
    True
    """
    plain = _unfloored(number)
    grown = dict.fromkeys(  # in their order: that of a set would be another one in the next process
        _bounded(powers, plain.free_symbols, with_batch=with_batch, bound_heads=bound_heads) for powers in plain.terms
    )
    return Polynomial({powers: 1 for powers in grown if not any(_outgrows(other, powers) for other in grown)})


def _bounded(powers: Monomial, letters: frozenset[str], *, with_batch: bool, bound_heads: bool) -> Monomial:
    """Without the batch, unless it is asked for, and with every head count replaced by what bounds it."""
    bound_of_heads = "h" if letters.isdisjoint(WIDTHS) else "a"
    exponents: dict[Atom, int] = {}
    for atom, power in powers:
        if (with_batch or atom != "b") and not str(atom).startswith(SLACK):
            bound = bound_of_heads if bound_heads and atom in HEADS and power > 0 else atom
            exponents[bound] = exponents.get(bound, 0) + power
    return tuple(sorted(((atom, power) for atom, power in exponents.items() if power), key=str))


def _outgrows(other: Monomial, powers: Monomial) -> bool:
    larger, smaller = dict(other), dict(powers)
    spare = {atom: larger.get(atom, 0) - smaller.get(atom, 0) for atom in (*smaller, REACH)}
    missing = min(spare.pop(REACH), 0)
    if missing:  # l is at least as large
        spare["l"] = larger.get("l", 0) - smaller.get("l", 0) + missing
    return other != powers and all(power >= 0 for power in spare.values())


def _unfloored(number: Polynomial) -> Polynomial:
    """Replace each floor by what is under it, less a part of 1 (the slack), and each minimum by its bound.

    A floor grows like the former, a minimum no more than the latter.
    """
    plain = Polynomial({})
    for powers, factor in number.terms.items():
        term = Polynomial({(): factor})
        for atom, power in powers:
            term = term * _grown(atom, power)
        plain = plain + term
    return plain


def _grown(atom: Atom, power: int) -> Any:
    match atom:
        case Floor(dividend, Polynomial() as divisor) if list(divisor.terms.values()) == [1]:
            return product([dividend / divisor - symbol(f"{SLACK}{atom}")] * power)
        case Floor(dividend, _):
            return product([dividend] * power)
        case Minimum(_, bound):
            return product([bound] * power)
    return Polynomial({((atom, power),): 1})
