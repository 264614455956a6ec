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
