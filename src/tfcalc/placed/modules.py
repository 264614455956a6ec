"""What a device runs: sub-layers that several devices share, and the layers of a stage."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.nn.attention import Attention, attentions
from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.collectives import (
    copied_to_all,
    cross_entropy_of_shares,
    gathered_columns,
    gathered_sequence,
    handed_on,
    own_share,
    received,
    scattered_sum,
    summed_over_all,
)
from tfcalc.ops.elementwise import add, dropout, scaled
from tfcalc.ops.products import linear, plus_bias
from tfcalc.ops.shapes import split, transpose
from tfcalc.placed.layout import Layout
from tfcalc.tape.tensor import Tensor


def entering(x: Tensor, at: Layout) -> Tensor:
    """What devices that share a sub-layer read of the stream: all tokens."""
    if at.alone:
        return x
    return gathered_sequence(x, at.tp, again=at.gathers_again) if at.sequence_parallel else copied_to_all(x, at.tp)


def leaving(x: Tensor, at: Layout) -> Tensor:
    """What the stream gets of what each of them has made: the sum, or this device's tokens of it."""
    if at.alone:
        return x
    return scattered_sum(x, at.tp) if at.sequence_parallel else summed_over_all(x, at.tp)


class Shared(Module):
    """A sub-layer whose heads, or whose inner width, devices share. It is no module of its own."""

    part: Module
    at: Layout

    @property
    def kind(self) -> str:  # type: ignore[override]
        """That of the sub-layer."""
        return self.part.kind

    def components(self) -> Iterator[Component]:
        """Those of the sub-layer."""
        return self.part.components()

    def __call__(self, x: Tensor, ctx: Context) -> Tensor:
        """All of them read the same."""
        with x.trace.inside(self.part):
            return self.part.forward(entering(x, self.at), ctx)


class Rows(Linear):
    """A map of which each device has some rows, so that what they make is summed; the bias is added behind that."""

    at: Layout = Layout()

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """On each row."""
        weight, *bias = (x.trace.weight(each) for each in self.own_params().weights)
        letter = self.letter or self.name
        made = x.trace.adapted(self, x, linear(x, weight, letter=letter, packed=True))
        made = leaving(made, self.at)
        return plus_bias(made, bias[0], letter=letter) if bias else made


class FewerGroups(Attention):
    """Attention that more devices share than there are heads of keys and values.

    Each has a share of every matrix all the same, so that what they make of it is gathered; then each takes the heads
    that it needs, one of them of keys and values, of which there are so many ``groups``.

    Source: Megatron-LM's ``Attention.get_query_key_value_tensors``.
    """

    groups: Num = 1
    devices: Num = 1

    def _projected(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        a, g, d, d_v = self.heads, self.kv_heads, self.key_dim, self.value_dim
        whole = gathered_columns([each(source) for each in self.inward], self.devices)
        q, k, v = split(whole, [a * d, g * d, g * d_v])
        q, k = self._normed(q, 0, a, ctx), self._normed(k, 1, g, ctx)
        v = x.trace.view(v, (*v.shape[:2], g, d_v), None)
        return transpose(q, 1, 2), transpose(k, 1, 2), transpose(v, 1, 2)


class Words(Module):
    """A table of words, of which each device has some rows, and makes vectors of zeros of all other words."""

    kind = "embedding"

    table: Module
    at: Layout
    scatters: bool = True

    def components(self) -> Iterator[Component]:
        """The table's."""
        return self.table.components()

    def __call__(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids; where places are added to it (it does not scatter), each device has those of all tokens."""
        with x.trace.inside(self.table):
            made = self.table.forward(x, ctx)
            return leaving(made, self.at if self.scatters else self.at._replace(sequence_parallel=False))


class Stage(Module):
    """The layers of one stage; before the first stand the words, behind the last a norm.

    Without ``tables`` it reads vectors of this ``width`` that the stage before has made. What they make may be
    multiplied by a number (``scales``), and some of it dropped (``dropped``).
    """

    kind = "decoder"

    tables: tuple[Module, ...]
    layers: Stack
    norm: Module | None
    width: Num
    at: Layout
    scales: bool = False
    dropped: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids, which every stage is given."""
        x = self._embedded(x, ctx) if self.tables else self._received(x, ctx)
        if x.trace.emits_kernels:
            ctx = ctx.backend.begin(ctx, x, list(attentions(self.layers)), ())
        x = self.layers(x, ctx)
        if self.at.chunks != 1:
            forward, backward = self.at.vpp - int(self.at.last), self.at.vpp - int(self.at.first)
            x = handed_on(x, forward, backward)
        return x if self.norm is None else self.norm(x, ctx)

    def _embedded(self, ids: Tensor, ctx: Context) -> Tensor:
        words, *places = self.tables
        x = words(ids, ctx)
        x = scaled(x) if self.scales else x
        for each in places:
            x = add(x, each(ids, ctx))
        if places and self.at.sequence_parallel and not self.at.alone:
            x = own_share(x, self.at.tp)
        return dropout(x, "embedding_dropout") if self.dropped and ctx.drops else x

    def _received(self, ids: Tensor, ctx: Context) -> Tensor:
        length = ctx.stream.length
        length = divide(length, self.at.tp) if self.at.sequence_parallel else length
        return received(ids.trace.data((ctx.stream.batch, length, self.width), "from the stage before"))


class Device(Module):
    """A stage, and what makes logits of the last: a matrix of which each device has the columns of some words."""

    kind = "model"

    base: Module
    head: Linear | None
    at: Layout
    scales: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        made = self.base(x, ctx)
        return made if self.head is None else self._read(made, ctx)

    def _read(self, x: Tensor, ctx: Context) -> Tensor:
        assert self.head is not None
        logits = self.head(entering(x, self.at))
        logits = scaled(logits) if self.scales else logits
        if not ctx.run.training:
            return logits
        name = f"{self.head.name}.loss"
        return cross_entropy_of_shares(logits, name, self.at.tp, lambda: ctx.backend.loss_of_shares(logits))
