"""Where the totals of a model come from that is compared: the question that each of them is the answer to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from tfcalc.analysis.itemized import tree_of
from tfcalc.analysis.pruned import together
from tfcalc.analysis.totals import EMBEDDING, FACTS, KINDS
from tfcalc.answers.question import Question
from tfcalc.conventions import Conventions
from tfcalc.core.component import STORED, Node
from tfcalc.core.measure import stored
from tfcalc.errors import UsageError
from tfcalc.model import default_run
from tfcalc.plans import Serving
from tfcalc.printable import quoted
from tfcalc.report import BLOCKS
from tfcalc.report.opening import Constant, Rule, Way, given, total
from tfcalc.serving.memory import cache_growth, serving_context

if TYPE_CHECKING:
    from tfcalc.analysis.totals import Operand
    from tfcalc.answers.params import Params
    from tfcalc.report.explanation import Explanation
    from tfcalc.workload import Workload

AS_LONG = "as many as all of the models read, 4,096 at most, where no length is given"


class Totals:
    """The questions that the totals of one model are the answers to; each is asked once, when one is opened."""

    def __init__(self, operand: Operand, workload: Workload) -> None:
        self.operand, self.workload = operand, workload
        self.once = workload.replaced(phase="forward", recompute="none", kernel="auto", dropout=True)
        self.serving = Serving(context=serving_context(operand.model, self.once))

    def of(self, key: str) -> Way | None:
        """Where the number of this ``key`` comes from; None of what is no total."""
        match key:
            case "batch_size":
                return given("sequences: --batch, or 1")
            case "seq_len":
                return given(f"tokens of a sequence: {AS_LONG}")
            case "total_params" | "active_params" | EMBEDDING.key:
                return self._counted.number(key)
            case "forward_flops_per_token":
                return self._forward.number("flops_per_token")
            case "training_flops_per_token":
                return self._step.number("flops_per_token")
            case "weights_bytes":
                return self._at_rest.number("total_bytes")
            case "kv_cache_bytes":
                return self._cached.number(key)
            case "kv_cache_bytes_per_token":
                return growth_of_cache(self.operand, self.serving)
            case "training_peak_bytes":
                return self._training.number("peak_bytes")
            case "serving_peak_bytes":
                return self._serving.number("peak_bytes")
        if key in FACTS:
            return given(f"{FACTS[key]}, from the config of {self.operand.name}")
        kind = key.removesuffix("_params")
        return OfKind(self._counted, kind) if kind != key else None

    def _asked(self, command: str, workload: Workload | None = None, **plans: Any) -> Question:
        return Question(command, self.operand.model, workload, called=self.operand.name, **plans)

    @cached_property
    def _counted(self) -> Question:
        return self._asked("params")

    @cached_property
    def _forward(self) -> Question:
        return self._asked("flops", self.once)

    @cached_property
    def _step(self) -> Question:
        return self._asked("flops", self.once.replaced(phase="train"))

    @cached_property
    def _at_rest(self) -> Question:
        return self._asked("memory")

    @cached_property
    def _cached(self) -> Question:
        return self._asked("memory", serving=self.serving)

    @cached_property
    def _training(self) -> Question:
        return self._asked("memory", self.workload.replaced(phase="train"), training=self.operand.training)

    @cached_property
    def _serving(self) -> Question:
        return self._asked("memory", serving=self.operand.serving)


def growth_of_cache(operand: Operand, serving: Serving) -> Way:
    """What each layer's cache grows by with a token."""
    growth = cache_growth(operand.model, default_run(operand.model), serving)
    each = {path: divmod(amount, growth.tokens) for path, amount in growth.by_mixer.items() if amount}
    if not each:
        return given("0: no layer keeps anything that grows with a token")
    if any(rest for _, rest in each.values()):
        amounts = total(*(Constant(amount, path) for path, amount in growth.by_mixer.items()))
        whole = Constant(sum(growth.by_mixer.values()), f"bytes of {growth.tokens} tokens: {amounts.written([], [])}")
        return Rule("floor", (whole,), (Constant(growth.tokens, "tokens that are stored together"),))
    return total(*(Constant(amount, f"{path}: all of its layers") for path, (amount, _) in each.items()))


@dataclass(frozen=True, slots=True)
class OfKind:
    """The parameters of all blocks of one kind."""

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
