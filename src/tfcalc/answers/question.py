"""A question about one model, whose answer has the numbers that other answers are made of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, cast

from tfcalc.analysis.targets import TARGETS
from tfcalc.answers.metrics import EVERYWHERE, HEADLINES, having, numbers, split
from tfcalc.report.derivation import Derivation
from tfcalc.report.number import Opened
from tfcalc.report.paths import ABOUT_ONE_MODEL, dotted
from tfcalc.schemas import classes
from tfcalc.workload import Conventions

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training
    from tfcalc.report import Report
    from tfcalc.report.declared import Answer
    from tfcalc.report.explanation import Explanation
    from tfcalc.workload import Workload

QUANTITIES = {"params": "params", "time": "flops", "trainable": "params", "flops": "flops", "memory": "memory"}
"""The command that answers each quantity, for keys that several commands have."""


ANSWERS = {
    "params": "answers.params:params",
    "flops": "answers.flops:flops",
    "memory": "answers.memory:memory_of",
    "overview": "answers.overview:overview",
}
"""Functions that answer, each loaded when it is asked: that of memory brings the tape, which few questions need."""


def number_path(target: str, of: str = "") -> tuple[str, tuple[str, ...]] | None:
    """The command and the keys of a number, where the target is the path of one; None of a part.

    ``of`` a quantity, where several commands have such a key. Raises UsageError for a path without a key.

    >>> number_path("flops_per_token"), number_path("memory.peak_bytes"), number_path("transformer.h.attn")
    (('flops', ('flops_per_token',)), ('memory', ('peak_bytes',)), None)
    """
    target = dotted(target)
    first = target.partition(".")[0]
    alone = having(first)
    if target in (*TARGETS, *ABOUT_ONE_MODEL) or (
        alone is None and first not in (*ABOUT_ONE_MODEL, "components", "conventions")
    ):
        return None
    named, keys = split(target)
    if named == of == "memory" and keys[0] not in _keys(named):
        return None  # a term by its path
    quantity = QUANTITIES.get(of, "")
    if named is None and quantity and (alone is None or first in numbers(quantity)):
        named = quantity
    return named or alone or "params", keys


def _keys(name: str) -> Collection[str]:
    """The keys at the top of a command's answer."""
    return {"command", *EVERYWHERE, *(key for form in classes(name) for key in form.keys)}


def levels(keys: Sequence[str]) -> int | None:
    """Return how deep a breakdown has to be so that these keys lead into it; None for as deep as it is by itself."""
    return len(keys) if keys and keys[0] == "components" else None


@dataclass(frozen=True, slots=True)
class Question:
    """Question to a command about one model: ``params``, ``flops``, ``memory`` or ``overview``. It is answered once.

    ``called`` is the name of the model to whoever asks; ``weights`` a format of the model at rest.
    """

    command: str
    model: Model
    workload: Workload | None = None
    conventions: Conventions = field(default_factory=Conventions)
    training: Training | None = None
    serving: Serving | None = None
    weights: str | None = None
    called: str = ""
    answers: dict[int | None, Answer] = field(default_factory=dict)

    def number(self, *keys: str) -> AskedNumber:
        """Return the number at these keys of its answer; without any its headline, which an overview lacks."""
        return AskedNumber(self, keys or (HEADLINES[self.command].key,))

    def answer(self, keys: Sequence[str] = ()) -> Answer:
        """The answer, as deep as these keys lead into it. Raises InvalidModel and UsageError, as the command does."""
        depth = levels(keys)
        if depth not in self.answers:
            self.answers[depth] = self._answer(depth)
        return self.answers[depth]

    def report(self) -> Report:
        """The answer about parameters, FLOPs or memory. Raises as :meth:`answer`."""
        return cast("Report", self.answer())

    def _answer(self, depth: int | None) -> Answer:
        module, _, name = ANSWERS[self.command].partition(":")
        ask: Callable[..., Answer] = getattr(import_module(f"tfcalc.{module}"), name)
        asked = self.model, self.workload, self.conventions
        match self.command:
            case "overview":
                return ask(*asked, asked=self.called)
            case "params":
                return ask(self.model, depth=depth, training=self.training)
            case "flops":
                return ask(*asked, depth=depth, training=self.training)
            case _:
                plans = {"training": self.training, "serving": self.serving}
                return ask(*asked, **plans, weights=self.weights, depth=depth)


@dataclass(frozen=True, slots=True)
class AskedNumber:
    """A number that is the answer to a question: the one at these ``keys``."""

    question: Question
    keys: tuple[str, ...]

    def opened(self, prefix: str, further: tuple[str, ...]) -> Explanation | Derivation:
        """Open the number as in the answer itself; ``further`` keys are those of that answer. Raises UsageError."""
        keys = further or self.keys
        found = Opened(self.question.answer(keys), prefix=prefix).open(keys)
        command = self.question.command
        said = f"{'.'.join(keys)} of: {self.question.called or self.question.model.summary} ({command})"
        path = ".".join((prefix, *further))
        if isinstance(found, Derivation):
            return replace(found, path=path, note="; ".join(filter(None, (found.note, said))))
        return replace(found, target=path, notes=(said, *found.notes))
