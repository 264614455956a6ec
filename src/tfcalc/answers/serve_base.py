"""Keys of all answers about a served model."""

from __future__ import annotations

from typing import ClassVar

from tfcalc.report.declared import Answer, boolean, text


class ServedAnswer(Answer):
    """Answer about a served model, which writes text, or reads alone."""

    command: ClassVar[str] = "serve"
    about: ClassVar[str] = "A served model: what fits, the floor and an estimate of a token and of the first, the cost."
    exclusive: ClassVar[bool] = True

    model = text("the model", lambda answer: answer.question.model.summary)
    fits = boolean("whether it fits: with one request, or with all that are read at once", lambda answer: answer.holds)


def without_products(name: str) -> str:
    """Say that a floor is of bytes alone."""
    return f"Products are in no floor: no dense peak of {name} is known"


def rate_in_words(number: float) -> str:
    """Write requests or tokens per second: ``5.63``, ``46,123``.

    >>> rate_in_words(5.634), rate_in_words(46123.4)
    ('5.63', '46,123')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
