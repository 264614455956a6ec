"""DeBERTa: relative positions, compared with content in a way of their own."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks.disentangled_attention import DisentangledAttention
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.configs.heads import output
from tfcalc.core.component import Component
from tfcalc.core.number import Num, minimum
from tfcalc.errors import InvalidModel
from tfcalc.families.bert import layers, positions, stacked, token_types, width_of_words
from tfcalc.families.bert_heads import TASKS, classes, on_top, predicted, transform
from tfcalc.leaves import activation, convolution, embedding, linear, norm, parameter
from tfcalc.printable import quoted
from tfcalc.workload import Workload

KINDS = ("c2p", "p2c")


def first_token(c: Config, run: Workload) -> Iterator[Component]:
    """A map of the first token's vector, beside the base model."""
    width = c.size("hidden_size" if c.get("pooler_hidden_size") is None else "pooler_hidden_size")
    yield linear("pooler.dense", width, width, run.target.batch)


def masked_words(c: Config, run: Workload) -> Iterator[Component]:
    """Predictions as in BERT (``legacy``), or always by the words' own vectors."""
    if c.flag("legacy"):
        yield predicted("cls.predictions", c, run, width_of_words(c))
        return
    h = c.size("hidden_size")
    tied = output("decoder", h, c.size("vocab_size"), run, tied=True)
    bias = parameter("bias", c.size("vocab_size"), minor=True)
    parts = (*transform(c, run, h, ("dense", "LayerNorm")), tied, bias)
    yield Component("lm_predictions.lm_head", "head", parts=parts)


HEADS: dict[str, Head] = {
    **TASKS,
    "ForMaskedLM": on_top(masked_words),
    "ForSequenceClassification": on_top(first_token, classes("classifier", pooled=True)),
    "ForMultipleChoice": on_top(first_token, classes("classifier", 1, pooled=True)),
}


def words(c: Config, run: Workload) -> Component:
    """Words, positions and token types where there are any, and a map to the hidden size where they are narrower."""
    e, h, tokens = width_of_words(c), c.size("hidden_size"), run.target.tokens
    narrow = c.get("embedding_size") is not None and c.number("embedding_size") != c.number("hidden_size")
    parts = (
        embedding("word_embeddings", c.size("vocab_size"), e, tokens),
        *([positions(c, run, width=e)] if c.flag("position_biased_input") else []),
        *([token_types(c, run, width=e)] if c.number("type_vocab_size", least=0) else []),
        *([linear("embed_proj", e, h, tokens, bias=False)] if narrow else []),
        norm("LayerNorm", "layernorm", h, tokens),
    )
    return Component("embeddings", "embeddings", parts=parts)


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


def mixer(c: Config, run: Workload, rows: Num, width: Num | None = None, **flags: bool) -> Component:
    """Attention by content and by ``rows`` distances; ``width`` is a head's, if not the hidden size's share."""
    h, a = c.size("hidden_size"), c.size("num_attention_heads")
    d = c.quotient("hidden_size", "num_attention_heads") if width is None else width
    return DisentangledAttention(h, a, d, rows, kinds(c), **flags)("attention", run.target, run)


def distances(c: Config, rows: Num) -> tuple[Component, ...]:
    """A vector for each distance, if attention is relative."""
    return (embedding("rel_embeddings", rows, c.size("hidden_size"), rows),) if c.flag("relative_attention") else ()


@family("deberta", architecture="DebertaModel", heads=HEADS)
def deberta(c: Config, run: Workload) -> Component:
    """He et al. 2020 (arXiv 2006.03654): no pooler in the base model, positions relative, no further than there are."""
    far = reach(c, "max_relative_positions")
    rows = 2 * far
    made = layers(
        c, run, mixer(c, run, 2 * minimum(run.target.length, far), fused=True, talking=c.flag("talking_head"))
    )
    return Component("deberta", "encoder", parts=(words(c, run), stacked(made, *distances(c, rows))))


@family(
    "deberta-v2",
    architecture="DebertaV2Model",
    heads=HEADS,
    # read by getattr in the model's code:
    position_buckets=-1,
    norm_rel_ebd="none",
    conv_kernel_size=0,
    conv_groups=1,
    conv_act="tanh",
)
def deberta_v2(c: Config, run: Workload) -> Component:
    """He et al. 2021 (arXiv 2111.09543): distances in buckets, a norm of their vectors, a convolution."""
    h, rows = c.size("hidden_size"), 2 * reach(c, "position_buckets", "max_relative_positions")
    made = layers(c, run, mixer(c, run, rows, c.optional("attention_head_size"), shared=c.flag("share_att_key")))
    normed = "layer_norm" in [word.strip() for word in c.word("norm_rel_ebd").lower().split("|")]
    parts = (
        made,
        *distances(c, rows),
        *([norm("LayerNorm", "layernorm", h, rows)] if normed else []),
        *(convolved(c, run) if c.number("conv_kernel_size", least=-1) > 0 else ()),
    )
    return Component("deberta", "encoder", parts=(words(c, run), stacked(*parts)))


def convolved(c: Config, run: Workload) -> Iterator[Component]:
    """A convolution beside the first layer, and the norm of both together."""
    h, tokens = c.size("hidden_size"), run.target.tokens
    c.quotient("hidden_size", "conv_groups")  # groups of channels must be of one size
    yield convolution("conv.conv", h, h, (c.size("conv_kernel_size"),), tokens, groups=c.size("conv_groups"))
    yield activation("conv.activation", c.word("conv_act"), tokens * h)
    yield norm("conv.LayerNorm", "layernorm", h, tokens)
