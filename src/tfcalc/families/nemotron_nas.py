"""Nemotron from a neural architecture search: each layer has what the search left it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfcalc.blocks import GATED, LLAMA_NAMES, Attention, FeedForward, layer, stack
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, divide, floor_div, scaled
from tfcalc.errors import InvalidModel
from tfcalc.families.llama import decoder, head_dim
from tfcalc.leaves import linear, norm
from tfcalc.workload import Workload

NOTHING, LINEAR = 0, -1
"""What stands in a sub-layer's place instead of its size: nothing, norm included, or a linear map."""
STEP = 256
"""Feed-forward sizes are rounded up to multiples of it."""


@family(
    "nemotron-nas",
    architecture="DeciLMForCausalLM",
    heads=CAUSAL_LM,
    like="llama",
    vocab_size=128256,
    hidden_size=8192,
    num_hidden_layers=80,
    num_attention_heads=64,
)
def nemotron_nas(c: Config, run: Workload) -> Component:
    """Puzzle (arXiv 2411.19146): Llama whose ``block_configs`` say how each layer is built."""
    count, tokens = c.number("num_hidden_layers"), run.target.tokens
    kinds = [(_shared(c, place), _width(c, place)) for place in range(_listed(c, count))]

    def make(kind: tuple[int, float]) -> Component:
        return layer("layers", _sublayers(c, run, *kind), tokens * c.size("hidden_size"), ends_with_sum=True)

    return decoder(c, run, *stack("layers", kinds, c.size("num_hidden_layers"), make))


def _sublayers(c: Config, run: Workload, shared: int, width: float) -> Iterator[Component]:
    h, d, stream = c.size("hidden_size"), head_dim(c), run.target
    if shared != NOTHING:
        yield norm("input_layernorm", "rmsnorm", h, stream.tokens)
        if shared == LINEAR:
            yield linear("self_attn.linear_attn", h, h, stream.tokens, bias=False)
        else:
            a, bias = c.size("num_attention_heads"), c.flag("attention_bias")
            block = Attention(h, a, divide(a, shared), d, d, bias=bias, names=LLAMA_NAMES, rotary=d)
            yield block("self_attn", stream, stream, run, causal=True)
    if width != NOTHING:
        yield norm("post_attention_layernorm", "rmsnorm", h, stream.tokens)
        if width == LINEAR:
            yield linear("mlp.linear_mlp", h, h, stream.tokens, bias=False)
        else:
            act, bias = c.word("hidden_act"), c.flag("mlp_bias")
            inner = _rounded(h, width) if isinstance(width, float) else width
            inner = _rounded(h, width) if isinstance(width, float) else width
            yield FeedForward(h, inner, act, bias=bias, names=GATED, gated=True)("mlp", stream, run)


def _shared(c: Config, place: int) -> int:
    """How many query heads share a key and a value: ``n_heads_in_group``."""
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
    """Two thirds of so many times the hidden size, rounded up."""
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
