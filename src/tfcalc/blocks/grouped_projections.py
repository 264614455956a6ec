"""Multi-head attention and a feed-forward network of maps that mix only the channels of a group."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import activation, attend, convolution
from tfcalc.workload import Sequences, Workload


class GroupedProjections(NamedTuple):
    """Queries, keys, values and the output by maps of h/g × h weights, each with ``groups`` of its own.

    ``names`` are those of the four maps.

    Source: Iandola et al. 2020 (SqueezeBERT, arXiv 2006.11316), section 3.2; transformers' SqueezeBertSelfAttention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num
    groups: tuple[Num, Num, Num, Num]
    names: tuple[str, str, str, str]

    def __call__(self, name: str, stream: Sequences, run: Workload) -> Component:
        """The block on these sequences."""
        h, d, tokens = self.d_model, self.head_dim, stream.tokens
        *inward, outward = (
            convolved(part, h, h, groups, tokens) for part, groups in zip(self.names, self.groups, strict=True)
        )
        made = attend("attend", self.n_heads, d, d, run.pairs(stream, stream, causal=False))
        return Component(name, "attention", parts=(*inward, made, outward))


class GroupedFeedForward(NamedTuple):
    """``activation(x W_1 + b_1) W_2 + b_2`` by maps of two numbers of ``groups``. Source: as above."""

    d_model: Num
    d_ff: Num
    activation: str
    groups: tuple[Num, Num]
    names: tuple[str, str]
    convolved: bool = True

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The block on these sequences."""
        h, f, tokens = self.d_model, self.d_ff, stream.tokens
        grouped = convolved if self.convolved else multiplied
        return Component(
            name,
            "ffn",
            parts=(
                grouped(self.names[0], h, f, self.groups[0], tokens),
                activation("activation", self.activation, tokens * f),
                grouped(self.names[1], f, h, self.groups[1], tokens),
            ),
        )


def convolved(name: str, fan_in: Num, fan_out: Num, groups: Num, tokens: Num) -> Component:
    """A map of every token in ``groups``: a convolution over one token."""
    return convolution(name, fan_in, fan_out, (1,), tokens, groups=groups)


def multiplied(name: str, fan_in: Num, fan_out: Num, groups: Num, tokens: Num) -> Component:
    """The same as a matrix product for each group: its gradients are two such products."""
    made = convolved(name, fan_in, fan_out, groups, tokens)
    products = tuple(product._replace(backward=2, overcounted=0) for product in made.own.products)
    return made._replace(own=made.own._replace(products=products))
