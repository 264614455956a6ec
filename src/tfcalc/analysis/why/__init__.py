"""Where a number comes from: which conventions give it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.analysis.common import check_arguments
from tfcalc.analysis.why.errata import corrected
from tfcalc.analysis.why.given import BYTES_UNIT, FLOPS, Given, read
from tfcalc.analysis.why.questions import CACHE, MEMORY, QUANTITIES, Asked, questions, rounds, unasked
from tfcalc.analysis.why.reason import SHOWN, Reason, Why, reason, reasons
from tfcalc.analysis.why.search import Question, matches, nearest
from tfcalc.configs.published import HFModel
from tfcalc.errors import one_of

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.workload import Workload

__all__ = ["CACHE", "FLOPS", "MEMORY", "QUANTITIES", "Reason", "Why", "why"]

GIGA = 3
NO_CACHE = "this model generates no text, so it has no cache"


def why(
    number: str | int,
    model: Model | None = None,
    of: str | None = None,
    workload: Workload | None = None,
    *,
    tokens: int | None = None,
    called: str = "",
) -> Why:
    """Name the conventions that give a number: what was left out, counted again, halved, or written in another unit.

    Args:
        number: as it was written, with its precision: ``"117M"`` is anything that rounds to 117 million,
            ``"124,439,808"`` that number alone. A unit (``"13.5 GB"``, ``"31.5 TFLOPs"``) decides what it is about.
        model: as in :func:`~tfcalc.params`; by default the classic Transformer.
        of: ``params``, ``flops``, ``memory`` (bytes of weights and of model states) or ``cache`` (bytes of keys and
            values); by default what the unit says, or what gives it first.
        workload: sequences, their lengths in tokens, and phase; by default usual lengths are tried. Of FLOPs and cache.
        tokens: those of a whole training run. Of FLOPs.
        called: how commands name the model; by default by its own name.

    Returns:
        The answer: ``reasons``, the simplest and nearest first, each with its exact value in parameters, FLOPs or
        bytes; where there are none, the ``nearest``.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense.
        UsageError: the number cannot be read, or ``of`` is none of these.

    >>> import tfcalc
    >>> found = tfcalc.why("163M", tfcalc.load("gpt2"))
    >>> found.answer, found.reasons[0].cause
    (163037184, 'the output head counted again although it is tied to the embedding')
    """
    if model is None:
        from tfcalc.zoo.transformer import Transformer

        model = Transformer()
    check_arguments(model, workload, None)
    if of is not None:
        one_of("of", of, QUANTITIES)
    given = read(str(number))
    name = model.name if isinstance(model, HFModel) else ""
    asked = Asked(model, called or name, workload, tokens)
    model.check(asked.run)
    looked, tried = list[Question](), list[str]()
    for quantities in rounds(given, of, asked):
        more = {one: unasked(given, of, one, asked) for one in quantities}
        here = {one: [each.dearer(more[one]) for each in questions(one, asked)] for one in quantities}
        by_quantity = {quantity: matches(given, one) for quantity, one in here.items()}
        if found := sorted((match for one in by_quantity.values() for match in one), key=lambda match: match.cost):
            of_what = tuple(quantity for quantity, one in by_quantity.items() if one)
            notes, described = _notes(given, model), model.described()
            return Why(given.text, model.summary, reasons(given, found), (), notes, described, of_what)
        tried += quantities
        if of is not None or given.unit or (MEMORY not in quantities):
            looked += [question for one in here.values() for question in one]
    close = tuple(reason(given, one, "") for one in nearest(given, looked)[:SHOWN])
    nothing = (NO_CACHE,) if of == CACHE and not any(question.roots for question in looked) else ()
    notes = (*nothing, *_notes(given, model))
    return Why(given.text, model.summary, (), close, notes, model.described(), tuple(tried))


def _notes(given: Given, model: Model) -> tuple[str, ...]:
    named = isinstance(model, HFModel) and not model.changed
    notes = list(corrected(given, model.name)) if isinstance(model, HFModel) and named else []
    if given.unit == BYTES_UNIT and given.power >= GIGA:
        gib, gb = float(given.value) / 2**30, float(given.value) / 10**9
        notes.append(f"{given.text} is {gib:,.1f} GiB (2^30 bytes), and {gb:,.1f} GB (10^9 bytes)")
    return tuple(notes)
