"""transformers' own code on PyTorch, which the other backends derive from.

Causal masks are made once for all layers, as in transformers' ``masking_utils``: additive for eager attention, else
boolean, and none where sdpa's own causal mask is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from tfcalc.backends import SAVED, WITH_COMPILE, WITH_LOSSES, WITH_METHODS, WITH_TP, attention, elementwise
from tfcalc.backends.cache import CacheLayer, ModelCache
from tfcalc.backends.log_probs import Scoring, loss_of_scores
from tfcalc.configs.published import HFModel
from tfcalc.core.number import Num
from tfcalc.core.traced import known, value_of
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Norm
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import mul
from tfcalc.ops.rows import compiled_cross_entropy, cross_entropy, nll_of_softmax
from tfcalc.ops.shapes import contiguous, copied, expand, part
from tfcalc.tape.interpreter import Interpreter, Numerics
from tfcalc.tape.tensor import Call, Tensor, Trace
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.nn.mixture import Experts, Networks, Router
    from tfcalc.nn.module import Routing
    from tfcalc.nn.positions import RelativeBias


Readers = Mapping[Num | None, Sequence[Attention]]
EAGER = (*("arange", "arange"), *("arange", "add") * 2, "le", "zeros", "scalar_tensor", "where")
"""Kernels of an eager mask: indices of sequences, heads, queries and keys; comparison; and conversion to numbers."""
WINDOWED = ("new_ones", "sub", "gt", "bitwise_and", "bitwise_and")
"""Further kernels for a window."""


def causal_masks(readers: Readers, x: Tensor, ctx: Context) -> Mapping[Num | None, Tensor]:
    """Return the masks that are needed, by window; ``readers`` are the attentions that read each."""
    trace = x.trace
    assert isinstance(trace, Interpreter)
    if ctx.cache is None:
        by_window = {window: _of_sequence(window, reading, trace, ctx) for window, reading in readers.items()}
    else:
        assert isinstance(ctx.cache, ModelCache)
        by_window = {window: _of_cached(layer, trace, ctx) for window, layer in ctx.cache.kinds.items()}
    return {window: mask for window, mask in by_window.items() if mask is not None}


def _of_sequence(window: Num | None, readers: Sequence[Attention], trace: Interpreter, ctx: Context) -> Tensor | None:
    """Return the mask of a sequence: additive in eager attention, boolean in sdpa; None if sdpa needs none.

    With ALiBi it is additive with an axis for heads. Code that calls ``masked_fill`` needs a boolean one.
    """
    batch, length = ctx.stream.batch, ctx.stream.length
    shape: tuple[Num, ...] = (batch, 1, length, length)
    sloped = [reader.heads for reader in readers if reader.alibi is not None and reader.alibi.in_mask]
    if ctx.run.kernel == "eager" or sloped:
        kernels = EAGER if window is None else (*EAGER, *WINDOWED)
        kind = "bool" if any(reader.eager.mask == "filled" for reader in readers) else trace.numerics.weights
        shape = (batch, sloped[0] if sloped else 1, length, length)
        mask = trace.call(Call("mask", (), shape, kind, kernels=kernels))
        mask.storage.home = trace.module  # one mask for all layers, listed under the model
        return mask
    if window is None and trace.numerics.traced and any(reader.given_ones for reader in readers if reader.causal):
        return trace.new(shape, "bool", "mask")  # a traced run cannot see that the given mask is all ones
    ends_before = window is not None and value_of(length) >= value_of(window)
    if not ends_before and not any(reader.always_masked for reader in readers):
        return None
    seen = _seen(window, length, length, trace)
    seen.storage.home = trace.module
    return expand(seen, *shape)


def _of_cached(layer: CacheLayer, trace: Interpreter, ctx: Context) -> Tensor | None:
    """Return the mask of new queries and all cached keys; None if sdpa needs none."""
    new = ctx.stream.length
    assert isinstance(new, int)
    shape = (ctx.stream.batch, 1, new, layer.read(new))
    seen = _seen(layer.kind.window, *shape[2:], trace)
    if ctx.run.kernel == "eager":
        return trace.call(Call("where", (seen,), shape, trace.numerics.weights))
    return expand(seen, *shape) if layer.masked(new) else None


def _seen(window: Num | None, queries: Num, keys: Num, trace: Interpreter) -> Tensor:
    """Return the boolean mask of keys at or before a query, and in its window (and_masks copies it each time)."""
    seen = trace.new((1, 1, queries, keys), "bool", "mask")
    if window is None:
        return seen
    later = copied(seen, name="mask")
    return copied(later, name="mask")


class Transformers:
    """transformers' code; see :class:`tfcalc.nn.module.Backend`. What few models need is imported when it runs."""

    name, label = "transformers", "Hugging Face code"
    compared: ClassVar[frozenset[str]] = frozenset({SAVED, WITH_COMPILE, WITH_METHODS, WITH_LOSSES, WITH_TP})
    """What was held against this very code (:data:`SAVED` and the rest). A class that derives from it claims anew."""
    fuses_gates = own_attention = False
    eager_attention = True
    """Whether attention may run without a fused kernel, too (``--attention-kernel math``, ``eager``)."""
    needs_cuda = False
    """Whether its kernels run on CUDA alone, as Triton's do."""
    stack = "transformers"
    """Name of the rates that time its steps (``timing/rates.toml``)."""
    casts_logits = False
    """Whether the model itself makes fp32 logits, whatever loss reads them."""
    by_bitsandbytes = True
    """Whether weights in 4 bits (``nf4``) are bitsandbytes'; torchao's otherwise."""
    adapters_as_model = False
    """Whether adapters have the model's format, under autocast, too."""
    experts_by = "grouped_mm"
    """Value of transformers' ``experts_implementation``."""
    loss = "logits"
    scoring: Scoring | None = None
    """Scored tokens, if the loss is one of their log-probabilities."""
    dora_computes_again = True
    """True if DoRA computes a map's result again of what dropout leaves of its input, as peft does."""
    compiled: Transformers | None = None
    """Backend of the layers, if these and the loss are compiled by torch.compile."""

    def __init_subclass__(cls) -> None:
        """Claim nothing for a class that does not say itself what was compared with it."""
        cls.compared = vars(cls).get("compared", frozenset())

    @classmethod
    def runs(cls, model: Model) -> bool:
        """Return whether it runs a model: that of a config.json."""
        return isinstance(model, HFModel)

    @classmethod
    def refuse(cls, model: Model) -> None:
        """Raise InvalidModel for a model that it would run, but that the library does not support."""

    @property
    def layers(self) -> Transformers:
        """Backend that runs the layers of a stack."""
        return self if self.compiled is None else self.compiled

    def workload(self, run: Workload, numerics: Numerics) -> Workload:
        """Return the workload unchanged."""
        return run

    def begin(self, ctx: Context, x: Tensor, attentions: list[Attention], masks: tuple[Num | None, ...]) -> Context:
        """Compute attention masks and rotary angles, once for all layers."""
        windows = dict.fromkeys([*masks, *(mixer.mask for mixer in attentions if mixer.looks_at_mask)])
        readers = {window: [mixer for mixer in attentions if mixer.mask == window] for window in windows}
        by_window = causal_masks(readers, x, ctx)
        if any(mixer.alibi and not mixer.alibi.in_mask for mixer in attentions):
            slopes = (1, attentions[0].heads, 1, ctx.stream.length)
            ctx = ctx._replace(slopes=x.trace.new(slopes, x.trace.weights_format, "slopes"))
        ropes = {elementwise.key(mixer): mixer.rope for mixer in reversed(attentions) if mixer.rope is not None}
        if not ropes:
            return ctx._replace(masks=by_window)
        places = x.trace.call(Call("positions", (), (ctx.stream.length,), "int64", kernels=("arange", "add")))
        angles = {key: elementwise.angles_of(rope, x, ctx) for key, rope in reversed(ropes.items())}
        return ctx._replace(masks=by_window, angles=angles, places=places)

    def norm(self, norm: Norm, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Run a norm by its family's code."""
        return elementwise.normed(norm.form, norm.code, x, weight, bias)

    def activation(self, kind: str, x: Tensor) -> Tensor:
        """Run an activation of ACT2FN."""
        return elementwise.activation(kind, x)

    def gate(self, kind: str, gate: Tensor, up: Tensor) -> Tensor:
        """``activation(gate) · up``."""
        return mul(self.activation(kind, gate), up)

    def rotate(self, q: Tensor, k: Tensor, attention: Attention, ctx: Context) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys (apply_rotary_pos_emb)."""
        assert attention.rope is not None
        return elementwise.apply_rotary(q, k, ctx.angles[elementwise.key(attention)], attention.rope)

    def multi_head(self, attention: Attention, x: Tensor, ctx: Context) -> Tensor:
        """Run attention with a linear map each for queries, keys and values."""
        return attention.by_maps(x, ctx)

    def rotate_alone(self, q: Tensor, attention: Attention, ctx: Context) -> Tensor:
        """Rotate queries alone."""
        assert attention.rope is not None
        return elementwise.rotated(q, ctx.angles[elementwise.key(attention)], attention.rope)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, block: Attention, ctx: Context) -> Tensor:
        """Run the workload's attention kernel."""
        return attention.attended(q, k, v, block, ctx)

    def attend_all(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Run scaled_dot_product_attention without a mask."""
        return attention.attended_all(q, k, v)

    def distances(self, table: RelativeBias, ctx: Context, ids: Tensor) -> Context:
        """Compute T5's relative bias, once for all layers."""
        from tfcalc.backends import relative

        return relative.shared(table, ctx, ids)

    def route(self, router: Router, x: Tensor) -> Routing:
        """Run a router by its family's code."""
        from tfcalc.backends import routers

        return routers.routed(router, x)

    def experts(self, experts: Experts, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """Run experts by the requested ``experts_implementation``, unless the family has its own."""
        from tfcalc.backends.experts import EXPERTS, every, some_idle
        from tfcalc.zoo.blocks.experts import AllExperts
        from tfcalc.zoo.latent import IdleExperts

        if isinstance(experts, AllExperts):
            return every(experts, x, sent, ctx)
        if isinstance(experts, IdleExperts):
            return some_idle(experts, x, sent, ctx)
        return EXPERTS[self.experts_by](experts, x, sent, ctx)

    def networks(self, experts: Networks, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """Run experts that are modules of their own, one after another."""
        from tfcalc.backends.experts import networks

        return networks(experts, x, sent, ctx)

    def scan(self, mixer: Module, ctx: Context, *given: Tensor) -> Tensor:
        """Run a recurrence by its loop in Python."""
        from tfcalc.backends import scans

        return scans.CODE[type(mixer)](mixer, ctx, *given)

    def head_and_loss(self, model: ModelWithHead, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
        """Compute logits and loss at once, or by the loss that was requested."""
        x.trace.step_before()
        if self.scoring is not None:
            return loss_of_scores(self, self.scoring, model, x, ctx)
        if self.loss != "logits":
            from tfcalc.backends.losses import LOSSES

            return LOSSES[self.loss](self, model, x, ids, ctx)
        logits = self.logits(model, x, ctx)
        x.trace.returns("logits", logits)
        loss = cross_entropy(logits, f"{model.output.name}.loss", lambda: self._loss(logits, model, ids))
        x.trace.loss_ends()
        return loss

    def logits(self, model: ModelWithHead, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits in the model's format."""
        return model.logits(x, ctx)

    def _loss(self, logits: Tensor, model: ModelWithHead, ids: Tensor) -> Tensor:
        self.begin_loss(logits.trace)
        if model.cuts:
            logits = contiguous(part(logits, 1, ids.shape[1] - 1))
            ids = logits.trace.new(logits.shape[:-1], "int64", "labels")
        return self.loss_of(logits, self.labels(model, ids), upcasts=model.upcasts)

    def loss_of(self, logits: Tensor, targets: Tensor, *, upcasts: bool = True) -> Tensor:
        """Compute cross_entropy, of a copy in fp32 if the family ``upcasts``."""
        if self.compiled is not None:
            return compiled_cross_entropy(logits, targets)
        return nll_of_softmax(logits.trace.to(logits, "float32") if upcasts else logits, targets)

    def loss_of_shares(self, logits: Tensor) -> Tensor:
        """Compute DTensor's loss over a vocabulary split between GPUs."""
        from tfcalc.ops.collectives import of_logarithms  # only with tensor parallelism

        self.begin_loss(logits.trace)
        return of_logarithms(logits)

    def begin_loss(self, trace: Trace) -> None:
        """Begin the phase of the loss."""
        assert isinstance(trace, Interpreter)
        trace.tape.tracker.begin("loss")

    def labels(self, model: ModelWithHead, ids: Tensor) -> Tensor:
        """Return the labels: the tokens, or the next tokens (padded and shifted; a view if there is one sequence)."""
        if model.cuts or not model.shifted:
            return ids
        tokens = ids.elements
        return ids.trace.new((tokens + 1 if known(ids.shape[0]) == 1 else tokens,), "int64", "labels")
