"""Inkling's text: learned distances, short convolutions everywhere, shared experts among which a router weighs."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.families import experts, kit
from tfcalc.families.layers import multi_head
from tfcalc.families.names import LLAMA_NAMES
from tfcalc.families.windows import layer_types
from tfcalc.nn.basic import Linear, Norm, Stored, parameter
from tfcalc.nn.model import Decoder
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
    return multi_head(
        DistanceAttention,
        "self_attn",
        LLAMA_NAMES,
        *(h, a, d),
        groups=g,
        norms=(Norm("q_norm", "rmsnorm", d), Norm("k_norm", "rmsnorm", d)),
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
        scale = parameter("global_scale", 1, minor=True)
        return kit.gated(c, width=c.size(wide)).to(TimesTrained, scale=scale)
    many, common = c.size("n_routed_experts"), c.size("n_shared_experts", least=0)
    made = experts.mixture(c, experts="n_routed_experts", width=narrow)
    shared = kit.gated(c, name="shared_experts", width=c.size(narrow))
    h, chosen = c.size("hidden_size"), made.experts.chosen
    return WeighedShared(
        "mlp",
        RouterOfShared("gate", h, many + common, chosen=chosen, shared=common, logits="copies"),
        made.experts,
        stored=(experts.correction(c),),
        beside=shared.to(SharedExperts, count=common),
        scale=Stored("gate.global_scale", Weight("global_scale", (1,), minor=True, key="")),
    )


def kinds(c: Config) -> list[str]:
    """Which layers see a window: those listed, or all but every sixth."""
    local = None if c.get("local_layer_ids") is None else c.numbers("local_layer_ids")

    def otherwise(place: int) -> str:
        return WINDOW if ((place + 1) % 6 if local is None else place in local) else FULL

    return layer_types(c, otherwise, (WINDOW, FULL))


def unpadded(c: Config) -> Num | None:
    """How many words the logits are of, where the table has rows for more."""
    if c.get("unpadded_vocab_size") is None or c.number("unpadded_vocab_size") >= c.number("vocab_size"):
        return None
    return c.size("unpadded_vocab_size")


def language_model(c: Config, base: Module) -> Module:
    """Logits by a matrix of its own; what it reads is divided first."""
    return tops.never_tied(c, base).to(Unpadded, words=unpadded(c), divides=True)


def embedded(c: Config, made: Decoder) -> Decoder:
    """With a norm of the words' vectors; the program makes both masks."""
    masks = (None, c.size("sliding_window_size"))
    return made.but(normed=Norm("embed_tokens.embed_norm", "rmsnorm", c.size("hidden_size")), masks=masks)


@family(
    "inkling_text",
    heads=tops.CAUSAL_LM | {"ForCausalLM": language_model},
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
    return embedded(c, kit.decoder(c, one, list(zip(kinds(c), experts.mlp_types(c, sparse), strict=True))))
