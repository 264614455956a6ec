"""A number of an answer opened, by its path: what it is the sum of, what it follows from, or who gave it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tfcalc.errors import UsageError
from tfcalc.printable import quoted
from tfcalc.report.derivation import Derivation, DerivationTerm
from tfcalc.report.opening import Constant, Named, Rule, Same, Stated, Way, given
from tfcalc.report.paths import ABOUT_ONE_MODEL, VERSION, Place, Step, locate, nearest_key

if TYPE_CHECKING:
    from tfcalc.report.declared import Answer
    from tfcalc.report.explanation import Explanation
    from tfcalc.report.opening import Elsewhere, Number

NOTHING: Mapping[str, str] = {}
ZERO = given("0: the answer has nothing of it")


@runtime_checkable
class Openable(Protocol):
    """An answer whose numbers can be opened."""

    def to_dict(self) -> Mapping[str, object]:
        """The answer for programs."""
        ...

    @property
    def declared(self) -> Answer:
        """The answer whose keys these are: itself, or of a verdict the report."""
        ...


def entries_of(answer: Any) -> Mapping[str, Any]:
    """The JSON object of an answer; an entry is found when it is read, if the answer declares each by itself."""
    found: Mapping[str, Any] = getattr(answer, "entries", answer.to_dict)()
    return found


def open_answer(answer: Openable, keys: Sequence[str], by: Mapping[str, str] = NOTHING) -> Explanation | Derivation:
    """The number of an ``answer`` at these keys of its JSON: what it is the sum of, or follows from, or who gave it.

    Args:
        answer: what a question of tfcalc returned.
        keys: they lead to the number, or on into the answer that lies behind it.
        by: by which option each value was given, by the option's name.

    Raises:
        UsageError: there is no number at these keys; the nearest are told.
    """
    return Opened(answer, by).open(keys)


class Opened:
    """An answer, of which many numbers can be opened; the arguments are those of :func:`open_answer`.

    Its numbers are called by paths that begin with ``prefix``: the command, if it is no number of another answer.
    """

    def __init__(self, answer: Openable, by: Mapping[str, str] = NOTHING, prefix: str = "") -> None:
        self.said = entries_of(answer)
        self.answer, self.by, self.prefix = answer.declared, by, prefix

    @property
    def command(self) -> str:
        """The command that gives the answer."""
        return str(self.said["command"])

    @property
    def _of_one_model(self) -> bool:
        """Return whether it answers about one model: its numbers are told with its definitions and the constants."""
        return self.command in ABOUT_ONE_MODEL

    def open(self, keys: Sequence[str]) -> Explanation | Derivation:
        """The number at these keys. Raises as :func:`open_answer`."""
        self.answer.find_breakdown()
        place = locate(self.said, keys)
        why = getattr(self.answer, "why_null", None)
        value = number(keys, place.value, "" if why is None or place.value is not None else why(keys))
        names = tuple(keys[: len(keys) - len(place.left)])
        for way in self._ways(place.steps):
            if (found := self._told(way, names, place, value)) is not None:
                return found
        raise UsageError(f"{'.'.join(keys)} cannot be opened", "open one of the numbers beside it")

    def _ways(self, steps: tuple[Step, ...]) -> Iterator[Rule | Stated | Elsewhere]:
        """Yield what may be said of the number at these steps; a way that several share (Same) is followed."""
        for way in (*self.answer.origins(steps), self._common(steps)):
            if isinstance(way, Same):
                yield from self._ways(locate(self.said, way.path.split(".")).steps)
            elif way is not None:
                yield way
        yield ZERO

    def _told(
        self, way: Rule | Stated | Elsewhere, names: tuple[str, ...], place: Place, value: Number
    ) -> Explanation | Derivation | None:
        """Return what this way says of the number; None where it does not make it."""
        path = self._path(*names)
        if value == 0 and hasattr(way, "sums"):
            return None
        if not isinstance(way, Rule | Stated):
            found: Explanation | Derivation = way.opened(path, place.left)
            return found if place.left or found.answer == value or not hasattr(way, "sums") else None
        if place.left:
            raise UsageError(f"{quoted(place.left[0])} is not in {path}, which has no parts", "leave it out")
        if way is ZERO and value != 0:
            return None
        return self._derived(names, value, way) if isinstance(way, Rule) else self._stated(names, value, way)

    def _path(self, *keys: str) -> str:
        return ".".join((self.prefix or self.command, *keys))

    def _common(self, steps: tuple[Step, ...]) -> Way | None:
        """Return the origin of a number that every answer has: the schema version, the model's, or a convention."""
        if steps == (VERSION,):
            return given("the format of the JSON: within one version keys are only added")
        for place, step in enumerate(steps):
            if step == "model":
                return self._of_model(steps[: place + 1], steps[place + 1 :])
            if step == "conventions":
                return self._given(str(steps[-1]), "the default, or what follows from other options")
        return None

    def _of_model(self, above: tuple[Step, ...], steps: tuple[Step, ...]) -> Way:
        described = locate(self.said, tuple(map(str, above))).value
        name = str(described.get("name") or "the model") if isinstance(described, Mapping) else "the model"
        key = ".".join(map(str, steps[1:]))
        match steps[0]:
            case "config":
                return given(f"given by the config of {name}: {key}")
            case "defaults":
                return given(f"the default of this model type, which the config of {name} leaves out: {key}")
            case "changed":
                return given(f"given in the place of what the config of {name} says: {key}")
        return self._given(str(steps[-1]), "the default of the option, or what follows from other sizes")

    def _given(self, name: str, otherwise: str) -> Way:
        return given(f"given: {self.by[name]}" if name in self.by else otherwise)

    def _derived(self, names: tuple[str, ...], value: Number, way: Rule) -> Derivation | None:
        """Return the derivation by a rule; None where it makes another number, or where the answer lacks some of it."""
        try:
            terms, others = (
                tuple(term for name in named for term in self._terms(name, names)) for named in (way.terms, way.others)
            )
        except UsageError:
            return None
        if not way.gives(value, [each.value for each in terms], [each.value for each in others]):
            return None
        return self._derivation(
            names,
            value,
            way.how,
            way.note,
            terms=(*terms, *others),
            formula=way.written([self._short(each) for each in terms], [self._short(each) for each in others]),
            substituted=way.written([str(each.value) for each in terms], [str(each.value) for each in others]),
        )

    def _stated(self, names: tuple[str, ...], value: Number, way: Stated) -> Derivation:
        return self._derivation(names, value, way.how, way.note, formula=way.formula)

    def _derivation(
        self,
        names: tuple[str, ...],
        value: Number,
        how: str,
        note: str,
        *,
        terms: tuple[DerivationTerm, ...] = (),
        formula: str = "",
        substituted: str = "",
    ) -> Derivation:
        model = self._model(locate(self.said, names).steps)
        conventions = self.said.get("conventions") if self._of_one_model else None
        return Derivation(
            heading=getattr(self.answer, "subject", self.answer.heading),
            path=self._path(*names),
            of=self.command,
            value=value,
            how=how,
            terms=terms,
            formula=formula,
            substituted=substituted,
            note=note,
            model=dict(model) if isinstance(model, Mapping) else {},
            conventions=dict(conventions) if isinstance(conventions, Mapping) else {},
        )

    def _terms(self, name: Named, names: tuple[str, ...]) -> Iterator[DerivationTerm]:
        """Yield what a name of a rule refers to: a key of the answer, beside the number, or of each part of a list."""
        if isinstance(name, Constant):
            yield DerivationTerm("", name.value, name.what)
            return
        path = ".".join((*names[:-1], name[1:])) if name.startswith(".") else name
        if "[]" in path:
            entries, _, key = path.partition("[].")
            for place, part in enumerate(self.said[entries]):
                yield DerivationTerm(self._path(entries, part.get("name", str(place)), key), part[key])
            return
        keys = path.split(".")
        yield DerivationTerm(self._path(path), number(keys, locate(self.said, keys).value))

    def _short(self, term: DerivationTerm) -> str:
        """The end of its path; of a constant the number."""
        return term.path.removeprefix(f"{self._path()}.") if term.path else str(term.value)

    def _model(self, steps: tuple[Step, ...]) -> object:
        """The model that the number is of: the nearest around it."""
        around: Any = self.said
        found: object = {}
        for step in (*steps, None):
            if isinstance(around, Mapping) and isinstance(around.get("model"), Mapping):
                found = around["model"]
            around = None if step is None else around[step]
        return found


def number(keys: Sequence[str], value: object, why: str = "") -> Number:
    """The number that these keys lead to. Raises UsageError where it is none; ``why`` it is null is known of some."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        if isinstance(value, Mapping | list | tuple):
            raise UsageError(f"{'.'.join(keys)} is no number but has parts", nearest_key(value))
        if value is None:
            raise UsageError(f"{'.'.join(keys)} is null: {why or 'nothing is known of it'}", "name a key with a number")
        raise UsageError(f"{'.'.join(keys)} is no number but {quoted(value)}", "name a key with a number")
    return value
