"""CPM-Ant: a trained prompt before the text, and a bias for how far, and in which segments, two tokens stand."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.basic import Embedding, Linear, Norm, parameter
from tfcalc.nn.encoder import Layers
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Module
from tfcalc.nn.segment_bias import MaskedTwice, SegmentedDecoder
from tfcalc.nn.stack import Stack

NAMES = ("project_q", "project_k", "project_v")
NORMS = ("self_att.layernorm_before_attention", "ffn.layernorm_before_ffn")


def layer(c: Config) -> Module:
    """Pre-norm, without biases."""
    h, a, d, f = c.size("hidden_size"), c.size("num_attention_heads"), c.size("dim_head"), c.size("dim_ff")
    drops = bool(c.get("dropout_p"))
    maps = tuple(Linear(name, h, a * d, letter) for name, letter in zip(NAMES, "QKV", strict=True))
    back = Linear("attention_out", a * d, h, "O")
    attention = MaskedTwice("self_att.self_attention", a, a, d, d, maps, (), back, dropout=drops)
    inward = Linear("w_in.w_0", h, f, "g"), Linear("w_in.w_1", h, f, "1")
    ffn = GatedFeedForward("ffn.ffn", *inward, Linear("w_out", f, h, "2"), "gelu", dropout=drops)
    return PreNorm("layers", (attention, ffn), tuple(norm(c, name) for name in NORMS), drops)


def norm(c: Config, name: str) -> Norm:
    """CpmAntLayerNorm, of the model's width."""
    return Norm(name, "rmsnorm", c.size("hidden_size"), "t5")


@family(
    "cpmant",
    # logits by a matrix of their own, whatever tie_word_embeddings says: the table holds the prompts as well
    heads={"Model": tops.bare, "ForCausalLM": tops.lm_head(ties=(), shifted=False, upcasts=False)},
)
def cpmant(c: Config) -> Module:
    """OpenBMB 2022; transformers' CpmAntModel. The rows of prompts, for each type of task, follow those of words."""
    h, segments, prompt = c.size("hidden_size"), c.size("segment_types"), c.size("prompt_length")
    biases = segments * segments + c.size("position_bias_num_buckets")
    stack = Stack("layers", (layer(c),) * c.number("num_hidden_layers"), c.size("num_hidden_layers"))
    return SegmentedDecoder(
        "cpmant",
        Embedding("segment_embedding", segments, h),
        Embedding("input_embedding", c.size("vocab_size") + c.size("prompt_types") * prompt, h),
        parameter("position_bias.relative_attention_bias", biases, c.size("num_attention_heads")),
        Layers("encoder", (), stack, norm(c, "output_layernorm")),
        prompt,
    )
