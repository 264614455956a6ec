"""The size to solve for: its field, its letter, the value it has now, and the values it may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tfcalc.core.number import divisors
from tfcalc.core.polynomial import symbol
from tfcalc.dimensions import LARGEST
from tfcalc.errors import InvalidModel, TfcalcError, UsageError, nearest
from tfcalc.model import with_symbols
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import Serving, Training
from tfcalc.printable import quoted
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


class Setting(NamedTuple):
    """A model with all that is asked about it: what it runs, how it is trained or served, on how many tokens."""

    model: Model
    run: Workload
    training: Training | None = None
    serving: Serving | None = None
    tokens: int | None = None

    def at(self, unknown: UnknownSize, size: int) -> Setting:
        """Return the setting with another size."""
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


class UnknownSize(NamedTuple):
    """The size to solve for: the ``word`` that was given, the field's ``name``, its ``letter``, and whose field it is.

    ``value`` is what it is now, where it has a value.
    """

    word: str
    name: str
    letter: str
    owner: str
    value: int | None = None

    def symbolic(self, model: Model) -> Model:
        """A model with letters for its sizes, with this one's letter for it."""
        present = with_symbols(model.replaced(**{self.name: self.value or 1}))
        return present.replaced(**{self.name: symbol(self.letter)})


def unknown_size(word: str, setting: Setting) -> UnknownSize:
    """The size that a word means. Raises UsageError with the nearest one, or where it has no effect here."""
    name = OTHER_NAMES.get(word, word).replace("-", "_")
    if name == TOKENS:
        if not setting.run.training:
            raise UsageError("tokens are those of a training run", "add --train")
        return UnknownSize(word, TOKENS, LETTER_OF_TOKENS, TOKENS, setting.tokens)
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
        return UnknownSize(word, field, described.dimensions()[field].symbol, owner, _whole(value))
    return _of_model(word, name, setting)


def with_feasible_start(unknown: UnknownSize, setting: Setting) -> tuple[UnknownSize, Setting]:
    """Replace a value that fits no such model by one near it that does."""
    if unknown.owner == "model" and (start := _start(unknown, setting)) is not None:
        return unknown._replace(value=start), setting.at(unknown, start)
    return unknown, setting


def _start(one: UnknownSize, setting: Setting) -> int | None:
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


def _of_model(word: str, name: str, setting: Setting) -> UnknownSize:
    model = setting.model
    own, classic = words(model), words(Transformer())
    letters = {known.symbol: field for field, known in model.dimensions().items()}
    run_letters = {known.symbol: field for field, known in setting.run.dimensions().items()}
    if name not in own and name not in classic and name in run_letters:
        return unknown_size(run_letters[name], setting)._replace(word=word)
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
    return UnknownSize(word, field, letter, "model", same)


def _value_of(model: Model, field: str) -> int | None:
    if isinstance(model, Transformer):
        return (
            _whole(model.size(field)) if getattr(model, field) or field in {**model.implied, **model.assumed} else None
        )
    return _whole(model.values().get(model.dimensions()[field].symbol))


def _whole(value: Num | None) -> int | None:
    return value if isinstance(value, int) else None


class Domain(NamedTuple):
    """The sizes k·``step`` for k from ``first`` to ``last``; or those ``listed``, in order, where k counts them.

    ``why`` says why not all whole numbers are among them.
    """

    step: int = 1
    first: int = 1
    last: int = LARGEST
    listed: tuple[int, ...] = ()
    why: str = ""

    def size(self, k: int) -> int:
        """The size of this place."""
        return self.listed[k - 1] if self.listed else k * self.step

    def place(self, size: int) -> int:
        """Place of this size, or of the next below it."""
        if self.listed:
            return max(sum(each <= size for each in self.listed), 1)
        return max(min(size // self.step, self.last), self.first)


FURTHER = (1, 2, 3, 5, 13, 1009)
"""Steps beyond the value of now that are tried; the last is beyond what could be divided by it."""


def domain(now: int | None, fits: Callable[[int], str], related: Iterable[int], most: int = LARGEST) -> Domain:
    """The sizes that fit, found from the value that a size has now: multiples of the smallest step that fits.

    ``fits`` says why a size does not, and nothing where it does. Where no multiples fit beyond the value, but those
    below it, there is a last one: layers of which a list says what each is. Else only divisors of ``related`` sizes can
    fit: they are listed.
    """
    if now is None or now < 1:
        return Domain(last=most)
    why = ""
    for step in divisors(now):
        reasons = [reason for further in FURTHER if (reason := fits(now + further * step))][:1]
        if not reasons:
            return Domain(step, _first(step, now, fits), most // step, why=why)
        why = why or reasons[0]
    whole = {*related, now}
    below = [now - less for less in FURTHER if less < now]
    if any(all(number % size for number in whole) for size in below) and not any(map(fits, below)):
        return Domain(1, _first(1, now, fits), _last(now, fits), why=why)
    listed = sorted({size for number in whole for size in divisors(number) if not fits(size)})
    return Domain(1, 1, len(listed), tuple(listed), why) if listed else Domain(1, 1, 1, (now,), why)


def _last(now: int, fits: Callable[[int], str]) -> int:
    """The last size that fits, of those from the value that a size has now on."""
    low, high = now, now + FURTHER[-1]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return low


def _first(step: int, now: int, fits: Callable[[int], str]) -> int:
    """The first multiple that fits, of those up to the value that a size has now."""
    low, high = 0, now // step
    if not fits(step):
        return 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle * step) else (low, middle)
    return high
