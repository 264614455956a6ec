"""GPT-1, GPT-2 and their nearest kin: norms with biases, heads that split the hidden size, an inner width of 4h.

The functions here serve the other GPT-likes too (gpt_neox.py, fairseq.py). They read a config by the names that all of
transformers' attribute maps share: ``hidden_size`` for ``n_embd``, ``num_hidden_layers`` for ``n_layer``.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import Attention, FeedForward, layer
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, classifier, labels, lm_head, output
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.families.images import drops
from tfcalc.families.llama import norms
from tfcalc.families.windows import LAYERS, by_window
from tfcalc.leaves import embedding, learned_position, linear, norm, sinusoidal_position
from tfcalc.printable import quoted
from tfcalc.workload import Workload

SHORT = {
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_layer": "num_hidden_layers",
    "n_positions": "max_position_embeddings",
}
"""OpenAI's names of the fields, by which GPT-2 and its kin go."""

GPT_HEADS = {
    "Model": bare,
    "ForCausalLM": lm_head(),
    "ForSequenceClassification": classifier("score"),
    "ForTokenClassification": classifier("classifier", bias=True),
    "ForQuestionAnswering": classifier("qa_outputs", bias=True, classes=2),
}
"""Of the GPT-likes that are older than transformers' Generic… classes."""


def double_heads(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """The language model, and a choice among continuations: one number for each sequence."""
    yield base
    yield output("lm_head", c.size("hidden_size"), c.size("vocab_size"), run, tied=c.flag("tie_word_embeddings"))
    yield from summary("multiple_choice_head", c, run, classes=1)


def summary(name: str, c: Config, run: Workload, *, classes: Num | None = None) -> Iterator[Component]:
    """What makes one vector of a sequence's last one: of the ``classes``, of the hidden size, or no map at all."""
    if c.flag("summary_use_proj"):
        h = c.size("hidden_size")
        classes = labels(c) if classes is None else classes
        to = classes if c.flag("summary_proj_to_labels") else h
        yield Component(name, "summary", parts=(linear("summary", h, to, run.target.batch),))


WITH_ENCODER = ("Model", "LMHeadModel", "ForCausalLM")
"""The classes that read an encoder; others have the weights for it all the same, and never run them."""

HEADS = GPT_HEADS | {"LMHeadModel": lm_head(), "DoubleHeadsModel": double_heads}


def attention(
    c: Config,
    run: Workload,
    name: str,
    names: tuple[str, ...],
    *,
    groups: Num | None = None,
    bias: bool = True,
    output_bias: bool | None = None,
    within: tuple[Component, ...] = (),
    key_width: Num | None = None,
    causal: bool = True,
    cross: bool = False,
    window: int | None = None,
    rotary: Num | None = None,
    cached_heads: Num | None = None,
) -> Component:
    """Heads that split the hidden size; as many of keys and values, or ``groups``. ``cross`` reads an encoder.

    ``rotary`` is how much of a head's width is rotated by its position, where any is; ``cached_heads`` are those that a
    cache holds, where these are not the ``groups``.
    """
    a, d = c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    block = Attention(
        c.size("hidden_size"),
        a,
        a if groups is None else groups,
        d,
        d,
        bias=bias,
        output_bias=output_bias,
        names=names,
        within=within,
        key_width=key_width,
        value_width=key_width,
        window=window,
        rotary=rotary,
        cached_heads=cached_heads,
    )
    return block(name, run.target, run.source if cross else run.target, run, causal=causal and not cross)


def feed_forward(
    c: Config, run: Workload, name: str, names: tuple[str, ...], width: Num, activation: str, *, bias: bool = True
) -> Component:
    """Two maps; ``activation`` is the field that names what stands between them."""
    return FeedForward(c.size("hidden_size"), width, activation, bias=bias, names=names)(name, run.target, run)


def inner(c: Config, field: str = "n_inner") -> Num:
    """The feed-forward width: given, or four times the hidden size."""
    given = c.optional(field)
    return 4 * c.size("hidden_size") if given is None else given


def layers(
    c: Config,
    run: Workload,
    name: str,
    *parts: Component,
    names: tuple[str, ...],
    kind: str = "layernorm",
    ends_with_sum: bool = False,
) -> Component:
    """``num_hidden_layers`` equal layers of these parts, and of norms with these ``names``.

    ``ends_with_sum`` where neither a norm nor dropout follows the last part.
    """
    h, n, whole = c.size("hidden_size"), c.size("num_hidden_layers"), (*parts, *norms(names, kind, c, run))
    return layer(name, whole, run.target.tokens * h, copies=n, ends_with_sum=ends_with_sum)


def words(c: Config, run: Workload, name: str) -> Component:
    """The vectors of the vocabulary."""
    return embedding(name, c.size("vocab_size"), c.size("hidden_size"), run.target.tokens)


def positions(c: Config, run: Workload, name: str, *, beside: int = 0) -> Component:
    """A trained vector for each position, and for some ``beside`` (padding)."""
    rows = c.size("max_position_embeddings") + beside
    return learned_position(name, rows, c.size("hidden_size"), run.target.tokens)


def fixed_positions(c: Config, run: Workload, name: str, *, beside: int = 0) -> Component:
    """Sines and cosines, which are made anew in each process: no checkpoint holds them."""
    rows = c.size("max_position_embeddings") + beside
    return sinusoidal_position(name, rows, c.size("hidden_size"), run.target.tokens, stored="nothing")


def final(c: Config, run: Workload, name: str, kind: str = "layernorm") -> Component:
    """A norm of the hidden size."""
    return norm(name, kind, c.size("hidden_size"), run.target.tokens)


def transformer(*parts: Component, name: str = "transformer") -> Component:
    """The base model."""
    return Component(name, "decoder", parts=parts)


def gpt2_layers(c: Config, run: Workload, groups: Num | None = None) -> Component:
    """Fused queries, keys and values; where it reads an encoder, the keys and values of the encoder are fused."""
    parts = [attention(c, run, "attn", ("c_attn", "c_proj"), groups=groups)]
    if c.flag("add_cross_attention"):
        cross = attention(c, run, "crossattention", ("q_attn", "c_attn", "c_proj"), cross=True)
        active = int(c.head in WITH_ENCODER)
        parts += (part._replace(active=active) for part in (cross, final(c, run, "ln_cross_attn")))
    parts.append(feed_forward(c, run, "mlp", ("c_fc", "c_proj"), inner(c), c.word("activation_function")))
    return layers(c, run, "h", *parts, names=("ln_1", "ln_2"), ends_with_sum=not drops(c, run, "resid_pdrop"))


@family("gpt2", "gpt-sw3", architecture="GPT2LMHeadModel", heads=HEADS, aliases=SHORT)
def gpt2(c: Config, run: Workload) -> Component:
    """Radford et al. 2019: the norms before their sub-layers, and one after the last layer."""
    return transformer(words(c, run, "wte"), positions(c, run, "wpe"), gpt2_layers(c, run), final(c, run, "ln_f"))


@family("gpt_bigcode", architecture="GPTBigCodeForCausalLM", heads=HEADS, aliases=SHORT)
def gpt_bigcode(c: Config, run: Workload) -> Component:
    """SantaCoder, StarCoder (arXiv 2301.03988, 2305.06161): GPT-2 with one head of keys and values for all queries."""
    if c.flag("multi_query") and c.flag("add_cross_attention"):
        raise InvalidModel("add_cross_attention does not go with multi_query", "set multi_query to false")
    stack = gpt2_layers(c, run, groups=1 if c.flag("multi_query") else None)
    return transformer(words(c, run, "wte"), positions(c, run, "wpe"), stack, final(c, run, "ln_f"))


@family("openai-gpt", architecture="OpenAIGPTLMHeadModel", heads=HEADS, aliases=SHORT)
def openai_gpt(c: Config, run: Workload) -> Component:
    """Radford et al. 2018: the norms after their sub-layers, so that none follows the last layer."""
    mixer = attention(c, run, "attn", ("c_attn", "c_proj"))
    mlp = feed_forward(c, run, "mlp", ("c_fc", "c_proj"), 4 * c.size("hidden_size"), c.word("afn"))
    stack = layers(c, run, "h", mixer, mlp, names=("ln_1", "ln_2"))
    return transformer(words(c, run, "tokens_embed"), positions(c, run, "positions_embed"), stack)


@family(
    "gpt_neo",
    architecture="GPTNeoForCausalLM",
    heads=GPT_HEADS,
    aliases={"num_heads": "num_attention_heads", "num_layers": "num_hidden_layers"},
)
def gpt_neo(c: Config, run: Workload) -> Component:
    """Black et al. 2021: no biases on queries, keys and values. Every other layer sees a window (the same weights)."""
    names = ("q_proj", "k_proj", "v_proj", "out_proj")
    width = inner(c, "intermediate_size")
    mlp = feed_forward(c, run, "mlp", ("c_fc", "c_proj"), width, c.word("activation_function"))

    def one(window: int | None) -> Component:
        mixer = attention(c, run, "attn.attention", names, bias=False, output_bias=True, window=window)
        sums = not drops(c, run, "resid_dropout")
        return layers(c, run, "h", mixer, mlp, names=("ln_1", "ln_2"), ends_with_sum=sums)

    kinds = local_windows(c) if run.attention == "causal" and not run.decoding else [None] * c.number(LAYERS)
    stack = by_window(c, run, kinds, one, name="h")
    return transformer(words(c, run, "wte"), positions(c, run, "wpe"), *stack, final(c, run, "ln_f"))


def local_windows(c: Config) -> list[int | None]:
    """Each layer's window; every other one has it, if ``attention_types`` does not say else.

    It is only a mask: what is cached, and read by a token that is decoded, are all keys.
    """
    count, window, given = c.number(LAYERS), c.number("window_size"), c.get("attention_types")
    if given is None:
        return [window if place % 2 else None for place in range(count)]
    try:
        kinds = [kind for names, times in given for _ in range(times) for kind in names]
    except (TypeError, ValueError):
        kinds = []
    if len(kinds) != count:
        hint = 'write [[["global", "local"], 12]]'
        raise InvalidModel(f"{c.path('attention_types')} {quoted(given)} does not name {count} layers", hint)
    return [window if kind == "local" else None for kind in kinds]


def one_norm(c: Config, run: Workload, *names: str) -> Component:
    """Attention and feed-forward read the same norm and run side by side; attention has no biases."""
    mixer = attention(c, run, "attn", names, bias=False, rotary=rotated(c))
    mlp = feed_forward(c, run, "mlp", ("fc_in", "fc_out"), inner(c), c.word("activation_function"))
    stack = layers(c, run, "h", mixer, mlp, names=("ln_1",), ends_with_sum=not drops(c, run, "resid_pdrop"))
    return transformer(words(c, run, "wte"), stack, final(c, run, "ln_f"))


def rotated(c: Config) -> Num:
    """GPT-J's ``rotary_dim``; all of a head's width where it is null."""
    given = c.optional("rotary_dim")
    return c.quotient("hidden_size", "num_attention_heads") if given is None else given


@family(
    "gptj",
    architecture="GPTJForCausalLM",
    heads=GPT_HEADS | {"ForCausalLM": lm_head(bias=True), "ForQuestionAnswering": classifier("qa_outputs", bias=True)},
    aliases=SHORT,
)
def gptj(c: Config, run: Workload) -> Component:
    """Wang and Komatsuzaki 2021: parallel sub-layers under one norm, rotary positions, a bias on the logits."""
    return one_norm(c, run, "q_proj", "k_proj", "v_proj", "out_proj")


@family(
    "codegen",
    architecture="CodeGenForCausalLM",
    heads={"Model": bare, "ForCausalLM": lm_head(bias=True)},
    aliases=SHORT,
)
def codegen(c: Config, run: Workload) -> Component:
    """Nijkamp et al. 2022 (arXiv 2203.13474): GPT-J with fused queries, keys and values."""
    return one_norm(c, run, "qkv_proj", "out_proj")


@family(
    "ctrl",
    architecture="CTRLLMHeadModel",
    heads={"Model": bare, "LMHeadModel": lm_head(bias=True), "ForSequenceClassification": classifier("classifier")},
    aliases=SHORT,
)
def ctrl(c: Config, run: Workload) -> Component:
    """Keskar et al. 2019 (arXiv 1909.05858): fixed positions; a bias on the logits."""
    mixer = attention(c, run, "multi_head_attention", ("Wq", "Wk", "Wv", "dense"))
    mlp = feed_forward(c, run, "ffn", ("0", "2"), c.size("dff"), "relu")
    sums = not drops(c, run, "resid_pdrop")
    stack = layers(c, run, "h", mixer, mlp, names=("layernorm1", "layernorm2"), ends_with_sum=sums)
    tables = words(c, run, "w"), fixed_positions(c, run, "pos_encoding")
    return transformer(*tables, stack, final(c, run, "layernorm"))
