"""CPM-Ant: a trained prompt before the text, and a bias for how far, and in which segments, two tokens stand."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.families.layers import gated, multi_head, stack
from tfcalc.nn.basic import Embedding, Norm, parameter
from tfcalc.nn.encoder import Layers
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Module
from tfcalc.nn.segment_bias import MaskedTwice, SegmentedDecoder

NAMES = ("project_q", "project_k", "project_v", "attention_out")
NORMS = ("self_att.layernorm_before_attention", "ffn.layernorm_before_ffn")


def layer(c: Config) -> Module:
    """Pre-norm, without biases."""
    h, a, d, f = c.size("hidden_size"), c.size("num_attention_heads"), c.size("dim_head"), c.size("dim_ff")
    drops = bool(c.get("dropout_p"))
    attention = multi_head(MaskedTwice, "self_att.self_attention", NAMES, h, a, d, dropout=drops)
    ffn = gated("ffn.ffn", ("w_in.w_0", "w_in.w_1", "w_out"), h, f, "gelu", dropout=drops)
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
    return SegmentedDecoder(
        "cpmant",
        Embedding("segment_embedding", segments, h),
        Embedding("input_embedding", c.size("vocab_size") + c.size("prompt_types") * prompt, h),
        parameter("position_bias.relative_attention_bias", biases, c.size("num_attention_heads")),
        Layers("encoder", (), stack(c, layer(c)), norm(c, "output_layernorm")),
        prompt,
    )
