"""Layers whose sub-layers stand behind gates: a trained number for each, of which the tanh is taken."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.nn.basic import Stored
from tfcalc.nn.context import Context
from tfcalc.nn.layers import PreNorm, as_it_is
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import mul, pointwise, residual
from tfcalc.tape.tensor import Tensor


class GatedLayer(PreNorm):
    """``x + tanh(g)·f(norm(x))`` for each sub-layer f.

    Source: Alayrac et al. 2022 (Flamingo, arXiv 2204.14198), section 3.1.2.
    """

    gates: tuple[Stored, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        for norm, sub, gate in zip(self.norms, self.subs, self.gates, strict=True):
            made = sub((norm or as_it_is)(x, ctx), ctx)
            x = residual(x, mul(pointwise("tanh", gate.weight(x.trace)), made), sub.name)
        return x


class ReadingLayer(GatedLayer):
    """One that attends to a memory, and is passed by where there is none."""

    @property
    def parts(self) -> Iterator[Module]:
        """The gates behind the sub-layer that reads."""
        first, *others = self.subs
        return (each for each in (first, *self.gates, *others, *self.norms) if each is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of the stream; as it is without a memory."""
        return super().forward(x, ctx) if all(sub.runs(ctx) for sub in self.subs) else x


class TowerBlock(PreNorm):
    """A layer that a program does not checkpoint."""

    kind = "block"


class GatedBlock(GatedLayer):
    """The same behind gates."""

    kind = "block"
