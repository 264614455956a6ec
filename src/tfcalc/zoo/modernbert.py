"""Encoders that took over what decoders had learned: rotary positions, gated networks, few biases."""

from __future__ import annotations

from collections.abc import Sequence

from tfcalc.configs.config import SLIDING, Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, labels, logits
from tfcalc.nn.attention import OWN_SOFTMAX, Attention
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.embeddings import TOKENS as EVERY
from tfcalc.nn.embeddings import Embeddings
from tfcalc.nn.encoder import Encoder
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.heads import FIRST, TOKENS, Classifier, Transform, WithTransform
from tfcalc.nn.layers import PostNorm, PreNorm
from tfcalc.nn.model import Decoder, NarrowPredictions, Predictions
from tfcalc.nn.module import Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.nn.stack import Stack
from tfcalc.zoo.blocks import decoders, encoders
from tfcalc.zoo.blocks.layers import (
    LLAMA_NAMES,
    full_and_sliding,
    gated,
    multi_head,
    one_module_per_kind,
    stack,
    windows,
)


def transform(c: Config, name: str) -> Transform:
    """A map, an activation and a norm of what logits are made of."""
    h = c.size("hidden_size")
    dense = Linear("dense", h, h, "", c.flag("classifier_bias"))
    return Transform(name, dense, a_norm("norm", c), c.word("classifier_activation"))


def words(name: str, *, shifted: bool) -> Top:
    """Logits of every token."""

    def top(c: Config, base: Module) -> Module:
        bias, tied = c.flag("decoder_bias"), c.flag("tie_word_embeddings")
        head = logits("decoder", c.size("hidden_size"), c.size("vocab_size"), bias=bias, tied=tied)
        return WithTransform("", base, head, shifted=shifted, transform=transform(c, name), inline=False)

    return top


def classes(count: int | None = None, *, reads: str = TOKENS, bias: str = "") -> Top:
    """Classes of what it ``reads``, behind the same transform; the field ``bias`` says whether they have one."""

    def top(c: Config, base: Module) -> Module:
        made = Linear("classifier", c.size("hidden_size"), count or labels(c), "", c.flag(bias) if bias else True)
        return Classifier("", base, transform(c, "head"), (made,), reads, dropped=bool(c.get("classifier_dropout")))

    return top


MODERNBERT_TOPS: dict[str, Top] = {
    "Model": bare,
    "ForMaskedLM": words("head", shifted=False),
    "ForSequenceClassification": classes(reads=FIRST),
    "ForTokenClassification": classes(),
    "ForQuestionAnswering": classes(),
    "ForMultipleChoice": classes(1, reads=FIRST),
}
DECODER_TOPS: dict[str, Top] = {
    "Model": bare,
    "ForCausalLM": words("lm_head", shifted=True),
    "ForSequenceClassification": classes(bias="classifier_bias"),
}


def nearby(c: Config) -> list[int | None]:
    """Window of each layer: all but every third layer see no further than half of ``local_attention``."""
    count, every = c.number("num_hidden_layers"), c.number("global_attn_every_n_layers")
    types = c.words("layer_types", count) if c.get("layer_types") else None
    slides = [place % every != 0 if types is None else types[place] == SLIDING for place in range(count)]
    width = c.number("local_attention") // 2
    return [width if slide else None for slide in slides]


def a_norm(name: str, c: Config) -> Norm:
    """A LayerNorm of the hidden size, with a bias or without (``norm_bias``)."""
    return Norm(name, "layernorm" if c.flag("norm_bias") else "layernorm-no-bias", c.size("hidden_size"))


def table(c: Config) -> Embeddings:
    """Words with a norm."""
    words = Embedding("tok_embeddings", c.size("vocab_size"), c.size("hidden_size"))
    return Embeddings("embeddings", (words,), a_norm("norm", c), bool(c.get("embedding_dropout")))


def modern(c: Config, names: Sequence[str], rope: Rope, *, causal: bool) -> Stack:
    """Layers of which the first has no norm before attention."""
    h, f, drops = c.size("hidden_size"), c.size("intermediate_size"), bool(c.get("attention_dropout"))
    bias, a = c.flag("attention_bias"), c.size("num_attention_heads")
    mixer = multi_head(Attention, "attn", names, h, a, rope.width, bias=bias, rope=rope, causal=causal, dropout=drops)
    ffn = gated("mlp", ("Wi", "Wo"), h, f, c.word("hidden_activation"), bias=c.flag("mlp_bias"))
    ffn = ffn.replace(dropout=bool(c.get("mlp_dropout")))

    def one(kind: tuple[bool, int | None]) -> PreNorm:
        first, window = kind
        norms = None if first else a_norm("attn_norm", c), a_norm("mlp_norm", c)
        return PreNorm("layers", (mixer.replace(window=window), ffn), norms, drops, undropped=("mlp",))

    return stack(c, one_module_per_kind(one, [(place == 0, window) for place, window in enumerate(nearby(c))]))


def rope(c: Config, *, by_sequence: bool = False) -> Rope:
    """Rotary embedding of whole heads, in fp32, with other angles in layers with a window."""
    return Rope(
        c.quotient("hidden_size", "num_attention_heads"),
        RopeCode(by_window=True, by_sequence=by_sequence, in_float32=True),
    )


@family(
    "modernbert",
    heads=MODERNBERT_TOPS,
    global_attn_every_n_layers=3,  # by __post_init__, for older configs
)
def modernbert(c: Config) -> Module:
    """Warner et al. 2024 (arXiv 2412.13663): no biases, a gated network, attention local in two layers of three."""
    layers = modern(c, ("Wqkv", "Wo"), rope(c), causal=False)
    return Encoder("model", table(c), (), layers, a_norm("final_norm", c))


@family(
    "modernbert-decoder",
    heads=DECODER_TOPS,
    global_attn_every_n_layers=3,  # by __post_init__, for older configs
)
def modernbert_decoder(c: Config) -> Module:
    """Weller et al. 2025 (Ettin, arXiv 2507.11412): ModernBERT as a decoder; two layers of three see a window."""
    layers = modern(c, ("q_proj", "k_proj", "v_proj", "Wo"), rope(c, by_sequence=True), causal=True)
    both = (None, c.number("local_attention") // 2)
    return Decoder("model", table(c), layers, a_norm("final_norm", c), masks=both)


# -- BERT with rotary positions


def rotary_bert(name: str, c: Config, ffn: Module, *, bias: bool, pooled: Sequence[str]) -> Encoder:
    """Words and token types, layers named as Llama's with BERT's norms; positions are rotated into attention."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), decoders.head_dim(c)
    mixer = multi_head(Attention, "self_attn", LLAMA_NAMES, h, a, d, bias=bias, rope=Rope(d), causal=False)
    mixer = mixer.replace(eager=OWN_SOFTMAX, dropout=bool(c.get("attention_probs_dropout_prob")))
    norms = encoders.norm(c, "post_attention_layernorm"), encoders.norm(c, "post_mlp_layernorm")
    layer = PostNorm("layers", (mixer, ffn), norms, encoders.drops(c), in_line=False)
    tables = (encoders.token_types(c, indices=EVERY),) if c.number("type_vocab_size", least=0) else ()
    reads = encoders.pooler(c, pooled)
    return Encoder(name, encoders.embeddings(c, *tables), (), stack(c, layer), pooler=reads, pools=c.head in pooled)


def network(c: Config, *, down_bias: bool, dropped: bool = False) -> GatedFeedForward:
    """A gated network without biases, but for that of the last map."""
    made = decoders.gated(c)
    return made.replace(down=made.down.replace(bias=down_bias), dropout=dropped)


NOMIC_TOPS: dict[str, Top] = encoders.TASKS | encoders.lm(
    encoders.predictions("cls.predictions", ("transform.dense", "transform.layer_norm", "decoder"))
)
CLASSIFIES = ("ForSequenceClassification",)


@family("nomic_bert", architecture="NomicBertModel", heads=NOMIC_TOPS)
def nomic_bert(c: Config) -> Module:
    """Nussbaum et al. 2024 (arXiv 2402.01613): rotary positions, SwiGLU, no biases; only a classifier has a pooler."""
    return rotary_bert("nomic_bert", c, network(c, down_bias=False), bias=False, pooled=CLASSIFIES)


def words_and_bias(c: Config) -> Predictions:
    """A map, an activation and a norm, then logits; only the matrix may be the words' own."""
    h = c.size("hidden_size")
    decoder = logits("decoder", h, c.size("vocab_size"), bias=True, tied=c.flag("tie_word_embeddings"))
    dense = Linear("dense", h, h, "", True)
    return Predictions("lm_head", dense, encoders.norm(c, "layer_norm"), decoder, None, "gelu")


@family("gte", heads=encoders.TASKS | encoders.lm(words_and_bias))
def gte(c: Config) -> Module:
    """Zhang et al. 2024 (mGTE, arXiv 2407.19669): rotary positions, a gated network; only a classifier has a pooler."""
    ffn = network(c, down_bias=True, dropped=encoders.drops(c))
    return rotary_bert("gte", c, ffn, bias=True, pooled=CLASSIFIES)


@family("jina_embeddings_v3", heads=encoders.ROBERTA_TOPS)
def jina_embeddings_v3(c: Config) -> Module:
    """Sturua et al. 2024 (arXiv 2409.10173): XLM-R with rotary positions."""
    return rotary_bert("roberta", c, decoders.plain(c, bias=True, names=("fc1", "fc2")), bias=True, pooled=("Model",))


# -- Llama as an encoder


def through_bottleneck(c: Config) -> Predictions:
    """Logits of the words, after two maps through a narrower width."""
    h, narrow = c.size("hidden_size"), c.size("prediction_head_size")
    decoder = logits("decoder", h, c.size("vocab_size"), tied=c.flag("tie_word_embeddings"))
    down, back = Linear("linear1", h, narrow), Linear("linear2", narrow, h)
    return NarrowPredictions("head", down, None, decoder, None, "gelu_pytorch_tanh", back=back)


ULTRABERT_TOPS: dict[str, Top] = {
    "Model": bare,
    "ForMaskedLM": encoders.masked_upcast(through_bottleneck),
    "ForSequenceClassification": encoders.classes("classifier", reads=FIRST, dropped="classifier_dropout"),
    "ForTokenClassification": encoders.classes("classifier", dropped="classifier_dropout"),
    "ForQuestionAnswering": encoders.ANSWER,
}


@family("ultrabert", heads=ULTRABERT_TOPS)
def ultrabert(c: Config) -> Module:
    """Transformers' UltrabertModel: Llama that looks both ways, in two layers of three only nearby."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), causal=False).replace(
        rope=decoders.rope(c, by_window=True)
    )
    layer = decoders.layer(c, mixer, decoders.gated(c, bias=c.flag("mlp_bias")))
    return decoders.decoder(
        c, decoders.with_windows(layer, windows(c, lambda place: (place + 1) % 3 > 0)), masks=full_and_sliding(c)[1:]
    )
