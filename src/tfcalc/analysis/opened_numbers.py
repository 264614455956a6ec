"""Any number of an answer opened: the matrices it is the sum of, the numbers it follows from, or its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from tfcalc.analysis.explain import Tree, laid_out, to_open
from tfcalc.analysis.number_rules import (
    ANSWERS,
    FOLDS,
    FOUND,
    GIVEN,
    RULES,
    TERMS,
    Fold,
)
from tfcalc.analysis.params import TABLES
from tfcalc.core.component import NOTHING, Component, Node
from tfcalc.core.cost import Cost
from tfcalc.core.items import Item, buffers, held, in_bytes, stored, trained
from tfcalc.core.measure import SMALLEST_BUFFER
from tfcalc.defaults import AUTO, own_format, resolve_dtype
from tfcalc.errors import UsageError
from tfcalc.report.derivation import Derivation, Term
from tfcalc.report.opened import number
from tfcalc.report.opening import Constant, Named, Number, Rule

if TYPE_CHECKING:
    from tfcalc.conventions import Conventions
    from tfcalc.footprint.plans import Serving, Training
    from tfcalc.model import Model
    from tfcalc.report.explanation import Explanation
    from tfcalc.workload import Workload

Reach = Callable[[Sequence[str]], Any]
"""What a path of the answer leads to. Raises UsageError where there is nothing."""


@dataclass(frozen=True)
class Asked:
    """A question, and its answer: what it was asked of, its JSON, and where each option was ``given``, by its name.

    Its numbers are called by paths that begin with ``prefix``, the command where nothing else is given. Trees are built
    once, however many numbers are opened.
    """

    command: str
    answer: Mapping[str, Any]
    reach: Reach
    model: Model
    workload: Workload
    conventions: Conventions
    training: Training | None
    serving: Serving | None
    given: Mapping[str, str]
    named: str
    prefix: str = ""
    trees: dict[str, Tree] = field(default_factory=dict)

    def path(self, *keys: str) -> str:
        """What a number of the answer is called."""
        return ".".join([self.prefix or self.command, *keys])

    def tree(self, of: str) -> Tree:
        """What a quantity is the sum of."""
        if of not in self.trees:
            model, run, by = self.model, self.workload, self.conventions
            if self.in_phases:
                made = to_open(model, of, run, by, training=self.training, serving=self.serving)
            else:
                tuning = self.training if of != "memory" else None
                made = to_open(model, of, run if of == "flops" else None, by, training=tuning)
            self.trees[of] = made
        return self.trees[of]

    @property
    def in_phases(self) -> bool:
        """Whether it is memory of a step or of serving, whose tree has terms rather than modules."""
        return self.command == "memory" and "peak_bytes" in self.answer


def open_number(keys: Sequence[str], asked: Asked) -> Explanation | Derivation:
    """One number of an answer, by the keys that lead to it.

    Raises UsageError where there is no number at this path.
    """
    value = number(keys, asked.reach(keys))
    for way in (_input, _folded, _of_parts, _ruled, _elsewhere, _stated):
        if (found := way(keys, value, asked)) is not None:
            return found
    raise UsageError(f"{'.'.join(keys)} cannot be opened", "open one of the numbers beside it")


# --- what was given


def _input(keys: Sequence[str], value: Number, asked: Asked) -> Derivation | None:
    """A field of the model, or a convention; how many copies there are of a part."""
    if keys[-1] == "copies":
        part = _node(keys, asked)
        counted = f"how many there are of {part.path}" if part is not None else "how many there are"
        return _told(keys, value, asked, "given", f"{counted}, by the model's structure")
    if keys[0] not in ("model", "conventions"):
        return None
    name = keys[-1]
    if name in asked.given:
        return _told(keys, value, asked, "given", f"given: {asked.given[name]}")
    if keys[0] == "conventions":
        return _told(keys, value, asked, "given", "the default, or what follows from other options")
    size = asked.model.dimensions().get(name)
    if size is not None and size.follows and size.symbol not in asked.model.values():
        return _told(keys, value, asked, "given", f"not given: follows from {size.follows}")
    source = f"the config of {asked.named}: {'.'.join(keys[1:])}" if asked.named else "the default of the option"
    return _told(keys, value, asked, "given", f"given by {source}")


# --- sums over the tree


def _folded(keys: Sequence[str], value: Number, asked: Asked) -> Explanation | Derivation | None:
    """The items of the tree that the number is the sum of."""
    fold = FOLDS.get(keys[-1])
    in_tree = len(keys) == 1 or keys[0] == "components"
    if asked.in_phases:
        return _term(keys, value, asked) if len(keys) == 1 else None
    if fold is None or not in_tree or value == 0:
        return None
    try:
        return _sum(keys, value, asked, fold)
    except _Differs:
        return None


class _Differs(Exception):
    """The items of the tree make another number: it is counted in another way here."""


def _sum(keys: Sequence[str], value: Number, asked: Asked, fold: Fold) -> Explanation:
    of = "memory" if fold.items in IN_BYTES else "flops" if fold.items == "work" else "params"
    if of == "memory" and (own := own_format(asked.model)) and asked.conventions.dtype == AUTO and not own.format.plain:
        raise _Differs  # each tensor in a format of its own
    tree = asked.tree(of)
    tree = tree._replace(items=_items(fold, asked, tree, of_step=asked.command == "flops"))
    if fold.items == "embedded":
        tree = tree._replace(node=_only(tree.node), twin=_only(tree.twin))
    node, twin = _pair(keys, asked, tree)
    target = asked.path(*keys)
    found = laid_out(target, of, tree, node, twin, fold.counts, together=True)
    if found.answer != value:
        raise _Differs
    return replace(found, path=node.path)


IN_BYTES = ("bytes", "weights", "buffer bytes")


def _items(fold: Fold, asked: Asked, tree: Tree, *, of_step: bool) -> Callable[[Cost], list[Item]]:
    everything = of_step and asked.conventions.count == "all"
    passes = fold.passes if of_step else fold.passes._replace(backward=False, again=False)
    if not tree.run.training:
        passes = passes._replace(backward=False, again=False)
    if not everything and passes.products:
        passes = passes._replace(elementwise=False)
    bits = resolve_dtype(asked.model, asked.conventions).bits if fold.items in IN_BYTES else 0
    wide = max(bits, SMALLEST_BUFFER)

    def major(cost: Cost) -> list[Item]:
        return stored(cost._replace(weights=tuple(weight for weight in cost.weights if not weight.minor)))

    def weights(cost: Cost) -> list[Item]:
        return held(cost._replace(buffers=()), bits)

    def buffer_bytes(cost: Cost) -> list[Item]:
        return [in_bytes(each.name, each.shape, wide) for each in cost.buffers]

    known: Mapping[str, Callable[[Cost], list[Item]]] = {
        "stored": stored,
        "embedded": stored,
        "trained": trained,
        "major": major,
        "buffers": buffers,
        "work": passes.items,
        "bytes": lambda cost: held(cost, bits),
        "weights": weights,
        "buffer bytes": buffer_bytes,
    }
    return known[fold.items]


def _only(node: Node) -> Node:
    """The same tree, in which only the tables of tokens and positions have something."""

    def kept(component: Component) -> Component:
        own = component.own if component.kind in TABLES else NOTHING
        return component._replace(own=own, parts=tuple(map(kept, component.parts)))

    return node._replace(component=kept(node.component))


def _pair(keys: Sequence[str], asked: Asked, tree: Tree) -> tuple[Node, Node]:
    """The node that a number belongs to, and its twin."""
    if len(keys) == 1:
        return tree.node, tree.twin
    path = str(asked.reach([*keys[:-1], "path"]))
    for node, twin in zip(tree.node.walk(), tree.twin.walk(), strict=True):
        if node.path == path:
            return node, twin
    raise _Differs


def _node(keys: Sequence[str], asked: Asked) -> Node | None:
    try:
        path = str(asked.reach([*keys[:-1], "path"]))
    except UsageError:
        return None
    tree = asked.tree("memory" if asked.in_phases else "params")
    return next((node for node in tree.node.walk() if node.path == path), None)


def _term(keys: Sequence[str], value: Number, asked: Asked) -> Explanation | None:
    """A term of a training step, or of serving, tensor by tensor."""
    name = keys[0].removesuffix("_bytes")
    tree = asked.tree("memory")
    called = (name, TERMS.get(name, name))
    for node, twin in zip(tree.node.below(), tree.twin.below(), strict=True):
        if node.component.name in called:
            found = laid_out(asked.path(*keys), "memory", tree, node, twin, 0, together=True)
            return found if found.answer == value else None
    return None


# --- sums of parts, and what follows from other numbers


def _of_parts(keys: Sequence[str], value: Number, asked: Asked) -> Derivation | None:
    """A component whose number is that of its parts together; or its closed form, where it has none."""
    if keys[0] != "components" or value == 0:
        return None
    entry = asked.reach(keys[:-1])
    parts = [(str(part["name"]), part.get(keys[-1])) for part in entry.get("parts", [])]
    numbers = [amount for _, amount in parts if isinstance(amount, int | float)]
    above, of = asked.path(*keys[:-1]), keys[-1]
    if parts and len(numbers) == len(parts) and sum(numbers) == value:
        terms = tuple(Term(f"{above}.{name}.{of}", amount) for (name, _), amount in zip(parts, numbers, strict=True))
        return _derived(keys, value, asked, total_of(terms), terms, ())
    formula = str(entry.get("formula", ""))
    return _told(keys, value, asked, "formula", "its closed form", formula=formula)


def total_of(terms: Sequence[Term]) -> Rule:
    """Their sum."""
    return Rule("sum", tuple(each.path for each in terms))


def _ruled(keys: Sequence[str], value: Number, asked: Asked) -> Derivation | None:
    """What the first rule that gives the number says."""
    rules = RULES.get(asked.command, {}).get(keys[0], ()) if len(keys) == 1 else ()
    if len(keys) > 1 and keys[0] == "timeline" and keys[-1] == "peak_bytes":
        beside = asked.reach(keys[:-1])
        terms = tuple(
            Term(asked.path(*keys[:-1], name), amount)
            for name, amount in beside.items()
            if name.endswith("_bytes") and name != "peak_bytes"
        )
        return _derived(keys, value, asked, total_of(terms), terms, ())
    for rule in rules:
        try:
            terms, others = (tuple(_terms(names, asked)) for names in (rule.terms, rule.others))
        except UsageError:
            continue
        if rule.gives(value, [each.value for each in terms], [each.value for each in others]):
            return _derived(keys, value, asked, rule, terms, others)
    return None


def _terms(names: Sequence[Named], asked: Asked) -> Iterator[Term]:
    for name in names:
        if isinstance(name, Constant):
            yield Term("", name.value, name.what)
        elif "[]" in name:
            entries, _, key = name.partition("[].")
            for part in asked.answer[entries]:
                yield Term(asked.path(entries, part["name"], key), part[key])
        else:
            yield Term(asked.path(name), cast("Number", asked.reach(name.split("."))))


def _derived(
    keys: Sequence[str], value: Number, asked: Asked, rule: Rule, terms: Sequence[Term], others: Sequence[Term]
) -> Derivation:
    both = (*terms, *others)
    notes = [f"{each.value:,} {each.what}" for each in both if not each.path]
    return replace(
        _told(keys, value, asked, rule.how, "; ".join(notes)),
        terms=both,
        formula=rule.written([_short(each, asked) for each in terms], [_short(each, asked) for each in others]),
        substituted=rule.written([str(each.value) for each in terms], [str(each.value) for each in others]),
    )


def _short(term: Term, asked: Asked) -> str:
    """The key alone, without its command; a component's with the end of its path."""
    return term.path.removeprefix(asked.path("")) if term.path else str(term.value)


# --- what other commands answer, and what is found in other ways


def _elsewhere(keys: Sequence[str], value: Number, asked: Asked) -> Derivation | None:
    """A line of an overview, which another command opens."""
    if asked.command != "overview" or keys[0] not in ANSWERS:
        return None
    line, key = ANSWERS[keys[0]]
    command = str(asked.answer["commands"][line])
    command += f" --dtype {keys[1]}" if keys[0] == "weights_bytes" and len(keys) > 1 else ""
    what = f"{key} of: {command}" if key else f"the growth of the cache by one token: {command}"
    name = command.split()[1]
    terms = (Term(f"{name}.{key}" if key else "", value, command),)
    return replace(_told(keys, value, asked, "answer", what), terms=terms)


def _stated(keys: Sequence[str], value: Number, asked: Asked) -> Derivation | None:
    """What the tables say of it."""
    for key in (keys[-1], keys[0]):
        if key in GIVEN:
            return _told(keys, value, asked, "given", f"given by {GIVEN[key]}")
        if key in FOUND:
            return _told(keys, value, asked, "found", FOUND[key])
    if value == 0:
        return _told(keys, value, asked, "given", "0: the answer has nothing of it")
    return None


def _told(keys: Sequence[str], value: Number, asked: Asked, how: str, note: str, *, formula: str = "") -> Derivation:
    return Derivation(
        heading=asked.model.summary,
        path=asked.path(*keys),
        of=asked.command,
        value=value,
        how=how,
        terms=(),
        formula=formula,
        substituted="",
        note=note,
        model=dict(asked.answer.get("model", {})) if isinstance(asked.answer.get("model"), Mapping) else {},
        conventions=dict(asked.answer.get("conventions", {})),
        legend={},
    )
