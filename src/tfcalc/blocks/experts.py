"""A mixture of experts: many feed-forward networks, of which a router sends each token to a few."""

from typing import NamedTuple

from tfcalc.blocks.feed_forward import FeedForward
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import linear
from tfcalc.workload import Sequences, Workload


class MixtureOfExperts(NamedTuple):
    """``n_experts`` are stored, ``active`` of them run for each token; a linear ``router`` of h × E chooses.

    ``within`` are further parts that every token goes through: shared experts, their gate, a correction bias; ``first``
    those that run before the experts.
    ``routing`` chooses in the router's place, where it is more than a map to one number for each expert.

    Source: Shazeer et al. 2017 (arXiv 1701.06538), section 2; Jiang et al. 2024 (arXiv 2401.04088), section 2.1.
    """

    d_model: Num
    n_experts: Num
    active: Num
    expert: FeedForward
    router: str = "gate"
    router_bias: bool = False
    within: tuple[Component, ...] = ()
    routing: Component | None = None
    first: tuple[Component, ...] = ()

    def __call__(self, name: str, stream: Sequences, run: Workload) -> Component:
        """The block on these sequences."""
        experts = self.expert("experts", stream, run)
        route = linear(self.router, self.d_model, self.n_experts, stream.tokens, bias=self.router_bias, letter="router")
        return Component(
            name,
            "moe",
            parts=(
                *self.first,
                (self.routing or route)._replace(kind="router"),
                experts._replace(kind="experts", copies=self.n_experts, active=self.active),
                *self.within,
            ),
        )
