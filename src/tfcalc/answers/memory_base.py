"""Memory as an answer: its keys at rest, in training, in serving, and where it is compared with a budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tfcalc.core.component import Component
from tfcalc.core.measure import bytes_held, of_formulas, of_numbers
from tfcalc.core.traced import value_of
from tfcalc.errors import UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.report import Entry, Report, Summary, breakdown
from tfcalc.report.declared import (
    TOGETHER,
    ByForm,
    Record,
    Told,
    When,
    boolean,
    integer,
    number,
    optional,
    record,
    records,
    text,
    texts,
)
from tfcalc.report.opening import Constant, Rule, found, given, total
from tfcalc.report.sheet import Bytes, Cell, Column, Share, of
from tfcalc.training.measured import Figure, OnCard, bands
from tfcalc.training.optimizers import optimizer
from tfcalc.units import short_bytes
from tfcalc.workload import Conventions

if TYPE_CHECKING:
    from tfcalc.analysis.itemized import Tree
    from tfcalc.core.component import Node
    from tfcalc.core.number import Num
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.report.derivation import Derivation
    from tfcalc.report.opening import Way
    from tfcalc.report.paths import Step
    from tfcalc.report.sheet import Sheet
    from tfcalc.search.gpus import Capacity
    from tfcalc.workload import Workload


TERMS = {
    "weights": "weights",
    "master weights": "master weights",
    "optimizer": "optimizer states",
    "gradients": "gradients",
    "activations": "activations",
    "gathered": "gathered weights",
    "communication": "DDP buckets",
    "cache": "KV cache",
    "buffers": "buffers",
    "buffers and inputs": "inputs and buffers",
    "workspaces": "cuBLAS workspaces",
    "outputs": "logits not freed",
    "temporary": "temporary buffers",
}
"""What the terms are called, in the order of the table."""
KINDS = {"ffn": "MLP", "norm": "norms", "experts": "experts", "embedding": "embeddings"}
OF_NO_PART = {"activations": "others"}
"""What a layer saves outside of its parts, which is not called activations once more."""
LEAST = 0.0005
"""Of the peak: what rounds to 0.1 % or more stands in the table."""
COLUMNS = (
    Column("", numeric=False),
    Column("", spare=1),
    Column(""),
    Column("", spare=2),
    Column("", numeric=False, folds=True, spare=3),
)


def training_summary(
    whole: Entry, totals: dict[str, int | str], params: int, subtitle: str, units: str, *, stepped: bool = False
) -> Summary:
    """The terms of a training step at its peak, each with its bytes per parameter, or with what it is spent on.

    Where parameters are ``stepped`` in backward there are gradients of one tensor at a time.
    """
    live = {entry.name: entry for entry in whole.parts}
    rows: list[tuple[Cell, ...]] = []
    for name, called in TERMS.items():
        size = live[name].value if name in live else 0
        amount = _of_term(live[name]) if name in live else Bytes(0)
        stored = totals.get(STORED.get(name, ""), 0)
        if name == "gradients" and stepped:
            told = f"one tensor at a time, the largest of {short_bytes(int(stored), units)}"
            rows.append((called, "", amount, Share(size, whole.value), told))
        elif name in PER_PARAMETER and stored:
            later = f"({short_bytes(int(stored), units)} in the optimizer step)" if size != stored else ""
            rows.append((called, f"{int(stored) / params:.3g} B/param", amount, Share(size, whole.value), later))
        elif name == "activations" and stored:
            released = int(stored) - size
            parts = f"of {short_bytes(int(stored), units)} saved for backward"
            told = parts if released * 100 > int(stored) else _spent_on(live[name], units)
            rows.append((called, "", amount, Share(size, whole.value), told))
        elif size >= LEAST * whole.value and size:
            rows.append((called, "", amount, Share(size, whole.value), _largest(live[name])))
    return Summary(COLUMNS, tuple(rows), subtitle)


STORED = {
    "weights": "weights_bytes",
    "master weights": "master_weights_bytes",
    "optimizer": "optimizer_bytes",
    "gradients": "gradients_bytes",
    "activations": "activations_bytes",
}
PER_PARAMETER = ("weights", "master weights", "optimizer", "gradients")


def serving_summary(whole: Entry, told: dict[str, str], subtitle: str) -> Summary:
    """The terms of serving at its peak, each with what it is stored in."""
    live = {entry.name: entry for entry in whole.parts}
    rows = [
        (called, "", _of_term(live[name]), Share(live[name].value, whole.value), told.get(name, ""))
        for name, called in TERMS.items()
        if name in live and live[name].value >= LEAST * whole.value
    ]
    return Summary(COLUMNS, tuple(rows), subtitle)


def _of_term(entry: Entry) -> Cell:
    return of(Bytes(entry.value), Report.components, entry.name, "bytes")


def _spent_on(entry: Entry, units: str) -> str:
    """``MLP 15.0 GiB, norms 6.09 GiB, attention 3.52 GiB``: the kinds of modules that saved most."""
    sums: dict[str, int] = {}
    for part in _ends(entry):
        sums[part.kind] = sums.get(part.kind, 0) + part.value
    largest = sorted(sums.items(), key=lambda item: -item[1])
    return ", ".join(
        f"{(KINDS | OF_NO_PART).get(kind, kind)} {short_bytes(size, units)}"
        for kind, size in largest[:MOST]
        if size >= entry.value // 100
    )


MOST = 4
"""Kinds that are told apart."""


def _largest(entry: Entry) -> str:
    """Return the name of a term's largest part, where it has parts."""
    return max(entry.parts, key=lambda part: part.value).name if entry.parts else ""


def _ends(entry: Entry) -> Iterator[Entry]:
    if entry.parts and entry.kind not in KINDS and entry.kind != "attention":
        for part in entry.parts:
            yield from _ends(part)
    else:
        yield entry


def called(model: Model) -> str:
    """Return what people call a model: its name, with what was changed of it, or what it is."""
    return getattr(model, "called", "") or model.summary


def of_training(model: Model, workload: Workload, plan: Training) -> str:
    """``llama-3-8b, full fine-tuning, bf16, AdamW, batch 1 x 4,096 tokens``; ``plan`` is resolved."""
    if plan.lora is None:
        kind = "partly frozen" if plan.freeze else "full fine-tuning" if getattr(model, "name", "") else "training"
    else:
        kind = f"{'Q' if plan.base_weights else ''}{'DoRA' if plan.dora else 'LoRA'} r={plan.lora}"
    micro = f", {plan.grad_accum:,} micro-batches" if plan.grad_accum != 1 else ""
    size = f"batch {workload.batch_size:,} x {workload.seq_len:,} tokens"
    steps = f"{optimizer(plan.optimizer).label}{' in backward' if plan.optimizer_in_backward else ''}"
    return f"{called(model)}, {kind}, {plan.precision}, {steps}, {size}{micro}{_on_gpus(workload, plan)}"


def _on_gpus(workload: Workload, plan: Training) -> str:
    """`` per GPU, 256 GPUs = TP 8 x FSDP 32, global batch 32 x 4,096 = 131,072 tokens``; nothing on one GPU."""
    if plan.size("gpus") == 1:
        return ""
    sharing = "FSDP" if plan.layout.startswith("fsdp") else f"ZeRO-{plan.zero}" if plan.zero != "0" else "DP"
    shared = plan.context_parallel != 1
    ways = {
        **{"TP": plan.tensor_parallel, "PP": plan.pipeline_parallel, "CP": plan.context_parallel},
        "DP" if shared else sharing: plan.data_parallel,
    }
    layout = " x ".join(f"{way} {size:,}" for way, size in ways.items() if size != 1)
    layout += f" ({sharing} {plan.copies:,})" * (shared and plan.zero != "0")
    batch = global_batch(workload, plan)
    tokens = f"global batch {batch:,} x {workload.seq_len:,} = {tokens_of_step(workload, plan):,} tokens"
    return f" per GPU, {plan.size('gpus'):,} GPUs = {layout}, {tokens}"


def global_batch(workload: Workload, plan: Training) -> Num:
    """Return the sequences of an optimizer step: of all micro-batches on all copies of the model."""
    return workload.batch_size * plan.grad_accum * plan.data_parallel


def tokens_of_step(workload: Workload, plan: Training) -> Num:
    """Return the tokens of an optimizer step."""
    return global_batch(workload, plan) * workload.seq_len


def of_serving(model: Model, workload: Workload, weights: str, more: str) -> str:
    """``llama-3-8b, weights in bf16, 4 requests of 8,192 tokens, paged KV cache in bf16``; the last part is given."""
    count = workload.batch_size
    requests = "1 request" if count == 1 else f"{count:,} requests"
    context = f"{requests} of {workload.size('cached'):,} tokens"
    return f"{called(model)}, weights in {weights}, {context}{more}"


def of_text_alone(model: Model) -> Iterator[str]:
    """A sentence on the parts of a model that read images or sounds: what they make is not counted."""
    parts = [part.name for part in model.module().beside_text]
    if parts:
        yield f"text only: the outputs of {' and '.join(parts)} are not counted"


def card_line(found: OnCard, units: str, tool: str = "nvidia-smi", most: tuple[int, int] | None = None) -> str:
    """``On the card: allocated 73.9-81.4, reserved 75.4-92.0, nvidia-smi 75.6-93.3 GiB``.

    The unit of the last band is that of the others, too; a band with another one, or with two, has its own. ``most`` is
    what a process, and all of them, can have of a card on which it runs.
    """
    if most is not None:
        of_process, of_all = most
        bounds = of_process, of_process, of_all
        found = OnCard(*(_up_to(bound, figure) for bound, figure in zip(bounds, found, strict=True)))
    *told, last = (_band(figure, units) for figure in found)
    unit = f" {last.rpartition(' ')[2]}"
    short = (text.removesuffix(unit) if text.count(" ") == 1 else text for text in told)
    names = (*FIGURES[:-1], tool)
    return f"On the card: {', '.join(f'{called} {text}' for called, text in zip(names, (*short, last), strict=True))}"


GRAPHS = "CUDA graphs"
"""What is not counted of an engine that serves."""
FIGURES = ("allocated", "reserved", "nvidia-smi")


def card_lines(found: OnCard, units: str) -> list[str]:
    """Return each figure with its number and its band.

    ``reserved 2.72 GiB (2.64-3.27 GiB): caching allocator, simulated``.
    """
    return [
        f"{called} {short_bytes(figure.bytes, units)} ({_band(figure, units)}): {what}"
        for called, what, figure in zip(FIGURES, MEASURED_AS, found, strict=True)
    ]


MEASURED_AS = (
    "torch.cuda.max_memory_allocated",
    "the caching allocator, simulated",
    "and the CUDA context with its libraries",
)


def card_assumptions() -> list[str]:
    """Return the measurements and the sources that the bands rest on."""
    by = bands()
    told = {name: f"{by[name].low - 1:+.0%} to {by[name].high - 1:+.0%}" for name in ("allocated", "reserved")}
    now, before = by["context"], by["old context"]
    return [
        f"allocated {told['allocated']}: the error of published peaks; reserved {told['reserved']}: measured over "
        "simulated, of two sources, the extremes of both (PyTorch's default allocator, without a limit)",
        f"nvidia-smi: CUDA context and libraries {now.low:,.0f} to {now.high:,.0f} MiB since CUDA 11.7, "
        f"{before.low:,.0f} to {before.high:,.0f} MiB before; by the sources in card_memory.csv",
    ]


def _up_to(most: int, figure: Figure) -> Figure:
    return Figure(*(min(size, most) for size in figure))


def _band(figure: Figure, units: str) -> str:
    low, high = (short_bytes(size, units) for size in (figure.low, figure.high))
    if low == high:
        return high
    number, unit = low.split(" ")
    return f"{number if unit == high.split(' ')[1] else low}-{high}"


def entries_in(tree: Component, depth: int | None) -> Entry:
    """The entries of a tree of plain numbers; with no ``depth`` layers and what is like them stay whole."""
    numbers = of_numbers(tree).root()
    return breakdown(numbers, numbers, bytes_held, {}, inside_blocks=depth is not None)


def memory_breakdown(tree: Component, depth: int | None) -> tuple[Entry, frozenset[str]]:
    """The entries of a tree whose sizes remember their formulas, and the letters of these.

    ``depth`` is how deep the answer goes; with None layers and what is like them stay whole.
    """
    numbers, formulas = of_numbers(tree).root(), of_formulas(tree).root()
    whole = breakdown(numbers, formulas, bytes_held, {"bytes": bytes_held}, inside_blocks=depth is not None)
    return whole, frozenset[str]().union(*(part.formula.free_symbols for part in whole.walk()))


PARTS = total("components[].bytes")
OF_BUFFERS = found("the numbers that are stored with the model and are no parameters, in 16 bits or more each")
LONGEST = "search: the largest round length that fits"
LONGEST_EXACT = "search: it fits, and one more token does not"
JUDGED = When(lambda memory: memory.judge is not None, "fits")
"""What an answer has where there is so much memory."""


def may_grow(name: str, anchor: str = "") -> When:
    """Return the condition that the largest size of this name is looked for."""
    return When(lambda memory: memory.judge is not None and name in memory.judge.sizes, anchor)


def largest(name: str) -> Any:
    """The largest value of a size to take."""
    return lambda memory: memory.judge.sizes[name].value


def exactly(name: str) -> Any:
    """The largest value of a length, to the token."""
    return lambda memory: memory.judge.sizes[name].exact


class MemoryTerm(NamedTuple):
    """The bytes of a term of a training step, or of serving, which are those of its tensors."""

    name: str

    def __call__(self, memory: Any) -> int:
        """The bytes of its component."""
        return value_of(memory.term(self.name).total(bytes_held))

    def of(self, memory: Any) -> TermOpened:
        """Its tensors."""
        return TermOpened(self.name, memory)


class TermOpened(NamedTuple):
    """A term of an answer, tensor by tensor."""

    name: str
    memory: Any
    sums: bool = True

    def opened(self, prefix: str, further: tuple[str, ...]) -> Any:
        """The tensors. Raises UsageError, as nothing lies behind them."""
        tree = self.memory.itemized
        both = zip(tree.node.below(), tree.twin.below(), strict=True)
        return _tensors(prefix, further, tree, next(pair for pair in both if pair[0].component.name == self.name))


class PartOpened(NamedTuple):
    """Tensors of a part that are live at the peak: the part and its twin in formulas, in their tree."""

    tree: Tree
    both: tuple[Node, Node]
    sums: bool = True

    def opened(self, prefix: str, further: tuple[str, ...]) -> Any:
        """The tensors. Raises UsageError, as nothing lies behind them."""
        return _tensors(prefix, further, self.tree, self.both)


def _tensors(prefix: str, further: tuple[str, ...], tree: Tree, both: tuple[Node, Node]) -> Any:
    from tfcalc.analysis.itemized import laid_out

    if further:
        raise UsageError(f"{quoted(further[0])} is not in {prefix}, which has no parts", "leave it out")
    return laid_out(prefix, "memory", tree, *both, 0, together=True)


class WithChange(Record):
    """Change that would make it fit."""

    change = text("in words", lambda one: one.remedy.change.name)
    flags = text("options to add", lambda one: " ".join(one.flags))
    total_bytes = integer("bytes with it", lambda one: one.remedy.total)
    headroom_bytes = integer("bytes to spare with it", total("budget_bytes", less=".total_bytes"))
    status = text("fits, tight, risky or no", lambda one: one.remedy.status)
    fits = boolean("whether it fits then", lambda one: one.remedy.fits)
    tight = boolean("whether it leaves less than the margin", lambda one: one.remedy.tight)

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:
        """The bytes are those of the same question with the change."""
        if steps == ("total_bytes",):
            yield OtherQuestion(f"the same question with {self.flags}", self.total_bytes, self.within)
        yield from super().origins(steps)


class OtherQuestion(NamedTuple):
    """The answer of the same command to another question, of which the words say enough."""

    what: str
    value: int
    memory: Any

    def opened(self, prefix: str, _: tuple[str, ...]) -> Derivation:
        """Its answer, as a term."""
        from tfcalc.report.derivation import Derivation, DerivationTerm

        return Derivation(
            heading=self.memory.heading,
            path=prefix,
            of="memory",
            value=self.value,
            how="answer",
            terms=(DerivationTerm("memory.total_bytes", self.value, self.what),),
            formula="",
            substituted="",
            note=f"total_bytes of {self.what}",
            model=dict(self.memory.model),
            conventions=dict(self.memory.conventions),
        )


class PagedRoom(Record):
    """The room for a paged cache, in the words of vLLM's log: at most, and on a card at least."""

    context = integer("tokens of a request", lambda room: room.context)
    block_bytes = integer("bytes of a block", lambda room: room.block_bytes)
    blocks = integer("blocks that there is room for", lambda room: room.blocks)
    tokens = integer("tokens that these hold", lambda room: room.tokens)
    concurrency = number("requests of this context that these hold", lambda room: room.concurrency)
    blocks_low = integer(
        "blocks, if an engine takes the most that was logged beside weights and a step", lambda room: room.blocks_low
    )
    tokens_low = integer("tokens that these hold", lambda room: room.tokens_low)
    concurrency_low = number("requests of this context that these hold", lambda room: room.concurrency_low)


LOG = found("the engine's own rule, of the card's memory, the weights and what its profile run says")


class EngineLog(Record):
    """The room for the cache by an engine's rules and its own profile run, as its log says it."""

    name = text("the engine", lambda log: log.rules.name)
    version = text("the version whose rules these are", lambda log: log.rules.version)
    dated = text("when they were read", lambda log: log.rules.dated)
    utilization = number("the share of the card's memory that it takes", lambda log: log.share, LOG)
    card_bytes = integer("the card's memory", lambda log: log.memory, given("the memory of --gpu"))
    loaded_bytes = integer("weights, with the angles of all positions", lambda log: log.weights, LOG)
    profiled_bytes = integer("peak of the profile run", lambda log: log.profile.profiled, given("given by --profiled"))
    nontorch_bytes = integer("memory outside PyTorch", lambda log: log.profile.nontorch, given("given by --nontorch"))
    graphs_bytes = integer("CUDA graphs", lambda log: log.profile.graphs, given("given by --graphs, or its default"))
    available_bytes = integer("left to the cache", lambda log: log.available, LOG)
    block_bytes = integer("bytes of a block", lambda log: log.block_bytes, LOG)
    blocks = integer("blocks that there is room for", lambda log: log.blocks, LOG)
    tokens = integer("the size of the cache in tokens, as this version counts it", lambda log: log.tokens, LOG)
    concurrency = number("requests of the context that it holds", lambda log: log.concurrency, LOG)
    lines = texts("the lines of its log", lambda log: log.lines)


class Judge(Protocol):
    """Verdict on the memory, compared with a budget: a :class:`~tfcalc.answers.verdict.Fit`."""

    in_a_line: bool
    strict: bool

    @property
    def counted(self) -> tuple[str, ...]:
        """Names of what the memory alone does not count, and the verdict does."""
        ...

    def sheet(self) -> Sheet:
        """Return it as people see it."""
        ...


def _of_budget(budget: Capacity) -> Way:
    """Bytes that may be used follow from a card's memory: a share of it, or all but the driver's context."""
    if not budget.memory:
        return given("given by --budget")
    told = "; ".join(budget.notes)
    whole = Constant(budget.memory, "memory of the card")
    if budget.share is not None and budget.bytes == int(budget.share * budget.memory):
        return Rule("floor", (whole, Constant(budget.share, "share of it that an engine takes")), note=told)
    if budget.memory == budget.bytes:
        return given(told)
    return Rule("difference", (whole,), (Constant(budget.memory - budget.bytes, "the driver's context"),), note=told)


class Memory(Report):
    """Answer about memory, with the keys that all of them have; and with the verdict, where a budget is given."""

    command, unit = "memory", "bytes"
    about = "Bytes of a model at rest, at the peak of a training step (--train), or of serving (--serve)."
    stated: ClassVar[Sequence[str]] = ("phase", "units", "not_counted")

    total_bytes = integer("all bytes that are counted; of training and serving the peak", ByForm("total"))
    weights_bytes = integer("weights", ByForm("weights"))
    gradients_bytes = integer("gradients", ByForm("gradients"))
    optimizer_bytes = integer("optimizer states", ByForm("optimizer"))
    activations_bytes = integer("tensors saved for backward", ByForm("activations"))
    kv_cache_bytes = integer("KV cache, or state", ByForm("cache"))
    buffers_bytes = integer("buffers", ByForm("buffers"))
    temporary_bytes = integer("temporary tensors at the peak", ByForm("temporary"))

    verdict = text("the verdict in words", lambda memory: memory.judge.verdict, when=JUDGED)
    budget_bytes = integer(
        "bytes that may be used: of a card, what is left beside the driver's context",
        lambda memory: memory.judge.budget.bytes,
        Told(lambda memory: _of_budget(memory.judge.budget)),
        when=JUDGED,
    )
    budget = text(
        "the budget as it was given, or the card's name", lambda memory: memory.judge.budget.stated, when=JUDGED
    )
    budget_notes = texts("what is assumed of the card", lambda memory: memory.judge.budget.all_notes, when=JUDGED)
    status = text(
        "fits; tight: with less than the margin to spare; risky: it may run out of memory; no",
        lambda memory: "fits" if memory.judge is None else memory.judge.status,
        when=JUDGED,
    )
    fits = boolean("whether it fits", lambda memory: memory.judge is None or memory.judge.fits, when=JUDGED)
    tight = boolean("whether it fits, but leaves less than the margin", lambda memory: memory.judge.tight, when=JUDGED)
    margin_percent = integer(
        "per cent of the budget that should stay free",
        lambda memory: memory.judge.margin,
        given("given by --margin"),
        when=JUDGED,
    )
    headroom_bytes = integer(
        "bytes to spare; below 0 the bytes that are short", total("budget_bytes", less="total_bytes"), when=JUDGED
    )
    allocatable_bytes = integer(
        "bytes that may be allocated so that it fits, beside what fragments take",
        lambda memory: memory.judge.room,
        found("what PyTorch can use of the card: its memory less margin, context and rounding"),
        when=JUDGED,
    )
    largest_batch_size = optional(
        "largest batch that fits; null where there is no limit, or it is not known",
        largest("batch_size"),
        found("search: it fits, and one more does not"),
        when=may_grow("batch_size"),
        place=TOGETHER,
    )
    largest_seq_len = optional(
        "longest sequence that fits, in tokens, rounded down, at most what the model was made for",
        largest("seq_len"),
        found(LONGEST),
        when=may_grow("seq_len", "largest_seq_len"),
    )
    largest_seq_len_exact = optional(
        "longest sequence that fits, in tokens",
        exactly("seq_len"),
        found(LONGEST_EXACT),
        when=may_grow("seq_len", "largest_seq_len"),
    )
    largest_max_completion_length = optional(
        "longest completions that fit, in tokens, rounded down",
        largest("max_completion_length"),
        found(LONGEST),
        when=may_grow("max_completion_length", "largest_max_completion_length"),
    )
    largest_max_completion_length_exact = optional(
        "longest completions that fit, in tokens",
        exactly("max_completion_length"),
        found(LONGEST_EXACT),
        when=may_grow("max_completion_length", "largest_max_completion_length"),
    )
    largest_context = optional(
        "longest context that fits, in tokens, rounded down, at most what the model was made for",
        largest("context"),
        found(LONGEST),
        when=may_grow("context", "largest_context"),
    )
    largest_context_exact = optional(
        "longest context that fits, in tokens",
        exactly("context"),
        found(LONGEST_EXACT),
        when=may_grow("context", "largest_context"),
    )
    largest_concurrency = optional(
        "most requests that fit",
        largest("concurrency"),
        found("search: it fits, and one more request does not"),
        when=may_grow("concurrency"),
        place=TOGETHER,
    )
    largest_gpu_layers = optional(
        "most layers that fit on the card, the head as one more (llama.cpp's -ngl)",
        largest("gpu_layers"),
        found("search: it fits, and one more layer does not"),
        when=may_grow("gpu_layers"),
    )
    paged_cache = record(
        PagedRoom,
        "the room for a paged cache, at most and at least, in the words of vLLM's log",
        lambda memory: memory.judge.paged,
        found("vLLM's arithmetic of blocks, in the memory that is left"),
        when=When(lambda memory: memory.judge is not None and memory.judge.paged is not None),
        place=TOGETHER,
    )
    engine = record(
        EngineLog,
        "the room for the cache by an engine's rules and its own profile run",
        lambda memory: memory.judge.log,
        when=When(lambda memory: memory.judge is not None and memory.judge.log is not None),
        place=TOGETHER,
    )
    changes = records(
        WithChange,
        "what would make it fit, the smallest change first; empty where it fits",
        lambda memory: memory.judge.changes,
        when=JUDGED,
    )
    changes_complete = boolean(
        "whether all changes and their combinations were tried; where layers differ the search for them may stop early",
        lambda memory: memory.judge.searched,
        when=JUDGED,
    )

    _model: Model
    _by: Conventions
    judge: Judge | None = None
    """The verdict, where there is so much memory."""
    over_time: bool = False
    """Whether people are shown the phases of a step."""

    def find_breakdown(self) -> None:
        """Find the breakdown: the step that has it has all other numbers, too, which else runs once more."""
        assert self.whole

    @property
    def model_(self) -> Model:
        """The model that is asked about."""
        return self._model

    @property
    def by(self) -> Conventions:
        """The definitions: number format at rest, unit of bytes."""
        return self._by

    @property
    def dtype_asked(self) -> str:
        """The number format that was asked for, or auto."""
        return self.by.dtype

    def terms(self) -> Tree:
        """Return the terms of a step or of serving, each tensor by tensor."""
        raise NotImplementedError

    @cached_property
    def itemized(self) -> Tree:
        """The terms, found once for all numbers of the answer that are opened."""
        return self.terms()

    @property
    def live(self) -> Tree | None:
        """Tensors that are live at the peak; None where it is no tree of tensors."""
        return None

    def folds_of_part(self, entry: Entry, key: str) -> Iterator[Way]:
        """The tensors of a part that has no further ones."""
        if key == "bytes" and not entry.parts and (tree := self.live):
            both = zip(tree.node.walk(), tree.twin.walk(), strict=True)
            yield from (PartOpened(tree, pair) for pair in both if pair[0].path == entry.path)

    @property
    def described(self) -> Mapping[str, object]:
        """The model, as in the JSON."""
        return self.model_.described()

    @property
    def heading(self) -> str:
        """The model."""
        return self.model_.summary

    @property
    def subtitle(self) -> str:
        """Question that was asked, in a line."""
        return self.heading

    def sheet(self) -> Sheet:
        """Return the verdict, where a budget is given; else the terms."""
        return super().sheet() if self.judge is None else self.judge.sheet()


class PeakMemory(Memory):
    """Answer about something that runs: its largest moment."""

    peak_bytes = integer(
        "the largest amount of memory that is live at once; equal to total_bytes", ByForm("total"), PARTS
    ).behind(Memory.total_bytes)
    peak_phase = text("when that is: forward, backward, step; prefill, decode", lambda memory: memory.phase_of_peak)

    @property
    def phase_of_peak(self) -> str:
        """The phase with the largest moment."""
        raise NotImplementedError
