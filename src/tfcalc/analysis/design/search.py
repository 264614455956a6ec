"""Shapes whose amount is near a budget, best first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil, floor

from tfcalc.analysis.design.amounts import AT_DEPTH, BudgetedAmount
from tfcalc.analysis.design.family import DEPTH, WIDTH, ShapeFamily
from tfcalc.analysis.design.practice import broken
from tfcalc.errors import Bug, InvalidModel
from tfcalc.model import Model
from tfcalc.named_tuple import NamedTuple
from tfcalc.search.largest import largest

SHOWN = 12


class Candidate(NamedTuple):
    """A shape: its ``sizes`` by name, what is budgeted of it, and the practices that it does not follow."""

    sizes: dict[str, int]
    amount: int
    breaks: tuple[str, ...]
    model: Model

    @property
    def depth(self) -> int:
        """Layers of each stack."""
        return self.sizes[DEPTH]


class ShapeRank(NamedTuple):
    """Rank of a shape among the others: the smallest is best."""

    outside: bool
    first: Fraction
    second: Fraction
    sizes: tuple[int, ...]


class BestShapes(NamedTuple):
    """The best shapes, and how many there were near the budget."""

    candidates: tuple[Candidate, ...]
    tried: int


def search(family: ShapeFamily, amount: BudgetedAmount, budget: int, *, at_most: bool) -> BestShapes:
    """The best shapes for a budget, of each width and depth one; ``at_most`` leaves out what is above it."""
    ranked: dict[tuple[int, int], tuple[ShapeRank, dict[str, int], int]] = {}
    tried = 0
    for sizes, value in _near(family, amount, budget, at_most=at_most):
        if at_most and value > budget:
            continue
        tried += 1
        place = rank(family, sizes, value, budget)
        key = sizes[WIDTH], sizes[DEPTH]
        if key not in ranked or place < ranked[key][0]:
            ranked[key] = place, sizes, value
    return BestShapes(tuple(_built(family, amount, ranked)), tried)


def rank(family: ShapeFamily, sizes: dict[str, int], value: int, budget: int) -> ShapeRank:
    """Near the budget: by the practices broken, then by distance; else by distance, then by practices."""
    apart, breaks = Fraction(abs(value - budget), budget), Fraction(len(broken(family.whole(sizes))))
    order = tuple(sizes.values())
    return (
        ShapeRank(False, breaks, apart, order) if apart <= family.by.within else ShapeRank(True, apart, breaks, order)
    )


def _near(
    family: ShapeFamily, amount: BudgetedAmount, budget: int, *, at_most: bool
) -> Iterator[tuple[dict[str, int], int]]:
    """Yield every allowed shape within the tolerance, and of each width the nearest ones outside it."""
    margin = family.by.within * budget
    most = budget if at_most else floor(budget + margin)
    seen = False
    for width in family.widths():
        depths = family.depths(width)
        smallest: list[int] = []
        for sizes in family.shapes(width) if depths else ():
            at = amount.by_depth(sizes)
            smallest.append(at(depths[0]))
            for depth in _depths(at, depths, ceil(budget - margin), most):
                seen = True
                yield sizes | {DEPTH: depth}, at(depth)
        if seen and smallest and min(smallest) > most:
            return


def _depths(at: AT_DEPTH, depths: Sequence[int], least: int, most: int) -> Sequence[int]:
    """The depths whose amount is from ``least`` to ``most``, with the one below them and the one above."""

    def need(count: int) -> int:
        return at(depths[count - 1])

    low = largest(need, least - 1, most=len(depths))
    high = largest(need, most, start=low + 1, most=len(depths))
    return depths[max(low - 1, 0) : high + 1]


def _built(
    family: ShapeFamily,
    amount: BudgetedAmount,
    ranked: dict[tuple[int, int], tuple[ShapeRank, dict[str, int], int]],
) -> Iterator[Candidate]:
    """The best that can be built, each counted again on its own tree; what fits no model is passed over."""
    found = 0
    for _, sizes, value in sorted(ranked.values(), key=lambda each: each[0]):
        model = family.base.replaced(**given(family, sizes))
        try:
            counted = amount.of(model)
        except InvalidModel:
            continue
        if counted != value:
            raise Bug(f"{sizes}: {counted} counted, but {value} by the closed form")
        yield Candidate(sizes, counted, broken(family.whole(sizes)), model)
        found += 1
        if found == SHOWN:
            return


def given(family: ShapeFamily, sizes: dict[str, int]) -> dict[str, int]:
    """The sizes that have to be given: of the classic model those that do not follow from others anyway."""
    if not family.classic:
        return sizes
    follows = {
        "n_kv_heads": sizes["n_heads"],
        "d_ff": 4 * sizes[WIDTH],
        "head_dim": sizes[WIDTH] // sizes["n_heads"],
    }
    return {
        name: size
        for name, size in sizes.items()
        if name not in follows or size != follows[name] or getattr(family.base, name) is not None
    }
