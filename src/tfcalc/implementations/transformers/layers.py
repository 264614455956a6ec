"""Layers: where the norms stand, what is added to the stream, and which layers are computed again."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, divide
from tfcalc.core.traced import value_of
from tfcalc.implementations.transformers.running import Running, of_memory
from tfcalc.tape.value import Value

BESIDE = ("norm", "residual", "dropout", "parameter", "buffer", "position")
"""Parts of a layer that are no sub-layer."""


def stack(m: Running, groups: list[Component], x: Value) -> Value:
    """The layers of a stack, from the bottom."""
    like_others = x.needs_gradient and x.dtype == m.t.numerics.weights and not x.storage.keepers
    for name, layer, again, copies in _in_order(m, groups, like_others):
        passes = layer.passes if not m.every_layer and copies == layer.copies * layer.passes else 1
        with m.t.inside(name, divide(copies, passes), passes):
            x = m.t.checkpoint(Checkpointed(m, layer), x) if again else one(m, layer, x)
    return x


class Checkpointed:
    """A layer and what it was given beside the stream, which a checkpoint holds until it runs the layer again."""

    def __init__(self, m: Running, layer: Component) -> None:
        self.m = m
        self.layer = layer
        self.shared = m.shared

    def __call__(self, x: Value) -> Value:
        """Run it."""
        before, self.m.shared = self.m.shared, self.shared
        result = one(self.m, self.layer, x)
        self.m.shared = before
        return result


def _in_order(m: Running, groups: list[Component], reached: bool) -> Iterator[tuple[str, Component, bool, Num]]:
    """Each layer with its name, whether backward computes it again, and how many it stands for."""
    every = m.run.every
    if m.every_layer:
        placed = [(place, layer) for layer in groups for place in _places(layer)]
        for place, layer in sorted(placed, key=lambda each: each[0]):
            yield _name(layer, place), layer, bool(every) and place % every == 0, 1
        return
    for layer in groups:
        yield from _kinds(layer, every, reached)
        reached = True


def _kinds(layer: Component, every: int, reached: bool) -> Iterator[tuple[str, Component, bool, Num]]:
    """Layers that are equal but for what they keep.

    These are what is computed again, and the first where what it reads has another format than the stream, or none is
    trained below, or it is kept anyway.
    """
    copies = layer.copies * layer.passes
    again: Num = ceil_div(copies, every) if every else 0
    kinds = [("[recomputed]", True, again), ("[not recomputed]", False, copies - again)]
    kinds = [kind for kind in kinds if kind[1] == bool(every) or (every > 1 and not kind[1])]
    if not reached:
        _, computed_again, first = kinds[0]
        yield f"{layer.name}[first]", layer, computed_again, 1
        kinds[0] = ("[others]", computed_again, first - 1)
    for name, computed_again, number in kinds:
        yield layer.name + (name if len(kinds) > 1 or not reached else ""), layer, computed_again, number


def _name(layer: Component, place: int) -> str:
    return f"{layer.name.split('[')[0]}.{place}"


def _places(layer: Component) -> tuple[int, ...]:
    """Its places in the stack; a layer that runs several times has the same one each time, and the same weights."""
    if layer.places is None:
        once = tuple(range(layer.under, layer.under + value_of(layer.copies)))
        return once * value_of(layer.passes)
    return layer.places * (value_of(layer.copies * layer.passes) // len(layer.places))


def one(m: Running, layer: Component, x: Value) -> Value:
    """A layer, by where its norms stand; or a group of layers (ALBERT's)."""
    groups = [part for part in layer.parts if part.kind == "layer"]
    if groups:
        return stack(m, groups, x)
    parts = layer.parts if m.shared.memory is not None else [part for part in layer.parts if not of_memory(part)]
    norms = [part for part in parts if part.kind == "norm"]
    subs = [part for part in parts if part.kind not in BESIDE]
    wired = wiring(m, norms, subs)
    if wired == "pre" and len(norms) == 1 < len(subs):  # ModernBERT's first layer, which reads what a norm made
        first, *subs = subs
        x = m.t.add(x, _for_stream(m, first, m(first, x)))
    x = WIRINGS[wired](m, norms, subs, x)
    m.until_layer_ends.clear()
    return x


def wiring(m: Running, norms: list[Component], subs: list[Component]) -> str:
    """Where norms stand: as the family has it, or as their number suggests."""
    if m.field("do_layer_norm_before") is False:
        return "post"
    if m.habits.norms:
        return m.habits.norms
    if any(m.field(name, default) for name, default in m.habits.side_by_side) or len(norms) < len(subs):
        return "parallel"
    return "sandwich" if len(norms) == 2 * len(subs) else "pre"


def pre(m: Running, norms: list[Component], subs: list[Component], x: Value) -> Value:
    """``x + f(norm(x))``; sub-layers without a norm of their own stand beside the last that has one."""
    for place, (normed, sub) in enumerate(zip(norms, subs, strict=False)):
        beside = subs[len(norms) :] if place == len(norms) - 1 else []
        x = m.t.add(x, _for_stream(m, sub, _with(m, sub, beside, m(normed, x))))
    return x


def _with(m: Running, sub: Component, beside: list[Component], x: Value) -> Value:
    """The sum of what these make of ``x``."""
    made = m(sub, x)
    for each in beside:
        made = m.t.add(made, m(each, x))
    return made


def _for_stream(m: Running, sub: Component, made: Value) -> Value:
    """What is added to the stream of what a sub-layer made; that itself is gone then, unless a variable holds it."""
    return _times(m, _dropped(m, sub, _held(m, made)))


def _held(m: Running, x: Value) -> Value:
    """What a variable of the layer may hold until it ends."""
    if m.habits.holds_outputs:
        m.until_layer_ends.append(x)
    return x


def _dropped(m: Running, sub: Component, x: Value) -> Value:
    """What a sub-layer made, with some of it dropped, where the family does that behind such a sub-layer."""
    kinds = m.habits.drops_behind
    return x if kinds is not None and sub.kind not in kinds else m.dropped(x, m.habits.dropped)


def _times(m: Running, x: Value) -> Value:
    """A multiple, where the family has one (Granite's ``residual_multiplier``)."""
    return m.t.scaled(x) if "sub-layers" in m.habits.multiplied else x


def behind(m: Running, norms: list[Component], subs: list[Component], x: Value) -> Value:
    """``x + norm(f(x))``."""
    for normed, sub in zip(norms, subs, strict=False):
        x = m.t.add(x, _dropped(m, sub, m(normed, m(sub, x))))
    return x


def post(m: Running, norms: list[Component], subs: list[Component], x: Value) -> Value:
    """``norm(x + f(x))``."""
    for normed, sub in zip(norms, subs, strict=False):
        x = _normed_sum(m, normed, [_dropped(m, sub, m(sub, x))], x)
    return x


def _normed_sum(m: Running, normed: Component, made: list[Value], x: Value) -> Value:
    """The norm of ``x`` and what was made of it, which is given in a list, as a variable may hold it or may not."""
    return m(normed, m.t.add(made[0] if m.habits.norms_in_line else made.pop(), x))


def sandwich(m: Running, norms: list[Component], subs: list[Component], x: Value) -> Value:
    """``x + norm(f(norm(x)))``."""
    for before, after, sub in zip(norms[::2], norms[1::2], subs, strict=False):
        x = m.t.add(x, _dropped(m, sub, m(after, m(sub, m(before, x)))))
    return x


def parallel(m: Running, norms: list[Component], subs: list[Component], x: Value) -> Value:
    """``x + f(norm(x)) + g(norm(x))``, with a norm each, or one for both; what each makes is held until the end."""
    outputs: list[Value] = []
    for place, sub in enumerate(subs):
        if place < len(norms):
            normed = m(norms[place], x)
        outputs.append(_dropped(m, sub, m(sub, normed)))
    made = outputs[0]
    for each in outputs[1:]:
        made = m.t.add(each, made)
    return m.t.add(made, x)


WIRINGS = {
    "behind": behind,
    "pre": pre,
    "post": post,
    "sandwich": sandwich,
    "parallel": parallel,
}
