"""A transformer layer, and stacks of layers that need not be alike."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from tfcalc.blocks.attention import Attention
from tfcalc.blocks.feed_forward import FeedForward
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import dropout, norm, residual
from tfcalc.tape.groups import span
from tfcalc.workload import Sequences, Workload

Kind = TypeVar("Kind", bound=Hashable)
STORED = ("parameter", "buffer")
NO_RESIDUAL = ("norm", "dropout", *STORED)


class Layer(NamedTuple):
    """Self-attention, cross-attention where there is a memory to read, feed-forward.

    A norm before its sub-layer (pre-norm) costs what one after it does (``post_norm``), so their places are not told
    apart; but what is saved last is. ``causal`` says whether self-attention looks only back. ``reading`` is the
    attention to the memory, where that is another (without the positions of self-attention).

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.1.
    """

    attention: Attention
    ffn: FeedForward
    d_model: Num
    norm: str
    causal: bool
    post_norm: bool
    reading: Attention | None = None

    def __call__(self, stream: Sequences, memory: Sequences | None, run: Workload, copies: Num = 1) -> Component:
        """``copies`` layers on ``stream``, each reading ``memory`` (the encoder's output) if there is one."""
        sublayers = {"self": self.attention("self_attention", stream, stream, run, causal=self.causal)}
        stream = stream._replace(needs_gradient=True)  # behind trained weights
        if memory is not None:
            sublayers["cross"] = (self.reading or self.attention)("cross_attention", stream, memory, run, causal=False)
        sublayers["ffn"] = self.ffn("ffn", stream, run)
        if not (self.post_norm or run.drops):
            sublayers["ffn"] = ending(sublayers["ffn"])
        parts = (part for name, sublayer in sublayers.items() for part in self._wrapped(name, sublayer, stream, run))
        return Component("layer", "layer", parts=tuple(parts), copies=copies)

    def stack(self, stream: Sequences, memory: Sequences | None, run: Workload, count: Num) -> Iterator[Component]:
        """``count`` of them; in training the first stands by itself where what it reads needs no gradient."""
        if stream.needs_gradient or not run.training:
            yield self(stream, memory, run, count)
            return
        yield self(stream, memory, run)._replace(name="layer[first]", places=(0,))
        yield self(stream._replace(needs_gradient=True), memory, run, count - 1)._replace(name="layer[others]", under=1)

    def _wrapped(self, name: str, sublayer: Component, stream: Sequences, run: Workload) -> Iterator[Component]:
        elements = stream.tokens * self.d_model
        yield sublayer
        if run.drops:
            yield dropout(f"{name}_dropout", elements)
        yield residual(f"{name}_residual", elements)
        yield norm(f"{name}_norm", self.norm, self.d_model, stream.tokens)


def layer(
    name: str, parts: Iterable[Component], elements: Num, copies: Num = 1, *, ends_with_sum: bool = False
) -> Component:
    """A layer of these parts, by a checkpoint's names; each that is no norm is added to the stream (``elements``).

    ``ends_with_sum``: the sum of the last of them with the stream is the layer's output, so that nothing is saved after
    its last product; otherwise a norm, dropout or a gate follows.
    """
    given = list(parts)
    mixers = [place for place, part in enumerate(given) if part.kind not in NO_RESIDUAL]
    if ends_with_sum and mixers:
        given[mixers[-1]] = ending(given[mixers[-1]])
    sublayers: list[Component] = []
    for part in given:
        sublayers.append(part)
        if part.kind not in NO_RESIDUAL:
            sublayers.append(residual(f"{part.name}.residual", elements))
    return Component(name, "layer", parts=tuple(sublayers), copies=copies)


def ending(part: Component) -> Component:
    """The same, its last operation marked as the last of its layer; not where experts are weighted and summed."""
    if part.parts:
        last = max((place for place, inside in enumerate(part.parts) if inside.kind not in STORED), default=0)
        if part.kind == "experts" or part.parts[last].kind == "experts":
            return part
        return part._replace(parts=(*part.parts[:last], ending(part.parts[last]), *part.parts[last + 1 :]))
    return part._replace(own=part.own._replace(last=True)) if part.own.products else part


def stack(name: str, kinds: Sequence[Kind], count: Num, make: Callable[[Kind], Component]) -> Iterator[Component]:
    """Layers one upon another, ``make(kind)`` for each; those of a kind are one component with so many copies.

    ``count`` is the number of ``kinds`` as a size, so that a stack of equal layers has a symbol for it. Groups are
    named by the layers that they hold: ``layers[0-2]``, ``layers[3-60]``.
    """
    groups: dict[Kind, list[int]] = {}
    for place, kind in enumerate(kinds):
        groups.setdefault(kind, []).append(place)
    for kind, places in groups.items():
        made = make(kind)
        alone = len(groups) == 1
        if alone:
            yield made._replace(name=name, copies=count)
        else:
            yield made._replace(name=f"{name}[{span(places)}]", copies=len(places), places=tuple(places))
