"""Where the numbers of what was solved come from: the sides of each row, name by name, and the ends that they prove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tfcalc.analysis.pruned import together
from tfcalc.answers.explain import COUNTS, to_open
from tfcalc.answers.question import Question
from tfcalc.errors import UsageError
from tfcalc.expressions.nodes import Name, evaluate, names_of
from tfcalc.expressions.nodes import Number as Written
from tfcalc.expressions.written import written
from tfcalc.printable import quoted
from tfcalc.report.derivation import Derivation, Term
from tfcalc.report.opening import Opener, Stated, Way, found, given
from tfcalc.solving.names import TOTAL, parts
from tfcalc.solving.single import sides_of
from tfcalc.solving.unknowns import settled, unknown

if TYPE_CHECKING:
    from tfcalc.expressions import Expression
    from tfcalc.report.explanation import Explanation
    from tfcalc.report.paths import Step
    from tfcalc.solving.answer import Solved
    from tfcalc.solving.asked import Asked
    from tfcalc.solving.family import Family
    from tfcalc.solving.names import Meant
    from tfcalc.solving.unknowns import Setting

OF = {"active_params": "params", "trainable_params": "trainable"}
"""What explain calls a quantity, where a condition calls it otherwise."""


class OfSolved(Opener):
    """Sizes are found by a search; what a side is at one of them is the answer to a question of its own."""

    def __init__(self, answer: Solved | Family) -> None:
        self.answer, self.asked = answer, answer.asked
        self.heading = f"{answer.condition}: {answer.asked.setting.model.summary}"
        self.settings: dict[int, Setting] = {}

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of a size, or of a side of the condition."""
        match steps:
            case ("value", *_) | ("ranges", int(), "from" | "to"):
                return found(f"{self.answer.condition}; {self._rows()}; {self.answer.proof}")
            case ("step",):
                return given("whole numbers between are no such model: heads have to divide the width, and the like")
            case ("tried", str(word), int()):
                return given(f"a value of {word} that was tried")
            case ("rows", int(row), "sizes", str(word)):
                holds = "holds" if self.answer.rows[row].holds else "does not hold"
                return found(f"a value of {word} that was looked at: there {self.answer.condition} {holds}")
            case ("rows", int(row), "sides", int(side)):
                return self._side(row, sides_of(self.answer.conditions)[side])
        return None

    def _rows(self) -> str:
        """Both sides at the sizes that were looked at."""
        texts = self.answer.texts
        shown = []
        for row in self.answer.rows[:4]:
            sizes = ", ".join(f"{word} {size:,}" for word, size in row.sizes.items())
            sides = ", ".join(f"{text} is {side}" for text, side in zip(texts, row.sides, strict=False))
            shown.append(f"at {sizes} {sides}")
        return "; ".join(shown)

    def _side(self, row: int, side: Expression) -> Way:
        if isinstance(side, Written):
            return given(f"a number of the condition: {self.answer.condition}")
        setting = self._setting(row)
        asked = self.asked.with_setting(setting)
        values = asked.values(setting)
        ways = {name: _way(asked, setting, name, values[name]) for name in names_of(side)}
        if isinstance(side, Name) and not isinstance(ways[side.name], Stated):
            return ways[side.name]
        return Side(side, values, ways)

    def _setting(self, row: int) -> Setting:
        """The model and all that is asked about it, with the sizes of this row."""
        if row not in self.settings:
            sizes = dict(self.answer.rows[row].sizes)
            setting, (first, *others) = self.asked.setting, self.answer.unknowns
            for each in others:
                setting = setting.at(each, sizes[each.word])
            if others:
                (first,), setting = settled([unknown(first.word, setting)], setting)
            self.settings[row] = setting.at(first, sizes[first.word])
        return self.settings[row]


def _way(asked: Asked, setting: Setting, name: str, value: int) -> Way:
    """Where the number of a name of the condition comes from."""
    meant = asked.meant[name]
    if meant.quantity == "size":
        return given(f"{name} of the model or the workload that is looked at")
    by_tree = meant.quantity != "memory" or asked.by_tree
    if by_tree and meant.part not in ("", TOTAL):
        return Parts(asked, setting, meant, value)
    training, serving = asked.tuning(setting), setting.serving
    if meant.quantity == "flops":
        if setting.tokens is not None:
            return Parts(asked, setting, meant, value)
        return Question("flops", setting.model, setting.run, asked.conventions, training).number("total_flops")
    if meant.quantity == "memory":
        run = setting.run if setting.run.training or serving is not None else None
        plan = setting.training if setting.run.training else None
        question = Question("memory", setting.model, run, asked.conventions, plan, serving, asked.weights)
        keys = [f"{meant.part}_bytes", meant.part] if meant.part else ["peak_bytes", "total_bytes"]
        totals = question.report().totals
        known = next((key for key in keys if key in totals), "")
        return (
            question.number(known) if known else found(f"{meant.part}: a term of the memory of {setting.model.summary}")
        )
    key = "total_params" if meant.quantity == "params" else meant.quantity
    if training is not None and meant.quantity != "trainable_params":
        return Parts(asked, setting, meant, value)
    return Question("params", setting.model, training=training).number(key)


class Parts:
    """The parts of a model that a name means, matrix by matrix; of a whole training the step that it repeats."""

    def __init__(self, asked: Asked, setting: Setting, meant: Meant, value: int) -> None:
        self.asked, self.setting, self.meant, self.value = asked, setting, meant, value

    def opened(self, prefix: str, further: tuple[str, ...]) -> Explanation | Derivation:
        """All of them together. Raises UsageError, as nothing else lies behind them."""
        setting, quantity = self.setting, self.meant.quantity
        if setting.tokens is not None and quantity == "flops" and not further:
            tokens = self.asked.setting.run.target.tokens
            terms = (Term(f"{prefix}.step", self._step().answer), Term("", setting.tokens, "tokens of the training"))
            both = (*terms, Term("", int(str(tokens)), "tokens of a step"))
            return _derivation(
                prefix,
                self.value,
                both,
                "⌊{} · {} / {}⌋",
                setting.model.summary,
                "a step's FLOPs, for each of its tokens",
            )
        if further not in ((), ("step",)):
            raise UsageError(f"{quoted(further[0])} is not in {prefix}, which has no parts", "leave it out")
        return self._step(".".join((prefix, *further)))

    def _step(self, path: str = "") -> Explanation:
        setting, quantity = self.setting, self.meant.quantity
        run = setting.run if setting.tokens is None else setting.run.replaced(convolutions="run")
        of = OF.get(quantity, quantity)
        plan = self.asked.tuning(setting)
        tree = to_open(setting.model, of, run if of == "flops" else None, self.asked.conventions, training=plan)
        kept = {node.path for node in parts(tree.node, self.meant.part)}
        counts = 1 if quantity == "active_params" else COUNTS[of]
        note = f"{self.meant.part or 'the whole'}: all of its copies"
        return together(path, of, tree, lambda node: node.path in kept, counts, (note,))


class Side:
    """A side of a condition: its formula, with the number of each name, which lies behind it under that name."""

    def __init__(self, side: Expression, values: Mapping[str, int], ways: Mapping[str, Way]) -> None:
        self.side, self.values, self.ways = side, values, ways

    def opened(self, prefix: str, further: tuple[str, ...]) -> Explanation | Derivation:
        """The formula; or the number of one of its names. Raises UsageError."""
        for taken in range(len(further), 0, -1):
            way = self.ways.get(name := ".".join(further[:taken]))
            if isinstance(way, Stated):
                return _derivation(f"{prefix}.{name}", self.values[name], (), "", "", way.note, way.how)
            if way is not None:
                return way.opened(f"{prefix}.{name}", further[taken:])  # type: ignore[union-attr]  # no other way is kept
        if further:
            raise UsageError(f"{quoted(further[0])} is not in {prefix}", f"known: {', '.join(self.ways)}")
        value = evaluate(self.side, self.values)
        terms = tuple(Term(f"{prefix}.{name}", self.values[name], name) for name in sorted(self.ways))
        made = _derivation(prefix, int(value), terms, "", "", "")
        return replace(made, formula=written(self.side, {}), substituted=written(self.side, self.values))


def _derivation(
    path: str, value: int, terms: Sequence[Term], form: str, heading: str, note: str, how: str = "expression"
) -> Derivation:
    names = [term.path.removeprefix(f"{path}.") if term.path else str(term.value) for term in terms]
    return Derivation(
        heading=heading,
        path=path,
        of="solve",
        value=value,
        how=how,
        terms=tuple(terms),
        formula=form.format(*names) if form else "",
        substituted=form.format(*(term.value for term in terms)) if form else "",
        note=note,
        model={},
        conventions={},
        legend={},
    )
