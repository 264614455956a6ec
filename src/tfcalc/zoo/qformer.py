"""The Q-Former: a few trained queries that read an encoder's vectors, in the layers of BERT."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.attention import Attention
from tfcalc.nn.encoder import Layers
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks.encoders import attention, drops, network, norm
from tfcalc.zoo.blocks.layers import LAYERS, by_kind, stack
from tfcalc.zoo.blocks.q_former import Asking, Given, QueryLayer, QueryReader

NAMES = ("attention.query", "attention.key", "attention.value", "output.dense")
QUERIES, TEXTS = ("intermediate_query", "output_query"), ("intermediate", "output")
"""Where the networks stand that read queries, and those that read texts."""


def given(c: Config, base: Module) -> Module:
    """By itself it is given vectors."""
    return Given("", base, c.size("hidden_size"), c.size("encoder_hidden_size"))


@family("blip_2_qformer", heads={"Model": given})
def qformer(c: Config) -> Module:
    """Li et al. 2023 (BLIP-2, arXiv 2301.12597): some layers read the encoder; texts have networks of their own."""
    return reader(c)


def reader(c: Config, *, shared: bool = False) -> QueryReader:
    """The same; ``shared`` are queries that are one batch for all that is read, up to the first cross-attention."""
    step = c.number("cross_attention_frequency")
    kinds = [(place % step == 0, shared and place == 0) for place in range(c.number(LAYERS))]
    layers = stack(c, by_kind(lambda kind: _layer(c, reads=kind[0], shared=kind[1]), kinds))
    return QueryReader("qformer", norm(c, "layernorm"), Layers("encoder", (), layers), drops(c))


def _layer(c: Config, *, reads: bool, shared: bool) -> QueryLayer:
    mixers = [attention(c, names=NAMES, causal=False), *([_reading(c)] if reads else [])]
    names = [*(f"{each.name}.output.LayerNorm" for each in mixers), f"{QUERIES[1]}.LayerNorm"]
    unread = (_network(c, *TEXTS), norm(c, f"{TEXTS[1]}.LayerNorm")) if c.flag("use_qformer_text_input") else ()
    subs = (*mixers, _network(c, *QUERIES))
    norms = tuple(norm(c, name) for name in names)
    return QueryLayer("layer", subs, norms, drops(c), shared=shared, unread=unread)


def _reading(c: Config) -> Attention:
    """Keys and values are made of vectors of the encoder's width."""
    made = attention(c, name="crossattention", names=NAMES, of=Asking)
    q, *others = made.inward
    return made.but(inward=(q, *(each.but(fan_in=c.size("encoder_hidden_size")) for each in others)))


def _network(c: Config, inward: str, outward: str) -> Module:
    return network(c, name=f"({outward} ffn)", names=(f"{inward}.dense", f"{outward}.dense"))
