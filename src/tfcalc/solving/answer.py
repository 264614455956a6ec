"""The answer of ``tfcalc solve``: a size, what meets the condition, the proof, and where its numbers come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from tfcalc.analysis.pruned import together
from tfcalc.answers.conventions_text import as_json
from tfcalc.answers.explain import COUNTS, to_open
from tfcalc.answers.metrics import HEADLINES
from tfcalc.answers.question import Question
from tfcalc.core.polynomial import symbol
from tfcalc.errors import UsageError
from tfcalc.expressions.nodes import Name, NumberNode, evaluate, names_of
from tfcalc.expressions.written import written as as_text
from tfcalc.printable import quoted
from tfcalc.report import declared
from tfcalc.report.declared import (
    Answer,
    Key,
    Record,
    When,
    boolean,
    by_name,
    choice,
    integer,
    optional,
    records,
    shared,
    some_conventions,
)
from tfcalc.report.derivation import Derivation, DerivationTerm
from tfcalc.report.opening import Stated, found, given
from tfcalc.report.sheet import Bytes, Cell, Column, Sheet, of
from tfcalc.report.style import Style
from tfcalc.solving.closed_form import Steps, written
from tfcalc.solving.conditions import ACTIVE, CARD, TOTAL, TRAINED, Meant, parts
from tfcalc.solving.solver import sides_of
from tfcalc.units import short_bytes

if TYPE_CHECKING:
    from tfcalc.expressions import Condition, Expression
    from tfcalc.model import Model
    from tfcalc.report.explanation import Explanation
    from tfcalc.report.opening import Elsewhere, Way
    from tfcalc.report.paths import Step
    from tfcalc.solving.conditions import Evaluator
    from tfcalc.solving.solver import Solution, SolutionRow
    from tfcalc.solving.unknown import Setting, UnknownSize

PLAIN = Style()
LONGEST_TITLE = 48
"""Characters of a closed form that stands in the title."""
LONGEST_FRACTION = 7
"""Characters of a fraction that a table shows as it is."""

SINCE = When(lambda _: True)
"""Of keys that every answer has, and that the promise does not require, as they were added to it."""


class SizeRange(Record):
    """Sizes that meet the condition."""

    from_ = integer("the first size", lambda ends: ends[0])
    to_ = optional("the last one; null where there is no end", lambda ends: ends[1])


class SizeLooked(Record):
    """A size that was looked at, and what the condition is there."""

    sizes = by_name("integer", "sizes by the names that were asked for", lambda row: row.sizes)
    sides = Key[Sequence[int | str]](
        {
            "type": "array",
            "items": {"type": ["integer", "string"]},
            "description": "what each side of the condition is there; a fraction as text, such as 2/3",
        },
        lambda row: [side if isinstance(side, int) else str(side) for side in row.sides],
    )
    holds = boolean("whether the condition holds there", lambda row: row.holds)


@dataclass(frozen=True, kw_only=True, repr=False)
class Solved(Answer):
    """The answer of :func:`~tfcalc.solve` for one size.

    Attributes:
        condition: as it was evaluator.
        of: the quantity of parts that say none.
        unknown: what was solved for.
        found: where it holds, the ends with their neighbours, and the closed forms.
        steps: how the closed form of the size follows, where there is one.
    """

    command = "solve"
    about = "The sizes at which a condition holds, the ends proven by the sizes behind them."

    evaluator: Evaluator
    unknown: UnknownSize
    found: Solution
    texts: Sequence[str]
    conditions: Sequence[Condition]
    steps: Steps | None
    symbolic: bool = False
    style: Style = PLAIN

    model = shared("model", lambda solved: solved.model_found.described())
    conventions = some_conventions(lambda solved: solved.definitions)
    condition: Key[str] = declared.text("the condition as it was asked")
    of: Key[str] = declared.text("quantity of the parts that name none: params, flops or memory")
    for_ = declared.texts("the size that was solved for", lambda solved: [solved.unknown.word])
    outcome = choice(
        ("at most", "at least", "between", "exact", "crossing", "nearest", "always", "never"),
        "what was found: an end, a range; of an equation an exact size, two neighbours between which it changes sides "
        "(crossing) or that are nearest to a target",
        lambda solved: solved.find_outcome(),
        typed=True,
    )
    value = optional(
        "the size, as -q prints it; null where none or all meet the condition", lambda solved: solved.find_value()
    )
    ranges_ = records(SizeRange, "all sizes that meet the condition", lambda solved: solved.ranges, when=SINCE)
    step = integer(
        "sizes between its multiples fit no such model",
        lambda solved: solved.found.domain.step,
        given("whole numbers between are no such model: heads have to divide the width, and the like"),
        when=SINCE,
    )
    rows_ = records(SizeLooked, "each end with its neighbour, evaluated", lambda solved: solved.rows)
    proof = declared.text("why there is no other, in a line", lambda solved: solved.prove())
    formula = declared.text(
        "where both sides are equal, in letters; empty where there is no closed form",
        lambda solved: solved.closed_in(PLAIN),
        when=SINCE,
    )
    ascii = declared.text("the same in ASCII", lambda solved: solved.closed_in(Style(script="ascii")), when=SINCE)
    latex = declared.text("the same in LaTeX", lambda solved: solved.closed_in(Style(script="latex")), when=SINCE)
    legend: Key[Mapping[str, str]] = by_name("string", "what each letter means", when=SINCE)
    steps_ = declared.texts(
        "how the closed form follows, step by step",
        lambda solved: solved.steps.lines if solved.steps is not None else [],
        when=SINCE,
    )

    @property
    def subject(self) -> str:
        """The condition, and the model."""
        return f"{self.condition}: {self.evaluator.setting.model.summary}"

    @property
    def definitions(self) -> Mapping[str, object]:
        """The definitions that the sides were evaluated by."""
        of = "flops" if "flops" in self.evaluator.counted else "params"
        return as_json(of, self.evaluator.setting.run, self.evaluator.conventions)

    @property
    def ranges(self) -> tuple[tuple[int, int | None], ...]:
        """Ranges of all sizes that meet the condition, from and to; None where there is no end."""
        last = self.found.domain.size(self.found.domain.last)
        open_end = not self.found.domain.listed and not self.found.limit
        return tuple((low, None if high == last and open_end else high) for low, high in self.found.ranges)

    @property
    def rows(self) -> tuple[SolutionRow, ...]:
        """The ends and their neighbours, each with what both sides are there."""
        return self.found.rows

    def find_outcome(self) -> str:
        """Return the outcome, in a word or two.

        ``always`` or ``never``; ``at most``, ``at least``, ``between``; of an equation ``exact``, ``crossing`` (both
        sides move: the sides change between two sizes) or ``nearest`` (a target that no size meets).
        """
        if not self.ranges:
            if not self.found.crossings:
                return "never"
            moving = all(self._moves(side) for side in (self.conditions[0].left, self.conditions[0].right))
            return "crossing" if moving else "nearest"
        if all(each.operator == "=" for each in self.conditions):
            whole = self.ranges[0] == (self._first, None)
            return "always" if whole else "exact"
        if len(self.ranges) > 1:
            return "between"
        ((low, high),) = self.ranges
        if low == self._first:
            return "always" if high is None else "at most"
        return "at least" if high is None else "between"

    def find_value(self) -> int | None:
        """The size, as ``-q`` prints it; None where none meets the condition, or all do.

        The largest of those that meet it, the smallest where there is no largest, or of GPUs; of an equation the first
        that meets it, the first behind a crossing, or the nearest to a target.
        """
        match self.outcome:
            case "never" | "always":
                return None
            case "exact":
                return self.ranges[0][0]
            case "crossing":
                return self.found.domain.size(self.found.crossings[0][1])
            case "nearest":
                places = [self.found.domain.size(k) for pair in self.found.crossings for k in pair]
                near = [row for row in self.rows if self._size(row) in places]
                return self._size(min(near, key=lambda row: (abs(row.sides[0] - row.sides[1]), self._size(row))))
        if self.unknown.name == "gpus" and self.outcome == "between":
            return self.ranges[0][0]
        last = self.ranges[-1]
        return last[0] if last[1] is None else last[1]

    @property
    def exit_code(self) -> int:
        """1 where no size meets the condition."""
        return 1 if self.outcome == "never" else 0

    @property
    def closed(self) -> str:
        """``l = 2h/3``: where both sides are equal, in letters; empty where there is no closed form."""
        return self.closed_in(self.style)

    def closed_in(self, style: Style) -> str:
        """Return where both sides are equal, in letters and in this style; empty where there is no closed form."""
        if self.steps is None or not self.steps.equal:
            return ""
        letter = style.formula(symbol(self.unknown.letter))
        return f"{letter} = {' or '.join(written(root, style) for root in self.steps.equal)}"

    def prove(self) -> str:
        """Why there is no other, in a line."""
        word, domain = self.unknown.word, self.found.domain
        if self.outcome == "never" and self.steps is not None and self.steps.never:
            return self.steps.lines[-1]
        first, last = domain.size(domain.first), domain.size(domain.last)
        if domain.listed:
            return f"every {word} that fits was tried: {', '.join(f'{each:,}' for each in domain.listed)}"
        if self.found.exhaustive:
            return f"proven from {word} {first:,} to {_large(last)}: the closed form changes sign nowhere else"
        if self.found.turns:
            beyond = f"a larger {word} may fit, too, or not: fragments decide"
            return f"both sides evaluated at each line of the table; {beyond}"
        return "both sides evaluated at each line of the table; between, they are taken to rise or fall without a turn"

    @property
    def _first(self) -> int:
        return self.found.domain.size(self.found.domain.first)

    def _moves(self, side: Expression) -> bool:
        if isinstance(side, NumberNode):
            return False
        if self.found.forms is None:
            return bool(names_of(side))
        return any(self.unknown.letter in self.found.forms[name].free_symbols for name in names_of(side))

    def _size(self, row: SolutionRow) -> int:
        return row.sizes[self.unknown.word]

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:
        """Sizes are found by a search; what a side is at one of them is the answer to a question of its own."""
        match steps:
            case ("value", *_) | ("ranges", int(), "from" | "to"):
                yield found(f"{self.condition}; {self._looked_at()}; {self.proof}")
            case ("rows", int(row), "sizes", str(word)):
                holds = "holds" if self.rows[row].holds else "does not hold"
                yield found(f"a value of {word} that was looked at: there {self.condition} {holds}")
            case ("rows", int(row), "sides", int(side)):
                yield self._side(row, sides_of(self.conditions)[side])
        yield from super().origins(steps)

    def _looked_at(self) -> str:
        """Text of both sides at the sizes that were looked at."""
        shown = []
        for row in self.rows[:4]:
            sizes = ", ".join(f"{word} {size:,}" for word, size in row.sizes.items())
            sides = ", ".join(f"{text} is {side}" for text, side in zip(self.texts, row.sides, strict=False))
            shown.append(f"at {sizes} {sides}")
        return "; ".join(shown)

    def _side(self, row: int, side: Expression) -> Way:
        if isinstance(side, NumberNode):
            return given(f"a number of the condition: {self.condition}")
        setting = self._setting(row)
        evaluator = self.evaluator.with_setting(setting)
        values = evaluator.values(setting)
        ways = {name: _way(evaluator, setting, name, values[name]) for name in names_of(side)}
        if isinstance(side, Name) and not isinstance(ways[side.name], Stated):
            return ways[side.name]
        return SideOrigin(side, values, ways)

    @cached_property
    def _settings(self) -> dict[int, Setting]:
        return {}

    def _setting(self, row: int) -> Setting:
        """The model and all that is asked about it, with the size of this row."""
        if row not in self._settings:
            sizes = self.rows[row].sizes
            self._settings[row] = self.evaluator.setting.at(self.unknown, sizes[self.unknown.word])
        return self._settings[row]

    def sheet(self) -> Sheet:
        """The size, and the table of the ends; with --symbolic the steps."""
        told_why = self.symbolic and self.outcome == "never"  # the last step says it
        notes = [*([] if told_why else [self.proof]), *self._about_sizes()]
        if self.symbolic and self.steps is not None:
            return Sheet(
                title=self._title(),
                subtitle=self._subtitle(),
                columns=[Column("step", numeric=False, folds=True)],
                rows=[[line] for line in (*self.steps.lines, *self._in_numbers())],
                quiet=self.closed or "never",
                notes=notes,
                legend=self.legend,
                see_also=("-q", "--json"),
            )
        equation = all(each.operator == "=" for each in self.conditions)
        columns, rows = _table(self.rows, self.texts, self.conditions, self.evaluator, equation=equation)
        told = self.steps is not None and bool(self.steps.equal)
        return Sheet(
            title=self._title(),
            subtitle=self._subtitle(),
            columns=columns,
            rows=rows,
            quiet=of(self.value, Solved.value) or {"always": "any"}.get(self.outcome, "none"),
            notes=notes,
            see_also=("--symbolic", "--json") if told else ("--json",),
            legend=self.legend if self._shown_closed() else {},
        )

    def _shown_closed(self) -> str:
        return self.closed if len(self.closed) <= LONGEST_TITLE or self.symbolic else ""

    def _title(self) -> str:
        word, closed = self.unknown.word, self._shown_closed()
        before = f"{closed}; " if closed else ""
        value = self.value
        match self.outcome:
            case "never":
                found = (
                    f"NEVER: no value of {word}"
                    if self._is_proven
                    else f"NONE FOUND: no value of {word} that was tried"
                )
                return f"{found} meets {self.condition}"
            case "always":
                return f"every value of {word} meets {self.condition}"
            case "exact":
                low, high = self.ranges[0]
                also = f", and {self._some(1, 5)}" if self.ranges[1:] else ""
                return f"{before}{word} {_range(low, high)} exactly{also}"
            case "crossing":
                left, right = self.texts[:2]
                rows = {self._size(row): row.sides for row in self.rows}
                assert value is not None
                more = rows[value][0] > rows[value][1]
                return f"{before}from {word} {value:,} on, {left} is {'above' if more else 'below'} {right}"
            case "nearest":
                assert value is not None
                return f"{before}{word} {value:,} is nearest{self._that_fits(value)}; none meets it exactly"
            case "between":
                return f"{before}{word} {self._some(0, 4)}"
        if self.found.turns and self.outcome == "at most" and value is not None:
            return f"{before}{word}: {value:,} fits, and {value + self.found.domain.step:,} does not"
        return f"{before}{word}: {value:,} {self.outcome}"

    @property
    def _is_proven(self) -> bool:
        """True if no size was left out, or the closed form tells of all of them."""
        by_form = self.steps is not None and self.steps.never
        return by_form or self.found.exhaustive or bool(self.found.domain.listed)

    def _that_fits(self, nearest: int) -> str:
        """Say of an amount of memory which size fits into it, as that is what is asked."""
        condition = self.conditions[0]
        if self.evaluator.counted != {"memory"} or self._moves(condition.right):
            return ""
        fitting = [self._size(row) for row in self.rows if row.sides[0] <= row.sides[1]]
        if nearest in fitting:
            return " and fits"
        return f", {max(fitting):,} fits" if fitting else ", and does not fit"

    def _some(self, first: int, behind: int) -> str:
        """Text of these ranges, with "…" if there are more."""
        shown = [_range(low, high) for low, high in self.ranges[first:behind]]
        return ", ".join([*shown, "…"] if self.ranges[behind:] else shown)

    def _subtitle(self) -> str:
        return f"{self.condition}: {self.model_found.summary}"

    @property
    def model_found(self) -> Model:
        """The model, with the size that was found."""
        one, setting = self.unknown, self.evaluator.setting
        return setting.at(one, self.value).model if one.owner == "model" and self.value else setting.model

    def _in_numbers(self) -> list[str]:
        """The whole sizes on both sides, as further lines of the steps."""
        numbers = {
            letter: number for letter, number in self.evaluator.numbers(self.unknown).items() if letter in self.legend
        }
        if not numbers or self.outcome == "never":
            return []
        told = ", ".join(f"{self.style.formula(symbol(letter))} = {number:,}" for letter, number in numbers.items())
        return [f"with {told}: {self.unknown.word} {' | '.join(f'{self._size(row):,}' for row in self.rows)}"]

    def _about_sizes(self) -> list[str]:
        domain, word = self.found.domain, self.unknown.word
        told = []
        if domain.step > 1:
            told.append(f"{word} goes in steps of {domain.step:,}: {domain.why}")
        elif domain.why and not domain.listed:
            told.append(f"{word} ends at {domain.size(domain.last):,}: {domain.why}")
        if self.found.limit:
            told.append(f"{word} ends at {domain.size(domain.last):,}: {self.found.limit}")
        setting = self.evaluator.setting
        longest = setting.model.longest if self.unknown.name == "context" else None
        if isinstance(longest, int) and (self.value or 0) > longest:
            told.append(f"the model itself was made for {longest:,} tokens at most")
        sharded = setting.training is None or setting.training.zero == "3"
        if self.unknown.name == "gpus" and self.outcome == "never" and not sharded:
            told.append("each GPU has all weights, however many there are; add --zero 3, which shards them")
        if self._of_bytes:
            told.append(
                "memory is what is allocated, and a card takes more: for its verdict, write its name in the place of "
                "the bytes, as in 'memory <= a100-80'"
            )
        if self.evaluator.card:
            card = self.evaluator.card.replace("_", "-")
            told.append(f"{card}: what of it may be allocated, by the verdict of tfcalc memory --gpu {card}")
        return told

    @property
    def _of_bytes(self) -> bool:
        """Return whether the memory of a whole training step is compared with a number of bytes."""
        whole = any(meant == Meant("memory") for meant in self.evaluator.meant.values())
        sides = sides_of(self.conditions)
        stated = any(isinstance(side, NumberNode) for side in sides)
        return whole and stated and self.evaluator.setting.run.training and not self.evaluator.card


def _table(
    rows: Sequence[SolutionRow],
    texts: Sequence[str],
    conditions: Sequence[Condition],
    evaluator: Evaluator,
    *,
    equation: bool,
) -> tuple[list[Column], list[list[Cell]]]:
    """A line for each row: sizes, sides, and by how much an equation is missed, or whether the condition holds."""
    bytes_of = [
        _is_memory(side, evaluator) or _is_memory(conditions[0].left, evaluator) for side in sides_of(conditions)
    ]
    words = list(rows[0].sizes)
    last = "left - right" if equation else "holds"
    columns = [Column(word) for word in words] + [Column(text) for text in texts] + [Column(last, numeric=equation)]
    lines: list[list[Cell]] = []
    shown = {
        short_bytes(int(side)) for row in rows for side, is_bytes in zip(row.sides, bytes_of, strict=True) if is_bytes
    }
    exact = {int(side) for row in rows for side, is_bytes in zip(row.sides, bytes_of, strict=True) if is_bytes}
    bytes_of = [each and len(shown) == len(exact) for each in bytes_of]
    for place, row in enumerate(rows):
        at = (Solved.rows_, place)
        sizes = [of(size, *at, SizeLooked.sizes, word) for word, size in row.sizes.items()]
        told = [_cell(side, in_bytes) for side, in_bytes in zip(row.sides, bytes_of, strict=True)]
        sides = [of(side, *at, SizeLooked.sides, number) for number, side in enumerate(told)]
        apart: Cell = _cell(row.sides[0] - row.sides[1], False) if equation else "yes" if row.holds else "no"
        lines.append([*sizes, *sides, apart])
    return columns, lines


def _is_memory(side: Expression, evaluator: Evaluator) -> bool:
    """Return whether a side is an amount of memory."""
    names = names_of(side)
    return bool(names) and all(evaluator.meant[name].quantity in ("memory", CARD) for name in names)


def _cell(number: int | Fraction, in_bytes: bool) -> Cell:
    """A side's number in a table."""
    if isinstance(number, Fraction):
        return f"{number}" if len(f"{number}") <= LONGEST_FRACTION else f"{float(number):.9g}"
    return Bytes(number) if in_bytes else number


def _range(low: int, high: int | None) -> str:
    if high is None:
        return f"{low:,} and above"
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _large(number: int) -> str:
    figures = str(number)
    return f"10^{len(figures) - 1}" if figures.rstrip("0") == "1" and len(figures) > 7 else f"{number:,}"


OF = {ACTIVE: "params", TRAINED: "trainable"}
"""What explain calls a quantity, where a condition calls it otherwise."""


def _way(evaluator: Evaluator, setting: Setting, name: str, value: int) -> Stated | Elsewhere:
    """Origin of the number of a name of the condition."""
    meant = evaluator.meant[name]
    if meant.quantity == CARD:
        return found("what of the card may be allocated, so that it fits by the verdict; less where it does not")
    if meant.quantity == "size":
        return given(f"{name} of the model or the workload that is looked at")
    by_tree = meant.quantity != "memory" or evaluator.by_tree
    if by_tree and meant.part not in ("", TOTAL):
        return PartsOrigin(evaluator, setting, meant, value)
    training, serving = evaluator.tuning(setting), setting.serving
    if meant.quantity == "flops":
        if setting.tokens is not None:
            return PartsOrigin(evaluator, setting, meant, value)
        return Question("flops", setting.model, setting.run, evaluator.conventions, training).number()
    if meant.quantity == "memory":
        run = setting.run if setting.run.training or serving is not None else None
        plan = setting.training if setting.run.training else None
        question = Question("memory", setting.model, run, evaluator.conventions, plan, serving, evaluator.weights)
        keys = [f"{meant.part}_bytes", meant.part] if meant.part else [HEADLINES[of].key for of in ("peak", "memory")]
        totals = question.report().totals
        known = next((key for key in keys if key in totals), "")
        return (
            question.number(known) if known else found(f"{meant.part}: a term of the memory of {setting.model.summary}")
        )
    key = HEADLINES["params"].key if meant.quantity == "params" else meant.quantity
    if training is not None and meant.quantity != TRAINED:
        return PartsOrigin(evaluator, setting, meant, value)
    return Question("params", setting.model, training=training).number(key)


class PartsOrigin:
    """The parts of a model that a name means, matrix by matrix; of a whole training the step that it repeats."""

    def __init__(self, evaluator: Evaluator, setting: Setting, meant: Meant, value: int) -> None:
        self.evaluator, self.setting, self.meant, self.value = evaluator, setting, meant, value

    def opened(self, prefix: str, further: tuple[str, ...]) -> Explanation | Derivation:
        """Open all parts together. Raises UsageError, as nothing else lies behind them."""
        setting, quantity = self.setting, self.meant.quantity
        if setting.tokens is not None and quantity == "flops" and not further:
            tokens = self.evaluator.setting.run.target.tokens
            terms = (
                DerivationTerm(f"{prefix}.step", self._step().answer),
                DerivationTerm("", setting.tokens, "tokens of the training"),
            )
            both = (*terms, DerivationTerm("", int(str(tokens)), "tokens of a step"))
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
        plan = self.evaluator.tuning(setting)
        tree = to_open(setting.model, of, run if of == "flops" else None, self.evaluator.conventions, training=plan)
        kept = {node.path for node in parts(tree.node, self.meant.part)}
        counts = 1 if quantity == ACTIVE else COUNTS[of]
        note = f"{self.meant.part or 'the whole'}: all of its copies"
        return together(path, of, tree, lambda node: node.path in kept, counts, (note,))


class SideOrigin:
    """A side of a condition: its formula, with the number of each name, which lies behind it under that name."""

    def __init__(self, side: Expression, values: Mapping[str, int], ways: Mapping[str, Stated | Elsewhere]) -> None:
        self.side, self.values, self.ways = side, values, ways

    def opened(self, prefix: str, further: tuple[str, ...]) -> Explanation | Derivation:
        """The formula; or the number of one of its names. Raises UsageError."""
        for taken in range(len(further), 0, -1):
            way = self.ways.get(name := ".".join(further[:taken]))
            if isinstance(way, Stated):
                return _derivation(f"{prefix}.{name}", self.values[name], (), "", "", way.note, way.how)
            if way is not None:
                behind: Explanation | Derivation = way.opened(f"{prefix}.{name}", further[taken:])
                return behind
        if further:
            raise UsageError(f"{quoted(further[0])} is not in {prefix}", f"known: {', '.join(self.ways)}")
        value = evaluate(self.side, self.values)
        terms = tuple(DerivationTerm(f"{prefix}.{name}", self.values[name], name) for name in sorted(self.ways))
        made = _derivation(prefix, int(value), terms, "", "", "")
        return replace(made, formula=as_text(self.side, {}), substituted=as_text(self.side, self.values))


def _derivation(
    path: str, value: int, terms: Sequence[DerivationTerm], form: str, heading: str, note: str, how: str = "expression"
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
    )
