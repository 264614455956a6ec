"""Floating-point operations of one forward pass, a training step, a prefill, or a decoded token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tfcalc.analysis.common import FLOPS, model_of, run_of, subject
from tfcalc.analysis.folds import Fold, Folded, of_answer
from tfcalc.analysis.nothing import why_zero
from tfcalc.analysis.remarks import LENGTHS, SAMPLES, overcounted, remarks
from tfcalc.answers.conventions_text import as_footer, as_json, as_text, experts_without_adapters, sizes_in_words
from tfcalc.core.measure import (
    Passes,
    elementwise_again_flops,
    elementwise_backward_flops,
    elementwise_flops,
    flops_of,
    matmul_again_flops,
    matmul_backward_flops,
    matmul_flops,
    params,
    stored,
)
from tfcalc.errors import UsageError
from tfcalc.report import Entry, Footer, Report, exact
from tfcalc.report.declared import boolean, integer, number, text
from tfcalc.report.opening import given, ratio, total
from tfcalc.report.report import HEADROOM, LIMIT, LIMITED, VERDICT, WITHIN
from tfcalc.workload import Conventions

if TYPE_CHECKING:
    from tfcalc.analysis.common import Subject
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.report.opening import Way
    from tfcalc.training.adapters import Tuning
    from tfcalc.workload import Workload

MATMUL = {"forward": matmul_flops, "backward": matmul_backward_flops, "recompute": matmul_again_flops}
ELEMENTWISE = {
    "forward": elementwise_flops,
    "backward": elementwise_backward_flops,
    "recompute": elementwise_again_flops,
}
TITLES = {
    "forward": "FLOPs for a forward pass",
    "train": "FLOPs for a training step",
    "prefill": "FLOPs for a prefill",
    "decode": "FLOPs to decode one token of each sequence",
}


class Work:
    """FLOPs of some passes of a step: of its matrix products, of its elementwise work, or of what the count includes.

    Args:
        passes: which of forward, backward and recompute; a forward pass has the first alone.
        kind: ``matmul``, ``elementwise``, or ``counted`` for what ``--count`` says.
    """

    def __init__(self, *passes: str, kind: str = "counted", overcounted: bool = False) -> None:
        self.passes, self.kind, self.overcounted = passes, kind, overcounted

    def __call__(self, answer: Any) -> int:
        """The number."""
        if self.overcounted:
            return overcounted(answer.question.model, answer.question.run)
        ran = self._of_run(answer)
        return sum(answer.sums[kind, name] for kind in self._kinds(answer) for name in ran)

    def _kinds(self, answer: Any) -> tuple[str, ...]:
        if self.kind != "counted":
            return (self.kind,)
        return ("matmul", "elementwise") if answer.everything else ("matmul",)

    def _of_run(self, answer: Any) -> tuple[str, ...]:
        return self.passes if answer.question.run.training else tuple(each for each in self.passes if each == "forward")

    def of(self, answer: Any, path: str = "") -> Folded:
        """The products and the elementwise work that the number is the sum of."""
        kinds, ran = self._kinds(answer), self._of_run(answer)
        found = Passes(
            forward="forward" in ran,
            backward="backward" in ran,
            again="recompute" in ran,
            overcounted=self.overcounted,
            products="matmul" in kinds,
            elementwise="elementwise" in kinds,
        )
        return Folded(Fold("flops", matmul_flops, of_answer(found.items)), answer, path)


PASSES = tuple(MATMUL)
WHOLE = Work(*PASSES)


class Flops(Report):
    """The FLOPs of one pass or step, from the tree of components."""

    command, unit = "flops", "flops"
    about = "FLOPs of a forward pass, a training step or run, or a decoded token."
    stated: ClassVar[Sequence[str]] = (
        *("component_flops", "batch_size", "seq_len", "source_len", "attention_kernel", "recomputation", "dropout"),
        *(
            "phase",
            "logits",
            "tokens",
            "multiply_add",
            "count",
            "operations",
            "attention",
            "attention_pairs",
            "backward",
        ),
        *("input_gradient", "early_stop", "latent_attention", "grouped_convolutions", "experts", "embedding_lookup"),
    )

    forward_flops = integer("FLOPs forward", Work("forward"))
    backward_flops = integer("FLOPs backward", Work("backward"))
    recompute_flops = integer("FLOPs of what backward recomputes", Work("recompute"))
    model_flops = integer("FLOPs without recomputation", total("total_flops", less="recompute_flops"))
    total_flops = integer("all FLOPs that were asked for", total("forward_flops", "backward_flops", "recompute_flops"))
    matmul_flops = integer("FLOPs of matrix products", Work(*PASSES, kind="matmul"))
    elementwise_flops = integer(
        "FLOPs of norms, softmax, activations and the like; in total_flops with --count all",
        Work(*PASSES, kind="elementwise"),
    )
    overcounted_flops = integer(
        "FLOPs in total_flops that are counted and not run, by grouped convolutions",
        Work("backward", kind="matmul", overcounted=True),
    )
    tokens = integer(
        "tokens of a step, or samples: see conventions.tokens",
        lambda step: exact(step.run.target.tokens if step.of_any_length else step.run.batch_size),
        ratio("conventions.batch_size", "conventions.seq_len"),
        ratio("conventions.batch_size"),
    )
    flops_per_token = number(
        "total_flops by tokens; an integer where it is a whole number",
        lambda step: whole_if_it_is(step.total_flops, step.tokens),
        ratio("total_flops", over=("tokens",)),
    )
    verdict = text(VERDICT, Report.verdict_on_limit, when=LIMITED)
    limit_flops = integer(f"FLOPs {LIMIT}", lambda step: step.limit, given("given by --max"), when=LIMITED)
    within_limit = boolean(WITHIN, lambda step: step.fits, when=LIMITED)
    headroom_flops = integer(f"FLOPs {HEADROOM}", total("limit_flops", less="total_flops"), when=LIMITED)

    def __init__(self, question: Subject, by: Conventions, depth: int | None = None) -> None:
        self.question, self.by, self.depth = question, by, depth

    @property
    def run(self) -> Workload:
        """Workload that is run."""
        return self.question.run

    @property
    def everything(self) -> bool:
        """Return whether elementwise work counts, too."""
        return self.by.count == "all"

    @cached_property
    def sums(self) -> Mapping[tuple[str, str], int]:
        """FLOPs of each pass, in matrix products and in elementwise work."""
        root = self.question.node.component
        ran = PASSES if self.run.training else PASSES[:1]
        kinds = {"matmul": MATMUL, "elementwise": ELEMENTWISE}
        return {(kind, name): exact(root.total(of[name])) for kind, of in kinds.items() for name in ran}

    @property
    def title(self) -> str:
        """The quantity."""
        return TITLES[self.run.phase]

    @property
    def described(self) -> Mapping[str, object]:
        """The model, as in the JSON."""
        return self.question.model.described()

    @property
    def subject(self) -> str:
        """The model."""
        return self.question.model.summary

    @property
    def heading(self) -> str:
        """The model, what of it is trained, and the sizes of the run."""
        tuned = () if self.question.tuning is None else (self.question.tuning.heading,)
        sizes = sizes_in_words(self.run) if self.of_any_length else f"{self.run.batch_size:,} samples"
        return ", ".join([self.question.model.summary, *tuned, sizes])

    @cached_property
    def whole(self) -> Entry:
        """The breakdown."""
        measure = flops_of(self.run.training, self.everything)
        return self.question.entry(measure, {"flops": measure}, self.depth)

    @cached_property
    def of_any_length(self) -> bool:
        """Return whether FLOPs are counted by tokens; else the model reads samples of one size."""
        return not LENGTHS.isdisjoint(self.whole.formula.free_symbols)

    @property
    def legend(self) -> Mapping[str, str]:
        """The meaning of each letter of the breakdown."""
        return self.question.legend(self.whole)

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definitions of what counts as a FLOP."""
        tuning = self.question.tuning
        return (
            as_json("flops", self.run, self.by)
            | ({} if self.of_any_length else {"tokens": SAMPLES})
            | ({} if tuning is None else tuning.described)
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Why it is 0, if it is; what should be known of the count."""
        zero = [] if self.answer_of_step else [why_zero(self.question.node.component, "flops", self.run)]
        model, tuning = self.question.model, self.question.tuning
        adapters = () if tuning is None else experts_without_adapters(model, tuning.plan)
        return (*zero, *adapters, *remarks(model, self.run))

    @property
    def answer_of_step(self) -> int:
        """The FLOPs of a single step."""
        return self.total_flops

    @property
    def footer(self) -> Footer:
        """Definitions of the count, what it leaves out, and what to ask next."""
        run, everything = self.run, self.everything
        return Footer(
            assumes=(*as_footer(run, self.by), *_frozen(self.question)),
            not_counted="" if everything else "norms, softmax, activations, rotations (--count all)",
            see_also=("--train", "--formulas", "--assumptions")
            if run.phase == "forward"
            else ("--formulas", "--assumptions"),
            assumptions=tuple(as_text("flops", run, self.by, sizes=self.of_any_length)),
        )

    def folds_of_part(self, entry: Entry, key: str) -> Iterator[Way]:
        """The items that a number of a component is the sum of."""
        if key == "flops":
            yield WHOLE.of(self, entry.path)
        elif key == "params":
            yield STORED.of(self, entry.path)


STORED = Fold("params", params, of_answer(stored))


def whole_if_it_is(number: int, by: int) -> int | float:
    """The ratio, an integer where it is a whole number."""
    each, rest = divmod(number, by)
    return number / by if rest else each


def flops(
    model: Model | str,
    workload: Workload | int | None = None,
    conventions: Conventions | None = None,
    *,
    depth: int | None = None,
    training: Training | None = None,
    **words: Any,
) -> Flops:
    """Count the FLOPs of ``model``: a forward pass, a training step, a prefill or a decoded token.

    A multiply-add is 2 FLOPs; a matrix product of M×K and K×N is 2·M·K·N forward and 4·M·K·N backward, as in PyTorch's
    FlopCounterMode.

    Args:
        model: a :class:`~tfcalc.Transformer`, what :func:`~tfcalc.load` and :func:`~tfcalc.from_config` return, or the
            name of a model.
        workload: ``phase``, sequences and their lengths in tokens, or a length; by default a forward pass of one of 512
            tokens.
        conventions: which operations are counted: matrix products (default), or ``count="all"``.
        depth: levels of the breakdown; by default down to the layers.
        training: LoRA's adapters, or modules that are frozen, which need no gradients of their weights.
        words: fields of the workload: ``seq_len=4096``, ``batch_size=8``; also ``train=True``.

    Returns:
        A report: ``answer`` is the number of FLOPs; ``totals`` has those of forward, backward and recomputation, the
        number of tokens and the FLOPs per token.

    Raises:
        InvalidModel: the model, or the model on this workload, makes no sense.
        UsageError: an option of the workload has no effect on this model.

    >>> from tfcalc.workload import Workload
    >>> from tfcalc.zoo.transformer import Transformer
    >>> flops(Transformer(), Workload(batch_size=32, seq_len=20, source_len=10)).answer
    42553835520
    """
    by = conventions or Conventions()
    model = model_of(model)
    question = subject(model, run_of(model, workload, words), by, training, FLOPS)
    if question.tuning is not None:
        check_tuning(question.tuning, question.run)
    return Flops(question, by, depth)


def check_tuning(tuning: Tuning, run: Workload) -> None:
    """Raise UsageError for what changes no FLOPs of this run."""
    if tuning.plan.lora_dropout and not run.drops:
        fact = f"--lora-dropout {tuning.plan.lora_dropout} has no effect"
        hint = "leave one out" if run.training else "add --train"
        raise UsageError(f"{fact} {'with --no-dropout' if run.training else 'without --train'}", hint)
    if tuning.plan.freeze and not run.training:
        raise UsageError(f"--freeze {tuning.plan.freeze} has no effect without --train", "add --train")


def _frozen(question: Subject) -> tuple[str, ...]:
    """Return what backward spares; the input gradient of the first layer is counted, as checkpointing needs it."""
    return ("no gradients of frozen weights",) if question.tuning is not None and question.run.training else ()
