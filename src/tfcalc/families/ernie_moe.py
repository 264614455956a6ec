"""Mixtures of experts whose configs have fields of their own: ERNIE 4.5, Hunyuan-Large, Command A, Aria."""

from __future__ import annotations

from collections.abc import Sequence

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.families import experts, kit
from tfcalc.families.windows import LAYERS
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.module import Module


def ernie_layers(c: Config) -> list[bool]:
    """Experts in every ``moe_layer_interval``-th layer from ``moe_layer_start_index`` on; -1 ends with the last one."""
    every, count = c.number("moe_layer_interval"), c.number(LAYERS)
    last = count - 1 if c.get("moe_layer_end_index") == -1 else c.number("moe_layer_end_index", least=0)
    first = c.number("moe_layer_start_index", least=0)
    return [first <= place <= last and (place + 1) % every == 0 for place in range(count)]


@family(
    "ernie4_5_moe",
    architecture="Ernie4_5_MoeForCausalLM",
    heads=tops.CAUSAL_LM | {"ForCausalLM": tops.lm_head(bias_flag="use_bias")},
    aliases={"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"},
)
def ernie4_5_moe(c: Config) -> Module:
    """ERNIE 4.5 (Baidu 2025, technical report): one flag for all biases, the head's too; experts have none."""
    bias = c.flag("use_bias")
    mixer = kit.attention(c, bias=bias).but(rope=kit.rope(c, angles="float32", by_layer=True, in_float32=True))

    def one(sparse: bool) -> PreNorm:
        return kit.layer(c, mixer, ernie_experts(c, bias) if sparse else kit.gated(c, bias=bias))

    return kit.decoder(c, one, ernie_layers(c))


def ernie_experts(c: Config, bias: bool) -> Mixture:
    """A bias that is not trained says which experts are chosen; the router runs in fp32, even under autocast."""
    some, width = c.number("moe_num_shared_experts", least=0), experts.shared(c, "moe_num_shared_experts")
    beside = (kit.gated(c, name="shared_experts", width=width, bias=bias),) if some else ()
    routing = {"corrected": True, "normalized": True, "least": True}
    code = {"logits": "copies", "format": "float32", "exact": True, "result": "stream"}
    fields = {"experts": "moe_num_experts", "each": "moe_k", "width": "moe_intermediate_size"}
    stored = experts.frozen(c, "gate.moe_statics.e_score_correction_bias", "moe_num_experts")
    return experts.mixture(c, *beside, **fields, **routing, **code).but(stored=(stored,), shared_first=True)


@family(
    "hunyuan_v1_moe",
    architecture="HunYuanMoEV1ForCausalLM",
    heads=tops.CAUSAL_LM,
    aliases={"num_local_experts": "num_experts", "num_experts_per_tok": "moe_topk"},
)
def hunyuan_v1_moe(c: Config) -> Module:
    """Hunyuan-A13B (transformers' HunYuanMoEV1Model): a shared network as wide as an expert; k may differ by layer."""
    names = ("query_layernorm", "key_layernorm")
    mixer = kit.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", norm_names=names).but(normed_last=True)
    beside = kit.gated(c, name="shared_mlp")
    code = {"router": "gate.wg", "logits": "copies", "format": "float32", "result": "logits"}

    def one(each: int | str) -> PreNorm:
        mixed = experts.mixture(c, beside, experts="num_experts", each=each, normalized=True, **code)
        return kit.layer(c, mixer, mixed.but(shared_first=True))

    count, listed = c.number(LAYERS), isinstance(c.get("moe_topk"), list)
    kinds: Sequence[int | str] = c.numbers("moe_topk", count, least=1) if listed else ["moe_topk"] * count
    return kit.decoder(c, one, kinds)


@family("aria_text", architecture="AriaTextForCausalLM", heads=tops.CAUSAL_LM)
def aria_text(c: Config) -> Module:
    """Aria (arXiv 2410.05993): only the shared experts may have biases."""
    common = experts.shared(c, "moe_num_shared_experts", "intermediate_size")
    beside = kit.gated(c, name="shared_experts", width=common, bias=c.flag("mlp_bias"))
    fields = {"experts": "moe_num_experts", "each": "moe_topk", "router": "router"}
    mixed = experts.mixture(c, beside, best_first=True, **fields)
    return kit.decoder(c, kit.layer(c, kit.attention(c, bias=c.flag("attention_bias")), mixed))
