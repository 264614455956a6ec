"""Mixtures whose router weighs the experts that every token goes through, too."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.basic import Stored
from tfcalc.nn.context import Context
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.mixture import Mixture, Router
from tfcalc.ops.elementwise import add, mul, scaled
from tfcalc.ops.products import matmul
from tfcalc.ops.shapes import contiguous, expand, part, reshape, transpose
from tfcalc.tape.call import Call
from tfcalc.tape.tensor import Tensor


class TimesTrained(GatedFeedForward):
    """A gated network, whose output is multiplied by a trained number."""

    scale: Stored | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """On each token."""
        assert self.scale is not None
        return mul(super().forward(x, ctx), self.scale.weight(x.trace))


class RouterOfShared(Router):
    """A number for each expert; the last ``shared`` are those of experts that every token goes through.

    The weights of those that are chosen and of the shared ones add up to 1: they are the softmax of the logarithms of
    their scores.
    """

    shared: Num = 0


class SharedExperts(GatedFeedForward):
    """So many (``count``) networks side by side, each of which weighs what it makes before the last map."""

    count: Num = 1

    @property
    def copies(self) -> Num:
        """How many are stored."""
        return self.count

    def weighed(self, x: Tensor, weights: Tensor, ctx: Context) -> Tensor:
        """Their sum: of tokens × h, with a weight for each token and expert."""
        with x.trace.inside(self):
            return self._summed(x, weights, ctx) if x.trace.lowers else self.forward(x, ctx)

    def _summed(self, x: Tensor, weights: Tensor, ctx: Context) -> Tensor:
        trace, maps = x.trace, (self.gate, self.up, self.down)
        matrices: list[Tensor] = []
        for each in maps:
            assert each is not None
            with trace.inside(each):
                matrices += (trace.lower_weight(trace.weight(one, self.count)) for one in each.held().weights)
        rows = expand(reshape(x, 1, *x.shape), self.count, *x.shape)
        weights = transpose(reshape(weights, x.rows, self.count, 1), 0, 1)
        gate, up = matmul(rows, matrices[0]), matmul(rows, matrices[1])
        made = matmul(mul(mul(self.activated(gate, ctx), up), weights), matrices[2])
        made = trace.to(made, "float32")
        return trace.to(trace.call(Call("sum", (made,), x.shape, "float32")), x.dtype)


class WeighedShared(Mixture):
    """The experts' sum and that of shared ones, all weighed by one router, times a trained number.

    Source: transformers' InklingMoE.
    """

    beside: SharedExperts | None = None
    scale: Stored | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """On each token."""
        assert isinstance(self.router, RouterOfShared)
        assert self.beside is not None
        assert self.scale is not None
        trace, rows = x.trace, reshape(x, x.rows, x.width)
        sent = self.router.sent(rows, ctx)
        weights = mul(scaled(sent.weights), trace.to(self.scale.weight(trace), "float32"))
        weights = trace.to(weights, x.dtype)
        shared = contiguous(part(weights, 1, self.router.shared)) if trace.lowers else weights
        chosen = contiguous(part(weights, 1, self.router.chosen)) if trace.lowers else weights
        made = reshape(self.experts.routed(rows, sent._replace(weights=chosen), ctx), *x.shape)
        return add(made, reshape(self.beside.weighed(rows, shared, ctx), *x.shape))
