"""The tree of a model's components, each with its copies and the costs of its operations, item by item.

An operation (:mod:`tfcalc.ops`) states its items; nothing else in tfcalc has a formula. Measures pick items and add
them up over the tree (:mod:`tfcalc.core.measure`), so every answer is a sum, and ``tfcalc explain`` can show its terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tfcalc.core.number import Num, product, total
from tfcalc.named_tuple import NamedTuple

TABLES = ("embedding", "position")
"""Kinds of components with a table of rows, which is looked up where a matrix is multiplied."""


class Weight(NamedTuple):
    """A weight or a buffer of a module.

    ``name`` is the papers' (``W_Q``); ``shape`` is rows × columns as in ``y = xW``. ``minor`` marks biases and norms,
    which the usual approximations drop. ``tied_to`` names the tensor whose storage this one shares: it is stored there
    and only used here. ``key`` is its name in a checkpoint within its module: ``weight``, ``bias``, or empty where the
    module's name is already the tensor's. ``frozen`` weights are stored as parameters but never trained. Matrices of
    linear maps are ``turned``: libraries store the transpose, columns × rows.
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
        """Number of elements."""
        return product(self.shape)


class Matmul(NamedTuple):
    """A matrix product: its FLOPs are the product of its ``factors``.

    M×K by K×N is ``(2, M, K, N)``: each of the M·N outputs takes K multiplications and K additions. ``backward`` is the
    number of products of the same size in the backward pass: one per operand that needs a gradient, and one more if a
    fused kernel recomputes this one. ``overcounted`` is the number that PyTorch's FlopCounterMode counts beyond that,
    in error.
    """

    name: str
    factors: tuple[Num, ...]
    backward: Num = 2
    overcounted: Num = 0

    @property
    def flops(self) -> Num:
        """FLOPs of the forward pass."""
        return product(self.factors)

    @property
    def rows(self) -> Num:
        """M of M×K by K×N."""
        *_, rows, _, _ = self.factors
        return rows

    @property
    def inner(self) -> Num:
        """K of M×K by K×N."""
        *_, inner, _ = self.factors
        return inner

    @property
    def columns(self) -> Num:
        """N of M×K by K×N; for attention scores, the width of a head."""
        *_, columns = self.factors
        return columns


class Elementwise(NamedTuple):
    """Elementwise work: ``forward`` operations per element of ``elements``, and ``backward`` for the gradient."""

    name: str
    elements: Num
    forward: int
    backward: Num


class Message(NamedTuple):
    """A collective operation of ``devices`` GPUs on a tensor of ``elements`` numbers.

    ``forward`` and ``backward`` are how many times it runs in these passes. ``bits`` per number, if they differ from
    the model's. The ``group`` is what these GPUs share.
    """

    name: str
    devices: Num
    elements: Num
    forward: Num
    backward: Num
    bits: int | None = None
    group: str = "tensor"


class Held(NamedTuple):
    """A tensor in memory: the product of its ``factors`` is its number of elements, of ``bits`` each.

    An answer about memory is a tree of these: weights, gradients, tensors saved for backward, a cache.
    """

    name: str
    factors: tuple[Num, ...]
    bits: int

    @property
    def size(self) -> Num:
        """Number of elements."""
        return product(self.factors)


class Cached(NamedTuple):
    """A cache entry of an operation, read by later decoding steps: ``heads`` vectors of ``width`` in each sequence.

    There is one entry per token of ``tokens``, or per group of ``every`` tokens (rounded down); with ``tokens=None``,
    one state per sequence, whatever its length. The cache of decoded tokens ``grows`` with each step; that of a source,
    as in cross-attention, does not. A query reads only the last ``window`` tokens of it, or those of its ``chunk``.
    ``bits`` per number, if they differ from the model's.
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
        """Largest number of cached tokens that a query reads: the window or the chunk; None without a limit."""
        return self.window if self.chunk is None else self.chunk


class Cost(NamedTuple):
    """Everything that one operation stores and does. ``lookups`` are rows fetched from a table (0 FLOPs).

    An operation is ``last`` if no later one of its layer saves anything for backward. :mod:`tfcalc.core.recomputation`
    marks those that run ``again`` in the backward pass. ``limit`` of an attention mask is the largest number of keys
    that a query sees. ``unpublished`` are tensors that transformers allocates, and the published weights lack;
    ``spared`` are the active parameters that a token does not use which is sent to experts without weights.
    """

    weights: tuple[Weight, ...] = ()
    buffers: tuple[Weight, ...] = ()
    products: tuple[Matmul, ...] = ()
    elementwise: tuple[Elementwise, ...] = ()
    lookups: Num = 0
    last: bool = False
    again: bool = False
    held: tuple[Held, ...] = ()
    cached: tuple[Cached, ...] = ()
    limit: Num | None = None
    messages: tuple[Message, ...] = ()
    unpublished: tuple[Weight, ...] = ()
    spared: Num = 0


NOTHING = Cost()
STORED, ACTIVE, RUN = range(3)
"""Copies of a component that a measure counts: the stored ones, those active per token, or these times their passes.
They differ in a mixture of experts and where layers share weights."""


class Measure:
    """A number of a single operation; the tree adds it up over the copies that ``counts`` names."""

    __slots__ = ("counts", "of")

    def __init__(self, of: Callable[[Cost], Num], counts: int) -> None:
        self.of = of
        self.counts = counts

    def __call__(self, cost: Cost) -> Num:
        """The measure of one operation."""
        return self.of(cost)


class CopyCounts(NamedTuple):
    """Numbers of copies: stored, active per token, and run (active copies times their passes)."""

    stored: Num
    active: Num
    run: Num


CORE_ATTENTION, MLP, MOE, SHARED_EXPERTS, MOE_ACTIVATION, NORMS, UP_PROJECTION = (
    "core_attn",
    "mlp",
    "moe",
    "shared_experts",
    "moe_act",
    "layernorm",
    "mla_up_proj",
)
MODULES = {
    CORE_ATTENTION: "attention between its projections",
    MLP: "dense feed-forward networks",
    MOE: "mixtures of experts",
    SHARED_EXPERTS: "shared experts",
    MOE_ACTIVATION: "activations of routed experts",
    NORMS: "norms before latent attention and before mixtures",
    UP_PROJECTION: "maps up from latent vectors, and their rotation",
}
"""Modules of a layer that Megatron-core can run again, each by itself (``--recompute-modules``).

Source: Megatron-core's TransformerConfig, ``recompute_modules``.
"""


def selected(kind: str) -> tuple[str, ...]:
    """Return the modules that a kind of checkpointing runs again: ``selective`` is attention's core."""
    return (CORE_ATTENTION,) if kind == "selective" else ()


class Component(NamedTuple):
    """A part of a model: an operation with a cost of its own, or a composition of parts.

    Attributes:
        name: the name among its siblings.
        kind: ``attention``, ``ffn``, ``norm``, ``linear``, …
        own: the cost of one copy without its parts: tensors and operations.
        parts: the submodules.
        copies: number of identical copies, each with weights of its own.
        active: copies that one token uses; all, except in a mixture of experts.
        passes: how often each copy runs; once, unless layers share their weights.
        places: which layers of a stack these are, where known.
        under: number of layers of other kinds below them in the stack.
    """

    name: str
    kind: str
    own: Cost = NOTHING
    parts: tuple[Component, ...] = ()
    copies: Num = 1
    active: Num | None = None
    passes: Num = 1
    places: tuple[int, ...] | None = None
    under: int = 0

    @property
    def times(self) -> CopyCounts:
        """Copies among its siblings: stored, active per token, run."""
        active = self.copies if self.active is None else self.active
        return CopyCounts(self.copies, active, active * self.passes)

    def each(self, measure: Measure) -> Num:
        """Return the measure of one copy: its own cost plus that of its parts."""
        return measure(self.own) + total(part.total(measure) for part in self.parts)

    def total(self, measure: Measure) -> Num:
        """Return the measure of all copies that it counts: ``copies · each``."""
        return self.times[measure.counts] * self.each(measure)

    def walk(self) -> Iterator[Node]:
        """Yield this component and all submodules, parents first, each as a node with its path."""
        return self.root().walk()

    def root(self) -> Node:
        """Return this component as the root of a tree."""
        return Node((self.name,), self, self.times)


class Node(NamedTuple):
    """A component in its tree: the names that lead to it, and the number of copies in the whole model."""

    names: tuple[str, ...]
    component: Component
    times: CopyCounts

    @property
    def path(self) -> str:
        """``core.encoder.layer``: the names from the root, dotted."""
        return ".".join(self.names)

    @property
    def copies(self) -> Num:
        """Number of stored copies in the whole model."""
        return self.times.stored

    def total(self, measure: Measure) -> Num:
        """Return the measure of all its copies in the whole model: ``copies · each``."""
        return self.times[measure.counts] * self.component.each(measure)

    def below(self) -> Iterator[Node]:
        """Yield its direct parts as nodes."""
        above = self.times
        for part in self.component.parts:
            times = part.times
            in_model = CopyCounts(above.stored * times.stored, above.active * times.active, above.run * times.run)
            yield Node((*self.names, part.name), part, in_model)

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, parents first."""
        yield self
        for node in self.below():
            yield from node.walk()
