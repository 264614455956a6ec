"""Mellum: Qwen3 whose layers have a mixture of experts, or a feed-forward network, as a list says."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.families.llama import attention, decoder, gated, qk_norms
from tfcalc.families.mixtral import layers, mixture
from tfcalc.families.windows import told, windows
from tfcalc.workload import Workload


@family("mellum", architecture="MellumForCausalLM", heads=CAUSAL_LM, aliases={"num_experts": "num_local_experts"})
def mellum(c: Config, run: Workload) -> Component:
    """Mellum 2 (transformers' MellumDecoderLayer); a layer is sparse unless ``mlp_layer_types`` calls it dense."""
    count = c.number("num_hidden_layers")
    given = c.get("mlp_layer_types") is not None
    kinds = c.words("mlp_layer_types", count, ("sparse", "dense")) if given else ["sparse"] * count
    seen = told(run, windows(c, lambda _: False))

    def parts(kind: tuple[str, int | None]) -> tuple[Component, ...]:
        ffn, window = kind
        bias, normed = c.flag("attention_bias"), qk_norms("rmsnorm", c, run)
        mixer = attention(c, run, bias=bias, within=normed, window=window)
        return mixer, mixture(c, run, width="moe_intermediate_size") if ffn == "sparse" else gated(c, run)

    return decoder(c, run, *layers(c, run, list(zip(kinds, seen, strict=True)), parts))
