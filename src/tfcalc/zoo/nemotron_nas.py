"""Nemotron from a neural architecture search: each layer has what the search left it."""

from __future__ import annotations

from collections.abc import Mapping

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, ceil_div, divide, floor_div, scaled
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Module
from tfcalc.nn.positions import Rope
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.layers import LAYERS, LLAMA_NAMES, multi_head

NOTHING, LINEAR = 0, -1
"""What stands in a sub-layer's place instead of its size: nothing, norm included, or a linear map."""
STEP = 256
"""Feed-forward sizes are rounded up to multiples of it."""


@family(
    "nemotron-nas",
    architecture="DeciLMForCausalLM",
    like="llama",
    vocab_size=128256,
    hidden_size=8192,
    num_hidden_layers=80,
    num_attention_heads=64,
)
def nemotron_nas(c: Config) -> Module:
    """Puzzle (arXiv 2411.19146): Llama whose ``block_configs`` say how each layer is built."""
    kinds = [(_shared(c, place), _width(c, place)) for place in range(_listed(c, c.number(LAYERS)))]
    return decoders.decoder(c, lambda kind: _layer(c, *kind), kinds)


def _layer(c: Config, shared: int, width: float) -> PreNorm:
    sublayers = {"input_layernorm": _mixer(c, shared), "post_attention_layernorm": _network(c, width)}
    there = {name: sub for name, sub in sublayers.items() if sub is not None}
    norms = (Norm(name, "rmsnorm", c.size("hidden_size")) for name in there)
    return PreNorm("layers", tuple(there.values()), tuple(norms))


def _mixer(c: Config, shared: int) -> Module | None:
    h, a, d, bias = c.size("hidden_size"), c.size("num_attention_heads"), decoders.head_dim(c), c.flag("attention_bias")
    if shared == NOTHING:
        return None
    if shared == LINEAR:
        return Linear("self_attn.linear_attn", h, h)
    groups = divide(a, shared)
    return multi_head(Attention, "self_attn", LLAMA_NAMES, h, a, d, groups=groups, bias=bias, rope=Rope(d))


def _network(c: Config, width: float) -> Module | None:
    h = c.size("hidden_size")
    if width == NOTHING:
        return None
    if width == LINEAR:
        return Linear("mlp.linear_mlp", h, h)
    f: Num = _rounded(h, width) if isinstance(width, float) else width
    return decoders.gated(c, width=f, bias=c.flag("mlp_bias"))


def _shared(c: Config, place: int) -> int:
    """Number of query heads that share a key and a value: ``n_heads_in_group``."""
    part = _part(c, place, "attention")
    if (instead := _instead(part)) is not None:
        return instead
    heads, each = c.number("num_attention_heads"), part.number("n_heads_in_group")
    if heads % each:
        raise InvalidModel(
            f"{c.path('num_attention_heads')} {heads} is not divisible by {part.path('n_heads_in_group')} {each}",
            f"give a divisor of {heads}",
        )
    return each


def _width(c: Config, place: int) -> float:
    """The feed-forward size where it is given, which is an int; else ``ffn_mult``, which is a float."""
    part = _part(c, place, "ffn")
    if (instead := _instead(part)) is not None:
        return instead
    if part.has("intermediate_size"):
        return part.number("intermediate_size")
    return float(part.factor("ffn_mult"))


def _rounded(h: Num, factor: float) -> Num:
    """Two thirds of ``factor`` times the hidden size, rounded up to a multiple of ``STEP``."""
    width: Num = STEP * ceil_div(floor_div(scaled(2 * h, factor), 3), STEP)
    return width


def _instead(part: Config) -> int | None:
    if part.flag("no_op"):
        return NOTHING
    return LINEAR if part.flag("replace_with_linear") else None


def _listed(c: Config, count: int) -> int:
    blocks = c.get("block_configs")
    if not isinstance(blocks, list) or len(blocks) != count:
        raise InvalidModel(f"{c.path('block_configs')} is not a list of {count} layers", "give one object for each")
    return count


def _part(c: Config, place: int, name: str) -> Config:
    """``attention`` or ``ffn`` of a layer's entry, to be read field by field."""
    block, path = c.get("block_configs")[place], f"{c.path('block_configs')}[{place}]"
    data = block.get(name) if isinstance(block, Mapping) else None
    if not isinstance(data, Mapping):
        raise InvalidModel(f"{path} has no {name}", "write { … }")
    return Config(data, c.model_type, {}, {}, c.head, c.reading, f"{path}.{name}.")
