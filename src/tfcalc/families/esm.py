"""ESM: language models of proteins."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.configs.heads import output
from tfcalc.core.component import Component
from tfcalc.core.number import floor_div
from tfcalc.errors import InvalidModel
from tfcalc.families import llama
from tfcalc.families.bert import attention, cross_attention, embeddings, layers, pooler, positions, stacked
from tfcalc.families.bert_heads import TASKS, classes, dense_classes, lm, on_top, transform
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


@family("esm", architecture="EsmForMaskedLM", heads=HEADS, vocab_size=33, hidden_act="gelu")
def esm(c: Config, run: Workload) -> Component:
    """Lin et al. 2022 (ESM-2, Science 379): norms before the sub-layers and after the last one.

    Every class has the regression that tells which residues touch each other; no forward pass runs it.
    """
    n, a = c.size("num_hidden_layers"), c.size("num_attention_heads")
    norms = ("attention.LayerNorm", "crossattention.LayerNorm", "LayerNorm")
    mixer = attention(c, run, rotated=placed(c) == "rotary")
    stack = layers(c, run, mixer, norms=norms, cross=cross_attention(c, run), pre_norm=True)
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


def amino_acids_untied(c: Config, run: Workload) -> Iterator[Component]:
    """Predictions by a matrix of their own."""
    h = c.size("hidden_size")
    decoder = output("decoder", h, c.size("vocab_size"), run, tied=False, bias=True)
    yield Component("lm_head", "head", parts=(*transform(c, run, h, ("dense", "layer_norm"), "gelu"), decoder))


@family(
    "esmc",
    architecture="EsmcForMaskedLM",
    heads={
        **TASKS,
        **lm(amino_acids_untied),
        "ForSequenceClassification": on_top(dense_classes()),
        "ForTokenClassification": on_top(classes("score")),
    },
)
def esmc(c: Config, run: Workload) -> Component:
    """ESM Cambrian (EvolutionaryScale 2024): Llama that looks both ways, with LayerNorms, of queries and keys too."""
    if c.optional("num_key_value_heads") is not None and c.number("num_key_value_heads") != c.number(
        "num_attention_heads"
    ):
        raise InvalidModel(f"{c.path('num_key_value_heads')} must be num_attention_heads", "leave it out")
    h, tokens = c.size("hidden_size"), run.target.tokens
    within = tuple(norm(f"{part}_norm", "layernorm-no-bias", h, tokens) for part in "qk")
    mixer = llama.attention(c, run, bias=c.flag("attention_bias"), within=within, causal=False)
    body = llama.uniform(c, run, mixer, llama.gated(c, run, bias=c.flag("mlp_bias")), norm="layernorm")
    return llama.decoder(c, run, body, final="layernorm-no-bias")._replace(name="esmc")
