"""Number of parameters, and their places in the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tfcalc.analysis.common import Subject, model_of, subject
from tfcalc.analysis.folds import OF_HEAD, OF_TABLES, OF_TOWERS, Fold, of_answer
from tfcalc.answers.conventions_text import as_json, as_text, experts_without_adapters
from tfcalc.core.measure import (
    Passes,
    active_params,
    buffer_elements,
    buffers,
    major,
    major_params,
    matmul_flops,
    spared_params,
    stored,
    trainable_params,
    trained,
    unpublished_params,
)
from tfcalc.core.measure import params as parameters
from tfcalc.errors import UsageError
from tfcalc.report import Entry, Footer, Report, exact
from tfcalc.report.declared import When, boolean, integer, number, text
from tfcalc.report.opening import Constant, found, given, ratio, total
from tfcalc.report.report import HEADROOM, LIMIT, LIMITED, VERDICT, WITHIN
from tfcalc.units import short_bytes
from tfcalc.workload import Conventions

if TYPE_CHECKING:
    from tfcalc.core.component import Measure, Node
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.report.opening import Way
    from tfcalc.workload import Workload

STORED = Fold("params", parameters, of_answer(stored))
ACTIVE = Fold("params", active_params, of_answer(stored))
MAJOR = Fold("params", major_params, of_answer(major))
TRAINED = Fold("params", trainable_params, of_answer(trained))
WORK = Fold("flops", matmul_flops, lambda _: Passes(forward=True, elementwise=False).items)
PER_CENT = Constant(100, "per cent")
SPARSE = When(lambda report: report.some_active)
APPROXIMATE = When(lambda report: report.approx)
UNPUBLISHED = When(lambda report: report.unpublished)
SPARED = When(lambda report: report.spared)
TUNED = When(lambda report: report.question.tuning)


class CountOfParams(Report):
    """Count of parameters, with the keys that all have, whoever counted."""

    command, about, unit = "params", "Parameters, component by component.", "params"
    stated: ClassVar[Sequence[str]] = ("parameters", "embedding_params", "component_flops")

    total_params = integer("parameters: unique trainable tensors, a tied matrix once", STORED).compared(
        "parameters", meaning="parameters"
    )
    trainable_params = integer("parameters that are trained; with LoRA the adapters", TRAINED)
    verdict = text(VERDICT, Report.verdict_on_limit, when=LIMITED)
    limit_params = integer(f"parameters {LIMIT}", lambda report: report.limit, given("given by --max"), when=LIMITED)
    within_limit = boolean(WITHIN, lambda report: report.fits, when=LIMITED)
    headroom_params = integer(f"parameters {HEADROOM}", total("limit_params", less="total_params"), when=LIMITED)

    @property
    def title(self) -> str:
        """The quantity."""
        return "parameters"


class CountedElsewhere(CountOfParams):
    """A count that another library made: it has numbers, and no formulas."""

    form = "with --via"
    stated: ClassVar[Sequence[str]] = (*CountOfParams.stated, "counted_by")

    total_params = CountOfParams.total_params.made(lambda report: report.whole.value)
    trainable_params = CountOfParams.trainable_params.made(lambda report: report.whole.value)


class Params(CountOfParams, in_order=True):
    """The parameters of a model, from its tree of components."""

    form = "without --via"

    total_params = CountOfParams.total_params
    active_params = integer("parameters used per token; fewer than all in mixtures of experts", ACTIVE).compared(
        "active parameters", meaning="parameters used per token"
    )
    embedding_params = integer(
        "parameters of the tables of tokens and positions",
        Fold("params", parameters, of_answer(stored), only=OF_TABLES),
    ).compared("embedding", part=True)
    non_embedding_params = integer("all other parameters", total("total_params", less="embedding_params"))
    active_non_embedding_params = integer(
        "parameters used per token but those of the tables of tokens and positions, as some model cards count them",
        total("active_params", less="embedding_params"),
    )
    output_params = integer(
        "parameters of the head that makes logits (0 where it is tied); of mixtures of experts",
        Fold("params", parameters, of_answer(stored), only=OF_HEAD),
        when=SPARSE,
    )
    tower_params = integer(
        "parameters of the parts that read images or sounds, but their tables; of mixtures of experts",
        Fold("params", parameters, of_answer(stored), only=OF_TOWERS),
        when=SPARSE,
    )
    active_text_params = integer(
        "parameters used per token without tables and what reads images or sounds",
        total("active_non_embedding_params", less="tower_params"),
        when=SPARSE,
    )
    active_layer_params = integer(
        "parameters used per token of the layers of text alone: without tables, head and what reads images or sounds",
        total("active_text_params", less="output_params"),
        when=SPARSE,
    )
    least_active_params = integer(
        "parameters that each token uses, if as many of its experts as can be are ones without weights",
        total("active_params", less="spared_params"),
        when=SPARED,
    )
    least_active_non_embedding_params = integer(
        "those without the tables of tokens and positions",
        total("least_active_params", less="embedding_params"),
        when=SPARED,
    )
    spared_params = integer(
        "active parameters that a token may not use",
        lambda report: report.spared,
        found("the experts of a token, times what one without weights spares, over all layers"),
        when=SPARED,
    )
    transformers_params = integer(
        "parameters that transformers 5.23 allocates, where the published weights have fewer",
        total("total_params", "unpublished_params"),
        when=UNPUBLISHED,
    )
    unpublished_params = integer(
        "parameters that transformers 5.23 allocates, and the published weights lack; they are not counted",
        lambda report: report.unpublished,
        found("tensors of experts that do nothing, over all layers"),
        when=UNPUBLISHED,
    )
    trainable_params = CountOfParams.trainable_params
    trainable_percent = number(
        "trainable_params in per cent of total_params, as peft prints it; with --lora or --freeze",
        ratio(PER_CENT, "trainable_params", over=("total_params",)),
        when=TUNED,
    )
    trainable_bytes = integer(
        "bytes of what is trained in fp32, as peft trains adapters and saves them; with --lora or --freeze",
        ratio(Constant(4, "bytes of fp32"), "trainable_params"),
        when=TUNED,
    )
    buffer_elements = integer(
        "numbers that are stored, but are no parameters", Fold("params", buffer_elements, of_answer(buffers))
    )
    approx_params = integer("parameters without biases and norms; with --approx", MAJOR, when=APPROXIMATE)

    by = Conventions()

    def __init__(self, question: Subject, depth: int | None = None, *, approx: bool = False) -> None:
        self.question, self.depth, self.approx = question, depth, approx

    @property
    def described(self) -> Mapping[str, object]:
        """The model, as in the JSON."""
        return self.question.model.described()

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definition of what counts as a parameter."""
        return as_json("params", self.question.run, self.by)

    @property
    def subject(self) -> str:
        """The model."""
        return self.question.model.summary

    @property
    def heading(self) -> str:
        """The model."""
        return self.subject

    @cached_property
    def unpublished(self) -> int:
        """Parameters that transformers allocates, and the published weights lack."""
        return exact(self.question.node.component.total(unpublished_params))

    @cached_property
    def spared(self) -> int:
        """Active parameters that a token does not use if it is sent to experts without weights."""
        return exact(self.question.node.component.total(spared_params))

    @property
    def some_active(self) -> bool:
        """Return whether a token goes through some of them only."""
        return self.active_params != self.total_params

    @cached_property
    def whole(self) -> Entry:
        """The breakdown."""
        extras: dict[str, Measure] = {"active_params": active_params} if self.some_active else {}
        return self.question.entry(
            parameters, extras | ({"approx_params": major_params} if self.approx else {}), self.depth
        )

    @property
    def legend(self) -> Mapping[str, str]:
        """The meaning of each letter of the breakdown."""
        return self.question.legend(self.whole)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on what is not trained, not used for each token, stored beside the parameters, or used twice."""
        return tuple(self._notes())

    def _notes(self) -> Iterator[str]:
        count, active = self.total_params, self.active_params
        if self.approx:
            apart = (count - self.approx_params) / count
            yield f"Without biases and norms: {self.approx_params:,}, {apart:.2%} off"
        if self.some_active:
            yield f"Active per token: {active:,} ({active / count:.1%}) in all, {self._active}"
        if self.spared:
            least, without = self.least_active_params, self.least_active_non_embedding_params
            said = f"{least:,} in all, {without:,} without the embedding"
            yield f"Least active, of a token that is sent to experts without weights: {said}"
        if self.unpublished:
            more = f"{self.unpublished:,} more, for experts that have no weights in the published files"
            yield f"transformers 5.23 would allocate {self.transformers_params:,}: {more}"
        if frozen := count - self.trainable_params:
            yield f"Frozen: {frozen:,}, stored as parameters but not trained"
        if self.buffer_elements:
            yield f"Buffers: {self.buffer_elements:,} more numbers, stored but not parameters"
        yield from self.question.model.left_out
        if sharing := self._sharing:
            yield sharing[0] if len(sharing) == 1 else f"{sharing[0]}; {len(sharing) - 1} more: --assumptions"

    @property
    def _active(self) -> str:
        """Active parameters without what model cards leave out: most the embedding, some images or the head, too."""
        said = [f"{self.active_non_embedding_params:,} without the embedding, as some model cards count"]
        said += [f"{self.active_text_params:,} without the encoders of images and sounds, too"] * bool(
            self.tower_params
        )
        said += [f"{self.active_layer_params:,} without the head, too"] * bool(self.output_params)
        return ", ".join(said)

    @cached_property
    def _sharing(self) -> list[str]:
        return list(sharing(self.question.node))

    @property
    def footer(self) -> Footer:
        """Definition of the count, and what was assumed of the config."""
        assumed = self.question.model.assumptions
        return Footer(
            assumes=("transformers' defaults for missing fields (--assumptions)",) if assumed else (),
            see_also=("--formulas", *(["--depth 4"] if self.depth is None else []), "--json"),
            assumptions=(*as_text("params", self.question.run, self.by), *self._sharing[1:], *assumed),
        )

    def folds_of_part(self, entry: Entry, key: str) -> Iterator[Way]:
        """The items that a number of a component is the sum of."""
        if key in PARTS:
            yield PARTS[key].of(self, entry.path)


PARTS = {
    "params": STORED,
    "active_params": ACTIVE,
    "approx_params": MAJOR,
    "trainable_params": TRAINED,
    "flops": WORK,
}
"""What the numbers of a component are sums of."""


class TrainableParams(Params):
    """The parameters that are trained where others are frozen, as peft's ``print_trainable_parameters`` says it.

    Source: peft's ``PeftModel.get_nb_trainable_parameters``, which counts the adapters among all parameters.
    """

    @property
    def title(self) -> str:
        """The quantity."""
        return "trainable parameters"

    @property
    def answer_key(self) -> str:
        """The number of parameters that are trained."""
        return Params.trainable_params.name

    @property
    def heading(self) -> str:
        """The model, and what of it is trained."""
        return f"{self.question.model.summary}, {self._tuning.heading}"

    @property
    def _tuning(self) -> Any:
        assert self.question.tuning is not None
        return self.question.tuning

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definitions of what counts as a parameter, and of what is trained."""
        return {**super().definitions, **self._tuning.described}

    @cached_property
    def whole(self) -> Entry:
        """The breakdown of those that are trained."""
        return self.question.entry(trainable_params, {"trainable_params": trainable_params}, self.depth)

    def _notes(self) -> Iterator[str]:
        shares = f"trainable params: {self.answer:,} || all params: {self.total_params:,}"
        yield f"{shares} || trainable%: {self.trainable_percent:.4f} (as peft prints it)"
        if not self.answer:
            yield "0: all of it is frozen"
        if self._tuning.plan.lora:
            size = short_bytes(self.trainable_bytes, "si")
            yield f"The adapters alone: {size} in fp32, as peft trains and saves them; half of it in bf16"
        yield from experts_without_adapters(self.question.model, self._tuning.plan)

    @property
    def footer(self) -> Footer:
        """Definition of the count, and what was assumed of the config."""
        words = as_text("params", self.question.run, self.by)
        return Footer(
            see_also=("--formulas", "--depth 5", "--json"), assumptions=(*words, *self.question.model.assumptions)
        )


def params(
    model: Model | str,
    workload: Workload | None = None,
    *,
    depth: int | None = None,
    approx: bool = False,
    training: Training | None = None,
) -> Params:
    """Count the parameters of ``model``: how many, in which part, and by which formula.

    Args:
        model: a :class:`~tfcalc.Transformer`, what :func:`~tfcalc.load` and :func:`~tfcalc.from_config` return, or the
            name of a model.
        workload: decides what the parts of the JSON give as ``flops``; by default one of the model's usual length.
        depth: levels of the breakdown; by default down to the layers.
        approx: also give the count without biases and norms (12h² per encoder layer).
        training: LoRA's adapters, or modules that are frozen: then the parameters that are trained are the answer.

    Returns:
        A report: ``answer`` is the number of trainable parameters, a tied matrix once; ``totals`` has the active ones
        (per token), the embeddings' and the frozen ones; ``whole`` the parts, each with its formula.

    Raises:
        InvalidModel: no model has these sizes.
        UsageError: a field of ``training`` that changes no parameters.

    >>> from tfcalc.zoo.transformer import Transformer
    >>> params(Transformer()).answer
    44140544
    >>> import tfcalc
    >>> params(tfcalc.load("llama-2-7b"), training=tfcalc.Training(lora=16)).answer
    39976960
    """
    question = subject(model_of(model), workload, training=training, of="parameters")
    if question.tuning is None:
        return Params(question, depth, approx=approx)
    if approx:
        raise UsageError("--approx has no effect on trainable parameters", "leave it out")
    return TrainableParams(question, depth)


def sharing(root: Node) -> Iterator[str]:
    """Yield in words what is stored once and used more than once, and what is stored but not always used."""
    for node in root.walk():
        component = node.component
        for weight in component.own.weights:
            if weight.tied_to is not None and not weight.minor:
                yield f"{node.path.partition('.')[2]} is tied to {weight.tied_to}: stored there"
        if component.passes != 1:
            yield f"{node.path.partition('.')[2]}: stored {component.copies} times, run {component.times.run} times"
        if component.active is not None:
            yield f"{node.path.partition('.')[2]}: {component.copies} stored, {component.active} active per token"
