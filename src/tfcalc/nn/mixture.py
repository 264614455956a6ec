"""A mixture of experts: many feed-forward networks, of which a router sends each token to a few."""

from __future__ import annotations

from typing import Any, Self

from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm, Parameter
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.module import Context, Frozen, Module, Routing
from tfcalc.ops.elementwise import activation, add, mul, pointwise, scaled
from tfcalc.ops.experts import add_in_place, combined, jittered
from tfcalc.ops.shapes import reshape
from tfcalc.tape.tensor import Tensor


class Replicated(Module):
    """A module of which ``count`` copies are stored and ``chosen`` are active per token."""

    count: Num = 1
    chosen: Num = 1

    @property
    def copies(self) -> Num:
        """Number of copies that are stored."""
        return self.count

    @property
    def active(self) -> Num | None:
        """Number of copies that are active per token."""
        return self.chosen


class RouterCode(Frozen):
    """Routing code of a program, which decides what is saved, not what is counted.

    ``logits`` are in the format of the stream, brought to ``float32``, or a product of ``copies`` in fp32, and perhaps
    capped by a tanh (``capped``); ``format`` is that of W, where it is not that of all weights. Autocast may be off
    (``exact``). The softmax of the best runs as autocast has it, in their ``own`` format, or in ``float32``
    (``softmax_in``). Weights are normalized ``in_place``, or divided by a ``least`` number if their sum is smaller, and
    then brought to the format of the ``logits``, of the ``stream``, or of neither (``result``).
    """

    logits: str = ""
    format: str = ""
    exact: bool = False
    softmax_in: str = ""
    in_place: bool = True
    least: bool = False
    result: str = ""
    capped: bool = False


class Router(Linear):
    """Router logits, a number for each expert: a token is sent to the best of them, as many as are ``chosen``.

    ``scores`` are a ``softmax``, a ``sigmoid`` or another activation of these logits. ``best_first``: the best logits
    are found first, and their softmax is that of them alone. ``corrected``: what is added to the scores (and, perhaps,
    groups of experts) decides on who is chosen, but not on the weights. ``grouped``: experts that are not in the best
    groups are left out. The weights may be ``normalized``, so that they add up to 1, and multiplied by a number
    (``scales``). ``code`` is how a program does it.

    Source: Shazeer et al. 2017 (arXiv 1701.06538), section 2.1; DeepSeek-V3 (arXiv 2412.19437), section 2.1.2.
    """

    kind: str = "router"
    letter: str = "router"
    chosen: Num = 1
    scores: str = "softmax"
    best_first: bool = False
    corrected: bool = False
    grouped: bool = False
    normalized: bool = False
    scales: bool = False
    code: RouterCode = RouterCode()

    def route(self, x: Tensor, ctx: Context) -> Routing:
        """Return the routing of each token."""
        with x.trace.inside(self):
            found: Routing = ctx.backend.route(self, x)
            return found

    def counted(self, x: Tensor) -> Routing:
        """The scores of all experts, where operations are counted."""
        return Routing(self.forward(x))


class SparseMixer(Router):
    """Draws two experts, one after the other, the second without the first (arXiv 2409.12136)."""


class Experts(Replicated, GatedFeedForward):
    """``count`` networks, of which each token goes through ``chosen``; all tokens through as many.

    The matrices of all experts are one tensor where one map makes gate and input. ``clipped``: gate and input are cut
    off, and the output is ``(up + 1) · gate · σ(α · gate)`` (gpt-oss), which is of no consequence to what is counted.
    """

    kind = "experts"

    clipped: bool = False

    def routed(self, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """Return the weighted sum of the outputs of each token's experts."""
        with x.trace.inside(self):
            return ctx.backend.experts(self, x, sent, ctx)

    def counted(self, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """Return the weighted sum of the outputs of each token's experts, where operations are counted."""
        return combined(self.forward(x, ctx), sent.weights)


class PlainExperts(Experts):
    """Experts without a gate: ``activation(x W_1) W_2``."""

    def gated(self, x: Tensor, ctx: Context) -> Tensor:
        """Apply the activation alone."""
        return self.activated(self.up(x), ctx)


class CappedExperts(Experts):
    """Experts whose gate and input are capped by a tanh each, which does not affect the counts (Inkling 2)."""


class Mixture(Module):
    """The experts' sum, and what every token goes through beside them.

    ``shared`` experts may have a ``gate``, one number for each token; the whole may have a ``norm``. ``stored`` is what
    the router adds to its scores. The shared experts may run before the others, which decides on what is live then.
    The experts' sum may be multiplied by a number (``scales``), or added to what the shared ones made (``in_place``).

    Source: Shazeer et al. 2017 (arXiv 1701.06538), section 2; DeepSeekMoE (arXiv 2401.06066), section 3.
    """

    kind = "moe"

    router: Router
    experts: Experts
    shared: tuple[GatedFeedForward | FeedForward, ...] = ()
    gate: Linear | None = None
    stored: tuple[Parameter, ...] = ()
    norm: Norm | None = None
    shared_first: bool = False
    scales: bool = False
    in_place: bool = False

    def routed(self, **how: Any) -> Self:
        """Return a copy whose router has these fields changed."""
        return self.replace(router=self.router.replace(**how))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the mixture's output for each token."""
        rows = reshape(x, x.rows, x.width)
        beside = [each(rows, ctx) for each in self.shared] if self.shared_first else []
        sent = self.router.route(rows, ctx)
        made = self.experts.routed(rows, sent, ctx)
        made = scaled(made) if self.scales else made
        for each in beside or (each(rows, ctx) for each in self.shared):
            made = add_in_place(each, made) if self.in_place else add(made, self._opened(rows, each))
        made = reshape(made, *x.shape)
        return made if self.norm is None else self.norm(made, ctx)

    def _opened(self, x: Tensor, shared: Tensor) -> Tensor:
        """Return a shared expert's output, times the sigmoid of its gate if it has one (Qwen2-MoE)."""
        if self.gate is None:
            return shared
        logits = self.gate(x)
        name = f"{self.gate.name}.sigmoid"
        return mul(activation("sigmoid", logits, lambda: pointwise("sigmoid", logits), name), shared)


class LatentMixture(Mixture):
    """The experts read what the first of two ``ways`` maps, if there are any, and the second maps back what they make.

    Source: transformers' NemotronHMoE.
    """

    ways: tuple[Linear, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the mixture's output for each token."""
        rows = reshape(x, x.rows, x.width)
        sent = self.router.route(rows, ctx)
        there, back = self.ways or (None, None)
        made = self.experts.routed(rows if there is None else there(rows), sent, ctx)
        made = reshape(made if back is None else back(made), *x.shape)
        for each in self.shared:
            made = add(made, each(x, ctx))
        return made


class Networks(Replicated, FeedForward):
    """``count`` networks, of which each token goes through ``chosen``."""

    kind = "experts"

    def routed(self, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """Return the weighted sum of the outputs of each token's experts."""
        with x.trace.inside(self):
            return ctx.backend.networks(self, x, sent, ctx)

    def counted(self, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """Return the weighted sum of the outputs of each token's experts, where operations are counted."""
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
        """Return the experts' output for each token."""
        rows = reshape(x, x.rows, x.width)
        sent = self.router.route(self._read(rows, ctx), ctx)
        return reshape(self.experts.routed(rows, sent, ctx), *x.shape)

    def _read(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the router's input: in training with noise, if it ``jitters``, in fp32 (in place if it is already)."""
        return jittered(x.trace.to(x, "float32")) if self.jitters and ctx.run.training else x
