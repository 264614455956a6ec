"""How many bytes it takes to hold, to train, or to serve a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tfcalc.analysis.common import Subject, check_arguments, check_plans, subject
from tfcalc.analysis.effects import refuse_idle
from tfcalc.analysis.folds import Fold, Folded, of_answer
from tfcalc.answers.conventions_text import NOT_COUNTED, as_json, as_text
from tfcalc.answers.memory_table import called
from tfcalc.conventions import Conventions
from tfcalc.core.component import Component
from tfcalc.core.measure import (
    SMALLEST_BUFFER,
    Passes,
    bytes_held,
    held,
    held_bytes,
    in_bytes,
    matmul_flops,
    of_formulas,
    of_numbers,
    params,
    stored,
    weight_bytes,
)
from tfcalc.core.traced import value_of
from tfcalc.defaults import AUTO, assumed_dtype, own_format, resolve_dtype
from tfcalc.errors import UsageError
from tfcalc.model import default_run, legend
from tfcalc.printable import quoted
from tfcalc.report import Entry, Footer, Report, breakdown, exact
from tfcalc.report.declared import (
    TOGETHER,
    Record,
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
from tfcalc.report.derivation import Derivation
from tfcalc.report.derivation import Term as Operand
from tfcalc.report.opening import found, given, total

if TYPE_CHECKING:
    from tfcalc.analysis.itemized import Tree
    from tfcalc.answers.fits import Fit
    from tfcalc.core.component import Cost
    from tfcalc.core.measure import Item
    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training
    from tfcalc.report.opening import Way
    from tfcalc.report.paths import Step
    from tfcalc.report.sheet import Sheet
    from tfcalc.serving.weights import WeightStorage
    from tfcalc.workload import Workload


def memory_breakdown(tree: Component, depth: int | None) -> tuple[Entry, frozenset[str]]:
    """The entries of a tree whose sizes remember their formulas, and the letters of these.

    ``depth`` is how deep the answer goes; with None layers and what is like them stay whole.
    """
    numbers, formulas = of_numbers(tree).root(), of_formulas(tree).root()
    whole = breakdown(numbers, formulas, bytes_held, {"bytes": bytes_held}, inside_blocks=depth is not None)
    return whole, frozenset[str]().union(*(part.formula.free_symbols for part in whole.walk()))


PARTS = total("components[].bytes")
LONGEST = "search: the largest round length that fits"
LONGEST_EXACT = "search: it fits, and one more token does not"
JUDGED = When(lambda memory: memory.judge is not None, "fits")
"""What an answer has where there is so much memory."""


def may_grow(name: str, anchor: str = "") -> When:
    """Where the largest size of this name is looked for."""
    return When(lambda memory: memory.judge is not None and name in memory.judge.sizes, anchor)


def largest(name: str) -> Any:
    """The largest value of a size to take."""
    return lambda memory: memory.judge.sizes[name].value


def exactly(name: str) -> Any:
    """The largest value of a length, to the token."""
    return lambda memory: memory.judge.sizes[name].exact


class StoredBytes:
    """The bytes of weights, of buffers, or of both, in the format of an answer."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __call__(self, memory: Any) -> int:
        """The number."""
        of = held_bytes if self.what == "all" else weight_bytes
        return exact(memory.question.node.component.total(of(memory.by.bits)))

    def of(self, memory: Any, path: str = "") -> Folded:
        """Tensor by tensor."""
        bits = memory.by.bits

        def items(cost: Cost) -> list[Item]:
            if self.what == "weights":
                return held(cost._replace(buffers=()), bits)
            if self.what == "all":
                return held(cost, bits)
            return [in_bytes(each.name, each.shape, max(bits, SMALLEST_BUFFER)) for each in cost.buffers]

        return Folded(Fold("memory", held_bytes(bits), of_answer(items)), memory, path)


class Term(NamedTuple):
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
        from tfcalc.analysis.itemized import laid_out

        if further:
            raise UsageError(f"{quoted(further[0])} is not in {prefix}, which has no parts", "leave it out")
        tree = self.memory.terms()
        both = zip(tree.node.below(), tree.twin.below(), strict=True)
        node, twin = next(pair for pair in both if pair[0].component.name == self.name)
        return laid_out(prefix, "memory", tree, node, twin, 0, together=True)


PARTS_AT_REST: Mapping[str, Fold | StoredBytes] = {
    "bytes": StoredBytes("all"),
    "params": Fold("params", params, of_answer(stored)),
    "flops": Fold("flops", matmul_flops, of_answer(Passes(forward=True, elementwise=False).items)),
}
"""What the numbers of a component are sums of."""


class WithChange(Record):
    """What would make it fit."""

    change = text("in words", lambda one: one.remedy.change.name)
    flags = text("options to add", lambda one: " ".join(one.flags))
    total_bytes = integer("bytes with it", lambda one: one.remedy.total)
    headroom_bytes = integer("bytes to spare with it", total("budget_bytes", less=".total_bytes"))
    fits = boolean("whether it fits then", lambda one: one.fits)
    tight = boolean("whether it leaves less than the margin", lambda one: one.tight)

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
        return Derivation(
            heading=self.memory.heading,
            path=prefix,
            of="memory",
            value=self.value,
            how="answer",
            terms=(Operand("memory.total_bytes", self.value, self.what),),
            formula="",
            substituted="",
            note=f"total_bytes of {self.what}",
            model=dict(self.memory.model),
            conventions=dict(self.memory.conventions),
        )


class PagedRoom(Record):
    """The room for a paged cache, as vLLM's log has it."""

    context = integer("tokens of a request", lambda room: room.context)
    block_bytes = integer("bytes of a block", lambda room: room.block_bytes)
    blocks = integer("blocks that there is room for", lambda room: room.blocks)
    tokens = integer("tokens that these hold", lambda room: room.tokens)
    concurrency = number("requests of this context that these hold", lambda room: room.concurrency)


class Memory(Report):
    """What every answer about memory has; and the verdict, where there is so much."""

    command, unit = "memory", "bytes"
    about = "Bytes of a model at rest, at the peak of a training step (--train), or of serving (--serve)."
    stated: ClassVar[Sequence[str]] = ("phase", "units", "not_counted")

    total_bytes = integer(
        "all bytes that are counted; of training and serving the peak", lambda memory: memory.whole.value
    )
    weights_bytes = integer("weights", lambda _: 0)
    gradients_bytes = integer("gradients", lambda _: 0)
    optimizer_bytes = integer("optimizer states", lambda _: 0)
    activations_bytes = integer("tensors saved for backward", lambda _: 0)
    kv_cache_bytes = integer("KV cache, or state", lambda _: 0)
    buffers_bytes = integer("buffers", lambda _: 0)
    temporary_bytes = integer("temporary tensors at the peak", lambda _: 0)

    verdict = text("the verdict in words", lambda memory: memory.judge.verdict, when=JUDGED)
    budget_bytes = integer(
        "bytes that may be used: of a card, what is left beside the driver's context",
        lambda memory: memory.judge.budget.bytes,
        given("given by --budget, or the memory of --gpu"),
        when=JUDGED,
    )
    budget = text(
        "the budget as it was given, or the card's name", lambda memory: memory.judge.budget.stated, when=JUDGED
    )
    budget_notes = texts("what is assumed of the card", lambda memory: memory.judge.budget.notes, when=JUDGED)
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
    paged_cache = record(
        PagedRoom,
        "the room for a paged cache, as vLLM's log has it",
        lambda memory: memory.judge.paged,
        found("vLLM's arithmetic of blocks, in the memory that is left"),
        when=When(lambda memory: memory.judge is not None and memory.judge.paged is not None),
        place=TOGETHER,
    )
    changes = records(
        WithChange,
        "what would make it fit, the smallest change first; empty where it fits",
        lambda memory: memory.judge.changes,
        when=JUDGED,
    )

    judge: Fit | None = None
    """The verdict, where there is so much memory."""
    over_time: bool = False
    """Whether people are shown the phases of a step."""

    def to_dict(self) -> dict[str, object]:
        """The JSON object that ``--json`` prints: exact integers, the unit of each in its key."""
        assert self.whole  # all other numbers come out of what finds it
        return super().to_dict()

    @property
    def model_(self) -> Model:
        """The model that is asked about."""
        raise NotImplementedError

    @property
    def by(self) -> Conventions:
        """The definitions: number format at rest, unit of bytes."""
        raise NotImplementedError

    @property
    def dtype_asked(self) -> str:
        """The number format that was asked for, or auto."""
        return self.by.dtype

    def terms(self) -> Tree:
        """What a step or serving holds, term by term, each tensor by tensor."""
        raise NotImplementedError

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
        """What was asked, in a line."""
        return self.heading

    @property
    def answer(self) -> int:
        """All bytes."""
        return self.total_bytes

    def sheet(self) -> Sheet:
        """The verdict, where there is so much memory; else the terms."""
        return super().sheet() if self.judge is None else self.judge.sheet()


class AtRest(Memory):
    """The weights and buffers of a model, in one number format: nothing runs."""

    form = "at rest"
    constants: ClassVar[Mapping[str, object]] = {"phase": "at rest"}

    total_bytes = Memory.total_bytes.made(
        lambda memory: memory.whole.value, total("weights_bytes", "buffers_bytes"), PARTS
    )
    weights_bytes = Memory.weights_bytes.made(StoredBytes("weights"), total("components[].bytes", less="buffers_bytes"))
    buffers_bytes = Memory.buffers_bytes.made(
        total("total_bytes", less="weights_bytes"),
        StoredBytes("buffers"),
        found("the numbers that are stored with the model and are no parameters, in 16 bits or more each"),
    )

    def __init__(self, question: Subject, chosen: Conventions, depth: int | None = None) -> None:
        self.question, self.depth, self.chosen = question, depth, chosen

    @cached_property
    def by(self) -> Conventions:
        """The definitions, with the format that auto stands for."""
        return resolve_dtype(self.question.model, self.chosen)

    @property
    def model_(self) -> Model:
        """The model that is asked about."""
        return self.question.model

    @property
    def dtype_asked(self) -> str:
        """The number format that was asked for, or auto."""
        return self.chosen.dtype

    @property
    def title(self) -> str:
        """The quantity."""
        return f"of weights, in {self.by.dtype}"

    @property
    def definitions(self) -> Mapping[str, object]:
        """In which format."""
        return as_json("memory", self.question.run, self.by)

    @property
    def subtitle(self) -> str:
        """The model, and its format."""
        by = self.definitions
        return f"{called(self.model_)}, weights in {by.get('weights') or by['dtype']}, at rest"

    @cached_property
    def whole(self) -> Entry:
        """The breakdown."""
        held = held_bytes(self.by.bits)
        return self.question.entry(held, {"bytes": held}, self.depth)

    @property
    def legend(self) -> Mapping[str, str]:
        """The meaning of each letter of the breakdown."""
        return self.question.legend(self.whole)

    @property
    def footer(self) -> Footer:
        """In which format, and why in that."""
        by = self.by
        return _footer(
            (f"{by.dtype}, {by.bits} bits per weight", *assumed_dtype(self.model_, by.dtype)),
            tuple(as_text("memory", self.question.run, by)),
            chosen=self.chosen.dtype != AUTO,
        )

    def folds_of_part(self, entry: Entry, key: str) -> Iterator[Way]:
        """The items that a number of a component is the sum of."""
        if key in PARTS_AT_REST:
            yield PARTS_AT_REST[key].of(self, entry.path)


class InFormat(AtRest):
    """The same in a format of quantized weights, scales and what is not quantized among them."""

    def __init__(self, question: Subject, name: str, chosen: Conventions, depth: int | None = None) -> None:
        super().__init__(question, chosen, depth)
        self.name = name

    @cached_property
    def recipe(self) -> WeightStorage:
        """How the weights are stored."""
        from tfcalc.plans import Serving
        from tfcalc.serving.memory import weight_recipe

        return weight_recipe(self.model_, Serving(weights=self.name))

    @cached_property
    def _stored(self) -> tuple[Component, Component]:
        """Weights and buffers, as trees of tensors."""
        from tfcalc.model import remembering
        from tfcalc.serving.memory import buffers_of, tree_for
        from tfcalc.serving.weights import hold

        model, run = self.model_, self.question.run
        tree = remembering(model).tree(remembering(run))
        return hold(tree_for(self.recipe, model, run, tree), self.recipe), buffers_of(tree, self.recipe)

    weights_bytes = AtRest.weights_bytes.made(
        lambda memory: memory.bytes_of_weights, total("components[].bytes", less="buffers_bytes")
    )
    buffers_bytes = AtRest.buffers_bytes.made(
        total("total_bytes", less="weights_bytes"),
        found("the numbers that are stored with the model and are no parameters, in 16 bits or more each"),
    )

    @property
    def bytes_of_weights(self) -> int:
        """Without the buffers."""
        return value_of(self._stored[0].total(bytes_held))

    @cached_property
    def _breakdown(self) -> tuple[Entry, frozenset[str]]:
        stored, buffers = self._stored
        parts = (*stored.parts, *([buffers] if buffers.own.held else []))
        return memory_breakdown(stored._replace(parts=parts), self.depth)

    @cached_property
    def whole(self) -> Entry:
        """The breakdown."""
        return self._breakdown[0]

    @property
    def legend(self) -> Mapping[str, str]:
        """The meaning of each letter of the breakdown."""
        return legend(self._breakdown[1], self.model_, self.question.run)

    @property
    def title(self) -> str:
        """The quantity."""
        return f"of weights, in {self.recipe.format.name}"

    @property
    def definitions(self) -> Mapping[str, object]:
        """In which format, and what in which other."""
        return {
            "phase": "at rest",
            "weights": self.recipe.format.name,
            "unquantized": self.recipe.dtype,
            "units": self.chosen.units,
            "not_counted": NOT_COUNTED,
        }

    @property
    def footer(self) -> Footer:
        """In which format, and by which source."""
        name, dtype = self.recipe.format.name, self.recipe.dtype
        return _footer(
            (f"tensors that {name} leaves unquantized in {dtype}",),
            (f"{self.recipe.format.source}; unquantized tensors in {dtype}", f"not counted: {NOT_COUNTED}"),
            chosen=bool(self.name),
        )

    def folds_of_part(self, _entry: Entry, _key: str) -> Iterator[Way]:
        """None: each tensor is in a format of its own."""
        return iter(())


def _footer(assumes: tuple[str, ...], assumptions: tuple[str, ...], *, chosen: bool) -> Footer:
    """What stands below the memory of a model at rest; no training goes with a format that was ``chosen``."""
    return Footer(
        assumes,
        not_counted="gradients, optimizer, activations, KV cache, CUDA context",
        see_also=(*(() if chosen else ("--train",)), "--serve", "--gpu h100", "--assumptions"),
        assumptions=assumptions,
    )


def memory(
    model: Model,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    weights: str | None = None,
    depth: int | None = None,
) -> Memory:
    """The bytes of ``model``: at rest, or with a ``training`` plan at the peak of a step, or as it is ``serving``.

    Args:
        model: a :class:`~tfcalc.Transformer`, or what :func:`~tfcalc.load` and :func:`~tfcalc.from_config` return.
        workload: sequences and their lengths in tokens; by default one of 512 tokens. ``phase="train"`` is the same as
            an empty ``training`` plan.
        conventions: ``dtype`` of the weights at rest and in serving ("auto": the checkpoint's own; fp32 for the classic
            model), and the ``units`` of what is printed.
        training: number formats, optimizer, adapters, and over how many GPUs; see :class:`~tfcalc.Training`.
        serving: formats of weights and cache, context in tokens, requests at once; see :class:`~tfcalc.Serving`.
        weights: at rest, a format such as "nf4" or "Q4_K_M"; "" is the checkpoint's own.
        depth: levels of the breakdown; by default down to the layers.

    Returns:
        A report: ``answer`` is the number of bytes (the peak of a step, or of serving), ``totals`` the terms.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense, or its memory is not known.
        UsageError: a format or a quantity is not known, or something that was given has no effect.

    At rest nothing runs: no gradients, activations or cache. A tied weight is stored once, buffers in 16 bits or more.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> memory(Transformer()).answer
    176562176
    """
    found = memory_of(model, workload, conventions, training=training, serving=serving, weights=weights, depth=depth)
    assert found.whole  # what cannot be counted is refused here
    return found


def memory_of(
    model: Model,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    weights: str | None = None,
    depth: int | None = None,
) -> Memory:
    """The same answer, of which nothing is found before it is read.

    Raises as :func:`memory` for what cannot be asked.
    """
    by = Conventions() if conventions is None else conventions
    check_arguments(model, workload, by)
    check_plans(training, serving)
    if training is not None or (workload is not None and workload.training):
        from tfcalc.answers.training_memory import TrainingMemory
        from tfcalc.plans import Training

        if serving is not None:
            raise UsageError("training and serving cannot be combined", "choose one")
        if by.dtype != AUTO:
            raise UsageError(f"--dtype {by.dtype} has no effect on training", "give --precision")
        if weights:
            raise UsageError(f"--weights {weights} has no effect on training", "give --precision")
        run = (workload or default_run(model)).replaced(phase="train")
        return TrainingMemory(model, run, training or Training(), by, depth)
    if serving is not None:
        from tfcalc.answers.serving_memory import ServingMemory

        return ServingMemory(model, workload or default_run(model), serving, by, depth)
    if workload is not None:
        refuse_idle(workload, ("seq_len", "source_len"), "on a model at rest")
    return _at_rest(model, by, weights, depth)


def _at_rest(model: Model, by: Conventions, weights: str | None, depth: int | None) -> AtRest:
    """The bytes of weights and buffers, in ``by.dtype`` or in a format of ``weights``.

    An empty format is that which the config states. Raises InvalidModel, and UsageError for a format that is not known.
    """
    question = subject(model, None, by)
    if weights and by.dtype != AUTO:
        fact = f"--dtype {by.dtype} and --weights {weights} both give the format"
        raise UsageError(fact, "leave one of them out")
    own = own_format(model) if by.dtype == AUTO else None
    if weights or (own and not own.format.plain):
        return InFormat(question, weights or "", by, depth)
    return AtRest(question, by, depth)
