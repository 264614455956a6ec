"""Parts that most decoders are composed of, read from the fields that nearly all configs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tfcalc.configs.config import Config, check_factor
from tfcalc.core.component import Weight
from tfcalc.core.number import Num, scaled
from tfcalc.nn.attention import Attention, Sinks
from tfcalc.nn.basic import Embedding, Norm, Parameter, buffer, parameter
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.zoo.blocks import layers
from tfcalc.zoo.blocks.layers import LLAMA_NAMES, Kind, multi_head, network, one_module_per_kind, stack

BOTH_SIDES = ("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm")

POST_NORM = ("post_attention_layernorm", "post_feedforward_layernorm")

GATED = ("gate_proj", "up_proj", "down_proj")
PLAIN = ("up_proj", "down_proj")
PRE_NORM = ("input_layernorm", "post_attention_layernorm")
SANDWICH = (*PRE_NORM, "pre_feedforward_layernorm", "post_feedforward_layernorm")


def kv_heads(c: Config) -> Num:
    """Key and value heads, as many as query heads where none are given. They must share the query heads evenly."""
    if c.optional("num_key_value_heads") is None:
        return c.size("num_attention_heads")
    return c.sharing("num_key_value_heads", "num_attention_heads")


def head_dim(c: Config) -> Num:
    """The width of a head: given, or the hidden size split among the heads."""
    given = c.optional("head_dim")
    return c.quotient("hidden_size", "num_attention_heads") if given is None else given


def rotary_width(c: Config, d: Num, kind: str = "") -> Num:
    """Rotated part of a head's width ``d``: all of it, or the fraction ``partial_rotary_factor``.

    Layers of this ``kind`` may have a factor of their own.
    """
    name = "partial_rotary_factor"
    rope = next((scope for scope in ("rope_parameters", "rope_scaling") if c.get(scope)), "")
    nested = c.get(rope)
    if isinstance(nested, Mapping) and isinstance(nested.get(kind), Mapping):
        rope, nested = f"{rope}.{kind}", nested[kind]
    if isinstance(nested, Mapping) and nested.get(name) is not None:
        part = check_factor(f"{rope}.{name}", nested[name])
    else:
        part = 1 if c.get(name) is None else c.factor(name)
    return d if part >= 1 else scaled(d, part)


def attention(
    c: Config,
    *,
    names: Sequence[str] = LLAMA_NAMES,
    bias: bool = False,
    output_bias: bool | None = None,
    qk_norms: str = "",
    norm_names: tuple[str, str] = ("q_norm", "k_norm"),
    whole: bool = False,
    code: str = "",
    window: int | None = None,
    causal: bool = True,
    dropout: str = "attention_dropout",
    width: Num | None = None,
    each: bool = False,
) -> Attention:
    """Self-attention; ``width`` is a head's, if not ``head_dim``.

    ``qk_norms`` is the form of the norms of queries and keys: of each head, of the ``whole``, or of ``each`` head with
    weights of its own.
    """
    h, a, g = c.size("hidden_size"), c.size("num_attention_heads"), kv_heads(c)
    d = head_dim(c) if width is None else width
    norms = (
        Norm(name, qk_norms, heads * d if whole else d, code, heads if each else 1)
        for name, heads in zip(norm_names if qk_norms else (), (a, g), strict=False)
    )
    return multi_head(
        Attention,
        "self_attn",
        names,
        h,
        a,
        d,
        groups=g,
        bias=bias,
        output_bias=output_bias,
        norms=tuple(norms),
        rope=rope(c, d),
        whole=whole,
        window=window,
        causal=causal,
        dropout=bool(c.get(dropout)),
    )


def sinks(c: Config, code: str = "scale") -> Sinks:
    """A trained score for each head."""
    return Sinks("sinks", Weight("sinks", (c.size("num_attention_heads"),), minor=True, key=""), code)


def rope(c: Config, width: Num | None = None, kind: str = "", **code: Any) -> Rope:
    """Rotary positions of heads of this ``width`` (if not ``head_dim``), or of a part, as the config says.

    It may say so for each ``kind`` of layer. ``code`` is what the family's program does its own way.
    """
    width = head_dim(c) if width is None else width
    turned = rotary_width(c, width, kind)
    return Rope(turned, RopeCode(**code), partial=turned is not width)


def gated(
    c: Config,
    *,
    name: str = "mlp",
    width: Num | None = None,
    hidden: Num | None = None,
    bias: bool = False,
    names: Sequence[str] = GATED,
    act: str = "hidden_act",
) -> GatedFeedForward:
    """SwiGLU, GeGLU: the feed-forward network with a gate, which two names say is made with the input by one map.

    It is as wide as ``intermediate_size`` says, unless a ``width`` is given, and reads vectors of ``hidden_size``,
    unless a ``hidden`` width is. ``names`` are those of the gate, of what it is multiplied with, and of the way down.
    """
    h, f = c.size("hidden_size") if hidden is None else hidden, c.size("intermediate_size") if width is None else width
    kind = c.word(act)
    stored = learned(kind, "activation_fn" if len(names) == 2 else "act_fn")
    return layers.gated(name, names, h, f, kind, bias=bias, learned=stored)


def plain(c: Config, *, bias: bool = False, names: Sequence[str] = PLAIN, act: str = "hidden_act") -> FeedForward:
    """The feed-forward network without a gate."""
    h, f = c.size("hidden_size"), c.size("intermediate_size")
    kind = c.word(act)
    stored = learned(kind, "act_fn" if "up_proj" in names else "activation_fn")
    return network("mlp", names, h, f, kind, bias=bias, learned=stored)


LEARNED = {"xielu": (("alpha_p", "alpha_n"), ("beta", "eps")), "prelu": (("weight",), ())}
"""The trained scalars of an activation, and its buffers."""


def learned(kind: str, name: str) -> tuple[Parameter, ...]:
    """Trained scalars and buffers of an activation: xIELU (arXiv 2411.13010), PReLU (arXiv 1502.01852)."""
    weights, buffers = LEARNED.get(kind, ((), ()))
    trained = (parameter(f"{name}.{each}", 1, minor=True) for each in weights)
    return (*trained, *(buffer(f"{name}.{each}") for each in buffers))


def layer(
    c: Config,
    *sublayers: Module,
    of: type[PreNorm] = PreNorm,
    norm: str = "rmsnorm",
    names: Iterable[str] = PRE_NORM,
    code: str = "",
    dropped: bool = False,
) -> PreNorm:
    """A layer of these sub-layers, with norms of the hidden size by these ``names``."""
    norms = tuple(Norm(name, norm, c.size("hidden_size"), code) for name in names)
    return of("layers", sublayers, norms, dropped)


def with_windows(layer: PreNorm, windows: Sequence[int | None], **full: Any) -> list[Module]:
    """One layer for each window; global layers (None) take the fields in ``full``."""
    mixer, *others = layer.sublayers

    def one(window: int | None) -> Module:
        own = full if window is None else {}
        return layer.replace(sublayers=(mixer.replace(window=window, **own), *others))

    return one_module_per_kind(one, windows)


def decoder(
    c: Config,
    of: Module | Sequence[Module] | Callable[[Kind], Module],
    kinds: Sequence[Kind] = (),
    *,
    norm: str = "rmsnorm",
    code: str = "",
    names: tuple[str, str, str] = ("model", "embed_tokens", "norm"),
    masks: tuple[int | None, ...] = (),
    count: Num | None = None,
) -> Decoder:
    """A table, layers, and a final norm; the layers are all alike, or listed, or made ``of`` their ``kinds``.

    There are as many as the config says, or this ``count``.

    The program makes ``masks`` for these windows, whether a layer has them or not.
    """
    h, (whole, table, last) = c.size("hidden_size"), names
    made = stack(c, of if isinstance(of, Module | Sequence) else one_module_per_kind(of, kinds), count=count)
    return Decoder(whole, Embedding(table, c.size("vocab_size"), h), made, Norm(last, norm, h, code), masks=masks)
