"""Mixtures of experts by the fields that nearly all configs share, and kinds of experts that few families have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfcalc.configs.config import Config
from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.nn.basic import Buffer, Linear, Stored, buffer
from tfcalc.nn.context import Context
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.mixture import Experts, Mixture, Router
from tfcalc.ops.elementwise import mul, pointwise, scaled, shifted
from tfcalc.ops.products import linear
from tfcalc.ops.shapes import reshape
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks.layers import FUSED, LAYERS


class RouterOfAll(Router):
    """The sigmoid of the best logits, for all experts: it is 0 for those that are not chosen (Llama 4)."""


class AllExperts(Experts):
    """Experts that all read every token, times its weight."""


class EveryExpert(Mixture):
    """Of a token's experts only those that are chosen count, and the others where it is asked for.

    Source: transformers' Llama4TextMoe; ``Workload.experts``.
    """

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """On each token."""
        made = super().forward(x, ctx)
        if ctx.run.experts == "all" and not x.trace.emits_kernels:  # an option of what is counted
            self._vain(reshape(x, x.rows, x.width), ctx)
        return made

    def _vain(self, x: Tensor, ctx: Context) -> None:
        """The work of the experts that were not chosen."""
        up, down = (
            Borrowed(each.name, each.fan_in, each.fan_out, each.letter) for each in (self.experts.up, self.experts.down)
        )
        many = self.experts.count, self.experts.chosen
        InVain(
            f"{self.experts.name}[not chosen]", None, up, down, self.experts.activation, count=many[0], chosen=many[1]
        )(x, ctx)


class Borrowed(Linear):
    """A map whose weights another module holds."""

    def held(self) -> Cost:
        """Nothing."""
        return Cost()

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """On each row."""
        (weight,) = (x.trace.weight(each) for each in super().held().weights)
        return linear(x, weight, letter=self.letter)


class InVain(Experts):
    """Experts that work though they were not chosen; their weights are counted with the others."""

    @property
    def copies(self) -> Num:
        """None of its own."""
        return 0

    @property
    def active(self) -> Num:
        """All that are not chosen."""
        return self.count - self.chosen


class ClippedFeedForward(GatedFeedForward):
    """``((up + 1) · gate · σ(α · gate)) W_2``, both cut off first; it counts as its activation does (gpt-oss)."""

    def halves_gated(self, gate: Tensor, up: Tensor, ctx: Context) -> Tensor:
        """Gate and input that one map has made."""
        if not gate.trace.emits_kernels:  # counted as the activation; a program makes it of smaller kernels
            return super().halves_gated(gate, up, ctx)
        gate, up = pointwise("clamp", gate), pointwise("clamp", up)
        glu = mul(gate, pointwise("sigmoid", scaled(gate)))
        return mul(shifted(up, "up + 1"), glu)


class LimitedFeedForward(GatedFeedForward):
    """``(activation(gate) · up) W_2``, gate and input cut off first (DeepSeek-V4)."""

    def _gated(self, x: Tensor, ctx: Context) -> Tensor:
        assert self.gate is not None
        gate, up = pointwise("clamp", self.gate(x)), pointwise("clamp", self.up(x))
        return self.halves_gated(gate, up, ctx)


class LimitedExperts(Experts):
    """The same of many experts."""

    def halves_gated(self, gate: Tensor, up: Tensor, ctx: Context) -> Tensor:
        """Gate and input that one map has made."""
        return super().halves_gated(pointwise("clamp", gate), pointwise("clamp", up), ctx)


DENSE_OR_SPARSE = ("dense", "sparse")


def chosen(c: Config, experts: str = "num_local_experts", each: str | int = "num_experts_per_tok") -> Num:
    """How many experts a token goes through, by a field or a number: all where no fewer are asked for."""
    asked = each if isinstance(each, int) else c.number(experts) if c.get(each) is None else c.number(each)
    if asked >= c.number(experts):
        return c.size(experts)
    return each if isinstance(each, int) else c.size(each)


def shared(c: Config, count: str = "n_shared_experts", width: str = "moe_intermediate_size") -> Num:
    """The width of shared experts, which are one network as wide as ``count`` of them; 0 where there are none."""
    return c.size(width) * c.size(count, least=0)


def mixture(
    c: Config,
    *beside: GatedFeedForward,
    name: str = "mlp",
    experts: str = "num_local_experts",
    each: str | int = "num_experts_per_tok",
    width: str | Num = "intermediate_size",
    hidden: Num | None = None,
    router: str = "gate",
    act: str = "",
    bias: bool = False,
    names: Sequence[str] = FUSED,
    of: type[Router] = Router,
    **routing: Any,
) -> Mixture:
    """``experts`` gated networks of this ``width``, of which each token goes through ``each``: names of the fields.

    They read ``hidden`` numbers of each token. ``beside`` are shared experts, ``routing`` what a router does its own
    way.
    """
    count, active = c.size(experts), chosen(c, experts, each)
    h = c.size("hidden_size") if hidden is None else hidden
    route = of(router, h, count, bias=bias, chosen=active, **routing)
    *inward, down = names
    f, kind = c.size(width) if isinstance(width, str) else width, act or c.word("hidden_act")
    gate = Linear(inward[0], h, f, "g", bias) if len(inward) == 2 else None
    up = Linear(inward[-1], h, f if gate else 2 * f, "1", bias)
    many = Experts("experts", gate, up, Linear(down, f, h, "2", bias), kind, count=count, chosen=active)
    return Mixture(name, route, many, beside)


def correction(c: Config, name: str = "gate.e_score_correction_bias", experts: str = "n_routed_experts") -> Buffer:
    """What is added to the router's scores to balance the experts' load: no gradient trains it, so it is a buffer."""
    return buffer(name, c.size(experts))


def frozen(c: Config, name: str, experts: str) -> Stored:
    """The same, as a parameter that is not trained."""
    return Stored(name, Weight(name, (c.size(experts),), minor=True, key="", frozen=True))


def sparse_after(c: Config, dense: int, every: int = 1) -> list[str]:
    """Which layers have experts: ``every`` so many of those after the first ``dense`` ones."""
    return ["sparse" if place >= dense and place % every == 0 else "dense" for place in range(c.number(LAYERS))]


def mlp_types(c: Config, otherwise: Sequence[str]) -> list[str]:
    """``mlp_layer_types`` where it is given."""
    given = c.has("mlp_layer_types")
    return c.words("mlp_layer_types", len(otherwise), DENSE_OR_SPARSE) if given else list(otherwise)
