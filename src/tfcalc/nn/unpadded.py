"""Logits of fewer words than the table has rows."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.context import Context
from tfcalc.nn.model import WithHead
from tfcalc.ops.elementwise import scaled
from tfcalc.ops.shapes import part
from tfcalc.tape.tensor import Tensor


class Unpadded(WithHead):
    """A language model that looks at the logits of the first ``words`` alone, where there are more.

    What the head reads may be divided by a number first (``divides``).
    """

    words: Num | None = None
    divides: bool = False

    def logits(self, x: Tensor, ctx: Context) -> Tensor:
        """Those of what the base model has made."""
        made = super().logits(scaled(x, "div") if self.divides else x, ctx)
        return made if self.words is None else part(made, 2, self.words)
