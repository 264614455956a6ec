"""Moshi's temporal transformer, a language model by itself."""

from __future__ import annotations

from tfcalc.blocks import FeedForward
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, output
from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.errors import InvalidModel
from tfcalc.families.llama import attention, norms, uniform
from tfcalc.families.windows import window
from tfcalc.leaves import embedding
from tfcalc.workload import Workload

NAMES = ("q_proj.linear", "k_proj.linear", "v_proj.linear", "o_proj.linear")


def inner(c: Config) -> Num:
    """Half of ``ffn_dim``: the other half is the gate's."""
    if c.number("ffn_dim") % 2:
        raise InvalidModel(f"{c.path('ffn_dim')} {c.number('ffn_dim')} is odd", "half of it is the gate's")
    half: Num = divide(c.size("ffn_dim"), 2)
    return half


def logits(c: Config, run: Workload, base: Component) -> tuple[Component, Component]:
    """Logits by a matrix of their own, whatever ``tie_word_embeddings`` says."""
    return base, output("lm_head", c.size("hidden_size"), c.size("vocab_size"), run, tied=False)


@family("moshi", architecture="MoshiForCausalLM", heads={"Model": bare, "ForCausalLM": logits})
def moshi(c: Config, run: Workload) -> Component:
    """Défossez et al. 2024 (arXiv 2410.00037): Llama's layers; a row more in the table, for what begins a text."""
    h, tokens = c.size("hidden_size"), run.target.tokens
    mlp = FeedForward(h, inner(c), c.word("hidden_act"), names=("fc1", "fc2"), gated=True)("mlp", run.target, run)
    table = embedding("embed_tokens", c.size("vocab_size") + 1, h, tokens)
    layers = uniform(c, run, attention(c, run, names=NAMES, window=window(c)), mlp)
    return Component("model", "decoder", parts=(table, layers, *norms(("norm",), "rmsnorm", c, run)))
