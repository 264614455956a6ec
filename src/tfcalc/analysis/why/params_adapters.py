"""LoRA's adapters: what is trained, and what is counted beside the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.analysis.why.params_steps import add
from tfcalc.analysis.why.step import Root, State, Step
from tfcalc.analysis.why.tensors import Cell
from tfcalc.core.traced import value_of

if TYPE_CHECKING:
    from tfcalc.core.component import Component

ALONE, BESIDE = 1.5, 2.0
"""What it costs to count adapters alone, and beside the model."""
RANKS = {8: 0.0, 16: 0.0, 32: 0.0, 64: 0.0, 4: 0.0, 128: 0.25, 1: 0.5, 2: 0.5, 256: 0.5}
"""Usual ranks, and what rare ones cost more."""
LAST, IN_LAST = 16, 0.75
"""mlx-lm adapts the last 16 layers by default."""
WITH_HEAD = WITH_COPIES = 0.5
SAVED = ", and copies of the embedding and of the output head that are trained"


class Adapted(NamedTuple):
    """What is adapted: of the matrices in layers those named, or all; and the output head too.

    ``saved`` says that embedding and output head are trained beside, as copies (peft's ``modules_to_save``).
    """

    name: str
    matrices: tuple[str, ...] = ()
    head: bool = False
    saved: bool = False
    cost: float = 0.0


TARGETS = (
    Adapted("q_proj,v_proj", ("W_Q", "W_V")),
    Adapted("all-linear"),
    Adapted("q_proj,k_proj,v_proj,o_proj", ("W_Q", "W_K", "W_V", "W_O")),
    Adapted("the joint projection of queries, keys and values", ("W_QKV",)),
    Adapted("q_proj,k_proj,v_proj", ("W_Q", "W_K", "W_V"), cost=0.25),
    Adapted("all-linear and the output head", (), head=True, cost=WITH_HEAD),
    Adapted("one of the attention matrices", ("W_Q",), cost=0.5),
    Adapted(f"all-linear{SAVED}", (), saved=True, cost=WITH_COPIES),
    Adapted(f"q_proj,v_proj{SAVED}", ("W_Q", "W_V"), saved=True, cost=WITH_COPIES),
)


class Adapters(NamedTuple):
    """Adapters of one rank on some matrices: an id, their parameters, what they are, and how rare that is."""

    name: str
    size: int
    words: str
    cost: float


def adapters(tree: Component) -> Iterator[Adapters]:
    """Those of usual ranks on what people adapt."""
    there = {weight.name for node in tree.walk() for weight in node.component.own.weights}
    layers, copies = _layers(tree), _copies(tree)
    for target in TARGETS:
        if not there.issuperset(target.matrices):
            continue
        head = _head(tree) if target.head else 0
        inside = ends(tree, target.matrices)
        if not inside or (target.head and not head):
            continue
        whole = copies if target.saved else 0
        for rank, rare in RANKS.items():
            name = (
                f"lora_{rank}_{target.name.split(' ')[0].rstrip(',')}{'_head' * target.head}{'_saved' * target.saved}"
            )
            words = f"LoRA's adapters of rank {rank} on {target.name}"
            yield Adapters(name, rank * (inside + head) + whole, words, rare + target.cost)
            if layers > LAST and not target.saved and inside * LAST % layers == 0:
                few = inside * LAST // layers
                told = f"{words}, in {LAST} of the {layers:,} layers"
                yield Adapters(f"{name}_last_{LAST}", rank * (few + head), told, rare + target.cost + IN_LAST)


def roots(tree: Component, command: str) -> Iterator[Root[Cell]]:
    """The adapters alone."""
    for one in adapters(tree):
        asked = f"{command} --lora {one.name.split('_')[1]}"
        state = State({Cell("adapters"): one.size})
        words = f"{one.words} alone: what is trained"
        yield Root(one.name, one.words, words, state, asked, ALONE + one.cost, deep=0)


def steps(tree: Component) -> Iterator[Step[Cell]]:
    """The adapters beside what else is counted."""
    for one in adapters(tree):
        added = add({Cell("adapters", layer=True): one.size})
        yield Step(one.name, f"with {one.words}", BESIDE + one.cost, added, "lora")


def ends(part: Component, matrices: tuple[str, ...], inside: bool = False) -> int:
    """Rows and columns of the matrices in layers: of those named, or of all."""
    inside = inside or part.kind == "layer"
    own = sum(
        sum(value_of(size) for size in weight.shape)
        for weight in part.own.weights
        if inside and len(weight.shape) == 2 and part.kind == "linear" and (not matrices or weight.name in matrices)
    )
    return value_of(part.copies) * (own + sum(ends(inner, matrices, inside) for inner in part.parts))


def _head(tree: Component) -> int:
    heads = (node.component for node in tree.walk() if node.component.kind == "output")
    return sum(value_of(size) for head in heads for w in head.own.weights if len(w.shape) == 2 for size in w.shape)


def _copies(tree: Component) -> int:
    """The token embedding, and the output head even where it is tied."""
    tables = (node.component for node in tree.walk() if node.component.kind in ("embedding", "output"))
    sizes = [value_of(w.size) for part in tables for w in part.own.weights if len(w.shape) == 2]
    return max(sizes, default=0) * 2


def _layers(tree: Component) -> int:
    return sum(value_of(node.copies) for node in tree.walk() if node.component.kind == "layer")
