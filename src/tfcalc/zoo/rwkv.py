"""RWKV-4: attention as a recurrence over decaying sums, and a feed-forward network with a gate."""

from __future__ import annotations

from collections.abc import Sequence

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm, Parameter, parameter
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Context, Module, TimeLoop
from tfcalc.ops.elementwise import add, mul
from tfcalc.ops.elementwise import shifted as plus
from tfcalc.ops.recurrences import gated_sum
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import copied
from tfcalc.ops.work import FP32, STATE, TOKEN_BEFORE, by_sequence
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders


def shifted(x: Tensor, mixtures: Sequence[Parameter], maps: Sequence[Linear], ctx: Context) -> list[Tensor]:
    """Return the outputs of ``maps`` for ``μ·x + (1 − μ)·x₋₁``, a trained μ for each; they cache the same token."""
    cached = by_sequence(ctx.stream, TOKEN_BEFORE, x.width, 1)
    before = copied(x, name="token before")

    def mixed(mixture: Parameter) -> Tensor:
        mu = mixture.weight(x.trace)
        return add(mul(x, mu), mul(before, plus(mu, "1 − μ")))

    inputs = [
        recurrence(
            gated_sum(f"{each.name}_shift", "μ·x + (1−μ)·x₋₁", x.elements),
            x,
            x.shape,
            lambda mixture=mixture: mixed(mixture),  # type: ignore[misc]  # a default, for each its own
            cached=() if place else cached,
        )
        for place, (mixture, each) in enumerate(zip(mixtures, maps, strict=True))
    ]
    return [each(one) for each, one in zip(maps, inputs, strict=True)]


class TimeMixing(Module):
    """``W_o (σ(r) · wkv)``: wkv is a mean of all values so far, weighted by their keys and by their age.

    Keys, values and receptances are made of a trained mixture of a token and the one before it.

    Source: Peng et al. 2023 (arXiv 2305.13048), section 3.1; transformers' RwkvSelfAttention.
    """

    kind = "ssm"
    loops = TimeLoop(0.02)

    mixtures: tuple[Parameter, ...]
    maps: tuple[Linear, ...]
    decay: Parameter
    first: Parameter
    output: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the time mixing's output, for ``x`` of b × l × h."""
        key, value, receptance = shifted(x, self.mixtures, self.maps, ctx)
        gate = ctx.activation("sigmoid", receptance, "gate")
        # two maxima, four exponentials of differences, two sums of two products, and their quotient
        formula = gated_sum("wkv", "wkv", key.elements)
        cached = by_sequence(ctx.stream, STATE, key.width, 3, FP32)
        made = recurrence(formula, key, key.shape, lambda: ctx.backend.scan(self, ctx, key, value), cached=cached)
        return self.output(mul(gate, made))


class ChannelMixing(Module):
    """``σ(x W_r) · (relu(x W_k)² W_v)``, of a trained mixture of a token and the one before it.

    Source: Peng et al. 2023 (arXiv 2305.13048), section 3.1; transformers' RwkvFeedForward.
    """

    kind = "ffn"

    mixtures: tuple[Parameter, ...]
    key: Linear
    receptance: Linear
    value: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the network's output for each token and the one before it."""
        key, receptance = shifted(x, self.mixtures, (self.key, self.receptance), ctx)
        made = self.value(ctx.activation("relu2", key))
        gate = ctx.activation("sigmoid", receptance, "gate")
        return mul(gate, made)


class NormedFirst(PreNorm):
    """A layer that begins with a norm of the stream itself."""

    before: tuple[Norm, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Norm the residual stream, and then run the sub-layers."""
        for norm in self.before:
            x = norm(x, ctx)
        return super().forward(x, ctx)


NORM = "layernorm"


@family(
    "rwkv",
    heads={"Model": tops.bare, "ForCausalLM": tops.lm_head("head")},
    aliases={"max_position_embeddings": "context_length"},
)
def rwkv(c: Config) -> Module:
    """RWKV-4 (arXiv 2305.13048). Only the first layer has a norm right after the embedding."""
    h = c.size("hidden_size")
    width, inner = c.optional("attention_hidden_size"), c.optional("intermediate_size")
    mixer = time_mixing(h, h if width is None else width)
    ffn = channel_mixing(h, 4 * h if inner is None else inner)

    def one(first: bool) -> Module:
        before = (Norm("pre_ln", NORM, h),) if first else ()
        return NormedFirst("blocks", (mixer, ffn), (Norm("ln1", NORM, h), Norm("ln2", NORM, h)), before=before)

    kinds = [place == 0 for place in range(c.number("num_hidden_layers"))]
    return decoders.decoder(c, one, kinds, norm=NORM, names=("rwkv", "embeddings", "ln_out"))


def mixtures(h: Num, *names: str) -> tuple[Parameter, ...]:
    """Shares of a token and of the one before it that each of these reads."""
    return tuple(parameter(f"time_mix_{name}", h, minor=True) for name in names)


def time_mixing(h: Num, width: Num) -> Module:
    """RWKV's attention."""
    names = ("key", "value", "receptance")
    maps = tuple(Linear(name, h, width) for name in names)
    decay, first = (parameter(name, width, minor=True) for name in ("time_decay", "time_first"))
    return TimeMixing("attention", mixtures(h, *names), maps, decay, first, Linear("output", width, h, "O"))


def channel_mixing(h: Num, inner: Num) -> Module:
    """RWKV's feed-forward network."""
    key, value = Linear("key", h, inner, "1"), Linear("value", inner, h, "2")
    return ChannelMixing("feed_forward", mixtures(h, "key", "receptance"), key, Linear("receptance", h, h), value)
