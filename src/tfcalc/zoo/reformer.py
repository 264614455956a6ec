"""Reformer: attention in chunks, positions as sums of axes, layers whose inputs can be computed back."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, labels
from tfcalc.core.component import Weight
from tfcalc.core.number import Num, Pairs, beyond
from tfcalc.errors import InvalidModel
from tfcalc.nn.basic import Embedding, Linear, Norm, Parameter
from tfcalc.nn.embeddings import Embeddings, Positions
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.heads import FIRST, Classifier
from tfcalc.nn.model import ModelWithHead, Predictions
from tfcalc.nn.module import Context, Module
from tfcalc.ops.attention import attend
from tfcalc.ops.elementwise import dropout, residual
from tfcalc.ops.hashing import hashes
from tfcalc.ops.shapes import cat, expand, merge_heads, reshape, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import encoders
from tfcalc.zoo.blocks.encoders import MASKED
from tfcalc.zoo.blocks.layers import network, one_module_per_kind, stack


class NeighbourAttention(Module):
    """Attention of each query to the keys of ``around`` chunks: its own and its neighbours'.

    Of two maps (``inward``) the first makes queries that are keys, too; then the chunks are made by hashing them,
    ``rounds`` times over, not by cutting: by products with ``rotation`` vectors for each head, without a gradient.
    Chunks are full: what a mask hides is computed all the same. All pairs are compared in a sequence that is no longer
    than a ``chunk``.

    Source: Kitaev et al. 2020 (Reformer, arXiv 2001.04451), section 2; transformers' LSHSelfAttention.
    """

    kind = "attention"

    heads: Num
    width: Num
    chunk: int
    around: int
    inward: tuple[Linear, ...]
    output: Linear
    rounds: Num = 1
    rotation: int = 0

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for ``x``, of b × l × h."""
        made = [transpose(reshape(each(x), *x.shape[:2], self.heads, self.width), 1, 2) for each in self.inward]
        q, k, v = made[0], made[-2], made[-1]
        stream, chunked = ctx.stream, beyond(ctx.stream.length, self.chunk)
        if self.rotation:
            hashes("hash", q, self.rounds, self.rotation, chunked)
        seen = stream.length + chunked * (self.rounds * self.around * self.chunk - stream.length)
        pairs = Pairs((2, stream.tokens, seen), stream.tokens * seen, ctx.run.fused)
        return self.output(merge_heads(attend(q, k, v, pairs, lambda: q), self.heads * self.width))


class ReversibleLayer(Module):
    """``y = y + f(norm(x))``, and then ``x = x + g(norm(y))``: the first stream is added to, then the other.

    Source: Gomez et al. 2017 (RevNets, arXiv 1707.04585), eq. 6.
    """

    kind = "layer"

    mixer: Module
    network: Module
    norms: tuple[Norm, Norm]
    dropped: bool = False

    def both(self, x: Tensor, other: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """Run the layer on both streams, the one that attention reads first; return them in the same order."""
        before, behind = self.norms
        other = residual(other, self._dropped(self.mixer(before(x, ctx), ctx), ctx, "attention"), "attention")
        made = self._dropped(self.network(behind(other, ctx), ctx), ctx, "feed_forward")
        return residual(x, made, "feed_forward"), other

    def _dropped(self, x: Tensor, ctx: Context, name: str) -> Tensor:
        return dropout(x, f"{name}_dropout") if self.dropped and ctx.drops else x


class ReversibleLayers(Layers):
    """Reversible layers, and a norm of both streams side by side. Both begin as the embedding."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return both streams side by side, with their norm, for the embedding."""
        trace, other = x.trace, x
        if trace.emits_kernels:  # layers that are computed back keep nothing, which no kernels here know
            raise InvalidModel("training memory of reversible layers is not supported", "ask for parameters or FLOPs")
        for group in self.layers.groups:
            layer = group.layer
            assert isinstance(layer, ReversibleLayer)
            with trace.group(group), trace.again():
                x, other = layer.both(x, other, ctx)
        both = cat([other, x])
        return both if self.norm is None else self.norm(both, ctx)


class Axes(Module):
    """A vector for each coordinate of a token's place, each of which is a piece of the whole (``axes``).

    Source: transformers' AxialPositionEmbeddings (Reformer).
    """

    kind = "position"

    axes: tuple[Positions, ...]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the vectors for the places of these tokens."""
        pieces = [each(x, ctx) for each in self.axes]
        return cat([expand(each, *x.shape, each.width) for each in pieces])


PROJECTIONS = {"local": ("query", "key", "value"), "lsh": ("query_key", "value")}


def logits(c: Config, base: Module, **loss: bool) -> Module:
    """Logits of both streams together, never tied."""
    wide, vocabulary = 2 * c.size("hidden_size"), c.size("vocab_size")
    bias = Parameter("bias", Weight("lm_head.bias", (vocabulary,), minor=True, key=""))
    head = Predictions("lm_head", None, None, tops.logits("decoder", wide, vocabulary), bias)
    return ModelWithHead("", base, head, **loss)


def masked(c: Config, base: Module) -> Module:
    """Logits of the tokens themselves."""
    return logits(c, base, **MASKED)


def of_sequences(c: Config, base: Module) -> Module:
    """Classes, by a map of the first token's vector."""
    h = c.size("hidden_size")
    maps = Linear("classifier.dense", 2 * h, h, "", True), Linear("classifier.out_proj", h, labels(c), "", True)
    return Classifier("", base, None, maps, FIRST, dropped=encoders.drops(c))


def of_answers(c: Config, base: Module) -> Module:
    """Logits of where an answer starts and ends."""
    return Classifier("", base, None, (Linear("qa_outputs", 2 * c.size("hidden_size"), labels(c), "", True),))


HEADS: dict[str, Top] = {
    "Model": bare,
    "ForMaskedLM": masked,
    "ModelWithLMHead": logits,
    "ForSequenceClassification": of_sequences,
    "ForQuestionAnswering": of_answers,
}


def kinds(c: Config) -> list[str]:
    """Attention of each layer; more layers than are named only where all are alike."""
    named = c.get("attn_layers")
    given = c.words("attn_layers", len(named) if isinstance(named, list | tuple) else 0, tuple(PROJECTIONS))
    count = c.number("num_hidden_layers") if c.has("num_hidden_layers") else len(given)
    if len(set(given)) == 1:
        return given[:1] * count
    if not 0 < count <= len(given):
        raise InvalidModel(f"{c.path('attn_layers')} has {len(given)} entries, not {count}", "name one for each layer")
    return given[:count]


def mixer(kind: str, c: Config) -> NeighbourAttention:
    """Attention to chunks of neighbours, or of tokens that hash alike."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.size("attention_head_size")
    around = 1 + c.number(f"{kind}_num_chunks_before", least=0) + c.number(f"{kind}_num_chunks_after", least=0)
    names = (f"self_attention.{name}" for name in PROJECTIONS[kind])
    return NeighbourAttention(
        "attention",
        a,
        d,
        c.number(f"{kind}_attn_chunk_length"),
        around,
        tuple(Linear(name, h, a * d, name) for name in names),
        Linear("output.dense", a * d, h, "O"),
        rounds=c.size("num_hashes") if kind == "lsh" else 1,
        rotation=rotation(c) if kind == "lsh" else 0,
    )


def rotation(c: Config) -> int:
    """Number of vectors a hash compares with: half of ``num_buckets``, or of both factors' sum; 0 if left open."""
    given = c.get("num_buckets")
    factors = (
        c.numbers("num_buckets", least=2) if isinstance(given, list) else [c.number("num_buckets") if given else 0]
    )
    return sum(factors) // 2


def layer(kind: str, c: Config) -> ReversibleLayer:
    """Norm and attention, norm and feed-forward network, each added to the other of two streams."""
    h, f, names = c.size("hidden_size"), c.size("feed_forward_size"), ("dense.dense", "output.dense")
    norms = encoders.norm(c, "attention.layer_norm"), encoders.norm(c, "feed_forward.layer_norm")
    ffn = network("feed_forward", names, h, f, c.word("hidden_act"))
    return ReversibleLayer("layers", mixer(kind, c), ffn, norms, encoders.drops(c))


def positions(c: Config) -> Module:
    """A vector for each position; or, for each of its coordinates, a vector that is a piece of it."""
    h = c.size("hidden_size")
    if not c.flag("axial_pos_embds"):
        return Positions("position_embeddings.embedding", c.size("max_position_embeddings"), h)
    shape = c.numbers("axial_pos_shape", least=1)
    widths = c.numbers("axial_pos_embds_dim", len(shape), least=1)
    if sum(widths) != c.number("hidden_size"):
        raise InvalidModel(f"{c.path('axial_pos_embds_dim')} {widths} does not add up to hidden_size", "make it")
    pieces = enumerate(zip(shape, widths, strict=True))
    return Axes("position_embeddings", tuple(Positions(f"weights.{axis}", *each) for axis, each in pieces))


@family("reformer", architecture="ReformerForMaskedLM", heads=HEADS)
def reformer(c: Config) -> Module:
    """Kitaev et al. 2020 (arXiv 2001.04451): two streams, which the last norm and the head read side by side."""
    h, each = c.size("hidden_size"), kinds(c)
    layers = stack(c, one_module_per_kind(lambda kind: layer(kind, c), each), count=len(each))
    words = Embedding("word_embeddings", c.size("vocab_size"), h)
    return Encoder(
        "reformer",
        Embeddings("embeddings", (words, positions(c)), None, encoders.drops(c)),
        (),
        ReversibleLayers("encoder", (), layers, encoders.norm(c, "layer_norm", 2 * h)),
    )
