"""Whole models: a stack with its table and final norm, and what makes logits of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfcalc.core.number import Num
from tfcalc.nn.attention import attentions
from tfcalc.nn.basic import Linear, Norm, Parameter
from tfcalc.nn.embeddings import GIVEN, Positions, numbered
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack
from tfcalc.number_formats import WIDTHS
from tfcalc.ops.elementwise import add, dropout, mul, pointwise, scaled
from tfcalc.ops.rows import cross_entropy
from tfcalc.ops.shapes import narrow
from tfcalc.tape.tensor import Tensor

if TYPE_CHECKING:
    from tfcalc.nn.positions import RelativeBias


class Decoder(Module):
    """A table, layers, and a final norm (Llama).

    The vectors of the words may be multiplied by a number (``scales``; with its format, ``scale``, where it is a buffer
    that the program brings to theirs). Where they have another width, ``maps`` lead to that of the layers, and from
    there back. Further tables are ``added``, their sum may have a norm (``normed``), and some of it is ``dropped``. A
    norm may run ``first``, before the layers (BLOOM), perhaps the same as behind them (NanoChat). The program makes
    ``masks`` of these windows, even where no layer has them. All layers may add the numbers of a ``relative`` table to
    their scores, and some of what leaves the stack may be dropped (``drops_output``).
    """

    kind = "decoder"

    table: Module
    layers: Stack
    norm: Module | None
    scales: bool = False
    scale: str = ""
    masks: tuple[Num | None, ...] = ()
    first: Norm | None = None
    added: tuple[Module, ...] = ()
    dropped: bool = False
    normed: Norm | None = None
    relative: RelativeBias | None = None
    drops_output: bool = False
    maps: tuple[Linear, ...] = ()

    @property
    def parts(self) -> Iterator[Module]:
        """Tables, layers, norms, and maps."""
        first = None if self.first is self.norm else self.first
        parts = (self.table, *self.added, self.relative, first, self.layers, self.normed, self.norm, *self.maps)
        return (part for part in parts if part is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the decoder's output for token ids."""
        words = self.embed_tokens(x, ctx)
        if any(isinstance(each, Positions) and each.indices == GIVEN for each in self.added):
            ctx = ctx._replace(places=numbered(x, (1, ctx.stream.length)))
        tables = [words, *(each(x, ctx) for each in self.added)]  # variables have them to the end
        ctx = self.sharing(x, words, ctx)
        ctx = self.begun(words, ctx)
        if self.relative is not None:
            ctx = ctx.backend.distances(self.relative, ctx, x)
        x = self.after_layers(self.layers.run([self.sum_embeddings(tables, ctx)], ctx), ctx)
        x = x if self.norm is None else self.norm(x, ctx)
        for back in self.maps[1:]:
            x = back(x)
        return dropout(x, "output_dropout") if self.drops_output and ctx.drops else x

    def sharing(self, ids: Tensor, words: Tensor, ctx: Context) -> Context:
        """Return the context with what layers read beside the residual stream."""
        return ctx

    def after_layers(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the input of the final norm, given the output of the layers."""
        return x

    def begun(self, words: Tensor, ctx: Context) -> Context:
        """Return the context with what a program makes once for all layers."""
        return ctx.backend.begin(ctx, words, list(attentions(self.layers)), self.masks)

    def embed_tokens(self, x: Tensor, ctx: Context) -> Tensor:
        """Look up the vectors of words, scaled and in the layers' width."""
        x = self._scaled(self.table(x, ctx)) if self.scales else self.table(x, ctx)
        for to_layers in self.maps[:1]:
            x = to_layers(x)
        return x

    def _scaled(self, x: Tensor) -> Tensor:
        if not self.scale:
            return scaled(x)
        trace = x.trace
        return mul(x, trace.to(trace.given((), self.scale, "scale of the embedding"), x.dtype))

    def sum_embeddings(self, tables: list[Tensor], ctx: Context) -> Tensor:
        """Add up the tables' vectors, as the first layer reads them."""
        x = tables[0]
        for each in tables[1:]:
            x = add(x, each)
        x = x if self.normed is None else self.normed(x, ctx)
        x = dropout(x, "embedding_dropout") if self.dropped and ctx.drops else x
        return x if self.first is None else self.first(x, ctx)


class Predictions(Module):
    """A map, an activation and a norm, then logits by the words' own vectors (BERT).

    Without the first three it is logits alone. A ``bias`` of its own is stored beside the matrix. ``code`` says whose
    program the activation is, where that is not the one that goes by its name.
    """

    kind = "head"

    dense: Linear | None
    norm: Norm | None
    decoder: Linear
    bias: Parameter | None = None
    activation: str = ""
    code: str = ""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits of each token."""
        return self.decoder(self.transformed(x, ctx))

    def transformed(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the input of the map that makes logits."""
        if self.dense is not None and self.norm is not None:
            inner = ctx.activation(self.activation, self.dense(x), code=self.code)
            x = self.norm(inner, ctx)
        return x


class NarrowPredictions(Predictions):
    """Logits of what two maps make through a narrower width, with the activation after each of them."""

    back: Linear | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The parts, both maps first."""
        parts = (self.dense, self.back, self.decoder)
        return (part for part in parts if part is not None)

    def transformed(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the input of the map that makes logits."""
        for place, each in enumerate((self.dense, self.back), start=1):
            if each is not None:
                x = ctx.activation(self.activation, each(x), f"activation{place}")
        return x


class ModelWithHead(Module):
    """A model and what makes logits of its output; in training, their loss.

    ``scales`` multiplies them by a number, and a tanh may keep them under a cap (``capped``), perhaps ``in_float32``.
    The labels are those of
    the next tokens (``shifted``), or of the tokens themselves, and the loss may read a copy of the logits in fp32
    (``upcasts``), or of those of all words but the last, which has no next one (``cuts``).
    """

    kind = "model"

    base: Module
    head: Linear | Predictions
    scales: bool = False
    capped: bool = False
    shifted: bool = True
    upcasts: bool = True
    cuts: bool = False
    in_float32: bool = False

    @property
    def output(self) -> Linear:
        """The map that makes logits."""
        return self.head.decoder if isinstance(self.head, Predictions) else self.head

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits for token ids; in training, their loss."""
        return self.read(self.base(x, ctx), x, ctx)

    def read(self, made: Tensor, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits, or in training their loss, of what the base model has ``made``."""
        if self.output.kind != "output":
            return self.logits(made, ctx)  # transformers' classifiers read every token
        if ctx.run.logits == "last":
            made = narrow(made, 1)
        if not ctx.run.training:
            return self.logits(made, ctx)
        return ctx.backend.head_and_loss(self, made, x, ctx)

    def counted_loss(self, made: Tensor, ctx: Context) -> Tensor:
        """The loss of the logits, where operations are counted."""
        return cross_entropy(self.logits(made, ctx), f"{self.output.name}.loss")

    def logits(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits of the base model's output.

        A stream that is wider than the weights is brought to their format.
        """
        kind = x.trace.weights_format
        x = self.head(x.trace.to(x, kind) if WIDTHS[x.dtype] > WIDTHS[kind] else x, ctx)
        if self.scales:
            x = scaled(x)
        x = x.trace.to(x, "float32") if self.in_float32 else x
        if self.capped:  # one after another, so that no two of them stand longer than they must
            x = scaled(x, "div")
            x = pointwise("tanh", x)
            x = scaled(x)
        return x

    def opened(self, x: Tensor, ctx: Context) -> tuple[Tensor, list[Tensor]]:
        """Return the input of the map that makes logits, and its weights, for a loss that makes no logits."""
        with x.trace.inside(self.head):
            if isinstance(self.head, Linear):
                return x, self.head.weights(x.trace)
            x = self.head.transformed(x, ctx)
            with x.trace.inside(self.head.decoder):
                return x, self.head.decoder.weights(x.trace)
