"""Parts of a model by themselves: a block, all of its copies, a stack, what belongs together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfcalc.analysis.why.params_steps import stored
from tfcalc.analysis.why.step import Root, State
from tfcalc.analysis.why.tensors import HEAD, STACKS, TOKENS, Cell, Cells, cells_of
from tfcalc.core.traced import value_of

if TYPE_CHECKING:
    from tfcalc.core.component import Component, Node

PART, ALL, TOGETHER, SOME = 1.0, 1.25, 1.25, 2.5
FEW = (2, 3, 4, 6, 8)
CALLED = {"attention": "attention", "ffn": "feed-forward network", "moe": "mixture of experts", "layer": "layer"}


def roots(tree: Component, vocabulary: int | None, called: str) -> Iterator[Root[Cell]]:
    """Each block by itself, and all of its copies together; stacks where there are several."""
    seen = {sum(stored(cells_of(tree, vocabulary)).values())}
    stacks = {node.path for node in tree.walk() if node.component.kind in STACKS}
    alone = set(STACKS) if len(stacks) < 2 else set[str]()
    for node in tree.walk():
        part, copies = node.component, value_of(node.copies)
        path = node.path.partition(".")[2]
        if not path or part.kind in ("residual", "activation", "attend", "rotary", "buffer", *alone):
            continue
        if part.kind == "model" and all(stack.startswith(node.path) for stack in stacks):
            continue
        cells = stored(cells_of(part._replace(copies=1, active=None), vocabulary))
        is_block = part.kind in CALLED
        inside = cells
        cells = {cell._replace(layer=True): size for cell, size in cells.items()}
        total = sum(cells.values())
        if not total:
            continue
        command = f"tfcalc explain {path} {called}"
        of = f"{CALLED.get(part.kind, part.kind)} ({path})"
        if total not in seen:
            seen.add(total)
            words = f"one {of} alone" if copies != 1 else f"the {of} alone"
            yield Root(
                f"part_{path}",
                of,
                words,
                State(cells),
                command,
                PART,
                deep=2 if is_block else int(any(cell.layer for cell in inside)),
                is_part=is_block,
            )
        if copies != 1 and total * copies not in seen and part.kind in (*CALLED, "experts"):
            seen.add(total * copies)
            many = {cell: size * copies for cell, size in cells.items()}
            words = f"all {copies:,} x {of} together"
            yield Root(f"all_{path}", of, words, State(many), command, PART + 0.25, deep=1, is_part=True)


def together(tree: Component, vocabulary: int | None, called: str) -> Iterator[Root[Cell]]:
    """What people count as one: a sub-layer with its norm, embedding and output head, a tower with its projection."""
    cells = stored(cells_of(tree, vocabulary))
    ends = {cell: size for cell, size in cells.items() if cell.role in (TOKENS, HEAD)}
    command = f"tfcalc params {called}".strip()
    if len(ends) > 1:
        words = "the token embedding and the output head alone"
        yield Root("part_embedding_and_head", words, words, State(ends), command, TOGETHER, deep=1)
    for node in tree.walk():
        if node.component.kind == "layer":
            yield from _with_norms(node.component, value_of(node.copies), vocabulary, command)
            yield from _first_layer(tree, node, vocabulary, command)
            yield from _some_layers(node, vocabulary, command)
    yield from _with_projections(tree, vocabulary, command)


def _with_norms(layer: Component, copies: int, vocabulary: int | None, command: str) -> Iterator[Root[Cell]]:
    """Each sub-layer of a layer with one of the layer's norms."""
    norms = [sum(cells_of(part, vocabulary).values()) for part in layer.parts if part.kind == "norm"]
    for part in layer.parts:
        if not norms or part.kind not in CALLED:
            continue
        own = {cell._replace(layer=True): n for cell, n in stored(cells_of(part, vocabulary)).items()}
        for times, which, cost in ((1, "one", TOGETHER), (copies, f"all {copies:,} x", TOGETHER + ALL - PART)):
            size = {cell: n * times for cell, n in own.items()} | {Cell("norm", after=part.name): norms[0] * times}
            words = f"{which} {CALLED[part.kind]} ({part.name}) with its norm"
            yield Root(f"norm_and_{part.name}_{times}", words, words, State(size), command, cost, deep=1)


def _first_layer(tree: Component, layer: Node, vocabulary: int | None, command: str) -> Iterator[Root[Cell]]:
    """A layer with what only the first of its stack has, such as T5's relative positions."""
    extra = [node.component for node in tree.walk() if node.path.startswith(f"{layer.path}[0].")]
    if extra:
        own = cells_of(layer.component._replace(copies=1), vocabulary)
        for part in extra:
            own |= cells_of(part, vocabulary)
        path = layer.path.partition(".")[2]
        words = f"the first layer ({path}) alone, with what only that has"
        cells = {cell._replace(layer=True): size for cell, size in stored(own).items()}
        yield Root(f"part_{path}[0]", words, words, State(cells), command, PART, deep=1)


def _some_layers(layer: Node, vocabulary: int | None, command: str) -> Iterator[Root[Cell]]:
    """The last few layers, as people tune them."""
    one = stored(cells_of(layer.component._replace(copies=1), vocabulary))
    path, copies = layer.path.partition(".")[2], value_of(layer.copies)
    for few in FEW:
        if few < copies:
            words = f"{few} of the {copies:,} layers ({path}) alone"
            cells = {cell._replace(layer=True): size * few for cell, size in one.items()}
            yield Root(f"part_{path}_{few}", words, words, State(cells), command, SOME, deep=1)


def _with_projections(tree: Component, vocabulary: int | None, command: str) -> Iterator[Root[Cell]]:
    """Each stack with a linear map outside of it that takes what comes out of it."""
    stacks = [part for part in tree.parts if part.kind in STACKS]
    for stack in stacks if len(stacks) > 1 else ():
        width = _width(stack)
        for part in tree.parts:
            own: Cells = stored(cells_of(part, vocabulary)) if part.kind == "linear" else {}
            if own and value_of(part.own.weights[0].shape[0]) == width:
                both = stored(cells_of(stack, vocabulary)) | {Cell(part.name): sum(own.values())}
                words = f"the {stack.name} alone, with {part.name}"
                yield Root(f"part_{stack.name}_{part.name}", words, words, State(both), command, TOGETHER, deep=1)


def _width(stack: Component) -> int | None:
    """The size of the last norm."""
    norms = [part for part in stack.parts if part.kind == "norm" and part.own.weights]
    return value_of(norms[-1].own.weights[0].shape[0]) if norms else None
