"""RWKV: recurrent networks that are trained like transformers."""

from __future__ import annotations

from tfcalc.blocks import layer, stack
from tfcalc.blocks.rwkv import ChannelMixing, TimeMixing
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, lm_head
from tfcalc.core.component import Component
from tfcalc.families.llama import norms
from tfcalc.families.mamba import backbone
from tfcalc.workload import Workload


@family(
    "rwkv",
    architecture="RwkvForCausalLM",
    heads={"Model": bare, "ForCausalLM": lm_head("head")},
    aliases={"max_position_embeddings": "context_length"},
)
def rwkv(c: Config, run: Workload) -> Component:
    """RWKV-4 (arXiv 2305.13048). Only the first layer has a norm right after the embedding."""
    h, stream = c.size("hidden_size"), run.target
    width, inner = c.optional("attention_hidden_size"), c.optional("intermediate_size")
    attention = TimeMixing(h, h if width is None else width)
    ffn = ChannelMixing(h, 4 * h if inner is None else inner)

    def made(first: bool) -> Component:
        names = ("pre_ln", "ln1", "ln2") if first else ("ln1", "ln2")
        parts = (attention("attention", stream), ffn("feed_forward", stream), *norms(names, "layernorm", c, run))
        return layer("blocks", parts, stream.tokens * h)

    kinds = [place == 0 for place in range(c.number("num_hidden_layers"))]
    layers = stack("blocks", kinds, c.size("num_hidden_layers"), made)
    return backbone(c, run, *layers, name="rwkv", final="ln_out", norm_kind="layernorm")
