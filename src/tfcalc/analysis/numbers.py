"""Single numbers of a model, each as the answer to its own question has it, without the breakdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tfcalc.core.measure import bytes_held
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel
from tfcalc.model import default_run
from tfcalc.report.declared import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfcalc.model import Model
    from tfcalc.plans import Serving
    from tfcalc.report import Report


T = TypeVar("T")


def known(number: Callable[[], T], short: str) -> T | Unknown:
    """The number, or the word, or why there is none, ``short`` and in full."""
    try:
        return number()
    except InvalidModel as error:
        return Unknown(short, str(error))


NO_TEXT = "none: it generates no text"


def serving_and_cache(model: Model, plan: Serving) -> tuple[int | Unknown, int | Unknown]:
    """The bytes of serving by this plan, and of its cache; nothing is known of a model that generates no text."""
    from tfcalc.serving.memory import served

    try:
        found = served(model, default_run(model), plan, formulas=False)
        if not found.caches:
            return found.total, Unknown(NO_TEXT, "the model generates no text, and keeps no cache")
        return found.total, value_of(found.cache.total(bytes_held))
    except InvalidModel as error:
        unknown = Unknown(NO_TEXT, str(error))
        return unknown, unknown


def per_token(step: Report) -> int | float:
    """FLOPs of a token, or of a sample where a model reads no tokens."""
    found: int | float = step.totals["flops_per_token"]
    return found
