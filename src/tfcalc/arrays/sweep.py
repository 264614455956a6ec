"""A quantity at many sizes at once, as labelled columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING

from tfcalc.analysis.axes import RUN, axes
from tfcalc.analysis.common import TRAINING, check_arguments, model_of, refuse_idle, refuse_idle_in_flops
from tfcalc.arrays import WITHOUT_NUMPY
from tfcalc.arrays.questions import QUANTITIES, SweepQuestion
from tfcalc.core.traced import at_most
from tfcalc.errors import InvalidModel, Unavailable, UsageError, one_of
from tfcalc.model import asked_run, own_run
from tfcalc.plans import Serving, Training
from tfcalc.workload import Conventions

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from tfcalc.arrays.table import Table
    from tfcalc.model import Model
    from tfcalc.workload import Workload


def sweep(
    model: Model | str,
    of: str = "params",
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    weights: str | None = None,
    progress: Callable[[int], None] | None = None,
    **sizes: ArrayLike,
) -> Table:
    """Evaluate a quantity at many sizes at once.

    The model is run once for all points that take the same branches, with sizes that remember their closed forms;
    these are evaluated on the arrays, as whole numbers. At each point the answer is that of :func:`~tfcalc.params`,
    :func:`~tfcalc.flops` or :func:`~tfcalc.memory`, exactly.

    Args:
        model: as in :func:`~tfcalc.params`.
        of: ``params``, ``trainable``, ``flops``, ``memory`` (bytes of the model at rest, at the peak of a training
            step, or in serving) or ``cache`` (bytes of the caches in serving).
        workload: phase, sequences and their lengths in tokens, where these are not swept.
        conventions: which operations are counted, and the number format of the weights.
        training: how the model is trained. With ``memory`` it asks for the peak of a step, as does a workload of phase
            ``train``; otherwise it says what is trained.
        serving: how the model is served, for ``memory`` or ``cache``; ``cache`` alone is served by default.
        weights: the format of the weights at rest.
        progress: called now and then with the number of points that are done.
        sizes: whole numbers for each swept field of the model (``d_model``, ``n_layers``, …), the workload
            (``seq_len``, …) or the plan (``lora``, ``gpus``, ``context``, …). They broadcast as numpy's arrays do. A
            size that follows from others (``d_ff = 4·d_model``) follows at every point.

    Returns:
        A table with a column of each size and one of the answers, a row for each point. An impossible
        combination (heads that do not divide the width) has no answer: it is masked, and ``refused`` says why.

    Raises:
        InvalidModel: this is not a model, or there is none at any of the points.
        UsageError: a name is not a size, or changes nothing of what is asked; points are none or too many.
        Unavailable: numpy is not installed.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> swept = sweep(Transformer(), d_model=[512, 1024], n_layers=6)
    >>> swept.values.tolist(), swept.unit
    ([44140544, 176361472], 'params')
    """
    try:
        import numpy  # noqa: F401  # whether it is there
    except ImportError:
        raise Unavailable(*WITHOUT_NUMPY) from None
    question = asked(model_of(model), of, workload, conventions, training, serving, weights)
    return answered(question, sizes, progress or (lambda _: None))


MOST_UNITS = 200_000
"""Limit of effort (:mod:`tfcalc.core.traced`) of the runs of one sweep: some seconds."""


def answered(question: SweepQuestion, sizes: Mapping[str, ArrayLike], progress: Callable[[int], None]) -> Table:
    """The question at each point of the sizes. Raises as :func:`sweep`."""
    from tfcalc.arrays.evaluation import evaluate
    from tfcalc.arrays.points import broadcast
    from tfcalc.arrays.table import Table

    trains, serves = question.training is not None, question.serving is not None
    found = axes(sizes, question.model, question.workload, trains, serves)
    points, shape = broadcast(sizes)
    with suppress(InvalidModel):  # the first point alone refuses what changes nothing; others may be of a model
        first = question.at(found, {name: int(array[0]) for name, array in points.items()})
        first.refuse_unread(found)
        first.single()
    apart = question.apart(found)
    with at_most(
        MOST_UNITS, "these sizes take too many runs of the model", "sweep fewer sizes of the model or the plan"
    ):
        done = evaluate(
            lambda at: question.at(found, at).forms(),
            points,
            prod(shape),
            apart=apart,
            why=lambda at: question.at(found, at).single(),
            progress=progress,
        )
    if not done.valid.any():
        raise done.refused[0].error
    for axis in found:
        if axis.of == RUN and axis.name not in done.letters | apart:
            fact = f"{axis.name} has no effect on the {question.of} of this model"
            raise UsageError(fact, f"leave {axis.name} out")
    _, key, unit, _ = question.headline
    units = {axis.name: "tokens" if axis.length else "" for axis in found}
    return Table(question.of, key, {**units, key: unit}, points, done.values, done.valid, shape, done.refused)


def asked(
    model: Model,
    of: str,
    workload: Workload | None,
    conventions: Conventions | None,
    training: Training | None,
    serving: Serving | None,
    weights: str | None,
    runs: Callable[[Model], Workload] | None = None,
) -> SweepQuestion:
    """Make the question; a plan or a workload without effect on it is refused.

    ``runs`` says what is run of a model with other sizes, where that is not the ``workload``.
    """
    check_arguments(model, workload, conventions)
    one_of("quantity", of, QUANTITIES)
    if of == "memory" and workload is not None and workload.training:
        training = training or Training()
    if training is not None and of == "cache":
        raise UsageError("a plan of training changes nothing in a sweep of cache", "leave it out, or sweep memory")
    if of == "cache":
        serving = serving or Serving()
    if training is not None and serving is not None:
        raise UsageError("training and serving cannot be combined", "choose one")
    if serving is not None and of not in ("memory", "cache"):
        raise UsageError(f"a plan of serving changes nothing in a sweep of {of}", "leave it out, or sweep memory")
    if weights and not (of == "memory" and training is None and serving is None):
        raise UsageError(
            f"a format of weights changes nothing in a sweep of {of}", "sweep the memory of a model at rest"
        )
    trains = training is not None and of == "memory"

    def run_of(other: Model) -> Workload:
        run = runs(other) if runs else own_run(other, workload)
        return run.replaced(phase="train") if trains else run

    run = asked_run(model, run_of(model))
    if of == "flops":
        refuse_idle_in_flops(model, run)
    if trains:
        refuse_idle(run, TRAINING, "on the memory of training")
    question = SweepQuestion(of, model, run, run_of, conventions or Conventions(), training, serving, weights)
    question.check()
    if workload is not None and (of in ("params", "trainable") or question.at_rest):
        raise UsageError(f"a workload changes nothing in a sweep of {of}", "leave the workload out, or sweep flops")
    return question
