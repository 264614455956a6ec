"""Inkling 2's text: windows and full attention, both with learned distances, short convolutions and gates."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import ceil_div
from tfcalc.families import kit
from tfcalc.families.glm_moe import routed
from tfcalc.families.inkling import FULL, WINDOW, attention, convolution, embedded, unpadded
from tfcalc.families.windows import layer_types
from tfcalc.nn.basic import Linear, Norm, parameter
from tfcalc.nn.clipped_lengths import ClippedAttention, TokenConvolved
from tfcalc.nn.depth import DepthAttention, DepthDecoder, DepthLayer
from tfcalc.nn.mixture import CappedExperts, Mixture
from tfcalc.nn.module import Module
from tfcalc.nn.unpadded import Unpadded

CODE = "olmo"
"""Norms are multiplied by their weights in fp32."""


def clipped_attention(c: Config, kind: str) -> ClippedAttention:
    """Each head mixes profiles of bias over distance; a gate of the output, and a sink that depends on the token.

    Where attention sees everything, the weights of its convolutions depend on the token too.
    """
    h, kernel, made = c.size("hidden_size"), c.size("conv_kernel_size"), attention(c, kind)
    a, g, d = made.heads, made.kv_heads, made.key_dim
    clipped = made.to(
        ClippedAttention,
        norms=(),
        gate=Linear("gate_proj", h, a * d),
        sink=Linear("sink_proj", h, a),
        scale=parameter("q_l2_clip.scale", a, d, minor=True),
        mix_scale=parameter("rel_l2_clip.scale", a, c.size("d_rel"), minor=True),
    )
    if kind == WINDOW:
        return clipped.but(convolutions=tuple(each.but(scales=True) for each in made.convolutions))
    return clipped.to(
        TokenConvolved,
        convolutions=(),
        taps=tuple(Linear(f"{letter}_sconv.weight_proj", h, g * kernel) for letter in "kv"),
        static=tuple(parameter(f"{letter}_sconv.static", kernel, g * d) for letter in "kv"),
        reach=kernel,
        by_place=True,
    )


def mixture(c: Config) -> Mixture:
    """Routed experts, none shared."""
    made = routed(c, normalized=True, in_place=False)
    return made.but(experts=made.experts.to(CappedExperts))


def capped_language_model(c: Config, base: Module) -> Module:
    """Logits by a matrix of its own; in fp32 a tanh caps them."""
    capped = c.get("final_logit_softcapping") is not None
    return tops.never_tied(c, base).to(Unpadded, words=unpadded(c), capped=capped, in_float32=True)


@family("inkling2_text", heads=tops.CAUSAL_LM | {"ForCausalLM": capped_language_model})
def inkling2_text(c: Config) -> Module:
    """Its layers read the stream through a query over blocks of layers before them; full ones with three queries."""
    h, every, count = c.size("hidden_size"), c.number("n_layers_per_attn_res_block"), c.number("num_hidden_layers")

    def read(name: str, vectors: int, queries: int = 1) -> DepthAttention:
        query = parameter("query", queries, h)
        return DepthAttention(name, query, Norm("norm", "rmsnorm-plain", h), vectors, queries)

    def one(kind: tuple[str, int, bool, bool]) -> Module:
        mixer, block, closes, lowest = kind
        inputs = [f"{letter}_input_layernorm" for letter in "qkv"] if mixer == FULL else ["input_layernorm"]
        return DepthLayer(
            "layers",
            None if lowest else read("attention_input", block + 2 - closes, len(inputs)),
            tuple(Norm(name, "rmsnorm", h, CODE) for name in inputs),
            clipped_attention(c, mixer),
            convolution(c, "post_attention_convolution.conv1d", h, scales=True),
            read("mlp_input", block + 2),
            Norm("post_attention_layernorm", "rmsnorm", h, CODE),
            mixture(c),
            convolution(c, "post_mlp_convolution.conv1d", h, scales=True),
            block,
            closes,
        )

    types = layer_types(c, lambda place: WINDOW if (place + 1) % 6 else FULL, (WINDOW, FULL))
    kinds = [(kind, place // every, place % every == 0, place == 0) for place, kind in enumerate(types)]
    made = embedded(c, kit.decoder(c, one, kinds, code=CODE))
    assert made.normed is not None
    last = read("final_input", ceil_div(count, every) + 1)
    return made.to(DepthDecoder, normed=made.normed.but(code=CODE), last=last)
