"""Names of what ``explain``, ``check`` and ``formula`` open, as people call it, where that is no part of a model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfcalc.analysis.targets import OTHER_NAMES, letters
from tfcalc.cli.commands.plans import imply_mode
from tfcalc.errors import UnknownTarget, UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.concepts import near

if TYPE_CHECKING:
    from tfcalc.cli.settings import Settings


class Term(NamedTuple):
    """A term of memory by its own name, and the mode that has it where none was typed: ``train``, ``serve`` or rest."""

    name: str
    mode: str


TERMS = {
    **dict.fromkeys(("cache", "kv", "kvcache", "keyvaluecache"), Term("cache", "serve")),
    **dict.fromkeys(
        ("activations", "activationmemory", "savedactivations", "savedtensors"), Term("activations", "train")
    ),
    **dict.fromkeys(("gradients", "grads"), Term("gradients", "train")),
    **dict.fromkeys(
        ("optimizer", "optimizerstates", "optimizerstate", "adam", "adamw", "moments"), Term("optimizer", "train")
    ),
    **dict.fromkeys(("masterweights", "masters"), Term("master weights", "train")),
    **dict.fromkeys(("temporary", "temporarybuffers"), Term("temporary", "train")),
    **dict.fromkeys(("weights", "modelweights"), Term("weights", "rest")),
}
"""Terms of memory in small letters without spaces."""
WHOLE = ("total", "whole", "wholemodel", "everything", "all")
PEAK = ("peak", "peakmemory", "memorypeak", "peakbytes")

WHOLES = {
    **dict.fromkeys(("params", "parameters"), "params"),
    **dict.fromkeys(("flops", "flop"), "flops"),
    **dict.fromkeys(("memory", "bytes"), "memory"),
}
"""Quantities in the place of a part, in small letters without spaces: those of the whole model."""

FORMULA = re.compile(r"[0-9]+\s*[*·(a-zA-Z].*|[^²³^*·+]*[²³^*·+].*")
"""A formula, and no name of a part: it begins with a number, or has a power or a sign."""


def is_meant(words: str) -> bool:
    """Return True if these words are the name of a part, of a term, or of a quantity."""
    called = letters(words)
    return called in TERMS or called in WHOLES or called in OTHER_NAMES or called in PEAK


def as_meant(settings: Settings) -> Settings:
    """The settings with a term of memory by its own name, or a quantity of the whole model; others as they are."""
    called = letters(str(settings.get("target")))
    if called in WHOLE:
        return settings.with_values(target="complete")
    if called in WHOLES and settings.get("of", WHOLES[called]) == WHOLES[called]:
        return settings.with_values(target="complete", of=WHOLES[called])
    term = TERMS.get(called)
    if term is None or settings.get("of", "memory") != "memory":
        return settings
    settings = settings.with_values(of="memory")
    imply_mode(settings)
    if not (settings.get("serve") or settings.get("phase") == "train"):
        if term.mode == "rest":
            return settings.with_values(target="complete")
        settings = settings.with_values(serve=True) if term.mode == "serve" else settings.with_values(phase="train")
    return settings.with_values(target=term.name)


def is_peak(settings: Settings) -> bool:
    """Return True if the peak of memory is meant. Raises UsageError where neither training nor serving is asked."""
    if letters(str(settings.get("target"))) not in PEAK or settings.get("of", "memory") != "memory":
        return False
    imply_mode(settings)
    if not (settings.get("serve") or settings.get("phase") == "train"):
        raise UsageError("the peak of memory is that of training or of serving", "add --train or --serve")
    return True


def better(error: UsageError, settings: Settings) -> UsageError:
    """Return the error of a target that is not known, with the command that shows it where one does."""
    target = str(settings.get("target"))
    if not (error.message.startswith(f"target {target!r} is not known") and error.hint.startswith("known: ")):
        return error
    names = [] if "." in target else near(target)  # a path is no word
    concepts = f"did you mean {', '.join(names)}?" if names else f"{error.hint}; or a concept: KV cache, 6ND, …"
    return UnknownTarget(error.message, concepts)
