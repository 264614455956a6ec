"""xLSTM: recurrent networks with a matrix for a memory, which are linear attention with exponential gates."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core import number
from tfcalc.core.number import Num, ceil_div
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Context, Module, TimeLoop
from tfcalc.ops.elementwise import activation, add, mul, pointwise, scaled
from tfcalc.ops.linear_attention import matrix_memory
from tfcalc.ops.recurrences import States
from tfcalc.ops.rows import norm
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import reshape, split, transpose
from tfcalc.ops.work import STATE, by_sequence
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks.layers import gated, stack
from tfcalc.zoo.blocks.state_space import Channels


class HeadNorm(Norm):
    """A norm of each head by itself, with weights for all of them side by side."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Norm ``x``, of b × l × heads × d; return it as b × l × heads·d."""
        weight, bias, *_ = *self.weights(x.trace), None
        joined = *x.shape[:2], self.width

        def code() -> Tensor:
            made = mul(reshape(ctx.backend.norm(self, x, None, None), *joined), weight)
            return made if bias is None else add(made, bias)

        # the kernel normalizes head by head, what is counted is the row
        return norm(self.form, x if x.trace.emits_kernels else reshape(x, *joined), weight, bias, code)


class MatrixLSTM(Module):
    """``heads`` states of ``key_dim`` × ``value_dim`` with a normaliser each.

    The ``wide`` maps make queries, keys, values and what gates the output; ``gates`` an input and a forget gate of each
    head. Each is as many maps, or one that makes all. The gates are capped by a tanh (``capped``). Sequences run by
    chunks of ``chunk`` tokens, and the rest of them one by one.

    Source: Beck et al. 2025 (xLSTM 7B, arXiv 2503.13427), section 3; transformers' xLSTMLayer.
    """

    kind = "ssm"
    loops = TimeLoop(0.02)

    wide: tuple[Linear, ...]
    gates: tuple[Linear, ...]
    norm: HeadNorm
    output: Linear
    heads: Num
    key_dim: Num
    value_dim: Num
    chunk: Num
    capped: bool = True

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the layer's output for ``x``, of b × l × h."""
        stream, a, k, v = ctx.stream, self.heads, self.key_dim, self.value_dim
        query, key, value, opens = _apart([each(x) for each in self.wide], [a * k, a * k, a * v, a * v])
        gates = _apart([self._capped(each(x)) for each in self.gates], [a, a])
        wide = [
            transpose(reshape(each, *x.shape[:2], a, width), 1, 2)
            for each, width in zip((query, key, value), (k, k, v), strict=True)
        ]
        let_in, stays = (transpose(each, 1, 2) for each in gates)
        memory = States(stream.batch, stream.length, a, k, v, step=stream.cached is not None)
        made = recurrence(
            matrix_memory("mlstm_backend", memory, self.chunk),
            wide[2],
            wide[2].shape,
            lambda: ctx.backend.scan(self, ctx, *wide, let_in, stays),
            cached=by_sequence(stream, STATE, a, k * v + k + 1),  # with the normaliser, and the largest gate so far
        )
        made = self.norm(transpose(made, 1, 2), ctx)
        return self.output(mul(activation("sigmoid", opens, lambda: pointwise("sigmoid", opens), "ogate"), made))

    def _capped(self, x: Tensor) -> Tensor:
        return scaled(pointwise("tanh", scaled(x, "div"))) if self.capped else x


def _apart(made: list[Tensor], widths: list[Num]) -> list[Tensor]:
    """Return the maps' outputs, that of a single map split into ``widths``."""
    return split(made[0], widths) if len(made) == 1 else made


def share(c: Config, name: str) -> Channels:
    """Product of this factor and the hidden size, rounded down."""
    times = c.factor(name)
    return Channels(number.scaled(c.size("hidden_size"), times), number.scaled(c.number("hidden_size"), times))


def fused(c: Config) -> bool:
    """Return whether one matrix makes what several do otherwise."""
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
    return tops.never_tied(c, base).replace(capped=c.get("output_logit_soft_cap") is not None, in_float32=True)


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
