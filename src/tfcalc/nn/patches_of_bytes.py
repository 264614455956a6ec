"""A large model of patches between two small ones of bytes."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.number import Num, ceil_div
from tfcalc.nn.attention import attentions
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.cross_attention import CrossAttention
from tfcalc.nn.every_expert import Borrowed
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.nn.turn_by_turn import each_turn
from tfcalc.ops.elementwise import add
from tfcalc.ops.shapes import reshape
from tfcalc.tape.call import Call
from tfcalc.tape.tensor import Shape, Tensor
from tfcalc.workload import Sequences


class PatchAttention(CrossAttention):
    """``x + attention(norm(x), norm(memory))`` of bytes to patches, or of patches to bytes; so many (``count``)."""

    query_norm: Norm | None = None
    key_norm: Norm | None = None
    count: Num = 1

    @property
    def copies(self) -> Num:
        """How many there are."""
        return self.count

    @property
    def looks_at_mask(self) -> bool:
        """A patch sees its own bytes, and these it."""
        return True

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What ``x`` and the memory of the context make."""
        assert ctx.memory is not None
        assert self.query_norm is not None
        assert self.key_norm is not None
        read = ctx.memory._replace(vectors=self.key_norm(ctx.memory.vectors, ctx))
        return add(super().forward(self.query_norm(x, ctx), ctx._replace(memory=read)), x)


class MapAgain(Borrowed):
    """A map whose weights another module holds, and that runs so many ``times`` more."""

    times: Num = 1

    @property
    def copies(self) -> Num:
        """None of its own."""
        return 0

    @property
    def active(self) -> Num:
        """How often it runs."""
        return self.times


class Through(Module):
    """Layers, with masks and angles of their own sequences; a map may stand before them."""

    kind = "decoder"

    map: Linear | None
    layers: Stack

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of vectors."""
        return through(self.layers, x if self.map is None else self.map(x), ctx)


def through(layers: Stack, x: Tensor, ctx: Context) -> Tensor:
    """What the layers make of ``x``."""
    ctx = ctx.backend.begin(ctx, x, list(attentions(layers)), ()) if x.trace.lowers else ctx
    return layers(x, ctx)


class ByteEncoder(Module):
    """Layers of bytes; of each patch the largest numbers are mapped to ``vectors``, which ask the bytes.

    They may do so behind each layer (``again``, ``unused``): each time they begin anew, so that what the last one makes
    is all that is used of it, and all that a gradient reaches.
    """

    kind = "decoder"

    layers: Stack
    map: Linear
    cross: PatchAttention
    table: Embedding
    vectors: Num
    again: MapAgain | None = None
    unused: PatchAttention | None = None

    def words(self, x: Tensor) -> Tensor:
        """A vector for each byte."""
        with x.trace.inside(self):
            return self.table(x)

    def read(self, x: Tensor, patches: Sequences, ctx: Context) -> tuple[Tensor, Tensor]:
        """The bytes' vectors, and those of patches."""
        with x.trace.inside(self):
            x = through(self.layers, x, ctx)
            ctx = masked(x, patches.length * self.vectors, x.shape[1], ctx)
            if self.again is not None and self.unused is not None:
                with x.trace.without_gradients():
                    for _ in each_turn(self.again.times if x.trace.lowers else 1):
                        self._asked(self.again, self.unused, x, patches, ctx)
            return x, self._asked(self.map, self.cross, x, patches, ctx)

    def _asked(self, map_: Linear, cross: PatchAttention, x: Tensor, patches: Sequences, ctx: Context) -> Tensor:
        shape = patches.batch, patches.length, x.width
        reduced = largest_of_patches(x, shape)
        asking = Sequences(patches.batch, patches.length * self.vectors)
        made = reshape(map_(reduced), patches.batch, asking.length, x.width)
        return add(made, cross(made, ctx.asking(asking, x, ctx.stream)))


def masked(x: Tensor, queries: Num, keys: Num, ctx: Context) -> Context:
    """With a number for each pair of a byte and a patch's vector, in the format of the weights."""
    if not x.trace.lowers:
        return ctx
    mask = x.trace.call(Call("mask", (), (x.shape[0], 1, queries, keys), x.trace.weights_format))
    x.trace.belongs(mask)
    return ctx._replace(masks={None: mask})


def largest_of_patches(x: Tensor, shape: Shape) -> Tensor:
    """Of each patch's bytes the largest number of each channel: keeps what it reads and makes, zeros and places.

    Source: torch.scatter_reduce with ``reduce="amax"``.
    """
    zeros = x.trace.new(shape, x.dtype, "zeros")
    places = x.trace.new(x.shape[:2], "int64", "patches of bytes")
    saves = (zeros, x, places)
    return x.trace.call(Call("scatter_reduce", (x,), shape, x.dtype, saves=saves, saves_result=True))


class ByteDecoder(Module):
    """Bytes ask the patches' vectors, before the first of its layers or before each."""

    kind = "decoder"

    map: Linear
    cross: PatchAttention
    layers: Stack
    norm: Norm
    vectors: Num

    def read(self, x: Tensor, patches: Tensor, ctx: Context) -> Tensor:
        """Of bytes and patches."""
        with x.trace.inside(self):
            of = Sequences(patches.shape[0], patches.shape[1] * self.vectors)
            memory = reshape(self.map(patches), of.batch, of.length, x.width)
            asking = masked(x, x.shape[1], of.length, ctx).asking(ctx.stream, memory, of)
            for _ in each_turn(self.cross.copies if x.trace.lowers else 1, "layers that ask for patches"):
                x = add(x, self.cross(x, asking))
            return self.norm(through(self.layers, x, ctx), ctx)


class LatentBytes(Module):
    """Bytes, and what so many ``tables`` have for the hashes of groups of them, are made patches; these run deep.

    How many bytes a patch has depends on the text; here it is ``patch``, and the last may have fewer. Another model
    (``patcher``), which is trained before, finds where patches begin.

    Source: Pagnoni et al. 2024 (arXiv 2412.09871).
    """

    kind = "decoder"

    encoder: ByteEncoder
    deep: Through
    decoder: ByteDecoder
    hashed: Embedding
    patcher: Module | None
    patch: Num
    tables: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of bytes."""
        trace = x.trace
        made = self._embedded(x)
        if self.patcher is not None:
            with trace.without_gradients():
                self.patcher(x, ctx)
        patches = Sequences(ctx.run.batch_size, ceil_div(ctx.run.seq_len, self.patch))
        made, asked = self.encoder.read(made, patches, ctx)
        asked = reshape(asked, patches.batch, patches.length, self.encoder.vectors * asked.width)
        return self.decoder.read(made, self.deep(asked, ctx._replace(stream=patches)), ctx)

    def _embedded(self, x: Tensor) -> Tensor:
        made, new = self.encoder.words(x), x.trace.new
        if not x.trace.lowers:
            self.hashed(new((self.tables, *x.shape), "int64", "hashes"))
            return made
        for _ in each_turn(self.tables, "tables of hashes"):
            made = add(made, self.hashed(new(x.shape, "int64", "hashes")))
        return made


class Patcher(Decoder):
    """A small language model of bytes, which is surprised where a patch begins."""

    head: Linear | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """With what makes logits."""
        yield from super().parts
        if self.head is not None:
            yield self.head

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Logits of all bytes."""
        assert self.head is not None
        return self.head(super().forward(x, ctx))
