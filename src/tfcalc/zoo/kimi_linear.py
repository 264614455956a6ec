"""Kimi Linear and Ling 2.5 (Bailing): Kimi Delta Attention, latent attention in some layers, experts in most.

Kimi Delta Attention is a gated delta network that forgets each channel of its keys at a rate of its own.
"""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm, Parameter, parameter
from tfcalc.nn.latent import LatentGate
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.module import Context, Module, TimeLoop
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.ops.elementwise import activation, mul, pointwise
from tfcalc.ops.linear_attention import delta_rule
from tfcalc.ops.recurrences import States
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import cat, reshape, split, transpose
from tfcalc.ops.work import FP32, STATE, by_sequence
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.experts import dense_first, mlp_types, routed, shared
from tfcalc.zoo.blocks.latent_attention import latent_module
from tfcalc.zoo.blocks.state_space import FULL, LINEAR, ShortConvolution, first, mixer_types


class ForgetGate(Module):
    """``−exp(A)·softplus(f + dt)`` for each channel, with f through a vector of low rank where there are two ``maps``.

    What is saved depends on whose ``code`` it is: one writes softplus out in fp32, another calls a kernel and goes back
    to its own format. It may use a sigmoid (``bounded``), so that nothing is forgotten faster than a bound.
    """

    kind = "gate"

    maps: tuple[Linear, ...]
    dt_bias: Parameter
    A_log: Parameter
    heads: Num
    head_dim: Num
    written_out: bool = True
    bounded: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the gate, of b × l × heads × width."""
        made = mapped(self.maps, x)
        made = activation("softplus", made, lambda: ctx.backend.scan(self, ctx, made), "softplus")
        return reshape(made, *x.shape[:2], self.heads, self.head_dim)


class KimiDelta(Module):
    """``heads`` states of ``head_dim`` × ``head_dim``; queries, keys and values pass a short convolution.

    A norm of each head's output is gated, by what one map makes, or two through a vector of low rank (``gates``).

    Source: Kimi Linear (arXiv 2510.26692), section 3; transformers' KimiLinearDeltaAttention.
    """

    kind = "ssm"
    loops = TimeLoop(0.02)

    mixed: tuple[Linear, ...]
    conv1d: ShortConvolution
    activation: str
    forget_gate: ForgetGate
    strength: Linear
    norm: Norm
    gates: tuple[Linear, ...]
    output: Linear
    heads: Num
    head_dim: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the mixer's output for the tokens of ``x``, of b × l × h."""
        trace, rows, width = x.trace, x.shape[:2], self.heads * self.head_dim
        mixed = self._convolved(transpose(cat([each(x) for each in self.mixed]), 1, 2), ctx)
        q, k, v = (reshape(each, *rows, self.heads, self.head_dim) for each in split(mixed, [width] * 3))
        decay, strength = self.forget_gate(x, ctx), self.strength(x)
        made = trace.to(self._mixed(q, k, v, strength, decay, ctx), "float32")
        gate = reshape(mapped(self.gates, x), *made.shape)
        made = self.norm(made, ctx)
        gate = trace.to(gate, "float32")
        gate = activation("sigmoid", gate, lambda: pointwise("sigmoid", gate), "gate")
        return self.output(reshape(trace.to(mul(made, gate), q.dtype), *rows, width))

    def _convolved(self, x: Tensor, ctx: Context) -> Tensor:
        made = self.conv1d(x.trace.to(x, x.trace.weights_format), ctx)
        made = ctx.activation(self.activation, made)
        return transpose(x.trace.to(made, x.dtype), 1, 2)

    def _mixed(self, q: Tensor, k: Tensor, v: Tensor, strength: Tensor, decay: Tensor, ctx: Context) -> Tensor:
        stream, a, d = ctx.stream, self.heads, self.head_dim
        states = States(stream.batch, stream.length, a, d, d, step=stream.cached is not None)
        cached = by_sequence(stream, STATE, a, d * d, FP32)
        formula = delta_rule("scan", states, by_channel=True)
        code = lambda: ctx.backend.scan(self, ctx, q, k, v, strength, decay)  # noqa: E731  # too long for one line
        return recurrence(formula, v, v.shape, code, cached=cached)


def mapped(maps: tuple[Linear, ...], x: Tensor) -> Tensor:
    """One map after another."""
    for each in maps:
        x = each(x)
    return x


HEADS = {"Model": tops.bare, "ForCausalLM": tops.never_tied}


def mixed(c: Config) -> Mixture:
    """Experts chosen with a correction that is not trained; the shared ones are one wide network."""
    return routed(c, "num_experts", common=shared(c, "num_shared_experts"), each="num_experts_per_token")


def layers(c: Config, kinds: list[str], full: Attention, recurrent: KimiDelta) -> Module:
    """Layers with the one mixer or the other, the first few without experts."""

    def one(kind: tuple[str, str]) -> Module:
        mixer = full if kind[0] == FULL else recurrent
        return decoders.layer(c, mixer, mixed(c) if kind[1] == "sparse" else decoders.gated(c))

    dense = dense_first(c)
    sparse = dense if c.get("mlp_layer_types") is None else mlp_types(c, dense)
    return decoders.decoder(c, one, list(zip(kinds, sparse, strict=True)), masks=(None,))


def delta(c: Config, heads: Num, width: Num, kernel: Num, *, low_rank: bool = True) -> KimiDelta:
    """Linear attention, with a forget gate and an output's gate as wide as all heads."""
    h, whole = c.size("hidden_size"), heads * width

    def maps(letter: str) -> tuple[Linear, ...]:
        if not low_rank:
            return (Linear(f"{letter}_proj", h, whole),)
        return Linear(f"{letter}_a_proj", h, width), Linear(f"{letter}_b_proj", width, whole)

    forget = ForgetGate(
        "forget_gate",
        maps("f"),
        parameter("dt_bias", whole, minor=True),
        parameter("A_log", heads, minor=True),
        heads,
        width,
        written_out=low_rank,
        bounded=bool(c.get("kda_safe_gate")),
    )
    return KimiDelta(
        "self_attn",
        tuple(Linear(name, h, whole) for name in ("q_proj", "k_proj", "v_proj")),
        ShortConvolution("conv1d", 3 * whole, kernel, bias=False),
        c.word("hidden_act"),
        forget,
        Linear("b_proj", h, heads),
        Norm("o_norm", "rmsnorm", width, "helium"),
        maps("g"),
        Linear("o_proj", whole, h, "O"),
        heads,
        width,
    )


@family(
    "kimi_linear",
    heads=HEADS,
    first_k_dense_replace=1,  # by __post_init__, for older configs
)
def kimi_linear(c: Config) -> Module:
    """Kimi Linear (arXiv 2510.26692); published files keep what is linear in ``linear_attn_config``.

    Its latent attention knows no positions.
    """
    own = c.sub("linear_attn_config", defaults={})

    def size(name: str, otherwise: str) -> Num:
        return own.size(name) if own.has(name) else c.size(otherwise)

    heads, width = size("num_heads", "linear_num_heads"), size("head_dim", "linear_head_dim")
    kernel = size("short_conv_kernel_size", "linear_conv_kernel_dim")
    full = latent_module(c).replace(rope=None, shared_dim=c.size("qk_rope_head_dim"))
    return layers(c, kimi_layers(c, own), full, delta(c, heads, width, kernel))


def kimi_layers(c: Config, own: Config) -> list[str]:
    """``layer_types``, or the layers that ``full_attn_layers`` counts from one, or every fourth but the first."""
    if own.has("full_attn_layers") and own.has("kda_layers"):
        attends = set(own.numbers("full_attn_layers")) - set(own.numbers("kda_layers"))
        return mixer_types(c, lambda place: FULL if place + 1 in attends else LINEAR)
    return mixer_types(c, lambda place: FULL if place and place % 4 == 0 else LINEAR)


@family("bailing_hybrid", heads=HEADS)
def bailing_hybrid(c: Config) -> Module:
    """Ling 2.5 (Ant Group, 2026): Kimi Linear with gates of full rank, and a gate for each head of latent attention."""
    h, a, group = c.size("hidden_size"), c.size("num_attention_heads"), c.number("layer_group_size")
    heads = c.size(first(c, "linear_num_heads", "num_attention_heads"))
    width = c.size(first(c, "linear_head_dim", "head_dim"))
    kernel = c.size(first(c, "linear_conv_kernel_dim", "short_conv_kernel_size"))
    kinds = mixer_types(c, lambda place: LINEAR if (place + 1) % group else FULL)
    full = latent_module(c, low_rank=False).replace(rope=Rope(c.size("qk_rope_head_dim"), RopeCode(pairs=True)))
    return layers(
        c,
        kinds,
        full.replace(gate=LatentGate("g_proj", h, a, "g", in_float32=True)),
        delta(c, heads, width, kernel, low_rank=False),
    )
