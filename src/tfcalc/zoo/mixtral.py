"""Mixtral and those that differ from it by a flag: a mixture of experts in the place of each feed-forward network."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.layers import NormAfterSublayer
from tfcalc.nn.mixture import Mixture, RouterCode, SparseMixer
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders, experts
from tfcalc.zoo.blocks.decoders import POST_NORM
from tfcalc.zoo.blocks.experts import MIXTRAL_HEADS
from tfcalc.zoo.blocks.layers import full_and_sliding, window, windows


@family("mixtral", heads=MIXTRAL_HEADS)
def mixtral(c: Config) -> Module:
    """Jiang et al. 2024 (arXiv 2401.04088): ``intermediate_size`` is each expert's."""
    mixer = decoders.attention(c, window=window(c))
    return decoders.decoder(c, decoders.layer(c, mixer, experts.mixture(c, normalized=True)))


@family("olmoe")
def olmoe(c: Config) -> Module:
    """OLMoE (arXiv 2409.02060): norms of whole queries and keys, as wide as heads that split the hidden size."""
    mixer = whole_norms(c, width=c.quotient("hidden_size", "num_attention_heads"))
    mixer = mixer.replace(clipped=c.get("clip_qkv") is not None)
    return decoders.decoder(c, decoders.layer(c, mixer, of_topk(c)))


@family("flex_olmo")
def flex_olmo(c: Config) -> Module:
    """FlexOlmo (arXiv 2507.07024): OLMoE with OLMo 2's norms, after the sub-layers rather than before."""
    mixer = whole_norms(c, code="olmo").replace(rope=decoders.rope(c, angles="float32"))
    layer = decoders.layer(c, mixer, of_topk(c), of=NormAfterSublayer, names=POST_NORM, code="olmo")
    return decoders.decoder(c, layer, code="olmo")


def of_topk(c: Config) -> Mixture:
    """Experts whose weights may add up to 1, in the format of the logits."""
    normalized = bool(c.get("norm_topk_prob"))
    return experts.mixture(c, experts="num_experts", normalized=normalized, code=RouterCode(result="logits"))


def whole_norms(c: Config, *, width: Num | None = None, code: str = "") -> Attention:
    """Attention with a norm of the whole query and one of the whole key, which may be of heads of another ``width``."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", whole=True, code=code)
    if width is None:
        return mixer
    q, k = mixer.norms
    return mixer.replace(norms=(q.replace(width=mixer.heads * width), k.replace(width=mixer.kv_heads * width)))


@family("minimax_m2")
def minimax_m2(c: Config) -> Module:
    """MiniMax-M2 (transformers' MiniMaxM2Model): norms of whole queries and keys, a correction of the router."""
    mixed = experts.mixture(c, scores="sigmoid", corrected=True, normalized=True, code=RouterCode(logits="float32"))
    mixed = mixed.replace(stored=(experts.correction(c, "e_score_correction_bias", "num_local_experts"),))
    mixer = whole_norms(c).replace(rope=decoders.rope(c, copies=True))
    return decoders.decoder(c, decoders.layer(c, mixer, mixed))


@family("phimoe", heads=tops.CAUSAL_LM | {"ForCausalLM": tops.lm_head(bias_flag="lm_head_bias")})
def phimoe(c: Config) -> Module:
    """Phi-3.5-MoE (arXiv 2404.14219): Mixtral with biases and LayerNorm; SparseMixer always draws two experts."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), window=window(c))
    mixed = experts.mixture(c, router="router", each=2, of=SparseMixer)
    return decoders.decoder(c, decoders.layer(c, mixer, mixed, norm="layernorm"), norm="layernorm")


@family("gpt_oss")
def gpt_oss(c: Config) -> Module:
    """gpt-oss (arXiv 2508.10925): biases everywhere, in the router and the experts too, and a sink for each head.

    Every other layer sees a window.
    """
    mixed = experts.mixture(c, router="router", bias=True, best_first=True, code=RouterCode(softmax_in="own"))
    mixed = mixed.replace(experts=mixed.experts.replace(clipped=True))
    mixer = decoders.attention(c, bias=c.flag("attention_bias"))
    mixer = mixer.replace(sinks=decoders.sinks(c, "highest"), rope=decoders.rope(c, halves=True))
    layers = decoders.with_windows(
        decoders.layer(c, mixer, mixed, code="olmo"), windows(c, lambda place: place % 2 == 0)
    )
    return decoders.decoder(c, layers, code="olmo", masks=full_and_sliding(c))
