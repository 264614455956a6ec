"""Work of a model for each token, layer by layer: matrix products, attention, and elements read and written.

A fold of the model's tree on one sequence. Nothing of it depends on how GPUs share the model, so that a million layouts
read it once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tfcalc.core.component import NORMS
from tfcalc.core.measure import matmul_flops, params, trainable_params
from tfcalc.core.recomputation import ATTENTION, LAYER, MIXER, MIXTURE, down_projections, is_latent, modules_of
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.core.component import Component, Node
    from tfcalc.model import Model

EXPERTS, DROPOUT = "experts", "dropout"
STREAM = ("norm", "residual")
"""Kinds of components whose elementwise work is on the hidden vectors of all tokens."""


class Product(NamedTuple):
    """A linear map of a token, ``inner`` to ``columns``; ``backward`` products of the same size in the backward pass.

    It runs ``times`` in a layer. ``modules`` are those that it is in, of which each can run again in backward.
    """

    inner: int
    columns: int
    backward: int = 2
    times: int = 1
    modules: frozenset[str] = frozenset()


class RoutedWork(NamedTuple):
    """Routed experts of a layer: their ``number``, how many are ``active`` for a token, and what one of them does."""

    number: int
    active: int
    products: tuple[Product, ...]

    @property
    def params(self) -> int:
        """Parameters of all of them in its products."""
        return self.number * sum(one.inner * one.columns * one.times for one in self.products)


class LayerWork(NamedTuple):
    """Work of one of ``copies`` equal layers.

    Attributes:
        copies: number of layers like it.
        width: hidden size h.
        products: linear maps of every token.
        experts: routed experts, if it has some.
        attention: forward FLOPs of its attention on one sequence, of the pairs that the masks leave.
        scores: attention scores of one sequence, with those that are masked.
        keys: width of the keys and values of a token, of all heads.
        stream: elements of norms and residual connections, per token.
        inside: elements of what is rotated, gated and activated, per token; those of ``routed`` tokens by themselves.
        params: parameters, without those of routed experts.
        modules: elementwise work of each of ``core.recomputation.MODULES`` that it has, in elements per token.
        whole: of its ``params`` those that each GPU of tensor parallelism has: norms, routers, maps down to latent
            vectors (as Transformer Engine has them).
        norms_apart: norms that are operations of their own in Megatron-core with Transformer Engine, before latent
            attention and before a mixture; elsewhere they are in the product that follows.
        normed: width of the queries and keys of a token that norms of heads read.
        dropped: elements per token on which dropout is, of hidden vectors.
    """

    copies: int
    width: int
    products: tuple[Product, ...]
    experts: RoutedWork | None
    attention: float
    scores: float
    keys: int
    stream: float
    inside: float
    routed: float
    params: int
    modules: Mapping[str, float] = {}
    norms_apart: int = 0
    whole: int = 0
    normed: float = 0.0
    dropped: float = 0.0

    @property
    def params_of_all(self) -> int:
        """Parameters, with those of routed experts."""
        return self.params + (self.experts.params if self.experts else 0)


class ModelWork(NamedTuple):
    """Work of a model on sequences of ``length`` tokens.

    Attributes:
        length: tokens of the sequence that it was asked of.
        layers: kinds of layers.
        head: linear maps outside of the layers: the output head.
        outside: parameters outside of the layers, tables and head, tied ones once.
        trained: share of the parameters that are trained.
        flops: FLOPs of a training step per token, of visible pairs, nothing recomputed.
        positions: of ``outside`` the learned positions, which each GPU of tensor parallelism has whole.
    """

    length: int
    layers: tuple[LayerWork, ...]
    head: tuple[Product, ...]
    outside: int
    trained: float
    flops: float
    positions: int = 0

    @property
    def modules(self) -> frozenset[str]:
        """Modules of its layers that can run again (``core.recomputation.MODULES``)."""
        return frozenset(name for layer in self.layers for name in layer.modules)

    @property
    def read_by_a_token(self) -> int:
        """Parameters of the products that a token takes part in."""

        def of(products: tuple[Product, ...]) -> int:
            return sum(one.inner * one.columns * one.times for one in products)

        routed = sum(one.copies * one.experts.active * of(one.experts.products) for one in self.layers if one.experts)
        return sum(one.copies * of(one.products) for one in self.layers) + routed + of(self.head)

    @property
    def depth(self) -> int:
        """Number of layers."""
        return sum(layer.copies for layer in self.layers)

    @property
    def width(self) -> int:
        """Hidden size of the widest layer."""
        return max((layer.width for layer in self.layers), default=0)

    @property
    def vocabulary(self) -> int:
        """Columns of the output head; 0 without one."""
        return max((one.columns for one in self.head), default=0)

    @property
    def params(self) -> int:
        """Parameters of the model."""
        return self.outside + sum(layer.copies * layer.params_of_all for layer in self.layers)


def work_of(model: Model, length: int, tree: Component | None = None) -> ModelWork:
    """Fold the tree of a training step on one sequence of ``length`` tokens; of an adapted model its own ``tree``."""
    run = Workload(seq_len=length, phase="train", attention="causal", recompute="none")
    root = (model.tree(run) if tree is None else tree).root()
    layers: list[Node] = []
    outside: list[Node] = []
    for node in _layers_and_rest(root):
        (layers if node.component.kind == LAYER else outside).append(node)
    keys = _keys(model, length)
    of_layers = tuple(_layer(node, length, keys) for node in layers)
    head = tuple(product for node in outside for product in _products(node.component, value_of(node.times.run)))
    whole = ModelWork(length, of_layers, head, 0, 1.0, 0.0)
    every = value_of(root.total(params))
    trained = value_of(root.total(trainable_params)) / every if every else 1.0
    flops = sum(
        value_of(factors.flops) * (1 + value_of(factors.backward)) * value_of(node.times.run)
        for node in root.walk()
        for factors in node.component.own.products
    )
    positions = sum(value_of(node.total(params)) for node in root.walk() if node.component.kind == "position")
    return whole._replace(outside=every - whole.params, trained=trained, flops=flops / length, positions=positions)


def _layers_and_rest(node: Node) -> Iterator[Node]:
    """Yield the layers of the tree, and what is outside of them and does something."""
    if node.component.kind == LAYER:
        yield node
        return
    if node.component.own.products:
        yield node
    for part in node.below():
        yield from _layers_and_rest(part)


def _products(component: Component, times: int = 1, modules: frozenset[str] = frozenset()) -> Iterator[Product]:
    for one in component.own.products if component.own.weights else ():
        yield Product(value_of(one.inner), value_of(one.columns), value_of(one.backward), times, modules)


def _keys(model: Model, length: int) -> int:
    """Return the width of the keys and values of a token that a layer caches, the widest; 0 where nothing is cached."""
    try:
        root = model.tree(Workload(seq_len=length, phase="decode")).root()
    except InvalidModel:  # an encoder decodes nothing
        return 0
    return max(
        (
            sum(
                value_of(one.heads) * value_of(one.width)
                for one in node.component.own.cached
                if one.grows and one.tokens is not None
            )
            for node in root.walk()
        ),
        default=0,
    )


def _layer(layer: Node, length: int, keys: int) -> LayerWork:
    """Fold one of these layers."""
    whole = value_of(layer.times.run)
    alone = layer.component._replace(copies=1, active=None, passes=1)
    products: list[Product] = []
    inside_experts: list[Product] = []
    number = active = 0
    attention = scores = stream = inside = routed = 0.0
    around: dict[tuple[str, ...], tuple[Component, ...]] = {}
    of_modules = Counter[str]()
    norms_apart, of_norm, whole_params, normed, dropped = 0, 0.0, 0, 0.0, 0.0
    for node in alone.root().walk():
        part, times = node.component, value_of(node.times.run)
        above = around.get(node.names[:-1], ())
        around[node.names] = (*above, part)
        modules = modules_of(part, above) if above else frozenset[str]()
        norms_apart += part.kind == MIXTURE or (part.kind == MIXER and is_latent(part))
        in_experts = times != value_of(node.times.stored)
        if part.kind == EXPERTS and in_experts:
            number, active = value_of(node.times.stored), times
        made = list(_products(part, 1 if in_experts else times, modules))
        (inside_experts if in_experts else products).extend(made)
        if not made and part.own.products:
            attention += times * value_of(matmul_flops(part.own))
        elements = times * sum(value_of(work.elements) for work in part.own.elementwise if work.forward) / length
        down = part.kind == "linear" and bool(above) and part.name in down_projections(above[-1])
        whole_params += value_of(node.total(params)) if part.kind in ("norm", "router") or down else 0
        normed += elements if part.kind == "norm" and any(_of_heads(one) for one in above) else 0
        of_norm = elements if part.kind == "norm" and len(above) == 1 else of_norm
        of_modules.update(dict.fromkeys(modules, 0.0 if part.kind == ATTENTION or made else elements))
        if part.kind == ATTENTION:
            scores += elements * length / max(1, len(part.own.elementwise))
        elif part.kind == DROPOUT:  # in the kernels of what is beside it
            dropped += elements if len(above) == 1 else 0
        elif in_experts:
            routed += elements
        elif part.kind in STREAM:
            stream += elements
        elif not made:  # biases are added by the product's own kernel
            inside += elements
    experts = RoutedWork(number, active, tuple(inside_experts)) if inside_experts else None
    own = value_of(alone.root().total(params)) - (experts.params if experts else 0)
    width = max((one.columns for one in products), default=0) if not stream else _width(alone)
    elements_of = dict(of_modules) | ({NORMS: float(norms_apart * of_norm)} if norms_apart else {})
    return LayerWork(
        whole,
        width,
        tuple(products),
        experts,
        attention,
        scores,
        keys,
        stream,
        inside,
        routed,
        own,
        elements_of,
        norms_apart,
        whole_params,
        normed,
        dropped,
    )


def _of_heads(mixer: Component) -> bool:
    """Return whether norms in it are of heads; those of latent vectors are between two products."""
    return mixer.kind == MIXER and not is_latent(mixer)


def _width(layer: Component) -> int:
    """The hidden size: that of the norms, or of the widest residual."""
    sizes = [
        value_of(weight.shape[-1])
        for node in layer.root().walk()
        if node.component.kind == "norm" and len(node.names) <= 2
        for weight in node.component.own.weights
    ]
    return max(sizes, default=0)
