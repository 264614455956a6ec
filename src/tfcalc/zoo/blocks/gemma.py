"""Parts of Gemma 3n and Gemma 4: keys of an earlier layer, per-layer embeddings, experts beside a dense network."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs import tops
from tfcalc.core.component import Cached
from tfcalc.core.number import divide
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Buffer, Embedding, Linear, Norm, Parameter
from tfcalc.nn.layers import Sandwich
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Context, Module, Routing
from tfcalc.ops.attention import rotary_alone
from tfcalc.ops.elementwise import add, mul, residual, scaled
from tfcalc.ops.select import index
from tfcalc.ops.shapes import copied, merge_heads, reshape, select, transpose
from tfcalc.tape.tensor import Tensor

CODE = "gemma"
"""Norms whose weight is the distance from 1."""


CAPPED = tops.CAUSAL_LM | tops.capped_lm()


class SharingAttention(Attention):
    """Attention with norms of each head's queries, keys and values; later layers may read the same keys and values.

    The ``inward`` maps are those of queries, keys and values. Without the last, values are the keys as they are before
    their norm. A layer that has that of queries alone reads what the last one before it has made that ``shares`` by the
    same name.

    Source: Brandon et al. 2024 (arXiv 2405.12981); transformers' Gemma4TextAttention.
    """

    value_norm: Norm | None = None
    shares: str = ""

    @property
    def makes(self) -> bool:
        """Return whether the layer makes keys and values of its own."""
        return len(self.inward) > 1

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for ``x``, of b × l × h."""
        if self.makes:
            return super().forward(x, ctx)
        q = transpose(self.norm_heads(self.inward[0](x), 0, self.heads, ctx), 1, 2)
        if self.rope is not None:
            q = rotary_alone(q, self.rope.width, lambda: ctx.backend.rotate_alone(q, self, ctx))
        return self.output(merge_heads(self.attend(q, *self._read(ctx), ctx), self.heads * self.value_dim))

    def _read(self, ctx: Context) -> tuple[Tensor, Tensor]:
        """The keys and values of an earlier layer; no gradient reaches them out of each checkpoint (reentrant)."""
        k, v = ctx.stored[self.shares]
        if ctx.every_whole != 1:
            return k, v
        return k.trace.new(k.shape, k.dtype, "keys"), v.trace.new(v.shape, v.dtype, "values")

    def project(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Norm each head's queries, keys and values; values may be keys before their norm."""
        q, k, *made = (each(x) for each in self.inward)
        v = reshape(made[0] if made else k, *x.shape[:2], self.kv_heads, self.value_dim)
        q, k = self.norm_heads(q, 0, self.heads, ctx), self.norm_heads(k, 1, self.kv_heads, ctx)
        v = v if self.value_norm is None else self.value_norm(v, ctx)
        return transpose(q, 1, 2), transpose(k, 1, 2), transpose(v, 1, 2)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        """Attend, and store keys and values for the layers that share them."""
        if self.shares and self.makes:
            ctx.stored[self.shares] = k, v
        return super().attend(q, k, v, ctx, name)

    def cached(self, ctx: Context) -> tuple[Cached, ...]:
        """Cache entries: none where another layer's keys are read."""
        return super().cached(ctx) if self.makes else ()


VECTORS = "vectors of each layer"


class LayerVectors(Module):
    """Per-layer embeddings of a token, by a table and a map of its embedding, whose norm is of each layer's part.

    Their sum is multiplied by a number. The vectors are as wide as the norm. A program may first put another word in
    the place of those that are not in the table, in a copy of the ids (``replaces``). Source: transformers'
    Gemma4TextModel.project_per_layer_inputs.
    """

    table: Embedding
    map: Linear
    norm: Norm
    replaces: bool = False

    def forward(self, ids: Tensor, words: Tensor, ctx: Context) -> Tensor:
        """Return the vectors of b × l tokens, of b × l × layers × width."""
        own = self.table(copied(ids, name="where") if self.replaces else ids, ctx)
        made = scaled(self.map(words))
        made = reshape(made, *made.shape[:2], divide(made.width, self.norm.width), self.norm.width)
        made = scaled(add(self.norm(made, ctx), reshape(own, *made.shape)))
        made.trace.belongs(made)  # one for all layers
        return made


class LayerInput(Module):
    """A layer's own vector of the token, gated by the residual stream, mapped to the stream's width."""

    kind = "per_layer_input"

    gate: Linear
    map: Linear
    activation: str

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the gated and mapped vectors, of b × l × h, as ``x`` is."""
        gate = self.gate(x)
        gate = ctx.activation(self.activation, gate)
        return self.map(mul(gate, select(ctx.given[VECTORS], 2)))


class SharingDecoder(Decoder):
    """A decoder whose layers read what others have made: ``vectors`` of their own, keys and values of earlier layers.

    The parts of ``vectors`` are parts of the model itself.
    """

    vectors: LayerVectors | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """Parts of the decoder, followed by those of the vectors."""
        yield from super().parts
        if self.vectors is not None:
            yield from self.vectors.parts

    def sharing(self, ids: Tensor, words: Tensor, ctx: Context) -> Context:
        """Return the context with each layer's vectors, and with a place for shared keys and values."""
        given = {} if self.vectors is None else {VECTORS: self.vectors.forward(ids, words, ctx)}
        return ctx._replace(stored={}, given=given)


class ScaledRouting(Mixture):
    """A mixture whose router reads the stream by a norm without weights, times trained numbers (``scale``).

    Each expert's weights are multiplied by a trained number of its own (``expert_scale``). Its experts read something
    else. Source: transformers' Gemma4TextRouter.
    """

    reads: Norm | None = None
    scale: Parameter | None = None
    expert_scale: Parameter | None = None

    def route(self, x: Tensor, ctx: Context) -> Routing:
        """Return each row's routing: its experts and their weights."""
        assert self.reads is not None
        assert self.scale is not None
        assert self.expert_scale is not None
        with x.trace.inside(self):
            x = scaled(mul(self.reads(x, ctx), self.scale.weight(x.trace)))
            sent = self.router.route(x, ctx)
            if sent.chosen is None:
                return sent
            picked = index(self.expert_scale.weight(x.trace), sent.chosen, sent.chosen.shape)
            return sent._replace(weights=mul(sent.weights, picked))

    def made(self, x: Tensor, sent: Routing, ctx: Context) -> Tensor:
        """Return the experts' output for the rows ``x``."""
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
        """Run the sub-layers one after another."""
        (mixer, network), norms = self.sublayers, [norm for norm in self.norms if norm is not None]
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
        sent = moe.route(rows, ctx)
        routed = reshape(moe.made(before(rows, ctx), sent, ctx), *x.shape)
        return residual(made, last(routed, ctx), moe.name)
