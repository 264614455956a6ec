"""What a condition compares, at any size: exact numbers by the library's own answers, and closed forms in letters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.common import run_tree, tuning_for
from tfcalc.analysis.memory import memory
from tfcalc.conventions import Conventions
from tfcalc.core.component import Measure, Node
from tfcalc.core.effort import EFFORT
from tfcalc.core.measure import active_params, flops_of, held_bytes, params, trainable_params
from tfcalc.core.number import Num, total
from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.core.traced import value_of
from tfcalc.defaults import own_format, resolve_dtype
from tfcalc.errors import UsageError, nearest
from tfcalc.footprint.plans import Training
from tfcalc.printable import quoted
from tfcalc.report import polynomial
from tfcalc.solving.names import TERMS, Meant, meaning, parts
from tfcalc.solving.unknowns import LETTER_OF_TOKENS, Setting, Unknown, words
from tfcalc.symbols import values, with_symbols
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.core.component import Component
    from tfcalc.model import Sized
    from tfcalc.report import Report

OF_CLASSIC = 500
"""What a step of the classic Transformer spends beside its operations, of which there are few."""
TUNING = ("lora", "lora_targets", "dora", "freeze")
"""What of a plan of training decides on parameters and FLOPs, too."""
MEASURES: Mapping[str, Measure] = {
    "params": params,
    "active_params": active_params,
    "trainable_params": trainable_params,
}


class Asked:
    """The names of a condition, and what each is ``of`` where it says no quantity itself."""

    def __init__(
        self,
        setting: Setting,
        conventions: Conventions,
        names: Iterable[str],
        of: str,
        weights: str | None = None,
    ) -> None:
        self.setting, self.conventions, self.weights = setting, conventions, weights
        self.sizes = _sizes(setting)
        self.of = of
        self.meant = {name: meaning(name, of, self.sizes) for name in sorted(names)}

    def with_setting(self, setting: Setting) -> Asked:
        """The same question about another setting."""
        return Asked(setting, self.conventions, self.meant, self.of, self.weights)

    @property
    def quantities(self) -> set[str]:
        """What is counted."""
        return {meant.quantity for meant in self.meant.values()}

    @property
    def memory_runs(self) -> bool:
        """Whether the memory that is asked for is that of training or serving."""
        setting = self.setting
        return "memory" in self.quantities and (setting.run.training or setting.serving is not None)

    def values(self, setting: Setting) -> dict[str, int]:
        """Each name's number with these sizes. Raises as the library does for a model that cannot be."""
        setting.model.check(setting.run)
        found: dict[str, int] = {}
        root: Node | None = None
        report: Report | None = None
        for name, meant in self.meant.items():
            if meant.quantity == "size":
                found[name] = int(value_of(_size(setting, *self.sizes[name])))
            elif meant.quantity == "memory" and not self.by_tree:
                report = report or self._memory(setting)
                found[name] = _term(report, meant.part)
            else:
                root = root or self._tree(setting).root()
                found[name] = int(value_of(self._measured(root, meant, setting)))
        return found

    def forms(self, unknowns: Iterable[Unknown]) -> dict[str, Polynomial] | None:
        """Each name's closed form, with a letter for every size; None where a name has none."""
        if self.memory_runs or ("memory" in self.quantities and not self.by_tree):
            return None
        model, run = with_symbols(self.setting.model), with_symbols(self.setting.run)
        tokens: Num | None = None if self.setting.tokens is None else symbol(LETTER_OF_TOKENS)
        for each in unknowns:
            match each.owner:
                case "model":
                    present = self.setting.model.replaced(**{each.name: each.value or 1})
                    model = with_symbols(present)
                    break
        for each in unknowns:
            match each.owner:
                case "model":
                    model = model.replaced(**{each.name: symbol(each.letter)})
                case "run":
                    run = run.replaced(**{each.name: symbol(each.letter)})
                case "tokens":
                    tokens = symbol(LETTER_OF_TOKENS)
                case _:
                    return None
        setting: Any = Setting(model, run, self.setting.training, None, tokens)  # type: ignore[arg-type]  # letters for ints
        root = self._tree(setting, symbolic=True).root() if self.quantities - {"size"} else None
        found = {}
        for name, meant in self.meant.items():
            if meant.quantity == "size":
                found[name] = polynomial(_size(setting, *self.sizes[name]))
            elif root is not None:
                found[name] = polynomial(self._measured(root, meant, setting))
        return found

    def numbers(self, unknowns: Iterable[Unknown]) -> dict[str, int]:
        """What all other letters stand for."""
        setting = self.setting
        tuning = tuning_for(setting.model, self.tuning(setting), "FLOPs")
        known: dict[str, Num] = values(setting.model, setting.run)
        if tuning is not None and tuning.plan.lora is not None:
            known["r"] = tuning.plan.lora
        if setting.tokens is not None:
            known[LETTER_OF_TOKENS] = setting.tokens
        for each in unknowns:
            known.pop(each.letter, None)
        return {letter: number for letter, number in known.items() if isinstance(number, int)}

    def letters_of(self, forms: Mapping[str, Polynomial]) -> list[str]:
        """Words for the sizes whose letters stand in these forms."""
        used = frozenset[str]().union(*(form.free_symbols for form in forms.values()))
        found: dict[str, str] = {}
        for word, (owner, field) in self.sizes.items():
            described: Sized = self.setting.run if owner == "run" else self.setting.model
            letter = described.dimensions()[field].symbol
            if letter in used:
                found.setdefault(letter, word)
        return sorted(found.values())

    @property
    def by_tree(self) -> bool:
        """Whether memory is that of the weights as a plain format stores them, which the tree has."""
        if any(meant.quantity == "memory" and meant.part in TERMS for meant in self.meant.values()):
            return False
        own = own_format(self.setting.model) if self.conventions.dtype == "auto" else None
        return not self.memory_runs and self.weights is None and (own is None or own.format.plain)

    def _tree(self, setting: Setting, *, symbolic: bool = False) -> Component:
        run = setting.run if setting.tokens is None else setting.run.replaced(convolutions="run")
        tuning = tuning_for(self.setting.model if symbolic else setting.model, self.tuning(setting), "FLOPs")
        plan = None if tuning is None else tuning.symbolic if symbolic else tuning.plan
        return run_tree(setting.model, run, plan)

    def tuning(self, setting: Setting) -> Training | None:
        """What is trained of the model, where that is not all of it."""
        plan, plain = setting.training, Training()
        if plan is None or all(getattr(plan, name) == getattr(plain, name) for name in TUNING):
            return None
        return plain.replaced(**{name: getattr(plan, name) for name in TUNING})

    def _measured(self, root: Node, meant: Meant, setting: Setting) -> Num:
        found = total(node.total(self._measure(meant.quantity)) for node in parts(root, meant.part))
        if meant.quantity != "flops" or setting.tokens is None:
            return found
        run: Num = found * setting.tokens // setting.run.target.tokens  # type: ignore[operator]  # any kind of number
        return run

    def _measure(self, quantity: str) -> Measure:
        if quantity == "flops":
            return flops_of(self.setting.run.training, self.conventions.count == "all")
        if quantity == "memory":
            return held_bytes(resolve_dtype(self.setting.model, self.conventions).bits)
        return MEASURES[quantity]

    def _memory(self, setting: Setting) -> Report:
        if isinstance(setting.model, Transformer):
            EFFORT.spend(OF_CLASSIC)
        training = setting.training if setting.run.training else None
        run = setting.run if setting.run.training or setting.serving is not None else None
        return memory(
            setting.model, run, self.conventions, training=training, serving=setting.serving, weights=self.weights
        )


def _term(report: Report, part: str) -> int:
    """A term of memory: one of the totals, or what a path of the breakdown names."""
    if not part:
        return report.answer
    for key in (f"{part}_bytes", part):
        size = report.totals.get(key)
        if isinstance(size, int):
            return size
    entries = [entry for entry in report.whole.walk() if entry.path.partition(".")[2] == part or entry.name == part]
    if not entries:
        entries = [entry for entry in report.whole.walk() if entry.path.endswith(f".{part}")]
    if not entries:
        known = [key.removesuffix("_bytes") for key in report.totals if key.endswith("_bytes")]
        raise UsageError(f"{quoted(part)} is no term of this memory", nearest(part, known))
    return entries[0].value


def _sizes(setting: Setting) -> dict[str, tuple[str, str]]:
    """Words for sizes that a condition may compare, each with whose it is and its field."""
    found: dict[str, tuple[str, str]] = {}
    for owner, described in (("run", setting.run), ("model", setting.model)):
        for word, field in words(described).items():
            found.setdefault(word, (owner, field))
        for field, known in described.dimensions().items():
            found.setdefault(known.symbol, (owner, field))
    for word, field in words(Transformer()).items():
        if word not in found and field in found:
            found[word] = found[field]
    return found


def _size(setting: Setting, owner: str, field: str) -> Num:
    described: Sized = setting.run if owner == "run" else setting.model
    known = described.values().get(described.dimensions()[field].symbol)
    if known is None and hasattr(described, "implied"):
        known = (described.implied | described.assumed).get(field)  # type: ignore[attr-defined]  # of what has fields
    if known is None:
        raise UsageError(f"{field} has no value in this model", "give it one")
    return known
