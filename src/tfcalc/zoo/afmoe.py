"""Mixtures of experts with a gate on attention's output and four norms a layer."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, parameter
from tfcalc.nn.layers import Sandwich
from tfcalc.nn.mixture import Mixture, RouterCode
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders, experts
from tfcalc.zoo.blocks.experts import dense_or_sparse, routed
from tfcalc.zoo.blocks.layers import LAYERS, full_and_sliding, windows


def gated(c: Config, code: str = "") -> Attention:
    """Attention whose values are multiplied by what the input says; only layers with a window know positions."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", code=code)
    return mixer.replace(gate=Linear("gate_proj", c.size("hidden_size"), mixer.heads * mixer.value_dim, "gate"))


@family("beam", heads=tops.CAUSAL_LM | tops.capped_lm())
def beam(c: Config) -> Module:
    """Beam (transformers' BeamModel): a gate on attention's output with one bias a head, four norms a layer.

    Every sixth layer and the last see everything; queries there have a factor for each place rather than a position.
    """
    bias = parameter("gate_bias", c.size("num_attention_heads"), minor=True)
    kinds, last = experts.mlp_types(c, experts.sparse_after(c, 3)), c.number(LAYERS) - 1
    seen = windows(c, lambda place: (place + 1) % 6 > 0 and place != last)

    def mixed() -> Mixture:
        return routed(c, "num_experts").replace(scales=True)

    mixer, full = gated(c).replace(gate_bias=bias), {"rope": None, "tempered": "own"}
    return dense_or_sparse(c, kinds, mixer, mixed, of=Sandwich, names=decoders.SANDWICH, seen=seen, full=full)


@family("afmoe")
def afmoe(c: Config) -> Module:
    """Arcee's Trinity (transformers' AfmoeModel): gated attention, four norms; the correction is a frozen parameter."""

    def mixed() -> Mixture:
        beside = decoders.gated(c, name="shared_experts", width=experts.shared(c, "num_shared_experts"))
        made = experts.mixture(c, beside, experts="num_experts", width="moe_intermediate_size", router="router.gate")
        made = made.routed(
            scores="sigmoid",
            corrected=True,
            normalized=True,
            scales=True,
            code=RouterCode(logits="float32", in_place=False),
        )
        return made.replace(stored=(experts.frozen(c, "expert_bias", "num_experts"),), shared_first=True)

    names = (*decoders.PRE_NORM, "pre_mlp_layernorm", "post_mlp_layernorm")
    kinds = experts.sparse_after(c, c.number("num_dense_layers", least=0))
    seen = windows(c, lambda place: (place + 1) % c.number("global_attn_every_n_layers") > 0)
    full = {"rope": None}
    made = dense_or_sparse(
        c, kinds, gated(c, "olmo"), mixed, of=Sandwich, names=names, seen=seen, full=full, code="olmo"
    )
    return made.replace(masks=full_and_sliding(c), scales=c.flag("mup_enabled"))
