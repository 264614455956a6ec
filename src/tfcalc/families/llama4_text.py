"""Llama 4's text: experts in every layer or in some, chunks of the sequence, layers without positions."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.families import kit
from tfcalc.families.experts import chosen
from tfcalc.families.names import FUSED
from tfcalc.families.windows import window
from tfcalc.nn.attention import OWN_SOFTMAX, Attention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.every_expert import AllExperts, EveryExpert, RouterOfAll
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.module import Module

CHUNKED = "chunked_attention"


def experts(c: Config) -> Mixture:
    """Experts, which all read every token, and a shared one of the same width."""
    h, f, act = c.size("hidden_size"), c.size("intermediate_size"), c.word("hidden_act")
    count, active = c.size("num_local_experts"), chosen(c)
    up, down = Linear(FUSED[0], h, 2 * f, "1"), Linear(FUSED[1], f, h, "2")
    many = AllExperts("experts", None, up, down, act, count=count, chosen=active)
    route = RouterOfAll("router", h, count, chosen=active)
    return EveryExpert("feed_forward", route, many, (kit.gated(c, name="shared_expert", width=f),), in_place=True)


def sparse_layers(c: Config) -> list[bool]:
    """Which layers have experts: those of ``moe_layers``, else the last of every ``interleave_moe_layer_step``."""
    count = c.number("num_hidden_layers")
    if c.has("moe_layers"):
        listed = set(c.numbers("moe_layers"))
        return [place in listed for place in range(count)]
    step = c.number("interleave_moe_layer_step")
    return [(place + 1) % step == 0 for place in range(count)]


@family("llama4_text")
def llama4_text(c: Config) -> Module:
    """Llama 4's text (Meta 2025): the norms of queries and keys have no weights."""

    def one(kind: tuple[int | None, bool, bool]) -> PreNorm:
        chunk, rotates, sparse = kind
        dense = kit.gated(c, name="feed_forward", width=c.size("intermediate_size_mlp"))
        return kit.layer(c, text_attention(c, chunk, rotates), experts(c) if sparse else dense)

    kinds = list(zip(chunks(c), rotated(c), sparse_layers(c), strict=True))
    return kit.decoder(c, one, kinds, masks=(None, window(c, "attention_chunk_size")))


def text_attention(c: Config, chunk: int | None, rotates: bool) -> Attention:
    """Queries and keys are turned, and then normed; those that are not have a factor for each place instead."""
    made = kit.attention(c, bias=c.flag("attention_bias"))
    normed = rotates and c.flag("use_qk_norm")
    return made.but(
        rope=kit.rope(c, angles="complex", in_float32=True) if rotates else None,
        norms=(Norm("qk_norm", "rmsnorm-plain", made.key_dim),) if normed else (),
        normed_last=normed,
        chunk=chunk,
        tempered="float32" if not rotates and c.flag("attn_temperature_tuning") else "",
        eager=OWN_SOFTMAX,
    )


def rotated(c: Config) -> list[bool]:
    """Which layers know positions: those of ``no_rope_layers``, else all but every fourth."""
    count = c.number("num_hidden_layers")
    if c.get("no_rope_layers"):
        return [bool(each) for each in c.numbers("no_rope_layers", count)]
    return [(place + 1) % c.number("no_rope_layer_interval") > 0 for place in range(count)]


def chunks(c: Config) -> list[int | None]:
    """Layers that know positions see only their chunk, unless ``layer_types`` say which do."""
    count, chunk = c.number("num_hidden_layers"), window(c, "attention_chunk_size")
    if c.has("layer_types"):
        return [chunk if kind == CHUNKED else None for kind in c.words("layer_types", count)]
    return [chunk if each else None for each in rotated(c)]
