"""Inputs of the formulas of papers: a handful of a model's sizes, and whether it is the kind that they are about."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.analysis.six_nd import MULTIPLY_ADD, counted
from tfcalc.core.component import Component, Matmul
from tfcalc.core.measure import major_params
from tfcalc.core.number import Num, product
from tfcalc.core.polynomial import symbol
from tfcalc.named_tuple import NamedTuple
from tfcalc.report import exact
from tfcalc.workload import Workload

STACK, GROUPED, GATED, WIDTH, INNER, HEAD = "stack", "grouped", "gated", "width", "inner", "head"
"""How a model may differ from GPT-2: no plain stack of layers at all; fewer keys and values; a gate; heads that are
together not as wide as the model; a feed-forward network that is not four times as wide; no output head."""

MEANINGS = {
    "b": "batch size",
    "l": "sequence length",
    "n": "layers",
    "h": "hidden size",
    "a": "attention heads",
    "d": "head width",
    "f": "feed-forward size",
    "V": "vocabulary",
    "N": "parameters",
}


class Shape(NamedTuple):
    """The sizes, by their letters; those of the layers are 0 where there is no plain stack of them."""

    b: Num
    l: Num
    N: Num
    n: Num = 0
    h: Num = 0
    a: Num = 0
    d: Num = 0
    f: Num = 0
    V: Num = 0


SYMBOLS = Shape(*(symbol(letter) for letter in Shape._fields))
"""The same in letters: what is a number of them is a closed form of these."""


class Layer(NamedTuple):
    """The sizes of one layer; ``groups`` are its heads of keys and values, ``gated`` networks have three matrices."""

    h: int
    a: int
    d: int
    groups: int
    f: int
    gated: bool


class Unlike(Exception):
    """A structure that no formula of a plain stack covers, in words."""


def shape_of(root: Component, run: Workload) -> tuple[Shape, dict[str, str]]:
    """The sizes of a model's tree, and in what it differs from GPT-2, each in words.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> tree = Transformer(kind="decoder", n_kv_heads=2, vocab_size=100, positions="none").tree(Workload())
    >>> shape_of(tree, Workload())[1]
    {'grouped': 'grouped-query heads (2 for 8)'}
    """
    sizes = Shape(run.batch_size, run.target.length, counted(root).every)
    try:
        layer, count = _stack(root, run)
    except Unlike as reason:
        return sizes, {STACK: str(reason)}
    vocabulary = [node.component.own.weights[0].shape[-1] for node in root.walk() if node.component.kind == "output"]
    sizes = sizes._replace(n=count, h=layer.h, a=layer.a, d=layer.d, f=layer.f, V=vocabulary[0] if vocabulary else 0)
    return sizes, dict(_unlike_gpt2(layer, bool(vocabulary)))


def _unlike_gpt2(layer: Layer, head: bool) -> Iterator[tuple[str, str]]:
    if layer.groups != layer.a:
        yield GROUPED, f"grouped-query heads ({layer.groups:,} for {layer.a:,})"
    if layer.gated:
        yield GATED, "a gated feed-forward network"
    if layer.a * layer.d != layer.h:
        yield WIDTH, f"heads {layer.a * layer.d:,} wide together, not {layer.h:,}"
    if layer.f != 4 * layer.h:
        yield INNER, f"a feed-forward size of {layer.f:,}, not 4 x {layer.h:,}"
    if not head:
        yield HEAD, "no output head"


def _stack(root: Component, run: Workload) -> tuple[Layer, int]:
    """The layer that the whole model repeats, and how often. Raises Unlike."""
    nodes = [node for node in root.walk() if node.component.kind == "layer" and _multiplying(node.component)]
    if any(sum(part.kind == "attention" for part in node.component.parts) > 1 for node in nodes):
        raise Unlike("an encoder-decoder")
    if any(node.component.kind == "experts" for node in root.walk()):
        raise Unlike("experts")
    if any(exact(node.times.run) != exact(node.times.stored) for node in nodes):
        raise Unlike("layers that share their weights")
    layers = {_layer(node.component, run) for node in nodes}
    if len(layers) != 1:
        raise Unlike("layers that are not alike")
    return layers.pop(), sum(exact(node.times.run) for node in nodes)


def _multiplying(layer: Component) -> list[Component]:
    """The parts of a layer that have products, but for layers in it."""
    return [part for part in layer.parts if part.kind != "layer" and _products(part)]


def _layer(layer: Component, run: Workload) -> Layer:
    parts = {part.kind: part for part in _multiplying(layer)}
    if set(parts) != {"attention", "ffn"} or len(parts) != len(_multiplying(layer)):
        raise Unlike("layers of more or less than attention and a feed-forward network")
    h, a, d, groups = _attention(parts["attention"], run)
    f, gated = _ffn(parts["ffn"], h)
    return Layer(h, a, d, groups, f, gated)


def _attention(attention: Component, run: Workload) -> tuple[int, int, int, int]:
    """h, a, d, and the heads of keys and values: what the projections have beyond 2·h·a·d, by 2·h·d each."""
    scores = [one for node in attention.walk() if not node.component.own.weights for one in node.component.own.products]
    attends = [node for node in attention.walk() if node.component.kind == "attend"]
    if len(attends) != 1 or len(scores) != 2 or scores[0].factors != scores[1].factors:
        raise Unlike("attention of other products than Q Kᵀ and P V")
    *pairs, a, d = (exact(factor) for factor in scores[0].factors)
    tokens = exact(run.target.length)
    if exact(product(pairs)) != MULTIPLY_ADD * exact(run.batch_size) * tokens * tokens:
        raise Unlike("attention of other pairs than each token with each")
    h = exact(_products(attention)[-1].columns)
    groups, rest = divmod(exact(attention.each(major_params)) - 2 * h * a * d, 2 * h * d)
    if rest or not 0 < groups <= a:
        raise Unlike("attention of other projections than of queries, keys, values and output")
    return h, a, d, groups


def _ffn(ffn: Component, h: int) -> tuple[int, bool]:
    """f, and whether a third matrix makes a gate."""
    last = _products(ffn)[-1]
    inner, width = exact(last.inner), exact(last.columns)
    matrices, rest = divmod(exact(ffn.each(major_params)), h * inner)
    if rest or width != h or matrices not in (2, 3):
        raise Unlike("a feed-forward network of other matrices than two, or three with a gate")
    return inner, matrices == 3


def _products(component: Component) -> list[Matmul]:
    return [one for node in component.walk() for one in node.component.own.products]
