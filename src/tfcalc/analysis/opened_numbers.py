"""Any number of an answer opened: the matrices it is the sum of, the numbers it follows from, or its source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tfcalc.analysis.asked import Asked
from tfcalc.analysis.explain import Tree, laid_out
from tfcalc.analysis.number_rules import (
    ANSWERS,
    FOLDS,
    FOUND,
    GIVEN,
    TERMS,
    Fold,
)
from tfcalc.analysis.opened_rules import listed, of_parts, partly_trained, ruled
from tfcalc.analysis.params import TABLES
from tfcalc.core.component import NOTHING, Component, Node
from tfcalc.core.cost import Cost
from tfcalc.core.items import Item, buffers, held, in_bytes, stored, trained
from tfcalc.core.measure import SMALLEST_BUFFER
from tfcalc.defaults import AUTO, own_format, resolve_dtype
from tfcalc.errors import UsageError
from tfcalc.report.derivation import Derivation, Term
from tfcalc.report.opened import number
from tfcalc.report.opening import Number

if TYPE_CHECKING:
    from tfcalc.report.explanation import Explanation


def open_number(keys: Sequence[str], asked: Asked) -> Explanation | Derivation:
    """One number of an answer, by the keys that lead to it.

    Raises UsageError where there is no number at this path.
    """
    value = number(keys, asked.reach(keys))
    for way in (_input, _folded, of_parts, listed, ruled, partly_trained, _elsewhere, _stated):
        if (found := way(keys, value, asked)) is not None:
            return found
    raise UsageError(f"{'.'.join(keys)} cannot be opened", "open one of the numbers beside it")


# --- what was given


def _input(keys: Sequence[str], value: Number, asked: Asked) -> Derivation | None:
    """A field of the model, or a convention; how many copies there are of a part."""
    if keys[-1] == "copies":
        part = _node(keys, asked)
        counted = f"how many there are of {part.path}" if part is not None else "how many there are"
        return asked.told(keys, value, "given", f"{counted}, by the model's structure")
    if keys[0] not in ("model", "conventions"):
        return None
    name = keys[-1]
    if name in asked.given:
        return asked.told(keys, value, "given", f"given: {asked.given[name]}")
    if keys[0] == "conventions":
        return asked.told(keys, value, "given", "the default, or what follows from other options")
    size = asked.model.dimensions().get(name)
    if size is not None and size.follows and size.symbol not in asked.model.values():
        return asked.told(keys, value, "given", f"not given: follows from {size.follows}")
    source = f"the config of {asked.named}: {'.'.join(keys[1:])}" if asked.named else "the default of the option"
    return asked.told(keys, value, "given", f"given by {source}")


# --- sums over the tree


def _folded(keys: Sequence[str], value: Number, asked: Asked) -> Explanation | Derivation | None:
    """The items of the tree that the number is the sum of."""
    fold = FOLDS.get(keys[-1])
    in_tree = len(keys) == 1 or keys[0] == "components"
    if asked.in_phases:
        return _term(keys, value, asked) if len(keys) == 1 else None
    if fold is None or not in_tree or value == 0:
        return None
    try:
        return _sum(keys, value, asked, fold)
    except _Differs:
        return None


class _Differs(Exception):
    """The items of the tree make another number: it is counted in another way here."""


def _sum(keys: Sequence[str], value: Number, asked: Asked, fold: Fold) -> Explanation:
    of = "memory" if fold.items in IN_BYTES else "flops" if fold.items == "work" else "params"
    if of == "memory" and (own := own_format(asked.model)) and asked.conventions.dtype == AUTO and not own.format.plain:
        raise _Differs  # each tensor in a format of its own
    tree = asked.tree(of)
    tree = tree._replace(items=_items(fold, asked, tree, of_step=asked.command == "flops"))
    if fold.items == "embedded":
        tree = tree._replace(node=_only(tree.node), twin=_only(tree.twin))
    node, twin = _pair(keys, asked, tree)
    target = asked.path(*keys)
    found = laid_out(target, of, tree, node, twin, fold.counts, together=True)
    if found.answer != value:
        raise _Differs
    return replace(found, path=node.path)


IN_BYTES = ("bytes", "weights", "buffer bytes")


def _items(fold: Fold, asked: Asked, tree: Tree, *, of_step: bool) -> Callable[[Cost], list[Item]]:
    everything = of_step and asked.conventions.count == "all"
    passes = fold.passes if of_step else fold.passes._replace(backward=False, again=False)
    if not tree.run.training:
        passes = passes._replace(backward=False, again=False)
    if not everything and passes.products:
        passes = passes._replace(elementwise=False)
    bits = resolve_dtype(asked.model, asked.conventions).bits if fold.items in IN_BYTES else 0
    wide = max(bits, SMALLEST_BUFFER)

    def major(cost: Cost) -> list[Item]:
        return stored(cost._replace(weights=tuple(weight for weight in cost.weights if not weight.minor)))

    def weights(cost: Cost) -> list[Item]:
        return held(cost._replace(buffers=()), bits)

    def buffer_bytes(cost: Cost) -> list[Item]:
        return [in_bytes(each.name, each.shape, wide) for each in cost.buffers]

    known: Mapping[str, Callable[[Cost], list[Item]]] = {
        "stored": stored,
        "embedded": stored,
        "trained": trained,
        "major": major,
        "buffers": buffers,
        "work": passes.items,
        "bytes": lambda cost: held(cost, bits),
        "weights": weights,
        "buffer bytes": buffer_bytes,
    }
    return known[fold.items]


def _only(node: Node) -> Node:
    """The same tree, in which only the tables of tokens and positions have something."""

    def kept(component: Component) -> Component:
        own = component.own if component.kind in TABLES else NOTHING
        return component._replace(own=own, parts=tuple(map(kept, component.parts)))

    return node._replace(component=kept(node.component))


def _pair(keys: Sequence[str], asked: Asked, tree: Tree) -> tuple[Node, Node]:
    """The node that a number belongs to, and its twin."""
    if len(keys) == 1:
        return tree.node, tree.twin
    path = str(asked.reach([*keys[:-1], "path"]))
    for node, twin in zip(tree.node.walk(), tree.twin.walk(), strict=True):
        if node.path == path:
            return node, twin
    raise _Differs


def _node(keys: Sequence[str], asked: Asked) -> Node | None:
    try:
        path = str(asked.reach([*keys[:-1], "path"]))
    except UsageError:
        return None
    tree = asked.tree("memory" if asked.in_phases else "params")
    return next((node for node in tree.node.walk() if node.path == path), None)


def _term(keys: Sequence[str], value: Number, asked: Asked) -> Explanation | None:
    """A term of a training step, or of serving, tensor by tensor."""
    name = keys[0].removesuffix("_bytes")
    tree = asked.tree("memory")
    called = (name, TERMS.get(name, name))
    for node, twin in zip(tree.node.below(), tree.twin.below(), strict=True):
        if node.component.name in called:
            found = laid_out(asked.path(*keys), "memory", tree, node, twin, 0, together=True)
            return found if found.answer == value else None
    return None


# --- what other commands answer, and what is found in other ways


def _elsewhere(keys: Sequence[str], value: Number, asked: Asked) -> Derivation | None:
    """A line of an overview, which another command opens."""
    if asked.command != "overview" or keys[0] not in ANSWERS:
        return None
    line, key = ANSWERS[keys[0]]
    command = str(asked.answer["commands"][line])
    command += f" --dtype {keys[1]}" if keys[0] == "weights_bytes" and len(keys) > 1 else ""
    what = f"{key} of: {command}" if key else f"the growth of the cache by one token: {command}"
    name = command.split()[1]
    terms = (Term(f"{name}.{key}" if key else "", value, command),)
    return replace(asked.told(keys, value, "answer", what), terms=terms)


def _stated(keys: Sequence[str], value: Number, asked: Asked) -> Derivation | None:
    """What the tables say of it."""
    for key in (keys[-1], keys[0]):
        if key in GIVEN:
            return asked.told(keys, value, "given", f"given by {GIVEN[key]}")
        if key in FOUND:
            return asked.told(keys, value, "found", FOUND[key])
    if value == 0:
        return asked.told(keys, value, "given", "0: the answer has nothing of it")
    return None
