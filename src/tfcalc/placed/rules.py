"""Which piece of each kind of module stands on a device.

====================  =====================================================================
Q, K, V, gate, input  ``i × o/t``, their biases ``o/t``
output, second map    ``i/t × o``, their biases whole
words, head           ``V/t × h``, filled up
norms, positions      whole
layers                ``n/p`` of them; words on the first stage, final norm and head on the last
====================  =====================================================================

A class without a rule of its own is refused: that it is like another says nothing of what devices could share.

Source: Shoeybi et al. 2019 (Megatron-LM, arXiv 1909.08053), section 3; Narayanan et al. 2021 (arXiv 2104.04473),
section 2; Megatron-core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tfcalc.core.number import divide
from tfcalc.core.traced import known, value_of
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.embeddings import BUFFER, Positions
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import Decoder, WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.placed.layout import Layout, check_even
from tfcalc.placed.modules import Device, FewerGroups, Rows, Shared, Stage, Words

M = TypeVar("M", bound=Module)
Rule = Callable[[Any, Layout], Module]
RULES: dict[type[Module], Rule] = {}
REMEDY = (
    "take a decoder without experts, whose layers are attention and a feed-forward network, with a norm before each"
)


def rule(kind: type[M]) -> Callable[[Callable[[M, Layout], Module]], Rule]:
    """This is the piece of modules of this class."""

    def registered(made: Callable[[M, Layout], Module]) -> Rule:
        RULES[kind] = made
        return made

    return registered


def on_device(module: Module, at: Layout) -> Module:
    """The piece of a model that one device has. Raises InvalidModel where it has a module without a rule."""
    at.check()
    return _piece(module, at)


def _piece(module: Module, at: Layout) -> Module:
    if type(module) not in RULES:
        raise refused(module)
    return RULES[type(module)](module, at)


def refused(module: Module, what: str = "") -> InvalidModel:
    """What no rule is known for, in a line."""
    return InvalidModel(f"no rule splits {what or f'{module.name} ({type(module).__name__})'} over devices", REMEDY)


def plain(module: Module, *without: str) -> None:
    """Raise InvalidModel where one of these fields says that there is more to a module than its rule knows."""
    for name in without:
        if module.__dict__[name] not in (None, False, (), "", 1):
            raise refused(module, f"{module.name} ({type(module).__name__}) with {name.replace('_', ' ')}")


# --- maps


def by_columns(at: Layout, linear: Linear, what: str) -> Linear:
    """Each device makes some of the columns of the result, and has their bias."""
    if type(linear) is not Linear:
        raise refused(linear)
    return linear.but(fan_out=at.share(linear.fan_out, what))


def by_rows(at: Layout, linear: Linear, what: str) -> Linear:
    """Each device reads some of the columns of the input; what they make is summed."""
    if type(linear) is not Linear:
        raise refused(linear)
    return Rows(**linear.__dict__ | {"fan_in": at.share(linear.fan_in, what), "at": at})


# --- sub-layers


@rule(Attention)
def _attention(attention: Attention, at: Layout) -> Module:
    plain(attention, "whole", "sinks", "sub_norm", "gate", "alibi", "table", "tempered", "capped")
    for norm in attention.norms:
        plain(norm, "heads")
    heads, groups = at.share(attention.heads, "heads"), known(attention.kv_heads)
    inward = tuple(by_columns(at, each, "columns of queries, keys and values") for each in attention.inward)
    shared: dict[str, Any] = {"heads": heads, "inward": inward, "output": by_rows(at, attention.output, "heads")}
    if groups is not None and groups < (known(at.tp) or 0):
        check_even("tensor", at.tp, "key and value heads", groups)
        fields = attention.__dict__ | shared | {"kv_heads": 1, "devices": at.tp}
        return Shared(attention.name, FewerGroups(**fields), at)
    groups_here = at.share(attention.kv_heads, "key and value heads")
    return Shared(attention.name, attention.but(**shared, kv_heads=groups_here), at)


@rule(FeedForward)
def _feed_forward(network: FeedForward, at: Layout) -> Module:
    plain(network, "learned")
    up = by_columns(at, network.up, "feed-forward size")
    return Shared(network.name, network.but(up=up, down=by_rows(at, network.down, "feed-forward size")), at)


@rule(GatedFeedForward)
def _gated(network: GatedFeedForward, at: Layout) -> Module:
    plain(network, "learned", "sub_norm")
    what = "feed-forward size"
    gate = None if network.gate is None else by_columns(at, network.gate, what)
    up = by_columns(at, network.up, what)
    return Shared(network.name, network.but(gate=gate, up=up, down=by_rows(at, network.down, what)), at)


# --- layers


@rule(PreNorm)
def _layer(layer: PreNorm, at: Layout) -> Module:
    if len(layer.norms) != len(layer.subs) or any(type(each) is not Norm for each in layer.norms):
        raise refused(layer, f"{layer.name} with {len(layer.norms)} norms for {len(layer.subs)} sub-layers")
    return layer.but(subs=tuple(_piece(each, at) for each in layer.subs))


def of_stage(stack: Stack, at: Layout) -> Stack:
    """The layers of this stage: those of each of its chunks, which stand ``p`` chunks apart."""
    if type(stack) is not Stack:
        raise refused(stack)
    called = "pipeline" if at.vpp == 1 else f"pipeline {at.pp} x interleave {at.vpp} ="
    check_even("layers", stack.count, called, at.chunks)
    pieces: list[tuple[Module, Module]] = []
    for layer in stack.layers:
        if not any(layer is known for known, _ in pieces):
            pieces.append((layer, _piece(layer, at)))
    made = [next(piece for known, piece in pieces if known is layer) for layer in stack.layers]
    if len(made) > 1:
        stages, chunk = value_of(at.pp), len(made) // value_of(at.chunks)
        made = [
            made[(turn * stages + value_of(at.stage)) * chunk + place]
            for turn in range(value_of(at.vpp))
            for place in range(chunk)
        ]
    return stack.but(layers=tuple(made), count=divide(stack.count, at.pp))


# --- whole models


@rule(Embedding)
def _words(table: Embedding, at: Layout) -> Module:
    share = table.but(rows=at.share_of_words(table.rows))
    return Words(table.name, share, at)


@rule(Positions)
def _positions(table: Positions, _: Layout) -> Module:
    """Whole; the program that reads the data gives their numbers, as those of the words."""
    return table.but(indices=BUFFER)


@rule(Decoder)
def _decoder(model: Decoder, at: Layout) -> Module:
    plain(model, "first", "normed", "relative", "drops_output", "maps")
    if not isinstance(model.table, Embedding):
        raise refused(model.table)
    tables: tuple[Module, ...] = ()
    if at.first:
        words = _piece(model.table, at)
        tables = (words.but(scatters=not model.added), *(_piece(each, at) for each in model.added))
    norm = model.norm if at.last else None
    layers, width = of_stage(model.layers, at), model.table.width
    return Stage(model.name, tables, layers, norm, width, at, model.scales, model.dropped)


@rule(WithHead)
def _with_head(model: WithHead, at: Layout) -> Module:
    plain(model, "capped")
    base = _piece(model.base, at)
    assert isinstance(base, Stage)
    if not isinstance(model.head, Linear):
        raise refused(model.head)
    return Device(model.name, base, head_of(model.head, at), at, model.scales)


def head_of(head: Linear, at: Layout) -> Linear | None:
    """What makes logits, on the last stage; where that is not the first, a copy of the table that it is tied to."""
    if not at.last:
        return None
    tied = head.tied_to if at.first else None
    return head.but(fan_out=at.share_of_words(head.fan_out), tied_to=tied)
