"""NeoMME: an encoder of words and of patches of images."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import Attention
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.configs.heads import bare, output
from tfcalc.core.component import Component
from tfcalc.families.bert_heads import on_top
from tfcalc.families.llama import feed_forward, kv_heads, qk_norms, uniform
from tfcalc.leaves import activation, embedding, linear, norm, parameter
from tfcalc.workload import Workload


def words(c: Config, run: Workload) -> Iterator[Component]:
    """Logits by way of the narrow vectors of words, and of the map that widens them (``tie_word_embeddings``)."""
    h, rank, tied = c.size("hidden_size"), c.size("embedding_rank"), c.flag("tie_word_embeddings")
    widening = "embedding_projection" if tied else None
    yield linear("unembedding_projection", h, rank, run.target.tokens, bias=False, tied_to=widening)
    yield output("lm_head", rank, c.size("vocab_size"), run, tied=tied)


def vectors(c: Config, run: Workload) -> Iterator[Component]:
    """A vector of each token, to be found by."""
    width = c.size("embedding_dim")
    yield linear("multi_vector_head.proj", c.size("hidden_size"), width, run.target.tokens, bias=False)


HEADS: dict[str, Head] = {"Model": bare, "ForMaskedLM": on_top(words), "ForRetrieval": on_top(vectors)}
NORMS = ("input_layernorm", "post_attention_layernorm")
PLAIN = "rmsnorm-plain"


@family("neomme", architecture="NeoMMEForMaskedLM", heads=HEADS)
def neomme(c: Config, run: Workload) -> Component:
    """Transformers' NeoMMEModel: norms without weights; the first and the last global layer add vectors to the values.

    Each layer mixes the stream with what the embeddings gave (``lambdas``).
    """
    h, tokens = c.size("hidden_size"), run.target.tokens
    ffn = feed_forward(c, run, bias=c.flag("mlp_bias"), names=("up_proj", "down_proj"), act="hidden_act")
    layers = uniform(c, run, parameter("lambdas", 2), attention(c, run), ffn, norm=PLAIN, names=NORMS)
    values = embedding("value_embeddings", c.size("vocab_size"), kv_heads(c) * c.size("head_dim"), tokens)
    return Component(
        "model",
        "encoder",
        parts=(
            narrow_words(c, run),
            patches(c),
            norm("embedding_norm", PLAIN, h, tokens),
            layers,
            values,
            norm("final_norm", PLAIN, h, tokens),
        ),
    )


def narrow_words(c: Config, run: Workload) -> Component:
    """Vectors of words of ``embedding_rank``, widened."""
    rank, tokens = c.size("embedding_rank"), run.target.tokens
    parts = (
        embedding("word_embeddings", c.size("vocab_size"), rank, tokens),
        linear("embedding_projection", rank, c.size("hidden_size"), tokens, bias=False),
    )
    return Component("embed_tokens", "embeddings", parts=parts)


def patches(c: Config) -> Component:
    """What makes vectors of the patches of an image. A text has none."""
    h, side = c.size("hidden_size"), c.size("patch_size")
    pixels = 3 * side * side
    parts = (
        norm("norm", "layernorm", pixels, 0),
        linear("up_proj", pixels, 2 * h, 0, bias=False),
        activation("act_fn", "gelu", 0),
        linear("down_proj", 2 * h, h, 0),
    )
    return Component("patch_embeddings", "embeddings", parts=parts)


def attention(c: Config, run: Workload) -> Component:
    """Gated attention that takes from its output what lies along each token's own value, as ``alpha`` says."""
    h, a, d, tokens = c.size("hidden_size"), c.size("num_attention_heads"), c.size("head_dim"), run.target.tokens
    within = (
        *qk_norms(PLAIN, c, run),
        parameter("exclusive_self_attention.alpha", a),
        linear("output_projection.gate_proj", h, a * d, tokens, bias=False),
        activation("output_projection.gate", "sigmoid", tokens * a * d),
    )
    names = ("q_proj", "k_proj", "v_proj", "output_projection.o_proj")
    block = Attention(h, a, kv_heads(c), d, d, bias=c.flag("attention_bias"), names=names, within=within)
    return block("self_attn", run.target, run.target, run, causal=False)
