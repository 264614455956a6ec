"""Records that answers about layouts share: a layout, where its seconds go, and what it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from tfcalc.answers.plan_commands import commands_of, filled
from tfcalc.answers.ranks import LayoutKeys, ReservedKeys
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.declared import Answer, Key, Record, Told, When, boolean, integer, number, record, text, texts
from tfcalc.report.opening import found, given, ratio, total
from tfcalc.report.sheet import Cell, Column, InUnit, Rounded, Share, of
from tfcalc.search.gpus import FITTING, SAID
from tfcalc.search.layouts import ALIKE, ChosenLayout, EvaluatedLayout, unsaid_stage
from tfcalc.search.possible import are_uneven
from tfcalc.timing.rates import STACKS
from tfcalc.timing.step import MEANINGS
from tfcalc.units import short, short_bytes

if TYPE_CHECKING:
    from tfcalc.answers.plan_case import PlanCase
    from tfcalc.training.measured import Figure

ESTIMATED = "by rates fitted to published runs (rates.toml), or those of --rates"
BY_CLOSED_FORM = found("by the closed form")
BY_TAPE = found("by memory --train, which runs a step on a tape; where it knows no such step, by the closed form")
STATUS = "fits; tight: with less than the margin to spare; risky: it may run out of memory; no: by memory's rule"
GIB = 2**30
AT_ONCE = 10_000
"""Rows that are written together."""
FULL = {"again": "full_checkpointing"}
"""Columns of a file with other names than their axes."""
SHARED = When(lambda at: at.shards is not None)
MODULES_AGAIN = When(lambda at: bool(at.modules))
UNEVEN = When(lambda one: one.uneven)


class PlannedLayout(LayoutKeys):
    """Shares of the model and of the batch, and what a GPU does at once."""

    micro_batch = integer("sequences at once", lambda at: at.micro_batch, found("tried, or given"))
    zero = integer("stage of ZeRO", lambda at: at.zero, found("tried, or given"))
    replicas = integer(
        "replicas of whole shards (HSDP); 1 where all GPUs with the same weights share them (FSDP)",
        lambda at: at.dp * at.cp // at.shards,
        found("tried, or given"),
        when=SHARED,
    )
    shards = integer(
        "GPUs over which parameters, gradients and states are sharded",
        lambda at: at.shards,
        found("GPUs with the same weights, over the replicas"),
        when=SHARED,
    )
    recompute = text("checkpointing", lambda at: at.recompute)
    recompute_modules = texts(
        "modules of each layer that backward runs again, where it is not whole layers",
        lambda at: at.modules,
        when=MODULES_AGAIN,
    )

    @property
    def words(self) -> str:
        """``tp2 pp8x10 cp2 dp32``: the degrees above 1."""
        at = self
        replicas = at.replicas if at.source.shards is not None else 1
        usual = unsaid_stage(sharded=at.source.shards is not None)
        said = (
            f"tp{at.tp}" * (at.tp > 1),
            (f"pp{at.pp}" + f"x{at.vpp}" * (at.vpp > 1)) * (at.pp > 1),
            f"cp{at.cp}" * (at.cp > 1),
            f"ep{at.ep}" * (at.ep > 1),
            f"etp{at.etp}" * (at.etp > 1),
            f"dp{at.dp}",
            f"hsdp{replicas}" * (replicas > 1),
            f"b{at.micro_batch}" * (at.micro_batch > 1),
            f"zero{at.zero}" * (at.zero != usual and at.dp * at.cp > 1),
            at.recompute * (at.recompute != "none"),
        )
        return " ".join(filter(None, said))


def _part(name: str) -> Key[float]:
    return number(f"seconds of {MEANINGS[name]}", lambda parts: float(getattr(parts, name)), found(ESTIMATED))


class PartsKeys(Record):
    """Parts of the seconds of a step; their sum is the step."""

    products_seconds = _part("products")
    attention_seconds = _part("attention")
    experts_seconds = _part("experts")
    elementwise_seconds = _part("elementwise")
    host_seconds = _part("host")
    recomputation_seconds = _part("recomputation")
    tensor_parallel_seconds = _part("tensor_parallel")
    context_parallel_seconds = _part("context_parallel")
    expert_parallel_seconds = _part("expert_parallel")
    bubble_seconds = _part("bubble")
    data_parallel_seconds = _part("data_parallel")
    optimizer_seconds = _part("optimizer")
    jitter_seconds = _part("jitter")


class BandKeys(Record):
    """Errors of published runs of the same class, their sources left out of the fit."""

    class_ = text("class of runs: dense, experts, other, measured", lambda band: band.kind)
    percent_p50 = number("half of them were closer, in per cent", lambda band: 100 * band.typical, found("learned"))
    percent_p90 = number("nine of ten were closer, in per cent", lambda band: 100 * band.most, found("learned"))
    rows = integer("runs of this class", lambda band: band.runs, found("counted"))


class LayoutOfCase(NamedTuple):
    """A layout with what it takes, in a case."""

    case: PlanCase
    one: EvaluatedLayout
    by_tape: bool = True

    @property
    def peak(self) -> int:
        """Bytes of the fullest device: by the tape where that knows them, unless the closed form is asked for."""
        return self.case.peak(self.one) if self.by_tape else int(self.one.memory)

    @property
    def reserved(self) -> Figure:
        """Bytes that PyTorch reserves, with their band."""
        return self.case.reserved(self.one, by_tape=self.by_tape)

    @property
    def simulated(self) -> bool:
        """Return whether the caching allocator was simulated."""
        return self.by_tape and self.case.simulated(self.one) is not None

    @property
    def status(self) -> str:
        """State of the verdict; of the closed form by the bands of published runs."""
        return self.case.status(self.one) if self.by_tape else self.case.rule.status(int(self.one.memory))

    @property
    def memory_in_words(self) -> str:
        """``FITS, TIGHTLY: allocated 70.9, reserved 73.5 (71.3 to 77.9) of 78.4 GiB usable, by …``."""
        typical, *band = self.reserved
        sizes = (self.peak, typical, *band, self.case.usable)
        peak, reserved, low, high, usable = (f"{size / GIB:,.1f}" for size in sizes)
        by = "PyTorch's allocator simulated" if self.simulated else "an estimate, by published runs"
        said = f"allocated {peak}, reserved {reserved} ({low} to {high}) of {usable} GiB usable"
        beyond = self.case.fits(self.one) and typical > self.case.usable
        more = ", without a limit, near which it gives back what is free" * beyond
        return f"{SAID[self.status]}: {said}; reserved is {by}{more}"

    @property
    def seconds(self) -> float:
        """Seconds of a step, scaled."""
        return self.case.seconds(self.one)

    @property
    def behind(self) -> float:
        """Share of the fastest's step by which it is slower."""
        return float(self.one.seconds) / float(self.case.best.seconds) - 1

    @property
    def uneven(self) -> bool:
        """Return whether the layers do not divide over its stages, or over their chunks."""
        depth, at = self.case.work.depth, self.one.layouts
        return depth % int(at.pp) != 0 or are_uneven(depth, int(at.pp), int(at.vpp))

    @property
    def ends(self) -> str:
        """Options of ``ranks`` that say how layers fill its stages, or Megatron-core's layout of uneven chunks."""
        return filled(self.case.work.depth, int(self.one.layouts.pp), int(self.one.layouts.vpp))


class ListedLayout(Record):
    """A layout with what it takes."""

    layout = record(PlannedLayout, "the layout", lambda listed: listed.one.layouts)
    stages = text(
        "how layers that do not divide fill the stages: options of ranks, or of Megatron-core where chunks are uneven",
        lambda listed: listed.ends,
        when=UNEVEN,
    )
    commands = texts(
        "commands that open it: the plan of this layout alone, ranks, and memory where it knows the layout",
        lambda listed: tuple(commands_of(listed.case, listed.one.layouts)),
    )
    step_seconds = number("seconds of a step", lambda listed: listed.seconds, found(ESTIMATED))
    behind = number(
        "how much longer its step takes than the fastest one's, as a share of that",
        lambda listed: listed.behind,
        found("its step over the fastest one's, less 1"),
    )
    equal = boolean(
        "whether that is nothing, as far as the estimate can tell", lambda listed: abs(listed.behind) <= ALIKE
    )
    tokens_per_second_per_gpu = number(
        "of a GPU",
        lambda listed: listed.case.rate(listed.seconds),
        ratio("tokens_per_step", over=(".step_seconds", "gpus")),
        found("tokens of a step over its seconds and GPUs"),
    )
    mfu = number(
        "model FLOPs utilisation: all pairs of attention, nothing recomputed, dense 16-bit peak",
        lambda listed: listed.case.mfu(listed.seconds),
        found("FLOPs per token times tokens per second and GPU, over the dense 16-bit peak"),
    )
    peak_bytes = integer("bytes of the fullest GPU", lambda listed: listed.peak, BY_TAPE)
    closed_form_bytes = integer(
        "these bytes by the closed form, by which layouts are searched",
        lambda listed: int(listed.one.memory),
        BY_CLOSED_FORM,
    )
    reserved = record(ReservedKeys, "what PyTorch reserves", lambda listed: listed)
    status = text(STATUS, lambda listed: listed.status)
    spare_bytes = integer(
        "usable bytes less these",
        lambda listed: listed.case.usable - listed.peak,
        total("usable_bytes", less=".peak_bytes"),
        found("what is usable of its GPU, less these"),
    )

    def cells(self, *at: Key[Any] | int) -> list[Cell]:
        """Its row in a table: that of the layout at these keys of the answer."""
        return [
            self.layout.words,
            of(Rounded(self.step_seconds), *at, ListedLayout.step_seconds),
            self._behind,
            of(Rounded(self.tokens_per_second_per_gpu), *at, ListedLayout.tokens_per_second_per_gpu),
            of(Share(round(1e6 * self.mfu), 10**6), *at, ListedLayout.mfu),
            of(InUnit(self.peak_bytes, "GiB"), *at, ListedLayout.peak_bytes),
            of(InUnit(self.spare_bytes, "GiB"), *at, ListedLayout.spare_bytes),
        ]

    @property
    def taken(self) -> str:
        """``74.4 GiB, 2.77 s a step``."""
        return f"{short_bytes(self.peak_bytes, 'iec')}, {seconds_in_words(self.step_seconds)} a step"

    @property
    def _behind(self) -> str:
        """Distance from the fastest that fits, where one does."""
        if not self.source.case.fits(self.source.case.best):
            return "-"
        return "equal" if abs(self.behind) <= ALIKE else f"{self.behind:+.1%}".replace("%", " %")


COLUMNS = (
    Column("layout", numeric=False),
    Column("step s"),
    Column("behind", spare=2),
    Column("tok/s/GPU", spare=1),
    Column("MFU", spare=3),
    Column("GiB"),
    Column("spare"),
)


class LayoutColumn(NamedTuple):
    """Column of a file of layouts: its values, and their unit; "" of a plain number."""

    values: Sequence[Any]
    unit: str = ""


USUAL = "about 4M, as no --global-batch is given"
"""Where a plan's batch is from that nobody gave."""


class PlanAnswer(Answer):
    """Answer about layouts of a model over GPUs."""

    command = "plan"
    about = "How GPUs should share a model in training, how long a step takes, and what a run costs."
    exclusive = True

    gpu = text("the GPU", lambda plan: plan.question.card.name)
    gpus = integer("GPUs in all", lambda plan: plan.question.gpus, given("given by --gpus, or found for --budget-days"))
    stack = text("whose code runs", lambda plan: plan.question.stack)
    precision = text("number format of the matrix products", lambda plan: plan.question.precision)
    states = text(
        "number formats of weights, gradients and optimizer, a precision of memory --train",
        lambda plan: plan.question.states,
        when=When(lambda plan: plan.question.stack == STACKS[0]),
    )
    global_batch_size = integer(
        "sequences of an optimizer step, over all GPUs",
        lambda plan: plan.question.sequences,
        Told(lambda plan: given(USUAL if plan.question.usual_batch else "given by --global-batch-size")),
    )
    seq_len = integer("tokens of a sequence", lambda plan: plan.question.length, given("given by --seq"))
    tokens_per_step = integer("tokens of an optimizer step, over all GPUs", ratio("global_batch_size", "seq_len"))
    usable_bytes = integer(
        "bytes of the GPU that a process can use",
        lambda plan: plan.case.usable,
        found("the driver's figure less its context"),
    )

    def __init__(self, case: PlanCase) -> None:
        self.case, self.question = case, case.question

    @property
    def heading(self) -> str:
        """The model and the machine."""
        question = self.question
        tokens = question.tokens_per_step
        batch = f"{question.sequences:,} x {question.length:,} = {tokens:,} tokens a step"
        why = f" ({USUAL})" * question.usual_batch
        if question.asked_tokens not in (None, tokens):
            why = f" ({short(question.asked_tokens)} in whole sequences that many copies can share)"
        return f"{question.model.summary} on {question.gpus:,} x {question.card.name}, {batch}{why}"

    def columns(self) -> Mapping[str, LayoutColumn]:
        """Return the axes of all layouts that were searched, bytes of the fullest GPU, and seconds of a step."""
        found, room, scale = self.case.found, self.case.room, self.case.scale
        axes = {FULL.get(name, name): LayoutColumn(found.column(name)) for name in ChosenLayout._fields}
        taken, seconds = found.column("memory"), found.column("seconds")
        return {
            **axes,
            "closed_form_bytes": LayoutColumn([int(one) for one in taken], "bytes"),
            "fits": LayoutColumn([one <= room for one in taken]),
            "step_seconds": LayoutColumn([one * scale for one in seconds], "seconds"),
        }

    def csv(self) -> Iterator[str]:
        """A line of names, then a line for each layout: many lines at once."""
        columns = self.columns()
        yield ",".join(columns)
        rows = zip(*(column.values for column in columns.values()), strict=True)
        while some := list(islice(rows, AT_ONCE)):
            yield "".join("\n" + ",".join(map(_plain, row)) for row in some)


def _plain(value: float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


class OneLayout(PlanAnswer):
    """Answer about ``one`` layout."""

    one: EvaluatedLayout

    step_seconds = number("seconds of a step: an estimate", lambda plan: plan.seconds_of_step, found(ESTIMATED))
    peak_bytes = integer("bytes of the fullest GPU", lambda plan: plan.case.peak(plan.one), BY_TAPE)
    closed_form_bytes = integer(
        "these bytes by the closed form, by which layouts are searched",
        lambda plan: int(plan.one.memory),
        found("weights, gradients, optimizer, what is saved for backward, and the loss of the fullest stage"),
    )
    reserved = record(ReservedKeys, "what PyTorch reserves", lambda plan: plan.in_case)
    status = text(STATUS, lambda plan: plan.in_case.status)
    fits = boolean("whether it fits, tightly or with room to spare", lambda plan: plan.in_case.status in FITTING)

    @property
    def in_case(self) -> LayoutOfCase:
        """The layout in its case."""
        return LayoutOfCase(self.case, self.one)

    @property
    def beyond(self) -> int:
        """Bytes beyond the usable."""
        return self.peak_bytes - self.usable_bytes


def seconds_in_words(seconds: float) -> str:
    """``16.1 s``, ``48 ms``."""
    if abs(seconds) < 0.1:
        return f"{1000 * seconds:,.3g} ms"
    return f"{seconds:,.3g} s" if abs(seconds) < 1000 else f"{seconds:,.0f} s"
