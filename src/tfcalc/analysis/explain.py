"""A number opened up: each matrix with its shape, its formula, the sizes put in, and the sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tfcalc.analysis.common import check_arguments, check_plans, subject
from tfcalc.analysis.matrices import by_head, note_of
from tfcalc.analysis.nothing import why_zero
from tfcalc.analysis.quantities import QUANTITIES, growth
from tfcalc.analysis.question import Question, number_path, open_question
from tfcalc.analysis.stated import for_programs, in_words
from tfcalc.analysis.targets import find, find_term, others
from tfcalc.conventions import Conventions
from tfcalc.core.component import RUN, STORED, Component, Node
from tfcalc.core.cost import Cost
from tfcalc.core.items import Item, held, step_by_step, stored, trained, work
from tfcalc.core.items import steps as forward_steps
from tfcalc.core.number import Num, total
from tfcalc.defaults import resolve_dtype
from tfcalc.errors import UsageError, one_of
from tfcalc.report import BLOCKS, exact, polynomial
from tfcalc.report.explanation import Explanation, Line
from tfcalc.report.paths import dotted
from tfcalc.report.sheet import Factors
from tfcalc.symbols import legend, values
from tfcalc.workload import Workload
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.footprint.plans import Serving, Training
    from tfcalc.model import Model
    from tfcalc.report.derivation import Derivation
    from tfcalc.report.opening import Openable

COUNTS = {"params": STORED, "trainable": STORED, "flops": RUN, "memory": STORED, "time": RUN}
"""What can be opened, and which copies it counts."""
UNITS = {"memory": "bytes", "time": "steps"}
"""What a quantity is counted in, where that is not its own name."""


def explain(
    target: str,
    model: Model | Openable | None = None,
    of: str = "params",
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    steps: bool = False,
    with_batch: bool = False,
    approx: bool = False,
) -> Explanation | Derivation:
    """Show how one number is computed: every matrix with its shape, formula, sizes and value, and the sum.

    Args:
        target: a part of the model: a name (``attention``, ``ffn``, ``layer``, ``complete``, …) or a path of the tree
            (``transformer.h.attn``). Of training or serving memory a term (``activations``, ``optimizer``, ``cache``),
            or a path inside one. Or a number, by its path in an answer's ``to_dict()``: ``flops_per_token``,
            ``memory.peak_bytes``; of another answer than params, flops, memory and overview ``models[1].total_params``.
        model: as in :func:`~tfcalc.params`; by default the classic Transformer. Or the answer that has the number: what
            :func:`~tfcalc.compare`, :func:`~tfcalc.diff` and other questions return.
        of: ``params``, ``trainable``, ``flops``, ``memory`` (bytes), or ``time``: the growth of each step.
        workload: sequences, lengths in tokens and phase; by default one sequence of 512 tokens.
        conventions: which operations are counted, and the number format of weights at rest.
        training: with ``of="memory"``, explain a training step; also where the workload trains.
        serving: with ``of="memory"``, explain serving.
        steps: of the FLOPs of a training step, one line for the forward product and for each gradient: X W, dX and dW.
        with_batch: of time, the growth of the whole batch rather than of one sequence.
        approx: of parameters, without biases and norms; ``exact`` is then the count with them.

    Returns:
        An explanation: ``lines`` with names, factors, formula and value each; ``formula`` and ``answer`` of their sum.
        Of a number that is no such sum a derivation: ``how`` it follows from its ``terms``, or a ``note`` who gave it.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense.
        UsageError: the target or the quantity is not known, the target has none of it, or there is no such number.

    >>> [line.names for line in explain("attention", Transformer(d_model=768, n_heads=12)).lines]
    [('W_Q', 'W_K', 'W_V'), ('b_Q', 'b_K', 'b_V'), ('W_O',), ('b_O',)]
    >>> explain("flops_per_token", Transformer(d_model=768, n_heads=12)).substituted
    '115964116992 / 512'
    """
    if model is not None and hasattr(model, "opener"):
        return _of_answer(target, model)
    chosen = Transformer() if model is None else model
    if (path := number_path(target, of)) is not None:
        check_arguments(chosen, workload, conventions)
        check_plans(training, serving)
        by = conventions or Conventions()
        return open_question(path, Question(path[0], chosen, workload, by, training, serving))
    plans: dict[str, Any] = {"training": training, "serving": serving}
    return explain_part(
        target, chosen, of, workload, conventions, **plans, steps=steps, with_batch=with_batch, approx=approx
    )


def explain_part(
    target: str,
    model: Model | None = None,
    of: str = "params",
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    steps: bool = False,
    with_batch: bool = False,
    approx: bool = False,
) -> Explanation:
    """A part of a model, as :func:`explain` opens it; arguments and what is raised are the same."""
    tree = to_open(model, of, workload, conventions, training=training, serving=serving)
    if steps:
        if of != "flops" or not tree.run.training:
            raise UsageError(
                "steps are the products of a training step", "ask for the FLOPs of one: --of flops --train"
            )
        everything = (conventions or Conventions()).count == "all"
        tree = tree._replace(items=lambda cost: step_by_step(cost, everything=everything))
    if with_batch and of != "time":
        raise UsageError("with_batch has an effect on time only", "leave it out, or ask for time")
    if approx:
        from tfcalc.analysis.approximate import approximate

        return approximate(target, of, tree)
    found = opened(target, of, tree)
    if of != "time":
        return found
    *notes, _ = found.notes
    stated = in_words(of, tree.run, conventions or Conventions(), with_batch=with_batch)
    found = replace(found, notes=(*notes, *stated), conventions=found.conventions | {"time": stated[-1]})
    return found.growing(
        lambda line: growth(line, with_batch=with_batch, bound_heads=False),
        lambda whole: growth(whole, with_batch=with_batch),
    )


def _of_answer(target: str, answer: Any) -> Explanation | Derivation:
    """The number at this path of an answer; the command may stand in front of it."""
    from tfcalc.report.opened import open_answer

    return open_answer(answer, dotted(target).removeprefix(f"{answer.to_dict()['command']}.").split("."))


def to_open(
    model: Model | None,
    of: str,
    workload: Workload | None,
    conventions: Conventions | None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    general: bool = False,
) -> Tree:
    """What :func:`explain` opens. ``general`` gives a letter of its own to each size that follows from others.

    Raises InvalidModel and UsageError as it does.
    """
    by = conventions or Conventions()
    one_of("quantity", of, COUNTS)
    model = Transformer() if model is None else model
    check_arguments(model, workload, conventions)
    check_plans(training, serving)
    if of == "memory" and (training or serving or (workload is not None and workload.training)):
        from tfcalc.analysis.opened_memory import opened_memory

        return opened_memory(model, workload, by, training=training, serving=serving)
    asked = subject(model, workload, by, training, QUANTITIES[of], general=general)
    if of == "memory":
        by = resolve_dtype(model, by)

    def items(cost: Cost) -> list[Item]:
        if of == "flops":
            return work(cost, training=asked.run.training, everything=by.count == "all")
        if of == "memory":
            return held(cost, by.bits)
        if of == "time":
            return forward_steps(cost)
        return stored(cost) if of == "params" else trained(cost)

    notes = (*(asked.model.remarks(asked.run) if of in ("flops", "time") else ()), *in_words(of, asked.run, by))
    told, letters, sizes = for_programs(of, asked.run, by), {}, values(asked.model, asked.run)
    if asked.tuning is not None:
        letters, sizes = asked.tuning.legend, sizes | asked.tuning.values
        notes, told = (asked.tuning.heading, *notes), told | asked.tuning.described
    return Tree(asked.model, asked.run, *asked.twins, items, told, notes, letters, sizes)


class Tree(NamedTuple):
    """What can be opened: a tree of numbers and its twin of symbols, and what each operation consists of.

    ``letters`` are those that stand for no size of the model or the workload, ``sizes`` what all stand for, where that
    is more than these; ``of_terms`` is a tree of memory.
    """

    model: Model
    run: Workload
    node: Node
    twin: Node
    items: Callable[[Cost], list[Item]]
    conventions: Mapping[str, object]
    notes: tuple[str, ...]
    letters: Mapping[str, str] = MappingProxyType({})
    sizes: Mapping[str, Num] | None = None
    of_terms: bool = False


def opened(target: str, of: str, tree: Tree) -> Explanation:
    """One part of it, line by line."""
    look = find_term if tree.of_terms else find
    return laid_out(target, of, tree, look(tree.node, target), look(tree.twin, target), COUNTS[of])


def laid_out(
    target: str, of: str, tree: Tree, node: Node, twin: Node, counts: int, *, together: bool = False
) -> Explanation:
    """A node and its twin, line by line: one of it, or all ``together`` that the model has of it."""
    sizes, items = tree.sizes or values(tree.model, tree.run), tree.items
    lines = []
    copies = (node.times[counts], twin.times[counts]) if together else (1, 1)
    for _, leaves in groupby(
        _leaves(node.component, twin.component, counts, "", *copies), key=lambda leaf: leaf.alike(items(leaf.twin.own))
    ):
        side_by_side = list(leaves)
        opened = [items(leaf.leaf.own) for leaf in side_by_side]
        symbolic = items(side_by_side[0].twin.own)
        lines += [
            _line(side_by_side[0], each, twin_item, sizes) for *each, twin_item in zip(*opened, symbolic, strict=True)
        ]
    answer = sum(line.value for line in lines)
    nothing = "0: no memory of it is live then" if tree.of_terms else why_zero(node.component, of, tree.run)
    reason = () if answer else (nothing,)
    closed = polynomial(total(line.formula for line in lines))
    return Explanation(
        heading=tree.model.summary,
        target=target,
        path=node.path,
        of=of,
        quantity=QUANTITIES[of],
        unit=UNITS.get(of, of),
        lines=tuple(lines),
        formula=closed,
        sizes={letter: str(size) for letter, size in sizes.items()},
        answer=answer,
        legend=legend(closed.free_symbols, tree.model, tree.run)
        | {letter: meaning for letter, meaning in tree.letters.items() if letter in closed.free_symbols},
        model=tree.model.described(),
        conventions=dict(tree.conventions),
        notes=(
            *reason,
            *(by_head(lines, sizes) if of == "params" and node.component.kind == "attention" else ()),
            *(() if tree.of_terms or together else others(tree.node, target, node)),
            *tree.notes,
        ),
    )


class _Leaf(NamedTuple):
    """A leaf and its twin, the block it stands in, and how many of it the target has, in numbers and in symbols."""

    where: str
    leaf: Component
    twin: Component
    copies: Num
    copies_twin: Num

    def alike(self, items: list[Item]) -> tuple[object, ...]:
        """Equal for leaves that can share a line: of one block, one kind, one shape, and as many of each."""
        return self.where, self.leaf.kind, self.copies, [item.factors for item in items]


def _leaves(
    component: Component, twin: Component, counts: int, where: str = "", copies: Num = 1, copies_twin: Num = 1
) -> Iterator[_Leaf]:
    if not component.parts and copies != 0:
        yield _Leaf(where, component, twin, copies, copies_twin)
    for part, part_twin in zip(component.parts, twin.parts, strict=True):
        has_place = part.parts or part.kind in BLOCKS
        below = f"{where}.{part.name}".lstrip(".") if has_place else where
        both = copies * part.times[counts], copies_twin * part_twin.times[counts]
        yield from _leaves(part, part_twin, counts, below, *both)


def _line(leaf: _Leaf, items: list[Item], symbolic: Item, sizes: Mapping[str, Num]) -> Line:
    first, together = items[0], len(items)
    return Line(
        where=leaf.where,
        names=tuple(item.name for item in items),
        symbols=Factors((leaf.copies_twin, together), symbolic.factors),  # type: ignore[arg-type]  # symbols and ints
        numbers=Factors((exact(leaf.copies), together), tuple(exact(factor) for factor in first.factors)),
        formula=polynomial(leaf.copies_twin * symbolic.value * together),
        value=exact(leaf.copies * first.value) * together,
        note=note_of(first.name, together, sizes),
    )
