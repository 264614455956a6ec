"""What a change of a model's config moves: each field by itself, and all of them together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.analysis.changed_fields import Field, alike, changed_fields, with_fields
from tfcalc.analysis.common import check_arguments, check_plans
from tfcalc.analysis.diff_report import Diff
from tfcalc.analysis.numbers import known, per_token, serving_and_cache
from tfcalc.analysis.side_by_side import Row, as_operand, shared_length
from tfcalc.analysis.totals import ACTIVE, CACHE, FORWARD, KV, PEAK, TOTAL, WEIGHTS, Operand, Quantity, Value
from tfcalc.answers.flops import flops
from tfcalc.answers.memory import memory
from tfcalc.conventions import Conventions
from tfcalc.core.measure import active_params, params
from tfcalc.defaults import resolve_training
from tfcalc.errors import InvalidModel
from tfcalc.model import default_run
from tfcalc.plans import Serving, Training
from tfcalc.report import exact
from tfcalc.serving.memory import kv_bytes_per_token, serving_context, weights_bytes
from tfcalc.training.peaks import training_peak
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model

MOST = 12
"""Fields that are tried one by one."""
MANY = f"more than {MOST} fields that are read"
OTHER_TYPE = "the models are of different types"


class Moved(NamedTuple):
    """``fields`` of the first model changed without the others: the rows, or the ``reason`` why that is no model.

    Several fields are those that make a model only together.
    """

    fields: tuple[Field, ...]
    rows: tuple[Row, ...] = ()
    reason: str = ""

    @property
    def moves(self) -> bool:
        """Whether any number differs."""
        return any(row.differs for row in self.rows)


def diff(
    first: Model | Operand | str,
    second: Model | Operand | str,
    *,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    training: Training | None = None,
) -> Diff:
    """What the ``second`` model has otherwise than the first, and what each field moves by itself.

    Args:
        first: a name that :func:`~tfcalc.load` takes (``"HEAD~1:config.json"``), a model, or an :class:`Operand`.
        second: the same.
        workload: sequences and their length in tokens, of FLOPs and of training; by default one sequence of 4,096
            tokens, or of as many as both models read.
        conventions: the ``units`` that bytes are shown in.
        training: the plan of the training step whose peak is compared; by default full training as
            :func:`~tfcalc.memory` has it.

    Returns:
        A diff: ``rows`` have exact values of both, ``moved`` the same of each field that is changed alone in the first
        model, ``fields`` all that differ. ``changed`` is false where nothing does.

    Raises:
        InvalidModel: one of the models, or a model on this workload, makes no sense.

    >>> found = diff("gpt2", "gpt2-medium")
    >>> [field.path for field in found.fields][:3]
    ['n_embd', 'n_head', 'n_layer']
    >>> found.row("total_params").difference(1)
    230383360
    """
    operands = [as_operand(each, training or Training(), None) for each in (first, second)]
    old, new = operands
    plan = old.training or Training()
    run = workload or old.workload or Workload(seq_len=shared_length(operands))
    check_plans(plan, None)
    for operand in operands:
        check_arguments(operand.model, run, conventions)
    measure: Measure = partial(measured, workload=run, training=plan)
    before = measure(old.model)
    rows = _rows(before, measure(new.model))
    fields = changed_fields(old.model, new.model)
    moved, unsaid = attributed(old.model, fields, before, measure) if alike(old.model, new.model) else ((), OTHER_TYPE)
    return Diff(
        operands=(old, new),
        workload=run,
        rows=rows,
        fields=fields,
        moved=moved,
        unsaid=unsaid if fields else "",
        trained=_in_words(old.model, run, plan),
        units=(conventions or Conventions()).units,
    )


Measures = dict[Quantity, Value]
Measure = Callable[["Model"], Measures]


def measured(model: Model, *, workload: Workload, training: Training) -> Measures:
    """The numbers of a model that a change may move. Raises InvalidModel."""
    once = workload.replaced(phase="forward", recompute="none", kernel="auto", dropout=True)
    model.check(once)
    tree, serving = model.tree(once), Serving(context=serving_context(model, once))
    step = workload.replaced(phase="train")
    return {
        TOTAL: exact(tree.total(params)),
        ACTIVE: exact(tree.total(active_params)),
        FORWARD: per_token(flops(model, once)),
        PEAK: known(lambda: training_peak(model, step, training), "not known"),
        KV: known(lambda: kv_bytes_per_token(model, default_run(model), serving), "none"),
        WEIGHTS: weights_bytes(model, tree),
        CACHE: serving_and_cache(model, serving)[1],
    }


def attributed(
    model: Model, fields: Sequence[Field], before: Measures, measure: Measure
) -> tuple[tuple[Moved, ...], str]:
    """What each field moves by itself; or nothing, and why not.

    Those that nobody reads are changed at once: where nothing moves, none of them moves anything.
    """

    def changing(*some: Field) -> Moved:
        try:
            return Moved(some, _rows(before, measure(with_fields(model, some))))
        except InvalidModel as error:
            return Moved(some, reason=error.message)

    unread = [field for field in fields if not field.read]
    together = changing(*unread)
    idle = [] if together.moves or together.reason else unread
    tried = [field for field in fields if field not in idle]
    if len(tried) > MOST:
        return (), MANY
    alone = [Moved((field,), together.rows) if field in idle else changing(field) for field in fields]
    invalid = [one for one in alone if one.reason]
    return tuple(_joined(alone, invalid, changing)), ""


def _joined(alone: Sequence[Moved], invalid: Sequence[Moved], changing: Callable[..., Moved]) -> Iterator[Moved]:
    """The fields as before, but those that make no model alone with as many others as they need for one.

    That is all of those, or each of them with one other field; one that needs more stays as it is.
    """
    joined = changing(*(one.fields[0] for one in invalid)) if len(invalid) > 1 else None
    if joined is not None and not joined.reason:
        groups = [joined]
    else:
        pairs = (_paired(one, [other for other in alone if other is not one], changing) for one in invalid)
        groups = [pair for pair in pairs if not pair.reason]
    taken = {field.keys for group in groups for field in group.fields}
    yield from (one for one in alone if one.fields[0].keys not in taken)
    yield from groups


def _paired(one: Moved, others: Sequence[Moved], changing: Callable[..., Moved]) -> Moved:
    """The field with the first other one with which it makes a model; itself where there is none."""
    pairs = (changing(*one.fields, *other.fields) for other in others if other.fields[0].read)
    return next((pair for pair in pairs if not pair.reason), one)


def _rows(before: Measures, after: Measures) -> tuple[Row, ...]:
    return tuple(Row(quantity, (before[quantity], after[quantity])) for quantity in before)


def _in_words(model: Model, workload: Workload, plan: Training) -> tuple[str, ...]:
    """The training step, as ``tfcalc memory --train`` has it; nothing where its memory is not known.

    Raises UsageError for what has no effect on it.
    """
    from tfcalc.answers.memory_base import called, of_training

    try:
        report = memory(model, workload, training=plan)
        run, plan = resolve_training(model, workload.replaced(phase="train"), plan)
    except InvalidModel:
        return ()
    said = of_training(model, run, plan).removeprefix(f"{called(model)}, ").removeprefix("training, ")
    return (said, *report.footer.assumes)
