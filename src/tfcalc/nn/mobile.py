"""Layers that are narrower than the stream, with several feed-forward networks each (MobileBERT)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.embeddings import Embeddings
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.model import Predictions
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import add, dropout, residual
from tfcalc.ops.products import linear
from tfcalc.ops.shapes import cat, narrow, pad, reshape, transpose
from tfcalc.tape.tensor import Tensor


class Trigrams(Embeddings):
    """Narrow vectors of words, ``widened``; with ``neighbours`` those of both are put beside each first."""

    widened: Linear | None = None
    neighbours: bool = False

    @property
    def parts(self) -> Iterator[Module]:
        """The map behind the words' table."""
        words, *others = self.tables
        return (part for part in (words, self.widened, *others, self.norm) if part is not None)

    def _summed(self, x: Tensor, ctx: Context) -> Tensor:
        words, *others = self.tables
        made = words(x, ctx)
        if self.neighbours:
            length = x.shape[1]
            one = pad(narrow(made, length - 1), 1, length) if x.trace.lowers else made
            made = cat([one, made, pad(narrow(made, length - 1), 1, length) if x.trace.lowers else made])
        made = made if self.widened is None else self.widened(made)
        for table in others:
            made = add(made, table(x, ctx))
        return made


class Narrowed(Module):
    """A map to another width, and its norm."""

    kind = "bottleneck"

    dense: Linear
    norm: Norm

    def __call__(self, x: Tensor, ctx: Context) -> Tensor:
        """It is no module of its own."""
        return self.norm(self.dense(x), ctx)


class NarrowAttention(Attention):
    """Queries and keys of one tensor, values of another."""

    def of(self, x: Tensor, values: Tensor, ctx: Context) -> Tensor:
        """What the tokens make of each other."""
        with x.trace.inside(self):
            given = [each(read) for each, read in zip(self.inward, (x, x, values), strict=True)]
            shape = (*x.shape[:2], self.heads, self.key_dim)
            return self.output(self.mixed([transpose(reshape(each, *shape), 1, 2) for each in given], ctx))


class MobileLayer(Module):
    """Down into the bottleneck, attention, feed-forward networks, and up again.

    Where there is no bottleneck (``down``) the layer is as wide as the stream. Queries and keys may be made of a
    bottleneck of their own (``shared``), and values of the stream itself, unless all are made of one (``of_narrow``).

    Source: Sun et al. 2020 (MobileBERT, arXiv 2004.02984), section 3.
    """

    kind = "layer"

    down: Narrowed | None
    shared: Narrowed | None
    attention: NarrowAttention
    attention_norm: Norm
    networks: Stack | None
    network: FeedForward
    network_norm: Norm
    up: Narrowed | None
    of_narrow: bool = False
    dropped: bool = False

    @property
    def parts(self) -> Iterator[Module]:
        """In the order in which they run."""
        for each in self.__dict__.values():
            if isinstance(each, Narrowed):
                yield from (each.dense, each.norm)
            elif isinstance(each, Module):
                yield each

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        inner = x if self.down is None else self.down(x, ctx)
        asking = values = inner
        if self.down is not None and not self.of_narrow:
            asking, values = x if self.shared is None else self.shared(x, ctx), x
        made = self._dropped(self.attention.of(asking, values, ctx), ctx)
        made = self.attention_norm(residual(inner, made, self.attention.name), ctx)
        if self.networks is not None:
            once = ctx._replace(run=ctx.run.replaced(recompute="none"))
            made = self.networks(made, once)
        last = self._dropped(self.network(made, ctx), ctx)
        last = self.network_norm(residual(made, last, self.network.name), ctx)
        if self.up is None:
            return last
        last = self.up.dense(last)
        last = dropout(last, "up_dropout") if self.dropped and ctx.drops else last
        return self.up.norm(residual(x, last, "up"), ctx)

    def _dropped(self, x: Tensor, ctx: Context) -> Tensor:
        """Only where there is no bottleneck."""
        return dropout(x, "dropout") if self.dropped and self.up is None and ctx.drops else x


class WiderPredictions(Predictions):
    """Logits by the words' vectors, which are narrower than the stream, and for the ``rest`` by a matrix of its own.

    A program puts both matrices together first, each time.
    """

    rest: Linear | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The rest before the words' vectors."""
        parts = (self.dense, self.norm, self.rest, self.decoder, self.bias)
        return (part for part in parts if part is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of each token."""
        x, trace = self.transformed(x, ctx), x.trace
        if self.rest is None:
            return self.decoder(x)
        if not trace.lowers:
            self.rest(narrow(x, self.rest.fan_in, axis=2))
            return self.decoder(narrow(x, self.decoder.fan_in, axis=2))
        with trace.inside(self.decoder):
            words, bias = self.decoder.weights(trace)
        with trace.inside(self.rest):
            (rest,) = self.rest.weights(trace)
        return add(linear(x, trace.lower(cat([words, rest], axis=0))), bias)
