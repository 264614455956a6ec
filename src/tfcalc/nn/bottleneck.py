"""Maps through a narrower width, of which logits are made."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.tape.tensor import Tensor


class Bottleneck(Module):
    """Two maps with an activation behind each; the first makes fewer numbers (transformers' UltrabertModel)."""

    kind = "head"

    narrow: Linear
    wide: Linear
    activation: str

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of each vector."""
        for place, each in enumerate((self.narrow, self.wide), 1):
            x = ctx.activation(self.activation, each(x), f"activation{place}")
        return x


class WithBottleneck(WithHead):
    """A language model whose logits are made of such maps."""

    bottleneck: Bottleneck | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """In the order in which they run."""
        return iter(each for each in (self.base, self.bottleneck, self.head) if each is not None)

    def logits(self, x: Tensor, ctx: Context) -> Tensor:
        """Those of what the base model has made."""
        return super().logits(self._narrowed(x, ctx), ctx)

    def opened(self, x: Tensor, ctx: Context) -> tuple[Tensor, list[Tensor]]:
        """What the map that makes logits reads, and its weights."""
        return super().opened(self._narrowed(x, ctx), ctx)

    def _narrowed(self, x: Tensor, ctx: Context) -> Tensor:
        assert self.bottleneck is not None
        return self.bottleneck(x, ctx)
