"""NeoMME: an encoder of words and of patches of images."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import FULL, Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, logits
from tfcalc.nn.attention import Attention, attentions
from tfcalc.nn.basic import Embedding, Linear, Norm, Parameter, parameter
from tfcalc.nn.embeddings import Embeddings
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import add, mul, pointwise, residual
from tfcalc.ops.hashing import normalised
from tfcalc.ops.select import row_sums
from tfcalc.ops.shapes import copied, reshape, select, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.layers import LAYERS, one_module_per_kind, stack

WORDS, VALUES = "vectors of words", "values of words"


class ExclusiveAttention(Attention):
    """Attention that takes from its output what lies along each token's own value, as ``alpha`` says.

    Some layers add vectors of words to the values first (``adds_values``).
    """

    alpha: Parameter | None = None
    adds_values: bool = False

    def attend(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        """Attend, then subtract what lies along each token's own value."""
        if self.adds_values and VALUES in ctx.given:
            b, g, l, d = v.shape
            v = add(v, transpose(reshape(ctx.given[VALUES], b, l, g, d), 1, 2))
        made = super().attend(q, k, v, ctx, name)
        # no products: of a value and the direction of another
        return self._without_own(made, v) if made.trace.emits_kernels else made

    def _without_own(self, made: Tensor, v: Tensor) -> Tensor:
        assert self.alpha is not None
        if v.shape[1] != made.shape[1]:
            v = copied(v, made.shape, "repeat_kv")
        trace = made.trace
        unit = trace.to(normalised(trace.to(v, "float32")), made.dtype)
        along = row_sums(mul(made, unit))
        scale = reshape(trace.to(pointwise("tanh", self.alpha.weight(trace)), made.dtype), 1, self.heads, 1, 1)
        return add(made, mul(mul(along, scale), unit))


class MixingLayer(PreNorm):
    """The stream and what the embeddings gave are mixed by two trained numbers, which attention reads."""

    lambdas: Parameter | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        (before, mixer), (last, ffn) = self.running(ctx)
        read = x
        if self.lambdas is not None:
            both = self.lambdas.weight(x.trace)
            read = add(mul(x, select(both, 0)), mul(ctx.given[WORDS], select(both, 0)))
        x = residual(x, self.dropping(mixer, mixer(before(read, ctx), ctx), ctx), mixer.name)
        return residual(x, self.dropping(ffn, ffn(last(x, ctx), ctx), ctx), ffn.name)


class NeoMME(Module):
    """Words, layers between two norms, and vectors of words for the values of some of them.

    ``patches`` are what makes vectors of an image's; a text has none.
    """

    kind = "encoder"

    table: Module
    patches: Module
    first: Norm
    layers: Stack
    values: Embedding
    norm: Norm

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the encoder's output for token ids."""
        made = self.first(self.table(x, ctx), ctx)
        ctx = ctx.backend.begin(ctx, made, list(attentions(self.layers)), ())
        ctx = ctx._replace(places=None, given={VALUES: self.values(x), WORDS: made})
        return self.norm(self.layers(made, ctx), ctx)


class PatchMaps(Module):
    """A norm and two maps of the patches of an image."""

    kind = "embeddings"

    norm: Norm
    up: Linear
    down: Linear


class Unembedded(ModelWithHead):
    """A language model whose logits are made of narrow vectors, to which a map leads (``narrowed``)."""

    narrowed: Linear | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """Parts, in the order in which they run."""
        parts = (self.base, self.narrowed, self.head)
        return (part for part in parts if part is not None)

    def logits(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits of the narrow vectors."""
        return super().logits(x if self.narrowed is None else self.narrowed(x), ctx)


PLAIN, CODE = "rmsnorm-plain", "gemma4"


def words(c: Config, base: Module) -> Module:
    """Logits by way of the narrow vectors of words, and of the map that widens them (``tie_word_embeddings``)."""
    h, rank, tied = c.size("hidden_size"), c.size("embedding_rank"), c.flag("tie_word_embeddings")
    narrowed = Linear("unembedding_projection", h, rank, tied_to="embedding_projection" if tied else None)
    head = logits("lm_head", rank, c.size("vocab_size"), tied=tied)
    return Unembedded("", base, head, shifted=False, narrowed=narrowed)


def vectors(c: Config, base: Module) -> Module:
    """A vector of each token, to be found by."""
    return ModelWithHead("", base, Linear("multi_vector_head.proj", c.size("hidden_size"), c.size("embedding_dim")))


TOPS: dict[str, Top] = {"Model": bare, "ForMaskedLM": words, "ForRetrieval": vectors}


@family("neomme", heads=TOPS)
def neomme(c: Config) -> Module:
    """Transformers' NeoMMEModel: norms without weights; the first and the last global layer add vectors to the values.

    Each layer mixes the stream with what the embeddings gave (``lambdas``).
    """
    count = c.number(LAYERS)
    types = c.words("layer_types", count) if c.get("layer_types") else [FULL] * count
    everywhere = [place for place, kind in enumerate(types) if kind == FULL]
    ends = {*everywhere[:1], *everywhere[-1:]}
    layers = one_module_per_kind(lambda adds: layer(c, adds_values=adds), [place in ends for place in range(count)])
    width = decoders.kv_heads(c) * c.size("head_dim")
    return NeoMME(
        "model",
        narrow_words(c),
        patches(c),
        plain("embedding_norm", c),
        stack(c, layers),
        Embedding("value_embeddings", c.size("vocab_size"), width),
        plain("final_norm", c),
    )


def layer(c: Config, *, adds_values: bool) -> MixingLayer:
    """Attention and a network."""
    sublayers = (attention(c).replace(adds_values=adds_values), ffn(c))
    return MixingLayer("layers", sublayers, norms(c), scales=True, lambdas=parameter("lambdas", 2))


def plain(name: str, c: Config) -> Norm:
    """A norm of the hidden size, without a weight."""
    return Norm(name, PLAIN, c.size("hidden_size"), CODE)


def norms(c: Config) -> tuple[Norm, ...]:
    """Norms before the sub-layers."""
    return tuple(plain(name, c) for name in ("input_layernorm", "post_attention_layernorm"))


def ffn(c: Config) -> Module:
    """Two maps."""
    return decoders.plain(c, bias=c.flag("mlp_bias"))


def narrow_words(c: Config) -> Module:
    """Vectors of words of ``embedding_rank``, widened."""
    rank = c.size("embedding_rank")
    words = Embedding("word_embeddings", c.size("vocab_size"), rank)
    projection = Linear("embedding_projection", rank, c.size("hidden_size"))
    return Embeddings("embed_tokens", (words,), None, projection=projection)


def patches(c: Config) -> Module:
    """Maps that make vectors of the patches of an image. A text has none."""
    h, side = c.size("hidden_size"), c.size("patch_size")
    pixels = 3 * side * side
    up, down = Linear("up_proj", pixels, 2 * h), Linear("down_proj", 2 * h, h, "", True)
    return PatchMaps("patch_embeddings", Norm("norm", "layernorm", pixels), up, down)


def attention(c: Config) -> ExclusiveAttention:
    """Gated attention that takes from its output what lies along each token's own value, as ``alpha`` says."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.size("head_dim")
    names = ("q_proj", "k_proj", "v_proj", "output_projection.o_proj")
    made = decoders.attention(
        c, names=names, bias=c.flag("attention_bias"), qk_norms=PLAIN, code=CODE, causal=False, width=d
    )
    gate = Linear("output_projection.gate_proj", h, a * d)
    alpha = parameter("exclusive_self_attention.alpha", a)
    return made.as_type(ExclusiveAttention, gate=gate, alpha=alpha)
