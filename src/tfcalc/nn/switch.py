"""Experts that are networks without a gate, of which each has weights of its own and runs by itself (Switch)."""

from __future__ import annotations

from tfcalc.nn.context import Context
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.mixture import Routed, Router
from tfcalc.nn.module import Module
from tfcalc.nn.several import Several
from tfcalc.ops.experts import combined, jittered
from tfcalc.ops.shapes import reshape
from tfcalc.tape.tensor import Tensor


class Networks(Several, FeedForward):
    """``count`` networks, of which each token goes through ``chosen``."""

    kind = "experts"

    def routed(self, x: Tensor, sent: Routed, ctx: Context) -> Tensor:
        """What the experts of each token make of it, times their weights."""
        with x.trace.inside(self):
            if x.trace.lowers:
                return ctx.backend.networks(self, x, sent, ctx)
            return combined(self.forward(x, ctx), sent.weights)


class Switch(Module):
    """A router, and the networks that it sends tokens to. In training it may read them with noise (``jitters``).

    Source: Fedus et al. 2021 (arXiv 2101.03961), section 2; NLLB-200 (arXiv 2207.04672), section 6.2.
    """

    kind = "moe"

    router: Router
    experts: Networks
    jitters: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """On each token."""
        rows = reshape(x, x.rows, x.width)
        sent = self.router.sent(self._read(rows, ctx), ctx)
        return reshape(self.experts.routed(rows, sent, ctx), *x.shape)

    def _read(self, x: Tensor, ctx: Context) -> Tensor:
        """In fp32, in place where it is already."""
        return jittered(x.trace.to(x, "float32")) if self.jitters and ctx.run.training and x.trace.lowers else x
