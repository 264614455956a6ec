"""A mixture whose program has every expert read every token, though most of what they make weighs nothing."""

from __future__ import annotations

from tfcalc.core.cost import Cost
from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.mixture import Experts, Mixture, Router
from tfcalc.ops.products import linear
from tfcalc.ops.shapes import reshape
from tfcalc.tape.tensor import Tensor


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
        if ctx.run.experts == "all" and not x.trace.lowers:
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
