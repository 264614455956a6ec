"""DeBERTa: relative positions, compared with content in a way of their own."""

from __future__ import annotations

from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, labels
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.families import bert_kit as kit
from tfcalc.families.bert_tops import MASKED, TASKS, predicted
from tfcalc.nn.basic import Embedding, Linear, parameter
from tfcalc.nn.deberta import ByDistance, MaskedEmbeddings, TokenConvolution
from tfcalc.nn.disentangled import C2P, P2C, Disentangled
from tfcalc.nn.embeddings import TOKENS
from tfcalc.nn.encoder import Encoder
from tfcalc.nn.heads import FIRST, Classifier
from tfcalc.nn.model import Predictions, WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.printable import quoted

KINDS = (C2P, P2C)
CODE = "deviations twice"


def width_of_words(c: Config) -> Num:
    """``embedding_size``, where a config has one."""
    return c.size("hidden_size" if c.get("embedding_size") is None else "embedding_size")


def of_first_token(count: int | None = None) -> Top:
    """Classes of a map of the first token's vector, which stands beside the base model."""

    def top(c: Config, base: Module) -> Module:
        h = c.size("hidden_size")
        width = h if c.get("pooler_hidden_size") is None else c.size("pooler_hidden_size")
        maps = Linear("pooler.dense", width, width, "", True), Linear("classifier", h, count or labels(c), "", True)
        drops, undropped = kit.drops(c), ("pooler.dense",)
        return Classifier("", base, None, maps, FIRST, c.word("pooler_hidden_act"), drops, undropped)

    return top


def masked_words(c: Config, base: Module) -> Module:
    """Predictions as in BERT (``legacy``), or always by the words' own vectors."""
    if c.flag("legacy"):
        return WithHead("", base, predicted("cls.predictions", c, width_of_words(c)), **MASKED)
    h, vocabulary = c.size("hidden_size"), c.size("vocab_size")
    tied = Linear("decoder", h, vocabulary, "vocab", False, "embedding", "output")
    dense, bias = Linear("dense", h, h, "", True), parameter("bias", vocabulary, minor=True)
    norm, name = kit.norm(c, "LayerNorm"), "lm_predictions.lm_head"
    return WithHead("", base, Predictions(name, dense, norm, tied, bias, c.word("hidden_act")), **MASKED)


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
        *([kit.positions(c, width=e)] if c.flag("position_biased_input") else []),
        *([kit.token_types(c, width=e, indices=TOKENS)] if c.number("type_vocab_size", least=0) else []),
    )
    widened = Linear("embed_proj", e, h) if narrow else None
    return MaskedEmbeddings(
        "embeddings", tables, kit.norm(c, "LayerNorm").but(code=code), kit.drops(c), widened=widened
    )


def kinds(c: Config) -> tuple[str, ...]:
    """``pos_att_type``: ``"c2p|p2c"`` or a list; none where attention is not relative."""
    given = c.get("pos_att_type") or []
    listed = [word.strip() for word in given.lower().split("|")] if isinstance(given, str) else given
    if not isinstance(listed, list):
        raise InvalidModel(f"{c.path('pos_att_type')} {quoted(given)} is not a list", 'write ["c2p", "p2c"]')
    return tuple(kind for kind in KINDS if kind in listed) if c.flag("relative_attention") else ()


def reach(c: Config, *fields: str) -> Num:
    """How far apart two tokens are told to be, each way: by the first of these fields that is positive."""
    for field in fields:
        if c.number(field, least=-1) > 0:
            return c.size(field)
    return c.size("max_position_embeddings")


def mixer(c: Config, d: Num, maps: tuple[Linear, ...], positions: dict[str, Linear], **more: Any) -> Disentangled:
    """Attention by content and by distances, of heads of width ``d``."""
    h, a = c.size("hidden_size"), c.size("num_attention_heads")
    asked = tuple((kind, positions[kind]) for kind in kinds(c))
    drops: dict[str, Any] = {"dropout": bool(c.get("attention_probs_dropout_prob")), "drops_vectors": kit.drops(c)}
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
    layers = kit.stack(c, mixed)
    normed = layers.layers[0].but(norms=tuple(kit.norm(c, name).but(code=CODE) for name in kit.POST_NORM[::2]))
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
        kit.stack(c, mixed),
        vectors=distances(c, rows),
        vectors_norm=kit.norm(c, "LayerNorm") if normed else None,
        convolution=convolution(c) if convolves else None,
        convolution_norm=kit.norm(c, "conv.LayerNorm") if convolves else None,
        activation=c.word("conv_act"),
        dropped=kit.drops(c),
    )
    return Encoder("deberta", words(c), (), layers)


def convolution(c: Config) -> TokenConvolution:
    """One beside the first layer."""
    c.quotient("hidden_size", "conv_groups")  # groups of channels must be of one size
    return TokenConvolution("conv.conv", c.size("hidden_size"), c.size("conv_kernel_size"), c.size("conv_groups"))
