"""xLSTM: recurrent networks with a matrix for a memory."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core import number
from tfcalc.core.number import Num, ceil_div
from tfcalc.families.layers import gated, stack
from tfcalc.families.mamba import Channels
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mlstm import HeadNorm, MatrixLSTM
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module


def share(c: Config, name: str) -> Channels:
    """This factor of the hidden size, cut off."""
    times = c.factor(name)
    return Channels(number.scaled(c.size("hidden_size"), times), number.scaled(c.number("hidden_size"), times))


def fused(c: Config) -> bool:
    """Whether one matrix makes what else several do."""
    return c.word("weight_mode", ("single", "fused")) == "fused"


def mlstm(c: Config) -> MatrixLSTM:
    """The mixer."""
    h, heads, bias = c.size("hidden_size"), c.size("num_heads"), c.flag("use_bias")
    of_keys, of_values = share(c, "qk_dim_factor"), share(c, "v_dim_factor")
    keys, values = of_keys.size, of_values.size
    if fused(c):
        wide: tuple[Linear, ...] = (Linear("qkv_opreact", h, 2 * keys + 2 * values, "QKVO", bias),)
        gates: tuple[Linear, ...] = (Linear("ifgate_preact", h, 2 * heads, bias=True),)
    else:
        widths = {"q": keys, "k": keys, "v": values, "ogate_preact": values}
        wide = tuple(Linear(name, h, width, bias=bias) for name, width in widths.items())
        gates = tuple(Linear(name, h, heads, bias=True) for name in ("igate_preact", "fgate_preact"))
    return MatrixLSTM(
        "mlstm_layer",
        wide,
        gates,
        HeadNorm("multihead_norm", "layernorm" if bias else "layernorm-no-bias", values, "times root"),
        Linear("out_proj", values, h, "O", bias),
        heads,
        of_keys.split(c, "num_heads"),
        of_values.split(c, "num_heads"),
        c.size("chunk_size"),
        capped=c.get("gate_soft_cap") is not None,
    )


def network(c: Config) -> GatedFeedForward:
    """The gated network, its width rounded up to a multiple."""
    h, bias, multiple = c.size("hidden_size"), c.flag("use_bias"), c.number("ffn_round_up_to_multiple_of")
    width: Num = multiple * ceil_div(number.scaled(h, c.factor("ffn_proj_factor")), multiple)
    inward = ("proj_up_gate_z",) if fused(c) else ("proj_up_gate", "proj_up")
    return gated("ffn", (*inward, "proj_down"), h, width, "silu", bias=bias)


def language_model(c: Config, base: Module) -> Module:
    """The head is never the embedding; its logits are brought to fp32 before a tanh caps them."""
    return tops.never_tied(c, base).but(capped=c.get("output_logit_soft_cap") is not None, in_float32=True)


@family("xlstm", heads={"Model": tops.bare, "ForCausalLM": language_model})
def xlstm(c: Config) -> Module:
    """The 7B model of xLSTM (arXiv 2503.13427)."""
    h, width, blocks = c.size("hidden_size"), c.optional("embedding_dim"), c.get("num_blocks")
    form = "rmsnorm-bias" if c.flag("use_bias") else "rmsnorm"
    norms = tuple(Norm(name, form, h) for name in ("norm_mlstm", "norm_ffn"))
    layer = PreNorm("blocks", (mlstm(c), network(c)), norms)
    layers = stack(c, layer, "num_hidden_layers" if blocks is None else "num_blocks")
    table = Embedding("embeddings", c.size("vocab_size"), h if width is None else width)
    return Decoder("backbone", table, layers, Norm("out_norm", "rmsnorm", h))
