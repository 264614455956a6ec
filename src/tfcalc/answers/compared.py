"""Models that are compared: the numbers of each, and a row for each number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from tfcalc.analysis.common import check_arguments, model_of
from tfcalc.analysis.facts import Facts, facts
from tfcalc.analysis.itemized import tree_of
from tfcalc.analysis.numbers import known
from tfcalc.analysis.pruned import together
from tfcalc.answers.flops import Flops
from tfcalc.answers.memory_base import Memory
from tfcalc.answers.overview import METHODS, NONE, SizesOfModel, overview
from tfcalc.answers.params import Params
from tfcalc.answers.question import Question
from tfcalc.answers.serving_memory import ServingMemory
from tfcalc.answers.training_memory import TrainingMemory
from tfcalc.answers.verdict import Fit, memory_within
from tfcalc.core.component import STORED, TABLES, Node
from tfcalc.core.measure import stored
from tfcalc.core.traced import value_of
from tfcalc.defaults import serving_context
from tfcalc.errors import UsageError
from tfcalc.model import default_run
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import Serving
from tfcalc.printable import quoted
from tfcalc.report import BLOCKS
from tfcalc.report.declared import Answer, FurtherKeys, Key, Keyed, Record, Unknown, integer, shared, text
from tfcalc.report.opening import Constant, Rule, Way, given, total
from tfcalc.report.sheet import Cell, of
from tfcalc.search.gpus import SAID
from tfcalc.serving.memory import cache_growth, kv_bytes_per_token, weights_bytes
from tfcalc.serving.stored import at_work, reads_alone
from tfcalc.units import short, short_bytes
from tfcalc.workload import Conventions

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.report.explanation import Explanation
    from tfcalc.report.paths import Step
    from tfcalc.search.gpus import Capacity
    from tfcalc.workload import Workload

Value = int | float | str | Unknown | None
NULLABLE = ["integer", "null"]
UNITS = ("params", "flops", "bytes")
AS_LONG = "as many as all of the models read, 4,096 at most, where no length is given"
KINDS = {"ffn": "feed-forward", "ssm": "state-space", "output": "output head", "norm": "norms"}
"""What kinds of components are called, where it is another word."""


class Operand(NamedTuple):
    """One of those that are compared: a model, and how it is run, trained and served; ``name`` heads its column.

    ``workload`` None is that of the comparison. Without a ``training`` or a ``serving`` plan there is no such row.
    """

    name: str
    model: Model
    workload: Workload | None = None
    training: Training | None = None
    serving: Serving | None = None


class ModelNumbers:
    """One model that is compared, with the questions that its numbers are the answers to, each answered once.

    Raises InvalidModel for a model that cannot be run on this workload.
    """

    def __init__(self, operand: Operand, workload: Workload, card: Capacity | None = None) -> None:
        self.operand, self.model, self.workload, self.card = operand, operand.model, workload, card
        self.once = workload.replaced(phase="forward", recompute="none", kernel="auto", dropout=True)
        self.model.check(self.once)
        self.request = Serving(context=serving_context(self.model, self.once))
        """One request of the usual context."""
        self._values: dict[str, Value] = {}

    def value(self, quantity: Quantity) -> Value:
        """Its value, which is found once. Raises InvalidModel."""
        if quantity.key not in self._values:
            self._values[quantity.key] = quantity.find(self)
        return self._values[quantity.key]

    def _asked(self, command: str, workload: Workload | None = None, **plans: Any) -> Question:
        return Question(command, self.model, workload, called=self.operand.name, **plans)

    @cached_property
    def params(self) -> Question:
        """Number of its parameters."""
        return self._asked("params")

    @cached_property
    def forward(self) -> Question:
        """The FLOPs of a forward pass."""
        return self._asked("flops", self.once)

    @cached_property
    def forward_and_backward(self) -> Question:
        """The FLOPs of a training step."""
        return self._asked("flops", self.once.replaced(phase="train"))

    @cached_property
    def at_rest(self) -> Question:
        """The bytes of its weights."""
        return self._asked("memory")

    @cached_property
    def one_request(self) -> Question:
        """The bytes of serving one request."""
        return self._asked("memory", serving=self.request)

    @cached_property
    def training(self) -> Question | None:
        """The memory of training by its plan, if it has one."""
        plan = self.operand.training
        if plan is None:
            return None
        return self._asked("memory", self.workload.replaced(phase="train"), training=plan)

    @cached_property
    def serving(self) -> Question | None:
        """The memory of serving by its plan, if it has one."""
        plan = self.operand.serving
        return None if plan is None else self._asked("memory", serving=plan)

    @cached_property
    def on_card(self) -> Mapping[str, str]:
        """The verdicts on the card, by what is done there: by the plans, or where there are none as at a glance."""
        step = {"workload": self.workload.replaced(phase="train"), "training": self.operand.training}
        plans: dict[str, dict[str, Any]] = {"training": step, "serving": {"serving": self.operand.serving}}
        asked = {name: words for name, words in plans.items() if words[name] is not None}
        if self.card is not None and not asked:
            return overview(self.model, gpu=self.card.card).on_card
        found = {name: known(partial(self._verdict, words), "not known") for name, words in asked.items()}
        return {name: status for name, status in found.items() if not isinstance(status, Unknown)}

    def _verdict(self, words: Mapping[str, Any]) -> str:
        judge = memory_within(self.model, self.card, **words).judge
        assert isinstance(judge, Fit)
        return judge.status

    @cached_property
    def cache_per_token(self) -> int | Unknown:
        """The bytes that a token adds to the cache."""
        return known(lambda: kv_bytes_per_token(self.model, default_run(self.model), self.request), "none")

    @cached_property
    def sizes(self) -> Facts:
        """The sizes of the model."""
        cached = isinstance(self.cache_per_token, int)
        run = at_work(default_run(self.model), self.request) if cached else self.once
        return facts(self.model, self.model.tree(run))

    @cached_property
    def kinds(self) -> dict[str, int]:
        """The parameters of each kind of component but the tables, the largest first."""
        counts = self.params.report().by_kind()
        return {kind: count for kind, count in counts.items() if kind not in TABLES}  # which ``embedding_params`` has

    def growth_of_cache(self) -> Way:
        """Return the origin of the cache's growth per token, layer by layer."""
        growth = cache_growth(self.model, default_run(self.model), self.request)
        each = {path: divmod(amount, growth.tokens) for path, amount in growth.by_mixer.items() if amount}
        if not each:
            return given("0: no layer keeps anything that grows with a token")
        if any(rest for _, rest in each.values()):
            amounts = total(*(Constant(amount, path) for path, amount in growth.by_mixer.items()))
            said = f"bytes of {growth.tokens} tokens: {amounts.written([], [])}"
            whole = Constant(sum(growth.by_mixer.values()), said)
            return Rule("floor", (whole,), (Constant(growth.tokens, "tokens that are stored together"),))
        return total(*(Constant(amount, f"{path}: all of its layers") for path, (amount, _) in each.items()))


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number, or a word, that models are compared by.

    Attributes:
        key: its key in the JSON; its unit is a word of it.
        called: its name in a table.
        schema: type and meaning, as in JSON Schema.
        find: its value, of the numbers of a model.
        origin: where that comes from.
        part: whether it is a part of the number above it.
        always: whether a comparison has it even where no model has a value.
    """

    key: str
    called: str
    schema: Mapping[str, Any]
    find: Callable[[ModelNumbers], Value]
    origin: Callable[[ModelNumbers], Way]
    part: bool = False
    always: bool = True

    @property
    def unit(self) -> str:
        """Unit that is counted: params, flops or bytes; empty for sizes and names."""
        words = self.key.split("_")
        return next((unit for unit in UNITS if unit in words), "")


def asked(
    question: str,
    declared: Key[Any],
    called: str,
    meaning: str,
    key: str = "",
    *,
    unknown: str = "",
    planned: bool = False,
    part: bool = False,
) -> Quantity:
    """The number that a question of :class:`ModelNumbers` has at a ``declared`` key of its answer.

    Args:
        question: by its name there.
        declared: the key.
        called: its name in a table.
        meaning: that of the schema.
        key: in the JSON of comparisons, if not the same.
        unknown: why it may not be known, in short.
        planned: whether it is asked only of a model that has a plan for it.
        part: whether it is a part of the number above it.
    """

    def find(numbers: ModelNumbers) -> Value:
        its: Question | None = getattr(numbers, question)
        if its is None:
            return None
        if question == "one_request" and reads_alone(numbers.model):
            return Unknown(unknown, f"{numbers.model.architecture} does not generate text, so it keeps no cache")
        read = partial(_read, its, declared.name)
        return known(read, unknown) if unknown else read()

    def origin(numbers: ModelNumbers) -> Way:
        its: Question = getattr(numbers, question)
        return its.number(declared.name)

    types = NULLABLE if unknown else declared.schema["type"]
    schema = {"type": types, "description": meaning}
    return Quantity(key or declared.name, called, schema, find, origin, part, always=not planned)


def _read(question: Question, key: str) -> Any:
    return getattr(question.answer(), key)


def marked(of: type[Keyed]) -> Iterator[tuple[Key[Any], str, str]]:
    """The keys that a class marks as compared, or gives a label: each with its name in tables, and its meaning."""
    for key in of.keys.values():
        if key.comparison is not None:
            yield key, key.comparison.called, key.comparison.meaning
        elif key.label:
            yield key, key.label.lower(), str(key.schema["description"])


def size(key: Key[Any], called: str, meaning: str) -> Quantity:
    """A size of the model."""
    return Quantity(
        key.name,
        called,
        {**key.schema, "description": meaning},
        lambda numbers: cast("Value", getattr(numbers.sizes, key.name)),
        lambda numbers: given(f"{called}, from the config of {numbers.operand.name}"),
        always=key.schema["type"] == "string",
    )


def kind_of_component(kind: str) -> Quantity:
    """The parameters of all components of a kind."""
    return Quantity(
        f"{kind}_params",
        KINDS.get(kind, kind),
        OF_KINDS[ANY_KIND],
        lambda numbers: numbers.kinds.get(kind, 0),
        lambda numbers: OfKind(numbers.params, kind),
        part=True,
    )


ANY_KIND = "^[a-z_]+_params$"
OF_KINDS = {
    ANY_KIND: {
        "type": "integer",
        "description": "parameters of each kind of component: attention_params, ffn_params …",
    }
}
SIZES = tuple(size(*each) for each in marked(SizesOfModel))
COUNTS = tuple(
    asked("params", *each, part=each[0].comparison is not None and each[0].comparison.part) for each in marked(Params)
)
TOTAL = next(each for each in COUNTS if each.key == Params.total_params.name)
ACTIVE = next(each for each in COUNTS if each.key == Params.active_params.name)
FORWARD = asked(
    "forward",
    Flops.flops_per_token,
    "forward FLOPs/token",
    "FLOPs of a token, forward",
    "forward_flops_per_token",
)
BACKWARD = asked(
    "forward_and_backward",
    Flops.flops_per_token,
    "training FLOPs/token",
    "FLOPs of a token in training",
    "training_flops_per_token",
)
WEIGHTS = Quantity(
    Memory.weights_bytes.name,
    "weights",
    {"type": "integer", "description": "bytes of the weights, in the checkpoint's own format"},
    lambda numbers: weights_bytes(numbers.model, numbers.model.tree(numbers.once)),
    lambda numbers: numbers.at_rest.number(Memory.total_bytes.name),
)
CACHE_PER_TOKEN = Quantity(
    "kv_cache_bytes_per_token",
    "KV cache per token",
    {"type": NULLABLE, "description": "bytes that a token adds to the cache; null where a model has none"},
    lambda numbers: numbers.cache_per_token,
    ModelNumbers.growth_of_cache,
)
CACHE = asked(
    "one_request",
    Memory.kv_cache_bytes,
    "KV cache at context",
    "bytes of the cache of a request of 8,192 tokens, or of the longest context; null where a model has none",
    unknown="none: it generates no text",
)
TRAINED = asked(
    "training",
    TrainingMemory.peak_bytes,
    "training memory",
    "peak of a training step; with --train",
    "training_peak_bytes",
    unknown="not known",
    planned=True,
)
SERVED = asked(
    "serving",
    ServingMemory.peak_bytes,
    "serving memory",
    "peak of serving; with --serve",
    "serving_peak_bytes",
    unknown="not known",
    planned=True,
)
WORK_AND_MEMORY = (FORWARD, BACKWARD, WEIGHTS, CACHE_PER_TOKEN, CACHE, TRAINED, SERVED)


def verdict(name: str, called: str) -> Quantity:
    """The verdict on a card, of one use of the model."""
    return Quantity(
        f"{name}_verdict",
        f"verdict: {called}",
        {"type": ["string", "null"], "description": f"{called} on the GPU: fits, tight, risky, no; with --gpu"},
        lambda numbers: numbers.on_card.get(name) if numbers.card else None,
        lambda numbers: given(f"the verdict of memory --gpu on {numbers.operand.name}"),
        always=False,
    )


VERDICTS = (
    verdict("training", "training"),
    verdict("serving", "serving"),
    *(verdict(f"finetune_{method}", called) for method, (called, _, _) in METHODS.items()),
)
"""Verdicts on a card: by the plans that are given, or at a glance of serving and each way to fine-tune."""


@dataclass(frozen=True, slots=True)
class OfKind:
    """The parameters of all components of one kind, as the question has them."""

    question: Question
    kind: str

    def opened(self, prefix: str, further: tuple[str, ...]) -> Explanation:
        """Matrix by matrix. Raises UsageError, as nothing lies behind it."""
        if further:
            raise UsageError(f"{quoted(further[0])} is not in {prefix}, which has no parts", "leave it out")
        tree = tree_of(cast("Params", self.question.answer()).question, "params", Conventions(), stored)
        said = f"{KINDS.get(self.kind, self.kind)}: parameters of all blocks of this kind of {self.question.called}"
        kept = {node.path for node in _blocks(tree.node) if node.component.kind == self.kind}
        return together(prefix, "params", tree, lambda node: node.path in kept, STORED, (said,))


def _blocks(node: Node) -> Iterator[Node]:
    """The outermost blocks, and what has no parts: the norms of queries belong to their attention."""
    if node.component.kind in BLOCKS or not node.component.parts:
        yield node
    else:
        for below in node.below():
            yield from _blocks(below)


class Row(NamedTuple):
    """One quantity of all models (``columns``); a ``minor`` one is in the JSON and the CSV alone."""

    quantity: Quantity
    columns: tuple[ModelNumbers, ...]
    values: tuple[Value, ...]
    minor: bool = False

    @classmethod
    def of(cls, quantity: Quantity, columns: Sequence[ModelNumbers]) -> Row:
        """The quantity in each model. Raises InvalidModel."""
        return cls(quantity, tuple(columns), tuple(column.value(quantity) for column in columns))

    @property
    def key(self) -> str:
        """Its key in the JSON."""
        return self.quantity.key

    @property
    def unit(self) -> str:
        """Unit that is counted; empty for sizes and names."""
        return self.quantity.unit

    @property
    def differs(self) -> bool:
        """Return whether the models have unlike values."""
        return any(value != self.values[0] for value in self.values)

    @property
    def reasons(self) -> list[str]:
        """Why each value is not known; empty where it is."""
        return [value.reason if isinstance(value, Unknown) else "" for value in self.values]

    def origin(self, place: int) -> Way:
        """Return the origin of this model's value."""
        return self.quantity.origin(self.columns[place])

    def difference(self, place: int) -> int | float | None:
        """Return by how much this value exceeds the first; None where they are no numbers."""
        first, value = self.values[0], self.values[place]
        return value - first if isinstance(first, int | float) and isinstance(value, int | float) else None

    def ratio(self, place: int) -> float | None:
        """Return this value in multiples of the first; None where they are no numbers, or the first is 0."""
        first, value = self.values[0], self.values[place]
        numbers = isinstance(first, int | float) and isinstance(value, int | float)
        return value / first if numbers and first else None  # type: ignore[operator]  # both are numbers

    def written(self, value: Value, units: str) -> str:
        """``8.03B`` parameters, ``17.2G`` FLOPs, ``128 KiB``; a size in full."""
        if value is None:
            return NONE
        if isinstance(value, Unknown):
            return value.short.partition(":")[0]
        if isinstance(value, str):
            return SAID.get(value, value).lower() if self.quantity in VERDICTS else value
        if self.unit == "bytes":
            return short_bytes(value, units)
        return short(value, billion="B" if self.unit == "params" else "G") if self.unit else f"{value:,}"

    def cell(self, value: Value, units: str, *keys: Key[Any] | str | int) -> Cell:
        """Return the value as it is written; if it is a number, as the one at these keys of its row in the answer."""
        said = self.written(value, units)
        return of(said, "rows", self.key, *keys) if isinstance(value, int | float) else said


class InOneRow(Record):
    """A row in the JSON, whichever way it shows the values."""

    key = text("the key in models", lambda row: row.key)

    @property
    def differs(self) -> bool:
        """Return whether the models have unlike values."""
        return bool(self.source.differs)


class ComparedModel(Record):
    """A model with the numbers that it is compared by."""

    name = text("its name here", lambda column: column.numbers.operand.name)
    model = shared("model", lambda column: dict(column.numbers.model.described()))
    batch_size = integer(
        "sequences run at once", lambda column: column.numbers.workload.batch_size, given("sequences: --batch, or 1")
    )
    seq_len = integer(
        "tokens of a sequence",
        lambda column: column.numbers.workload.seq_len,
        given(f"tokens of a sequence: {AS_LONG}"),
    )

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:
        """The question that a number is the answer to."""
        for row in self.source.rows:
            if steps == (row.key,):
                yield row.origin(self.source.place)
        yield from super().origins(steps)


class InColumn(NamedTuple):
    """A column of a comparison: the numbers of a model, its place among the models, and all rows."""

    numbers: ModelNumbers
    place: int
    rows: Sequence[Row]


def numbers_of(quantities: Sequence[Quantity], pattern: Mapping[str, Mapping[str, Any]]) -> FurtherKeys:
    """The compared numbers of a model, as keys beside its name."""
    return FurtherKeys(
        {each.key: each.schema for each in quantities},
        [each.key for each in quantities if each.always],
        lambda column: {row.key: row.values[column.place] for row in column.rows},
        pattern,
    )


class Definitions(Record):
    """Definitions that the numbers of a comparison were made by."""

    flops = text("what FLOPs are", lambda _: "multiply-add = 2, matrix products only, masked pairs counted")
    weights = text("format of the weights", lambda _: "in the checkpoint's own format")
    kv_cache = text("whose cache it is", lambda _: "of one request, paged, in the format computed in")


class ComparedModels(Answer):
    """Models that are compared: the numbers of each, and a row for each number, of all models.

    ``columns`` are the models; ``table`` is the rows.
    """

    def __init__(self, columns: Sequence[ModelNumbers], table: Sequence[Row], units: str) -> None:
        self.columns, self.table, self.units = tuple(columns), tuple(table), units

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Operands that are compared."""
        return tuple(column.operand for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the operands."""
        return tuple(operand.name for operand in self.operands)

    def row(self, key: str) -> Row:
        """The row of this key."""
        return next(row for row in self.table if row.key == key)

    def in_columns(self) -> list[InColumn]:
        """Return each model with its place."""
        return [InColumn(numbers, place, self.table) for place, numbers in enumerate(self.columns)]


def as_operand(each: Model | Operand | str, training: Training | None, serving: Serving | None) -> Operand:
    """A model by name, or a model, with the plans that it has none of its own for. Raises InvalidModel, UsageError."""
    if isinstance(each, str):
        return Operand(each, model_of(each), None, training, serving)
    if isinstance(each, Operand):
        return each._replace(training=each.training or training, serving=each.serving or serving)
    check_arguments(each, None, None)
    return Operand(getattr(each, "name", "") or each.summary, each, None, training, serving)


def shared_length(operands: Sequence[Operand]) -> int:
    """Return the most tokens that all of them usually read."""
    return min(value_of(default_run(operand.model).seq_len) for operand in operands)
