"""A number of an answer opened, by its path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tfcalc.errors import UsageError
from tfcalc.printable import quoted
from tfcalc.report.derivation import Derivation, Term
from tfcalc.report.opening import Constant, Named, Rule, Same, Stated, Way, given
from tfcalc.report.paths import Step, locate, nearest_key

if TYPE_CHECKING:
    from tfcalc.report.explanation import Explanation
    from tfcalc.report.opening import Number, Openable

NOTHING: Mapping[str, str] = {}


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
    """An answer, of which many numbers can be opened; the arguments are those of :func:`open_answer`."""

    def __init__(self, answer: Openable, by: Mapping[str, str] = NOTHING) -> None:
        self.said, self.opener, self.by = answer.to_dict(), answer.opener(), by

    @property
    def command(self) -> str:
        """The command that gives the answer."""
        return str(self.said["command"])

    def open(self, keys: Sequence[str]) -> Explanation | Derivation:
        """The number at these keys. Raises as :func:`open_answer`."""
        place = locate(self.said, keys)
        value = number(keys, place.value)
        way = self.opener.way(place.steps) or self._common(place.steps)
        while isinstance(way, Same):
            same = locate(self.said, way.path.split("."))
            way = self.opener.way(same.steps) or self._common(same.steps)
        if way is None:
            raise UsageError(f"{'.'.join(keys)} cannot be opened", "open one of the numbers beside it")
        path = ".".join(map(str, (self.command, *place.steps)))
        if not isinstance(way, Rule | Stated):
            return way.opened(path, place.left)
        if place.left:
            raise UsageError(f"{quoted(place.left[0])} is not in {path}, which has no parts", "leave it out")
        return self._derived(path, place.steps, value, way)

    def _common(self, steps: tuple[Step, ...]) -> Way | None:
        """What every answer has."""
        if steps == ("schema_version",):
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

    def _derived(self, path: str, steps: tuple[Step, ...], value: Number, way: Rule | Stated) -> Derivation:
        terms, others, formula, substituted = (), (), "", ""  # type: tuple[Term, ...], tuple[Term, ...], str, str
        if isinstance(way, Stated):
            how, note, formula = way
        else:
            how, note = way.how, way.note
            terms, others = (tuple(map(self._term, names)) for names in (way.terms, way.others))
            if not way.gives(value, [each.value for each in terms], [each.value for each in others]):
                raise AssertionError(f"{path} is {value}, which {way} does not make")
            formula = way.written([_short(each) for each in terms], [_short(each) for each in others])
            substituted = way.written([str(each.value) for each in terms], [str(each.value) for each in others])
        model = self._model(steps)
        return Derivation(
            heading=self.opener.heading,
            path=path,
            of=self.command,
            value=value,
            how=how,
            terms=(*terms, *others),
            formula=formula,
            substituted=substituted,
            note=note,
            model=dict(model) if isinstance(model, Mapping) else {},
            conventions={},
            legend={},
        )

    def _term(self, name: Named) -> Term:
        if isinstance(name, Constant):
            return Term("", name.value, name.what)
        place = locate(self.said, name.split("."))
        return Term(f"{self.command}.{name}", number(name.split("."), place.value))

    def _model(self, steps: tuple[Step, ...]) -> object:
        """The model that the number is of: the nearest around it."""
        for end in range(len(steps), -1, -1):
            around = locate(self.said, tuple(map(str, steps[:end]))).value
            if isinstance(around, Mapping) and isinstance(around.get("model"), Mapping):
                return around["model"]
        return {}


def number(keys: Sequence[str], value: object) -> Number:
    """The number that these keys lead to. Raises UsageError where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        if isinstance(value, Mapping | list | tuple):
            raise UsageError(f"{'.'.join(keys)} is no number but has parts", nearest_key(value))
        raise UsageError(f"{'.'.join(keys)} is no number but {quoted(value)}", "name a key with a number")
    return value


def _short(term: Term) -> str:
    """The end of its path; of a constant the number."""
    return term.path.split(".", 1)[1] if term.path else str(term.value)
