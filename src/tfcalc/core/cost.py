"""What one operation of the hardware costs, item by item, so that every total can be opened up.

An operation (see :mod:`tfcalc.ops`) states its items; nothing else in tfcalc knows a formula. Questions pick the
items they ask about and add them up over the tree (see :mod:`tfcalc.core.measure`).
"""

from typing import NamedTuple

from tfcalc.core.number import Num, product


class Tensor(NamedTuple):
    """A weight or a buffer that a module holds.

    ``name`` is its usual one (``W_Q``), ``shape`` is rows × columns as the mathematics writes it.
    ``minor`` marks biases and norms, which the usual approximations drop. ``tied_to`` names the tensor whose storage
    this one shares: then it is stored there, and only used here. ``key`` is what a checkpoint calls it within its
    module: ``weight``, ``bias``, or nothing where the module's name is already the tensor's. ``frozen`` weights are
    stored as parameters, but never trained. Matrices of linear maps are ``turned``: libraries store columns × rows.
    """

    name: str
    shape: tuple[Num, ...]
    minor: bool = False
    tied_to: str | None = None
    key: str = "weight"
    frozen: bool = False
    turned: bool = False

    @property
    def size(self) -> Num:
        """How many numbers it holds."""
        return product(self.shape)


class Product(NamedTuple):
    """A matrix product: its FLOPs are the product of its ``factors``.

    M×K by K×N is ``(2, M, K, N)``: each of the M·N outputs takes K multiplications and K additions. ``backward`` is how
    many products of the same size the backward pass runs: one per operand that needs a gradient, and one more if a
    fused kernel computes it again. ``overcounted`` are those that PyTorch's counter has beyond them, in error.
    """

    name: str
    factors: tuple[Num, ...]
    backward: Num = 2
    overcounted: Num = 0

    @property
    def flops(self) -> Num:
        """Of the forward pass."""
        return product(self.factors)

    @property
    def rows(self) -> Num:
        """M, of M×K by K×N."""
        *_, rows, _, _ = self.factors
        return rows

    @property
    def inner(self) -> Num:
        """K."""
        *_, inner, _ = self.factors
        return inner

    @property
    def columns(self) -> Num:
        """N; of scores, a head's width."""
        *_, columns = self.factors
        return columns


class Elementwise(NamedTuple):
    """Work that is no matrix product: ``forward`` operations on each of ``elements``, ``backward`` for its gradient."""

    name: str
    elements: Num
    forward: int
    backward: Num


class Message(NamedTuple):
    """What a device sends to others: a collective operation of so many ``devices`` on a tensor of ``elements`` numbers.

    It runs so many times ``forward``, and ``backward``. ``bits`` are a number's, where they do not follow the model's.
    """

    name: str
    devices: Num
    elements: Num
    forward: Num
    backward: Num
    bits: int | None = None


class Held(NamedTuple):
    """A tensor that stays in memory: the product of its ``factors`` numbers, of so many ``bits`` each.

    A question about memory builds a tree of these: weights, gradients, what is saved for backward, a cache.
    """

    name: str
    factors: tuple[Num, ...]
    bits: int

    @property
    def size(self) -> Num:
        """How many numbers it holds."""
        return product(self.factors)


class Cached(NamedTuple):
    """What an operation keeps from one decoding step to the next: in each sequence, ``heads`` vectors of ``width``.

    There are so many for each of ``tokens``, or for ``every`` so many of them, the last ones not counted where they are
    too few; or only once where ``tokens`` are None: a state, whose size no length changes. Those of tokens that are
    decoded ``grow``; those of a source, made once, do not. Of the former a query sees only the last ``window``, or
    those of its ``chunk``. ``bits`` are a number's, where they do not follow the model's.
    """

    name: str
    heads: Num
    width: Num
    sequences: Num
    tokens: Num | None = None
    grows: bool = True
    window: Num | None = None
    chunk: int | None = None
    bits: int | None = None
    every: Num = 1

    @property
    def limit(self) -> Num | None:
        """Tokens that a query sees at the most: those of a window, or of a chunk; None for all."""
        return self.window if self.chunk is None else self.chunk


class Cost(NamedTuple):
    """Everything that one operation stores and does. ``lookups`` are rows fetched from a table (0 FLOPs).

    ``last`` of its layer is an operation after which nothing is saved for backward. What is computed ``again`` in
    backward is marked by :mod:`tfcalc.core.recomputation`. A mask of attention may have a ``limit``, the number of keys
    that a query sees at the most.
    """

    weights: tuple[Tensor, ...] = ()
    buffers: tuple[Tensor, ...] = ()
    products: tuple[Product, ...] = ()
    elementwise: tuple[Elementwise, ...] = ()
    lookups: Num = 0
    last: bool = False
    again: bool = False
    held: tuple[Held, ...] = ()
    cached: tuple[Cached, ...] = ()
    limit: Num | None = None
    messages: tuple[Message, ...] = ()
