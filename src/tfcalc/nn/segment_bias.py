"""Decoders that read a trained prompt before the text, and see how far, and in which segments, two tokens stand."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Embedding, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.encoder import Layers
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import add, dropout, filled, scaled
from tfcalc.ops.products import matmul
from tfcalc.ops.rows import softmax
from tfcalc.ops.shapes import contiguous, part, permute, transpose
from tfcalc.ops.tables import looked_up
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences


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
    """Layers that read so many vectors of a ``prompt`` before those of the text, whose rows follow those of words.

    Each token has a vector for its segment, too. Tokens of one segment have a bias for their distance, others one for
    their two segments: each a row of ``bias``, by head.

    Source: transformers' CpmAntModel, CpmAntSegmentPositionEmbedding.
    """

    kind = "decoder"

    segments: Embedding
    table: Embedding
    bias: Stored
    layers: Layers
    prompt: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids; the prompt's vectors are not among the results."""
        stream = self._read(ctx)
        ids = x.trace.new((stream.batch, stream.length), "int32", "ids")
        made = self.table(ids)
        made = add(made, self.segments(x.trace.new(ids.shape, "int32", "segments")))
        ctx = ctx._replace(stream=stream)
        if x.trace.lowers:
            ctx = ctx._replace(bias=self._biases(x, ctx))
        made = self.layers(made, ctx)
        return made if ctx.run.decoding else part(made, 1, x.shape[1])

    def _read(self, ctx: Context) -> Sequences:
        """The prompt and the text; the prompt's keys are there where a token is decoded."""
        text = ctx.stream
        if ctx.run.decoding:
            return text._replace(cached=self.prompt + text.seen)
        return Sequences(text.batch, self.prompt + text.length)

    def _biases(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × a × l × l, for all layers."""
        length = ctx.stream.length
        places = x.trace.new((ctx.stream.batch, length, length), "int32", "buckets")
        made = contiguous(permute(looked_up(self.bias.weight(x.trace), places), (0, 3, 1, 2)))
        x.trace.belongs(made)
        return made
