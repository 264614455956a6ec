"""Funnel Transformer: blocks of layers, each on a sequence half as long as the one before, and long again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, lm_head
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.basic import Embedding, Linear, Norm, Parameter, parameter
from tfcalc.nn.embeddings import Embeddings
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.heads import TOKENS
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import EqualLayers, each_turn, turns_to_run
from tfcalc.ops.attention import attend
from tfcalc.ops.einsum import einsum
from tfcalc.ops.elementwise import add, dropout, dropping, mul, residual, scaled
from tfcalc.ops.pooling import MEAN, masked, pooled, waves, where
from tfcalc.ops.products import linear
from tfcalc.ops.relative import relative_scores
from tfcalc.ops.rows import softmax
from tfcalc.ops.shapes import copied, part, reshape, transpose, unsqueeze
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences
from tfcalc.zoo.blocks import encoders
from tfcalc.zoo.blocks.encoders import classes, dense_classes
from tfcalc.zoo.blocks.transformer_xl import HeadMap


class Around(NamedTuple):
    """Inputs of a layer beside the queries: ``keys`` of other tokens (or their own), fixed vectors of distances.

    These are one table, or four: sines and cosines of queries' places, and of keys'. ``segments`` says which tokens
    belong to one, ``apart`` masks the first token, where that is one.
    """

    distances: tuple[Tensor, ...]
    segments: Tensor
    apart: Tensor | None = None
    keys: Tensor | None = None


class DistanceMap(HeadMap):
    """The map of distances to all heads, or of all heads' queries to the stream's width."""

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Map distances, of r × h, to all heads, or queries, of b × i × a × d, to the stream's width."""
        (weight,) = self.weights(x.trace)
        of_queries = len(x.shape) == 4
        if x.trace.emits_kernels:  # one product; a program writes an einsum over heads
            return einsum("binh,dnh->bind" if of_queries else "td,dnh->tnh", x, weight)
        rows = reshape(x, *x.shape[:2], self.fan_out) if of_queries else x
        made = linear(rows, reshape(weight, self.fan_in, self.fan_out), letter=self.letter)
        return reshape(made, *x.shape[:3], self.fan_in) if of_queries else reshape(made, x.shape[0], 1, *self.split)

    @property
    def split(self) -> tuple[Num, Num]:
        """Heads, and the width of each."""
        return self.heads, self.head_dim


class FunnelAttention(Module):
    """``(q + u)·k + (q + v)·r + (q + w)·s``: r is a map of the vector of a distance, s one of two for the segment.

    Queries have no bias, as u, v and w are theirs. ``factorized``: r is a sum of products of sines and cosines of the
    two places, so that queries are mapped to the stream's width and compared with each key's sines and cosines.

    Source: Dai et al. 2020 (Funnel-Transformer, arXiv 2006.03236), appendix A.2; transformers'
    FunnelRelMultiheadAttention.
    """

    kind = "attention"

    heads: Num
    width: Num
    maps: tuple[Linear, Linear, Linear]
    distances: DistanceMap
    biases: tuple[Parameter, Parameter, Parameter]
    segments: Parameter
    output: Linear
    factorized: bool = False
    dropout: bool = False

    def forward(self, x: Tensor, ctx: Context, around: Around) -> Tensor:
        """Return the attention output for the queries ``x``, of b × i × h."""
        source = x if around.keys is None else around.keys
        q, k, v = (
            reshape(each(read), *read.shape[:2], self.heads, self.width)
            for each, read in zip(self.maps, (x, source, source), strict=True)
        )
        # counted by pairs; a program shifts and gathers
        made = self._mixed(q, k, v, ctx, around) if x.trace.emits_kernels else self._counted(q, k, v, ctx, around)
        return self.output(reshape(made, *x.shape[:2], self.heads * self.width))

    def _counted(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, around: Around) -> Tensor:
        keys: Sequences = ctx.stream._replace(length=k.shape[1])
        pairs = ctx.run.pairs(ctx.stream, keys, causal=False)
        if self.factorized:
            waves("relative", self.distances(q), around.distances[-1])
        else:
            relative_scores("relative", q, self.distances(around.distances[0]), pairs.scores)
        relative_scores("segments", q, self.segments.weight(q.trace), pairs.scores)
        q, k, v = (transpose(each, 1, 2) for each in (q, k, v))
        made = attend(q, k, v, pairs, lambda: q)
        if self.dropout and ctx.drops:
            q.trace.count(dropping(made, self.heads * pairs.scores, "attend_dropout"))
        return transpose(made, 1, 2)

    def _mixed(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, around: Around) -> Tensor:
        trace, q = q.trace, scaled(q)
        here, there, same = (scaled(each.weight(trace)) for each in self.biases)
        content = einsum("bind,bjnd->bnij", add(q, here), k)
        place = self._places(q, there, k.shape[1], around)
        of_segment = einsum("bind,snd->bnis", add(q, same), self.segments.weight(trace))
        shape = (*of_segment.shape[:3], k.shape[1])
        segment = where(around.segments, of_segment, shape)
        if around.apart is not None:
            place, segment = masked(place, around.apart), masked(segment, around.apart)
        p = add(add(content, place), segment)
        p = softmax(trace.to(scaled(trace.to(p, "float32"), "sub"), p.dtype))
        p = dropout(p, "attend_dropout") if self.dropout and ctx.drops else p
        return einsum("bnij,bjnd->bind", p, v)

    def _places(self, q: Tensor, bias: Tensor, keys: Num, around: Around) -> Tensor:
        """Return the term of each score for the places of query and key."""
        q = add(q, bias)
        if self.factorized:
            mapped, (sines, cosines, of_sines, of_cosines) = self.distances(q), around.distances
            one = einsum("bind,jd->bnij", mul(mapped, unsqueeze(sines, 1)), of_sines)
            return add(one, einsum("bind,jd->bnij", mul(mapped, unsqueeze(cosines, 1)), of_cosines))
        made = einsum("binh,tnh->bnit", q, self.distances(around.distances[0]))
        b, n, i, t = made.shape
        shift = 1 if around.keys is None else 2
        made = part(reshape(made, b, n, t, i), 2, t - shift)
        return part(reshape(made, b, n, i, t - shift), 3, keys)


class FunnelLayer(Module):
    """``norm(x + f(x))`` of attention, and of the feed-forward network; what they make is ``dropped`` in part."""

    kind = "layer"

    attention: FunnelAttention
    ffn: FeedForward
    norms: tuple[Norm, Norm]
    dropped: bool = False

    def forward(self, x: Tensor, ctx: Context, around: Around) -> Tensor:
        """Return the layer's output for the queries ``x``."""
        before, behind = self.norms
        x = before(residual(x, self._dropped(self.attention(x, ctx, around), ctx, "attention"), "attention"), ctx)
        return behind(residual(x, self._dropped(self.ffn(x, ctx), ctx, "ffn"), "ffn"), ctx)

    def _dropped(self, x: Tensor, ctx: Context, name: str) -> Tensor:
        return dropout(x, f"{name}_dropout") if self.dropped and ctx.drops else x


class LayerTurns(Module):
    """A layer that runs ``times`` times, one upon another, with the same weights; ``further`` turns hold none."""

    kind = "layer"

    layer: FunnelLayer
    times: int
    further: bool = False

    @property
    def parts(self) -> Iterator[Module]:
        """The layer's."""
        return self.layer.parts

    @property
    def copies(self) -> Num:
        """Number of copies that hold weights."""
        return 0 if self.further else 1

    @property
    def active(self) -> Num | None:
        """Number of active copies: one, of another layer, in ``further`` turns; None: all."""
        return 1 if self.further else None

    @property
    def passes(self) -> Num:
        """Number of runs."""
        return self.times

    def forward(self, x: Tensor, ctx: Context, around: Around) -> Tensor:
        """Run turn by turn where kernels run, else one turn for all."""
        for _ in turns_to_run(x.trace, self.times):
            x = again(lambda x: self.layer.forward(x, ctx, around), x, ctx)
        return x


def again(run: Callable[[Tensor], Tensor], x: Tensor, ctx: Context) -> Tensor:
    """Run a layer, which backward recomputes where that is asked for."""
    return x.trace.checkpoint(run, x, early_stop=ctx.run.early_stop) if ctx.run.every else run(x)


class Rows(Module):
    """Stack of ``count`` equal layers, each of which runs ``times`` times."""

    kind = "stack"

    layer: FunnelLayer
    depth: int
    count: Num
    times: int = 1

    def components(self) -> Iterator[Component]:
        """Yield the components of its layers, which belong to the module that has it."""
        for each in LayerTurns(self.name, self.layer, self.times).components():
            yield each._replace(copies=self.count)

    def __call__(self, x: Tensor, *given: object) -> Tensor:
        """Run the layers from the bottom to the top; it is no module of its own."""
        ctx, around = given
        assert isinstance(ctx, Context)
        assert isinstance(around, Around)
        turns, trace = LayerTurns(self.name, self.layer, self.times), x.trace
        whole = EqualLayers(self.name, turns, self.count, self.count)
        groups = [whole]
        if trace.emits_kernels:  # the distances that a layer reads live until all have run
            turns_alone = each_turn(self.depth, "layers that run by themselves")
            groups = [whole._replace(copies=1, mark=f".{place}") for place in turns_alone]
        for group in groups:
            with trace.group(group):
                x = turns.forward(x, ctx, around)
        return x


class ShortBlock(Module):
    """Layers of which the ``first`` may read more than it gives, for once; all run equally often."""

    kind = "block"

    first: FunnelLayer
    again: LayerTurns | None
    others: Rows | None

    def forward(self, x: Tensor, ctx: Context, reading: Around, around: Around) -> Tensor:
        """Return the queries' output; the first layer reads ``reading`` beside them, all others ``around``."""
        x = again(lambda x: self.first(x, ctx, reading), x, ctx)
        if self.again is not None:
            x = self._further(x, ctx, around, self.again)
        return x if self.others is None else self.others(x, ctx, around)

    def _further(self, x: Tensor, ctx: Context, around: Around, turns: LayerTurns) -> Tensor:
        # what is counted goes by the name of the turns, weights by that of the first layer
        if not x.trace.emits_kernels:
            return turns(x, ctx, around)
        with x.trace.inside(self.first):  # whose weights they are
            return turns.forward(x, ctx, around)


class ShortStack(Module):
    """Blocks, each on a sequence half as long as the one before.

    Of the first layer of a block the queries alone may be shortened (``queries_only``), or all. The first token may be
    treated ``apart``, and then the last be left out (``cut``). Distances are ``factorized``, or have a vector each.

    Source: Dai et al. 2020 (arXiv 2006.03236), section 2.2; transformers' FunnelEncoder.
    """

    kind = "encoder"

    blocks: tuple[ShortBlock, ...]
    width: Num
    queries_only: bool
    apart: bool
    cut: bool
    factorized: bool
    pooling: str = MEAN

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the last block's output for all tokens."""
        return self.both(x, ctx)[1]

    def both(self, x: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """Return the outputs of the first block and of the last."""
        stream, around = ctx.stream, self.around(x)
        first = x = self.blocks[0](x, ctx, around, around)
        for block in self.blocks[1:]:
            stream = self.half(stream)
            query = pooled(self._behind_first(x), stream.length, self.pooling)
            reading = self._shorter(around, stream.length, *((0,) if self.queries_only else (0, 1)))
            around = self._shorter(reading, stream.length, 1) if self.queries_only else reading
            reading = reading._replace(keys=x) if self.queries_only else reading
            x = block(query, ctx._replace(stream=stream), reading, around)
        return first, x

    def half(self, stream: Sequences) -> Sequences:
        """Return the sequences with every two tokens as one.

        The first stays apart, if it is treated so; the last may be left out for it.
        """
        longer = stream.length + 1 if self.apart and not self.cut else stream.length
        return stream._replace(length=ceil_div(longer, 2))

    def around(self, x: Tensor) -> Around:
        """Return the inputs, beside the queries, of layers that see all tokens of ``x``."""
        b, l, _ = x.shape
        apart = x.trace.new((l, l), x.trace.weights_format, "mask of the first token") if self.apart else None
        count = 4 if self.factorized else 1
        distances = tuple(self._table(x, l if self.factorized else 2 * l) for _ in range(count))
        return Around(distances, x.trace.new((b, l, l), "bool", "segments"), apart)

    def _table(self, x: Tensor, rows: Num) -> Tensor:
        made = x.trace.new((rows, self.width), x.trace.weights_format, "distances")
        x.trace.belongs(made)  # to no layer, though one keeps it first
        return made

    def _behind_first(self, x: Tensor) -> Tensor:
        """Return the sequence with the first token twice, if that is treated apart."""
        if not self.apart:
            return x
        return copied(x, (x.shape[0], x.shape[1] if self.cut else x.shape[1] + 1, x.width), "cat")

    def _shorter(self, around: Around, length: Num, *axes: int) -> Around:
        """Return the inputs for every second query (0), or key (1)."""
        segments, apart, distances = around.segments, around.apart, around.distances
        for axis in axes:
            segments = self._every_second(segments, axis + 1, length)
            apart = None if apart is None else self._every_second(apart, axis, length)
            if self.factorized:
                of_queries, of_keys = distances[:2], distances[2:]
                halved = tuple(self._every_second(each, 0, length) for each in (of_keys if axis else of_queries))
                distances = (*of_queries, *halved) if axis else (*halved, *of_keys)
        if not self.factorized:
            _, i, j = segments.shape
            distances = (self._table(segments, 2 * i + j if axes == (0,) else 2 * j),)
        return Around(distances, segments, apart)

    def _every_second(self, x: Tensor, axis: int, length: Num) -> Tensor:
        """Return a view of every second element; if the first is treated apart, of a copy that has it twice."""
        shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
        if self.apart:
            x = x.trace.new((*x.shape[:axis], x.shape[axis] + 1, *x.shape[axis + 1 :]), x.dtype, x.storage.label)
            x.trace.belongs(x)
        return x.trace.view(x, shape, None)


class LongAgain(Module):
    """Layers on the long sequence: what the blocks made, repeated, and what the first of them gave."""

    kind = "decoder"

    layers: Rows | None

    def forward(self, x: Tensor, ctx: Context, first: Tensor, around: ShortStack) -> Tensor:
        """Return the long sequence's output for the last block's output ``x``."""
        long = copied(x, first.shape, "repeat_interleave")
        long = copied(long, name="cat") if around.apart else long
        x = add(long, first)
        return x if self.layers is None else self.layers(x, ctx, around.around(x))


class Funnel(Module):
    """Embeddings, a stack that shortens, and perhaps one that makes the sequence long again."""

    kind = "encoder"

    table: Embeddings
    encoder: ShortStack
    decoder: LongAgain | None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the model's output for token ids ``x``."""
        x = self.table(x, ctx)
        if self.decoder is None:
            return self.encoder(x, ctx)
        with x.trace.inside(self.encoder):
            first, x = self.encoder.both(x, ctx)
        return self.decoder(x, ctx, first, self.encoder)


CLASSIFIER = ("classifier.linear_hidden", "classifier.linear_out")
DISCRIMINATOR = ("discriminator_predictions.dense", "discriminator_predictions.dense_prediction")
DROPPED = "hidden_dropout"
HEADS: dict[str, Top] = {
    "Model": bare,
    "BaseModel": bare,
    "ForMaskedLM": lm_head(bias=True, shifted=False, upcasts=False),
    "ForPreTraining": dense_classes(DISCRIMINATOR, 1, reads=TOKENS, dropped="", act=""),
    "ForSequenceClassification": dense_classes(CLASSIFIER, dropped=DROPPED, undropped=CLASSIFIER[:1]),
    "ForMultipleChoice": dense_classes(CLASSIFIER, 1, dropped=DROPPED, undropped=CLASSIFIER[:1]),
    "ForTokenClassification": classes("classifier", dropped=DROPPED),
    "ForQuestionAnswering": classes("qa_outputs", dropped=""),
}
SHORT = ("BaseModel", "ForSequenceClassification", "ForMultipleChoice")
"""The classes that need no vector for each token, and so have no decoder."""


@family("funnel", heads=HEADS)
def funnel(c: Config) -> Module:
    """Dai et al. 2020 (arXiv 2006.03236): no tables of positions; a decoder makes the sequence long again."""
    h, words = c.size("hidden_size"), Embedding("word_embeddings", c.size("vocab_size"), c.size("hidden_size"))
    table = Embeddings("embeddings", (words,), encoders.norm(c, "layer_norm"), bool(c.get(DROPPED)))
    flags = (c.flag("pool_q_only"), c.flag("separate_cls"), c.flag("truncate_seq"))
    pooling = c.word("pooling_type", ("mean", "max", "min"))
    encoder = ShortStack("encoder", tuple(blocks(c)), h, *flags, _factorized(c), pooling)
    return Funnel("funnel", table, encoder, None if c.head in SHORT else LongAgain("decoder", _long(c)))


def _factorized(c: Config) -> bool:
    return c.word("attention_type", ("relative_shift", "factorized")) == "factorized"


def _long(c: Config) -> Rows | None:
    """The decoder's layers."""
    depth = c.number("num_decoder_layers", least=0)
    return Rows("layers", layer("layers", c), depth, c.size("num_decoder_layers", least=0)) if depth else None


def blocks(c: Config) -> Iterator[ShortBlock]:
    """Blocks of ``block_sizes`` layers, each run ``block_repeats`` times; the very first run shortens the sequence."""
    sizes = c.numbers("block_sizes", least=1, some=True)
    repeats = c.numbers("block_repeats", len(sizes), least=1) if c.has("block_repeats") else [1] * len(sizes)
    for place, (size, times) in enumerate(zip(sizes, repeats, strict=True)):
        first = layer("(first)", c)
        again = LayerTurns("(again)", first, times - 1, further=True) if times > 1 else None
        others = Rows("(others)", layer("(others)", c), size - 1, size - 1, times) if size > 1 else None
        yield ShortBlock(f"blocks[{place}]", first, again, others)


def layer(name: str, c: Config) -> FunnelLayer:
    """Attention within a sequence, or to a longer one, and a feed-forward network."""
    h, a, d, f = c.size("hidden_size"), c.size("num_attention_heads"), c.size("d_head"), c.size("d_inner")
    q, k, v = (Linear(f"{one}_head", h, a * d, one.upper(), one != "q") for one in "qkv")
    u, w, s = (parameter(f"r_{letter}_bias", a, d, minor=True) for letter in "wrs")
    mixer = FunnelAttention(
        "attention",
        a,
        d,
        (q, k, v),
        DistanceMap("r_kernel", h, a * d, "R", heads=a, head_dim=d),
        (u, w, s),
        parameter("seg_embed", 2, a, d),
        Linear("post_proj", a * d, h, "O", True),
        _factorized(c),
        bool(c.get("attention_dropout")),
    )
    up, down = Linear("linear_1", h, f, "1", True), Linear("linear_2", f, h, "2", True)
    ffn = FeedForward("ffn", up, down, c.word("hidden_act"), dropout=bool(c.get("activation_dropout")))
    norms = encoders.norm(c, "attention.layer_norm"), encoders.norm(c, "ffn.layer_norm")
    return FunnelLayer(name, mixer, ffn, norms, bool(c.get(DROPPED)))
