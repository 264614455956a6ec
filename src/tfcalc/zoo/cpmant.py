"""CPM-Ant: a trained prompt before the text, and a bias for how far, and in which segments, two tokens stand."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Embedding, Norm, Parameter, parameter
from tfcalc.nn.encoder import Layers
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import add, dropout, filled, scaled
from tfcalc.ops.products import matmul
from tfcalc.ops.rows import looked_up, softmax
from tfcalc.ops.shapes import contiguous, part, permute, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences
from tfcalc.zoo.blocks.layers import gated, multi_head, stack


class MaskedTwice(Attention):
    """Scores have a bias for each sequence, and what is masked is filled in before their softmax and again behind it.

    Each layer makes both masks, whatever kernel is asked for. None is told to what is counted.
    """

    masked: bool = False

    def kernel(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context) -> Tensor:
        """The program's own products."""
        assert ctx.bias is not None
        trace = q.trace
        seen = (q.shape[0], 1, q.shape[2], k.shape[2])
        p = add(scaled(matmul(q, transpose(k, 2, 3)), "div"), ctx.bias)
        p = softmax(filled(p, trace.new(seen, "bool", "mask")))
        p = filled(p, trace.new(seen, "bool", "mask"))
        p = dropout(p, "attend_dropout") if self.dropout and ctx.drops else p
        return matmul(p, v)


class SegmentedDecoder(Module):
    """Layers that read ``prompt`` vectors before those of the text, whose rows follow those of words.

    Each token has a vector for its segment, too. Tokens of one segment have a bias for their distance, others one for
    their two segments: each a row of ``bias``, by head.

    Source: transformers' CpmAntModel, CpmAntSegmentPositionEmbedding.
    """

    kind = "decoder"

    segments: Embedding
    table: Embedding
    bias: Parameter
    layers: Layers
    prompt: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the output for token ids ``x``; the prompt's vectors are not among the results."""
        stream = self._read(ctx)
        ids = x.trace.new((stream.batch, stream.length), "int32", "ids")
        made = self.table(ids)
        made = add(made, self.segments(x.trace.new(ids.shape, "int32", "segments")))
        ctx = ctx._replace(stream=stream)
        made = self.layers(made, ctx._replace(bias=self._biases(x, ctx)))
        return made if ctx.run.decoding else part(made, 1, x.shape[1])

    def _read(self, ctx: Context) -> Sequences:
        """The prompt and the text; the prompt's keys are there where a token is decoded."""
        text = ctx.stream
        if ctx.run.decoding:
            return text._replace(cached=self.prompt + text.seen)
        return Sequences(text.batch, self.prompt + text.length)

    def _biases(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the biases of the scores of all layers, of b × a × l × l."""
        length = ctx.stream.length
        places = x.trace.new((ctx.stream.batch, length, length), "int32", "buckets")
        made = contiguous(permute(looked_up(self.bias.weight(x.trace), places), (0, 3, 1, 2)))
        x.trace.belongs(made)
        return made


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
