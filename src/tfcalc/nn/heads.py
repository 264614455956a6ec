"""Heads beside that of a language model: what else is made of a base model's output."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.encoder import Encoder
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import dropout
from tfcalc.ops.shapes import first, narrow
from tfcalc.tape.tensor import Tensor

TOKENS, FIRST, POOLED = "tokens", "first", "pooled"
"""What a classifier reads: each token's vector, the first one's, or what a pooler made of it."""


class SequenceSummary(Module):
    """One vector for each sequence, of its last token's (transformers' SequenceSummary)."""

    kind = "summary"

    map: Linear

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Return the summary of each sequence, given the vectors of all tokens."""
        return self.map(narrow(x, 1))


class WithSummary(ModelWithHead):
    """A language model that also sums a sequence up, to choose among continuations (GPT-2's double heads)."""

    summary: SequenceSummary | None = None

    def read(self, made: Tensor, x: Tensor, ctx: Context) -> Tensor:
        """The loss, or the logits; the summary is of no consequence to them."""
        answer = super().read(made, x, ctx)
        if self.summary is not None:
            self.summary(made)
        return answer


class Transform(Module):
    """A map, an activation and a norm of what logits are made of."""

    kind = "head"

    dense: Linear
    norm: Norm
    activation: str

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Transform each vector."""
        inner = self.dense(x)
        inner = ctx.activation(self.activation, inner)
        return self.norm(inner, ctx)


class Classifier(Module):
    """A model, and maps one after another that make classes of what it has made, with an activation between them.

    A transform may come before them. What a map reads is ``dropped`` in part, but not by those that are
    ``undropped``.
    """

    kind = "model"

    base: Module
    transform: Transform | None
    maps: tuple[Linear, ...]
    reads: str = TOKENS
    activation: str = "tanh"
    dropped: bool = False
    undropped: tuple[str, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the class scores for token ids."""
        x = self._read(x, ctx)
        x = x if self.transform is None else self.transform(x, ctx)
        for place, each in enumerate(self.maps):
            if place:  # of so few vectors that it is not counted
                x = ctx.backend.activation(self.activation, x)
            if self.dropped and ctx.drops and each.name not in self.undropped:
                x = dropout(x, f"{each.name}_dropout")
            x = each(x)
        return x

    def _read(self, x: Tensor, ctx: Context) -> Tensor:
        if self.reads == POOLED:
            assert isinstance(self.base, Encoder)
            return self.base.pooled(x, ctx)[1]
        made = self.base(x, ctx)
        return first(made) if self.reads == FIRST else made


class PreTraining(ModelWithHead):
    """A language model that also makes classes of the pooled first token (BERT's next sentence)."""

    beside: Linear | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the language model's output for token ids, and run the map of the pooled first token."""
        assert isinstance(self.base, Encoder)
        assert self.beside is not None
        made, whole = self.base.pooled(x, ctx)
        answer = self.read(made, x, ctx)
        self.beside(whole)
        return answer


class WithTransform(ModelWithHead):
    """A language model whose logits are made of a transform, which may be in the model itself (``inline``)."""

    transform: Transform | None = None
    inline: bool = True

    @property
    def parts(self) -> Iterator[Module]:
        """The parts in the order in which they run."""
        assert self.transform is not None
        return iter((self.base, *(self.transform.parts if self.inline else (self.transform,)), self.head))

    def transformed(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the input of the map that makes logits."""
        assert self.transform is not None
        return self.transform.forward(x, ctx) if self.inline else self.transform(x, ctx)

    def logits(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits of the base model's output."""
        return super().logits(self.transformed(x, ctx), ctx)

    def opened(self, x: Tensor, ctx: Context) -> tuple[Tensor, list[Tensor]]:
        """Return the input of the map that makes logits, and its weights."""
        return super().opened(self.transformed(x, ctx), ctx)


class SentenceHead(Module):
    """A map of the last token's vector, a tanh, and a map that makes classes (BART)."""

    kind = "head"

    dense: Linear
    output: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the class scores of each sequence, given the vectors of all tokens."""
        inner = self.dense(narrow(x, 1))
        return self.output(ctx.activation("tanh", inner, "tanh"))


class Headed(Module):
    """A model, and what a head makes of its vectors."""

    kind = "model"

    base: Module
    head: Module

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the head's output for token ids, or for an image per sequence."""
        return self.head(self.base(x, ctx), ctx)
