"""Layers with two attentions and two dense networks, and experts beside the second half of them (LongCat-Flash)."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.latent import LatentAttention
from tfcalc.nn.mixture import Experts, Mixture
from tfcalc.nn.module import Module
from tfcalc.nn.several import Several
from tfcalc.ops.elementwise import residual
from tfcalc.tape.tensor import Tensor


class ShortcutLayer(Module):
    """``x + f(norm(x))`` four times; what experts make of what the first network reads is added at the end.

    Source: LongCat-Flash (arXiv 2509.01322), section 2.2.
    """

    kind = "layer"

    mlp: Mixture
    attentions: tuple[LatentAttention, ...]
    before: tuple[Norm, ...]
    between: tuple[Norm, ...]
    mlps: tuple[GatedFeedForward, ...]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        beside: Tensor | None = None
        for attention, before, between, mlp in zip(self.attentions, self.before, self.between, self.mlps, strict=True):
            x = residual(x, attention(before(x, ctx), ctx), attention.name)
            normed = between(x, ctx)
            beside = self.mlp(normed, ctx) if beside is None else beside
            x = residual(x, mlp(normed, ctx), mlp.name)
        return x if beside is None else residual(x, beside, self.mlp.name)


class OfSome(Several, Linear):
    """A map of which there are several."""


class IdleExperts(Experts):
    """Experts, and some that hand on what they read, of which the first map is stored all the same.

    A token is counted as going through as many experts as are chosen, none of them idle; what is kept is that of tokens
    that are spread evenly over all.

    Source: LongCat-Flash (arXiv 2509.01322), section 2.1; transformers' LongcatFlashExperts.
    """

    up: OfSome
    down: OfSome

    @property
    def copies(self) -> Num:
        """Its maps have their own numbers."""
        return 1

    @property
    def active(self) -> None:
        """Likewise."""
        return

    def halves_gated(self, gate: Tensor, up: Tensor, ctx: Context) -> Tensor:
        """Of each expert that a token goes through, where operations are counted."""
        if gate.trace.lowers:
            return super().halves_gated(gate, up, ctx)
        shape = gate.shape
        gate, up = (each.trace.view(each, (self.chosen * each.rows, each.width), None) for each in (gate, up))
        made = super().halves_gated(gate, up, ctx)
        return made.trace.view(made, shape, None)
