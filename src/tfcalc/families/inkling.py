"""Inkling's text: learned distances, short convolutions everywhere, shared experts among which a router weighs."""

from __future__ import annotations

from typing import Any

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.families import experts, kit
from tfcalc.nn.basic import Linear, Norm, Stored, parameter
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.model import Decoder, WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.near import AddedConvolution, ConvolvedLayer, DistanceAttention
from tfcalc.nn.unpadded import Unpadded
from tfcalc.nn.weighed_shared import RouterOfShared, SharedExperts, TimesTrained, WeighedShared
from tfcalc.ops.keeping import FP32

WINDOW, FULL = "hybrid_sliding", "hybrid"


def convolution(c: Config, name: str, channels: Num, **how: bool) -> AddedConvolution:
    """Over the last few tokens, in fp32."""
    return AddedConvolution(name, channels, c.size("conv_kernel_size"), bias=False, bits=FP32, **how)


def heads(c: Config, kind: str) -> tuple[Num, Num, Num]:
    """Of queries, of keys, and their width: windows have sizes of their own."""
    prefix = "" if kind == FULL else "swa_"
    c.quotient(f"{prefix}num_attention_heads", f"{prefix}num_key_value_heads")  # heads share keys evenly
    return c.size(f"{prefix}num_attention_heads"), c.size(f"{prefix}num_key_value_heads"), c.size(f"{prefix}head_dim")


def attention(c: Config, kind: str) -> DistanceAttention:
    """Each head mixes profiles of bias over distance."""
    h, (a, g, d), full = c.size("hidden_size"), heads(c, kind), kind == FULL
    widths = {"q": a * d, "k": g * d, "v": g * d}
    return DistanceAttention(
        "self_attn",
        a,
        g,
        d,
        d,
        tuple(Linear(f"{letter}_proj", h, width, letter.upper()) for letter, width in widths.items()),
        (Norm("q_norm", "rmsnorm", d), Norm("k_norm", "rmsnorm", d)),
        Linear("o_proj", a * d, h, "O"),
        window=None if full else c.size("sliding_window_size"),
        dropout=bool(c.get("attention_dropout")),
        convolutions=tuple(convolution(c, f"{letter}_sconv.conv1d", g * d) for letter in "kv"),
        mixes=Linear("r_proj", h, a * c.size("d_rel")),
        profiles=Linear(
            "rel_logits_proj.proj", c.size("d_rel"), c.size("rel_extent" if full else "sliding_window_size")
        ),
        by_place=full and c.get("log_scaling_n_floor") is not None,
    )


def feed_forward(c: Config, kind: str) -> Module:
    """A dense network or experts, each scaled by one number. The router has a say over the shared experts too."""
    # Older files call the experts' width intermediate_size, and the dense layers' dense_intermediate_size.
    older = c.get("dense_intermediate_size") is not None
    wide, narrow = (
        ("dense_intermediate_size", "intermediate_size") if older else ("intermediate_size", "moe_intermediate_size")
    )
    if kind == "dense":
        dense = kit.gated(c, width=c.size(wide))
        return TimesTrained(**dense.__dict__ | {"scale": parameter("global_scale", 1, minor=True)})
    many, common = c.size("n_routed_experts"), c.size("n_shared_experts", least=0)
    made = experts.mixture(c, experts="n_routed_experts", width=narrow)
    how: dict[str, Any] = {"chosen": made.experts.chosen, "shared": common, "logits": "copies"}
    shared: GatedFeedForward = kit.gated(c, name="shared_experts", width=c.size(narrow))
    return WeighedShared(
        "mlp",
        RouterOfShared("gate", c.size("hidden_size"), many + common, **how),
        made.experts,
        stored=(experts.correction(c),),
        beside=SharedExperts(**shared.__dict__ | {"count": common}),
        scale=Stored("gate.global_scale", Weight("global_scale", (1,), minor=True, key="")),
    )


def layer_types(c: Config) -> list[str]:
    """Which layers see a window: those listed, or all but every sixth."""
    count = c.number("num_hidden_layers")
    if c.has("layer_types"):
        return c.words("layer_types", count, (WINDOW, FULL))
    listed = c.get("local_layer_ids") is not None
    local = c.numbers("local_layer_ids") if listed else [place for place in range(count) if (place + 1) % 6]
    return [WINDOW if place in local else FULL for place in range(count)]


def unpadded(c: Config) -> Num | None:
    """How many words the logits are of, where the table has rows for more."""
    given = c.get("unpadded_vocab_size")
    return c.size("unpadded_vocab_size") if given is not None and given < c.number("vocab_size") else None


def language_model(c: Config, base: Module) -> Module:
    """Logits by a matrix of its own; what it reads is divided first."""
    made = tops.never_tied(c, base)
    assert isinstance(made, WithHead)
    return Unpadded(**made.__dict__ | {"words": unpadded(c), "divides": True})


def embedded(c: Config, made: Decoder) -> Decoder:
    """With a norm of the words' vectors; the program makes both masks."""
    masks = (None, c.size("sliding_window_size"))
    return made.but(normed=Norm("embed_tokens.embed_norm", "rmsnorm", c.size("hidden_size")), masks=masks)


@family(
    "inkling_text",
    architecture="InklingForCausalLM",
    heads=tops.CAUSAL_LM | {"ForCausalLM": language_model},
    aliases={
        "sliding_window": "sliding_window_size",
        "num_local_experts": "n_routed_experts",
        "sconv_kernel_size": "conv_kernel_size",
        "model_max_length": "max_position_embeddings",
    },
    dense_mlp_idx=0,  # by __post_init__, for older configs
)
def inkling_text(c: Config) -> Module:
    """Inkling (transformers' InklingTextModel): a short convolution of every key, value and sub-layer's output."""
    h = c.size("hidden_size")

    def one(kind: tuple[str, str]) -> Module:
        made = kit.layer(c, attention(c, kind[0]), feed_forward(c, kind[1]), of=ConvolvedLayer)
        behind = tuple(convolution(c, f"{name}_sconv.conv1d", h) for name in ("attn", "mlp"))
        return made.but(convolutions=behind)

    sparse = experts.sparse_after(c, c.number("dense_mlp_idx", least=0))
    kinds = list(zip(layer_types(c), experts.mlp_types(c, sparse), strict=True))
    return embedded(c, kit.decoder(c, one, kinds))
