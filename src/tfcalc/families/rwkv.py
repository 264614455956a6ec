"""RWKV: recurrent networks that are trained like transformers."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.families import kit
from tfcalc.nn.basic import Linear, Norm, Stored, parameter
from tfcalc.nn.module import Module
from tfcalc.nn.rwkv import ChannelMixing, NormedFirst, TimeMixing

NORM = "layernorm"


@family(
    "rwkv",
    heads={"Model": tops.bare, "ForCausalLM": tops.lm_head("head")},
    aliases={"max_position_embeddings": "context_length"},
)
def rwkv(c: Config) -> Module:
    """RWKV-4 (arXiv 2305.13048). Only the first layer has a norm right after the embedding."""
    h = c.size("hidden_size")
    width, inner = c.optional("attention_hidden_size"), c.optional("intermediate_size")
    mixer = time_mixing(h, h if width is None else width)
    ffn = channel_mixing(h, 4 * h if inner is None else inner)

    def one(first: bool) -> Module:
        before = (Norm("pre_ln", NORM, h),) if first else ()
        return NormedFirst("blocks", (mixer, ffn), (Norm("ln1", NORM, h), Norm("ln2", NORM, h)), before=before)

    kinds = [place == 0 for place in range(c.number("num_hidden_layers"))]
    return kit.decoder(c, one, kinds, norm=NORM, names=("rwkv", "embeddings", "ln_out"))


def mixtures(h: Num, *names: str) -> tuple[Stored, ...]:
    """How much of a token and of the one before it each of these reads."""
    return tuple(parameter(f"time_mix_{name}", h, minor=True) for name in names)


def time_mixing(h: Num, width: Num) -> Module:
    """RWKV's attention."""
    names = ("key", "value", "receptance")
    maps = tuple(Linear(name, h, width) for name in names)
    decay, first = (parameter(name, width, minor=True) for name in ("time_decay", "time_first"))
    return TimeMixing("attention", mixtures(h, *names), maps, decay, first, Linear("output", width, h, "O"))


def channel_mixing(h: Num, inner: Num) -> Module:
    """RWKV's feed-forward network."""
    key, value = Linear("key", h, inner, "1"), Linear("value", inner, h, "2")
    return ChannelMixing("feed_forward", mixtures(h, "key", "receptance"), key, Linear("receptance", h, h), value)
