"""Attention in chunks of a long sequence, with trained keys for relative positions."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div
from tfcalc.core.pairs import Pairs
from tfcalc.leaves import activation, attend, linear, parameter
from tfcalc.leaves.relative import relative_scores
from tfcalc.workload import Sequences, Workload


class ChunkedAttention(NamedTuple):
    """Each chunk of ``chunk`` tokens sees ``context`` of them: itself and those around it.

    A score has a part for the key and a part for its distance, whose keys a matrix makes of fixed sines. A trained
    scale stands at each of a head's dimensions. ``within`` are further parts.

    Source: Dai et al. 2019 (arXiv 1901.02860), section 3.3; transformers' Gemma4AudioAttention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num
    chunk: int
    context: int
    names: tuple[str, ...]
    within: tuple[Component, ...] = ()

    def __call__(self, name: str, stream: Sequences, run: Workload) -> Component:
        """The block on these sequences, the last chunk of each filled up."""
        h, a, d, t = self.d_model, self.n_heads, self.head_dim, stream.tokens
        queries = stream.batch * ceil_div(stream.length, self.chunk) * self.chunk
        scores, back = queries * self.context, self.context // 2 + 1  # distances that have a sine
        made = 0 if run.decoding else back
        return Component(
            name,
            "attention",
            parts=(
                *(linear(part, h, a * d, t, bias=False, letter=part[0].upper()) for part in self.names[:3]),
                parameter("per_dim_scale", d, minor=True),
                activation("scale", "softplus", d),
                linear("relative_k_proj", h, a * d, made, bias=False, letter="R", input_gradient=False),
                relative_scores("relative", a, d, queries, back, scores),
                attend(
                    "attend",
                    a,
                    d,
                    d,
                    Pairs((2, queries, self.context), scores, run.fused),
                ),
                *self.within,
                linear(self.names[3], a * d, h, t, bias=False, letter="O"),
            ),
        )
