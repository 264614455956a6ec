"""Zaya: compressed convolutional attention and experts that a small network chooses."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import FUSED, layer, stack
from tfcalc.blocks.convolved_attention import ConvolvedAttention
from tfcalc.core.component import Component
from tfcalc.families.config import Config
from tfcalc.families.family import family
from tfcalc.families.heads import bare, output
from tfcalc.families.hybrid import swiglu
from tfcalc.families.llama import PRE_NORM, decoder, head_dim, kv_heads, norms
from tfcalc.leaves import activation, buffer, linear, norm, parameter
from tfcalc.leaves.scan import gated_sum
from tfcalc.workload import Workload


def lm_head(c: Config, run: Workload, base: Component) -> tuple[Component, ...]:
    """Logits, with a bias where the config has one."""
    sizes, tied = (c.size("hidden_size"), c.size("vocab_size")), c.flag("tie_word_embeddings")
    return base, output("lm_head", *sizes, run, tied=tied, bias=c.flag("lm_head_bias"))


def router(c: Config, run: Workload, *, mixes: bool) -> Component:
    """A network that chooses an expert, or none; all but the first layer's mix in what the one before made of the token."""
    h, r, t = c.size("hidden_size"), c.size("router_hidden_size"), run.target.tokens
    classes = c.size("num_experts") + 1
    mlp = (
        norm("norm", "rmsnorm", r, t),
        linear("fc1", r, r, t),
        linear("fc2", r, r, t),
        activation("activation", "gelu", 2 * t * r),
        linear("out_proj", r, classes, t, bias=False),
    )
    return Component(
        "gate",
        "router",
        parts=(
            linear("down_proj", h, r, t),
            *([parameter("router_states_scale", r, minor=True)] if mixes else []),
            Component("router_mlp", "ffn", parts=mlp),
            buffer("balancing_biases", classes),
        ),
    )


def scaling(name: str, c: Config, run: Workload, *streams: str) -> Iterator[Component]:
    """``x · scale + bias`` for each of these streams, all trained."""
    h = c.size("hidden_size")
    for stream in streams:
        yield parameter(f"{stream}_scale", h, minor=True)
        yield parameter(f"{stream}_bias", h, minor=True)
    yield gated_sum(name, "x · scale + bias", len(streams) * run.target.tokens * h, forward=2, backward=4)


def scaled_residual(name: str, c: Config, run: Workload) -> Component:
    """A residual whose two sides are scaled."""
    return Component(name, "norm", parts=tuple(scaling("scaled", c, run, "hidden_states", "residual")))


@family(
    "zaya",
    architecture="ZayaForCausalLM",
    heads={"Model": bare, "ForCausalLM": lm_head},
    vocab_size=262272,
    hidden_size=2048,
    num_hidden_layers=40,
    num_attention_heads=8,
    num_key_value_heads=2,
    hidden_act="silu",
    max_position_embeddings=131072,
    tie_word_embeddings=True,
    moe_intermediate_size=2048,
    num_experts_per_tok=1,
    num_experts=16,
    head_dim=128,
    attention_bias=False,
    lm_head_bias=False,
    router_hidden_size=256,
    cca_time0=2,
    cca_time1=2,
)
def zaya(c: Config, run: Workload) -> Component:
    """ZAYA1 (arXiv 2511.17127)."""
    h, stream = c.size("hidden_size"), run.target
    kernels, bias = (c.size("cca_time0"), c.size("cca_time1")), c.flag("attention_bias")
    attention = ConvolvedAttention(h, c.size("num_attention_heads"), kv_heads(c), head_dim(c), kernels, bias)
    expert = swiglu(c, c.size("moe_intermediate_size"), FUSED)("experts", stream, run)
    experts = expert._replace(kind="experts", copies=c.size("num_experts"), active=c.size("num_experts_per_tok"))

    def made(first: bool) -> Component:
        parts = (
            attention("self_attn", stream, run),
            Component("mlp", "moe", parts=(router(c, run, mixes=not first), experts)),
            *norms(PRE_NORM, "rmsnorm", c, run),
            scaled_residual("post_attention_residual_scale", c, run),
            scaled_residual("post_mlp_residual_scale", c, run),
        )
        return layer("layers", parts, stream.tokens * h)

    kinds = [place == 0 for place in range(c.number("num_hidden_layers"))]
    base = decoder(c, run, *stack("layers", kinds, c.size("num_hidden_layers"), made))
    return base._replace(parts=(*base.parts, *scaling("input", c, run, "input_hidden_states")))
