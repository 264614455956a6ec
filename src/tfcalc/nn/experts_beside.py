"""Experts beside a dense network, each with norms of their own, and a vector of the layer's own behind them."""

from __future__ import annotations

from tfcalc.nn.basic import Buffer, Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.layers import Sandwich
from tfcalc.nn.mixture import Mixture, Routed
from tfcalc.nn.per_layer import LayerInput
from tfcalc.ops.elementwise import mul, residual, scaled
from tfcalc.ops.select import index
from tfcalc.ops.shapes import reshape
from tfcalc.tape.tensor import Tensor


class ScaledRouting(Mixture):
    """A mixture whose router reads the stream by a norm without weights, times trained numbers (``scale``).

    Each expert's weights are multiplied by a trained number of its own (``expert_scale``). Its experts read something
    else. Source: transformers' Gemma4TextRouter.
    """

    reads: Norm | None = None
    scale: Stored | None = None
    expert_scale: Stored | None = None

    def sent(self, x: Tensor, ctx: Context) -> Routed:
        """Where each row goes."""
        assert self.reads is not None
        assert self.scale is not None
        assert self.expert_scale is not None
        with x.trace.inside(self):
            x = scaled(mul(self.reads(x, ctx), self.scale.weight(x.trace)))
            sent = self.router.sent(x, ctx)
            if sent.chosen is None:
                return sent
            picked = index(self.expert_scale.weight(x.trace), sent.chosen, sent.chosen.shape)
            return sent._replace(weights=mul(sent.weights, picked))

    def made(self, x: Tensor, sent: Routed, ctx: Context) -> Tensor:
        """What the experts make of rows."""
        with x.trace.inside(self):
            return self.experts.routed(x, sent, ctx)


class Beside(Sandwich):
    """Norms before and behind each of two sub-layers; beside the second there may be experts (``moe``).

    What the dense network makes, and what the experts read and make, has three norms of its own (``moe_norms``). Last
    comes the layer's own vector of each token, if it has one (``input``), behind a norm. What leaves the layer is
    multiplied by a number that is not trained (``scalar``).

    Source: transformers' Gemma4TextDecoderLayer.
    """

    moe: ScaledRouting | None = None
    moe_norms: tuple[Norm, ...] = ()
    input: LayerInput | None = None
    input_norm: Norm | None = None
    scalar: Buffer | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        (mixer, network), norms = self.subs, [norm for norm in self.norms if norm is not None]
        x = residual(x, norms[1](mixer(norms[0](x, ctx), ctx), ctx), mixer.name)
        made = network(norms[2](x, ctx), ctx)
        if self.moe is not None:
            made = self._with_experts(self.moe, made, x, ctx)
        x = residual(x, norms[3](made, ctx), network.name)
        if self.input is None or self.input_norm is None:
            return x
        return residual(x, self.input_norm(self.input(x, ctx), ctx), self.input.name)

    def _with_experts(self, moe: ScaledRouting, made: Tensor, x: Tensor, ctx: Context) -> Tensor:
        first, last, before = self.moe_norms
        made, rows = first(made, ctx), reshape(x, x.rows, x.width)
        sent = moe.sent(rows, ctx)
        routed = reshape(moe.made(before(rows, ctx), sent, ctx), *x.shape)
        return residual(made, last(routed, ctx), moe.name)
