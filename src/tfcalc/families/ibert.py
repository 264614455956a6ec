"""I-BERT: RoBERTa with what it needs to run on integers."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.families import bert_kit as kit
from tfcalc.families.bert_kit import FIRST_TOKEN, POST_NORM
from tfcalc.families.bert_tops import ROBERTA_TOPS
from tfcalc.families.layers import stack
from tfcalc.nn.embeddings import TOKENS
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.integers import IntegerEmbeddings, IntegerLayer, in_integers, ranges
from tfcalc.nn.module import Module

IN_EMBEDDINGS = ("embeddings_act1", "embeddings_act2", "output_activation")
IN_LAYER = (
    *(f"attention.self.{part}_activation" for part in ("query", "key", "value", "output")),
    "attention.self.softmax.act",
    "attention.output.ln_input_act",
    "attention.output.output_activation",
    "intermediate.output_activation",
    "output.ln_input_act",
    "output.output_activation",
    "pre_intermediate_act",
    "pre_output_act",
)


@family("ibert", heads=ROBERTA_TOPS)
def ibert(c: Config) -> Module:
    """Kim et al. 2021 (arXiv 2101.01321): each weight is stored a second time, as an integer, whether used or not.

    What runs is RoBERTa in numbers, as long as ``quant_mode`` is not set.
    """
    norms = (kit.norm(c, name).but(code="quotient") for name in POST_NORM[::2])
    layer = in_integers(IntegerLayer("layer", (kit.attention(c), kit.network(c)), tuple(norms), kit.drops(c)))
    layers = stack(c, layer.but(ranges=ranges(*IN_LAYER)))
    words = kit.embeddings(c, *kit.with_tables(c, TOKENS))
    assert words.norm is not None
    table = in_integers(
        IntegerEmbeddings(words.name, words.tables, words.norm.but(code="quotient"), words.dropped)
    ).but(ranges=ranges(*IN_EMBEDDINGS))
    pooler = kit.pooler(c, FIRST_TOKEN)
    return Encoder("ibert", table, (), Layers("encoder", (), layers), pooler=pooler, pools=c.head in kit.PAIRED)
