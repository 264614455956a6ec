"""GPUs that a model fits on, trained or served, and with which change: a line for each common one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tfcalc.analysis.common import TRAIN
from tfcalc.answers.in_words import SERVE, in_words
from tfcalc.answers.question import AskedNumber, Question
from tfcalc.answers.training_memory import FUSED_TAKE_LESS, OWN_CODE
from tfcalc.answers.verdict import Fit, memory_within
from tfcalc.core.traced import EFFORT, ends_within, value_of
from tfcalc.defaults import in_llama_cpp, served_dtype
from tfcalc.errors import TfcalcError
from tfcalc.hardware import Accelerator, named
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import Training
from tfcalc.report.declared import Answer, Key, Record, Told, integer, records, text, texts
from tfcalc.report.opening import count, found, given, total
from tfcalc.report.sheet import NOT_YET, Cell, Column, InUnit, Sheet, later, of
from tfcalc.search.gpus import ANY_CARD, SAID, Capacity, common, of_accelerator, of_card
from tfcalc.search.remedies import SHORTEST
from tfcalc.serving.weight_formats import MixedFormat, format_named
from tfcalc.training.peaks import Peaks
from tfcalc.workload import Conventions

if TYPE_CHECKING:
    from tfcalc.answers.memory_base import Memory
    from tfcalc.model import Model
    from tfcalc.plans import Serving
    from tfcalc.search.remedies import Remedies, Remedy
    from tfcalc.workload import Workload


ALL_TRIED = "whatever is changed but the length and the number of GPUs"
"""How far an impossibility goes: what :mod:`tfcalc.search.remedies` changes of a run on GPUs that are there."""
ALL_TRIED_OF_SERVING = f"whatever is changed but the number of GPUs, down to a context of {SHORTEST:,} tokens"
"""The same of serving, where a shorter context is a change, too."""


class VerdictOnCard:
    """A verdict on GPUs of one kind: as asked, or with the cheapest change that makes it fit."""

    def __init__(
        self, card: Capacity, accelerator: Accelerator, within: Callable[[Capacity], Memory], *, grows: bool = True
    ) -> None:
        self.card, self.accelerator, self._within = card, accelerator, within
        self.grows = grows
        """Whether more GPUs than were asked for are a change."""

    @cached_property
    def judge(self) -> Fit:
        """The verdict of ``memory --gpu``."""
        judge = self._within(self.card).judge
        assert isinstance(judge, Fit)
        return judge

    @property
    def status(self) -> str:
        """State of the verdict as asked."""
        return self.judge.status

    @cached_property
    def _search(self) -> Remedies:
        return self.judge.case.cheapest(grows=self.grows)

    @cached_property
    def remedy(self) -> Remedy | None:
        """The cheapest change that makes it fit, where it does not as asked."""
        return None if self.judge.fits else next((one for one in self._search.found if one.fits), None)

    @property
    def answers(self) -> bool:
        """Return whether there is a verdict on this card: some formats are not computed on it."""
        try:
            return bool(self.judge)
        except TfcalcError:
            return False

    @property
    def possible(self) -> bool:
        """Return whether it fits, as asked or changed."""
        return self.judge.fits or self.remedy is not None

    @property
    def may_fit_fused(self) -> bool:
        """Return whether nothing makes it fit in PyTorch's own code alone, which fused kernels take less than."""
        return not self.possible and self.judge.in_own_code_alone(self._search.found)

    @property
    def searched(self) -> bool:
        """Return whether it fits, or all changes were tried, so that nothing makes it fit."""
        return self.possible or self._search.ended

    @property
    def flags(self) -> str:
        """Return what to add so that it fits."""
        return "" if self.remedy is None else " ".join(self.judge.case.flags(self.remedy.change))

    @property
    def peak(self) -> int:
        """Bytes of the peak of what runs."""
        return self.judge.report.answer if self.remedy is None else self.remedy.total

    @cached_property
    def ran(self) -> tuple[Workload, Any]:
        """The workload and the plan that run."""
        run, plan = self.judge.case.run, self.judge.case.plan
        if self.remedy is not None:
            run, plan = self.remedy.change.applied(run), self.remedy.change.applied(plan)
        return run, plan

    @property
    def memory(self) -> AskedNumber:
        """The peak, in the answer to what memory this takes."""
        run, plan = self.ran
        model = self.judge.case.model
        if isinstance(plan, Training):
            return Question("memory", model, run, training=plan).number()
        return Question("memory", model, serving=plan).number()

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return value_of(self.judge.case.plan.gpus or self.card.gpus)

    @property
    def usable(self) -> int:
        """Bytes that a process can use of the GPU, in serving those that an engine takes."""
        return self.judge.budget.bytes


class VerdictKeys(Record):
    """Verdict on GPUs of one kind."""

    gpu = text("the GPU", lambda one: one.accelerator.name)
    gpus = integer("GPUs in all", lambda one: one.gpus, found("as asked, or as many as the change takes"))
    status = text("the verdict as asked: fits, tight, risky, no", lambda one: one.status)
    change = text("the cheapest change that makes it fit; empty where it fits", lambda one: one.flags)
    peak_bytes = integer(
        "bytes of the peak of what runs",
        lambda one: one.peak,
        Told(lambda one: one.source.memory),
    )


class CardKeys(VerdictKeys):
    """Verdict on one of the common GPUs, and what it has."""

    memory = text("its memory, as its maker states it", lambda one: one.accelerator.memory)
    usable_bytes = integer(
        "bytes that a process can use of it, in serving those that an engine takes",
        lambda one: one.usable,
        given("given by hardware.csv, less what the driver's context takes"),
    )
    free_bytes = integer("bytes that are left", total(".usable_bytes", less=".peak_bytes"))


class FitQuestion(NamedTuple):
    """Question of which GPUs hold a model: trained by a plan of training, or served by one of serving.

    Attributes:
        model: the model.
        workload: batch and length of a step.
        training: how it is trained; None where it is served.
        serving: how it is served; None where it is trained.
        units: of what is printed.
        cards: GPUs that are asked about; by default the common ones.
    """

    model: Model
    workload: Workload | None = None
    training: Training | None = None
    serving: Serving | None = None
    units: str = "iec"
    cards: tuple[Capacity, ...] = ()


class FitTable(Answer):
    """The common GPUs on which a model fits, the smallest first, as asked or with the cheapest change."""

    command: ClassVar[str] = "fit"
    about: ClassVar[str] = "Which common GPUs a model fits on, trained or served, and with which change."

    cards = records(CardKeys, "the GPUs on which it fits, the smallest first", lambda answer: answer.fitting)
    fitting_count = integer(
        "how many of the common GPUs it fits on, as asked or changed",
        lambda answer: len(answer.fitting),
        count("the GPUs that are listed"),
    )
    too_small = texts("common GPUs on which nothing that was tried makes it fit", lambda answer: answer.small)
    may_fit = texts(
        "common GPUs on which nothing makes it fit in PyTorch's own code; fused kernels, not modelled, take less",
        lambda answer: answer.perhaps,
    )
    not_computed = texts("common GPUs that do not compute in its format", lambda answer: answer.other)
    not_searched = texts(
        "common GPUs on which not all changes were tried, and none makes it fit", lambda answer: answer.rest
    )

    def __init__(self, question: FitQuestion) -> None:
        self.question = question

    @cached_property
    def _asked(self) -> tuple[list[VerdictOnCard], list[VerdictOnCard]]:
        """The common GPUs that have a verdict, and those that have none."""
        with_verdict: list[VerdictOnCard] = []
        without: list[VerdictOnCard] = []
        for one in self._all():
            answered = _computed_on(self.question, one.accelerator) and one.answers
            (with_verdict if answered else without).append(one)
        if not with_verdict:
            assert without[0].judge  # why there is none is raised here
        return with_verdict, without

    def _all(self) -> Iterator[VerdictOnCard]:
        """Yield the question on each GPU that is asked about; more GPUs are no change."""
        for card, accelerator in cards_of(self.question.cards):
            yield VerdictOnCard(card, accelerator, self._within, grows=False)

    @cached_property
    def _peaks(self) -> Peaks:
        return Peaks(self.question.model)

    def _within(self, card: Capacity) -> Memory:
        question = self.question
        return memory_within(
            question.model,
            card,
            question.workload,
            Conventions(units=question.units),
            training=question.training,
            serving=question.serving,
            peaks=self._peaks,
        )

    @cached_property
    def _searched(self) -> tuple[list[VerdictOnCard], list[VerdictOnCard]]:
        return searched(self._asked[0])

    @cached_property
    def fitting(self) -> list[VerdictOnCard]:
        """The common GPUs on which it fits, the smallest first."""
        return [one for one in self._searched[0] if one.possible]

    @property
    def small(self) -> list[str]:
        """Names of those on which it does not, whatever is changed."""
        return [one.accelerator.name for one in self._searched[0] if not one.possible and not one.may_fit_fused]

    @property
    def perhaps(self) -> list[str]:
        """Names of those on which it does not in PyTorch's own code, and may by fused kernels."""
        return [one.accelerator.name for one in self._searched[0] if one.may_fit_fused]

    @property
    def rest(self) -> list[str]:
        """Names of those for which no time was left."""
        return [one.accelerator.name for one in self._searched[1]]

    @property
    def other(self) -> list[str]:
        """Names of those that do not compute in its format."""
        return [one.accelerator.name for one in self._asked[1]]

    @property
    def succeeded(self) -> bool:
        """Return whether it can fit on one of them."""
        return later(lambda: bool(self.fitting), True)

    @property
    def heading(self) -> str:
        """The model, and how it is trained or served."""
        judged = self._asked[0]
        return judged[0].judge.subtitle if judged else self.question.model.summary

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definitions of what was asked, on the first GPU."""
        judged = self._asked[0]
        return judged[0].judge.report.definitions if judged else {}

    def sheet(self) -> Sheet:
        """A row for each GPU on which it fits; before these are found, what it takes of each."""
        return later(self._in_full, None) or self._before_the_rest()

    def _before_the_rest(self) -> Sheet:
        rows = [_of_sizes(one, one.judge.report.answer, NOT_YET, NOT_YET) for one in self._asked[0]]
        return Sheet(f"{NOT_YET} which of these GPUs hold it", COLUMNS, rows, None, self.heading)

    def _in_full(self) -> Sheet:
        return Sheet(
            title=self._title(),
            subtitle=self.heading,
            columns=COLUMNS,
            rows=[_row(one, place) for place, one in enumerate(self.fitting)],
            quiet="\n".join(one.accelerator.name for one in self.fitting),
            notes=tuple(self._notes()),
            see_also=("--gpu NAME (what else would fit)", *self._further(), "tfcalc gpus", "--json"),
        )

    def _further(self) -> Iterator[str]:
        """Commands that tell the time of a training, and how many GPUs it needs where no one has room."""
        if self.question.training is None:
            return
        if not any(one.judge.fits for one in self.fitting):
            yield "tfcalc plan MODEL --gpu h100 (how many)"
        yield "tfcalc train MODEL --tokens 100M (hours, cost)"

    @property
    def _all_tried(self) -> str:
        return ALL_TRIED if self.question.serving is None else ALL_TRIED_OF_SERVING

    @property
    def _none(self) -> str:
        return "none of these GPUs" if self.question.cards else "no common GPU"

    def _title(self) -> str:
        """``Fits on A100-SXM-80 (80 GB) and larger; with --qlora 16 on RTX-3060 (12 GB)``."""
        asked = next((one for one in self.fitting if one.judge.fits), None)
        changed = next((one for one in self.fitting if not one.judge.fits), None)
        if asked is None and changed is None:
            code = f" in {OWN_CODE}" if self.perhaps else ""
            return f"Fits on {self._none}{of_those_searched(self.rest)}{code}, {self._all_tried}"
        first = f"Fits on {_named(asked)} and larger" if asked else f"Fits on {self._none} as asked"
        return f"{first}; with {changed.flags} on {_named(changed)}" if changed else first

    def _notes(self) -> Iterator[str]:
        if self.small:
            yield f"Too small, {self._all_tried}: {', '.join(self.small)}"
        if self.perhaps:
            yield f"Too small for {OWN_CODE}; {FUSED_TAKE_LESS}: {', '.join(self.perhaps)}"
        if self.other:
            yield f"Not computed in its format on: {', '.join(self.other)}"
        yield from not_searched(self.rest)


def of_those_searched(rest: Sequence[str]) -> str:
    """Words for the GPUs that an impossibility leaves out."""
    return " that was searched" * bool(rest)


def not_searched(rest: Sequence[str]) -> Iterator[str]:
    """Yield which GPUs a table has no answer for, and where there is one."""
    if rest:
        yield f"Not all changes were tried on: {', '.join(rest)} (--gpu NAME asks about one alone)"


def cards_of(asked: Sequence[Capacity]) -> list[tuple[Capacity, Accelerator]]:
    """Return the GPUs that are asked about, or the common ones, with what is known of each; the smallest first."""
    named = [(card, named_card(card)) for card in asked]
    return sorted(named or [(of_accelerator(card), card) for card in common()], key=lambda each: each[0].bytes)


V = TypeVar("V", bound=VerdictOnCard)

TABLE_UNITS = 330_000
"""What the changes of a table may take (:mod:`tfcalc.core.traced`), so that it is there in seconds."""


def searched(asked: Sequence[V]) -> tuple[list[V], list[V]]:
    """Return the GPUs on which it fits or all changes were tried, and those for which no time was left.

    ``asked`` are in order of size. The largest come first: few changes are tried where there is room.
    """
    found, left, begun = list[V](), list[V](), EFFORT.spent
    for one in reversed(asked):
        ended = ends_within(TABLE_UNITS - (EFFORT.spent - begun), lambda: one.searched)  # noqa: B023  # called at once
        (found if ended and one.searched else left).append(one)
    return found[::-1], left[::-1]


def named_card(card: Capacity) -> Accelerator:
    """Return the accelerator of the name that a card has."""
    return named(card.card)[0]


def _computed_on(question: FitQuestion, card: Accelerator) -> bool:
    """Return whether a GPU computes in the format that the model is served in; a training's verdict says it itself.

    llama.cpp's kernels convert its formats to what any GPU multiplies (ggml-cuda).
    """
    if question.serving is None:
        return True
    asked = question.serving.weights
    by_llama_cpp = isinstance(format_named(asked), MixedFormat) if asked else in_llama_cpp(question.model)
    return by_llama_cpp or served_dtype(question.model) in card.peaks


def _named(one: VerdictOnCard) -> str:
    name, memory = name_of(one), one.accelerator.memory
    return name if memory in name else f"{name} ({memory})"


def name_of(one: VerdictOnCard, gpus: int = 0) -> str:
    """``H100-SXM``, ``8 x H100-SXM``, of as many as run it or of another number; by its memory alone ``24 GB card``."""
    name, gpus = one.accelerator.name.replace(ANY_CARD, f"{one.accelerator.memory} card"), gpus or one.gpus
    return f"{gpus} x {name}" if gpus > 1 else name


def _row(one: VerdictOnCard, place: int) -> Sequence[Cell]:
    return _of_sizes(one, one.peak, SAID[one.status].lower(), one.flags, FitTable.cards, place)


def _of_sizes(one: VerdictOnCard, peak: int, as_asked: str, change: str, *at: Key[Any] | int) -> Sequence[Cell]:
    """The row of a GPU, with its numbers at these keys of the answer, where they are there."""
    sizes = {CardKeys.peak_bytes: peak, CardKeys.usable_bytes: one.usable, CardKeys.free_bytes: one.usable - peak}
    cells = {key: InUnit(size, "GiB") for key, size in sizes.items()}
    return [name_of(one), as_asked, change, *(of(cell, *at, key) if at else cell for key, cell in cells.items())]


COLUMNS = (
    Column("GPU", numeric=False),
    Column("as asked", numeric=False, spare=1),
    Column("change", numeric=False, folds=True),
    Column("peak GiB"),
    Column("usable"),
    Column("free", spare=2),
)


def fit(
    model: Model | str,
    workload: Workload | int | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    cards: Sequence[str] = (),
    **words: Any,
) -> FitTable:
    """Find the common GPUs on which a model fits, trained or served, and with which change.

    Args:
        model: as in :func:`~tfcalc.memory`.
        workload: as in :func:`~tfcalc.memory`.
        training: how it is trained; by default all weights, with AdamW, unless it is served.
        serving: how it is served, instead.
        cards: names of the GPUs to ask about (``["h100", "2xl40s"]``); by default the common ones.
        words: as in :func:`~tfcalc.memory`.

    Returns:
        FitTable: ``cards``, the smallest first: the verdict, the cheapest change that makes it fit, bytes.

    Raises:
        InvalidModel: as :func:`tfcalc.memory`.
        UsageError: both a training and a serving plan. :func:`~tfcalc.fits` asks about one GPU.

    >>> fit("gpt2", lora=8, seq_len=64).cards[0].gpu
    'RTX-4060'
    """
    words = words if serving is not None or SERVE in words else {TRAIN: True, **words}
    asked = in_words(model, workload, training, serving, words)
    named = tuple(of_card(name, instead="") for name in cards)
    return FitTable(FitQuestion(asked.model, asked.workload, asked.training, asked.serving, cards=named))
