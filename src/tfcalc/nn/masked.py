"""Attention that looks both ways, but for what a mask hides."""

from __future__ import annotations

from tfcalc.nn.attention import Attention
from tfcalc.nn.context import Context
from tfcalc.nn.encoder import Layers
from tfcalc.tape.tensor import Tensor


class Masked(Attention):
    """A mask says which tokens see which: the context's, or one that is made of tokens that are there."""

    causal: bool = False

    @property
    def looks_at_mask(self) -> bool:
        """Always."""
        return True


class MaskedLayers(Layers):
    """Layers whose masks the context has already."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of vectors."""
        return self.layers(x, ctx)
