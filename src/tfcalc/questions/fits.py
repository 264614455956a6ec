"""Whether a model fits into so much memory, how large it may get, and what would make it fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from tfcalc.conventions import Conventions
from tfcalc.defaults import resolve_serving
from tfcalc.dimensions import Described
from tfcalc.errors import TfcalcError
from tfcalc.questions.budget import Budget, stated
from tfcalc.questions.changes import Change, of_serving, of_training
from tfcalc.questions.memory import memory
from tfcalc.questions.remedies import Remedy, remedies
from tfcalc.questions.sizes import Largest, Size, largest_of
from tfcalc.report import Report
from tfcalc.report.sheet import Bytes, Cell, Column, Sheet
from tfcalc.units import short_bytes

if TYPE_CHECKING:
    from tfcalc.held.plans import Serving, Training
    from tfcalc.model import Model
    from tfcalc.workload import Workload

ORDER = (
    "changes in order: the same learned, fewer bits, another optimizer, fewer weights trained, more devices; "
    "those with a semicolon together"
)


@dataclass(frozen=True, slots=True)
class Fit:
    """``report`` is what was asked, ``largest`` and ``remedies`` what else would fit; ``flags`` are the remedies'.

    ``remarks`` say what should be known of the model at the largest sizes.
    """

    report: Report
    budget: Budget
    largest: tuple[Largest, ...]
    remedies: tuple[Remedy, ...]
    flags: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    @property
    def headroom(self) -> int:
        """Bytes to spare; below 0 what is wanting."""
        return self.budget.bytes - self.report.answer

    @property
    def fits(self) -> bool:
        """Whether the peak is within the budget."""
        return self.headroom >= 0

    @property
    def verdict(self) -> str:
        """``does not fit: needs 178.90 GiB, 80GB = 74.51 GiB: short by 104.39 GiB``."""
        needs, given = f"needs {self._short(self.report.answer)}", self.budget.in_words(self._units)
        if self.fits:
            return f"fits: {self._short(self.headroom)} to spare ({needs}, {given})"
        return f"does not fit: {needs}, {given}: short by {self._short(-self.headroom)}"

    def to_dict(self) -> dict[str, Any]:
        """As in ``--json``: the keys of the memory report, the verdict and what would fit."""
        found = self.report.to_dict()
        components = found.pop("components")
        return {
            **found,
            "budget_bytes": self.budget.bytes,
            "budget": self.budget.stated,
            "budget_notes": list(self.budget.notes),
            "fits": self.fits,
            "headroom_bytes": self.headroom,
            **{each.of.key: each.value for each in self.largest},
            "changes": [
                {
                    "change": remedy.change.name,
                    "flags": flags,
                    "total_bytes": remedy.total,
                    "headroom_bytes": self.budget.bytes - remedy.total,
                    "fits": remedy.total <= self.budget.bytes,
                }
                for remedy, flags in zip(self.remedies, self.flags, strict=True)
            ],
            "components": components,
        }

    def sheet(self) -> Sheet:
        """The verdict; what was asked, the largest sizes, and the changes."""
        return Sheet(
            title=self.verdict,
            subtitle=self.report.heading,
            columns=[
                Column("what", numeric=False, folds=True),
                Column("by", numeric=False, folds=True),
                Column("bytes at the peak"),
                Column("headroom"),
            ],
            rows=[
                ["as asked", "", *self._bytes(self.report.answer)],
                *([each.in_words, each.flag, *self._bytes(each.total)] for each in self.largest),
                *(
                    [remedy.change.name, flags, *self._bytes(remedy.total)]
                    for remedy, flags in zip(self.remedies, self.flags, strict=True)
                ),
            ],
            quiet=self.headroom,
            notes=[*self._notes(), *self.report.notes],
        )

    def _notes(self) -> Iterator[str]:
        yield from self.budget.notes
        for each in self.largest:
            if each.reason:
                yield f"no largest {each.of.words}: {each.reason}"
        yield from self.remarks
        if self.remedies and self.remedies[0].total > self.budget.bytes:
            yield "no change that is known here makes it fit, nor do several; of those tried this comes closest"
        elif self.remedies and len(self.remedies[0].changes) > 1:
            yield "no change makes it fit alone"
        if self.remedies:
            yield ORDER

    def _bytes(self, total: int | None) -> list[Cell]:
        return [None, None] if total is None else [Bytes(total), Bytes(self.budget.bytes - total)]

    @property
    def _units(self) -> str:
        return str(self.report.conventions["units"])

    def _short(self, size: int) -> str:
        return short_bytes(size, self._units)


def fits(
    model: Model,
    budget: Budget | str | int,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    weights: str | None = None,
) -> Fit:
    """Whether ``model`` fits into the ``budget`` (``80GB``, or bytes), trained, served or held as in :func:`memory`.

    In training also the largest batch and the largest sequence that fit, in serving the largest context and the most
    requests at once, all else as asked; and where it does not fit, the changes that make it. Raises InvalidModel, and
    UsageError for a budget that is no amount.

    >>> from tfcalc.families.transformer import Transformer
    >>> found = fits(Transformer(), "100MB")
    >>> found.fits, found.headroom
    (False, -76562176)
    """
    from tfcalc.questions.common import asked_run, default_run

    budget = budget if isinstance(budget, Budget) else stated(budget)
    conventions = conventions or Conventions()
    report = memory(model, workload, conventions, training=training, serving=serving, weights=weights)
    if training is not None or (workload is not None and workload.training):
        from tfcalc.held.plans import Training
        from tfcalc.questions.training_memory import training_peak

        asked = asked_run(model, (workload or default_run(model)).replaced(phase="train"))
        return _fit(report, budget, _Asked(asked, training or Training(), partial(training_peak, model)), model)
    if serving is not None:
        asked, serving = resolve_serving(model, workload or default_run(model), serving)
        return _fit(report, budget, _Asked(asked, serving, partial(_served, model, conventions.dtype)), model)
    return Fit(report, budget, (), (), ())


def _served(model: Model, dtype: str, run: Workload, plan: Serving) -> int:
    from tfcalc.questions.serving_memory import served

    return served(model, run, plan, dtype).total


class _Asked:
    """A workload and a plan as asked, and the bytes of others."""

    def __init__(self, run: Workload, plan: Any, peak: Callable[[Workload, Any], int]) -> None:
        self.run, self.plan, self.peak = run, plan, cache(peak)

    def with_change(self, change: Change) -> int | None:
        """The bytes with a change; None where it does not go with the rest."""
        try:
            return self.peak(self.run.replaced(**change.run), self.plan.replaced(**change.plan))
        except TfcalcError:
            return None

    def size(self, described: Described, name: str, asked: Any) -> Size:
        """A size of the workload or of the plan, with what it needs."""

        def need(value: int) -> int:
            other = described.replaced(**{name: value})
            return self.peak(other, self.plan) if described is self.run else self.peak(self.run, other)

        return Size(name, described.dimensions()[name].flags[0], asked, need)


def _fit(report: Report, budget: Budget, asked: _Asked, model: Model) -> Fit:
    from tfcalc.held.plans import Training

    run, plan = asked.run, asked.plan
    if isinstance(plan, Training):
        sizes = [asked.size(run, "batch_size", run.batch_size), asked.size(run, "seq_len", run.seq_len)]
    else:
        context = run.seq_len if plan.context is None else plan.context
        sizes = [asked.size(plan, "context", context), asked.size(plan, "concurrency", plan.concurrency)]
    found = tuple(largest_of(size, budget.bytes) for size in sizes)
    others: list[Remedy] = []
    if report.answer > budget.bytes:
        groups = of_training(model, run, plan) if isinstance(plan, Training) else of_serving(run, plan)
        others = remedies(groups, asked.with_change, budget.bytes)
    flags = tuple(each.change.flags(run, plan) for each in others)
    seen = {remark for each in found if each.value for remark in model.remarks(_longest(asked, each))}
    return Fit(report, budget, found, tuple(others), flags, tuple(sorted(seen - set(report.notes))))


def _longest(asked: _Asked, found: Largest) -> Workload:
    """The workload at the largest size."""
    name = {"context": "seq_len", "concurrency": "batch_size"}.get(found.of.name, found.of.name)
    return asked.run.replaced(**{name: found.value})
