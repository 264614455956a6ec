"""The classic Transformer as modules that run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Buffer, Embedding, Linear, Norm, Stored
from tfcalc.nn.classic import Core, Layer, Network, OnData, Side
from tfcalc.nn.cross_attention import CrossAttention
from tfcalc.nn.distances import (
    Distances,
    Factors,
    FixedBias,
    Located,
    MappedSinusoids,
    MappedVectors,
    Shift,
    Table,
    TrainedBias,
    Vectors,
)
from tfcalc.nn.embeddings import Positions, Sines
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.gru import GRU
from tfcalc.nn.module import Module
from tfcalc.nn.rope import Rope
from tfcalc.nn.stack import Stack

if TYPE_CHECKING:
    from tfcalc.families.transformer import Transformer

NAMES = ("query", "key", "value")


def module(t: Transformer) -> Module:
    """The whole model: its core alone, or with tables before it and an output head behind."""
    sides, norms = tuple(_side(t, stack) for stack in t.stacks), tuple(_final_norm(t, stack) for stack in t.stacks)
    if t.vocab_size is None:
        return OnData("core", sides, norms, t.pre_norm)
    h, words = t.d_model, t.vocab_size
    if t.target_vocab_size is None:
        tables: tuple[Embedding, ...] = (Embedding("embedding", words, h),)
    else:
        words = t.target_vocab_size
        tables = (Embedding("source_embedding", t.vocab_size, h), Embedding("target_embedding", words, h))
    tied = tables[-1].name if t.output_head == "tied" else None
    head = Linear("output", h, words, "vocab", t.output_bias, tied, "output")
    more: dict[str, Any] = {"tables": tables, "places": _places(t), "writes": t.output_head != "none"}
    return Network(t.root, Core("core", sides, norms), head, shifted=False, upcasts=False, **more)


def _places(t: Transformer) -> tuple[Module, ...]:
    """What is added to words for where they stand, outside the layers: one for both stacks, or one for each."""
    match t.positions:
        case "learned":
            return (Positions("position", t.size("max_len"), t.d_model),)
        case "sinusoidal":
            return (Sines("position", t.d_model, t.size("max_len"), buffer=True),)
        case "recurrent":
            names = ("source_position", "target_position") if len(t.stacks) == 2 else ("position",)
            return tuple(GRU(name, t.d_model) for name in names)
    return ()


def _final_norm(t: Transformer, stack: str) -> Norm | None:
    has_one = t.final_norm == "always" or (t.final_norm == "pre-norm" and t.pre_norm)
    return Norm(f"{stack}_norm", t.norm, t.d_model) if has_one else None


def _side(t: Transformer, stack: str) -> Side:
    """The stack of this name, with what its layers share."""
    h, f = t.d_model, t.size("d_ff")
    own = {"position": _position(t), "pattern": t.attention_pattern, "causal": stack == "decoder"}
    subs: list[Module] = [_attention(t, "self_attention", Located, rope=_rope(t), **own)]
    if stack == "decoder" and len(t.stacks) == 2:
        subs.append(_attention(t, "cross_attention", CrossAttention))
    up, down = Linear("up", h, f, "1", t.ffn_bias), Linear("down", f, h, "2", t.ffn_bias)
    subs.append(FeedForward("ffn", up, down, t.activation, True))
    names = ("self", "cross", "ffn") if len(subs) == 3 else ("self", "ffn")
    norms = tuple(Norm(f"{name}_norm", t.norm, h) for name in names)
    layer = Layer("layer", tuple(subs), norms, True, called=names, first=t.pre_norm)
    return Side(stack, _shared(t), Stack("layer", (layer,), t.size(f"{stack}_layers")), stack)


def _attention(t: Transformer, name: str, of: type[Attention], **own: Any) -> Attention:
    """Projections with the names of the textbook."""
    h, a, g, d, d_v = t.d_model, t.n_heads, t.size("n_kv_heads"), t.size("head_dim"), t.size("value_dim")
    widths = {"Q": a * d, "K": g * d, "V": g * d_v}
    maps = (
        Linear(each, h, widths[letter], letter, t.attention_bias) for each, letter in zip(NAMES, widths, strict=True)
    )
    output = Linear("output", a * d_v, h, "O", t.attention_bias)
    return of(name, a, g, d, d_v, tuple(maps), (), output, dropout=True, **own)


def _rope(t: Transformer) -> Rope | None:
    return Rope(t.size("head_dim")) if t.positions == "rotary" else None


def _position(t: Transformer) -> Distances | None:
    """What self-attention does with distances."""
    h, a, d, bias = t.d_model, t.n_heads, t.size("head_dim"), t.attention_bias
    match t.positions:
        case "alibi":
            return FixedBias("position")
        case "t5":
            return TrainedBias("position")
        case "multiplicative":
            return Factors("position", Table("table", "w", _both_ways(t) + 1, a))
        case "relative":
            keys = Table("keys", "A_K", _both_ways(t) + 1, d)
            return Vectors("position", keys, Table("values", "A_V", _both_ways(t) + 1, t.size("value_dim")))
        case "transformer-xl":
            u, v = (Shift(one, Weight(one, (a, d), minor=True, key="")) for one in "uv")
            return MappedSinusoids("position", Linear("map", h, a * d, "R"), u, v)
        case "deberta":
            key, query = Linear("key_map", h, a * d, "Kr", bias), Linear("query_map", h, a * d, "Qr", bias)
            return MappedVectors("position", key, query, _both_ways(t))
    return None


def _shared(t: Transformer) -> Module | None:
    """What all layers of a stack use."""
    match t.positions:
        case "alibi":
            return Slopes("slopes", Weight("slopes", (t.n_heads,), key=""))
        case "t5":
            return Table("position", "B", t.size("buckets"), t.n_heads)
        case "deberta":
            return PositionVectors("position", Weight("position", (_both_ways(t), t.d_model), key=""))
    return None


class Slopes(Buffer):
    """Those of ALiBi."""

    kind = "position"


class PositionVectors(Stored):
    """Those of positions that all layers map."""

    kind = "position"


def _both_ways(t: Transformer) -> Num:
    """Distances before and behind."""
    if t.max_distance is None:
        raise InvalidModel(f"{t.positions} positions without max_distance", "give max_distance")
    return 2 * t.max_distance
