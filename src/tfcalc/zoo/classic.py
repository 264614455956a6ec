"""The classic Transformer: an encoder, a decoder, or both; by itself it reads vectors, in a model words.

Its attention may know positions in ways that differ in what each layer does with distances, and what layers share:

================  =================================================================================
ALiBi             slopes times distances, added to the scores: no parameters, a buffer of ``a``
T5                ``B·a`` numbers for all layers of a stack, added to the scores
multiplicative    ``(2D + 1)a`` numbers in each layer, times the scores
relative          ``(2D + 1)(d + d_v)`` in each layer: vectors beside those of keys and values
Transformer-XL    ``h·a·d + 2·a·d`` in each layer: a map of the distances' sinusoids, two biases of queries
DeBERTa           ``2D·h`` for all layers of a stack; in each ``2·h·a·d`` and biases: maps to a key and a query
================  =================================================================================

They are counted; no program is known that runs them in this form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num, Pairs
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention, CrossAttention
from tfcalc.nn.basic import Buffer, Embedding, Linear, Norm, Parameter
from tfcalc.nn.embeddings import Positions, Sines
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.layers import PostNorm
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Context, Encoded, Module
from tfcalc.nn.positions import Rope
from tfcalc.nn.stack import Stack
from tfcalc.ops.distances import plus_bias, plus_vector, rows_by_distance, times_factors, with_vectors
from tfcalc.ops.elementwise import add, dropout, residual
from tfcalc.ops.gru import gru
from tfcalc.ops.relative import with_distances
from tfcalc.ops.rows import whole_sum
from tfcalc.ops.work import read_before
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences

if TYPE_CHECKING:
    from tfcalc.core.patterns import Pattern
    from tfcalc.zoo.transformer import Transformer


class Table(Module):
    """A trained row of this ``width`` for each distance, or for each bucket of distances."""

    kind = "position"

    letter: str
    rows: Num
    width: Num

    def own_params(self) -> Cost:
        """The rows."""
        return Cost(weights=(Weight(self.letter, (self.rows, self.width)),))

    def forward(self, x: Tensor, pairs: Pairs) -> Tensor:
        """One for each of the ``pairs`` of a sequence."""
        (table,) = self.weights(x.trace)
        return rows_by_distance(table, pairs.scores)


class Distances(Module):
    """Operation on the attention scores that depends on the distances between queries and keys."""

    kind = "position"

    def forward(self, q: Tensor, attention: Located, ctx: Context) -> Tensor:
        """Apply the distances to the scores of queries ``q``, of b × a × l × d."""
        raise NotImplementedError


class FixedBias(Distances):
    """A slope of each head times the distance (Press et al. 2021, arXiv 2108.12409)."""

    def forward(self, q: Tensor, attention: Located, ctx: Context) -> Tensor:
        """Add the bias to each score."""
        return plus_bias(q, attention.scores(ctx), trained=False)


class TrainedBias(Distances):
    """A number of a table that all layers share (Raffel et al. 2019, arXiv 1910.10683)."""

    def forward(self, q: Tensor, attention: Located, ctx: Context) -> Tensor:
        """Add the bias to each score."""
        return plus_bias(q, attention.scores(ctx), trained=True)


class Factors(Distances):
    """A number for each head and distance (Huang et al. 2020, arXiv 2009.13658, method 2)."""

    table: Table

    def forward(self, q: Tensor, attention: Located, ctx: Context) -> Tensor:
        """Multiply each score by its factor."""
        self.table(q, attention.of_one_sequence(ctx))
        return times_factors(q, attention.scores(ctx))


class Vectors(Distances):
    """A vector for each distance, beside those of keys and of values (Shaw et al. 2018, arXiv 1803.02155)."""

    keys: Table
    values: Table

    def forward(self, q: Tensor, attention: Located, ctx: Context) -> Tensor:
        """Add the products with the vectors of distances.

        Queries are multiplied with those of keys (Q A_Kᵀ), attention weights with those of values (P A_V).
        """
        pairs, alone = attention.pairs(ctx), attention.of_one_sequence(ctx)
        self.keys(q, alone)
        self.values(q, alone)
        made = with_vectors(q, "with_keys", "Q A_Kᵀ", attention.key_dim, pairs, attention.scores(ctx))
        mixed = attention.heads * attention.value_dim * ctx.stream.tokens
        return with_vectors(made, "with_values", "P A_V", attention.value_dim, pairs, mixed)


class Shift(Parameter):
    """A trained vector of each head that is added to its queries."""

    def forward(self, q: Tensor) -> Tensor:
        """Their sum."""
        return plus_vector(q, q.trace.weight(self.tensor))


class MappedSinusoids(Distances):
    """Sinusoids of the distances, through a map of each layer's own (Dai et al. 2019, arXiv 1901.02860).

    The scores of all distances are computed and shifted into place, whatever a mask or a pattern leaves.
    """

    map: Linear
    u: Shift
    v: Shift

    def forward(self, q: Tensor, attention: Located, ctx: Context) -> Tensor:
        """Add the scores of queries with the mapped sinusoids to those with the keys."""
        back_only = attention.causal or ctx.run.decoding
        distances = ctx.stream.seen if back_only else 2 * ctx.stream.length - 1
        rows: Num = 0 if read_before(ctx.stream) else distances
        self.map(q.trace.new((rows, self.map.fan_in), q.dtype, "sinusoids"))
        self.u(q)
        self.v(q)
        return with_distances(q, "scores", distances, attention.pairs(ctx).scores)


class MappedVectors(Distances):
    """Vectors that all layers share, through maps to a key and a query (He et al. 2020, arXiv 2006.03654).

    Queries are compared with the keys of positions, and keys with their queries; keys keep their scores.
    """

    key_map: Linear
    query_map: Linear
    rows: Num

    def forward(self, q: Tensor, attention: Located, ctx: Context) -> Tensor:
        """Add the scores of queries with the positions' keys, and of keys with the positions' queries."""
        rows: Num = 0 if read_before(ctx.stream) else self.rows
        vectors = q.trace.data((rows, self.key_map.fan_in), "positions")
        self.key_map(vectors)
        self.query_map(vectors)
        for name in ("content_to_position", "position_to_content"):
            q = with_distances(q, name, self.rows, attention.pairs(ctx).scores)
        return q


class Located(Attention):
    """Self-attention that is told of distances (``position``), or of which a ``pattern`` leaves only some pairs."""

    pattern: Pattern | None = None
    position: Distances | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The maps, and between them the positions."""
        return (part for part in (*self.inward, self.position, self.output) if part is not None)

    def pairs(self, ctx: Context) -> Pairs:
        """Return the pairs of queries and keys that the pattern leaves."""
        return ctx.run.pairs(ctx.stream, ctx.stream, causal=self.causal, pattern=self.pattern)

    def of_one_sequence(self, ctx: Context) -> Pairs:
        """Return the pairs of one sequence, each of which looks up a row of a table, whatever the batch."""
        return self.pairs(ctx._replace(stream=ctx.stream._replace(batch=1)))

    def scores(self, ctx: Context) -> Num:
        """Return the number of attention scores of all heads."""
        return self.heads * self.pairs(ctx).scores

    def attend(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        """Attend with positions by distance."""
        if self.position is not None:
            self.position(q, self, ctx)
        return super().attend(q, k, v, ctx, name)


class GRU(Module):
    """A gated recurrent unit as wide as what it reads (Neishi and Yoshinaga 2019, doi:10.18653/v1/K19-1031).

    Source: Cho et al. 2014 (arXiv 1406.1078), eq. 5 to 8; torch.nn.GRU, which has a bias for both maps.
    """

    kind = "position"

    width: Num

    def own_params(self) -> Cost:
        """The maps of input and state to two gates and the new state, with a bias each."""
        gates = 3 * self.width
        return Cost(
            weights=(
                Weight("W_x", (self.width, gates), key="weight_ih_l0", turned=True),
                Weight("W_s", (self.width, gates), key="weight_hh_l0", turned=True),
                Weight("b_x", (gates,), minor=True, key="bias_ih_l0"),
                Weight("b_s", (gates,), minor=True, key="bias_hh_l0"),
            )
        )

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the unit's output for ``x``, of b × l × h, one token after another."""
        weights = self.weights(x.trace)
        return gru(x, weights, starts=0 if read_before(ctx.stream) else ctx.stream.batch)


class Layer(PostNorm):
    """Attention, to an encoder's output as well, and a feed-forward network; norms come ``first``, or behind each sum.

    A norm before its sub-layer costs the same as one behind it, so that both are in one place; but the tensor that is
    saved last differs. Operations beside a sub-layer are ``called`` after it.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.1.
    """

    called: tuple[str, ...] = ()
    first: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        for name, sub, norm in zip(self.called, self.sublayers, self.norms, strict=True):
            assert isinstance(norm, Norm)
            x = self._summed(x, name, sub, norm, ctx)
        return x

    def _summed(self, x: Tensor, name: str, sub: Module, norm: Norm, ctx: Context) -> Tensor:
        """``x + dropout(f(norm(x)))``, or ``norm(x + dropout(f(x)))``."""
        made = sub(norm(x, ctx) if self.first else x, ctx)
        made = dropout(made, f"{name}_dropout") if ctx.drops else made
        made = residual(x, made, sub.name, called=f"{name}_residual")
        return made if self.first else norm(made, ctx)


class Side(Module):
    """One of the two stacks, its ``kind`` its name, with what its layers share."""

    shared: Module | None
    layers: Stack
    kind: str = ""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the stack's output for the vectors ``x``."""
        if isinstance(self.shared, Table):
            self.shared(x, self._reads.of_one_sequence(ctx))
        return self.layers(x, ctx)

    @property
    def _reads(self) -> Located:
        first = self.layers.layers[0]
        assert isinstance(first, Layer)
        attention = first.sublayers[0]
        assert isinstance(attention, Located)
        return attention


class Core(Module):
    """The stacks, a norm behind each if they have one; the last reads what the one before it has made."""

    kind = "core"

    sides: tuple[Side, ...]
    norms: tuple[Norm | None, ...]

    @property
    def parts(self) -> Iterator[Module]:
        """Stacks, each with its norm."""
        for side, norm in zip(self.sides, self.norms, strict=True):
            yield side
            if norm is not None:
                yield norm

    def forward(self, x: Tensor, ctx: Context, source: Tensor | None = None) -> Tensor:
        """Return the last stack's output for the target's (or the only stack's) vectors and those of the ``source``."""
        if source is not None:
            memory = self._run(0, source, ctx._replace(stream=ctx.run.source))
            if not x.trace.every_layer:
                x.trace.belongs(memory)  # to no layer of the decoder: one keeps it for all
            ctx = ctx._replace(memory=Encoded(memory, ctx.run.source))
        return self._run(-1, x, ctx)

    def _run(self, place: int, x: Tensor, ctx: Context) -> Tensor:
        x, norm = self.sides[place](x, ctx), self.norms[place]
        return x if norm is None else norm(x, ctx)


class OnData(Core):
    """The stacks by themselves: what they read are vectors of this ``width``, whose gradient somebody may want.

    With norms in front (``normed``) gradients come as far as to the first norm anyway.
    """

    normed: bool = False

    def forward(self, x: Tensor, ctx: Context, source: Tensor | None = None) -> Tensor:
        """Return the output for as many vectors as there are tokens; in training, where it runs, its sum in fp32."""
        source = self._data(x, ctx, ctx.run.source) if len(self.sides) == 2 else None
        made = super().forward(self._data(x, ctx, ctx.stream), ctx, source)
        if not (ctx.run.training and x.trace.emits_kernels):  # what runs needs a loss
            return made
        return whole_sum(x.trace.to(made, "float32"), "float32")

    def _data(self, x: Tensor, ctx: Context, stream: Sequences) -> Tensor:
        layer = self.sides[0].layers.layers[0]
        assert isinstance(layer, Layer)
        shape = (stream.batch, stream.length, next(norm.width for norm in layer.norms if isinstance(norm, Norm)))
        # its first norm is counted as one inside a model
        reached = ctx.run.input_gradient or (self.normed and not x.trace.emits_kernels)
        return x.trace.data(shape, "input") if reached else x.trace.given(shape, x.trace.weights_format, "input")


class Network(ModelWithHead):
    """Words and where they stand, the core, and logits if the model ``writes``.

    A table of words, and one of ``places``, are for both stacks or one for each.
    """

    tables: tuple[Embedding, ...] = ()
    places: tuple[Module, ...] = ()
    writes: bool = True

    @property
    def parts(self) -> Iterator[Module]:
        """Modules from the tables to the head."""
        return iter((*self.tables, *self.places, self.base, *([self.head] if self.writes else [])))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the output for token ids ``x``; those of a source are given beside them."""
        *source, target = self._embedded(x, ctx)
        made = self.base(target, ctx, *source)
        return self.read(made, x, ctx) if self.writes else made

    def _embedded(self, ids: Tensor, ctx: Context) -> list[Tensor]:
        """``dropout(E[ids] + P)`` of each sequence: those of the source, where there is one, and of the target."""
        assert isinstance(self.base, Core)
        sides, source = len(self.base.sides), ctx.run.source
        read, streams = [ids], [ctx.stream]
        if sides == 2:
            read.insert(0, ids.trace.given((source.batch, source.length), "int64", "source ids"))
            streams.insert(0, source)
        made = [table(each) for table, each in zip((self.tables * sides)[:sides], read, strict=True)]
        for side, table in enumerate((self.places * sides)[:sides]):
            where = table(made[side] if isinstance(table, GRU) else read[side], ctx._replace(stream=streams[side]))
            made[side] = add(made[side], where)
        return [dropout(each, "embedding_dropout") for each in made] if ctx.drops else made


NAMES = ("query", "key", "value")


def module(t: Transformer) -> Module:
    """The whole model: its core alone, or with tables before it and an output head behind."""
    sides, norms = tuple(_side(t, stack) for stack in t.stacks), tuple(_final_norm(t, stack) for stack in t.stacks)
    if t.vocab_size is None:
        return OnData("core", sides, norms, t.pre_norm)
    h, words = t.d_model, t.vocab_size
    if t.target_vocab_size is None:
        tables: tuple[Embedding, ...] = (Embedding("embedding", words, h),)
    else:
        words = t.target_vocab_size
        tables = (Embedding("source_embedding", t.vocab_size, h), Embedding("target_embedding", words, h))
    tied = tables[-1].name if t.output_head == "tied" else None
    head = Linear("output", h, words, "vocab", t.output_bias, tied, "output")
    more: dict[str, Any] = {"tables": tables, "places": _places(t), "writes": t.output_head != "none"}
    return Network(t.root, Core("core", sides, norms), head, shifted=False, upcasts=False, **more)


def _places(t: Transformer) -> tuple[Module, ...]:
    """Return the modules of positions added to words outside the layers: one for both stacks, or one for each."""
    match t.positions:
        case "learned":
            return (Positions("position", t.size("max_len"), t.d_model),)
        case "sinusoidal":
            return (Sines("position", t.d_model, t.size("max_len"), buffer=True),)
        case "recurrent":
            names = ("source_position", "target_position") if len(t.stacks) == 2 else ("position",)
            return tuple(GRU(name, t.d_model) for name in names)
    return ()


def _final_norm(t: Transformer, stack: str) -> Norm | None:
    has_one = t.final_norm == "always" or (t.final_norm == "pre-norm" and t.pre_norm)
    return Norm(f"{stack}_norm", t.norm, t.d_model) if has_one else None


def _side(t: Transformer, stack: str) -> Side:
    """The stack of this name, with what its layers share."""
    h, f = t.d_model, t.size("d_ff")
    own = {"position": _position(t), "pattern": t.attention_pattern, "causal": stack == "decoder"}
    sublayers: list[Module] = [_attention(t, "self_attention", Located, rope=_rope(t), **own)]
    if stack == "decoder" and len(t.stacks) == 2:
        sublayers.append(_attention(t, "cross_attention", CrossAttention))
    up, down = Linear("up", h, f, "1", t.ffn_bias), Linear("down", f, h, "2", t.ffn_bias)
    sublayers.append(FeedForward("ffn", up, down, t.activation, True))
    names = ("self", "cross", "ffn") if len(sublayers) == 3 else ("self", "ffn")
    norms = tuple(Norm(f"{name}_norm", t.norm, h) for name in names)
    layer = Layer("layer", tuple(sublayers), norms, True, called=names, first=t.pre_norm)
    return Side(stack, _shared(t), Stack("layer", (layer,), t.size(f"{stack}_layers")), stack)


def _attention(t: Transformer, name: str, of: type[Attention], **own: Any) -> Attention:
    """Projections with the names of the textbook."""
    h, a, g, d, d_v = t.d_model, t.n_heads, t.size("n_kv_heads"), t.size("head_dim"), t.size("value_dim")
    widths = {"Q": a * d, "K": g * d, "V": g * d_v}
    maps = (
        Linear(each, h, widths[letter], letter, t.attention_bias) for each, letter in zip(NAMES, widths, strict=True)
    )
    output = Linear("output", a * d_v, h, "O", t.attention_bias)
    return of(name, a, g, d, d_v, tuple(maps), (), output, dropout=True, **own)


def _rope(t: Transformer) -> Rope | None:
    return Rope(t.size("head_dim")) if t.positions == "rotary" else None


def _position(t: Transformer) -> Distances | None:
    """Return the operation on scores by distance in self-attention, if there is one."""
    h, a, d, bias = t.d_model, t.n_heads, t.size("head_dim"), t.attention_bias
    match t.positions:
        case "alibi":
            return FixedBias("position")
        case "t5":
            return TrainedBias("position")
        case "multiplicative":
            return Factors("position", Table("table", "w", _both_ways(t) + 1, a))
        case "relative":
            keys = Table("keys", "A_K", _both_ways(t) + 1, d)
            return Vectors("position", keys, Table("values", "A_V", _both_ways(t) + 1, t.size("value_dim")))
        case "transformer-xl":
            u, v = (Shift(one, Weight(one, (a, d), minor=True, key="")) for one in "uv")
            return MappedSinusoids("position", Linear("map", h, a * d, "R"), u, v)
        case "deberta":
            key, query = Linear("key_map", h, a * d, "Kr", bias), Linear("query_map", h, a * d, "Qr", bias)
            return MappedVectors("position", key, query, _both_ways(t))
    return None


def _shared(t: Transformer) -> Module | None:
    """Return the module that all layers of a stack share, if there is one."""
    match t.positions:
        case "alibi":
            return Slopes("slopes", Weight("slopes", (t.n_heads,), key=""))
        case "t5":
            return Table("position", "B", t.size("buckets"), t.n_heads)
        case "deberta":
            return DistanceVectors("position", Weight("position", (_both_ways(t), t.d_model), key=""))
    return None


class Slopes(Buffer):
    """Slopes of ALiBi."""

    kind = "position"


class DistanceVectors(Parameter):
    """Vectors of positions, which all layers map."""

    kind = "position"


def _both_ways(t: Transformer) -> Num:
    """Distances before and behind."""
    if t.max_distance is None:
        raise InvalidModel(f"{t.positions} positions without max_distance", "give max_distance")
    return 2 * t.max_distance
