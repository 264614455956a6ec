"""A number item by item: each matrix or tensor with its shape, its formula, the sizes put in, and the sum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING

from tfcalc.analysis.nothing import why_zero
from tfcalc.analysis.quantities import QUANTITIES
from tfcalc.analysis.targets import others
from tfcalc.answers.conventions_text import as_json, as_text
from tfcalc.core.component import Component, Cost, Node
from tfcalc.core.measure import Item, in_bytes, of_formulas, of_numbers
from tfcalc.core.number import Num, divide, total
from tfcalc.model import legend, values
from tfcalc.named_tuple import NamedTuple
from tfcalc.report import BLOCKS, exact, polynomial
from tfcalc.report.explanation import Explanation, Line
from tfcalc.report.sheet import Factors
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.analysis.common import Subject
    from tfcalc.model import Model, Sized
    from tfcalc.workload import Conventions


def note_of(name: str, together: int, sizes: Mapping[str, Num]) -> str:
    """Return the remark on a matrix of this name, with ``together`` of them side by side; empty where there is none."""
    return _of_all_heads(sizes) if name == "W_Q" and together == 3 and "a" in sizes else NOTES.get(name, "")


def _of_all_heads(sizes: Mapping[str, Num]) -> str:
    """Why there is one matrix where people look for one per head."""
    heads = sizes["a"]
    width: Num = sizes.get("d", divide(sizes["h"], heads))
    return "" if heads == 1 else f"one matrix for all {heads} heads ({heads} × {width} = {heads * width})"


def by_head(lines: Iterable[Line], sizes: Mapping[str, Num]) -> Iterator[str]:
    """Yield a note on the number of matrices where each head is written with its own, as in the paper's W_i^Q."""
    names = {name for line in lines for name in line.names}
    if "a" not in sizes or not names >= {"W_Q", "W_K", "W_V", "W_O"}:
        return
    heads, groups = sizes["a"], sizes.get("g", sizes["a"])
    width: Num = sizes.get("d", divide(sizes["h"], heads))
    many = f"3·{heads}" if groups == heads else f"{heads} + 2·{groups}"
    yield (
        f"per head W_Q is {'1 matrix' if heads == 1 else f'{heads} matrices'} of {sizes['h']} × {width}; "
        f"with those of W_K and W_V, and W_O: {many} + 1 = {heads + 2 * groups + 1} matrices"
    )


NOTES = {
    "W_O": "output projection",
    "γ": "scale",
    "β": "shift",
    "E": "one row per token id; a lookup costs no FLOPs",
    "P": "one row per position",
}
"""What people ask about a tensor."""


UNITS = {"memory": "bytes", "time": "steps"}
"""What a quantity is counted in, where that is not its own name."""


class Tree(NamedTuple):
    """Trees that can be opened: one of numbers and its twin of symbols, and what each operation consists of.

    ``letters`` are those that stand for no size of the model or the workload, ``sizes`` what all stand for, where that
    is more than these; ``of_terms`` is a tree of memory.
    """

    model: Model
    run: Workload
    node: Node
    twin: Node
    items: Callable[[Cost], list[Item]]
    conventions: Mapping[str, object]
    notes: tuple[str, ...]
    letters: Mapping[str, str] = MappingProxyType({})
    sizes: Mapping[str, Num] | None = None
    of_terms: bool = False


def tree_of(asked: Subject, of: str, by: Conventions, items: Callable[[Cost], list[Item]]) -> Tree:
    """The trees of a question, with what a quantity has of each operation, and with what is said of it."""
    notes = (*(asked.model.remarks(asked.run) if of in ("flops", "time") else ()), *as_text(of, asked.run, by))
    told, letters, sizes = as_json(of, asked.run, by), {}, values(asked.model, asked.run)
    if asked.tuning is not None:
        letters, sizes = asked.tuning.legend, sizes | asked.tuning.values
        notes, told = (asked.tuning.heading, *notes), told | asked.tuning.described
    return Tree(asked.model, asked.run, *asked.twins, items, told, notes, letters, sizes)


def tree_of_terms(
    model: Model,
    run: Workload,
    plan: Sized,
    whole: Component,
    stated: Mapping[str, object],
    notes: tuple[str, ...],
    letters: dict[str, str],
) -> Tree:
    """The trees of the tensors that memory holds, whose sizes remember their formulas; some are those of the plan."""

    def items(cost: Cost) -> list[Item]:
        return [in_bytes(held.name, held.factors, held.bits) for held in cost.held]

    numbers, formulas = of_numbers(whole).root(), of_formulas(whole).root()
    own = values(model, run)
    planned = {letter: size for letter, size in values(plan).items() if letter not in own}
    letters = legend(frozenset(planned), plan) | letters
    return Tree(model, run, numbers, formulas, items, stated, notes, letters, planned | own, of_terms=True)


def laid_out(
    target: str, of: str, tree: Tree, node: Node, twin: Node, counts: int, *, together: bool = False
) -> Explanation:
    """A node and its twin, line by line: one of it, or all ``together`` that the model has of it."""
    sizes, items = tree.sizes or values(tree.model, tree.run), tree.items
    lines = []
    copies = (node.times[counts], twin.times[counts]) if together else (1, 1)
    for _, leaves in groupby(
        _leaves(node.component, twin.component, counts, "", *copies), key=lambda leaf: leaf.alike(items(leaf.twin.own))
    ):
        side_by_side = list(leaves)
        opened = [items(leaf.leaf.own) for leaf in side_by_side]
        symbolic = items(side_by_side[0].twin.own)
        lines += [
            _line(side_by_side[0], each, twin_item, sizes) for *each, twin_item in zip(*opened, symbolic, strict=True)
        ]
    answer = sum(line.value for line in lines)
    nothing = "0: no memory of it is live then" if tree.of_terms else why_zero(node.component, of, tree.run)
    reason = () if answer else (nothing,)
    closed = polynomial(total(line.formula for line in lines))
    return Explanation(
        heading=tree.model.summary,
        target=target,
        path=node.path,
        of=of,
        quantity=QUANTITIES[of],
        unit=UNITS.get(of, of),
        lines=tuple(lines),
        formula=closed,
        sizes={letter: str(size) for letter, size in sizes.items()},
        answer=answer,
        order=None,
        legend=legend(closed.free_symbols, tree.model, tree.run)
        | {letter: meaning for letter, meaning in tree.letters.items() if letter in closed.free_symbols},
        model=tree.model.described(),
        conventions=dict(tree.conventions),
        notes=(
            *reason,
            *(by_head(lines, sizes) if of == "params" and node.component.kind == "attention" else ()),
            *(() if tree.of_terms or together else others(tree.node, target, node)),
            *tree.notes,
        ),
    )


class _Leaf(NamedTuple):
    """An operation and its twin, the block it is in, and how many of it the target has, in numbers and in symbols."""

    where: str
    leaf: Component
    twin: Component
    copies: Num
    copies_twin: Num

    def alike(self, items: list[Item]) -> tuple[object, ...]:
        """Equal for leaves that can share a line: of one block, one kind, one shape, and as many of each."""
        return self.where, self.leaf.kind, self.copies, [item.factors for item in items]


def _leaves(
    component: Component, twin: Component, counts: int, where: str = "", copies: Num = 1, copies_twin: Num = 1
) -> Iterator[_Leaf]:
    if not component.parts and copies != 0:
        yield _Leaf(where, component, twin, copies, copies_twin)
    for part, part_twin in zip(component.parts, twin.parts, strict=True):
        has_place = part.parts or part.kind in BLOCKS
        below = f"{where}.{part.name}".lstrip(".") if has_place else where
        both = copies * part.times[counts], copies_twin * part_twin.times[counts]
        yield from _leaves(part, part_twin, counts, below, *both)


def _line(leaf: _Leaf, items: list[Item], symbolic: Item, sizes: Mapping[str, Num]) -> Line:
    first, together = items[0], len(items)
    return Line(
        where=leaf.where,
        names=tuple(item.name for item in items),
        symbols=Factors((leaf.copies_twin, together), symbolic.factors),  # type: ignore[arg-type]  # symbols and ints
        numbers=Factors((exact(leaf.copies), together), tuple(exact(factor) for factor in first.factors)),
        formula=polynomial(leaf.copies_twin * symbolic.value * together),
        value=exact(leaf.copies * first.value) * together,
        note=note_of(first.name, together, sizes),
    )
