"""Llama and those that differ from it by a flag: biases, norms of queries and keys, how many norms a layer has."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import FUSED, GATED, LLAMA_NAMES, Attention, FeedForward, layer
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.families.config import Config
from tfcalc.families.family import family
from tfcalc.families.heads import CAUSAL_LM
from tfcalc.leaves import embedding, norm
from tfcalc.workload import Workload

PRE_NORM = ("input_layernorm", "post_attention_layernorm")
SANDWICH = (*PRE_NORM, "pre_feedforward_layernorm", "post_feedforward_layernorm")


def kv_heads(c: Config) -> Num:
    """Key and value heads, as many as query heads where none are given. They must share the query heads evenly."""
    if c.get("num_key_value_heads") is None:
        return c.size("num_attention_heads")
    heads, groups = c.number("num_attention_heads"), c.number("num_key_value_heads")
    if heads % groups:
        raise InvalidModel(
            f"{c.path('num_attention_heads')} {heads} cannot be shared evenly by num_key_value_heads {groups}",
            f"give a divisor of {heads}",
        )
    return c.size("num_key_value_heads")


def head_dim(c: Config) -> Num:
    """The width of a head: given, or the hidden size split among the heads."""
    given = c.optional("head_dim")
    return c.quotient("hidden_size", "num_attention_heads") if given is None else given


def qk_norms(kind: str, c: Config, run: Workload, *, whole: bool = False) -> tuple[Component, ...]:
    """Norms of queries and keys: of each head (``d`` weights), or of the ``whole`` projection (``a·d`` and ``g·d``)."""
    a, g, d, tokens = c.size("num_attention_heads"), kv_heads(c), head_dim(c), run.target.tokens
    if whole:
        return norm("q_norm", kind, a * d, tokens), norm("k_norm", kind, g * d, tokens)
    return norm("q_norm", kind, d, tokens * a), norm("k_norm", kind, d, tokens * g)


def attention(
    c: Config,
    run: Workload,
    *,
    name: str = "self_attn",
    names: tuple[str, ...] = LLAMA_NAMES,
    bias: bool = False,
    output_bias: bool | None = None,
    within: tuple[Component, ...] = (),
) -> Component:
    """Causal self-attention with the fields that nearly all configs share."""
    d = head_dim(c)
    block = Attention(
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        kv_heads(c),
        d,
        d,
        bias=bias,
        output_bias=output_bias,
        names=names,
        within=within,
    )
    return block(name, run.target, run.target, run, causal=True)


def gated(c: Config, run: Workload, *, bias: bool = False, names: tuple[str, ...] = GATED) -> Component:
    """SwiGLU, GeGLU: the feed-forward network with a gate."""
    block = FeedForward(
        c.size("hidden_size"), c.size("intermediate_size"), c.word("hidden_act"), bias=bias, names=names, gated=True
    )
    return block("mlp", run.target, run)


def norms(names: tuple[str, ...], kind: str, c: Config, run: Workload) -> Iterator[Component]:
    """One norm of the hidden size for each name."""
    for name in names:
        yield norm(name, kind, c.size("hidden_size"), run.target.tokens)


def uniform(c: Config, run: Workload, *parts: Component, norm: str = "rmsnorm", names: tuple[str, ...] = PRE_NORM) -> Component:
    """``num_hidden_layers`` equal layers of these parts and norms."""
    h, n = c.size("hidden_size"), c.size("num_hidden_layers")
    return layer("layers", (*parts, *norms(names, norm, c, run)), run.target.tokens * h, copies=n)


def decoder(c: Config, run: Workload, *layers: Component, final: str = "rmsnorm") -> Component:
    """Embedding, layers, and a final norm (none where ``final`` is empty)."""
    h, tokens = c.size("hidden_size"), run.target.tokens
    return Component(
        "model",
        "decoder",
        parts=(
            embedding("embed_tokens", c.size("vocab_size"), h, tokens),
            *layers,
            *([norm("norm", final, h, tokens)] if final else []),
        ),
    )


@family(
    "llama",
    architecture="LlamaForCausalLM",
    heads=CAUSAL_LM,
    vocab_size=32000,
    hidden_size=4096,
    intermediate_size=11008,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=None,
    head_dim=None,
    hidden_act="silu",
    max_position_embeddings=2048,
    tie_word_embeddings=False,
    attention_bias=False,
    mlp_bias=False,
)
def llama(c: Config, run: Workload) -> Component:
    """Touvron et al. 2023 (arXiv 2302.13971)."""
    mixer = attention(c, run, bias=c.flag("attention_bias"))
    return decoder(c, run, uniform(c, run, mixer, gated(c, run, bias=c.flag("mlp_bias"))))


@family(
    "qwen2",
    architecture="Qwen2ForCausalLM",
    heads=CAUSAL_LM,
    vocab_size=151936,
    hidden_size=4096,
    intermediate_size=22016,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=32,
    hidden_act="silu",
    max_position_embeddings=32768,
    tie_word_embeddings=False,
)
def qwen2(c: Config, run: Workload) -> Component:
    """Qwen2 technical report (arXiv 2407.10671): biases on queries, keys and values, none on the output."""
    return decoder(c, run, uniform(c, run, attention(c, run, bias=True, output_bias=False), gated(c, run)))


@family(
    "qwen3",
    architecture="Qwen3ForCausalLM",
    heads=CAUSAL_LM,
    vocab_size=151936,
    hidden_size=4096,
    intermediate_size=22016,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=32,
    head_dim=128,
    hidden_act="silu",
    max_position_embeddings=32768,
    tie_word_embeddings=False,
    attention_bias=False,
)
def qwen3(c: Config, run: Workload) -> Component:
    """Qwen3 technical report (arXiv 2505.09388): a norm of each head's query and key."""
    mixer = attention(c, run, bias=c.flag("attention_bias"), within=qk_norms("rmsnorm", c, run))
    return decoder(c, run, uniform(c, run, mixer, gated(c, run)))


@family(
    "gemma2",
    architecture="Gemma2ForCausalLM",
    heads=CAUSAL_LM,
    vocab_size=256000,
    hidden_size=2304,
    intermediate_size=9216,
    num_hidden_layers=26,
    num_attention_heads=8,
    num_key_value_heads=4,
    head_dim=256,
    hidden_activation="gelu_pytorch_tanh",
    hidden_act="gelu_pytorch_tanh",
    max_position_embeddings=8192,
    tie_word_embeddings=True,
    attention_bias=False,
)
def gemma2(c: Config, run: Workload) -> Component:
    """Gemma 2 (arXiv 2408.00118): four norms a layer."""
    mixer = attention(c, run, bias=c.flag("attention_bias"))
    return decoder(c, run, uniform(c, run, mixer, gated(c, run), names=SANDWICH))


@family(
    "phi3",
    architecture="Phi3ForCausalLM",
    heads=CAUSAL_LM,
    vocab_size=32064,
    hidden_size=3072,
    intermediate_size=8192,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=None,
    hidden_act="silu",
    max_position_embeddings=4096,
    tie_word_embeddings=False,
)
def phi3(c: Config, run: Workload) -> Component:
    """Phi-3 (arXiv 2404.14219): Llama with fused projections."""
    mixer = attention(c, run, names=("qkv_proj", "o_proj"))
    return decoder(c, run, uniform(c, run, mixer, gated(c, run, names=FUSED)))
