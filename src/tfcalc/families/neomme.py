"""NeoMME: an encoder of words and of patches of images."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, logits
from tfcalc.families import kit
from tfcalc.families.layers import by_kind, stack
from tfcalc.families.windows import FULL, LAYERS
from tfcalc.nn.basic import Embedding, Linear, Norm, parameter
from tfcalc.nn.embeddings import Embeddings
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.neomme import ExclusiveAttention, MixingLayer, NeoMME, PatchMaps, Unembedded

PLAIN, CODE = "rmsnorm-plain", "gemma4"


def words(c: Config, base: Module) -> Module:
    """Logits by way of the narrow vectors of words, and of the map that widens them (``tie_word_embeddings``)."""
    h, rank, tied = c.size("hidden_size"), c.size("embedding_rank"), c.flag("tie_word_embeddings")
    narrowed = Linear("unembedding_projection", h, rank, tied_to="embedding_projection" if tied else None)
    head = logits("lm_head", rank, c.size("vocab_size"), tied=tied)
    return Unembedded("", base, head, shifted=False, narrowed=narrowed)


def vectors(c: Config, base: Module) -> Module:
    """A vector of each token, to be found by."""
    return WithHead("", base, Linear("multi_vector_head.proj", c.size("hidden_size"), c.size("embedding_dim")))


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
    layers = by_kind(lambda adds: layer(c, adds_values=adds), [place in ends for place in range(count)])
    width = kit.kv_heads(c) * c.size("head_dim")
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
    subs = (attention(c).but(adds_values=adds_values), ffn(c))
    return MixingLayer("layers", subs, norms(c), scales=True, lambdas=parameter("lambdas", 2))


def plain(name: str, c: Config) -> Norm:
    """A norm of the hidden size, without a weight."""
    return Norm(name, PLAIN, c.size("hidden_size"), CODE)


def norms(c: Config) -> tuple[Norm, ...]:
    """Those before the sub-layers."""
    return tuple(plain(name, c) for name in ("input_layernorm", "post_attention_layernorm"))


def ffn(c: Config) -> Module:
    """Two maps."""
    return kit.plain(c, bias=c.flag("mlp_bias"))


def narrow_words(c: Config) -> Module:
    """Vectors of words of ``embedding_rank``, widened."""
    rank = c.size("embedding_rank")
    words = Embedding("word_embeddings", c.size("vocab_size"), rank)
    projection = Linear("embedding_projection", rank, c.size("hidden_size"))
    return Embeddings("embed_tokens", (words,), None, projection=projection)


def patches(c: Config) -> Module:
    """What makes vectors of the patches of an image. A text has none."""
    h, side = c.size("hidden_size"), c.size("patch_size")
    pixels = 3 * side * side
    up, down = Linear("up_proj", pixels, 2 * h), Linear("down_proj", 2 * h, h, "", True)
    return PatchMaps("patch_embeddings", Norm("norm", "layernorm", pixels), up, down)


def attention(c: Config) -> ExclusiveAttention:
    """Gated attention that takes from its output what lies along each token's own value, as ``alpha`` says."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.size("head_dim")
    names = ("q_proj", "k_proj", "v_proj", "output_projection.o_proj")
    made = kit.attention(
        c, names=names, bias=c.flag("attention_bias"), qk_norms=PLAIN, code=CODE, causal=False, width=d
    )
    gate = Linear("output_projection.gate_proj", h, a * d)
    alpha = parameter("exclusive_self_attention.alpha", a)
    return made.to(ExclusiveAttention, gate=gate, alpha=alpha)
