"""Encoder-decoders whose decoder reads itself and the encoder by one attention (T5Gemma 2)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.cost import Cached
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.pairs import Pairs
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Stored
from tfcalc.nn.context import Context
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.reader import ImageReader
from tfcalc.ops.attention import rotary
from tfcalc.ops.keeping import by_token
from tfcalc.ops.select import put_in_place
from tfcalc.ops.shapes import beside, cat, merge_heads, narrow, reshape, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences

END_OF_IMAGE = "end of image"
"""What the vector of the word that ends an image is called, which two stacks may share."""


class MergedAttention(Attention):
    """Queries of the stream see its keys and those of the context's ``memory``, which the same maps make.

    Only the stream's own are turned by their positions. Of both all are counted and cached, whatever the window.

    Source: transformers' T5Gemma2MergedAttention (arXiv 2512.14856).
    """

    def sees(self, ctx: Context) -> Sequences:
        """The stream, and what the encoder read."""
        assert ctx.memory is not None
        stream, memory = ctx.stream, ctx.memory.of
        return Sequences(stream.batch, stream.length + memory.length, stream.seen + memory.seen)

    def pairs(self, ctx: Context) -> Pairs:
        """Without the window."""
        return ctx.run.pairs(ctx.stream, self.sees(ctx), causal=self.causal)

    def _kept(self, ctx: Context) -> tuple[Cached, ...]:
        made = {"K": self.key_dim, "V": self.value_dim}
        return by_token(ctx.stream, self.sees(ctx), self.kv_heads, made, causal=self.causal)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other, and of the memory."""
        assert ctx.memory is not None
        if not x.trace.lowers:
            return self._counted(x, ctx.memory.vectors, ctx)
        q, k, v = self._projected(x, x, ctx)
        if self.rope is not None:
            q, k = rotary(q, k, self.rope.width, lambda: ctx.backend.rotate(q, k, self, ctx))
        keys, values = (each(ctx.memory.vectors) for each in self.inward[1:])
        keys = self._normed(keys, 1, self.kv_heads, ctx)
        values = reshape(values, *keys.shape[:3], self.value_dim)
        k, v = cat([k, transpose(keys, 1, 2)], 2), cat([v, transpose(values, 1, 2)], 2)
        return self.output(merge_heads(self._attended(q, k, v, ctx), self.heads * self.value_dim))

    def _counted(self, x: Tensor, memory: Tensor, ctx: Context) -> Tensor:
        keys = self.sees(ctx)
        read = beside([x, memory], (keys.batch, keys.length, x.width))
        q, k, v = self._projected(x, read, ctx)
        if self.rope is not None:
            rotary(q, narrow(k, x.shape[1], 2), self.rope.width, lambda: (q, k))
        return self.output(merge_heads(self._attended(q, k, v, ctx), self.heads * self.value_dim))


class MarkedDecoder(Decoder):
    """A stack that puts a vector of its own in the place of the word that ends an image (``marked``).

    Without one it has that of the stack which ran before.
    """

    marked: Stored | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The vector behind the table."""
        table, *others = super().parts
        return iter(each for each in (table, self.marked, *others) if each is not None)

    def _words(self, x: Tensor, ctx: Context) -> Tensor:
        words = super()._words(x, ctx)
        if not x.trace.lowers:
            return words
        if self.marked is not None:
            x.trace.forget(END_OF_IMAGE)
            x.trace.alias(END_OF_IMAGE, self.marked.weight(x.trace))
        vector = x.trace.weight(Weight("E", (words.width,), tied_to=END_OF_IMAGE))
        return put_in_place(words, x.trace.to(vector, words.dtype), x.trace.new(x.shape, "bool", "end of image"))


class TextStack(MarkedDecoder):
    """The one that reads the source."""

    kind = "text_model"


class MergedDecoder(MarkedDecoder):
    """The one that reads what the other has made: its masks let all of that be seen."""

    def begun(self, words: Tensor, ctx: Context) -> Context:
        """With masks of all keys."""
        ctx = super().begun(words, ctx)
        assert ctx.memory is not None
        length, masks = ctx.memory.of.length, {}
        for window, mask in ctx.masks.items():
            further = words.trace.new((*mask.shape[:-1], length), mask.dtype, "mask")
            masks[window] = cat([mask, further], -1)
            words.trace.belongs(masks[window])
        return ctx._replace(masks=masks)


class SeeingEncoder(ImageReader):
    """An encoder of text that reads images, too."""

    kind = "encoder"

    @property
    def parts(self) -> Iterator[Module]:
        """The text first."""
        return iter((self.text, self.tower, *self.between))
