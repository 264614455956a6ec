"""MiniMax-01: Mixtral with lightning attention in most layers.

Lightning attention is linear attention whose heads forget at fixed rates, computed by blocks.
"""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Buffer, Linear, Norm, buffer
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import RouterCode
from tfcalc.nn.module import Context, Module, TimeLoop
from tfcalc.ops.elementwise import activation, mul, pointwise, residual, scaled
from tfcalc.ops.linear_attention import lightning
from tfcalc.ops.recurrences import States
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import reshape, split, transpose
from tfcalc.ops.work import STATE, by_sequence
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders, experts
from tfcalc.zoo.blocks.experts import MIXTRAL_HEADS
from tfcalc.zoo.blocks.layers import layer_types, window


class LightningAttention(Module):
    """``heads`` states of ``head_dim`` × ``head_dim``, each with a query, key and value of its own.

    One matrix and an ``activation`` make queries, keys and values; a norm of the whole output is gated by a sigmoid of
    the input. A head's decay is fixed by its own and the layer's place, and stored for each pair of places in a
    ``block``.

    Source: MiniMax-01 (arXiv 2501.08313), section 2.2; transformers' MiniMaxLightningAttention.
    """

    kind = "ssm"
    loops = TimeLoop(0.02)

    qkv: Linear
    activation: str
    decays: tuple[Buffer, ...]
    norm: Norm
    gate: Linear
    output: Linear
    heads: Num
    head_dim: Num
    block: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the lightning attention's output for ``x``, of b × l × h."""
        stream, a, d, rows = ctx.stream, self.heads, self.head_dim, x.shape[:2]
        made = self.qkv(x)
        made = ctx.activation(self.activation, made)
        q, k, v = (transpose(each, 1, 2) for each in split(reshape(made, *rows, a, 3 * d), [d] * 3))
        states = States(stream.batch, stream.length, a, d, d, step=stream.cached is not None)
        formula, cached = lightning("scan", states, self.block), by_sequence(stream, STATE, a, d * d)
        made = recurrence(formula, q, q.shape, lambda: ctx.backend.scan(self, ctx, q, k, v), cached=cached)
        made = self.norm(reshape(transpose(made, 1, 2), *rows, a * d), ctx)
        gate = self.gate(x)
        return self.output(mul(activation("sigmoid", gate, lambda: pointwise("sigmoid", gate), "gate"), made))


class NormedStream(PreNorm):
    """``x ← norm(x)``, and then ``α·x + β·f(x)``: it is the normed vectors that are added to (MiniMax-01)."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        for norm, sub in self.running(ctx):
            x = norm(x, ctx)
            made = sub(x, ctx)
            x = residual(scaled(x), scaled(made), sub.name)
        return x


LINEAR, FULL = "linear_attention", "full_attention"


class KeepingAll(Attention):
    """Attention whose cache keeps all tokens, and a decoded one sees all, whatever a window hides (MiniMaxCache)."""

    keeps_all: bool = True

    @property
    def mask(self) -> Num | None:
        """Window of a prompt's mask, which hides what is before it."""
        return self.window


def lightning_attention(c: Config) -> LightningAttention:
    """Linear attention, with as many keys and values as queries."""
    h, a, d, block = c.size("hidden_size"), c.size("num_attention_heads"), decoders.head_dim(c), c.size("block_size")
    shapes: dict[str, tuple[Num, ...]] = {
        "slope_rate": (a,),
        "query_decay": (a, block),
        "key_decay": (a, block),
        "diagonal_decay": (a, block, block),
    }
    return LightningAttention(
        "self_attn",
        Linear("qkv_proj", h, 3 * a * d, "QKV"),
        c.word("hidden_act"),
        tuple(buffer(name, *shape) for name, shape in shapes.items()),
        Norm("norm", "rmsnorm", a * d),
        Linear("output_gate", h, a * d, "gate"),
        Linear("out_proj", a * d, h, "O"),
        a,
        d,
        block,
    )


@family("minimax", heads=MIXTRAL_HEADS)
def minimax(c: Config) -> Module:
    """MiniMax-01 (arXiv 2501.08313): seven of its eight layers attend linearly."""
    seen = window(c)
    full = decoders.attention(c, window=seen).as_type(KeepingAll, keeps_all=True)

    def one(kind: str) -> Module:
        mixer: Module = lightning_attention(c) if kind == LINEAR else full
        return decoders.layer(
            c, mixer, experts.mixture(c, normalized=True, code=RouterCode(logits="float32")), of=NormedStream
        )

    in_turns = layer_types(c, lambda place: LINEAR if place % 2 else FULL, (LINEAR, FULL))
    return decoders.decoder(c, one, in_turns, masks=(seen,))
