"""Parts of layers by their sizes: names of maps, windows, attention and networks, stacks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from tfcalc.configs.config import SLIDING, Config
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack, bounded_kinds

LLAMA_NAMES = ("q_proj", "k_proj", "v_proj", "o_proj")
"""Queries, keys, values, output."""
GATED = ("gate_proj", "up_proj", "down_proj")
"""Of a network with a gate."""
FUSED = ("gate_up_proj", "down_proj")
"""Of one whose gate and input one map makes."""


LAYERS = "num_hidden_layers"


def windows(c: Config, slides: Callable[[int], bool], size: str = "sliding_window") -> list[int | None]:
    """Window of each layer; None where it sees everything.

    ``layer_types`` says which layers slide, and ``slides`` where the config leaves that out.
    """
    count = c.number(LAYERS)
    width = None if c.get(size) is None else c.number(size)
    types = c.words("layer_types", count) if c.get("layer_types") else None
    sliding = [slides(place) if types is None else types[place] == SLIDING for place in range(count)]
    return [width if slide else None for slide in sliding]


def layer_types(
    c: Config, otherwise: Callable[[int], str], known: Sequence[str], field: str = "layer_types"
) -> list[str]:
    """Kind of each layer: the file lists them, or they follow from its place (``otherwise``)."""
    count = c.number(LAYERS)
    return c.words(field, count, known) if c.has(field) else [otherwise(place) for place in range(count)]


def window(c: Config, size: str = "sliding_window") -> int | None:
    """Window of all layers; None where they see everything."""
    return None if c.get(size) is None else c.number(size)


def full_and_sliding(c: Config, size: str = "sliding_window") -> tuple[int | None, ...]:
    """The masks that transformers makes, full and sliding, whether layers read them or not."""
    width = window(c, size)
    return (None,) if width is None else (None, width)


def no_rope_if_global(c: Config) -> dict[str, None]:
    """EXAONE's layers that see everything: where a config has a window, they know no positions."""
    return {} if c.get("sliding_window") is None else {"rope": None}


def attention_windows(c: Config, layers: str = LAYERS) -> Sequence[int]:
    """Longformer's windows, one per layer: the config gives one for all of its ``layers``, or one for each."""
    size, count = "attention_window", c.number(layers)
    return c.numbers(size, count, least=2) if isinstance(c.get(size), list) else [c.number(size, least=2)] * count


Heads = TypeVar("Heads", bound=Attention)
Kind = TypeVar("Kind", bound=Hashable)


def multi_head(
    of: type[Heads],
    name: str,
    names: Sequence[str],
    h: Num,
    heads: Num,
    width: Num,
    *,
    groups: Num | None = None,
    value_width: Num | None = None,
    source: Num | None = None,
    out: Num | None = None,
    bias: bool | tuple[bool, bool, bool] = False,
    output_bias: bool | None = None,
    norms: tuple[Norm, ...] = (),
    **more: Any,
) -> Heads:
    """Attention with ``heads`` heads of this ``width``, which reads vectors of width ``h``.

    The last of ``names`` is the map back. The others make queries, keys and values: one makes all, or one queries and
    another keys and values, or there is one for each, and their biases may differ. There are as many heads of keys and
    values, or fewer ``groups``. Values may have a width of their own; keys and values may be made of vectors of another
    width (``source``), and so may be what is given ``out``.
    """
    g, d_v, (*inward, outward) = (
        heads if groups is None else groups,
        width if value_width is None else value_width,
        names,
    )
    q, k, v = heads * width, g * width, g * d_v
    widths = ({"QKV": q + k + v}, {"Q": q, "KV": k + v}, {"Q": q, "K": k, "V": v})[len(inward) - 1]
    biased = dict(zip(widths, bias if isinstance(bias, tuple) else (bias,) * 3, strict=False))
    maps = tuple(
        Linear(one, h if source is None or "Q" in letter else source, wide, letter, biased[letter])
        for one, (letter, wide) in zip(inward, widths.items(), strict=True)
    )
    back = Linear(
        outward, heads * d_v, h if out is None else out, "O", bias is True if output_bias is None else output_bias
    )
    return of(name, heads, g, width, d_v, maps, norms, back, **more)


def network(
    name: str, names: Sequence[str], h: Num, f: Num, act: str, *, bias: bool = True, **more: Any
) -> FeedForward:
    """Two maps, and an activation between them."""
    up, down = names
    return FeedForward(name, Linear(up, h, f, "1", bias), Linear(down, f, h, "2", bias), act, **more)


def gated(
    name: str, names: Sequence[str], h: Num, f: Num, act: str, *, bias: bool = False, **more: Any
) -> GatedFeedForward:
    """Two maps with an activation and a gate between them; with two ``names``, one map makes gate and input."""
    *inward, down = names
    gate = Linear(inward[0], h, f, "g", bias) if len(inward) == 2 else None
    up = Linear(inward[-1], h, f if gate else 2 * f, "1", bias)
    return GatedFeedForward(name, gate, up, Linear(down, f, h, "2", bias), act, **more)


def one_module_per_kind(layers: Callable[[Kind], Module], kinds: Iterable[Kind]) -> list[Module]:
    """Build each distinct kind once, and repeat it in the order of ``kinds``.

    Raises InvalidModel where there are too many kinds.
    """
    kinds = list(kinds)
    unlike = dict.fromkeys(kinds)
    bounded_kinds(len(unlike))
    made = {kind: layers(kind) for kind in unlike}
    return [made[kind] for kind in kinds]


def stack(c: Config, layers: Module | Sequence[Module], depth: str = LAYERS, count: Num | None = None) -> Stack:
    """Layers one upon another, or as many equal ones as the field ``depth`` says; it goes by their name.

    Raises InvalidModel where the config lists none.
    """
    made = (layers,) * c.number(depth) if isinstance(layers, Module) else tuple(layers)
    if not made:
        where = c.prefix.removesuffix(".") or "the config"
        raise InvalidModel(f"{where} of model_type {c.model_type} lists no layers", "give at least one")
    return Stack(made[0].name, made, c.size(depth) if count is None else count)
