"""Which cells of a table answer a question (TAPAS)."""

from __future__ import annotations

from tfcalc.nn.basic import Linear, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.encoder import Encoder
from tfcalc.nn.module import Module
from tfcalc.ops.products import row_products
from tfcalc.tape.tensor import Tensor


class CellSelection(Module):
    """A model, a number for each token that says whether its cell is chosen, and one for the column, without gradient.

    How the chosen cells are to be aggregated is told by classes of the whole sequence, where there are any.

    Source: Herzig et al. 2020 (TAPAS, arXiv 2004.02349), section 2; transformers' TapasForQuestionAnswering.
    """

    kind = "model"

    base: Encoder
    factors: Stored
    bias: Stored
    column_factors: Stored
    column_bias: Stored
    aggregation: Linear | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        made, whole = (self.base(x, ctx), None) if self.aggregation is None else self.base.pooled(x, ctx)
        logits = row_products(made, self.factors.weight(x.trace), "X w", "(cells)")
        with x.trace.without_gradients():
            row_products(made, self.column_factors.weight(x.trace), "X w_column", "(cells)")
        if self.aggregation is not None and whole is not None:
            self.aggregation(whole)
        return logits
