"""The number that a concept stands for, for those who ask in Python."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import Field, fields, replace
from typing import TYPE_CHECKING, Any

from tfcalc.answers.in_words import SERVE, SHORT, in_words
from tfcalc.answers.question import Question, number_path
from tfcalc.conventions import Conventions
from tfcalc.dimensions import Choice, Dimension, Text, facet
from tfcalc.errors import UsageError
from tfcalc.plans import Serving, Training
from tfcalc.report.number import open_answer
from tfcalc.units import parse_count
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tfcalc.model import Model
    from tfcalc.report.concepts import Concept
    from tfcalc.report.derivation import Derivation
    from tfcalc.report.explanation import Explanation

OF_OTHERS = ("ranks", "serve", "train")
"""Questions whose numbers have no plain function of a model."""


def of_concept(
    concept: Concept, model: Model | str | None, part: Callable[..., Explanation]
) -> Explanation | Derivation:
    """Open the number of a concept, of this model or the concept's own; ``part`` opens that of a part.

    Raises UsageError for a concept that has no number, that this model has nothing of, or that only the command line
    opens.
    """
    if concept.refused:
        raise UsageError(f"{concept.name}: {concept.refused}", concept.instead.format(""))
    on_the_line = f"tfcalc explain '{concept.name}' on the command line opens it"
    target, *options = shlex.split(concept.opens)
    words = _words(options)
    if words is None or target.partition(".")[0] in OF_OTHERS:
        raise UsageError(f"{concept.name} is no number of params, flops, memory or overview", on_the_line)
    of, count = words.pop("of", "params"), words.pop("count", None)
    conventions = Conventions(count=count) if count else Conventions()
    adapters = {word: words.pop(word) for word in ("lora",) if of == "trainable" and word in words}
    asked = in_words(concept.model if model is None else model, None, None, None, words)
    training = Training(**adapters) if adapters else asked.training
    path = number_path(target, of)
    found: Explanation | Derivation
    if path is not None:
        name, keys = path
        question = Question(name, asked.model, asked.workload, conventions, training, asked.serving)
        found = open_answer(question.answer(keys), keys)
    else:
        found = part(target, asked.model, of, asked.workload, conventions, training=training, serving=asked.serving)
    if concept.needs and not found.has(concept.needs):
        raise UsageError(f"this model has no {concept.name}", f"leave the model out: it is told of {concept.model}")
    return replace(found, known_as=concept._replace(further=tuple(one.format("") for one in concept.further)))


def _words(options: Sequence[str]) -> dict[str, Any] | None:
    """The options as keywords of a call; None where one of them is of the command line alone."""
    known = dict(_flags())
    found: dict[str, Any] = {}
    left = list(options)
    while left:
        flag = left.pop(0)
        name = flag.removeprefix("--")
        if name in ("train", SERVE, *SHORT):
            found[name] = True
        elif name in ("of", "count"):
            found[name] = left.pop(0)
        elif flag not in known:
            return None
        else:
            item, kind = known[flag]
            switch = isinstance(kind, Choice) and not kind.known
            found[item.name] = True if switch else _value(kind, left.pop(0))
    return found


def _value(kind: Dimension | Choice | Text, text: str) -> int | str:
    return parse_count(text) if isinstance(kind, Dimension) else text


def _flags() -> Iterator[tuple[str, tuple[Field[Any], Dimension | Choice | Text]]]:
    """The fields of a workload and of plans by their options."""
    described: Mapping[str, Any] = {"workload": Workload, "training": Training, "serving": Serving}
    for kind in described.values():
        for item in fields(kind):
            known = facet(item)
            for flag in known.flags if known is not None else ():
                for one in flag.split("/"):
                    yield one, (item, known)  # type: ignore[misc]  # it is not None, as it has flags
