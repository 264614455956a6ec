"""Heads beside that of a language model: what else is made of a base model's output."""

from __future__ import annotations

from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.ops.shapes import narrow
from tfcalc.tape.tensor import Tensor


class Summary(Module):
    """One vector for each sequence, of its last token's (transformers' SequenceSummary)."""

    kind = "summary"

    map: Linear

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Of all tokens' vectors."""
        return self.map(narrow(x, 1))


class WithSummary(WithHead):
    """A language model that also sums a sequence up, to choose among continuations (GPT-2's double heads)."""

    summary: Summary | None = None

    def read(self, made: Tensor, x: Tensor, ctx: Context) -> Tensor:
        """The loss, or the logits; the summary is of no consequence to them."""
        answer = super().read(made, x, ctx)
        if self.summary is not None:
            self.summary(made)
        return answer
