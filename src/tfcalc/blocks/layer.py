"""A transformer layer: each sub-layer with its norm, its dropout and its residual connection."""

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.blocks.attention import Attention
from tfcalc.blocks.feed_forward import FeedForward
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import dropout, norm, residual
from tfcalc.workload import Sequences, Workload


class Layer(NamedTuple):
    """Self-attention, cross-attention where there is a memory to read, feed-forward.

    A norm before its sub-layer (pre-norm) costs what one after it does (post-norm), so the order is not told apart.
    ``causal`` says whether self-attention looks only back.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.1.
    """

    attention: Attention
    ffn: FeedForward
    d_model: Num
    norm: str
    causal: bool
    dropout: bool

    def __call__(self, stream: Sequences, memory: Sequences | None, run: Workload, copies: Num) -> Component:
        """``copies`` layers on ``stream``, each reading ``memory`` (the encoder's output) if there is one."""
        sublayers = {"self": self.attention("self_attention", stream, stream, run, causal=self.causal)}
        if memory is not None:
            sublayers["cross"] = self.attention("cross_attention", stream, memory, run, causal=False)
        sublayers["ffn"] = self.ffn("ffn", stream, run)
        parts = (part for name, sublayer in sublayers.items() for part in self._wrapped(name, sublayer, stream, run))
        return Component("layer", "layer", parts=tuple(parts), copies=copies)

    def _wrapped(self, name: str, sublayer: Component, stream: Sequences, run: Workload) -> Iterator[Component]:
        elements = stream.tokens * self.d_model
        yield sublayer
        if self.dropout and run.training:
            yield dropout(f"{name}_dropout", elements)
        yield residual(f"{name}_residual", elements)
        yield norm(f"{name}_norm", self.norm, self.d_model, stream.tokens)
