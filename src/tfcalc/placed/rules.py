"""Rules, by class of modules, for the piece of a module on one of t GPUs (tensor) and p stages (pipeline).

====================  =====================================================================
Q, K, V, gate, up     ``i × o/t``, their biases ``o/t``
output, down          ``i/t × o``, their biases whole
latent vectors        maps up like Q, K, V; maps down whole, or ``i × o/t``
experts               ``E/ep`` of them, of each ``i × o/etp`` and ``i/etp × o``; the router whole
embedding, head       ``V/t × h``, padded
norms, positions      whole
layers                ``n/p`` of them, or as many as the ends of the pipeline leave; embedding on the first stage,
                      final norm and head on the last
====================  =====================================================================

A class without a rule of its own is refused, even if it is derived from one with a rule.

Source: Shoeybi et al. 2019 (Megatron-LM, arXiv 1909.08053), section 3; Narayanan et al. 2021 (arXiv 2104.04473),
section 2; Megatron-core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tfcalc.core.number import divide
from tfcalc.core.traced import known
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.embeddings import BUFFER, Positions, Sines
from tfcalc.nn.encoder_decoder import Alone
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward, InLayer
from tfcalc.nn.latent import LatentAttention
from tfcalc.nn.layers import Parallel, PostNorm, PreNorm
from tfcalc.nn.mixture import CappedExperts, Experts, Mixture, PlainExperts
from tfcalc.nn.model import Decoder, ModelWithHead
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.placed.layout import Layout, check_even
from tfcalc.placed.modules import (
    ColumnParallel,
    Device,
    ExpertParallel,
    FewerGroups,
    GatheredColumns,
    LatentOnDevice,
    PipelineStage,
    Ring,
    RingOfGroups,
    RingOfLatents,
    RowParallel,
    TensorParallel,
    VocabParallel,
)
from tfcalc.zoo.blocks.attention import IndexedAttention
from tfcalc.zoo.blocks.experts import AllExperts, EveryExpert, LimitedExperts
from tfcalc.zoo.classic import Core, Layer, Located, Network, OnData

EXPERTS = (Experts, PlainExperts, CappedExperts, LimitedExperts, AllExperts)
"""Classes of experts whose maps are split as those of a gated network are."""

M = TypeVar("M", bound=Module)
Rule = Callable[[Any, Layout], Module]
RULES: dict[type[Module], Rule] = {}
REMEDY = "take a decoder whose layers are attention and a feed-forward network, with a norm before each"


def rule(kind: type[M]) -> Callable[[Callable[[M, Layout], Module]], Rule]:
    """Register the function that returns the piece of a module of this class."""

    def register(piece: Callable[[M, Layout], Module]) -> Rule:
        RULES[kind] = piece
        return piece

    return register


def on_device(module: Module, at: Layout) -> Module:
    """Return the piece of a model on one GPU. Raises InvalidModel if it has a module without a rule."""
    at.check()
    return _piece(module, at)


def _piece(module: Module, at: Layout) -> Module:
    if type(module) not in RULES:
        raise refused(module)
    return RULES[type(module)](module, at)


def refused(module: Module, what: str = "") -> InvalidModel:
    """Return the error for a module without a rule."""
    return InvalidModel(f"no rule splits {what or f'{module.name} ({type(module).__name__})'} over devices", REMEDY)


def check_saved(piece: Module) -> None:
    """Raise InvalidModel for a piece with a module of which nobody has measured what it saves for backward."""
    for each in piece.all_of():
        if isinstance(each, ExpertParallel | LatentOnDevice):
            kind = "experts" if isinstance(each, ExpertParallel) else "latent attention"
            fact = f"what {each.name} ({kind}) saves on each of several devices is not known"
            raise InvalidModel(
                fact, "plan and ranks have both: tfcalc plan MODEL --gpu 8xh100, tfcalc ranks MODEL --dp 8"
            )
        if isinstance(each, FewerGroups):  # what it keeps of all devices' heads is not known
            check_even("key and value heads", each.groups, "tensor", each.devices)


def plain(module: Module, *without: str) -> None:
    """Raise InvalidModel if one of these fields is set, which the module's rule does not support."""
    for name in without:
        held = module.__dict__[name]
        if held not in (None, False, ()):
            what = held.name if isinstance(held, Module) else name.replace("_", " ")
            raise refused(module, f"{module.name} ({type(module).__name__}) with {what}")


# --- maps


def by_columns(at: Layout, linear: Linear, what: str) -> Linear:
    """Split output features (ColumnParallelLinear): each GPU computes some columns, and has their bias."""
    if type(linear) is not Linear:
        raise refused(linear)
    return linear.replace(fan_out=at.share(linear.fan_out, what))


def by_rows(at: Layout, linear: Linear, what: str) -> Linear:
    """Split input features (RowParallelLinear): the GPUs' results are summed."""
    if type(linear) is not Linear:
        raise refused(linear)
    return linear.as_type(RowParallel, fan_in=at.share(linear.fan_in, what), at=at)


# --- sub-layers


@rule(Attention)
def _attention(attention: Attention, at: Layout) -> Module:
    plain(attention, "whole", "sinks", "sub_norm", "gate", "table", "capped")
    if any(known(norm.heads) != 1 for norm in attention.norms):
        raise refused(attention, f"{attention.name} with norms of each head")
    heads, groups = at.share(attention.heads, "heads"), known(attention.kv_heads)
    inward = tuple(by_columns(at, linear, "columns of queries, keys and values") for linear in attention.inward)
    shared: dict[str, Any] = {"heads": heads, "inward": inward, "output": by_rows(at, attention.output, "heads")}
    if groups is not None and groups < (known(at.tp) or 0):
        check_even("tensor", at.tp, "key and value heads", groups)
        fields = attention.__dict__ | shared | {"kv_heads": 1, "groups": groups, "devices": at.tp}
        return TensorParallel(attention.name, in_ring(FewerGroups(**fields), at), at)
    groups_here = at.share(attention.kv_heads, "key and value heads")
    return TensorParallel(attention.name, in_ring(attention.replace(**shared, kv_heads=groups_here), at), at)


RINGS: dict[type[Attention], type[Ring]] = {
    Attention: Ring,
    FewerGroups: RingOfGroups,
    LatentOnDevice: RingOfLatents,
}


def in_ring(attention: Attention, at: Layout) -> Attention:
    """Return attention whose keys go around a ring, if GPUs share the sequence."""
    if known(at.cp) == 1:
        return attention
    if type(attention) not in RINGS:
        raise refused(attention)
    plain(attention, "window", "chunk")
    return attention.as_type(RINGS[type(attention)], around=at)


@rule(InLayer)
@rule(FeedForward)
def _feed_forward(network: FeedForward, at: Layout) -> Module:
    plain(network, "learned")
    up = by_columns(at, network.up, "feed-forward size")
    return TensorParallel(network.name, network.replace(up=up, down=by_rows(at, network.down, "feed-forward size")), at)


@rule(GatedFeedForward)
def _gated(network: GatedFeedForward, at: Layout) -> Module:
    plain(network, "learned", "sub_norm")
    what = "feed-forward size"
    gate = None if network.gate is None else by_columns(at, network.gate, what)
    up = by_columns(at, network.up, what)
    return TensorParallel(network.name, network.replace(gate=gate, up=up, down=by_rows(at, network.down, what)), at)


@rule(IndexedAttention)
def _indexed(attention: IndexedAttention, at: Layout) -> Module:
    """Split Falcon's attention, which has queries, keys and values interleaved in one map."""
    fields = {name: attention.__dict__[name] for name in Attention.fields_}
    return _attention(Attention(**fields | {"kv_heads": attention.groups}), at)


@rule(Located)
def _located(attention: Located, at: Layout) -> Module:
    """Split the classic Transformer's attention."""
    plain(attention, "position")
    return _attention(attention, at)


@rule(LatentAttention)
def _latent(attention: LatentAttention, at: Layout) -> Module:
    """Split the maps that make heads; those down to latent vectors are whole, or shared out and gathered."""
    plain(attention, "whole", "sinks", "sub_norm", "gate", "table", "capped", "key_norm")
    *first, down, up = attention.inward
    what = "columns of queries, keys and values"
    *queries, latent = (of_latents(at, each) for each in (*first[:-1], down))
    to_heads = by_columns(at, first[-1], what).as_type(ColumnParallel, at=at)
    heads = {"heads": at.share(attention.heads, "heads"), "kv_heads": at.share(attention.kv_heads, "heads")}
    inward = (*queries, to_heads, latent, by_columns(at, up, what))
    output = by_rows(at, attention.output, "heads")
    return in_ring(attention.as_type(LatentOnDevice, **heads, inward=inward, output=output, at=at), at)


def of_latents(at: Layout, linear: Linear) -> Linear:
    """Return a map down to latent vectors: whole, or some of its columns, which are then gathered."""
    if not at.shares_latents:
        return linear
    return by_columns(at, linear, "latent vector").as_type(GatheredColumns, at=at)


@rule(EveryExpert)
@rule(Mixture)
def _mixture(mixture: Mixture, at: Layout) -> Module:
    """Split the experts over GPUs; the router is whole, and shared experts are split like any feed-forward network."""
    plain(mixture, "norm")
    if type(mixture.experts) not in EXPERTS:
        raise refused(mixture.experts)
    gate, down, what = mixture.experts.gate, mixture.experts.down, "feed-forward size of an expert"
    check_even("experts", mixture.experts.count, "expert", at.ep)
    check_even(what, down.fan_in, "expert tensor", at.of_an_expert)
    within = at._replace(tp=at.of_an_expert)
    here = mixture.experts.replace(
        count=divide(mixture.experts.count, at.ep),
        gate=None if gate is None else by_columns(within, gate, what),
        up=by_columns(within, mixture.experts.up, what),
        down=down.replace(fan_in=within.share(down.fan_in, what)),
    )
    shared = tuple(_piece(each, at) for each in mixture.shared)
    return mixture.as_type(ExpertParallel, experts=here, shared=shared, at=at, count=mixture.experts.count)


# --- layers


@rule(Layer)
@rule(Parallel)
@rule(PostNorm)
@rule(PreNorm)
def _layer(layer: PreNorm, at: Layout) -> Module:
    """Split each sub-layer by itself, for any placement of norms."""
    if len(layer.norms) != len(layer.sublayers) or any(type(norm) is not Norm for norm in layer.norms):
        raise refused(layer, f"{layer.name} with {len(layer.norms)} norms for {len(layer.sublayers)} sub-layers")
    return layer.replace(sublayers=tuple(_piece(sub, at) for sub in layer.sublayers))


def of_stage(stack: Stack, at: Layout) -> Stack:
    """Return the layers of this stage: those of its chunks, which are ``p`` chunks apart."""
    if type(stack) is not Stack:
        raise refused(stack)
    here = at.layers_of_stage(stack.count)
    pieces: dict[int, Module] = {}  # equal layers are one object, and stay one
    for layer in stack.layers:
        if id(layer) not in pieces:
            pieces[id(layer)] = _piece(layer, at)
    layers = [pieces[id(layer)] for layer in stack.layers]
    if len(layers) > 1:
        layers = [layers[place] for place in at.places(len(layers))]
    return stack.replace(layers=tuple(layers), count=here)


# --- whole models


@rule(Embedding)
def _words(table: Embedding, at: Layout) -> Module:
    share = table.replace(rows=at.share_of_words(table.rows))
    return VocabParallel(table.name, share, at)


@rule(Positions)
def _positions(table: Positions, _: Layout) -> Module:
    """Keep the table whole; position ids come with the batch, like token ids."""
    return table.replace(indices=BUFFER)


@rule(Decoder)
def _decoder(model: Decoder, at: Layout) -> Module:
    plain(model, "first", "normed", "relative", "drops_output", "maps")
    if not isinstance(model.table, Embedding):
        raise refused(model.table)
    tables = tuple(_piece(table, at) for table in (model.table, *model.added)) if at.first else ()
    if model.norm is not None and type(model.norm) is not Norm:
        raise refused(model.norm)
    norm = model.norm if at.last else None
    layers, width = of_stage(model.layers, at), model.table.width
    return PipelineStage(model.name, _placed(tables), layers, norm, width, at, model.scales, model.dropped)


@rule(Alone)
def _alone(model: Alone, at: Layout) -> Module:
    """Split the decoder of a decoder-only model whose class usually has an encoder, too."""
    return model.replace(decoder=_piece(model.decoder, at))


@rule(ModelWithHead)
def _with_head(model: ModelWithHead, at: Layout) -> Module:
    base = _piece(model.base, at)
    plain(model, "capped")
    if not isinstance(model.head, Linear):
        raise refused(model.head)
    return Device(model.name, base, head_of(model.head, at), at, model.scales)


@rule(Sines)
def _sines(table: Sines, _: Layout) -> Module:
    """Keep the table whole."""
    return table


@rule(OnData)
def _on_data(core: OnData, at: Layout) -> Module:
    """Split the classic Transformer's stack without embeddings, which reads vectors."""
    return _stage(core, (), at)


@rule(Network)
def _network(model: Network, at: Layout) -> Module:
    """Split the classic Transformer."""
    assert isinstance(model.base, Core)
    tables = (*model.tables, *model.places)
    base = _stage(model.base, tables, at)
    return Device(model.name, base, head_of(model.output, at) if model.writes else None, at)


def _stage(core: Core, tables: tuple[Module, ...], at: Layout) -> PipelineStage:
    if len(core.sides) != 1 or core.sides[0].shared is not None:
        raise refused(core, "an encoder-decoder" if len(core.sides) != 1 else "positions that all layers share")
    (side,), (norm,) = core.sides, core.norms
    layer = side.layers.layers[0]
    assert isinstance(layer, Layer)
    assert isinstance(layer.norms[0], Norm)
    pieces = tuple(_piece(table, at) for table in tables) if at.first else ()
    layers, width = of_stage(side.layers, at), layer.norms[0].width
    return PipelineStage(core.name, _placed(pieces), layers, norm if at.last else None, width, at, dropped=True)


def _placed(tables: tuple[Module, ...]) -> tuple[Module, ...]:
    """Return token and position tables; only token tables without positions scatter over the sequence."""
    words, positions = tables[:1], tables[1:]
    return (*(table.replace(scatters=not positions) for table in words), *positions)


def head_of(head: Linear, at: Layout) -> Linear | None:
    """Return the output head, on the last stage; if that is not the first, with a copy of the table it is tied to."""
    if not at.last:
        return None
    tied = head.tied_to if at.first else None
    return head.replace(fan_out=at.share_of_words(head.fan_out), tied_to=tied)
