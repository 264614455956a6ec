"""Whole models: a stack with its table and final norm, and what makes logits of it."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.attention import attentions
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import mul, pointwise, scaled
from tfcalc.ops.loss import cross_entropy
from tfcalc.ops.shapes import narrow
from tfcalc.tape.tensor import Tensor


class Decoder(Module):
    """A table, layers, and a final norm (Llama)."""

    kind = "decoder"

    table: Embedding
    layers: Stack
    norm: Norm | None
    scales: bool = False
    """Whether the embedding is multiplied by a number."""
    multiplied: bool = False
    """Whether it is multiplied by a tensor of one number, which is kept."""
    masks: tuple[Num | None, ...] = ()
    """The windows of which masks are made even where no layer has them."""
    normed_twice: bool = False
    """Whether the norm runs before the first layer, too (NanoChat)."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        x = scaled(self.table(x)) if self.scales else self.table(x)
        if self.multiplied:
            x = mul(x, x.trace.new((1,), x.dtype, "multiplier"))
        if x.trace.lowers:
            ctx = ctx.backend.begin(ctx, x, list(attentions(self.layers)), self.masks)
        if self.normed_twice and self.norm is not None:
            x = self.norm(x, ctx)
        x = self.layers(x, ctx)
        return x if self.norm is None else self.norm(x, ctx)


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
        made = self.base(x, ctx)
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
            x = scaled(x)
            x = pointwise("tanh", x)
            x = scaled(x)
        return x
