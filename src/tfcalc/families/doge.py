"""Doge: Llama with a learned mask over keys, weighted residuals, and experts of a single neuron each."""

from __future__ import annotations

from math import isqrt

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.families import kit
from tfcalc.families.windows import windows
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, parameter
from tfcalc.nn.dynamic_mask import DynamicMaskAttention
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Module
from tfcalc.nn.neurons import Neurons, WithNeurons
from tfcalc.nn.weighted_residual import WeightedResidual


def attention(c: Config, window: int | None) -> Attention:
    """How much each key counts is made of its value, anew in each run."""
    bias, made = c.flag("attention_bias"), kit.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm")
    g = made.kv_heads
    keep = Linear("dt_proj", g * made.key_dim, g, bias=bias)
    own = {"A": parameter("A", g, minor=True), "dt_proj": keep, "keeps": c.number("keep_window_size", least=0)}
    return DynamicMaskAttention(**made.__dict__ | own | {"window": window, "always_masked": True})


def network(c: Config) -> GatedFeedForward:
    """A dense network, and a square of experts beside it, of which ``num_experts_per_tok`` neurons run."""
    dense = kit.gated(c, bias=c.flag("mlp_bias"))
    if not c.flag("is_moe"):
        return dense
    h, stored = c.size("hidden_size"), c.number("num_experts")  # no symbol: a polynomial has no roots
    maps = Linear("down_embed", h, 1, "1"), Linear("up_embed", 1, h, "2")
    chosen = c.size("num_experts_per_tok")
    neurons = Neurons("(experts)", *maps, c.word("hidden_act"), count=stored, chosen=chosen)
    router = Linear("router_gate", h, 2 * isqrt(stored), kind="router")
    own = {"router": router, "neurons": neurons, "rows": isqrt(stored), "normalized": c.flag("norm_topk_prob")}
    return WithNeurons(**dense.__dict__ | own)


@family("doge", architecture="DogeForCausalLM", heads=tops.CAUSAL_LM)
def doge(c: Config) -> Module:
    """Shi et al. 2024 (arXiv 2412.11834); experts as in He 2024 (arXiv 2407.04153), beside a dense network."""
    h, names = c.size("hidden_size"), ("input", "post_attention")
    weights = tuple(parameter(f"{name}_residual", h, minor=True) for name in names)

    def one(window: int | None) -> PreNorm:
        made = kit.layer(c, attention(c, window), network(c), dropped=bool(c.get("hidden_dropout")))
        return WeightedResidual(**made.__dict__ | {"factors": weights})

    return kit.decoder(c, one, windows(c, lambda _: True))
