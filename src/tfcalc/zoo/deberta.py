"""DeBERTa: attention that compares content with content, content with position, and position with content."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, labels
from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num, divide, minimum
from tfcalc.errors import InvalidModel
from tfcalc.nn.basic import Embedding, Linear, Norm, Parameter, parameter
from tfcalc.nn.embeddings import TOKENS, Embeddings
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.heads import FIRST, Classifier
from tfcalc.nn.model import ModelWithHead, Predictions
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.attention import attend
from tfcalc.ops.convolution import time_convolution
from tfcalc.ops.elementwise import add, divided, dropout, dropping, filled, mul
from tfcalc.ops.products import matmul
from tfcalc.ops.relative import relative_scores
from tfcalc.ops.rows import softmax
from tfcalc.ops.select import gathered
from tfcalc.ops.shapes import contiguous, copied, expand, merge_heads, part, permute, reshape, split, transpose
from tfcalc.printable import quoted
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import encoders
from tfcalc.zoo.blocks.encoders import MASKED, TASKS, predicted

C2P, P2C = "c2p", "p2c"


class Disentangled(Module):
    """``q·k + q·P_k + P_q·k``: P_k (``c2p``) and P_q (``p2c``) are maps of the vectors of distances.

    One map of ``inward`` makes queries, keys and values; then queries and values have ``biases`` of their own; or three
    do. ``positions`` are the maps to P_k and P_q by what they are for, which may be those of keys and queries.
    ``talking`` heads are mixed before and after the softmax. Tokens are told to be no further apart than ``far``. The
    vectors are dropped in part in each layer (``drops_vectors``).

    Source: He et al. 2020 (DeBERTa, arXiv 2006.03654), section 3.1; transformers' DisentangledSelfAttention.
    """

    kind = "attention"

    heads: Num
    head_dim: Num
    inward: tuple[Linear, ...]
    biases: tuple[Parameter, ...]
    positions: tuple[tuple[str, Linear], ...]
    talking: tuple[Linear, ...]
    output: Linear
    far: Num | None = None
    dropout: bool = False
    drops_vectors: bool = False

    @property
    def parts(self) -> Iterator[Module]:
        """Maps of words, of distances, and of heads."""
        own = [each for _, each in self.positions if each not in self.inward]
        return iter((*self.inward, *self.biases, *own, *self.talking, self.output))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for the tokens of ``x``."""
        q, k, v = self.project(x)
        vectors = dict(self._vectors(ctx))
        pairs = ctx.run.pairs(ctx.stream, ctx.stream, causal=False)
        for kind, each in vectors.items():
            relative_scores(kind, transpose(q, 1, 2), transpose(each, 0, 2), pairs.scores)
        if not x.trace.emits_kernels:  # maps of the scores of all heads, which a program runs inside its attention
            for mixing in self.talking:
                mixing(x.trace.data((q.shape[0], q.shape[2], q.shape[2], self.heads), "scores"))
        made = attend(q, k, v, pairs, lambda: self._mixed(q, k, v, vectors, ctx))
        if self.dropout and ctx.drops:
            x.trace.count(dropping(made, self.heads * pairs.scores, "attend_dropout"))
        return self.output(merge_heads(made, self.heads * self.head_dim))

    @property
    def _fused(self) -> bool:
        return len(self.inward) == 1

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, of b × a × l × d."""
        (b, l, _), a, d = x.shape, self.heads, self.head_dim
        if not self._fused:
            q, k, v = (contiguous(transpose(reshape(each(x), b, l, a, d), 1, 2)) for each in self.inward)
            return q, k, v
        q, k, v = split(transpose(reshape(self.inward[0](x), b, l, a, 3 * d), 1, 2), [d] * 3)
        of_q, of_v = (reshape(each.weight(x.trace), 1, a, 1, d) for each in self.biases)
        return add(q, of_q), k, add(v, of_v)

    def _vectors(self, ctx: Context) -> Iterator[tuple[str, Tensor]]:
        """Yield the vectors of distances, of 1 × a × r × d, by what they are compared with."""
        given = ctx.places
        if given is None or not self.positions:
            return
        if self.drops_vectors and ctx.drops:
            # dropout of vectors of distances, which all layers read, is not counted
            given = dropout(given, "vectors_dropout") if given.trace.emits_kernels else given
        if self.far is not None:
            given = part(given, 0, 2 * minimum(ctx.stream.length, self.far))
        for kind, each in self.positions:
            made = each(given)
            yield kind, transpose(reshape(made, 1, made.shape[0], self.heads, self.head_dim), 1, 2)

    def _mixed(self, q: Tensor, k: Tensor, v: Tensor, vectors: dict[str, Tensor], ctx: Context) -> Tensor:
        """Scores of three kinds; what is padding is put to the smallest number."""
        if self._fused:
            q = divided(q)
            p = matmul(q, transpose(k, 2, 3))
        else:
            p = matmul(q, transpose(divided(k), 2, 3))
        for kind, each in vectors.items():
            p = add(p, self._by_distance(k if kind == P2C else q, each, kind))
        p = self._talked(p, 0)
        p = filled(p, p.trace.new((p.shape[0], 1, *p.shape[2:]), "bool", "padding"))
        p = softmax(p)
        p = dropout(p, "attend_dropout") if self.dropout and ctx.drops else p
        return matmul(self._talked(p, 1), v)

    def _by_distance(self, content: Tensor, vectors: Tensor, kind: str) -> Tensor:
        """Return the scores of each token and each distance, gathered for the token's pairs: their indices are saved.

        torch.matmul copies the vectors for each sequence, if there are several; or the code does.
        """
        b, length = content.shape[0], content.shape[2]
        if self._fused:
            vectors = divided(vectors, in_place=True) if kind == P2C else vectors
            vectors = expand(vectors, b, *vectors.shape[1:])
        else:
            vectors = copied(contiguous(vectors), (b, *vectors.shape[1:]), "repeat")
        made = gathered(matmul(content, transpose(vectors, 2, 3)), length, (length, length))
        return made if self._fused else divided(made)

    def _talked(self, p: Tensor, place: int) -> Tensor:
        """Mix all heads' numbers of a pair by a map, which reads them as a copy, where heads talk to each other."""
        if not self.talking:
            return p
        return permute(self.talking[place](permute(p, (0, 2, 3, 1))), (0, 3, 1, 2))


class MaskedEmbeddings(Embeddings):
    """Vectors that a map may widen, and that are multiplied by 0 behind their norm where there is padding."""

    widened: Linear | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The norm last."""
        parts = (*self.tables, self.widened, self.norm)
        return (each for each in parts if each is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the embeddings of token ids ``x``."""
        made = self.sum_embeddings(x, ctx)
        made = made if self.widened is None else self.widened(made)
        assert self.norm is not None
        made = self.norm(made, ctx)
        made = mul(made, x.trace.new((*x.shape, 1), x.trace.weights_format, "padding"))
        return dropout(made, "embedding_dropout") if self.dropped and ctx.drops else made


class TokenConvolution(Module):
    """Convolution over time in ``groups`` groups, as long as its input."""

    kind = "convolution"

    width: Num
    kernel: Num
    groups: Num = 1

    def own_params(self) -> Cost:
        """W and b."""
        weight = Weight("w", (self.width, divide(self.width, self.groups), self.kernel))
        return Cost(weights=(weight, Weight("b", (self.width,), minor=True, key="bias")))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Return the convolution of ``x``, of b × l × h."""
        weight, bias = self.weights(x.trace)
        return time_convolution(x, weight, bias, self.groups)


class ByDistance(Layers):
    """Layers that share the vectors of distances (``vectors``), or what a norm makes of them.

    A convolution of what the first layer reads may be added to what it made, and normed. That it runs here behind the
    last layer does not change what it costs and keeps.
    """

    vectors: Embedding | None = None
    vectors_norm: Norm | None = None
    convolution: TokenConvolution | None = None
    convolution_norm: Norm | None = None
    activation: str = ""
    dropped: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the layers' output for the embedding ``x``."""
        trace = x.trace
        if self.vectors is not None:
            with trace.inside(self.vectors):
                (given,) = self.vectors.weights(trace)
            given = given if self.vectors_norm is None else self.vectors_norm(given, ctx)
            ctx = ctx._replace(places=given)
        made = super().forward(x, ctx)
        return made if self.convolution is None else self._convolved(self.convolution, x, made, ctx)

    def _convolved(self, convolution: TokenConvolution, x: Tensor, made: Tensor, ctx: Context) -> Tensor:
        trace, beside = x.trace, convolution(x)
        assert self.convolution_norm is not None
        beside = filled(beside, trace.new((*x.shape[:-1], 1), "bool", "padding"))
        beside = dropout(beside, "convolution_dropout") if self.dropped and ctx.drops else beside
        kind, read = self.activation, beside
        beside = ctx.activation(kind, read, "conv.activation")
        made = self.convolution_norm(add(made, beside), ctx)
        shape, form = (*x.shape[:-1], 1), trace.weights_format
        # the same numbers as behind the embedding, if they have its format
        return mul(made, (trace.given if form == "float32" else trace.new)(shape, form, "padding"))


KINDS = (C2P, P2C)
CODE = "deviations twice"


def width_of_words(c: Config) -> Num:
    """``embedding_size``, where a config has one."""
    return c.size("hidden_size" if c.get("embedding_size") is None else "embedding_size")


def of_first_token(count: int | None = None) -> Top:
    """Classes of a map of the first token's vector, beside the base model."""

    def top(c: Config, base: Module) -> Module:
        h = c.size("hidden_size")
        width = h if c.get("pooler_hidden_size") is None else c.size("pooler_hidden_size")
        maps = Linear("pooler.dense", width, width, "", True), Linear("classifier", h, count or labels(c), "", True)
        drops, undropped = encoders.drops(c), ("pooler.dense",)
        return Classifier("", base, None, maps, FIRST, c.word("pooler_hidden_act"), drops, undropped)

    return top


def masked_words(c: Config, base: Module) -> Module:
    """Predictions as in BERT (``legacy``), or always by the words' own vectors."""
    if c.flag("legacy"):
        return ModelWithHead("", base, predicted("cls.predictions", c, width_of_words(c)), **MASKED)
    h, vocabulary = c.size("hidden_size"), c.size("vocab_size")
    tied = Linear("decoder", h, vocabulary, "vocab", False, "embedding", "output")
    dense, bias = Linear("dense", h, h, "", True), parameter("bias", vocabulary, minor=True)
    norm, name = encoders.norm(c, "LayerNorm"), "lm_predictions.lm_head"
    return ModelWithHead("", base, Predictions(name, dense, norm, tied, bias, c.word("hidden_act")), **MASKED)


TOPS: dict[str, Top] = {
    **TASKS,
    "ForMaskedLM": masked_words,
    "ForSequenceClassification": of_first_token(),
    "ForMultipleChoice": of_first_token(1),
}


def words(c: Config, code: str = "") -> MaskedEmbeddings:
    """Words, positions and token types where there are any, and a map to the hidden size where they are narrower."""
    e, h = width_of_words(c), c.size("hidden_size")
    narrow = c.get("embedding_size") is not None and c.number("embedding_size") != c.number("hidden_size")
    tables = (
        Embedding("word_embeddings", c.size("vocab_size"), e),
        *([encoders.positions(c, width=e)] if c.flag("position_biased_input") else []),
        *([encoders.token_types(c, width=e, indices=TOKENS)] if c.number("type_vocab_size", least=0) else []),
    )
    widened = Linear("embed_proj", e, h) if narrow else None
    return MaskedEmbeddings(
        "embeddings", tables, encoders.norm(c, "LayerNorm").replace(code=code), encoders.drops(c), widened=widened
    )


def kinds(c: Config) -> tuple[str, ...]:
    """``pos_att_type``: ``"c2p|p2c"`` or a list; none where attention is not relative."""
    given = c.get("pos_att_type") or []
    listed = [word.strip() for word in given.lower().split("|")] if isinstance(given, str) else given
    if not isinstance(listed, list):
        raise InvalidModel(f"{c.path('pos_att_type')} {quoted(given)} is not a list", 'write ["c2p", "p2c"]')
    return tuple(kind for kind in KINDS if kind in listed) if c.flag("relative_attention") else ()


def reach(c: Config, *fields: str) -> Num:
    """Return the largest distance that is distinguished, each way: the first of these fields that is positive."""
    for field in fields:
        if c.number(field, least=-1) > 0:
            return c.size(field)
    return c.size("max_position_embeddings")


def mixer(c: Config, d: Num, maps: tuple[Linear, ...], positions: dict[str, Linear], **more: Any) -> Disentangled:
    """Attention by content and by distances, of heads of width ``d``."""
    h, a = c.size("hidden_size"), c.size("num_attention_heads")
    asked = tuple((kind, positions[kind]) for kind in kinds(c))
    drops: dict[str, Any] = {"dropout": bool(c.get("attention_probs_dropout_prob")), "drops_vectors": encoders.drops(c)}
    own: dict[str, Any] = {"biases": (), "talking": ()} | drops | more
    return Disentangled("attention", a, d, maps, positions=asked, output=Linear("output.dense", h, h, "O", True), **own)


def distances(c: Config, rows: Num) -> Embedding | None:
    """A vector for each distance, if attention is relative."""
    return Embedding("rel_embeddings", rows, c.size("hidden_size")) if c.flag("relative_attention") else None


@family("deberta", architecture="DebertaModel", heads=TOPS)
def deberta(c: Config) -> Module:
    """He et al. 2020 (arXiv 2006.03654): no pooler in the base model, positions relative, no further than there are."""
    far = reach(c, "max_relative_positions")
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    inner = a * d
    maps = (Linear("self.in_proj", h, 3 * inner, "QKV"),)
    positions = {C2P: Linear("self.pos_proj", h, inner), P2C: Linear("self.pos_q_proj", h, inner, "", True)}
    biases = tuple(parameter(f"self.{letter}_bias", inner, minor=True) for letter in "qv")
    talks = ("logits", "weights") if c.flag("talking_head") else ()
    talking = tuple(Linear(f"self.head_{place}_proj", a, a) for place in talks)
    mixed = mixer(c, d, maps, positions, biases=biases, talking=talking, far=far)
    layers = encoders.stack(c, mixed)
    normed = layers.layers[0].replace(
        norms=tuple(encoders.norm(c, name).replace(code=CODE) for name in encoders.POST_NORM[::2])
    )
    stack = Stack(layers.name, (normed,) * len(layers.layers), layers.count)
    return Encoder("deberta", words(c, CODE), (), ByDistance("encoder", (), stack, vectors=distances(c, 2 * far)))


@family(
    "deberta-v2",
    architecture="DebertaV2Model",
    heads=TOPS,
    # read by getattr in the model's code:
    position_buckets=-1,
    norm_rel_ebd="none",
    conv_kernel_size=0,
    conv_groups=1,
    conv_act="tanh",
)
def deberta_v2(c: Config) -> Module:
    """He et al. 2021 (arXiv 2111.09543): distances in buckets, a norm of their vectors, a convolution."""
    h, rows = c.size("hidden_size"), 2 * reach(c, "position_buckets", "max_relative_positions")
    given, convolves = c.optional("attention_head_size"), c.number("conv_kernel_size", least=-1) > 0
    d = c.quotient("hidden_size", "num_attention_heads") if given is None else given
    inner, parts = c.size("num_attention_heads") * d, ("query", "key", "value")
    q, k, v = (Linear(f"self.{part}_proj", h, inner, part[0].upper(), True) for part in parts)
    own = {C2P: Linear("self.pos_key_proj", h, inner, "", True), P2C: Linear("self.pos_query_proj", h, inner, "", True)}
    mixed = mixer(c, d, (q, k, v), {C2P: k, P2C: q} if c.flag("share_att_key") else own)
    normed = "layer_norm" in [word.strip() for word in c.word("norm_rel_ebd").lower().split("|")]
    layers = ByDistance(
        "encoder",
        (),
        encoders.stack(c, mixed),
        vectors=distances(c, rows),
        vectors_norm=encoders.norm(c, "LayerNorm") if normed else None,
        convolution=convolution(c) if convolves else None,
        convolution_norm=encoders.norm(c, "conv.LayerNorm") if convolves else None,
        activation=c.word("conv_act"),
        dropped=encoders.drops(c),
    )
    return Encoder("deberta", words(c), (), layers)


def convolution(c: Config) -> TokenConvolution:
    """One beside the first layer."""
    c.quotient("hidden_size", "conv_groups")  # groups of channels must be of one size
    return TokenConvolution("conv.conv", c.size("hidden_size"), c.size("conv_kernel_size"), c.size("conv_groups"))
