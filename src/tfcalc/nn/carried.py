"""A router that is a network of its own, and hands on what it has seen to the router of the next layer."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.nn.basic import Buffer, Linear, Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Experts, Routed
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import add, filled, mul, residual
from tfcalc.ops.rows import softmax
from tfcalc.ops.select import gather
from tfcalc.ops.shapes import copied, reshape
from tfcalc.tape.tensor import Tensor

STATE = "router states"


class RouterNetwork(Module):
    """A map to a narrower width, to which what the router below made is added (times ``scale``), and three maps more.

    One choice more than there are experts is to do nothing: then a weight is 0.

    Source: ZAYA1 (arXiv 2511.17127), section 2; transformers' ZayaRouter.
    """

    kind = "router"

    down: Linear
    scale: Stored | None
    norm: Norm
    maps: tuple[Linear, ...]
    biases: Buffer

    def sent(self, x: Tensor, experts: Experts, ctx: Context) -> Routed:
        """Where each token of b × l × h goes."""
        trace, carried = x.trace, ctx.carried
        assert carried is not None
        with trace.inside(self):
            made = self.down(x)
            if self.scale is not None:
                made = add(made, mul(carried[STATE], self.scale.weight(trace)))
            carried[STATE] = copied(made, name="clone")
            made = self.norm(made, ctx)
            *before, last = self.maps
            for place, each in enumerate(before, start=1):
                made = ctx.activation("gelu", each(made), f"activation_{place}")
            logits = last(made)
            if not trace.lowers:
                return Routed(logits)
            weights, _ = gather(softmax(logits), experts.chosen)
            weights = filled(weights, trace.new(weights.shape, "bool", "nothing is done"))
            rows = x.rows, experts.chosen
            return Routed(reshape(weights, *rows), trace.new(rows, "int64", "experts chosen"), logits)


class CarriedMixture(Module):
    """Experts, and the network that sends tokens to them."""

    kind = "moe"

    router: RouterNetwork
    experts: Experts

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """On each token."""
        sent = self.router.sent(x, self.experts, ctx)
        return reshape(self.experts.routed(reshape(x, x.rows, x.width), sent, ctx), *x.shape)


class InWeightsFormat(Norm):
    """A norm that reads a copy in the format of the weights, where the stream has another."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """On each row."""
        return super().forward(x.trace.to(x, x.trace.weights_format), ctx)


class ScaledSums(PreNorm):
    """``(x + c)·d + (f(norm(x)) + a)·b``, with trained vectors for each sub-layer f: four ``vectors`` in a row.

    These are b, a, d and c.
    """

    vectors: tuple[Stored, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        for place, (norm, sub) in enumerate(self.running(ctx)):
            b, a, d, c = self.vectors[4 * place : 4 * place + 4]
            made = shifted_and_scaled(sub(norm(x, ctx), ctx), a, b)
            x = residual(shifted_and_scaled(x, c, d), made, sub.name)
        return x


class ScaledInput(Decoder):
    """A decoder whose layers read ``(x + a)·b`` in fp32, with trained vectors; they hand something on beside it."""

    vectors: tuple[Stored, ...] = ()

    @property
    def parts(self) -> Iterator[Module]:
        """With the vectors."""
        yield from super().parts
        yield from self.vectors

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        return super().forward(x, ctx._replace(carried={}))

    def _summed(self, tables: list[Tensor], ctx: Context) -> Tensor:
        b, a = self.vectors
        made = shifted_and_scaled(super()._summed(tables, ctx), a, b)
        return made.trace.to(made, "float32")


def shifted_and_scaled(x: Tensor, a: Stored, b: Stored) -> Tensor:
    """``(x + a)·b``."""
    return mul(add(x, a.weight(x.trace)), b.weight(x.trace))
