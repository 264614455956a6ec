"""``check``: is a formula right? What it lacks, what it has too much, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tfcalc.analysis.check_causes import NEVER, SCORES, TWICE, Cause, by_chance, causes_of, proportion
from tfcalc.analysis.check_reading import (
    NOTHING,
    RightForm,
    RuleLetters,
    by_thumb,
    number_in,
    of_number,
    rounded_from,
    rounds_to,
    rule_of_thumb,
    step_of_a_run,
)
from tfcalc.analysis.common import model_of
from tfcalc.analysis.itemized import Tree
from tfcalc.analysis.quantities import QUANTITIES, growth, measure_of
from tfcalc.analysis.targets import TARGETS, find, with_some_vocabulary
from tfcalc.answers.explain import COUNTS, opened, to_open
from tfcalc.answers.formula import formula
from tfcalc.core.measure import active_params, major_params
from tfcalc.core.notation import NOTATIONS, bracketed, spelled, write
from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.errors import TfcalcError, UsageError
from tfcalc.expressions import Ratio, expanded, names_of, read_formula
from tfcalc.model import asked_run, own_letters, spellings, with_symbols
from tfcalc.printable import quoted
from tfcalc.report import declared, polynomial
from tfcalc.report.declared import (
    Answer,
    Key,
    Record,
    boolean,
    by_name,
    either,
    records,
    shared,
    some_conventions,
    texts,
)
from tfcalc.report.sheet import Cell, Column, Sheet
from tfcalc.workload import PAIRS, Conventions, Workload
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.analysis.why.given import WrittenNumber
    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training
    from tfcalc.report.explanation import Line

MOST_OTHERS = 3
"""Other parts that would explain a difference as well, of those that are named."""

OFTEN = {Fraction(1, 2): "half of", Fraction(1, 3): "a third of", Fraction(1, 4): "a quarter of"}
OFTEN |= {Fraction(2, 3): "two thirds of"}
OFTEN |= {Fraction(3): "three times", Fraction(4): "four times", Fraction(2): "twice"}

REASONS = {
    ("flops", Fraction(1, 2)): "a multiply-add is 2 FLOPs",
    ("flops", Fraction(2)): "a multiply-add is 2 FLOPs, of which both are counted already",
    ("flops", Fraction(1, 3)): "backward costs twice as much as forward",
    ("flops", Fraction(2, 3)): "backward costs twice as much as forward, and was counted once",
    ("flops", Fraction(3)): "that is forward and backward",
    ("memory", Fraction(1, 4)): "a number has 4 bytes",
}
"""Why a whole formula may be off by a number."""


class CauseOfDifference(Record):
    """The part of the model that the difference is."""

    parts = texts(
        "name of a matrix, a bias, a product or a module, as a list of one", lambda one: [one.cause.part.name]
    )
    formula = declared.text("what this part is", lambda one: write(one.cause.part.number))
    counted = declared.text(
        "how often it was counted instead of once: 0, 2, 1/2, a, 1/l, a/g", lambda one: one.cause.times.text
    )
    in_words = declared.text("the same as a sentence", lambda one: _in_words(one.cause, one.within.of, {}))
    or_ = Key[Sequence[Sequence[str]]](
        {
            "type": "array",
            "items": {"type": "array", "items": {"type": "string"}},
            "description": "other parts that would be the same",
        },
        lambda one: [[part.name] for part in one.cause.others],
    )

    @property
    def source(self) -> CauseOfDifference:
        """The record itself, as its answer has the quantity."""
        return self

    @property
    def cause(self) -> Cause:
        """The cause that it tells."""
        return self._source  # type: ignore[no-any-return]  # what a record is about may be anything


@dataclass(frozen=True, kw_only=True, repr=False)
class FormulaCheck(Answer):
    """The answer of :func:`~tfcalc.check`: a formula compared with the right one.

    Attributes:
        text: the formula as it was typed.
        yours: the same multiplied out, over a whole number.
        right: the right one, with numbers for those letters for which yours has some.
        closed: where it has, the right formula in letters.
        sizes: the sizes at which it is the right one.
        rounds: whether the right number, rounded, is the one that was typed.
        missed: which part of the model the difference is, if it is one, or which few are missing.
        share: by what the right formula would have to be multiplied, where that is one product.
        off: how far it is from the right one at the sizes of the model, as a fraction of that; None where not known.
        roughly: what else is known of it, in words.
        instead: another question that the formula answers.
        notation: in whose letters the formula would be right.
        letters: how each letter is written.
    """

    command = "check"
    about = "Whether a formula is right, and what it lacks. Formulas have the letters of lbhn."

    target: Key[str] = declared.text("the target as it was asked for")
    path: Key[str] = declared.text("path of the component, or the term")
    of: Key[str] = declared.text("quantity: params, trainable, flops, memory or time")
    model: Key[Mapping[str, object]] = shared("model")
    conventions: Key[Mapping[str, object]] = some_conventions()
    text: str
    yours: Ratio
    right: Ratio
    closed: Ratio | None
    sizes: Mapping[str, int]
    rounds: bool
    order: bool
    missed: tuple[Cause, ...]
    share: Ratio | None
    off: float | None
    roughly: str
    letters: Mapping[str, str]
    notes: tuple[str, ...]

    correct = boolean(
        "whether both formulas are the same polynomial, or the right number, rounded, is the one that was given",
        lambda check: check.rounds or not check.difference.top.terms,
    )
    verdict_ = declared.text("the answer in one line", lambda check: check.verdict({}))
    formula = declared.text("the formula as it was typed", lambda check: check.text)
    yours_ = declared.text("the same multiplied out", lambda check: ratio_text(check.yours, {}))
    right_ = declared.text("the right formula", lambda check: _plain(check.right))
    difference_ = declared.text("yours less the right one", lambda check: ratio_text(check.difference, {}))
    missing_ = texts("the terms by which yours is too small", lambda check: _terms(check.missing))
    extra_ = texts("the terms by which yours is too large", lambda check: _terms(check.extra))
    causes = records(
        CauseOfDifference,
        "the part of the model that the difference is, or the few that are missing; empty where no parts are it",
        lambda check: check.missed,
    )
    proportion = either(
        ("string", "null"),
        "the product by which the right formula gives yours, if there is one",
        lambda check: None if check.share is None else ratio_text(check.share, {}),
    )
    instead: Key[str] = declared.text("another part, quantity or convention that the formula is right for")
    notation: Key[str] = declared.text("the notation in whose letters it would be right; empty where in none")
    legend: Key[Mapping[str, str]] = by_name("string", "what each letter means")

    @property
    def subject(self) -> str:
        """The formula, and what it is of."""
        return f"{self.text}: {self.path}"

    @property
    def difference(self) -> Ratio:
        """The formula less the right one."""
        return self.yours - self.right

    @property
    def missing(self) -> Ratio:
        """The terms by which it is too small."""
        return NOTHING if self.correct else _signed(self.difference, -1)

    @property
    def extra(self) -> Ratio:
        """The terms by which it is too large."""
        return NOTHING if self.correct else _signed(self.difference, 1)

    def verdict(self, letters: Mapping[str, str] | None = None) -> str:
        """One line: yes, or by how much it differs and what that is."""
        letters = self.letters if letters is None else letters
        right = self._right(letters)
        if self.correct:
            return f"yes: {right}" + (f" rounds to {self.text.strip()}" if self.rounds else "")
        if self.notation:
            return f"no: {right} is right; in the letters of --notation {self.notation} yours is the same"
        more, less = (self._text(part, letters) for part in (self.missing, self.extra))
        if not self.extra.top.terms:
            found = f"no: {right} is {more} more"
        elif not self.missing.top.terms:
            found = f"no: {right} is {less} less"
        else:
            found = f"no: {right} is right; {more} is missing, {less} is too much"
        return "; ".join([found, *self.reasons(letters)])

    def _right(self, letters: Mapping[str, str]) -> str:
        """``4h² + 4h``; of a number ``1,050,624 (4h² + 4h with h = 512)``."""
        right = self._order(self._text(self.right, letters))
        if self.closed is None:
            return right
        at = ", ".join(f"{letters.get(letter, letter)} = {size:,}" for letter, size in self.sizes.items())
        return f"{right} ({ratio_text(self.closed, letters)} with {at})"

    def _text(self, part: Ratio, letters: Mapping[str, str]) -> str:
        """A growth is written term by term, as it is everywhere."""
        return write(part.top, letters=letters, factored=False) if self.order else ratio_text(part, letters)

    def _order(self, text: str) -> str:
        return f"O({text})" if self.order else text

    def reasons(self, letters: Mapping[str, str]) -> list[str]:
        """Why it differs, in words, as far as that is known."""
        found = [_in_words(cause, self.of, letters) for cause in self.missed]
        found += [self.roughly] if self.roughly else []
        if self.share is not None:
            found.append(f"it is the right one times {ratio_text(self.share, letters)}")
        what = "formula" if self.closed is None else "number"
        return [*found, f"it is the {what} {self.instead}"] if self.instead else found

    def sheet(self) -> Sheet:
        """The verdict; below it both formulas and what differs."""
        yours = self._order(self._text(self.yours, self.letters))
        rows: list[list[Cell]] = [["yours", yours], ["right", self._right(self.letters)]]
        for name, part in (("missing", self.missing), ("too much", self.extra)):
            if part.top.terms:
                rows.append([name, self._text(part, self.letters)])
        if self.off is not None and not self.correct:
            rows.append(["off", f"{self.off:+.2%}".replace("%", " %")])
        verdict = self.verdict()
        meanings = ", ".join(f"{self.letters.get(letter, letter)} {what}" for letter, what in self.legend.items())
        return Sheet(
            title=verdict,
            columns=[Column("what", numeric=False), Column("formula", numeric=False, folds=True)],
            rows=rows,
            quiet=verdict,
            notes=[*self.notes, *([meanings] if meanings else [])],
        )

    def __str__(self) -> str:
        return self.verdict()


def _plain(ratio: Ratio) -> str:
    """A formula in its own letters, a number without groups of digits."""
    return write(ratio.top) if ratio.bottom == 1 else ratio_text(ratio, {})


def ratio_text(ratio: Ratio, letters: Mapping[str, str]) -> str:
    """``4h²``, ``3h/2``, ``(2h + 1)/3``, ``1,050,624``."""
    text = _grouped(ratio.top, letters)
    return text if ratio.bottom == 1 else f"{bracketed(text)}/{ratio.bottom}"


def _grouped(number: Polynomial, letters: Mapping[str, str]) -> str:
    """A formula; a number alone in groups of three digits."""
    return write(number, letters=letters) if number.free_symbols else f"{number.terms.get((), 0):,}"


def _signed(number: Ratio, sign: int) -> Ratio:
    terms = number.top.terms.items()
    return Ratio.of(Polynomial({powers: factor * sign for powers, factor in terms if factor * sign > 0}), number.bottom)


def _terms(number: Ratio) -> list[str]:
    return [
        ratio_text(Ratio.of(Polynomial({powers: factor}), number.bottom), {})
        for powers, factor in number.top.terms.items()
    ]


def _in_words(cause: Cause, of: str, letters: Mapping[str, str]) -> str:
    """``h² is W_O``; ``W_Q, W_K, W_V: counted a times``."""
    named = ", or ".join([cause.part.name, *(other.name for other in cause.others[:MOST_OTHERS])])
    times, size = cause.times, _grouped(cause.part.number, letters)
    if cause.forms:
        each = [
            f"{part.name} ({write(form, letters=letters)})"
            for part, form in zip((cause.part, *cause.others), cause.forms, strict=True)
        ][: MOST_OTHERS + 1]
        twice = " counted twice" * (times == TWICE)
        return f"{size} is {', or '.join(each)}{twice}: as large by coincidence, at these sizes alone"
    whole = cause.is_all
    if times == NEVER:
        return "everything is missing" if whole else f"{size} is {named}"
    if times.letter:
        letter = letters.get(times.letter, times.letter)
        if times.by:
            return f"{named}: counted with {letter} in the place of {letters.get(times.by, times.by)}"
        if times.divided:
            return f"the factor {letter} is missing" + ("" if whole else f" from {named}")
        said = f"{'all of it' if whole else named}: counted {letter} times"
        if times.letter != "a" or whole:
            return said
        shared = "one matrix is for all" if cause.part.name.startswith("W_") else "that is the cost of all"
        return f"{said}, but {shared} {letter} heads"
    if whole:
        reason = REASONS.get((of, times.number), "")
        return f"it is {OFTEN[times.number]} the right one" + (f": {reason}" if reason else "")
    if times == TWICE:
        return f"{size} is {named}, counted twice"
    if times.number == Fraction(1, 2) and all(name in named for name in SCORES):
        return f"of {named} half was counted, as for a causal mask"
    were, its = ("were", "their") if named.endswith("s") else ("was", "its")
    return f"{named} {were} counted as {OFTEN[times.number]} {its} {size}"


ORDER = re.compile(r"\s*[OΘ]\s*\((.*)\)\s*", re.DOTALL)
"""A growth is typed with or without its O(…)."""


def check(
    target: str,
    text: str,
    of: str = "params",
    model: Model | str | None = None,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    approx: bool = False,
    general: bool = False,
    notation: str = "lbhn",
    letters: Mapping[str, str] | None = None,
    training: Training | None = None,
    serving: Serving | None = None,
    tokens: int | None = None,
) -> FormulaCheck:
    """Compare a formula, or a number, with tfcalc's own, and name what differs.

    Two formulas are equal where they are the same polynomial once both are multiplied out, if need be with the sizes of
    the model and the workload in the place of letters that the text has not. A number without letters is compared with
    what the right formula is at all these sizes; one with a unit, a point or an exponent is right if that rounds to it.
    The text is read by a grammar of its own (:mod:`tfcalc.expressions`): nothing in it is executed.

    Args:
        target: as in :func:`~tfcalc.formula`.
        text: the formula: ``4h² + 4h``, ``4*d**2 + 4*d``; of FLOPs also with N parameters and D tokens: ``6ND``. Or a
            number: ``1,050,624``, ``44.14M``, ``168.4MiB``, ``6.71e10``.
        of: ``params``, ``trainable``, ``flops``, ``memory`` (bytes) or ``time`` (its growth).
        model: as in :func:`~tfcalc.params`; by default the classic Transformer.
        workload: phase and structure of what is run; its sizes are letters.
        conventions: which operations are counted, and the number format of weights at rest.
        approx: without biases and norms.
        general: give a letter of its own to each size that follows from others by default (f instead of 4h).
        notation: the letters of the text: ``lbhn``, ``bsld`` or ``names``.
        letters: other letters for some of them: ``{"h": "d", "l": "n"}``.
        training: as in :func:`~tfcalc.formula`.
        serving: as in :func:`~tfcalc.formula`.
        tokens: those of a whole training run. Of FLOPs.

    Returns:
        A check: ``correct``, ``right`` and ``difference``; ``verdict()`` says it in one line.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense.
        UsageError: the text is no formula, or the target, quantity or a letter is not known.

    >>> print(check("mha", "3h² + 4h").verdict())
    no: 4h² + 4h is h² more; h² is W_O
    """
    if of != "flops" and by_thumb(text) and not letters:
        raise UsageError(f"{quoted(text)} is of FLOPs, with N parameters and D tokens", "add --of flops")
    model = Transformer() if model is None else model_of(model)
    run = asked_run(model, workload) if hasattr(model, "tree") else workload
    if tokens is not None and run is not None:
        run = step_of_a_run(run, of, tokens)
    own = formula(
        target,
        of,
        model,
        run,
        conventions,
        approx=approx,
        general=general,
        notation=notation,
        training=training,
        serving=serving,
    )
    model, run = with_some_vocabulary(model, target), run or Workload()
    rule = rule_of_thumb(target, model, run, training, tokens, general=general) if of == "flops" else None
    right = RightForm.of(own, model, run, tokens)
    written, names = _names(model, run, right.legend, notation, letters or {})
    meaning = _meaning(model, run, right.legend, general=general)
    meaning |= {letter: symbol(letter) for letter in right.form.free_symbols}  # it stands for itself
    known = {name: meaning[letter] for name, letter in names.items()}
    if rule is not None:
        known |= rule.letters_beside((*right.legend, *(letters or {}).values()))
    typed = ORDER.fullmatch(text) if own.order else None
    spelling = {written.get(letter, letter) for letter in right.form.free_symbols}
    number = None if own.order else number_in(text, of, spelling)
    read = None if number else read_formula(typed[1] if typed else text, known)
    yours = of_number(number.value) if number else expanded(read, known) if read else NOTHING
    yours = Ratio(growth(yours.top)) if own.order and yours.top != right.form else yours
    put = {} if own.order else right.put_in(yours)
    a_number = bool(put) and not yours.top.free_symbols
    rounds = number is not None and yours != right.at(put) and rounds_to(right.at(put), number)
    missed: tuple[Cause, ...] = ()
    share: Ratio | None = None
    instead = roughly = ""
    if yours != right.at(put) and not rounds and of in COUNTS:
        tree = to_open(model, of, run, conventions, training=training, serving=serving, general=general)
        lines = opened(target, of, tree).lines
        if own.order:
            roughly = _grow_so(lines, _signed(yours - right.at(put), -1).top, written)
        else:
            missed, put = _causes(yours, right, put, lines, whole_number=a_number)
            counters = [line for line in lines if all(name.startswith("step of ") for name in line.names)]
            counted = [right.line(line, put, whole_number=True).top for line in counters]
            roughly = _of_counters(right.at(put) - yours, counted)
            if not roughly and (len(missed) != 1 or missed[0].cost > FAR_FETCHED):
                roughly = _roughly(yours, right, number, rule, written)
                share = None if a_number or roughly else proportion(yours, right.form)
                known_of = share or roughly
                instead = (
                    ""
                    if known_of
                    else _of_another_question(yours, number, target, of, tree, conventions, general=general)
                )
            by_rule = rule is not None and read is not None and rule.letters.keys() & names_of(read)
            roughly = roughly or (THUMB if by_rule else "")
    other = ""
    if yours != right.at(put) and not (a_number or letters or own.order or put):
        others = (name for name in NOTATIONS if name != notation)
        other = next((name for name in others if _is(right.form, text, model, run, right.legend, name, meaning)), "")
    return FormulaCheck(
        target=target,
        path=own.path,
        of=of,
        text=text,
        yours=yours,
        right=right.at(put),
        closed=Ratio(right.form) if put else None,
        sizes=put,
        rounds=rounds,
        order=own.order,
        missed=() if instead or share or (roughly and roughly != THUMB) else missed,
        share=share,
        off=None if own.order else right.off(yours),
        roughly=roughly,
        instead=instead,
        notation=other,
        letters=written,
        legend=right.legend,
        model=own.model,
        conventions=own.conventions,
        notes=own.notes,
    )


THUMB = "6ND is a rule of thumb: it has no product of attention itself, and takes all parameters for matrices"


def _causes(
    yours: Ratio, right: RightForm, put: dict[str, int], lines: Sequence[Line], *, whole_number: bool
) -> tuple[tuple[Cause, ...], dict[str, int]]:
    """The parts that the difference is, in letters or with numbers put in for some, and which these are."""
    tried = [put] if put or not right.could_put(yours) else [put, right.could_put(yours)]
    for sizes in tried:
        here = [right.line(line, sizes, whole_number=whole_number) for line in lines]
        forms = [line._replace(formula=form.top) for line, form in zip(lines, here, strict=True) if form.bottom == 1]
        if sum((line.formula for line in forms), start=Polynomial({})) != right.at(sizes).top or len(forms) < len(
            lines
        ):
            continue
        found = causes_of(yours - right.at(sizes), forms)
        if whole_number:  # many numbers are some part a few times, or some parts together
            once = [one for one in found[:1] if len(found) == 1 and (one.is_all or one.times in (NEVER, TWICE))]
            found = tuple(by_chance(one, forms, lines) for one in once)
        if found:
            return found, sizes
    return (), put


def _of_counters(lacking: Ratio, counted: Sequence[Polynomial]) -> str:
    """Say that what is lacking is the optimizer's step counters (``counted``, in bytes), where it is."""
    its = counted and lacking == Ratio(sum(counted, start=Polynomial({})))
    return f"{ratio_text(lacking, {})} is the step counters, 4 bytes for each tensor that is trained" if its else ""


def _roughly(
    yours: Ratio, right: RightForm, number: WrittenNumber | None, rule: RuleLetters | None, letters: Mapping[str, str]
) -> str:
    """Say that it is rounded, or a rule of thumb; nothing where it is neither."""
    if number is not None:
        n = rule.behind(number) if rule else None
        return "" if n is None or rule is None else f"it is {rule.factor}ND, a rule of thumb, with {rule.sizes(n)}"
    rounded = rounded_from(yours, right.form)
    if rounded is None:
        return ""
    left_out = right.form - rounded
    rest = f", without {write(left_out, letters=letters)}" if left_out.terms else ""
    return f"{ratio_text(yours, letters)} is {write(rounded, letters=letters)} rounded{rest}"


def _grow_so(lines: Sequence[Line], missing: Polynomial, letters: Mapping[str, str]) -> str:
    """Name the steps that take as long as what a growth lacks."""
    grown = {line: growth(line.formula).terms.keys() & missing.terms.keys() for line in dict.fromkeys(lines)}
    names = dict.fromkeys(name for line, terms in grown.items() if terms for name in line.names)
    if not names:
        return ""
    size = write(missing, letters=letters, factored=False)
    return f"{size} is how {', '.join(list(names)[:MOST_STEPS])}{' and others' * (len(names) > MOST_STEPS)} grow"


MOST_STEPS = 4

FAR_FETCHED = 3.05
"""A cause that costs more is named only where the formula answers no other question."""


def _names(
    model: Model, run: Workload, legend: Iterable[str], notation: str, others: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the spelling of each letter, and the letter of each name. Raises UsageError where others are none."""
    names = {spelled(letter, notation): letter for letter in legend} | spellings(model, run, notation=notation)
    written = {letter: spelled(letter, notation) for letter in names.values()}
    own = own_letters(others, model, run, notation=notation)
    for letter in own:
        names.pop(written[letter], None)
    return written | own, names | {other: letter for letter, other in own.items()}


def _meaning(model: Model, run: Workload, legend: Iterable[str], *, general: bool) -> dict[str, Polynomial]:
    """The value of each letter: itself, or what it follows from."""
    found = {letter: symbol(letter) for letter in legend}
    for one in (with_symbols(model, general=general), with_symbols(run, general=general)):
        present = one.values()
        implied = getattr(one, "implied", {})
        for name, size in one.dimensions().items():
            follows = size.symbol not in present and name in implied
            found[size.symbol] = polynomial(implied[name]) if follows else symbol(size.symbol)
    return found


def _is(
    right: Polynomial,
    text: str,
    model: Model,
    run: Workload,
    legend: Iterable[str],
    notation: str,
    meaning: Mapping[str, Polynomial],
) -> bool:
    """Return True if a text is the right formula when it is read in the letters of a notation."""
    _, names = _names(model, run, legend, notation, {})
    try:
        yours = expanded(read_formula(text, names), {name: meaning[letter] for name, letter in names.items()})
    except UsageError:
        return False
    return yours == Ratio(right)


def _of_another_question(
    yours: Ratio,
    number: WrittenNumber | None,
    target: str,
    of: str,
    tree: Tree,
    conventions: Conventions | None,
    *,
    general: bool,
) -> str:
    """Name the part, quantity, mask or phase that the formula is right for; ``""`` where there is none."""
    if (yours.bottom != 1 and number is None) or tree.of_terms or not yours.top.terms:
        return ""
    by, model, run = conventions or Conventions(), tree.model, tree.run
    measures = {} if of == "memory" else {"": measure_of(of, run, by)}
    if of == "params":
        measures |= {" without biases and norms": major_params, " that a token uses (active)": active_params}
    for words, measure in measures.items():
        for name in TARGETS:
            try:
                node = find(tree.twin if yours.top.free_symbols else tree.node, name)
            except UsageError:
                continue
            there = polynomial(node.component.each(measure))
            if there == yours.top or (number is not None and rounds_to(Ratio(there), number)):
                return f"of {name}{words}"
    if not yours.top.free_symbols:
        return ""
    questions = [(f"of the {QUANTITIES[other]}", other, run) for other in ("params", "flops", "memory") if other != of]
    if of == "flops":
        questions += [(f"with --attention {pairs}", of, run.replaced(attention=pairs)) for pairs in PAIRS]
        questions += [(f"with --phase {phase}", of, run.replaced(phase=phase)) for phase in ("forward", "train")]
    for words, quantity, asked in questions:
        try:
            other = formula(target, quantity, model, asked, conventions, general=general).closed
        except TfcalcError:
            continue
        if other == yours.top:
            return words
    return ""
