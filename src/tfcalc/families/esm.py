"""ESM: language models of proteins."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.component import Component
from tfcalc.core.number import floor_div
from tfcalc.families.bert import attention, cross_attention, embeddings, layers, pooler, positions, stacked
from tfcalc.families.bert_heads import TASKS, dense_classes, lm, on_top, transform
from tfcalc.families.config import Config
from tfcalc.families.family import Head, family
from tfcalc.families.heads import output
from tfcalc.leaves import buffer, linear, norm, parameter
from tfcalc.workload import Workload


def amino_acids(c: Config, run: Workload) -> Iterator[Component]:
    """Predictions as in RoBERTa, with one bias whether the matrix is tied or not."""
    h, vocabulary = c.size("hidden_size"), c.size("vocab_size")
    decoder = output("decoder", h, vocabulary, run, tied=c.flag("tie_word_embeddings"))
    parts = (
        *transform(c, run, h, ("dense", "layer_norm"), "gelu"),
        decoder,
        parameter("bias", vocabulary, minor=True),
    )
    yield Component("lm_head", "head", parts=parts)


HEADS: dict[str, Head] = {**TASKS, **lm(amino_acids), "ForSequenceClassification": on_top(dense_classes())}


@family(
    "esm",
    architecture="EsmForMaskedLM",
    heads=HEADS,
    vocab_size=33,  # of all published ones; transformers has no default
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    hidden_act="gelu",
    max_position_embeddings=1026,
    position_embedding_type="absolute",
    emb_layer_norm_before=False,
    tie_word_embeddings=True,
)
def esm(c: Config, run: Workload) -> Component:
    """Lin et al. 2022 (ESM-2, Science 379): norms before the sub-layers and after the last one.

    Every class has the regression that tells which residues touch each other; no forward pass runs it.
    """
    n, a = c.size("num_hidden_layers"), c.size("num_attention_heads")
    norms = ("attention.LayerNorm", "crossattention.LayerNorm", "LayerNorm")
    stack = layers(c, run, attention(c, run), norms=norms, cross=cross_attention(c, run))
    last = norm("emb_layer_norm_after", "layernorm", c.size("hidden_size"), run.target.tokens)
    return Component(
        "esm",
        "encoder",
        parts=(
            residues(c, run),
            *frequencies(c),
            stacked(stack, last),
            *pooler(c, run, ("Model",)),
            linear("contact_head.regression", n * a, 1, 0),
        ),
    )


def residues(c: Config, run: Workload) -> Component:
    """A vector of each residue, and of its position where that is ``absolute``."""
    tables = (positions(c, run),) if placed(c) == "absolute" else ()
    return embeddings(c, run, *tables, normed="layer_norm" if c.flag("emb_layer_norm_before") else "")


def frequencies(c: Config) -> tuple[Component, ...]:
    """Those of the rotation, half as many as a head is wide: ESM is one of few that store them."""
    if placed(c) != "rotary":
        return ()
    return (buffer("rotary_embeddings.inv_freq", floor_div(c.quotient("hidden_size", "num_attention_heads") + 1, 2)),)


def placed(c: Config) -> str:
    """How positions are told."""
    return "absolute" if c.get("position_embedding_type") is None else c.word("position_embedding_type")
