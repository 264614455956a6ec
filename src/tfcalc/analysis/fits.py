"""Whether a model fits into so much memory, how large it may get, and what would make it fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from tfcalc.analysis.at_a_glance import called
from tfcalc.analysis.budget import Budget, of_card, stated
from tfcalc.analysis.changes import OF_SERVING, OF_TRAINING, Change, Storage, Ways, at_rest, of_serving, of_training
from tfcalc.analysis.common import asked_run, check_plans, default_run
from tfcalc.analysis.memory import memory, step_of
from tfcalc.analysis.remedies import Remedy, Room, remedies
from tfcalc.analysis.sizes import Size, largest_of
from tfcalc.analysis.verdict import Fit
from tfcalc.conventions import Conventions
from tfcalc.core.traced import value_of
from tfcalc.defaults import AUTO, resolve_serving
from tfcalc.dimensions import Described
from tfcalc.errors import TfcalcError, UsageError

if TYPE_CHECKING:
    from tfcalc.analysis.paged import PagedCache
    from tfcalc.analysis.serving_memory import Served
    from tfcalc.footprint.plans import Serving, Training
    from tfcalc.footprint.training.card import OnCard
    from tfcalc.model import Model
    from tfcalc.report import Outline, Report
    from tfcalc.workload import Workload

MARGIN = 5
"""Per cent of the budget; what leaves less is tight."""

P = TypeVar("P", bound=Described)
"""A plan: of training, of serving, or how a model at rest is stored."""


def _budget(budget: Budget | str | int | None, gpu: str | None) -> Budget:
    """The one that was given of the two."""
    if gpu is not None:
        if budget is not None:
            raise UsageError("budget and gpu both say how much there is", "leave one of them out")
        return of_card(gpu)
    if budget is None:
        raise UsageError("there is no budget", 'give one, such as "80GB", or a gpu, such as "h100"')
    return budget if isinstance(budget, Budget) else stated(budget)


def fits(
    model: Model,
    budget: Budget | str | int | None = None,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    gpu: str | None = None,
    training: Training | None = None,
    serving: Serving | None = None,
    weights: str | None = None,
    margin: int = MARGIN,
    utilization: float | None = None,
    breakdown: bool = False,
) -> Fit:
    """Whether ``model`` fits into the ``budget``, trained, served or at rest as in :func:`memory`.

    Args:
        model: as in :func:`memory`.
        budget: an amount (``"80GB"``, ``"79.2GiB"``), or bytes.
        gpu: instead of a budget, a GPU by its name (``"h100"``, ``"8xh100"``, ``"24GB"``), of which the usable memory
            counts.
        workload: as in :func:`memory`.
        conventions: as in :func:`memory`.
        training: as in :func:`memory`; with a budget of several GPUs, it is trained on all of them.
        serving: as in :func:`memory`.
        weights: as in :func:`memory`.
        margin: per cent of the budget that should stay free; what fits with less to spare is tight.
        utilization: the part of a card's memory that is used in serving; 0.9 with a paged cache, as in vLLM.
        breakdown: whether somebody will read what the peak is made of, so that it is best found first.

    Returns:
        The verdict, with the report that it rests on: in training also the largest batch and the largest sequence that
        fit, in serving the largest context and the most requests at once, all else as asked; and where it does not
        fit, the changes that make it fit.

    Raises:
        InvalidModel: as in :func:`memory`.
        UsageError: a budget that is no amount, a margin that is no percentage; several GPUs for anything but training.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> found = fits(Transformer(), "100MB")
    >>> found.fits, found.headroom
    (False, -76562176)
    """
    question = Question(workload, training, serving, weights)
    budget, question = asked_of(model, _budget(budget, gpu), question, margin, utilization)
    return held_against(model, budget, question, margin, conventions or Conventions(), breakdown=breakdown).fit()


class Question(NamedTuple):
    """What a model is to do, in the words of :func:`memory`."""

    workload: Workload | None = None
    training: Training | None = None
    serving: Serving | None = None
    weights: str | None = None


def held_against(
    model: Model,
    budget: Budget,
    question: Question,
    margin: int,
    conventions: Conventions,
    *,
    breakdown: bool = False,
) -> _Asked[Any]:
    """What answers it; the ``breakdown`` of a step's peak is found later, unless it is asked for. Raises as memory."""
    workload, training, serving, weights = question
    report = cache(partial(memory, model, workload, conventions, training=training, serving=serving, weights=weights))
    run = workload or default_run(model)
    if training is not None:
        asked = step_of(model, workload, conventions, training, serving, weights)
        told = report().outline if breakdown or asked is None else _outline(model, asked, conventions)
        return _Training(model, budget, margin, told, report, run, training)
    told = report().outline
    if serving is None:
        stored = Storage(weights or "", conventions.dtype)
        return _AtRest(model, budget, margin, told, report, default_run(model), stored)
    run, serving = resolve_serving(model, run, serving)
    served = _Serving(model, budget, margin, told, report, run, serving)
    served.dtype = conventions.dtype
    return served


def _outline(model: Model, asked: tuple[Workload, Training], conventions: Conventions) -> Outline:
    from tfcalc.analysis.training_report import training_outline

    return training_outline(model, *asked, conventions)


def asked_of(
    model: Model, budget: Budget, question: Question, margin: int, utilization: float | None
) -> tuple[Budget, Question]:
    """How much of the budget can be used, and what is asked on its GPUs. Raises UsageError as :func:`fits`."""
    workload, training, serving, _ = question
    check_plans(training, serving)
    if not 0 <= margin <= 100:
        raise UsageError(f"--margin {margin} is not from 0 to 100 per cent", "leave it out for 5")
    if training is not None or (workload is not None and workload.training):
        from tfcalc.footprint.plans import Training

        run = asked_run(model, (workload or default_run(model)).replaced(phase="train"))
        plan = _on_gpus(training or Training(), budget)
        return budget, question._replace(workload=run, training=plan)
    if budget.gpus != 1:
        raise UsageError(f"{budget.gpus} GPUs are counted in training alone", "give one, or add --train")
    return budget.serving(serving, utilization) if serving else budget, question


def _on_gpus(plan: Training, budget: Budget) -> Training:
    """The plan on as many GPUs as the budget is of, and on such ones."""
    if plan.gpus not in (1, budget.gpus) and budget.gpus != 1:
        raise UsageError(f"--gpus {plan.gpus} contradicts {budget.gpus}x{budget.card}", "leave one of them out")
    if budget.capability and not plan.capability:
        plan = plan.replaced(capability=budget.capability)
    return plan.replaced(gpus=budget.gpus) if budget.gpus != 1 else plan


class _Asked(Generic[P]):
    """What was asked for, and the bytes of other workloads and plans."""

    combined: Sequence[str] = ()
    on_card: OnCard | None = None
    runs = True

    def __init__(
        self,
        model: Model,
        budget: Budget,
        margin: int,
        told: Outline,
        report: Callable[[], Report],
        run: Workload,
        plan: P,
    ) -> None:
        self.model, self.budget, self.margin = model, budget, margin
        self.told, self.report = told, report
        self.run, self.plan = run, plan
        self.room = budget.bytes
        self.peak = cache(self._peak)
        self._begin()

    def _begin(self) -> None:
        """What else has to be known before anything is asked."""

    @property
    def fits(self) -> bool:
        """The verdict, without how large it may get and what would make it fit."""
        return self.runs and self.told.answer <= self.room

    def _peak(self, run: Workload, plan: P) -> int:
        """The bytes of a workload and a plan. Raises TfcalcError."""
        raise NotImplementedError

    def bounds(self) -> Sequence[Callable[[Workload, P], int]]:
        """Bytes that it takes at least, those that are found soonest first."""
        return ()

    def _peak_of_size(self, run: Workload, plan: P) -> int:
        """The bytes with another size. Raises TfcalcError."""
        return self.peak(run, plan)

    def _roughly(self, _run: Workload, _plan: P) -> int | None:
        """A guess of them, where something is known."""
        return None

    def ways(self) -> Ways:
        """What could be otherwise."""
        raise NotImplementedError

    def sizes(self) -> list[Size]:
        """What may grow."""
        return []

    def paged(self) -> PagedCache | None:
        """What an engine that pages its cache has room for."""
        return None

    @property
    def subtitle(self) -> str:
        """What was asked, in a line."""
        return self.told.subtitle

    def fit(self, *, changes: bool = True) -> Fit:
        """The answer; ``changes`` that would make it fit are searched unless nobody reads them."""
        found = tuple(largest_of(size, self.room) for size in self.sizes())
        room = Room(self.room, self.room * self.margin // 100)
        others: list[Remedy] = []
        if changes and not self.fits:
            least = [self._with_change(bound) for bound in self.bounds()]
            others = remedies(self.ways(), self.combined, self._with_change(self.peak), room, *least)
        flags = tuple(self._flags(each.change) for each in others)
        longest = [self._at(each.of.name, each.value) for each in found if each.value]
        remarks = {remark for run in longest for remark in self.model.remarks(run)} - set(self.told.notes)
        subtitle, shown = self.subtitle, tuple(sorted(remarks)) if room.holds(self.told.answer) else ()
        return Fit(
            self.told,
            self.report,
            self.budget,
            self.margin,
            subtitle,
            found,
            tuple(others),
            flags,
            shown,
            self.paged(),
            self.room,
            self.on_card,
            self.runs,
        )

    def _with_change(self, peak: Callable[[Workload, P], int]) -> Callable[[Change], int | None]:
        """The bytes with a change; None where it does not go with the rest."""

        def need(change: Change) -> int | None:
            try:
                return peak(change.applied(self.run), change.applied(self.plan))
            except TfcalcError:
                return None

        return need

    def _flags(self, change: Change) -> tuple[str, ...]:
        """What to add to the command line; the number of GPUs as it was given, before the card."""
        flags = change.flags(self.plan, self.run)
        if self.budget.gpus == 1:
            return flags
        name = self.budget.card if " " not in self.budget.card else f"'{self.budget.card}'"
        return tuple(f"--gpu {flag.split()[1]}x{name}" if flag.startswith("--gpus ") else flag for flag in flags)

    def _size(self, described: Described, name: str) -> Size:
        """A size of the workload or of the plan, with what it needs."""

        @cache
        def need(value: int) -> int:
            return self.told.answer if value == asked else self._peak_of_size(*self._of_size(described, name, value))

        known, longest, asked = described.dimensions()[name], self.model.longest, getattr(described, name)
        limit = longest if known.length and isinstance(longest, int) else None
        roughly = lambda value: self._roughly(*self._of_size(described, name, value))  # noqa: E731
        return Size(name, known.flags[0], asked, need, known.length, limit, roughly=roughly)

    def _of_size(self, described: Described, name: str, value: int) -> tuple[Workload, P]:
        """The workload and the plan, one of which has this size."""
        if described is self.run:
            return self.run.replaced(**{name: value}), self.plan
        return self.run, self.plan.replaced(**{name: value})

    def _at(self, name: str, value: int) -> Workload:
        """The workload at a size of its own, or of the plan."""
        return self.run.replaced(**{{"context": "seq_len", "concurrency": "batch_size"}.get(name, name): value})


class _Training(_Asked["Training"]):
    combined = OF_TRAINING

    def _begin(self) -> None:
        from tfcalc.analysis.peaks import peaks_of
        from tfcalc.defaults import resolve_training

        run, self.resolved = resolve_training(self.model, self.run, self.plan)
        self.peaks = peaks_of(self.model, run, self.resolved)
        self.room = self.budget.allocatable(self.resolved)
        if self.room < self.budget.bytes:
            self._put_on_card()

    def _put_on_card(self) -> None:
        """What a card shows of it, and whether the caching allocator runs in what there is."""
        from tfcalc.analysis.card import read

        self.on_card = read(self.told.more, self.told.answer)
        reserved = self.on_card.reserved.bytes if self.on_card else 0
        if self.told.answer <= self.room < self.budget.bytes < reserved:
            self.runs = self.peaks.runs_in(self.run, self.plan, self.budget.bytes)

    def _peak(self, run: Workload, plan: Training) -> int:
        return self.peaks.peak(run, plan)

    def _peak_of_size(self, run: Workload, plan: Training) -> int:
        return self.peaks.peak_of_size(run, plan, self.room)

    def _roughly(self, run: Workload, plan: Training) -> int | None:
        return self.peaks.roughly(run, plan)

    def bounds(self) -> Sequence[Callable[[Workload, Training], int]]:
        return self.peaks.whole_weights, self.peaks.least

    def ways(self) -> Ways:
        return of_training(self.model, self.run, self.resolved)

    def sizes(self) -> list[Size]:
        return [self._size(self.run, "batch_size"), self._size(self.run, "seq_len")]


class _Serving(_Asked["Serving"]):
    combined = OF_SERVING

    dtype = AUTO

    def _begin(self) -> None:
        self.served = cache(self._serve)

    def _serve(self, run: Workload, plan: Serving) -> Served:
        from tfcalc.analysis.serving_memory import served

        return served(self.model, run, plan, self.dtype, formulas=False)

    def _peak(self, run: Workload, plan: Serving) -> int:
        return self.served(run, plan).total

    def _peak_of_size(self, run: Workload, plan: Serving) -> int:
        least = self._least(run, plan)
        return least if least > self.room else self.peak(run, plan)

    def bounds(self) -> Sequence[Callable[[Workload, Serving], int]]:
        return (self._least,)

    def _least(self, run: Workload, plan: Serving) -> int:
        return self.served(run, plan).least(self.room)

    def paged(self) -> PagedCache | None:
        from tfcalc.analysis.paged import paged_cache

        stored = self.report().totals["kv_cache_bytes"]
        assert isinstance(stored, int)
        return paged_cache(self.model, self.run, self.plan, self.budget.bytes - self.told.answer + stored)

    def ways(self) -> Ways:
        return of_serving(self.run, self.plan)

    def sizes(self) -> list[Size]:
        from tfcalc.footprint.serving.caches import PAGED

        step = value_of(self.plan.block) if self.plan.cache == PAGED else 1
        return [self._size(self.plan, "context")._replace(step=step), self._size(self.plan, "concurrency")]


class _AtRest(_Asked[Storage]):
    def _peak(self, _run: Workload, plan: Storage) -> int:
        return memory(self.model, None, Conventions(dtype=plan.dtype), weights=plan.weights or None).answer

    def ways(self) -> Ways:
        return at_rest(self.plan)

    @property
    def subtitle(self) -> str:
        by = self.told.conventions
        return f"{called(self.model)}, weights in {by.get('weights') or by['dtype']}, at rest"
