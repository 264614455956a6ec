"""Encoders that took over what decoders had learned: rotary positions, gated networks, few biases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfcalc.blocks import GATED, LLAMA_NAMES, Attention, FeedForward, layer, stack
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.configs.heads import bare, labels, output
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.families.bert import embeddings, pooler, token_types
from tfcalc.families.bert_heads import ANSWER, ROBERTA_HEADS, TASKS, Make, classes, lm, on_top, predictions, transform
from tfcalc.families.llama import attention, decoder, gated, head_dim, uniform
from tfcalc.families.windows import SLIDING, by_window, windows
from tfcalc.leaves import activation, embedding, linear, norm
from tfcalc.workload import Workload


def normed(name: str, c: Config, vectors: Num) -> Component:
    """A LayerNorm, with a bias or without (``norm_bias``)."""
    kind = "layernorm" if c.flag("norm_bias") else "layernorm-no-bias"
    return norm(name, kind, c.size("hidden_size"), vectors)


def dense(name: str, *, pooled: bool = False) -> Make:
    """A map, an activation and a norm of every token's vector, or of the sequence's, before the logits."""

    def make(c: Config, run: Workload) -> Iterator[Component]:
        h, vectors = c.size("hidden_size"), run.target.batch if pooled else run.target.tokens
        parts = (
            linear("dense", h, h, vectors, bias=c.flag("classifier_bias")),
            activation("activation", c.word("classifier_activation"), vectors * h),
            normed("norm", c, vectors),
        )
        yield Component(name, "head", parts=parts)

    return make


def words(c: Config, run: Workload) -> Iterator[Component]:
    """Logits of every token."""
    h, vocabulary, tied = c.size("hidden_size"), c.size("vocab_size"), c.flag("tie_word_embeddings")
    yield output("decoder", h, vocabulary, run, tied=tied, bias=c.flag("decoder_bias"))


def sequence(c: Config, run: Workload) -> Iterator[Component]:
    """Logits of every token, of which the last one's are kept (of a decoder)."""
    yield linear("classifier", c.size("hidden_size"), labels(c), run.target.tokens, bias=c.flag("classifier_bias"))


MODERNBERT_HEADS: dict[str, Head] = {
    "Model": bare,
    "ForMaskedLM": on_top(dense("head"), words),
    "ForSequenceClassification": on_top(dense("head", pooled=True), classes("classifier", pooled=True)),
    "ForTokenClassification": on_top(dense("head"), classes("classifier")),
    "ForQuestionAnswering": on_top(dense("head"), classes("classifier")),
    "ForMultipleChoice": on_top(dense("head", pooled=True), classes("classifier", 1, pooled=True)),
}
DECODER_HEADS: dict[str, Head] = {
    "Model": bare,
    "ForCausalLM": on_top(dense("lm_head"), words),
    "ForSequenceClassification": on_top(dense("head"), sequence),
}


def nearby(c: Config, run: Workload) -> list[int | None]:
    """Each layer's window, where masks are told apart: all but every third layer see no further than half of it."""
    count, every = c.number("num_hidden_layers"), c.number("global_attn_every_n_layers")
    types = c.words("layer_types", count) if c.get("layer_types") else None
    slides = [place % every != 0 if types is None else types[place] == SLIDING for place in range(count)]
    width = c.number("local_attention") // 2
    return [width if run.tells_masks and slide else None for slide in slides]


def modern(c: Config, run: Workload, names: tuple[str, ...], seen: Sequence[int | None], *, causal: bool) -> Component:
    """Words with a norm, layers of which the first has no norm before attention, and a final norm."""
    h, n, tokens = c.size("hidden_size"), c.size("num_hidden_layers"), run.target.tokens
    a, d = c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    mixer = Attention(h, a, a, d, d, bias=c.flag("attention_bias"), names=names, rotary=d)
    ffn = FeedForward(
        h,
        c.size("intermediate_size"),
        c.word("hidden_activation"),
        bias=c.flag("mlp_bias"),
        names=("Wi", "Wo"),
        gated=True,
    )

    def made(kind: tuple[bool, int | None]) -> Component:
        first, window = kind
        before = () if first else (normed("attn_norm", c, tokens),)
        attn = mixer._replace(window=window)("attn", run.target, run.target, run, causal=causal)
        parts = (*before, attn, normed("mlp_norm", c, tokens), ffn("mlp", run.target, run))
        return layer("layers", parts, tokens * h, ends_with_sum=True)

    table = embedding("tok_embeddings", c.size("vocab_size"), h, tokens)
    kinds = [(place == 0, window) for place, window in enumerate(seen)]
    return Component(
        "model",
        "decoder" if causal else "encoder",
        parts=(
            Component("embeddings", "embeddings", parts=(table, normed("norm", c, tokens))),
            *stack("layers", kinds, n, made),
            normed("final_norm", c, tokens),
        ),
    )


@family(
    "modernbert",
    architecture="ModernBertForMaskedLM",
    heads=MODERNBERT_HEADS,
    global_attn_every_n_layers=3,  # by __post_init__, for older configs
)
def modernbert(c: Config, run: Workload) -> Component:
    """Warner et al. 2024 (arXiv 2412.13663): no biases, a gated network, attention local in two layers of three."""
    return modern(c, run, ("Wqkv", "Wo"), nearby(c, run), causal=False)


@family(
    "modernbert-decoder",
    architecture="ModernBertDecoderForCausalLM",
    heads=DECODER_HEADS,
    global_attn_every_n_layers=3,  # by __post_init__, for older configs
)
def modernbert_decoder(c: Config, run: Workload) -> Component:
    """Weller et al. 2025 (Ettin, arXiv 2507.11412): ModernBERT as a decoder; two layers of three see a window."""
    return modern(c, run, ("q_proj", "k_proj", "v_proj", "Wo"), nearby(c, run), causal=True)


# -- BERT with rotary positions


def rotary_bert(c: Config, run: Workload, ffn: Component, *, bias: bool) -> Component:
    """Words and token types, layers named as Llama's with BERT's norms; positions are rotated into attention."""
    h, a, d, tokens = c.size("hidden_size"), c.size("num_attention_heads"), head_dim(c), run.target.tokens
    mixer = Attention(h, a, a, d, d, bias=bias, names=LLAMA_NAMES, rotary=d)(
        "self_attn", run.target, run.target, run, causal=False
    )
    parts = (
        mixer,
        norm("post_attention_layernorm", "layernorm", h, tokens),
        ffn,
        norm("post_mlp_layernorm", "layernorm", h, tokens),
    )
    layers = layer("layers", parts, tokens * h, copies=c.size("num_hidden_layers"))
    tables = (token_types(c, run),) if c.number("type_vocab_size", least=0) else ()
    return Component("model", "encoder", parts=(embeddings(c, run, *tables), layers))


def network(c: Config, run: Workload, names: tuple[str, ...], *, bias: bool, down_bias: bool) -> Component:
    """The feed-forward network, gated if it has three maps."""
    h, f, act = c.size("hidden_size"), c.size("intermediate_size"), c.word("hidden_act")
    block = FeedForward(h, f, act, bias=bias, down_bias=down_bias, names=names, gated=len(names) == 3)
    return block("mlp", run.target, run)


NOMIC_HEADS: dict[str, Head] = TASKS | lm(
    predictions("cls.predictions", ("transform.dense", "transform.layer_norm", "decoder"))
)


@family("nomic_bert", architecture="NomicBertModel", heads=NOMIC_HEADS)
def nomic_bert(c: Config, run: Workload) -> Component:
    """Nussbaum et al. 2024 (arXiv 2402.01613): rotary positions, SwiGLU, no biases; only a classifier has a pooler."""
    made = rotary_bert(c, run, network(c, run, GATED, bias=False, down_bias=False), bias=False)
    return made._replace(name="nomic_bert", parts=(*made.parts, *pooler(c, run, ("ForSequenceClassification",))))


def words_and_bias(c: Config, run: Workload) -> Iterator[Component]:
    """A map, an activation and a norm, then logits; only the matrix may be the words' own."""
    h, tied = c.size("hidden_size"), c.flag("tie_word_embeddings")
    decoder = output("decoder", h, c.size("vocab_size"), run, tied=tied, bias=True)
    yield Component("lm_head", "head", parts=(*transform(c, run, h, ("dense", "layer_norm"), "gelu"), decoder))


@family("gte", architecture="GteForMaskedLM", heads=TASKS | lm(words_and_bias))
def gte(c: Config, run: Workload) -> Component:
    """Zhang et al. 2024 (mGTE, arXiv 2407.19669): rotary positions, a gated network; only a classifier has a pooler."""
    made = rotary_bert(c, run, network(c, run, GATED, bias=False, down_bias=True), bias=True)
    return made._replace(name="gte", parts=(*made.parts, *pooler(c, run, ("ForSequenceClassification",))))


@family("jina_embeddings_v3", architecture="JinaEmbeddingsV3ForMaskedLM", heads=ROBERTA_HEADS)
def jina_embeddings_v3(c: Config, run: Workload) -> Component:
    """Sturua et al. 2024 (arXiv 2409.10173): XLM-R with rotary positions."""
    made = rotary_bert(c, run, network(c, run, ("fc1", "fc2"), bias=True, down_bias=True), bias=True)
    return made._replace(name="roberta", parts=(*made.parts, *pooler(c, run, ("Model",))))


# -- Llama as an encoder


def bottleneck(c: Config, run: Workload) -> tuple[Component, ...]:
    """Two maps through a narrower width."""
    h, narrow, tokens = c.size("hidden_size"), c.size("prediction_head_size"), run.target.tokens
    return (
        linear("linear1", h, narrow, tokens, bias=False),
        activation("activation1", "gelu_pytorch_tanh", tokens * narrow),
        linear("linear2", narrow, h, tokens, bias=False),
        activation("activation2", "gelu_pytorch_tanh", tokens * h),
    )


def through_bottleneck(c: Config, run: Workload) -> Iterator[Component]:
    """Logits of the words, after two maps through a narrower width."""
    logits = output("decoder", c.size("hidden_size"), c.size("vocab_size"), run, tied=c.flag("tie_word_embeddings"))
    yield Component("head", "head", parts=(*bottleneck(c, run), logits))


@family(
    "ultrabert",
    architecture="UltrabertForMaskedLM",
    heads={**TASKS, **lm(through_bottleneck), "ForQuestionAnswering": ANSWER},
)
def ultrabert(c: Config, run: Workload) -> Component:
    """Transformers' UltrabertModel: Llama that looks both ways, in two layers of three only nearby."""

    def one(window: int | None) -> Component:
        mixer = attention(c, run, bias=c.flag("attention_bias"), causal=False, window=window)
        return uniform(c, run, mixer, gated(c, run, bias=c.flag("mlp_bias")))

    return decoder(c, run, *by_window(c, run, windows(c, lambda place: (place + 1) % 3 > 0), one))
