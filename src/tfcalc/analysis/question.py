"""Questions about one model, whose numbers other answers have, too; and those numbers opened."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tfcalc.analysis.common import default_run
from tfcalc.analysis.targets import TARGETS
from tfcalc.conventions import Conventions
from tfcalc.report.paths import COMMANDS, NUMBERS, dotted, reach, split

if TYPE_CHECKING:
    from tfcalc.analysis.asked import Asked
    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training
    from tfcalc.report import Report
    from tfcalc.report.derivation import Derivation
    from tfcalc.report.explanation import Explanation
    from tfcalc.workload import Workload


QUANTITIES = {"params": "params", "time": "flops", "trainable": "params", "flops": "flops", "memory": "memory"}
"""The command that answers each quantity, for keys that several commands have."""


def number_path(target: str, of: str = "") -> tuple[str, tuple[str, ...]] | None:
    """The command and the keys of a number, where the target is the path of one; None of a part.

    ``of`` a quantity, where several commands have such a key. Raises UsageError for a path without a key.

    >>> number_path("flops_per_token"), number_path("memory.peak_bytes"), number_path("transformer.h.attn")
    (('flops', ('flops_per_token',)), ('memory', ('peak_bytes',)), None)
    """
    target = dotted(target)
    first = target.partition(".")[0]
    known = {key: name for name in reversed(NUMBERS) for key in NUMBERS[name]}
    if target in (*TARGETS, *COMMANDS) or first not in (*known, *COMMANDS, "components", "conventions"):
        return None
    named, keys = split(target)
    if named == of == "memory" and keys[0] not in _keys(named):
        return None  # a term by its path
    quantity = QUANTITIES.get(of, "")
    if named is None and quantity and (first in NUMBERS[quantity] or first not in known):
        named = quantity
    return named or known.get(first, "params"), keys


def _keys(name: str) -> Collection[str]:
    """The keys at the top of a command's answer."""
    from tfcalc.schemas import schema

    return set(schema(name)["properties"])


@dataclass(frozen=True, slots=True)
class Question:
    """What a command is asked about one model: ``params``, ``flops``, ``memory`` or ``overview``. It is answered once.

    ``called`` is what the model is called by whoever asks; ``weights`` a format of the model at rest.
    """

    command: str
    model: Model
    workload: Workload | None = None
    conventions: Conventions = field(default_factory=Conventions)
    training: Training | None = None
    serving: Serving | None = None
    weights: str | None = None
    called: str = ""
    answers: dict[int | None, Asked] = field(default_factory=dict)

    def number(self, *keys: str) -> Number:
        """The number at these keys of its answer."""
        return Number(self, keys)

    def _said(self, depth: int | None) -> dict[str, object]:
        """What the command prints."""
        if self.command == "overview":
            from tfcalc.analysis.overview import overview

            return overview(self.model, self.workload, self.conventions, asked=self.called).to_dict()
        return self.report(depth).to_dict()

    def report(self, depth: int | None = None) -> Report:
        """The answer about parameters, FLOPs or memory, with so many levels. Raises InvalidModel."""
        if self.command == "params":
            from tfcalc.analysis.params import params

            return params(self.model, depth=depth, training=self.training)
        if self.command == "flops":
            from tfcalc.analysis.flops import flops

            return flops(self.model, self.workload, self.conventions, depth=depth, training=self.training)
        from tfcalc.analysis.memory import memory

        return memory(
            self.model,
            self.workload,
            self.conventions,
            training=self.training,
            serving=self.serving,
            weights=self.weights,
            depth=depth,
        )

    def asked(self, prefix: str = "", depth: int | None = None) -> Asked:
        """With its answer, whose numbers are called by paths that begin with ``prefix``."""
        if depth not in self.answers:
            self.answers[depth] = self._asked(depth)
        return replace(self.answers[depth], prefix=prefix)

    def _asked(self, depth: int | None) -> Asked:
        from tfcalc.analysis.asked import Asked

        said = self._said(depth)
        return Asked(
            self.command,
            said,
            lambda keys: reach(said, keys),
            self.model,
            self.workload or default_run(self.model),
            self.conventions,
            self.training,
            self.serving,
            {},
            self.called,
        )


@dataclass(frozen=True, slots=True)
class Number:
    """A number that is the answer to a question: the one at these ``keys``."""

    question: Question
    keys: tuple[str, ...]

    def opened(self, prefix: str, further: tuple[str, ...]) -> Explanation | Derivation:
        """As in the answer itself; ``further`` keys are those of that answer. Raises UsageError."""
        from tfcalc.analysis.opened_numbers import open_number
        from tfcalc.report.derivation import Derivation

        keys = further or self.keys
        asked = self.question.asked(prefix, len(keys) if keys[0] == "components" else None)
        found = open_number(keys, asked)
        command = self.question.command
        said = f"{'.'.join(keys)} of: {self.question.called or self.question.model.summary} ({command})"
        path = asked.path(*further)
        if isinstance(found, Derivation):
            return replace(found, path=path, note="; ".join(filter(None, (found.note, said))))
        return replace(found, target=path, notes=(said, *found.notes))


def open_question(path: tuple[str, tuple[str, ...]], question: Question) -> Explanation | Derivation:
    """The number of this command's answer, at these keys. Raises UsageError where there is none."""
    from tfcalc.analysis.opened_numbers import open_number

    keys = path[1]
    return open_number(keys, question.asked(depth=len(keys) if keys[0] == "components" else None))
