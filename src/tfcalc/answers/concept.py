"""The number that a concept stands for, for those who ask in Python."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import Field, fields, replace
from importlib import import_module
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.common import model_of
from tfcalc.answers.in_words import SERVE, SHORT, in_words
from tfcalc.answers.question import Question, number_path
from tfcalc.dimensions import Choice, Dimension, Text, facet
from tfcalc.errors import UsageError
from tfcalc.placed.layout import Layout
from tfcalc.plans import Serving, Training
from tfcalc.report.number import open_answer
from tfcalc.units import parse_count
from tfcalc.workload import Conventions, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tfcalc.model import Model
    from tfcalc.report.concepts import Concept
    from tfcalc.report.declared import Answer
    from tfcalc.report.derivation import Derivation
    from tfcalc.report.explanation import Explanation

Said = dict[str, str]
"""What a command line says beside the model: the value of each option, "" of a switch; and that of its CONDITION."""
CONDITION = "condition"


def _asked(module: str, name: str, *arguments: Any, **words: Any) -> Answer:
    """The answer of a function, whose file is loaded now: most concepts need none of these."""
    found: Answer = getattr(import_module(f"tfcalc.answers.{module}"), name)(*arguments, **words)
    return found


def _step(model: Model, said: Said) -> Workload | None:
    """The forward pass, or the training step, that is said, of the usual length."""
    words = {"recompute": said["checkpointing"]} if "checkpointing" in said else {}
    return in_words(model, None, None, None, {"train": "train" in said, **words}).workload


def _utilisation(model: Model, said: Said) -> Answer:
    machines: Any = _asked("utilisation", "machines_of", said["gpu"])
    return _asked("utilisation", "utilisation", model, float(said["tokens-per-second"]), machines, _step(model, said))


def _conventions(model: Model, said: Said) -> Answer:
    return _asked("flops_by_convention", "compare_conventions", model, _step(model, said))


def _served(model: Model, said: Said) -> Answer:
    tokens, _, share = said.get("speculate", "0@0").partition("@")
    return _asked("serve", "serve", model, said["gpu"], draft=(int(tokens), float(share)))


def _trained(model: Model, said: Said) -> Answer:
    words = {"fsdp": True} if "fsdp" in said else {}
    asked = in_words(model, None, None, None, {"train": True, "grad_accum": int(said.get("grad-accum", 1)), **words})
    tokens = parse_count(said["tokens"])
    return _asked("train", "train", model, tokens, asked.workload, asked.training, gpu=said["gpu"])


def _on_ranks(model: Model, said: Said) -> Answer:
    tp, pp, ep, dp, accumulated = (int(said.get(name, 1)) for name in ("tp", "pp", "ep", "dp", "grad-accum"))
    layout = Layout(tp=tp, pp=pp, ep=ep, dp=dp)
    return _asked("ranks", "ranks", model, layout, training=Training(grad_accum=accumulated))


def _solved(model: Model, said: Said) -> Answer:
    found: Answer = import_module("tfcalc.solving.solve").solve(said[CONDITION], said["for"], model)
    return found


OF_OTHERS: Mapping[tuple[str, str], Callable[[Model, Said], Answer]] = {
    ("flops", "--mfu"): _utilisation,
    ("flops", "compared"): _conventions,
    ("serve", ""): _served,
    ("train", ""): _trained,
    ("ranks", ""): _on_ranks,
    ("solve", ""): _solved,
}
"""Questions whose arguments are no workload and no plan alone, by the command and, if need be, an option or a key."""


def of_concept(
    concept: Concept, model: Model | str | None, part: Callable[..., Explanation]
) -> Explanation | Derivation:
    """Open the number of a concept, of this model or the concept's own; ``part`` opens that of a part.

    Raises UsageError for a concept that has no number, or that this model has nothing of.
    """
    if concept.refused:
        raise UsageError(f"{concept.name}: {concept.refused}", concept.instead.format(""))
    target, *options = shlex.split(concept.opens)
    name, *rest = target.split(".")
    found: Explanation | Derivation
    places = ((name, each) for each in (*rest[:1], *options, ""))
    if asks := next((OF_OTHERS[place] for place in places if place in OF_OTHERS), None):
        found = open_answer(asks(model_of(concept.model if model is None else model), _said(options)), rest)
    else:
        found = _of_quantity(concept, model, target, _words(options), part)
    if concept.needs and not found.has(concept.needs):
        raise UsageError(f"this model has no {concept.name}", f"leave the model out: it is told of {concept.model}")
    return replace(found, known_as=concept._replace(further=tuple(one.format("") for one in concept.further)))


def _of_quantity(
    concept: Concept,
    model: Model | str | None,
    target: str,
    words: dict[str, Any],
    part: Callable[..., Explanation],
) -> Explanation | Derivation:
    """A number of params, flops, memory or overview, or a part's."""
    of, count = words.pop("of", "params"), words.pop("count", None)
    conventions = Conventions(count=count) if count else Conventions()
    adapters = {word: words.pop(word) for word in ("lora",) if of == "trainable" and word in words}
    asked = in_words(concept.model if model is None else model, None, None, None, words)
    training = Training(**adapters) if adapters else asked.training
    path = number_path(target, of)
    if path is not None:
        name, keys = path
        question = Question(name, asked.model, asked.workload, conventions, training, asked.serving)
        return open_answer(question.answer(keys), keys)
    return part(target, asked.model, of, asked.workload, conventions, training=training, serving=asked.serving)


def _said(options: Sequence[str]) -> Said:
    """The values of options, and of the condition before them.

    >>> _said(["--train", "--mfu", "--gpu", "h100"]), _said(["params = 1e9", "--for", "layers"])
    ({'train': '', 'mfu': '', 'gpu': 'h100'}, {'condition': 'params = 1e9', 'for': 'layers'})
    """
    first = {CONDITION: options[0]} if options and not options[0].startswith("--") else {}
    return first | {
        option.removeprefix("--"): "" if following.startswith("--") else following
        for option, following in zip_longest(options, options[1:], fillvalue="--")
        if option.startswith("--")
    }


def _words(options: Sequence[str]) -> dict[str, Any]:
    """The options as keywords of a call."""
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
