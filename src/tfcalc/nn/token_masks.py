"""Encoders that multiply each layer's output by what says which tokens are there (XLM)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.nn.basic import Embedding
from tfcalc.nn.context import Context
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import residual, times_mask
from tfcalc.tape.tensor import Tensor


class MaskedLayer(PreNorm):
    """A layer with its norms behind the sums, or before the sub-layers (``first``); then tokens are masked."""

    first: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        for norm, sub in self.running(ctx):
            x = residual(x, self.dropping(sub, sub(norm(x, ctx) if self.first else x, ctx), ctx), sub.name)
            x = x if self.first else norm(x, ctx)
        return times_mask(x) if x.trace.lowers else x


class MaskedDecoder(Decoder):
    """A stack whose embedding is masked, too. Vectors of ``languages`` are held; token ids alone ask for none."""

    languages: Embedding | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """Tables, their norm, layers."""
        parts = (*self.added, self.table, self.languages, self.normed, self.layers)
        return (part for part in parts if part is not None)

    def _summed(self, tables: list[Tensor], ctx: Context) -> Tensor:
        x = super()._summed(tables, ctx)
        return times_mask(x) if x.trace.lowers else x
