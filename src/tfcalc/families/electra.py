"""BERTs whose words' vectors have a width of their own: ALBERT, ELECTRA, ConvBERT, RemBERT, RoFormer."""

from __future__ import annotations

from collections import Counter

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top
from tfcalc.core.number import Num, floor_div
from tfcalc.errors import InvalidModel
from tfcalc.families import bert_kit as kit
from tfcalc.families import bert_tops as tops
from tfcalc.families.bert_kit import PAIRED
from tfcalc.families.layers import by_kind
from tfcalc.nn.attention import OWN_SOFTMAX
from tfcalc.nn.basic import Linear, parameter
from tfcalc.nn.embeddings import BUFFER, PLACES, AngleTable, Embeddings
from tfcalc.nn.embeddings import TOKENS as EVERY
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.grouped import GroupedLinear, GroupedMap
from tfcalc.nn.heads import POOLED, TOKENS
from tfcalc.nn.layers import PostNorm
from tfcalc.nn.mixed import ChannelConvolution, MixedAttention, Nearby
from tfcalc.nn.model import Predictions
from tfcalc.nn.module import Module
from tfcalc.nn.repeated import Repeated
from tfcalc.nn.rope import Rope
from tfcalc.nn.stack import Stack


def width_of_words(c: Config) -> Num:
    """``embedding_size``, where a config has one."""
    return c.size("hidden_size" if c.get("embedding_size") is None else "embedding_size")


def summed_choice(c: Config, base: Module) -> Module:
    """One number of each sequence, of a map of the first token's vector (``summary_use_proj``)."""
    names = ("sequence_summary.summary", "classifier") if c.flag("summary_use_proj") else ("classifier",)
    return tops.dense_classes(names, 1, act="gelu", dropped="")(c, base)


ALBERT_PREDICTIONS = tops.predictions("predictions", ("dense", "LayerNorm", "decoder"), width="embedding_size")
DROPPED = "classifier_dropout_prob"
ALBERT_TOPS: dict[str, Top] = {
    **tops.TASKS,
    **tops.lm(ALBERT_PREDICTIONS),
    "ForSequenceClassification": tops.classes("classifier", reads=POOLED, dropped=DROPPED),
    "ForMultipleChoice": tops.classes("classifier", 1, reads=POOLED, dropped=DROPPED),
    "ForPreTraining": tops.pretraining(ALBERT_PREDICTIONS, "sop_classifier.classifier", None),
}
GROUPED = ("num_hidden_layers", "num_hidden_groups")


@family("albert", heads=ALBERT_TOPS)
def albert(c: Config) -> Module:
    """Lan et al. 2019 (arXiv 1909.11942): one group of layers (``num_hidden_groups``) is run again and again."""
    e, h, n, groups = c.size("embedding_size"), c.size("hidden_size"), *map(c.number, GROUPED)
    runs = Counter(layer * groups // n for layer in range(n))
    inner = Stack("albert_layers", (albert_layer(c),) * c.number("inner_group_num"), c.size("inner_group_num"))

    times = [runs[group] for group in range(groups)]

    def group(turns: int) -> Module:
        return Repeated("albert_layer_groups", inner, c.quotient(*GROUPED) if len(set(times)) == 1 else turns)

    repeated = Stack("albert_layer_groups", tuple(by_kind(group, times)), c.size("num_hidden_groups"))
    widen = Linear("embedding_hidden_mapping_in", e, h, "", True)
    pooler = kit.pooler(c, PAIRED, "pooler")
    return Encoder(
        "albert", narrow(c), (), Layers("encoder", (widen,), repeated), pooler=pooler, pools=c.head in PAIRED
    )


def albert_layer(c: Config) -> PostNorm:
    """Attention and a network, whose names do not tell what they are."""
    mixer = kit.attention(c, names=("query", "key", "value", "dense"))
    ffn, norms = kit.network(c, names=("ffn", "ffn_output")), ("attention.LayerNorm", "full_layer_layer_norm")
    made = tuple(kit.norm(c, name) for name in norms)
    return PostNorm("albert_layers", (mixer, ffn), made, kit.drops(c), undropped=("(ffn)",))


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


def narrow(c: Config, width: Num | None = None, indices: str = "") -> Embeddings:
    """Words, positions and token types of a width of their own."""
    e = width_of_words(c) if width is None else width
    indices = indices or (PLACES if width is None else EVERY)
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


CONVBERT_TOPS: dict[str, Top] = {
    **{name: top for name, top in GENERATOR_TOPS.items() if name != "ForPreTraining"},
    "ForSequenceClassification": tops.dense_classes(act=""),
}


@family("convbert", heads=CONVBERT_TOPS)
def convbert(c: Config) -> Module:
    """Jiang et al. 2020 (arXiv 2008.02496): half of each layer's heads are convolutions; none reads a memory."""
    memory = mixed_attention("crossattention", c).but(reads=False) if kit.cross_attention(c) else None
    for width in ("hidden_size", "intermediate_size"):
        c.quotient(width, "num_groups")
    groups, ffn = c.size("num_groups"), kit.network(c)
    if c.number("num_groups") > 1:
        up, down = (GroupedLinear(m.name, m.fan_in, m.fan_out, "", True, groups=groups) for m in (ffn.up, ffn.down))
        ffn = ffn.but(up=up, down=down)
    layers = kit.stack(c, mixed_attention("attention", c), ffn=ffn, cross=memory)
    return Encoder("convbert", narrow(c, indices=BUFFER), to_hidden(c), Layers("encoder", (), layers))


def mixed_attention(name: str, c: Config) -> MixedAttention:
    """Attention of a part of the heads (one for every ``head_ratio``), beside convolutions."""
    heads = max(c.number("num_attention_heads") // c.number("head_ratio"), 1)
    if c.number("hidden_size") % (2 * heads):
        raise InvalidModel(
            f"{c.path('hidden_size')} {c.number('hidden_size')} is not divisible by 2 × {heads} heads",
            "give a multiple of it",
        )
    h, k = c.size("hidden_size"), c.size("conv_kernel_size")
    d = floor_div(h, 2 * heads)
    half, conv = heads * d, "self.key_conv_attn_layer"
    inward = tuple(Linear(f"self.{part}", h, half, part[0].upper(), True) for part in ("query", "key", "value"))
    return MixedAttention(
        name,
        heads,
        heads,
        d,
        d,
        inward,
        (),
        Linear("output.dense", h, h, "O", True),
        dropout=bool(c.get("attention_probs_dropout_prob")),
        eager=OWN_SOFTMAX,
        nearby=Nearby(
            "",
            ChannelConvolution(f"{conv}.depthwise", h, k),
            GroupedMap(f"{conv}.pointwise", h, half),
            parameter(f"{conv}.bias", half, 1, minor=True),
            Linear("self.conv_kernel_layer", half, heads * k, "", True),
            Linear("self.conv_out_layer", h, half, "", True),
            k,
        ),
    )


def rembert_predictions(c: Config) -> Predictions:
    """Logits by a matrix of its own."""
    e, kind = c.size("output_embedding_size"), c.word("hidden_act")
    dense = Linear("dense", c.size("hidden_size"), e, "", True)
    decoder = Linear("decoder", e, c.size("vocab_size"), "vocab", True, None, "output")
    return Predictions("cls.predictions", dense, kit.norm(c, "LayerNorm", e), decoder, None, kind)


@family("rembert", heads=tops.TASKS | tops.lm(rembert_predictions))
def rembert(c: Config) -> Module:
    """Chung et al. 2020 (arXiv 2010.12821): narrow words at the input, wide ones at the output, never tied."""
    e = c.size("input_embedding_size")
    widen = Linear("embedding_hidden_mapping_in", e, c.size("hidden_size"), "", True)
    layers = Layers("encoder", (widen,), kit.stack(c, kit.attention(c), cross=kit.cross_attention(c)))
    return Encoder("rembert", narrow(c, e), (), layers, pooler=kit.pooler(c, PAIRED), pools=c.head in PAIRED)


def of_narrow_words(c: Config) -> Predictions:
    """Logits by the words' own vectors, however wide these are."""
    return tops.predicted("cls.predictions", c, width_of_words(c))


ROFORMER_TOPS: dict[str, Top] = {
    **tops.TASKS,
    **tops.lm(of_narrow_words),
    "ForSequenceClassification": tops.dense_classes(act=""),
    "ForMultipleChoice": summed_choice,
    "ForQuestionAnswering": tops.ANSWER,
}


@family("roformer", heads=ROFORMER_TOPS)
def roformer(c: Config) -> Module:
    """Su et al. 2021 (arXiv 2104.09864): rotary positions; their sines are a parameter, though not trained."""
    e, d = width_of_words(c), c.quotient("hidden_size", "num_attention_heads")
    sines = AngleTable("embed_positions", c.size("max_position_embeddings"), d)
    layers = kit.stack(c, kit.attention(c, rope=Rope(d, by_layer=True)), cross=kit.cross_attention(c))
    words = kit.embeddings(c, kit.token_types(c, width=e, indices=EVERY), width=e)
    return Encoder("roformer", words, to_hidden(c), Layers("encoder", (sines,), layers))
