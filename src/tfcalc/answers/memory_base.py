"""Memory as an answer: the keys that it has at rest, in training, in serving, and where it is held against a budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from tfcalc.conventions import Conventions
from tfcalc.core.component import Component
from tfcalc.core.measure import (
    bytes_held,
    of_formulas,
    of_numbers,
)
from tfcalc.core.traced import value_of
from tfcalc.errors import UsageError
from tfcalc.printable import quoted
from tfcalc.report import Entry, Report, breakdown
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
    from tfcalc.model import Model
    from tfcalc.report.opening import Way
    from tfcalc.report.paths import Step
    from tfcalc.report.sheet import Sheet


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
            legend={},
        )


class PagedRoom(Record):
    """The room for a paged cache, as vLLM's log has it."""

    context = integer("tokens of a request", lambda room: room.context)
    block_bytes = integer("bytes of a block", lambda room: room.block_bytes)
    blocks = integer("blocks that there is room for", lambda room: room.blocks)
    tokens = integer("tokens that these hold", lambda room: room.tokens)
    concurrency = number("requests of this context that these hold", lambda room: room.concurrency)


class Judge(Protocol):
    """Verdict on the memory, held against a budget: a :class:`~tfcalc.answers.fits.Fit`."""

    def sheet(self) -> Sheet:
        """Return it as people see it."""
        ...


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

    judge: Judge | None = None
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
