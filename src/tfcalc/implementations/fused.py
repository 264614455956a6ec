"""transformers' models with a fused kernel wherever there is one, as Liger-Kernel puts them in.

Flash attention (the memory-efficient kernel where numbers have 32 bits), norms, gates, rotations in place, and a loss
that makes no logits. Everything else runs as in transformers.
"""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.implementations.kernels import linear_cross_entropy
from tfcalc.implementations.transformers.activations import OF_RESULT
from tfcalc.implementations.transformers.habits import Habits
from tfcalc.implementations.transformers.logits import labels, output
from tfcalc.implementations.transformers.running import Rule, Running
from tfcalc.implementations.transformers.whole import RULES
from tfcalc.tape.operations import Numerics
from tfcalc.tape.value import Value
from tfcalc.workload import Workload


class Head:
    """The output head, which waits for its loss."""

    def __init__(self) -> None:
        self.waiting: tuple[Num, list[Value]] | None = None

    def output(self, m: Running, part: Component, x: Value) -> Value:
        """In training there are no logits: what the head reads goes on to the loss."""
        if not m.run.training:
            return output(m, part, x)
        self.waiting = part.own.weights[0].shape[0], [m.weight(tensor) for tensor in part.own.weights]
        return x

    def loss(self, m: Running, _: Component, x: Value) -> Value:
        """Head and loss in one; scales and caps of logits are inside."""
        assert self.waiting is not None
        m.t.ledger.begin("loss")
        (width, (weight, *bias)), self.waiting = self.waiting, None
        targets = labels(m)
        found = linear_cross_entropy(m, x, width, weight, bias[0] if bias else None)
        del targets  # not kept: forward has used them
        return found


def activation(m: Running, part: Component, x: Value) -> Value:
    """A kernel, also where transformers writes it in Python: it keeps what it reads, or what it makes."""
    kind = part.own.elementwise[0].name
    return m.t.of_result(kind, x) if kind in OF_RESULT else m.t.of_input(kind, x)


def rules() -> dict[str, Rule]:
    """By the kind of a part."""
    head = Head()
    return RULES | {"activation": activation, "loss": head.loss, "output": head.output}


def habits(family: Habits) -> Habits:
    """The same family with kernels in the place of what it writes in Python."""
    return family._replace(fused=True, rmsnorm="fused", layernorm="kernel", turns_in_float32=False)


def workload(run: Workload, numerics: Numerics) -> Workload:
    """The same with a fused kernel for attention; flash attention needs numbers of 16 bits."""
    return run if run.fused else run.replaced(kernel="efficient" if numerics.compute == "float32" else "flash")
