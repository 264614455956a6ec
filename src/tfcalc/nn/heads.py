"""Heads beside that of a language model: what else is made of a base model's output."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.encoder import Encoder
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import activation, dropout, pointwise
from tfcalc.ops.shapes import first, narrow
from tfcalc.tape.tensor import Tensor

TOKENS, FIRST, POOLED = "tokens", "first", "pooled"
"""What a classifier reads: each token's vector, the first one's, or what a pooler made of it."""


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


class Classifier(Module):
    """A model, and maps one after another that make classes of what it has made, with an activation between them.

    What a map reads is ``dropped`` in part.
    """

    kind = "model"

    base: Module
    maps: tuple[Linear, ...]
    reads: str = TOKENS
    activation: str = "tanh"
    dropped: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        x = self._read(x, ctx)
        for place, each in enumerate(self.maps):
            x = pointwise(self.activation, x) if place else x
            x = dropout(x, f"{each.name}_dropout") if self.dropped and ctx.drops else x
            x = each(x)
        return x

    def _read(self, x: Tensor, ctx: Context) -> Tensor:
        if self.reads == POOLED:
            assert isinstance(self.base, Encoder)
            return self.base.pooled(x, ctx)[1]
        made = self.base(x, ctx)
        return first(made) if self.reads == FIRST else made


class PreTraining(WithHead):
    """A language model that also makes classes of the pooled first token (BERT's next sentence)."""

    beside: Linear | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        assert isinstance(self.base, Encoder)
        assert self.beside is not None
        made, whole = self.base.pooled(x, ctx)
        answer = self.read(made, x, ctx)
        self.beside(whole)
        return answer


class WithTransform(WithHead):
    """A map, an activation and a norm that stand in the model itself, before the map that makes logits."""

    dense: Linear | None = None
    norm: Norm | None = None
    activation: str = ""

    @property
    def parts(self) -> Iterator[Module]:
        """In the order in which they run."""
        return iter(each for each in (self.base, self.dense, self.norm, self.head) if each is not None)

    def transformed(self, x: Tensor, ctx: Context) -> Tensor:
        """What the logits are made of."""
        assert self.dense is not None
        assert self.norm is not None
        inner = self.dense(x)
        inner = activation(self.activation, inner, lambda: ctx.backend.activation(self.activation, inner))
        return self.norm(inner, ctx)

    def logits(self, x: Tensor, ctx: Context) -> Tensor:
        """Those of what the base model has made."""
        return super().logits(self.transformed(x, ctx), ctx)

    def opened(self, x: Tensor, ctx: Context) -> tuple[Tensor, list[Tensor]]:
        """What the map that makes logits reads, and its weights."""
        return super().opened(self.transformed(x, ctx), ctx)
