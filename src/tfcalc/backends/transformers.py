"""transformers' own code, on PyTorch."""

from __future__ import annotations

from tfcalc.backends import activations, attention, norms, rotation, routers
from tfcalc.backends.cache import Cache, Layer
from tfcalc.backends.experts import EXPERTS
from tfcalc.core.number import Num
from tfcalc.core.traced import value_of
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Norm
from tfcalc.nn.context import Context
from tfcalc.nn.mixture import Experts, Routed, Router
from tfcalc.nn.model import WithHead
from tfcalc.ops.elementwise import mul
from tfcalc.ops.loss import cross_entropy, nll_of_softmax
from tfcalc.ops.shapes import copied, expand
from tfcalc.tape.call import Call
from tfcalc.tape.operations import Numerics
from tfcalc.tape.running import Running
from tfcalc.tape.tensor import Tensor
from tfcalc.tape.trace import Trace
from tfcalc.workload import Workload


def _seen(window: Num | None, queries: Num, keys: Num, trace: Running) -> Tensor:
    """Which keys a query sees: those at or before it, and those in its window (and_masks makes a copy each time)."""
    seen = trace.new((1, 1, queries, keys), "bool", "mask")
    if window is None:
        return seen
    later = copied(seen, name="mask")
    return copied(later, name="mask")


class Transformers:
    """A backend; see :class:`tfcalc.nn.context.Backend`."""

    fuses = False
    experts_by = "grouped_mm"
    """Those of transformers' ``experts_implementation``."""

    def workload(self, run: Workload, numerics: Numerics) -> Workload:
        """As it was asked for."""
        return run

    def begin(self, ctx: Context, x: Tensor, attentions: list[Attention], masks: tuple[Num | None, ...]) -> Context:
        """The masks of scores, and the angles of positions, once for all layers."""
        windows = dict.fromkeys([*masks, *(each.window for each in attentions if each.causal)])
        if ctx.cache is None:
            found = {window: self._mask(window, x, ctx) for window in windows}
        else:
            assert isinstance(ctx.cache, Cache)
            found = {window: self._mask_of_cached(layer, x, ctx) for window, layer in ctx.cache.kinds.items()}
        made = {window: mask for window, mask in found.items() if mask is not None}
        ropes = {rotation.key(each): each.rope for each in reversed(attentions) if each.rope is not None}
        if not ropes:
            return ctx._replace(masks=made)
        places = x.trace.new((ctx.stream.length,), "int64", "positions")
        angles = {key: rotation.angles_of(rope, x, ctx) for key, rope in reversed(ropes.items())}
        return ctx._replace(masks=made, angles=angles, places=places)

    def _mask(self, window: Num | None, x: Tensor, ctx: Context) -> Tensor | None:
        """Numbers in eager attention, booleans in sdpa, where they say more than that the future is masked."""
        trace, batch, length = x.trace, ctx.stream.batch, ctx.stream.length
        assert isinstance(trace, Running)
        if ctx.run.kernel == "eager":
            mask = trace.new((batch, 1, length, length), trace.numerics.weights, "mask")
            mask.storage.home = trace.module  # one for all layers, if any keeps it
            return mask
        if window is None or value_of(length) < value_of(window):
            return None
        return expand(_seen(window, length, length, trace), batch, 1, length, length)

    def _mask_of_cached(self, layer: Layer, x: Tensor, ctx: Context) -> Tensor | None:
        """That of new queries and all keys that they find."""
        trace, batch, new = x.trace, ctx.stream.batch, ctx.stream.length
        assert isinstance(trace, Running)
        assert isinstance(new, int)
        shape = (batch, 1, new, layer.read(new))
        seen = _seen(layer.kind.window, *shape[2:], trace)
        if ctx.run.kernel == "eager":
            return trace.call(Call("where", (seen,), shape, trace.numerics.weights))
        return expand(seen, *shape) if layer.masked(new) else None

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

    def attend(self, q: Tensor, k: Tensor, v: Tensor, part: Attention, ctx: Context) -> Tensor:
        """By the kernel of the run."""
        return attention.attended(q, k, v, part, ctx)

    def route(self, router: Router, x: Tensor) -> Routed:
        """As the family writes it."""
        return routers.routed(router, x)

    def experts(self, experts: Experts, x: Tensor, sent: Routed, ctx: Context) -> Tensor:
        """By the products that were asked for."""
        return EXPERTS[self.experts_by](experts, x, sent, ctx)

    def head_and_loss(self, model: WithHead, x: Tensor, ids: Tensor) -> Tensor:
        """ForCausalLMLoss: the logits in fp32, and labels that are moved by one token."""
        logits = model.logits(x)
        return cross_entropy(logits, f"{model.head.name}.loss", lambda: self._loss(logits, self.labels(model, ids)))

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        self.begin_loss(logits.trace)
        return nll_of_softmax(logits.trace.to(logits, "float32"), labels)

    def begin_loss(self, trace: Trace) -> None:
        """A phase of its own."""
        assert isinstance(trace, Running)
        trace.tape.ledger.begin("loss")

    def labels(self, model: WithHead, ids: Tensor) -> Tensor:
        """Those of the next tokens: padded, and the first one cut off, a view where there is one sequence."""
        if model.masked:
            return ids
        tokens = ids.elements
        return ids.trace.new((tokens if value_of(ids.shape[0]) != 1 else tokens + 1,), "int64", "labels")
