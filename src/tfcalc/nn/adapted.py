"""Maps with a low-rank map beside them, which a layer has of its own where it shares the others (Zamba2)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import add
from tfcalc.ops.shapes import reshape, split, transpose
from tfcalc.tape.tensor import Tensor


class LowRank(Module):
    """Two maps, one after the other, which are the layer's own whatever is shared around them.

    Source: Hu et al. 2021 (LoRA, arXiv 2106.09685), section 4.1.
    """

    kind = "adapter"

    down: Linear
    up: Linear

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """On each row."""
        with x.trace.shares(""):
            return self.up(self.down(x))


def adapted(made: Tensor, x: Tensor, adapter: LowRank) -> Tensor:
    """``x W + (x A) B``; where operations are counted, the adapters of all layers run together elsewhere."""
    return add(made, adapter(x)) if x.trace.lowers else made


class WithAdapters(Module):
    """What has ``adapters`` beside its maps, which the model holds."""

    adapters: tuple[LowRank, ...] = ()

    @property
    def parts(self) -> Iterator[Module]:
        """Without the adapters."""
        return (part for part in super().parts if not isinstance(part, LowRank))


class AdaptedAttention(WithAdapters, Attention):
    """Attention with adapters beside the maps that make queries, keys and values, or without any.

    Source: Glorioso et al. 2024 (arXiv 2411.15242), section 2.
    """

    def _projected(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        if not self.adapters:
            return super()._projected(x, source, ctx)
        made = [each(x) for each in self.inward]
        made = [adapted(one, x, adapter) for one, adapter in zip(made, self.adapters, strict=True)]
        wide = ((self.heads, self.key_dim), (self.kv_heads, self.key_dim), (self.kv_heads, self.value_dim))
        q, k, v = (transpose(reshape(one, *x.shape[:2], *axes), 1, 2) for one, axes in zip(made, wide, strict=True))
        return q, k, v


class AdaptedNetwork(WithAdapters, GatedFeedForward):
    """A gated network with an adapter beside the map that makes gate and input."""

    def _gated(self, x: Tensor, ctx: Context) -> Tensor:
        (adapter,) = self.adapters
        gate, up = split(adapted(self.up(x), x, adapter), [self.down.fan_in] * 2)
        return self.halves_gated(gate, up, ctx)


class AdaptersOf(Module):
    """The adapters of a module, or those of its parts."""

    kind = "adapter"

    adapters: tuple[Module, ...]

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """One by one."""
        for each in self.adapters:
            each(x)
        return x


class Adapters(Module):
    """So many sets of adapters that are ``stored``; so many are ``read``, one by each layer that shares a block."""

    kind = "layer"

    adapters: AdaptersOf
    stored: Num
    read: Num

    @property
    def copies(self) -> Num:
        """The sets."""
        return self.stored

    @property
    def active(self) -> Num:
        """Those that tokens go through."""
        return self.read

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """All together, of one layer."""
        return self.adapters(x)
