"""I-BERT: RoBERTa with what it needs to run on integers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num
from tfcalc.nn.basic import Buffer, Embedding, Linear, Norm
from tfcalc.nn.embeddings import TOKENS, Embeddings, Positions, Segments
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.layers import PostNorm
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import encoders
from tfcalc.zoo.blocks.encoders import FIRST_TOKEN, POST_NORM, ROBERTA_TOPS
from tfcalc.zoo.blocks.layers import stack

RANGE = ("x_min", "x_max", "act_scaling_factor")
"""What is kept of the activations at a place: from where to where they go, and the size of a step."""


def quantised(cost: Cost, steps: Num, key: str) -> Cost:
    """Return the cost with an integer for each weight, and the size of a step."""
    integers = (Weight(each.name, each.shape, key=f"{each.key}_integer") for each in cost.weights)
    return cost._replace(buffers=(*integers, Weight("steps", (steps,), key=key)))


class IntegerLinear(Linear):
    """A linear map, with the size of a step for each row."""

    def own_params(self) -> Cost:
        """W and b, twice."""
        return quantised(super().own_params(), self.fan_out, "fc_scaling_factor")


class IntegerTable(Module):
    """A table, twice."""

    def own_params(self) -> Cost:
        """Return the table's parameters with their integers."""
        return quantised(super().own_params(), 1, "weight_scaling_factor")


class IntegerEmbedding(IntegerTable, Embedding):
    """Table of words, and its integers."""


class IntegerPositions(IntegerTable, Positions):
    """Table of positions, and its integers."""


class IntegerSegments(IntegerTable, Segments):
    """Table of token types, and its integers."""


class IntegerNorm(Norm):
    """A LayerNorm, with its shift and the range of what it makes."""

    def own_params(self) -> Cost:
        """γ and β."""
        ranges = (Weight(name, (1,), key=f"activation.{name}") for name in RANGE)
        return super().own_params()._replace(buffers=(Weight("shift", (1,), key="shift"), *ranges))


class IntegerEmbeddings(Embeddings):
    """Embeddings, with the ranges of what is added up."""

    ranges: tuple[Buffer, ...] = ()


class IntegerLayer(PostNorm):
    """A layer, with the ranges of what runs through it."""

    ranges: tuple[Buffer, ...] = ()

    @property
    def parts(self) -> Iterator[Module]:
        """The ranges last."""
        yield from super().parts
        yield from self.ranges


INTEGER: dict[type[Module], type[Module]] = {
    Linear: IntegerLinear,
    Embedding: IntegerEmbedding,
    Positions: IntegerPositions,
    Segments: IntegerSegments,
    Norm: IntegerNorm,
}


def in_integers(module: Module) -> Any:
    """Return the module with all that it holds stored twice."""
    kind = INTEGER.get(type(module), type(module))
    return kind(**{name: _of(value) for name, value in module.__dict__.items()})


def _of(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_of(each) for each in value)
    return in_integers(value) if isinstance(value, Module) else value


def ranges(*places: str) -> tuple[Buffer, ...]:
    """Return the ranges of the activations at these places."""
    names = (f"{place}.{name}" for place in places for name in RANGE)
    return tuple(Buffer(name, Weight(name, (1,), key="")) for name in names)


IN_EMBEDDINGS = ("embeddings_act1", "embeddings_act2", "output_activation")
IN_LAYER = (
    *(f"attention.self.{part}_activation" for part in ("query", "key", "value", "output")),
    "attention.self.softmax.act",
    "attention.output.ln_input_act",
    "attention.output.output_activation",
    "intermediate.output_activation",
    "output.ln_input_act",
    "output.output_activation",
    "pre_intermediate_act",
    "pre_output_act",
)


@family("ibert", heads=ROBERTA_TOPS)
def ibert(c: Config) -> Module:
    """Kim et al. 2021 (arXiv 2101.01321): each weight is stored a second time, as an integer, whether used or not.

    What runs is RoBERTa in numbers, as long as ``quant_mode`` is not set.
    """
    norms = (encoders.norm(c, name).replace(code="quotient") for name in POST_NORM[::2])
    layer = in_integers(
        IntegerLayer("layer", (encoders.attention(c), encoders.network(c)), tuple(norms), encoders.drops(c))
    )
    layers = stack(c, layer.replace(ranges=ranges(*IN_LAYER)))
    words = encoders.embeddings(c, *encoders.with_tables(c, TOKENS))
    assert words.norm is not None
    table = in_integers(
        IntegerEmbeddings(words.name, words.tables, words.norm.replace(code="quotient"), words.dropped)
    ).replace(ranges=ranges(*IN_EMBEDDINGS))
    pooler = encoders.pooler(c, FIRST_TOKEN)
    return Encoder("ibert", table, (), Layers("encoder", (), layers), pooler=pooler, pools=c.head in encoders.PAIRED)
