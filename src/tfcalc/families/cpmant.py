"""CPM-Ant: a trained prompt before the text, and a bias for how far, and in which segments, two tokens stand."""

from __future__ import annotations

from tfcalc.blocks import Attention, FeedForward, layer
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, output
from tfcalc.core.component import Component
from tfcalc.families.images import drops
from tfcalc.leaves import embedding, norm, parameter
from tfcalc.workload import Sequences, Workload

NAMES = ("project_q", "project_k", "project_v", "attention_out")


def logits(c: Config, run: Workload, base: Component) -> tuple[Component, Component]:
    """Logits by a matrix of their own, whatever ``tie_word_embeddings`` says: the table holds the prompts as well."""
    return base, output("lm_head", c.size("hidden_size"), c.size("vocab_size"), run, tied=False)


def encoder(c: Config, run: Workload, stream: Sequences) -> Component:
    """Pre-norm layers without biases, a final norm."""
    h, a, d, tokens = c.size("hidden_size"), c.size("num_attention_heads"), c.size("dim_head"), stream.tokens
    ffn = FeedForward(h, c.size("dim_ff"), "gelu", names=("w_in.w_0", "w_in.w_1", "w_out"), gated=True)
    parts = (
        norm("self_att.layernorm_before_attention", "rmsnorm", h, tokens),
        Attention(h, a, a, d, d, names=NAMES)("self_att.self_attention", stream, stream, run, causal=True),
        norm("ffn.layernorm_before_ffn", "rmsnorm", h, tokens),
        ffn("ffn.ffn", stream, run),
    )
    dropped = drops(c, run, "dropout_p")
    layers = layer("layers", parts, tokens * h, copies=c.size("num_hidden_layers"), ends_with_sum=not dropped)
    return Component("encoder", "encoder", parts=(layers, norm("output_layernorm", "rmsnorm", h, tokens)))


@family("cpmant", architecture="CpmAntForCausalLM", heads={"Model": bare, "ForCausalLM": logits})
def cpmant(c: Config, run: Workload) -> Component:
    """OpenBMB 2022; transformers' CpmAntModel. The rows of prompts, for each type of task, follow those of words."""
    h, segments, prompt = c.size("hidden_size"), c.size("segment_types"), c.size("prompt_length")
    text = run.target
    read = Sequences(text.batch, text.length, prompt + text.seen)
    stream = read if run.decoding else Sequences(text.batch, prompt + text.length)
    biases = segments * segments + c.size("position_bias_num_buckets")
    return Component(
        "cpmant",
        "decoder",
        parts=(
            embedding("segment_embedding", segments, h, stream.tokens),
            embedding("input_embedding", c.size("vocab_size") + c.size("prompt_types") * prompt, h, stream.tokens),
            parameter("position_bias.relative_attention_bias", biases, c.size("num_attention_heads")),
            encoder(c, run, stream),
        ),
    )
