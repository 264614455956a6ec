"""Every intermediate result of a part of a model: its name, its shape in letters and numbers, and what made it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from tfcalc.analysis.common import check_arguments, refuse_idle_in_flops
from tfcalc.analysis.targets import find, others
from tfcalc.answers.conventions_text import as_json, as_text
from tfcalc.conventions import Conventions
from tfcalc.core.component import RUN, Component, Node
from tfcalc.core.measure import LAYERS, work
from tfcalc.core.number import Num, total
from tfcalc.core.traced import formula_of, value_of
from tfcalc.errors import UsageError
from tfcalc.model import Model, asked_run, legend, remembering
from tfcalc.nn.module import counted_by
from tfcalc.report.shapes import Axes, Made, MatrixProduct, Shapes
from tfcalc.tape.shaping import Multiplied, Result, Shaping
from tfcalc.tape.tensor import Group, Shape
from tfcalc.workload import Workload
from tfcalc.zoo.transformer import Transformer


def shapes(
    target: str = "complete",
    model: Model | None = None,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
) -> Shapes:
    """List every intermediate result of a forward pass through one part of a model, in the order in which it is made.

    Args:
        target: a part of the model: a name (``attention``, ``sdpa``, ``layer``, ``complete``, …) or a path of the tree.
        model: as in :func:`~tfcalc.params`; by default the classic Transformer.
        workload: sequences, lengths in tokens and phase; by default one sequence of 512 tokens.
        conventions: ``count="all"`` counts passes over elements beside matrix products.

    Returns:
        Shapes: ``results`` with ``name``, ``axes`` (closed forms), ``sizes``, ``made_by`` and ``flops`` each, and
        ``answer``, the FLOPs of all of them.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense.
        UsageError: the target is not known, a training step is asked for, or the workload has another way of a part
            that this model does not have.

    >>> [(made.name, made.sizes) for made in shapes("sdpa", workload=Workload(batch_size=2, seq_len=5)).results]
    [('scores', (2, 8, 5, 5)), ('weights', (2, 8, 5, 5)), ('heads', (2, 8, 5, 64))]
    """
    by, model = conventions or Conventions(), Transformer() if model is None else model
    check_arguments(model, workload, conventions)
    run = asked_run(model, workload)
    model.check(run)
    if run.training:
        raise UsageError("shapes are those of a forward pass", "leave out --train, or choose --phase prefill or decode")
    refuse_idle_in_flops(model, run)
    trace = Shaping()
    root = counted_by(trace, remembering(model, widths=True).module(), remembering(run)).root()
    node = find(root, target)
    places = _Places(root.component, node, trace)
    inside = [each for each in trace.named if places.find(each.modules) is not None]
    made = list(_made(inside, places, everything=by.count == "all"))
    letters = frozenset[str]().union(*(axis.free_symbols for each in made for axis in each.axes.letters))
    return Shapes(
        heading=model.summary,
        target=target,
        path=node.path,
        reads=_axes(inside[0].reads) if inside and inside[0].reads is not None else None,
        results=tuple(made),
        answer=sum(each.flops for each in made),
        legend=legend(letters, model, run),
        model=model.described(),
        conventions=as_json("flops", run, by),
        notes=(*others(root, target, node), *model.remarks(run), *as_text("flops", run, by)),
    )


class _Places:
    """Where results stand in the tree, in which layers that turned out equal are one."""

    def __init__(self, root: Component, target: Node, trace: Shaping) -> None:
        self.root = root
        self.target = target
        self.groups = trace.groups
        self.listed: dict[tuple[str, ...], str] = {}
        """Of such layers, those that ran first, by the path of what they are in the tree."""

    def find(self, modules: tuple[str, ...]) -> tuple[tuple[str, ...], Num] | None:
        """The names that lead there from the target, and how often it runs in it; None where it is not listed."""
        part, times, depth = self.root, cast("Num", 1), len(self.target.names)
        names: tuple[str, ...] = (self.root.name,)
        for place in range(2, len(modules) + 1):
            inside = self._part(part, modules[:place])
            if inside is None:
                return None
            part, names = inside, (*names, inside.name)
            if self.listed.setdefault(names, modules[place - 1]) != modules[place - 1]:
                return None
            times = times * part.times[RUN] if place > depth else times
        return (names[depth:], times) if names[:depth] == self.target.names else None

    def _part(self, above: Component, modules: tuple[str, ...]) -> Component | None:
        """The part that a module is, or that layers are in."""
        for part in above.parts:
            if part.name == modules[-1]:
                return part
        group = self.groups.get(modules)
        return None if group is None else next((part for part in above.parts if _has(part, group)), None)


def _has(part: Component, group: Group) -> bool:
    """Whether these layers are among those of a component."""
    alike = LAYERS.sub("", part.name) == LAYERS.sub("", group.name)
    return alike and (part.places is None or set(group.places or ()) <= set(part.places))


def _made(results: list[Result], places: _Places, *, everything: bool) -> Iterator[Made]:
    for result in results:
        if (place := places.find(result.modules)) is None:
            continue
        names, times = place
        flops: Num = times * total(item.value for item in work(result.work, training=False, everything=everything))
        yield Made(
            modules=names,
            name=result.name or (names[-1] if names else result.operation),
            operation=", ".join(each.name for each in result.work.elementwise if each.forward) or result.operation,
            products=tuple(map(_product, result.products)),
            axes=_axes(result.shape),
            copies=value_of(times),
            flops=value_of(flops),
            formula=formula_of(flops),
        )


def _axes(shape: Shape) -> Axes:
    return Axes(tuple(map(formula_of, shape)), tuple(map(value_of, shape)))


def _product(product: Multiplied) -> MatrixProduct:
    return MatrixProduct(product.name, None if product.matrices is None else _axes(product.matrices))
