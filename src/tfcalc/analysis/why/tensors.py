"""The parameters of a model, sorted into cells: what conventions leave in or out."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.analysis.targets import ACROSS
from tfcalc.core.component import Component, Weight
from tfcalc.core.traced import value_of
from tfcalc.named_tuple import NamedTuple

TOKENS, TYPES, POSITIONS, HEAD = "token embedding", "token types", "positions", "output head"
NORM, BIAS, ROUTER, BUFFER, TIED = "norm", "bias", "router", "buffer", "tied"
SHARED, ROUTED = "shared expert", "routed expert"
SHIFT = "β"
STACKS = ("encoder", "decoder", "tower")
ATTENTION, CROSS, FFN = "attention", "cross-attention", "ffn"


class Cell(NamedTuple):
    """Tensors that have this in common: the ``role`` of a matrix (``W_Q``), of a norm, a bias or a table.

    ``block`` is the sub-layer, ``stack`` the encoder or decoder by its name, ``layer`` says that a layer has it,
    ``expert`` whether an expert does. ``copies`` are those of the experts, ``active`` those that are active per token.
    ``vocab`` says that it has a row or a column for each token of the vocabulary.
    """

    role: str
    block: str = ""
    stack: str = ""
    layer: bool = False
    expert: str = ""
    copies: int = 1
    active: int = 1
    vocab: bool = False
    tied: bool = False
    frozen: bool = False
    after: str = ""
    """The place of a norm outside of layers: behind embeddings, or the last layer."""
    shift: bool = False
    """Whether it is the shift of a norm, which PyTorch calls its bias."""


Cells = dict[Cell, int]


class TensorPlace(NamedTuple):
    """Place of a component: what is known from those above it."""

    block: str = ""
    stack: str = ""
    layer: bool = False
    expert: str = ""
    copies: int = 1
    active: int = 1
    table: str = ""


def cells_of(tree: Component, vocabulary: int | None) -> Cells:
    """The parameters of a tree by cell, and those that are tied or buffers as cells of their own kind."""
    found: Cells = {}
    for cell, size in _walk(tree, TensorPlace(), 1, vocabulary):
        found[cell] = found.get(cell, 0) + size
    return found


def _walk(part: Component, place: TensorPlace, times: int, vocabulary: int | None) -> Iterator[tuple[Cell, int]]:
    place, times = _inside(part, place), times * value_of(part.copies)
    for weight in part.own.weights:
        yield _cell(weight, part, place, vocabulary), times * value_of(weight.size)
    for buffer in part.own.buffers:
        yield Cell(BUFFER), times * value_of(buffer.size)
    for inner in part.parts:
        yield from _walk(inner, place, times, vocabulary)


def _inside(part: Component, place: TensorPlace) -> TensorPlace:
    kind, name = part.kind, part.name.lower()
    if kind in STACKS and not place.stack:
        place = place._replace(stack=part.name)
    elif kind == "layer":
        place = place._replace(layer=True)
    elif kind == "attention":
        place = place._replace(block=CROSS if any(mark in name for mark in ACROSS) else ATTENTION)
    elif kind in ("ffn", "moe"):
        shared = place.block == "moe" or "shared" in name
        place = place._replace(block="moe" if kind == "moe" else FFN, expert=SHARED if shared else place.expert)
    elif kind == "experts" and part.active is not None:
        place = place._replace(
            expert=ROUTED,
            block=FFN,
            copies=place.copies * value_of(part.copies),
            active=place.active * value_of(part.active),
        )
    elif kind == "embeddings":
        place = place._replace(table="embeddings")
    return place


def _cell(weight: Weight, part: Component, place: TensorPlace, vocabulary: int | None) -> Cell:
    sizes = [value_of(size) for size in weight.shape]
    vocab = vocabulary is not None and vocabulary in sizes
    kind = part.kind
    cell = Cell(
        weight.name,
        place.block,
        place.stack,
        place.layer,
        place.expert,
        place.copies,
        place.active,
        vocab,
        weight.tied_to is not None,
        weight.frozen,
    )
    if kind == "norm":
        after = place.table or ("" if place.layer else "layers")
        return cell._replace(role=NORM, after=after, shift=weight.name.startswith(SHIFT))
    if kind == "position":
        return cell._replace(role=POSITIONS)
    if kind == "embedding":
        return cell._replace(role=TOKENS if vocab or vocabulary is None else TYPES)
    if kind == "router" and not weight.minor:
        return cell._replace(role=ROUTER)
    if kind == "output" and not weight.minor:
        return cell._replace(role=HEAD)
    if weight.minor:
        return cell._replace(role=BIAS, after=weight.name)
    return cell
