"""Mixtures of experts with a gate on attention's output and four norms a layer."""

from __future__ import annotations

from typing import Any

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.cost import Tensor as Weight
from tfcalc.families import experts, kit
from tfcalc.families.glm_moe import dense_or_sparse, routed
from tfcalc.families.windows import LAYERS, both, windows
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Stored
from tfcalc.nn.layers import Sandwich
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.module import Module


def gated(c: Config, window: int | None, code: str = "") -> Attention:
    """Attention whose values are multiplied by what the input says; only layers with a window know positions."""
    mixer = kit.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", code=code, window=window)
    return mixer.but(gate=Linear("gate_proj", c.size("hidden_size"), mixer.heads * mixer.value_dim, "gate"))


@family("beam", architecture="BeamForCausalLM", heads=tops.CAUSAL_LM | tops.capped_lm())
def beam(c: Config) -> Module:
    """Beam (transformers' BeamModel): a gate on attention's output with one bias a head, four norms a layer.

    Every sixth layer and the last see everything; queries there have a factor for each place rather than a position.
    """
    bias = Stored("gate_bias", Weight("gate_bias", (c.size("num_attention_heads"),), minor=True, key=""))
    kinds, last = experts.mlp_types(c, experts.sparse_after(c, 3)), c.number(LAYERS) - 1
    seen = windows(c, lambda place: (place + 1) % 6 > 0 and place != last)

    def mixer(window: int | None) -> Attention:
        made = gated(c, window).but(gate_bias=bias)
        return made if window is not None else made.but(rope=None, tempered="own")

    def mixed() -> Mixture:
        return routed(c, "num_experts").but(scales=True)

    return dense_or_sparse(c, kinds, mixer, mixed, of=Sandwich, names=kit.SANDWICH, seen=seen)


@family("afmoe", architecture="AfmoeForCausalLM", heads=tops.CAUSAL_LM)
def afmoe(c: Config) -> Module:
    """Arcee's Trinity (transformers' AfmoeModel): gated attention, four norms; the correction is a frozen parameter."""

    def mixed() -> Mixture:
        beside = kit.gated(c, name="shared_experts", width=experts.shared(c, "num_shared_experts"))
        routing: dict[str, Any] = {"scores": "sigmoid", "corrected": True, "normalized": True, "scales": True}
        code: dict[str, Any] = {"router": "router.gate", "logits": "float32", "in_place": False}
        fields: dict[str, Any] = {"experts": "num_experts", "width": "moe_intermediate_size"}
        stored = experts.frozen(c, "expert_bias", "num_experts")
        return experts.mixture(c, beside, **fields, **routing, **code).but(stored=(stored,), shared_first=True)

    def mixer(window: int | None) -> Attention:
        made = gated(c, window, "olmo")
        return made if window is not None else made.but(rope=None)

    names = (*kit.PRE_NORM, "pre_mlp_layernorm", "post_mlp_layernorm")
    kinds = experts.sparse_after(c, c.number("num_dense_layers", least=0))
    seen = windows(c, lambda place: (place + 1) % c.number("global_attn_every_n_layers") > 0)
    made = dense_or_sparse(c, kinds, mixer, mixed, of=Sandwich, names=names, seen=seen, code="olmo")
    return made.but(masks=both(c), scales=c.flag("mup_enabled"))
