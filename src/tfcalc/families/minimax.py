"""MiniMax-01: Mixtral with lightning attention in most layers."""

from __future__ import annotations

from tfcalc.blocks.lightning_attention import LightningAttention
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.component import Component
from tfcalc.families.llama import attention, decoder, head_dim
from tfcalc.families.mixtral import HEADS, layers, mixture
from tfcalc.workload import Workload

LINEAR, FULL = "linear_attention", "full_attention"


def lightning(c: Config, run: Workload) -> Component:
    """Linear attention, with as many keys and values as queries."""
    block = LightningAttention(
        c.size("hidden_size"), c.size("num_attention_heads"), head_dim(c), c.word("hidden_act"), c.size("block_size")
    )
    return block("self_attn", run.target)


def layer_types(c: Config) -> list[str]:
    """Which layers have which attention; in turns, where it is not said."""
    count = c.number("num_hidden_layers")
    if c.has("layer_types"):
        return c.words("layer_types", count, (LINEAR, FULL))
    return [LINEAR if place % 2 else FULL for place in range(count)]


@family("minimax", architecture="MiniMaxForCausalLM", heads=HEADS, aliases={"num_experts": "num_local_experts"})
def minimax(c: Config, run: Workload) -> Component:
    """MiniMax-01 (arXiv 2501.08313): seven of its eight layers attend linearly."""
    # MiniMaxCache keeps all tokens, whatever a window hides, and a decoded token is compared with all.
    masked = run.attention == "causal" and not run.decoding and c.get("sliding_window") is not None
    window = c.number("sliding_window") if masked else None

    def parts(kind: str) -> tuple[Component, ...]:
        return lightning(c, run) if kind == LINEAR else attention(c, run, window=window), mixture(c, run)

    return decoder(c, run, *layers(c, run, layer_types(c), parts))
