"""What is solved for: a size of the model or of what it runs, its letter, and the value that it has now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.core.polynomial import symbol
from tfcalc.errors import InvalidModel, TfcalcError, UsageError, nearest
from tfcalc.footprint.plans import Serving, Training
from tfcalc.printable import quoted
from tfcalc.symbols import with_symbols
from tfcalc.workload import Workload
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.core.number import Num
    from tfcalc.model import Model, Sized

TOKENS = "tokens"
"""Of a whole training run."""
LETTER_OF_TOKENS = "D"
OTHER_NAMES = {"vocab": "vocab_size", "vocabulary": "vocab_size", "sequence": "seq_len", "length": "seq_len"}
IN_SERVING = {"batch_size": "concurrency", "seq_len": "context", "cached": "context"}
UNIT = {"batch_size": "sequences", "seq_len": "tokens", "context": "tokens", "cached": "tokens", TOKENS: "tokens"}


class Setting(NamedTuple):
    """A model with all that is asked about it: what it runs, how it is trained or served, on how many tokens."""

    model: Model
    run: Workload
    training: Training | None = None
    serving: Serving | None = None
    tokens: int | None = None

    def at(self, unknown: Unknown, size: int) -> Setting:
        """The same with another size."""
        match unknown.owner:
            case "model":
                return self._replace(model=self.model.replaced(**{unknown.name: size}))
            case "run":
                return self._replace(run=self.run.replaced(**{unknown.name: size}))
            case "training":
                return self._replace(training=(self.training or Training()).replaced(**{unknown.name: size}))
            case "serving":
                return self._replace(serving=(self.serving or Serving()).replaced(**{unknown.name: size}))
            case _:
                return self._replace(tokens=size)


class Unknown(NamedTuple):
    """What is solved for: the ``word`` that was given, the field's ``name``, its ``letter``, and whose field it is.

    ``value`` is what it is now, where it has a value.
    """

    word: str
    name: str
    letter: str
    owner: str
    value: int | None = None

    def symbolic(self, model: Model) -> Model:
        """A model with letters for its sizes, with this one's letter for it."""
        present = model.replaced(**{self.name: 1 if self.value is None else self.value})
        return with_symbols(present).replaced(**{self.name: symbol(self.letter)})


def unknown(word: str, setting: Setting) -> Unknown:
    """The size that a word means. Raises UsageError with the nearest one, or where it has no effect here."""
    name = OTHER_NAMES.get(word, word).replace("-", "_")
    if name == TOKENS:
        if not setting.run.training:
            raise UsageError("tokens are those of a training run", "add --train")
        return Unknown(word, TOKENS, LETTER_OF_TOKENS, TOKENS, setting.tokens)
    for owner, described in _owners(setting):
        field = words(described).get(name)
        if field is None:
            continue
        if owner == "run" and setting.serving is not None:
            remedy = f"solve for {IN_SERVING[field]}" if field in IN_SERVING else "leave out --serve"
            raise UsageError(f"{word} has no effect with --serve", remedy)
        if owner == "training" and not setting.run.training:
            raise UsageError(f"{word} is a size of a training step", "add --train")
        if owner == "serving" and setting.serving is None:
            raise UsageError(f"{word} is a size of serving", "add --serve")
        value = described.values().get(described.dimensions()[field].symbol)
        return Unknown(word, field, described.dimensions()[field].symbol, owner, _whole(value))
    return _of_model(word, name, setting)


def settled(unknowns: Iterable[Unknown], setting: Setting) -> tuple[tuple[Unknown, ...], Setting]:
    """The same where a size to solve for fits no such model as it is, with one that does in its place."""
    found = []
    for each in unknowns:
        if each.owner == "model" and (start := _start(each, setting)) is not None:
            each, setting = each._replace(value=start), setting.at(each, start)
        found.append(each)
    return tuple(found), setting


def _start(one: Unknown, setting: Setting) -> int | None:
    """A size that fits near the one that it has, which does not; None where that does, or none was found."""
    now = one.value or 1
    others = sorted(
        {size for size in setting.model.values().values() if isinstance(size, int) and size < MOST_MULTIPLE}
    )
    near = [now, *(-(-now // size) * size for size in others), *others]
    for size in dict.fromkeys(near):
        try:
            other = setting.at(one, size)
            other.model.check(other.run)
            other.model.tree(other.run)
        except InvalidModel:
            continue
        return None if size == one.value else size
    return None


MOST_MULTIPLE = 10**6


def _owners(setting: Setting) -> list[tuple[str, Sized]]:
    run = setting.run.replaced(cached=setting.run.seq_len) if setting.run.decoding else setting.run
    first: list[tuple[str, Sized]] = [("run", run)]
    if setting.serving is not None:
        first = [("serving", setting.serving), *first]
    training = setting.training or Training()
    others: list[tuple[str, Sized]] = [("training", training), ("serving", setting.serving or Serving())]
    return [*first, *(each for each in others if each not in first)]


def words(described: Sized) -> dict[str, str]:
    """The fields by all their names: the field's own, its options without dashes."""
    found: dict[str, str] = {}
    for field, known in described.dimensions().items():
        flags = (flag.removeprefix("--").replace("-", "_") for flag in known.flags)
        for called in (field, *described.also_called(field), *flags):
            found.setdefault(called, field)
    if isinstance(described, Workload):
        found["context"] = "cached" if described.decoding else "seq_len"
    return found


def _of_model(word: str, name: str, setting: Setting) -> Unknown:
    model = setting.model
    own, classic = words(model), words(Transformer())
    letters = {known.symbol: field for field, known in model.dimensions().items()}
    run_letters = {known.symbol: field for field, known in setting.run.dimensions().items()}
    if name not in own and name not in classic and name in run_letters:
        return unknown(run_letters[name], setting)._replace(word=word)
    # tfcalc's own names first: n_layers is that of both stacks, where a config has a name for each
    field = name if name in model.dimensions() else classic.get(name) or own.get(name) or letters.get(name)
    if field is None:
        known = [*own, *classic, *words(setting.run), TOKENS, *words(Training()), *words(Serving())]
        raise UsageError(f"{quoted(word)} is no size to solve for", nearest(name, known))
    try:
        places = [path for path in model.places(field) if path in model.dimensions()]
    except TfcalcError as error:
        raise UsageError(f"cannot solve for {word}: {error.message}", error.hint) from None
    sizes = [_value_of(model, path) for path in places]
    letter = model.dimensions()[places[0]].symbol if len(places) == 1 else Transformer().dimensions()[field].symbol
    same = sizes[0] if sizes and all(size == sizes[0] for size in sizes) else None
    return Unknown(word, field, letter, "model", same)


def _value_of(model: Model, field: str) -> int | None:
    if isinstance(model, Transformer):
        return (
            _whole(model.size(field)) if getattr(model, field) or field in {**model.implied, **model.assumed} else None
        )
    return _whole(model.values().get(model.dimensions()[field].symbol))


def _whole(value: Num | None) -> int | None:
    return value if isinstance(value, int) else None
