"""A vector of each token for each layer, from a table of its own (per-layer embeddings)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.number import divide
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import add, mul, scaled
from tfcalc.ops.shapes import copied, reshape, select
from tfcalc.tape.tensor import Tensor

VECTORS = "vectors of each layer"


class LayerVectors(Module):
    """What makes them: a table, and a map of the token's embedding, whose norm is of each layer's part.

    Their sum is multiplied by a number. The vectors are as wide as the norm. A program may first put another word in
    the place of those that are not in the table, in a copy of the ids (``replaces``). Source: transformers'
    Gemma4TextModel.project_per_layer_inputs.
    """

    table: Embedding
    map: Linear
    norm: Norm
    replaces: bool = False

    def forward(self, ids: Tensor, words: Tensor, ctx: Context) -> Tensor:
        """Of b × l tokens, as b × l × layers × width."""
        own = self.table(copied(ids, name="where") if self.replaces else ids, ctx)
        made = scaled(self.map(words))
        made = reshape(made, *made.shape[:2], divide(made.width, self.norm.width), self.norm.width)
        made = scaled(add(self.norm(made, ctx), reshape(own, *made.shape)))
        made.trace.belongs(made)  # one for all layers
        return made


class LayerInput(Module):
    """In a layer: its own vector of the token, gated by the stream, mapped to the stream's width."""

    kind = "per_layer_input"

    gate: Linear
    map: Linear
    activation: str

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × l × h."""
        gate = self.gate(x)
        gate = ctx.activation(self.activation, gate)
        return self.map(mul(gate, select(ctx.given[VECTORS], 2)))


class SharingDecoder(Decoder):
    """A decoder whose layers read what others have made: ``vectors`` of their own, keys and values of earlier layers.

    The parts of ``vectors`` stand in the model itself.
    """

    vectors: LayerVectors | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """And those of the vectors."""
        yield from super().parts
        if self.vectors is not None:
            yield from self.vectors.parts

    def sharing(self, ids: Tensor, words: Tensor, ctx: Context) -> Context:
        """With a place for keys and values."""
        given = {} if self.vectors is None else {VECTORS: self.vectors.forward(ids, words, ctx)}
        return ctx._replace(stored={}, given=given)
