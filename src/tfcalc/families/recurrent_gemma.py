"""RecurrentGemma: Griffin's recurrent blocks, and local attention in every third layer."""

from __future__ import annotations

from tfcalc.blocks import GATED, FeedForward, layer, stack
from tfcalc.blocks.griffin import RecurrentBlock
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, lm_head
from tfcalc.core.component import Component
from tfcalc.core.number import Num, floor_div
from tfcalc.errors import InvalidModel
from tfcalc.families.llama import attention, norms
from tfcalc.families.mamba import backbone
from tfcalc.workload import Workload


def recurrent(c: Config) -> RecurrentBlock:
    """The block with the RG-LRU; its gates have as many blocks as there are heads."""
    width = "hidden_size" if c.get("lru_width") is None else "lru_width"
    return RecurrentBlock(
        c.size("hidden_size"),
        c.size(width),
        c.size("num_attention_heads"),
        c.quotient(width, "num_attention_heads"),
        c.size("conv1d_width"),
        c.word("hidden_activation"),
    )


def block_types(c: Config) -> list[str]:
    """``block_types`` over and over again, one for each layer."""
    cycle = c.words("block_types", None, ("recurrent", "attention"))
    if not cycle:
        raise InvalidModel(f"{c.path('block_types')} is empty", 'write ["recurrent", "recurrent", "attention"]')
    return [cycle[place % len(cycle)] for place in range(c.number("num_hidden_layers"))]


@family(
    "recurrent_gemma",
    architecture="RecurrentGemmaForCausalLM",
    heads={"Model": bare, "ForCausalLM": lm_head()},
    aliases={"sliding_window": "attention_window_size"},
)
def recurrent_gemma(c: Config, run: Workload) -> Component:
    """RecurrentGemma (arXiv 2404.07839): ``intermediate_size`` counts gate and input, twice the network's width."""
    h, stream = c.size("hidden_size"), run.target
    half: Num = floor_div(c.size("intermediate_size"), 2)
    ffn = FeedForward(h, half, c.word("hidden_activation"), bias=True, names=GATED, gated=True)

    def made(kind: str) -> Component:
        if kind == "recurrent":
            mixer = recurrent(c)("temporal_block", stream)
        else:
            bias, window = c.flag("attention_bias"), c.number("attention_window_size") if run.tells_masks else None
            mixer = attention(c, run, name="temporal_block", bias=bias, output_bias=True, window=window)
        names = norms(("temporal_pre_norm", "channel_pre_norm"), "rmsnorm", c, run)
        parts = (mixer, ffn("mlp_block", stream, run), *names)
        return layer("layers", parts, stream.tokens * h, ends_with_sum=True)

    layers = stack("layers", block_types(c), c.size("num_hidden_layers"), made)
    return backbone(c, run, *layers, name="model", tokens="embed_tokens", final="final_norm")
