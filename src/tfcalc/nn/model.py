"""Whole models: a stack with its table and final norm, and what makes logits of it."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.number import Num
from tfcalc.nn.attention import attentions
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import add, dropout, pointwise, scaled
from tfcalc.ops.loss import cross_entropy
from tfcalc.ops.shapes import narrow
from tfcalc.tape.tensor import Tensor


class Decoder(Module):
    """A table, layers, and a final norm (Llama).

    The vectors of the words may be multiplied by a number (``scales``), further tables are ``added``, and some of it
    all is ``dropped``. The norm may run before the first layer, too (``normed_twice``, NanoChat). The program makes
    ``masks`` of these windows, even where no layer has them.
    """

    kind = "decoder"

    table: Module
    layers: Stack
    norm: Norm | None
    scales: bool = False
    masks: tuple[Num | None, ...] = ()
    normed_twice: bool = False
    added: tuple[Module, ...] = ()
    dropped: bool = False

    @property
    def parts(self) -> Iterator[Module]:
        """In the order in which they run."""
        return iter((self.table, *self.added, self.layers, *([] if self.norm is None else [self.norm])))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        words = scaled(self.table(x, ctx)) if self.scales else self.table(x, ctx)
        tables = [words, *(each(x, ctx) for each in self.added)]  # variables have them to the end
        if words.trace.lowers:
            ctx = ctx.backend.begin(ctx, words, list(attentions(self.layers)), self.masks)
        x = self._summed(tables, ctx)
        if self.normed_twice and self.norm is not None:
            x = self.norm(x, ctx)
        x = self.layers(x, ctx)
        return x if self.norm is None else self.norm(x, ctx)

    def _summed(self, tables: list[Tensor], ctx: Context) -> Tensor:
        x = tables[0]
        for each in tables[1:]:
            x = add(x, each)
        return dropout(x, "embedding_dropout") if self.dropped and ctx.drops else x


class WithHead(Module):
    """A model and what makes logits of its output; in training, their loss.

    ``scales`` multiplies them by a number, and a tanh may keep them under a cap (``capped``). Its labels are the tokens
    that are next, unless it fills in tokens that are ``masked``.
    """

    kind = "model"

    base: Module
    head: Linear
    scales: bool = False
    capped: bool = False
    masked: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        return self.read(self.base(x, ctx), x, ctx)

    def read(self, made: Tensor, x: Tensor, ctx: Context) -> Tensor:
        """What it makes of what the base model has ``made``."""
        if self.head.kind != "output":
            return self.logits(made)  # transformers' classifiers read every token
        if ctx.run.logits == "last":
            made = narrow(made, 1)
        if not ctx.run.training:
            return self.logits(made)
        if made.trace.lowers:
            return ctx.backend.head_and_loss(self, made, x)
        return cross_entropy(self.logits(made), f"{self.head.name}.loss")

    def logits(self, x: Tensor) -> Tensor:
        """Those of what the base model has made."""
        x = self.head(x)
        if self.scales:
            x = scaled(x)
        if self.capped:  # one after another, so that no two of them stand longer than they must
            x = scaled(x, "div")
            x = pointwise("tanh", x)
            x = scaled(x)
        return x
