"""Moshi's temporal transformer, a language model by itself."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, divide
from tfcalc.errors import InvalidModel
from tfcalc.nn.basic import Embedding
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.layers import gated, window

NAMES = ("q_proj.linear", "k_proj.linear", "v_proj.linear", "o_proj.linear")
CODE = "helium"


def inner(c: Config) -> Num:
    """Half of ``ffn_dim``: the other half is the gate's."""
    if c.number("ffn_dim") % 2:
        raise InvalidModel(f"{c.path('ffn_dim')} {c.number('ffn_dim')} is odd", "half of it is the gate's")
    half: Num = divide(c.size("ffn_dim"), 2)
    return half


@family("moshi", heads={"Model": tops.bare, "ForCausalLM": tops.never_tied})
def moshi(c: Config) -> Module:
    """Défossez et al. 2024 (arXiv 2410.00037): Llama's layers; a row more in the table, for what begins a text."""
    h, f = c.size("hidden_size"), inner(c)
    mlp = gated("mlp", ("fc1", "fc2"), h, f, c.word("hidden_act"))
    mixer = decoders.attention(c, names=NAMES, window=window(c)).replace(rope=decoders.rope(c, by_layer=True))
    whole = decoders.decoder(c, decoders.layer(c, mixer, mlp, code=CODE), code=CODE)
    return whole.replace(table=Embedding("embed_tokens", c.size("vocab_size") + 1, h))
