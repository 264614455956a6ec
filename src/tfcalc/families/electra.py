"""BERTs whose words' vectors have a width of their own: ALBERT, ELECTRA, ConvBERT, RemBERT, RoFormer."""

from __future__ import annotations

from tfcalc.blocks import stack
from tfcalc.blocks.grouped_projections import GroupedFeedForward
from tfcalc.blocks.mixed_attention import MixedAttention
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.configs.tops import Top
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.families import bert_kit as kit
from tfcalc.families import bert_tops as tops
from tfcalc.families.bert import (
    FFN,
    PAIRED,
    attention,
    cross_attention,
    embeddings,
    feed_forward,
    grouped_by,
    layers,
    nothing,
    pooler,
    positions,
    stacked,
    token_types,
    width_of_words,
)
from tfcalc.families.bert_heads import (
    ANSWER,
    TASKS,
    apart,
    classes,
    dense_classes,
    lm,
    on_top,
    predicted,
    predictions,
)
from tfcalc.leaves import linear, sinusoidal_position
from tfcalc.nn.basic import Linear
from tfcalc.nn.embeddings import PLACES, Embeddings
from tfcalc.nn.embeddings import TOKENS as EVERY
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.heads import TOKENS
from tfcalc.nn.model import Predictions
from tfcalc.nn.module import Module
from tfcalc.workload import Sequences, Workload


def summed_choice(c: Config, base: Module) -> Module:
    """One number of each sequence, of a map of the first token's vector (``summary_use_proj``)."""
    names = ("sequence_summary.summary", "classifier") if c.flag("summary_use_proj") else ("classifier",)
    return tops.dense_classes(names, 1, act="gelu", dropped="")(c, base)


ALBERT_PREDICTIONS = predictions("predictions", ("dense", "LayerNorm", "decoder"), width="embedding_size")
ALBERT_HEADS: dict[str, Head] = {
    **TASKS,
    **lm(ALBERT_PREDICTIONS),
    "ForPreTraining": on_top(ALBERT_PREDICTIONS, classes("sop_classifier.classifier", pooled=True)),
}
GROUPED = ("num_hidden_layers", "num_hidden_groups")
GENERATOR = apart(
    ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head"),
    width="embedding_size",
    act="gelu",
)


def summary(c: Config, run: Workload) -> tuple[Component, ...]:
    """A map of the first token's vector (``summary_use_proj``)."""
    h = c.size("hidden_size")
    return (linear("sequence_summary.summary", h, h, run.target.batch),) if c.flag("summary_use_proj") else ()


GENERATOR_HEADS: dict[str, Head] = {
    **TASKS,
    **lm(GENERATOR),
    "ForSequenceClassification": on_top(dense_classes()),
    "ForMultipleChoice": on_top(summary, classes("classifier", 1, pooled=True)),
}


def narrow_words(c: Config, run: Workload, width: Num | None = None) -> Component:
    """Words, positions and token types of a width of their own."""
    e = width_of_words(c) if width is None else width
    return embeddings(c, run, positions(c, run, width=e), token_types(c, run, width=e), width=e)


def widened(c: Config, run: Workload) -> tuple[Component, ...]:
    """The map to the hidden size, where the widths differ."""
    if c.get("embedding_size") is None or c.number("embedding_size") == c.number("hidden_size"):
        return ()
    return (linear("embeddings_project", c.size("embedding_size"), c.size("hidden_size"), run.target.tokens),)


@family("albert", architecture="AlbertForMaskedLM", heads=ALBERT_HEADS)
def albert(c: Config, run: Workload) -> Component:
    """Lan et al. 2019 (arXiv 1909.11942): one group of layers (``num_hidden_groups``) is run again and again."""
    e, h, n, groups = c.size("embedding_size"), c.size("hidden_size"), *map(c.number, GROUPED)
    runs = [[layer * groups // n for layer in range(n)].count(group) for group in range(groups)]

    def group(times: int) -> Component:
        passes = c.quotient(*GROUPED) if len(set(runs)) == 1 else times
        return Component("group", "layer", parts=(albert_layer(c, run),), passes=passes)

    repeated = stack("albert_layer_groups", runs, c.size("num_hidden_groups"), group)
    widen = linear("embedding_hidden_mapping_in", e, h, run.target.tokens)
    return Component(
        "albert",
        "encoder",
        parts=(narrow_words(c, run), stacked(widen, *repeated), *pooler(c, run, PAIRED, "pooler")),
    )


def albert_layer(c: Config, run: Workload) -> Component:
    """``inner_group_num`` layers, each with weights of its own."""
    mixer = attention(c, run, names=("query", "key", "value", "dense"))
    norms = ("attention.LayerNorm", "", "full_layer_layer_norm")
    made = layers(c, run, mixer, norms=norms, ffn=feed_forward(c, run, names=("ffn", "ffn_output")))
    return made._replace(name="albert_layers", copies=c.size("inner_group_num"))


GENERATOR_TOPS: dict[str, Top] = {
    **tops.TASKS,
    **tops.apart(
        ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head"),
        width="embedding_size",
        act="gelu",
    ),
    "ForSequenceClassification": tops.dense_classes(act="gelu"),
    "ForMultipleChoice": summed_choice,
    "ForPreTraining": tops.dense_classes(
        ("discriminator_predictions.dense", "discriminator_predictions.dense_prediction"),
        1,
        reads=TOKENS,
        dropped="",
        act="",
    ),
}


def narrow(c: Config, width: Num | None = None) -> Embeddings:
    """Words, positions and token types of a width of their own."""
    e = width_of_words(c) if width is None else width
    indices = PLACES if width is None else EVERY
    return kit.embeddings(c, kit.positions(c, width=e), kit.token_types(c, width=e, indices=indices), width=e)


def to_hidden(c: Config) -> tuple[Linear, ...]:
    """The map to the hidden size, where the widths differ."""
    if c.get("embedding_size") is None or c.number("embedding_size") == c.number("hidden_size"):
        return ()
    return (Linear("embeddings_project", c.size("embedding_size"), c.size("hidden_size"), "", True),)


@family("electra", architecture="ElectraForPreTraining", heads=GENERATOR_TOPS)
def electra(c: Config) -> Module:
    """Clark et al. 2020 (arXiv 2003.10555): BERT without a pooler; it tells real words from those of a generator."""
    memory = kit.cross_attention(c, readers=("Model", "ForCausalLM"))
    layers = kit.stack(c, kit.attention(c), cross=memory)
    return Encoder("electra", narrow(c), to_hidden(c), Layers("encoder", (), layers))


@family("convbert", architecture="ConvBertForMaskedLM", heads=GENERATOR_HEADS)
def convbert(c: Config, run: Workload) -> Component:
    """Jiang et al. 2020 (arXiv 2008.02496): half of each layer's heads are convolutions; none reads a memory."""
    h, f = c.size("hidden_size"), c.size("intermediate_size")
    cross = mixed_attention("crossattention", c, nothing(run), run) if cross_attention(c, run) else None
    groups = grouped_by(c, "num_groups", "hidden_size", "intermediate_size")
    ffn = GroupedFeedForward(h, f, c.word("hidden_act"), (groups, groups), FFN, convolved=False)("(ffn)", run.target)
    body = layers(c, run, mixed_attention("attention", c, run.target, run), ffn=ffn, cross=cross)
    return Component("convbert", "encoder", parts=(narrow_words(c, run), *widened(c, run), stacked(body)))


def mixed_attention(name: str, c: Config, stream: Sequences, run: Workload) -> Component:
    """Attention of a part of the heads (one for every ``head_ratio``), beside convolutions."""
    heads = max(c.number("num_attention_heads") // c.number("head_ratio"), 1)
    if c.number("hidden_size") % (2 * heads):
        raise InvalidModel(
            f"{c.path('hidden_size')} {c.number('hidden_size')} is not divisible by 2 × {heads} heads",
            "give a multiple of it",
        )
    return MixedAttention(c.size("hidden_size"), heads, c.size("conv_kernel_size"))(name, stream, run)


def rembert_predictions(c: Config) -> Predictions:
    """Logits by a matrix of its own."""
    e, kind = c.size("output_embedding_size"), c.word("hidden_act")
    dense = Linear("dense", c.size("hidden_size"), e, "", True)
    decoder = Linear("decoder", e, c.size("vocab_size"), "vocab", True, None, "output")
    return Predictions("cls.predictions", dense, kit.norm(c, "LayerNorm", e), decoder, None, kind)


@family("rembert", architecture="RemBertForCausalLM", heads=tops.TASKS | tops.lm(rembert_predictions))
def rembert(c: Config) -> Module:
    """Chung et al. 2020 (arXiv 2010.12821): narrow words at the input, wide ones at the output, never tied."""
    e = c.size("input_embedding_size")
    widen = Linear("embedding_hidden_mapping_in", e, c.size("hidden_size"), "", True)
    layers = Layers("encoder", (widen,), kit.stack(c, kit.attention(c), cross=kit.cross_attention(c)))
    return Encoder("rembert", narrow(c, e), (), layers, pooler=kit.pooler(c, PAIRED), pools=c.head in PAIRED)


ROFORMER_HEADS: dict[str, Head] = {
    **GENERATOR_HEADS,
    **lm(lambda c, run: [predicted("cls.predictions", c, run, width_of_words(c))]),
    "ForQuestionAnswering": ANSWER,
}


@family("roformer", architecture="RoFormerForCausalLM", heads=ROFORMER_HEADS)
def roformer(c: Config, run: Workload) -> Component:
    """Su et al. 2021 (arXiv 2104.09864): rotary positions; their sines are a parameter, though not trained."""
    e, d = width_of_words(c), c.quotient("hidden_size", "num_attention_heads")
    places, tokens = c.size("max_position_embeddings"), run.target.tokens
    sines = sinusoidal_position("embed_positions", places, d, tokens, stored="parameter")
    body = layers(c, run, attention(c, run, rotated=True), cross=cross_attention(c, run))
    words = embeddings(c, run, token_types(c, run, width=e), width=e)
    return Component("roformer", "encoder", parts=(words, *widened(c, run), stacked(sines, body)))
