"""Attention by way of a few landmarks, as Nyströmformer has it."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise, Product
from tfcalc.core.number import Num
from tfcalc.leaves.attend import SCALE, SOFTMAX
from tfcalc.workload import Sequences

STEPS = 6
"""Of the iteration to a matrix's pseudo-inverse; each is four products (Xiong et al. 2021, eq. 11)."""


class LandmarkAttention(NamedTuple):
    """``softmax(Q K̃ᵀ) · softmax(Q̃ K̃ᵀ)⁺ · softmax(Q̃ Kᵀ) V``: Q̃ and K̃ are means of segments, ``landmarks`` of them.

    Source: Xiong et al. 2021 (Nyströmformer, arXiv 2102.03902), section 3.2; transformers' NystromformerSelfAttention.
    """

    n_heads: Num
    head_dim: Num
    landmarks: int

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The products between the projections."""
        a, d, m, b, t = self.n_heads, self.head_dim, self.landmarks, stream.batch, stream.tokens
        scores = a * (2 * t * m + b * m * m)
        return Component(
            name,
            "attend",
            Cost(
                products=(
                    Product("Q K̃ᵀ", (2, t, m, a, d)),
                    Product("Q̃ K̃ᵀ", (2, b, m, m, a, d)),
                    Product("Q̃ Kᵀ", (2, t, m, a, d)),
                    Product("pseudo-inverse", (2, STEPS, 4, b, a, m, m, m)),
                    Product("P₁ P₂⁺", (2, t, m, m, a)),
                    Product("P₃ V", (2, t, m, a, d)),
                    Product("P V", (2, t, m, a, d)),
                ),
                elementwise=(Elementwise("scale", a * d * 2 * t, *SCALE), Elementwise("softmax", scores, *SOFTMAX)),
            ),
        )
