"""The classic Transformer: an encoder, a decoder, or both; by itself it reads vectors, in a model words."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.nn.basic import Embedding, Norm
from tfcalc.nn.context import Context, Memory
from tfcalc.nn.distances import Located, Table
from tfcalc.nn.gru import GRU
from tfcalc.nn.layers import PostNorm
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import add, dropout, residual
from tfcalc.ops.rows import whole_sum
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences


class Layer(PostNorm):
    """Attention, to an encoder's output as well, and a feed-forward network; norms come ``first``, or behind each sum.

    A norm before its sub-layer costs what one behind it does, so that both stand in one place; but what is kept last is
    another. What stands beside a sub-layer is ``called`` after it.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.1.
    """

    called: tuple[str, ...] = ()
    first: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        for name, sub, norm in zip(self.called, self.subs, self.norms, strict=True):
            assert isinstance(norm, Norm)
            x = self._summed(x, name, sub, norm, ctx)
        return x

    def _summed(self, x: Tensor, name: str, sub: Module, norm: Norm, ctx: Context) -> Tensor:
        """``x + dropout(f(norm(x)))``, or ``norm(x + dropout(f(x)))``."""
        made = sub(norm(x, ctx) if self.first else x, ctx)
        made = dropout(made, f"{name}_dropout") if ctx.drops else made
        made = residual(x, made, sub.name, called=f"{name}_residual")
        return made if self.first else norm(made, ctx)


class Side(Module):
    """One of the two stacks, its ``kind`` its name, with what its layers share."""

    shared: Module | None
    layers: Stack
    kind: str = ""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of vectors."""
        if isinstance(self.shared, Table):
            self.shared(x, self._reads.of_one_sequence(ctx))
        return self.layers(x, ctx)

    @property
    def _reads(self) -> Located:
        first = self.layers.layers[0]
        assert isinstance(first, Layer)
        attention = first.subs[0]
        assert isinstance(attention, Located)
        return attention


class Core(Module):
    """The stacks, a norm behind each if they have one; the last reads what the one before it has made."""

    kind = "core"

    sides: tuple[Side, ...]
    norms: tuple[Norm | None, ...]

    @property
    def parts(self) -> Iterator[Module]:
        """Each stack with its norm."""
        for side, norm in zip(self.sides, self.norms, strict=True):
            yield side
            if norm is not None:
                yield norm

    def forward(self, x: Tensor, ctx: Context, source: Tensor | None = None) -> Tensor:
        """Of the vectors of the target, or of the only stack, and those of the ``source``."""
        if source is not None:
            memory = self._run(0, source, ctx._replace(stream=ctx.run.source))
            if not x.trace.every_layer:
                x.trace.belongs(memory)  # to no layer of the decoder: one keeps it for all
            ctx = ctx._replace(memory=Memory(memory, ctx.run.source))
        return self._run(-1, x, ctx)

    def _run(self, place: int, x: Tensor, ctx: Context) -> Tensor:
        x, norm = self.sides[place](x, ctx), self.norms[place]
        return x if norm is None else norm(x, ctx)


class OnData(Core):
    """The stacks by themselves: what they read are vectors of this ``width``, whose gradient somebody may want.

    With norms in front (``normed``) gradients come as far as to the first norm anyway.
    """

    normed: bool = False

    def forward(self, x: Tensor, ctx: Context, source: Tensor | None = None) -> Tensor:
        """Of as many vectors as there are tokens; in training, where it runs, the sum of all that it makes, in fp32."""
        source = self._data(x, ctx, ctx.run.source) if len(self.sides) == 2 else None
        made = super().forward(self._data(x, ctx, ctx.stream), ctx, source)
        if not (ctx.run.training and x.trace.lowers):
            return made
        return whole_sum(x.trace.to(made, "float32"), "float32")

    def _data(self, x: Tensor, ctx: Context, stream: Sequences) -> Tensor:
        layer = self.sides[0].layers.layers[0]
        assert isinstance(layer, Layer)
        shape = (stream.batch, stream.length, next(norm.width for norm in layer.norms if isinstance(norm, Norm)))
        reached = ctx.run.input_gradient or (self.normed and not x.trace.lowers)
        return x.trace.data(shape, "input") if reached else x.trace.given(shape, x.trace.weights_format, "input")


class Network(WithHead):
    """Words and where they stand, the core, and logits if the model ``writes``.

    A table of words, and one of ``places``, are for both stacks or one for each.
    """

    tables: tuple[Embedding, ...] = ()
    places: tuple[Module, ...] = ()
    writes: bool = True

    @property
    def parts(self) -> Iterator[Module]:
        """From the tables to the head."""
        return iter((*self.tables, *self.places, self.base, *([self.head] if self.writes else [])))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids; those of a source are given beside them."""
        *source, target = self._embedded(x, ctx)
        made = self.base(target, ctx, *source)
        return self.read(made, x, ctx) if self.writes else made

    def _embedded(self, ids: Tensor, ctx: Context) -> list[Tensor]:
        """``dropout(E[ids] + P)`` of each sequence: those of the source, where there is one, and of the target."""
        assert isinstance(self.base, Core)
        sides, source = len(self.base.sides), ctx.run.source
        read, streams = [ids], [ctx.stream]
        if sides == 2:
            read.insert(0, ids.trace.given((source.batch, source.length), "int64", "source ids"))
            streams.insert(0, source)
        made = [table(each) for table, each in zip((self.tables * sides)[:sides], read, strict=True)]
        for side, table in enumerate((self.places * sides)[:sides]):
            where = table(made[side] if isinstance(table, GRU) else read[side], ctx._replace(stream=streams[side]))
            made[side] = add(made[side], where)
        return [dropout(each, "embedding_dropout") for each in made] if ctx.drops else made
