"""Experts of a single neuron each, of which a token finds its own among very many."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.several import Several
from tfcalc.ops.elementwise import add, mul
from tfcalc.ops.products import matmul
from tfcalc.ops.rows import softmax
from tfcalc.ops.select import row_sums, topk
from tfcalc.ops.shapes import reshape, select, unsqueeze
from tfcalc.ops.tables import looked_up
from tfcalc.tape.call import Call
from tfcalc.tape.tensor import Tensor


class Neurons(Several, FeedForward):
    """``count`` networks of one neuron, of which each token goes through ``chosen``."""

    kind = "experts"

    def found(self, x: Tensor, places: Tensor, weights: Tensor, ctx: Context) -> Tensor:
        """What a token's neurons make of it, times their ``weights``: their vectors stand in tables."""
        trace, (t, h), k = x.trace, x.shape, self.chosen
        with trace.inside(self):
            inward, outward = (looked_up(self._table(each, h, x), places) for each in (self.up, self.down))
            made = reshape(matmul(inward, reshape(x, t, h, 1)), t, k)
            made = mul(ctx.backend.activation(self.activation, made), weights)
            return reshape(matmul(reshape(made, t, 1, k), outward), t, h)

    def _table(self, map_: Linear, width: Num, x: Tensor) -> Tensor:
        with x.trace.inside(map_):
            (weight,) = (x.trace.weight(each, self.count) for each in map_.held().weights)
        return reshape(weight, self.count, width)


class WithNeurons(GatedFeedForward):
    """A dense network, and neurons beside it: the best pairs of a row and a column of their square.

    The ``router`` has a logit for each of its ``rows`` and columns.

    Source: He 2024 (arXiv 2407.04153), section 2; transformers' DogeCDMoE.
    """

    kind = "moe"

    router: Linear | None = None
    neurons: Neurons | None = None
    rows: int = 1
    normalized: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """On each token."""
        assert self.router is not None
        assert self.neurons is not None
        rows = reshape(x, x.rows, x.width)
        logits = self.router(rows)
        if not x.trace.lowers:
            self.neurons(rows, ctx)
            return super().forward(x, ctx)
        made = reshape(self.neurons.found(rows, *self._routed(logits), ctx), *x.shape)
        return add(super().forward(x, ctx), made)

    def _routed(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The numbers of a token's neurons, and their weights."""
        assert self.neurons is not None
        trace, tokens = logits.trace, logits.rows
        best, _ = topk(reshape(logits, 2, tokens, self.rows), self.rows)
        scores = add(unsqueeze(select(best, 0), -1), unsqueeze(select(best, 0), -2))
        scores, _ = topk(reshape(scores, tokens, self.rows * self.rows), self.neurons.chosen)
        weights = softmax(scores)
        if self.normalized:
            total, before = row_sums(weights), trace.new(weights.shape, weights.dtype, "before div_")
            call = Call("div_", (weights, total), weights.shape, weights.dtype, saves=(before, total))
            weights = trace.call(call._replace(shares=weights.storage))
        return trace.new(weights.shape, "int64", "neurons chosen"), weights
