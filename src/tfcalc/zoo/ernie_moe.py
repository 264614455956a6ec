"""Mixtures of experts whose configs have fields of their own: ERNIE 4.5, Hunyuan-Large, Command A, Aria."""

from __future__ import annotations

from collections.abc import Sequence

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.nn.layers import Parallel, PreNorm
from tfcalc.nn.mixture import Mixture, RouterCode
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders, experts
from tfcalc.zoo.blocks.layers import LAYERS, full_and_sliding, windows


def ernie_layers(c: Config) -> list[bool]:
    """Experts in every ``moe_layer_interval``-th layer from ``moe_layer_start_index`` on; -1 ends with the last one."""
    every, count = c.number("moe_layer_interval"), c.number(LAYERS)
    last = count - 1 if c.get("moe_layer_end_index") == -1 else c.number("moe_layer_end_index", least=0)
    first = c.number("moe_layer_start_index", least=0)
    return [first <= place <= last and (place + 1) % every == 0 for place in range(count)]


@family("ernie4_5_moe", heads=tops.CAUSAL_LM | {"ForCausalLM": tops.lm_head(bias_flag="use_bias")})
def ernie4_5_moe(c: Config) -> Module:
    """ERNIE 4.5 (Baidu 2025, technical report): one flag for all biases, the head's too; experts have none."""
    bias = c.flag("use_bias")
    mixer = decoders.attention(c, bias=bias).replace(
        rope=decoders.rope(c, angles="float32", by_layer=True, in_float32=True)
    )

    def one(sparse: bool) -> PreNorm:
        return decoders.layer(c, mixer, ernie_experts(c, bias) if sparse else decoders.gated(c, bias=bias))

    return decoders.decoder(c, one, ernie_layers(c))


def ernie_experts(c: Config, bias: bool) -> Mixture:
    """A bias that is not trained says which experts are chosen; the router runs in fp32, even under autocast."""
    some, width = c.number("moe_num_shared_experts", least=0), experts.shared(c, "moe_num_shared_experts")
    beside = (decoders.gated(c, name="shared_experts", width=width, bias=bias),) if some else ()
    made = experts.mixture(c, *beside, experts="moe_num_experts", each="moe_k", width="moe_intermediate_size").routed(
        corrected=True,
        normalized=True,
        code=RouterCode(least=True, logits="copies", format="float32", exact=True, result="stream"),
    )
    stored = experts.frozen(c, "gate.moe_statics.e_score_correction_bias", "moe_num_experts")
    return made.replace(stored=(stored,), shared_first=True)


@family("hunyuan_v1_moe")
def hunyuan_v1_moe(c: Config) -> Module:
    """Hunyuan-A13B (transformers' HunYuanMoEV1Model): a shared network as wide as an expert; k may differ by layer."""
    names = ("query_layernorm", "key_layernorm")
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", norm_names=names).replace(
        normed_last=True
    )
    beside = decoders.gated(c, name="shared_mlp")

    def one(each: int | str) -> PreNorm:
        mixed = experts.mixture(c, beside, experts="num_experts", each=each, router="gate.wg")
        mixed = mixed.routed(normalized=True, code=RouterCode(logits="copies", format="float32", result="logits"))
        return decoders.layer(c, mixer, mixed.replace(shared_first=True))

    count, listed = c.number(LAYERS), isinstance(c.get("moe_topk"), list)
    kinds: Sequence[int | str] = c.numbers("moe_topk", count, least=1) if listed else ["moe_topk"] * count
    return decoders.decoder(c, one, kinds)


@family(
    "cohere2_moe",
    heads=tops.CAUSAL_LM | tops.scaled_lm(),
    first_k_dense_replace=0,  # by __post_init__, for older configs
)
def cohere2_moe(c: Config) -> Module:
    """Cohere 2 with experts (transformers' Cohere2MoeModel): attention and experts side by side, after one norm.

    Layers that see everything know no positions; dense ones do where none of them has a window.
    """
    norm, code = ("layernorm-no-bias", "python") if c.get("rms_norm_eps") is None else ("rmsnorm", "")
    dense = c.number("first_k_dense_replace", least=0)
    rope = decoders.rope(c, in_float32=True)

    def one(kind: tuple[int | None, bool, str]) -> PreNorm:
        window, rotated, network = kind
        mixer = decoders.attention(c, bias=c.flag("attention_bias"), window=window).replace(
            rope=rope if rotated else None
        )
        ffn = decoders.gated(c, width=dense_width(c)) if network == "dense" else cohere_experts(c)
        return decoders.layer(c, mixer, ffn, of=Parallel, norm=norm, names=("input_layernorm",), code=code)

    networks, forced = experts.mlp_types(c, experts.sparse_after(c, dense)), dense_rotated(c)
    kinds = zip(cohere_windows(c, dense), networks, strict=True)
    told = [(window, window is not None or (forced and network == "dense"), network) for window, network in kinds]
    return decoders.decoder(c, one, told, norm=norm, code=code, masks=full_and_sliding(c))


def dense_rotated(c: Config) -> bool:
    """Return whether dense layers know positions, whatever they see."""
    return c.number("prefix_dense_sliding_window_pattern") == 1


def cohere_experts(c: Config) -> Mixture:
    """The best logits are found first; their softmax, or each one's sigmoid, is brought to the stream's format."""
    some, width = c.number("num_shared_experts", least=0), experts.shared(c, "num_shared_experts", "intermediate_size")
    beside = (decoders.gated(c, name="shared_experts", width=width),) if some else ()
    scores = c.word("expert_selection_fn")
    normalized = scores == "sigmoid" and bool(c.get("norm_topk_prob"))
    return experts.mixture(c, *beside, experts="num_experts").routed(
        best_first=True,
        scores=scores,
        normalized=normalized,
        code=RouterCode(softmax_in="float32", in_place=False, result="stream"),
    )


def cohere_windows(c: Config, dense: int) -> list[int | None]:
    """Return each layer's window: every fourth sees everything, in the ``dense`` layers at the bottom and above them.

    Both groups of layers are counted apart.
    """
    above, below = c.number("sliding_window_pattern"), c.number("prefix_dense_sliding_window_pattern")
    return windows(c, lambda place: (place + 1) % below > 0 if place < dense else (place - dense + 1) % above > 0)


def dense_width(c: Config) -> Num:
    """The first layers' own width, else that of an expert."""
    own = c.optional("prefix_dense_intermediate_size")
    return c.size("intermediate_size") if own is None else own


@family("aria_text")
def aria_text(c: Config) -> Module:
    """Aria (arXiv 2410.05993): only the shared experts may have biases."""
    common = experts.shared(c, "moe_num_shared_experts", "intermediate_size")
    beside = decoders.gated(c, name="shared_experts", width=common, bias=c.flag("mlp_bias"))
    mixed = experts.mixture(c, beside, experts="moe_num_experts", each="moe_topk", router="router", best_first=True)
    return decoders.decoder(c, decoders.layer(c, decoders.attention(c, bias=c.flag("attention_bias")), mixed))
