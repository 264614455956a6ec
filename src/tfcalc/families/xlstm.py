"""xLSTM: recurrent networks with a matrix for a memory."""

from __future__ import annotations

from tfcalc.blocks import FeedForward, layer
from tfcalc.blocks.mlstm import MatrixLSTM
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, scaled
from tfcalc.families.hybrid import never_tied
from tfcalc.families.llama import norms
from tfcalc.families.mamba import Channels
from tfcalc.leaves import embedding, norm
from tfcalc.workload import Workload


def share(c: Config, name: str) -> Channels:
    """This factor of the hidden size, cut off."""
    times = c.factor(name)
    return Channels(scaled(c.size("hidden_size"), times), scaled(c.number("hidden_size"), times))


def mlstm(c: Config) -> MatrixLSTM:
    """The mixer."""
    keys, values = share(c, "qk_dim_factor"), share(c, "v_dim_factor")
    return MatrixLSTM(
        c.size("hidden_size"),
        c.size("num_heads"),
        keys.size,
        values.size,
        keys.split(c, "num_heads"),
        values.split(c, "num_heads"),
        c.size("chunk_size"),
        bias=c.flag("use_bias"),
        fused=c.word("weight_mode", ("single", "fused")) == "fused",
    )


def network(c: Config) -> FeedForward:
    """The gated network, its width rounded up to a multiple."""
    multiple, fused = c.number("ffn_round_up_to_multiple_of"), c.word("weight_mode") == "fused"
    width: Num = multiple * ceil_div(scaled(c.size("hidden_size"), c.factor("ffn_proj_factor")), multiple)
    names = ("proj_up_gate_z", "proj_down") if fused else ("proj_up_gate", "proj_up", "proj_down")
    return FeedForward(c.size("hidden_size"), width, "silu", bias=c.flag("use_bias"), names=names, gated=True)


@family("xlstm", architecture="xLSTMForCausalLM", heads={"Model": bare, "ForCausalLM": never_tied})
def xlstm(c: Config, run: Workload) -> Component:
    """The 7B model of xLSTM (arXiv 2503.13427); the head is never the embedding."""
    h, stream = c.size("hidden_size"), run.target
    width, blocks = c.optional("embedding_dim"), c.optional("num_blocks")
    before = norms(("norm_mlstm", "norm_ffn"), "rmsnorm-bias" if c.flag("use_bias") else "rmsnorm", c, run)
    parts = (mlstm(c)("mlstm_layer", stream), network(c)("ffn", stream, run), *before)
    copies = c.size("num_hidden_layers") if blocks is None else blocks
    return Component(
        "backbone",
        "decoder",
        parts=(
            embedding("embeddings", c.size("vocab_size"), h if width is None else width, stream.tokens),
            layer("blocks", parts, stream.tokens * h, copies=copies, ends_with_sum=True),
            norm("out_norm", "rmsnorm", h, stream.tokens),
        ),
    )
