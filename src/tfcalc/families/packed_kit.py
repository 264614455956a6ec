"""What towers for images of any size are composed of."""

from __future__ import annotations

from typing import Any

from tfcalc.configs.config import Config
from tfcalc.core.number import Num
from tfcalc.families import layers
from tfcalc.families.layers import multi_head
from tfcalc.nn.any_size import Merger, PackedAttention, PackedTower, PatchRows
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Module
from tfcalc.nn.rope import Rope
from tfcalc.nn.stack import Stack

FUSED = ("qkv", "proj")
NORMS = ("norm1", "norm2")
MERGED = ("norm", "linear_fc1", "linear_fc2")
MERGED_OF_TWO = ("ln_q", "mlp.0", "mlp.2")
SIDES = {"num_attention_heads": "num_heads", "num_hidden_layers": "depth"}


def patch_rows(c: Config, width: Num, *, bias: bool) -> PatchRows:
    """A convolution over the colours, frames, rows and columns of a patch."""
    side = c.size("patch_size")
    return PatchRows(
        "patch_embed.proj", (c.size("in_channels"), c.size("temporal_patch_size"), side, side), width, bias
    )


def attention(
    c: Config, width: str = "hidden_size", pieces: Num | None = None, *, bias: bool = True, output_bias: bool = True
) -> PackedAttention:
    """Queries, keys and values by one matrix; angles in fp32 for all that is turned."""
    h, a, d = c.size(width), c.size("num_heads"), c.quotient(width, "num_heads")
    made = multi_head(PackedAttention, "attn", FUSED, h, a, d, bias=bias, output_bias=output_bias)
    return made.but(rope=Rope(d, angles="float32", in_float32=True), pieces=pieces)


def network(c: Config, names: tuple[str, str], *, width: str = "hidden_size", inner: Num | None = None) -> FeedForward:
    """Two maps, of ``intermediate_size`` or of the ``inner`` width."""
    f = c.size("intermediate_size") if inner is None else inner
    return layers.network("mlp", names, c.size(width), f, c.word("hidden_act"))


def layer(width: Num, *subs: Module, form: str = "layernorm") -> PreNorm:
    """A layer of these sub-layers."""
    return PreNorm("blocks", subs, tuple(Norm(name, form, width) for name in NORMS))


def tower_layers(c: Config, *layers: Module, depth: str = "depth") -> Stack:
    """Layers that are all alike, or a module for each place."""
    made = layers * c.number(depth) if len(layers) == 1 else layers
    return Stack(layers[0].name, made, c.size(depth))


def merger(
    c: Config,
    width: Num,
    out: Num,
    *,
    name: str = "merger",
    form: str = "layernorm",
    names: tuple[str, str, str] = MERGED,
    **more: Any,
) -> Merger:
    """``spatial_merge_size``² neighbours become one vector."""
    side = c.size("spatial_merge_size")
    wide = width * side * side
    norm = Norm(names[0], form, wide if more.get("together") else width)
    return Merger(
        name, norm, Linear(names[1], wide, wide, "", True), Linear(names[2], wide, out, "", True), side * side, **more
    )


def tower(
    patches: PatchRows, layers: Stack, *mergers: Module, positions: Module | None = None, **more: Any
) -> PackedTower:
    """The whole, by the name that it has in the model."""
    return PackedTower("visual", patches, positions, layers, mergers, **more)
