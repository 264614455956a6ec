"""Modules of one operation: linear maps, norms, tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num
from tfcalc.core.traced import known
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import scaled
from tfcalc.ops.products import block_diagonal, linear
from tfcalc.ops.rows import embedding, norm
from tfcalc.ops.shapes import reshape
from tfcalc.ops.work import FURTHER_NORMS, KEYS, NORMS
from tfcalc.tape.tensor import Tensor

if TYPE_CHECKING:
    from tfcalc.nn.module import Context
    from tfcalc.tape.tensor import Trace


class Linear(Module):
    """``x W + b`` with W of ``fan_in`` × ``fan_out``, whose index in print is ``letter``.

    ``tied_to`` names the tensor whose storage W shares, ``bias_of`` that whose storage b does. Some programs read a
    view of W (``turned``), of which autocast makes a copy each time. A ``role`` other than ``linear`` is that of an
    output head or a router, which adapters and quantization leave alone.
    """

    fan_in: Num
    fan_out: Num
    letter: str = ""
    bias: bool = False
    tied_to: str | None = None
    kind: str = "linear"
    bias_of: str | None = None
    turned: bool = False

    def own_params(self) -> Cost:
        """W and b."""
        index = self.letter or self.name
        weight = Weight(f"W_{index}", (self.fan_in, self.fan_out), tied_to=self.tied_to, turned=True)
        shared = self.bias_of
        bias = [Weight(f"b_{index}", (self.fan_out,), minor=True, tied_to=shared, key="bias")] if self.bias else []
        return Cost(weights=(weight, *bias))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Apply the map to each row."""
        weight, *bias = self.weights(x.trace)
        if self.turned:
            weight = x.trace.lower(weight)
        packed = self.kind == "linear" or (self.kind == "output" and x.trace.packs_head)
        made = linear(x, weight, *bias, letter=self.letter or self.name, packed=packed)
        return x.trace.adapted(self, x, made)


class BlockDiagonal(Linear):
    """A block-diagonal matrix: ``blocks`` blocks of ``fan_in`` × ``fan_out``, each of its own part of the input."""

    blocks: Num = 1

    @property
    def copies(self) -> Num:
        """The blocks."""
        return self.blocks

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Apply each block to its part of the input, of blocks × tokens × ``fan_in``."""
        weight, bias = (x.trace.weight(each, self.blocks) for each in self.own_params().weights)
        return block_diagonal(x, weight, bias, letter=self.letter or self.name)


def parameter(name: str, *shape: Num, minor: bool = False) -> Parameter:
    """A trained tensor by itself."""
    return Parameter(name, Weight(name, shape, minor=minor, key=""))


class PositionVectors(Module):
    """A trained vector of this ``width`` for each of ``rows`` positions."""

    kind = "position"

    rows: Num
    width: Num

    def own_params(self) -> Cost:
        """P."""
        return Cost(weights=(Weight("P", (self.rows, self.width)),))


class Parameter(Module):
    """A tensor that an operation of the module above reads, and that is trained."""

    kind = "parameter"

    tensor: Weight

    def own_params(self) -> Cost:
        """The tensor, as a weight."""
        return Cost(weights=(self.tensor,))

    def weight(self, trace: Trace) -> Tensor:
        """The tensor where this module runs."""
        with trace.inside(self):
            return trace.weight(self.tensor)


class Buffer(Parameter):
    """One that is not trained."""

    kind = "buffer"

    def own_params(self) -> Cost:
        """The tensor, as a buffer."""
        return Cost(buffers=(self.tensor,))


def buffer(name: str, *shape: Num) -> Buffer:
    """A tensor that is not trained, by itself."""
    return Buffer(name, Weight(name, shape, key=""))


class Norm(Module):
    """A norm of rows of this ``width``: its ``form`` says which, ``code`` whose program it is where several differ.

    Each of the ``heads`` has weights of its own.
    """

    kind = "norm"

    form: str
    width: Num
    code: str = ""
    heads: Num = 1

    def own_params(self) -> Cost:
        """γ and β, as far as it has them."""
        letters, width = (NORMS | FURTHER_NORMS)[self.form].weights, self.heads * self.width
        return Cost(weights=tuple(Weight(each, (width,), minor=True, key=KEYS[each]) for each in letters))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Normalize each row."""
        weight, bias, *_ = *(self._by_head(x.trace.weight(each)) for each in self.own_params().weights), None, None
        return norm(self.form, x, weight, bias, lambda: ctx.backend.norm(self, x, weight, bias))

    def _by_head(self, weight: Tensor) -> Tensor:
        return weight if known(self.heads) == 1 else reshape(weight, self.heads, self.width)


class Embedding(Module):
    """A row of this ``width`` for each of ``rows`` words; ``tied_to`` names the table that it shares its storage with.

    The vectors may be multiplied by a number (``scales``). What is tied to it may run first, and then makes the table
    by the name that it is ``known_as``.
    """

    kind = "embedding"

    rows: Num
    width: Num
    tied_to: str | None = None
    scales: bool = False
    known_as: str = ""

    def own_params(self) -> Cost:
        """E."""
        return Cost(weights=(Weight("E", (self.rows, self.width), tied_to=self.tied_to),))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """The rows of these tokens."""
        (weight,) = self.own_params().weights
        table = x.trace.weight(weight._replace(tied_to=self.known_as) if self.known_as else weight)
        x.trace.alias("embedding", table)  # what heads are tied to, by whatever name
        made = embedding(table, x)
        return scaled(made) if self.scales else made
