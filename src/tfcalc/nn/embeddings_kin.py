"""Embeddings that read more than words and places, or that read words in another way."""

from __future__ import annotations

from tfcalc.nn.basic import Buffer, Embedding, Linear
from tfcalc.nn.context import Context
from tfcalc.nn.embeddings import Embeddings
from tfcalc.ops.elementwise import add, filled, quotient, scaled
from tfcalc.ops.shapes import cat, copied
from tfcalc.tape.tensor import Tensor


class Tabular(Embeddings):
    """The same with so many numbers (``kinds``) for each token, as tables have columns, rows and ranks (TAPAS)."""

    kinds: int = 1

    def _summed(self, x: Tensor, ctx: Context) -> Tensor:
        known = x.trace.new((*x.shape, self.kinds), "int64", "token types")
        return super()._summed(x, ctx._replace(places=known))


class Spelled(Embeddings):
    """The same with how each character looks and sounds, which are put ``beside`` its vector, and mapped (RoCBert).

    Where nothing maps them (``together`` is None) they are added, if they are given; token ids alone are what runs
    here, and the sum of the others is copied.
    """

    beside: tuple[Embedding, ...] = ()
    read: tuple[str, ...] = ()
    together: Linear | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        return super().forward(x, ctx) if self.together is not None else copied(super().forward(x, ctx))

    def _summed(self, x: Tensor, ctx: Context) -> Tensor:
        if self.together is None:
            return super()._summed(x, ctx)
        made = copied(self.tables[0](x, ctx))
        for table in self.beside:
            if table.name in self.read:
                made = cat([made, table(x.trace.new(x.shape, "int64", "zeros"))])
        made = self.together(made)
        for other in self.tables[1:]:
            made = add(made, other(x, ctx))
        return made


class Residues(Embeddings):
    """The same with masked words set to 0, and the others made larger for it (``masks_words``; ESM)."""

    masks_words: bool = False

    def _summed(self, x: Tensor, ctx: Context) -> Tensor:
        made = self.tables[0](x, ctx)
        if self.masks_words and x.trace.lowers:
            kind, new = made.dtype, x.trace.new
            made = scaled(filled(made, new((*x.shape, 1), "bool", "masked")))
            made = x.trace.to(quotient(made, new((x.shape[0], 1, 1), "float32", "not masked")), kind)
        for table in self.tables[1:]:
            made = add(made, table(x, ctx))
        return made


class Numbered(Embeddings):
    """The same, with the numbers of positions, which are stored (MRA)."""

    numbers: Buffer | None = None
