"""RecurrentGemma: Griffin's recurrent blocks, and local attention in every third layer."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, floor_div
from tfcalc.errors import InvalidModel
from tfcalc.nn.basic import BlockDiagonal, Linear, Parameter, parameter
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Context, Module, TimeLoop
from tfcalc.ops.elementwise import mul
from tfcalc.ops.recurrences import gated_sum
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import reshape, transpose
from tfcalc.ops.work import FP32, STATE, by_sequence
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.gemma import CODE
from tfcalc.zoo.blocks.state_space import ShortConvolution


class RGLRU(Module):
    """``h ← a·h + √(1 − a²)·(i·x)`` with ``a = exp(−8·softplus(Λ)·r)``: gates i and r are made of x, block by block.

    Source: De et al. 2024 (Griffin, arXiv 2402.19427), section 2.4.
    """

    kind = "scan"
    loops = TimeLoop(0.02, recomputed=False)

    decay: Parameter
    input_gate: BlockDiagonal
    recurrent_gate: BlockDiagonal

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the recurrence's output, for ``x`` of b × l × w."""
        blocks = transpose(reshape(x, x.rows, self.input_gate.blocks, self.input_gate.fan_in), 0, 1)
        gates = [self._gate(each, blocks, x, ctx) for each in (self.input_gate, self.recurrent_gate)]
        cached = by_sequence(ctx.stream, STATE, x.width, 1, FP32)
        formula = gated_sum("recurrence", "a·h + √(1−a²)·i·x", x.elements)
        return recurrence(formula, x, x.shape, lambda: ctx.backend.scan(self, ctx, x, *gates), cached=cached)

    def _gate(self, gate: BlockDiagonal, blocks: Tensor, x: Tensor, ctx: Context) -> Tensor:
        made = reshape(transpose(gate(blocks), 0, 1), *x.shape)
        return ctx.activation("sigmoid", made, f"{gate.name}_sigmoid")


class RecurrentBlock(Module):
    """Two branches: one through a convolution and the RG-LRU, one through an activation that gates it.

    Source: De et al. 2024 (Griffin, arXiv 2402.19427), sections 2.3, 2.4; transformers' RecurrentGemmaRecurrentBlock.
    """

    kind = "ssm"

    linear_y: Linear
    activation: str
    linear_x: Linear
    conv_1d: ShortConvolution
    rg_lru: RGLRU
    linear_out: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the block's output for ``x``, of b × l × h."""
        gate = self.linear_y(x)
        gate = ctx.activation(self.activation, gate)
        inner = self.conv_1d(transpose(self.linear_x(x), 1, 2), ctx)
        return self.linear_out(mul(self.rg_lru(transpose(inner, 1, 2), ctx), gate))


NORMS = ("temporal_pre_norm", "channel_pre_norm")


def recurrent(c: Config) -> Module:
    """The block with the RG-LRU; its gates have as many blocks as there are heads."""
    field = "hidden_size" if c.get("lru_width") is None else "lru_width"
    h, width, heads = c.size("hidden_size"), c.size(field), c.size("num_attention_heads")
    block: Num = c.quotient(field, "num_attention_heads")
    lru = RGLRU(
        "rg_lru",
        parameter("recurrent_param", width, minor=True),
        *(BlockDiagonal(name, block, block, bias=True, blocks=heads) for name in ("input_gate", "recurrent_gate")),
    )
    return RecurrentBlock(
        "temporal_block",
        Linear("linear_y", h, width, "y", bias=True),
        c.word("hidden_activation"),
        Linear("linear_x", h, width, "x", bias=True),
        ShortConvolution("conv_1d", width, c.size("conv1d_width"), summed=True),
        lru,
        Linear("linear_out", width, h, "out", bias=True),
    )


def attention(c: Config) -> Module:
    """Attention in a window; each layer makes its own angles."""
    bias, window = c.flag("attention_bias"), c.number("attention_window_size")
    mixer = decoders.attention(c, bias=bias, output_bias=True, window=window)
    return mixer.replace(name="temporal_block", rope=decoders.rope(c, by_layer=True, copies=True))


def block_types(c: Config) -> list[str]:
    """``block_types`` over and over again, one for each layer."""
    cycle = c.words("block_types", None, ("recurrent", "attention"))
    if not cycle:
        raise InvalidModel(f"{c.path('block_types')} is empty", 'write ["recurrent", "recurrent", "attention"]')
    return [cycle[place % len(cycle)] for place in range(c.number("num_hidden_layers"))]


@family(
    "recurrent_gemma",
    heads={"Model": tops.bare, "ForCausalLM": tops.lm_head(cap="logits_soft_cap")},
    partial_rotary_factor=0.5,  # by convert_rope_params_to_dict
)
def recurrent_gemma(c: Config) -> Module:
    """RecurrentGemma (arXiv 2404.07839): ``intermediate_size`` counts gate and input, twice the network's width."""
    half: Num = floor_div(c.size("intermediate_size"), 2)
    ffn = decoders.gated(c, name="mlp_block", width=half, bias=True, act="hidden_activation")

    def one(kind: str) -> PreNorm:
        mixer = recurrent(c) if kind == "recurrent" else attention(c)
        return decoders.layer(c, mixer, ffn, names=NORMS, code=CODE)

    windows = (c.number("attention_window_size"),)
    names = ("model", "embed_tokens", "final_norm")
    return decoders.decoder(c, one, block_types(c), code=CODE, names=names, masks=windows).replace(
        scales=True, scale="bfloat16"
    )
