"""The names of a condition: what each means, and its value at any size, as a number or as a closed form in letters."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.common import run_tree, tuning_for
from tfcalc.analysis.targets import TARGETS, Finder, by_path, meant_by
from tfcalc.answers.memory import memory_of
from tfcalc.answers.memory_base import Memory
from tfcalc.answers.metrics import HEADLINES
from tfcalc.answers.verdict import Fit, memory_within
from tfcalc.core.component import Measure, Node
from tfcalc.core.measure import active_params, flops_of, held_bytes, params, trainable_params
from tfcalc.core.number import Num, total
from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.core.traced import EFFORT, value_of
from tfcalc.defaults import own_format, resolve_dtype
from tfcalc.errors import UsageError, nearest
from tfcalc.expressions import read_conditions
from tfcalc.hardware import is_accelerator
from tfcalc.model import values, with_symbols
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import Training
from tfcalc.printable import quoted
from tfcalc.report import polynomial
from tfcalc.search.gpus import of_card
from tfcalc.solving.unknown import LETTER_OF_TOKENS, Setting, UnknownSize, words
from tfcalc.training.adapters import check_adapters
from tfcalc.training.peaks import Peaks
from tfcalc.workload import Conventions
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.core.component import Component
    from tfcalc.model import Sized
    from tfcalc.report import Report

CARD = "card"
"""What a name counts that is an accelerator's: how much of it may be allocated so that it fits."""
OF_CARDS = re.compile(r"[^\W\d]\w*(?:-\w+)+|[^\W\d]\w*\d\w*", re.ASCII)
"""Words that may be a card's: with a hyphen, or with a figure."""
ACTIVE, TRAINED = "active_params", HEADLINES["trainable"].key
QUANTITIES = ("params", "flops", "memory", ACTIVE, TRAINED)
"""What is counted, as a condition calls it."""
OTHER_NAMES = {
    **{HEADLINES[of].key: of for of in ("params", "flops", "memory")},
    HEADLINES["peak"].key: "memory",
    "peak": "memory",
    "bytes": "memory",
    "parameters": "params",
}
BYTES = "_bytes"
TERMS = ("weights", "gradients", "optimizer", "activations", "kv_cache")
"""Terms of memory that need not say so; any other does by the end of its key, BYTES."""
TOTAL = "total"
"""The whole model, in the quantity that was asked for."""

KINDS = {
    "attention": ("attention",),
    "mha": ("attention",),
    "ffn": ("ffn", "moe"),
    "mlp": ("ffn", "moe"),
    "norm": ("norm",),
    "norms": ("norm",),
    "ln": ("norm",),
    "moe": ("moe",),
    "router": ("router",),
    "experts": ("experts",),
    "layer": ("layer",),
    "layers": ("layer",),
    "embedding": ("embedding", "position"),
    "embeddings": ("embedding", "position"),
    "output": ("output",),
}
"""PartsOrigin by what they do: all that the model has of the kind, together."""


class Meant(NamedTuple):
    """A name of a condition: its ``quantity`` (one of QUANTITIES, or ``size``), and the ``part`` (empty: the whole)."""

    quantity: str
    part: str = ""


SEVERAL_WORDS = {
    **{
        name.replace("_", " "): name
        for name in (*QUANTITIES, *TERMS, "self_attention", "cross_attention")
        if "_" in name
    },
    **dict.fromkeys(("kvcache", "key value cache"), "kv_cache"),
    **dict.fromkeys(("peak memory", "memory peak"), "peak"),
    **dict.fromkeys(("active parameters",), ACTIVE),
    **dict.fromkeys(("trainable parameters",), TRAINED),
    **dict.fromkeys(("total parameters", "total params"), "params"),
    **dict.fromkeys(("optimizer states", "optimizer state"), "optimizer"),
    **dict.fromkeys(("feed forward", "feed forward network"), "ffn"),
    **dict.fromkeys(("output head", "lm head"), "output"),
}
"""Names of several words, with a space or a hyphen between them."""
BETWEEN = r"[\s-]+"
OF_WORDS = re.compile(
    "|".join(BETWEEN.join(name.split()).join((r"\b", r"\b")) for name in sorted(SEVERAL_WORDS, key=len, reverse=True)),
    re.IGNORECASE,
)
OF_PART = re.compile(rf"\b({'|'.join(QUANTITIES)})\s*\(\s*([^\W\d][\w.]*)\s*\)")


def parts_named(condition: str) -> str:
    """Return the condition with a quantity of a part as its path: nobody who writes ``params(ffn)`` means a product.

    So it is with names of several words: ``kv cache``.

    >>> parts_named("flops(attention) = 2 * flops( ffn )"), parts_named("2(params + 1) <= 7B")
    ('flops.attention = 2 * flops.ffn', '2(params + 1) <= 7B')
    >>> parts_named("KV cache <= 10GB"), parts_named("feed-forward = 2 * cross attention")
    ('kv_cache <= 10GB', 'ffn = 2 * cross_attention')
    >>> parts_named("memory <= rtx-4090"), parts_named("d_model-n_heads <= 64")
    ('memory <= rtx_4090', 'd_model-n_heads <= 64')
    """
    known = OF_WORDS.sub(lambda found: SEVERAL_WORDS[" ".join(re.split(BETWEEN, found[0].lower()))], condition)
    known = OF_CARDS.sub(lambda found: found[0].replace("-", "_") if is_accelerator(found[0]) else found[0], known)
    return OF_PART.sub(r"\1.\2", known)


def names_in(condition: str) -> set[str]:
    """Names of a condition. Raises UsageError where it is none."""
    return {name for each in read_conditions(parts_named(condition)) for name in each.names}


MEASURED = ("mfu", "hfu", "utilisation", "utilization")


def refuse_measured(names: Iterable[str]) -> None:
    """Raise UsageError for a name of what is measured, with the command that computes it."""
    for name in names:
        if name.lower() in MEASURED:
            shown = "tfcalc flops llama-3-8b --mfu --tokens-per-second 9500 --gpu h100"
            raise UsageError(
                f"{quoted(name)} follows from a measured throughput, and from no size alone", f"ask {shown}"
            )


def meaning(name: str, of: str, sizes: Collection[str]) -> Meant:
    """Return what a name means where parts without a quantity are taken ``of`` this one, and these are the ``sizes``.

    >>> meaning("attention", "flops", ()), meaning("memory.weights", "flops", ())
    (Meant(quantity='flops', part='attention'), Meant(quantity='memory', part='weights'))
    >>> meaning("kv_cache", "flops", ())
    Meant(quantity='memory', part='kv_cache')
    """
    if name in sizes:
        return Meant("size", name)
    first, _, behind = name.partition(".")
    before, _, last = name.rpartition(".")
    for quantity, part in ((first, behind), (last, before)):
        known = OTHER_NAMES.get(quantity, quantity)
        if known in QUANTITIES:
            return Meant(known, "" if part == TOTAL else part)
    if is_accelerator(name):
        return Meant(CARD, name)
    term = name.removesuffix(BYTES)
    if name.endswith(BYTES) or term in TERMS:
        return Meant("memory", term)
    return Meant(of, "" if name == TOTAL else name)


def parts(root: Node, name: str) -> list[Node]:
    """Return all parts of a model that a name means, none within another: by kind, by path or its end, or part.part.

    Raises UsageError with the nearest names, where there is none.
    """
    found = list(_parts(root, name)) if name else [root]
    if not found:
        found = list(_parts(root, meant_by(name)))
    if not found:
        kinds = {node.component.kind for node in root.walk()}
        known = [word for word, its in KINDS.items() if kinds & set(its)]
        paths = [node.path.partition(".")[2] for node in root.walk()]
        refuse_measured([name])
        here = f"known: {', '.join([*QUANTITIES[:3], TOTAL, *known])}, or a path that tfcalc params shows"
        hint = nearest(name, [*known, *QUANTITIES, TOTAL, *paths[1:]], otherwise=here)
        raise UsageError(f"{quoted(name)} is no part of this model", hint)
    return found


def _parts(root: Node, name: str) -> Iterator[Node]:
    found = list(_topmost(root, _finder(name)))
    if found:
        yield from found
        return
    for place in range(len(name) - 1, 0, -1):
        if name[place] == ".":
            outer = [node for node in _topmost(root, _finder(name[:place])) if node is not root]
            inner = [part for node in outer for below in node.below() for part in _parts(below, name[place + 1 :])]
            if inner:
                yield from inner
                return


def _finder(name: str) -> Finder:
    if name in KINDS:
        return lambda node: node.component.kind in KINDS[name]
    if name == "self_attention":
        return TARGETS["mha"]
    if name in ("cross_attention", "cross-mha"):
        return TARGETS["cross-mha"]
    if name in ("encoder", "decoder"):
        return lambda node: name in (node.component.name, node.component.kind)
    return by_path(name)


def _topmost(node: Node, fits: Finder) -> Iterator[Node]:
    if fits(node):
        yield node
        return
    for below in node.below():
        yield from _topmost(below, fits)


OF_CLASSIC = 500
"""What a step of the classic Transformer spends beside its operations, of which there are few."""
TUNING = ("lora", "lora_targets", "dora", "freeze")
"""What of a plan of training decides on parameters and FLOPs, too."""
MEASURES: Mapping[str, Measure] = {
    "params": params,
    ACTIVE: active_params,
    TRAINED: trainable_params,
}


class Evaluator:
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
        self.peaks: Peaks | None = None
        """Of the model, where a card is asked about, whose steps are simulated."""
        self.of = of
        self.meant = {name: meaning(name, of, self.sizes) for name in sorted(names)}

    @property
    def card(self) -> str:
        """Name of the card that memory is compared with; empty where there is none."""
        return next((meant.part for meant in self.meant.values() if meant.quantity == CARD), "")

    def with_setting(self, setting: Setting) -> Evaluator:
        """Return an evaluator of the same question about another setting."""
        return Evaluator(setting, self.conventions, self.meant, self.of, self.weights)

    @property
    def counted(self) -> set[str]:
        """The quantities that the names are of."""
        return {"memory" if meant.quantity == CARD else meant.quantity for meant in self.meant.values()}

    @property
    def memory_runs(self) -> bool:
        """True if the memory that is asked for is that of training or serving."""
        setting = self.setting
        return "memory" in self.counted and (setting.run.training or setting.serving is not None)

    def values(self, setting: Setting) -> dict[str, int]:
        """Return each name's number with these sizes. Raises as the library does for a model that cannot be."""
        setting.model.check(setting.run)
        found: dict[str, int] = {}
        root: Node | None = None
        report: Report | None = None
        for name, meant in self.meant.items():
            if meant.quantity == "size":
                found[name] = int(value_of(_size(setting, *self.sizes[name])))
            elif meant.quantity == CARD:
                report = report or self._memory(setting)
                found[name] = _fitting(report)
            elif meant.quantity == "memory" and not self.by_tree:
                report = report or self._memory(setting)
                found[name] = _term(report, meant.part)
            else:
                root = root or self._tree(setting).root()
                found[name] = int(value_of(self._measured(root, meant, setting)))
        return found

    def forms(self, unknown: UnknownSize) -> dict[str, Polynomial] | None:
        """Return each name's closed form, with a letter for every size; None where a name has none."""
        if self.memory_runs or ("memory" in self.counted and not self.by_tree):
            return None
        model, run = with_symbols(self.setting.model), with_symbols(self.setting.run)
        tokens: Num | None = None if self.setting.tokens is None else symbol(LETTER_OF_TOKENS)
        match unknown.owner:
            case "model":
                model = unknown.symbolic(self.setting.model)
            case "run":
                run = run.replaced(**{unknown.name: symbol(unknown.letter)})
            case "tokens":
                tokens = symbol(LETTER_OF_TOKENS)
            case _:
                return None
        setting: Any = Setting(model, run, self.setting.training, None, tokens)  # type: ignore[arg-type]  # letters for ints
        root = self._tree(setting, symbolic=True).root() if self.counted - {"size"} else None
        found = {}
        for name, meant in self.meant.items():
            if meant.quantity == "size":
                found[name] = polynomial(_size(setting, *self.sizes[name]))
            elif root is not None:
                found[name] = polynomial(self._measured(root, meant, setting))
        return found

    def numbers(self, unknown: UnknownSize) -> dict[str, int]:
        """The values of all letters but the one of this size."""
        setting = self.setting
        tuning = tuning_for(setting.model, self.tuning(setting), "FLOPs")
        known: dict[str, Num] = values(setting.model, setting.run)
        if tuning is not None and tuning.plan.lora is not None:
            known["r"] = tuning.plan.lora
        if setting.tokens is not None:
            known[LETTER_OF_TOKENS] = setting.tokens
        known.pop(unknown.letter, None)
        return {letter: number for letter, number in known.items() if isinstance(number, int)}

    def letters_of(self, forms: Mapping[str, Polynomial]) -> list[str]:
        """Words for the sizes whose letters are in these forms."""
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
        """True if memory is that of the weights as a plain format stores them, which the tree has."""
        if self.card or any(meant.quantity == "memory" and meant.part in TERMS for meant in self.meant.values()):
            return False
        own = own_format(self.setting.model) if self.conventions.dtype == "auto" else None
        return not self.memory_runs and self.weights is None and (own is None or own.format.plain)

    def _tree(self, setting: Setting, *, symbolic: bool = False) -> Component:
        run = setting.run if setting.tokens is None else setting.run.replaced(convolutions="run")
        tuning = tuning_for(self.setting.model if symbolic else setting.model, self.tuning(setting), "FLOPs")
        plan = None if tuning is None else tuning.symbolic if symbolic else tuning.plan
        return run_tree(setting.model, run, plan)

    def tuning(self, setting: Setting) -> Training | None:
        """Return the plan of what is trained of the model, where that is not all of it. Raises InvalidModel."""
        plan, plain = setting.training, Training()
        if plan is not None:
            check_adapters(plan)
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

    def largest(self, name: str) -> int | None:
        """The largest size of this name that fits on the card, as the verdict tells it; None where it tells none."""
        sizes = _fit(self._memory(self.setting)).sizes
        return sizes[name].exact if name in sizes else None

    def _memory(self, setting: Setting) -> Report:
        if isinstance(setting.model, Transformer):
            EFFORT.spend(OF_CLASSIC)
        training = setting.training if setting.run.training else None
        run = setting.run if setting.run.training or setting.serving is not None else None
        serving, weights = setting.serving, self.weights
        if self.card:
            if self.peaks is None or self.peaks.model is not setting.model:
                self.peaks = Peaks(setting.model)
            within, known = self.card.replace("_", "-"), self.peaks
            return memory_within(
                setting.model,
                of_card(within),
                run,
                self.conventions,
                training=training,
                serving=serving,
                weights=weights,
                peaks=known,
            )
        found = memory_of(setting.model, run, self.conventions, training=training, serving=serving, weights=weights)
        assert found.answer if serving is not None else found.whole  # what cannot be counted is refused here
        return found


def _fitting(report: Report) -> int:
    """Bytes of the card that may be allocated, so that it fits; below those of a run that does not, by the verdict."""
    fit = _fit(report)
    return fit.room if fit.fits else min(fit.room, report.answer - 1)


def _fit(report: Report) -> Fit:
    assert isinstance(report, Memory)
    fit = report.judge
    assert isinstance(fit, Fit)
    return fit


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
