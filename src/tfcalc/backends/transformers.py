"""transformers' own code, on PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.backends import activations, attention, norms, rotation
from tfcalc.backends.masks import masks as masked
from tfcalc.core.number import Num
from tfcalc.core.traced import known
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Norm
from tfcalc.nn.context import Context
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import mul
from tfcalc.ops.loss import compiled_cross_entropy, cross_entropy, nll_of_softmax
from tfcalc.ops.shapes import contiguous, part
from tfcalc.tape.call import Call
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.numerics import Numerics
from tfcalc.tape.tensor import Tensor
from tfcalc.tape.trace import Trace
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.nn.mixture import Experts, Networks, Router, Routing
    from tfcalc.nn.positions import RelativeBias


class Transformers:
    """A backend; see :class:`tfcalc.nn.context.Backend`. What few models have is imported when one of them runs."""

    fuses = False
    experts_by = "grouped_mm"
    """Those of transformers' ``experts_implementation``."""
    loss = "logits"
    compiles = False
    """Whether the loss is compiled, and each layer."""

    @property
    def layers(self) -> Transformers:
        """Whose code runs the layers of a stack."""
        if not self.compiles:
            return self
        from tfcalc.backends.compiled import Compiled

        return Compiled(self)

    def workload(self, run: Workload, numerics: Numerics) -> Workload:
        """As it was asked for."""
        return run

    def begin(self, ctx: Context, x: Tensor, attentions: list[Attention], masks: tuple[Num | None, ...]) -> Context:
        """The masks of scores, and the angles of positions, once for all layers."""
        windows = dict.fromkeys([*masks, *(each.mask for each in attentions if each.looks_at_mask)])
        made = masked({window: [each for each in attentions if each.mask == window] for window in windows}, x, ctx)
        if any(each.alibi and not each.alibi.in_mask for each in attentions):
            slopes = (1, attentions[0].heads, 1, ctx.stream.length)
            ctx = ctx._replace(slopes=x.trace.new(slopes, x.trace.weights_format, "slopes"))
        ropes = {rotation.key(each): each.rope for each in reversed(attentions) if each.rope is not None}
        if not ropes:
            return ctx._replace(masks=made)
        places = x.trace.call(Call("positions", (), (ctx.stream.length,), "int64", kernels=("arange", "add")))
        angles = {key: rotation.angles_of(rope, x, ctx) for key, rope in reversed(ropes.items())}
        return ctx._replace(masks=made, angles=angles, places=places)

    def norm(self, norm: Norm, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """As the family writes it."""
        return norms.normed(norm.form, norm.code, x, weight, bias)

    def activation(self, kind: str, x: Tensor) -> Tensor:
        """As ACT2FN has it."""
        return activations.activation(kind, x)

    def gate(self, kind: str, gate: Tensor, up: Tensor) -> Tensor:
        """``activation(gate) · up``."""
        return mul(self.activation(kind, gate), up)

    def rotate(self, q: Tensor, k: Tensor, attention: Attention, ctx: Context) -> tuple[Tensor, Tensor]:
        """apply_rotary_pos_emb."""
        assert attention.rope is not None
        return rotation.turned(q, k, ctx.angles[rotation.key(attention)], attention.rope)

    def multi_head(self, attention: Attention, x: Tensor, ctx: Context) -> Tensor:
        """By maps of their own."""
        return attention.by_maps(x, ctx)

    def rotate_alone(self, q: Tensor, attention: Attention, ctx: Context) -> Tensor:
        """The same of queries."""
        assert attention.rope is not None
        return rotation.rotated(q, ctx.angles[rotation.key(attention)], attention.rope)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, block: Attention, ctx: Context) -> Tensor:
        """By the kernel of the run."""
        return attention.attended(q, k, v, block, ctx)

    def attend_all(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """scaled_dot_product_attention."""
        return attention.attended_all(q, k, v)

    def distances(self, table: RelativeBias, ctx: Context, ids: Tensor) -> Context:
        """T5's, once for all layers."""
        from tfcalc.backends import relative

        return relative.shared(table, ctx, ids)

    def route(self, router: Router, x: Tensor) -> Routing:
        """As the family writes it."""
        from tfcalc.backends import routers

        return routers.routed(router, x)

    def experts(self, experts: Experts, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """By the products that were asked for, where the family does not have its own."""
        from tfcalc.backends.experts import EXPERTS, every, some_idle
        from tfcalc.zoo.blocks.experts import AllExperts
        from tfcalc.zoo.latent import IdleExperts

        if isinstance(experts, AllExperts):
            return every(experts, x, sent, ctx)
        if isinstance(experts, IdleExperts):
            return some_idle(experts, x, sent, ctx)
        return EXPERTS[self.experts_by](experts, x, sent, ctx)

    def networks(self, experts: Networks, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """One after another."""
        from tfcalc.backends.experts import networks

        return networks(experts, x, sent, ctx)

    def scan(self, mixer: Module, ctx: Context, *given: Tensor) -> Tensor:
        """Its loop in Python."""
        from tfcalc.backends import scans

        return scans.CODE[type(mixer)](mixer, ctx, *given)

    def head_and_loss(self, model: ModelWithHead, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
        """The logits, in fp32 where the family copies them, and their loss; or as it was asked for."""
        if self.loss != "logits":
            from tfcalc.backends.losses import LOSSES

            return LOSSES[self.loss](self, model, x, ids, ctx)
        logits = self.logits(model, x, ctx)
        x.trace.returns("logits", logits)
        loss = cross_entropy(logits, f"{model.output.name}.loss", lambda: self._loss(logits, model, ids))
        x.trace.loss_ends()
        return loss

    def logits(self, model: ModelWithHead, x: Tensor, ctx: Context) -> Tensor:
        """What the model returns."""
        return model.logits(x, ctx)

    def _loss(self, logits: Tensor, model: ModelWithHead, ids: Tensor) -> Tensor:
        self.begin_loss(logits.trace)
        if model.cuts:
            logits = contiguous(part(logits, 1, ids.shape[1] - 1))
            ids = logits.trace.new(logits.shape[:-1], "int64", "labels")
        return self.loss_of(logits, self.labels(model, ids), upcasts=model.upcasts)

    def loss_of(self, logits: Tensor, targets: Tensor, *, upcasts: bool = True) -> Tensor:
        """cross_entropy, perhaps of a copy in fp32."""
        if self.compiles:
            return compiled_cross_entropy(logits, targets)
        return nll_of_softmax(logits.trace.to(logits, "float32") if upcasts else logits, targets)

    def loss_of_shares(self, logits: Tensor) -> Tensor:
        """DTensor's."""
        from tfcalc.ops.collectives import of_logarithms  # few models are shared

        self.begin_loss(logits.trace)
        return of_logarithms(logits)

    def begin_loss(self, trace: Trace) -> None:
        """A phase of its own."""
        assert isinstance(trace, Interpreter)
        trace.tape.tracker.begin("loss")

    def labels(self, model: ModelWithHead, ids: Tensor) -> Tensor:
        """The tokens, or those that are next: padded, and the first one cut off, a view where there is one sequence."""
        if model.cuts or not model.shifted:
            return ids
        tokens = ids.elements
        return ids.trace.new((tokens + 1 if known(ids.shape[0]) == 1 else tokens,), "int64", "labels")
