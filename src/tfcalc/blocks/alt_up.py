"""Alternating updates: several residual streams, of which a layer computes one and predicts the others."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import linear, norm, parameter
from tfcalc.leaves.mixing import mixing
from tfcalc.workload import Sequences


class AltUp(NamedTuple):
    """Of ``streams`` vectors the active one says, through a router, how all are mixed before the layer and after it.

    The router runs twice: for the prediction (s · s weights of the mixture) and for the correction (s weights). The
    prediction is a product with each token's own matrix; the correction adds to each stream what it is weighted by.

    Source: Baykal et al. 2023 (arXiv 2301.13310), algorithm 1; transformers' Gemma3nTextAltUp.
    """

    d_model: Num
    streams: Num

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The block on these sequences."""
        h, s, t = self.d_model, self.streams, stream.tokens
        return Component(
            name,
            "altup",
            parts=(
                parameter("correct_output_scale", h, minor=True),
                norm("router_norm", "rmsnorm", h, 2 * t),
                linear("modality_router", h, s, 2 * t, bias=False),
                linear("prediction_coefs", s, s * s, t, bias=False),
                linear("correction_coefs", s, s, t, bias=False),
                mixing("predict", s, h, t),
            ),
        )
