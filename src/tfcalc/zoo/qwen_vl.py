"""Qwen's models of text and images: towers that take images of any size, and merge neighbouring patches."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.core.number import Num, divide, floor_div, scaled
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Module
from tfcalc.zoo import qwen_moe
from tfcalc.zoo.blocks import decoders, native_resolution, vision_tower
from tfcalc.zoo.blocks.native_resolution import MERGED_OF_TWO, PackedTower, Resampled
from tfcalc.zoo.blocks.vision_language import either, heads, reader
from tfcalc.zoo.blocks.vision_tower import FC

BARE = {"Model": tops.bare}
LINEAR_FC = ("linear_fc1", "linear_fc2")


@family("qwen2_vl_vision", architecture="Qwen2VisionTransformerPretrainedModel", heads=BARE)
def qwen2_vl_vision(c: Config) -> Module:
    """The tower of Qwen2-VL (arXiv 2409.12191): rotary positions; ``hidden_size`` is what it gives to the text."""
    e = c.size("embed_dim")
    network = native_resolution.network(c, FC, width="embed_dim", inner=scaled(e, c.factor("mlp_ratio")))
    layers = native_resolution.tower_layers(
        c, native_resolution.layer(e, native_resolution.attention(c, "embed_dim"), network)
    )
    merger = native_resolution.merger(c, e, c.size("hidden_size"), names=MERGED_OF_TWO)
    return native_resolution.tower(native_resolution.patch_rows(c, e, bias=False), layers, merger)


@family("qwen2_5_vl_vision", heads=BARE)
def qwen2_5_vl_vision(c: Config) -> Module:
    """The tower of Qwen2.5-VL (arXiv 2502.13923): RMSNorm, SwiGLU with biases; most layers look only within windows."""
    h, depth, everywhere = c.size("hidden_size"), c.number("depth"), c.numbers("fullatt_block_indexes")

    def one(pieces: Num | None) -> PreNorm:
        mixer = native_resolution.attention(c, pieces=pieces)
        return native_resolution.layer(h, mixer, decoders.gated(c, bias=True), form="rmsnorm")

    full, windowed = one(None), one(_window(c))
    layers = native_resolution.tower_layers(c, *(full if place in everywhere else windowed for place in range(depth)))
    merger = native_resolution.merger(c, h, c.size("out_hidden_size"), form="rmsnorm", names=MERGED_OF_TWO)
    return native_resolution.tower(native_resolution.patch_rows(c, h, bias=False), layers, merger).replace(
        sorted_by=merger.neighbours
    )


def _window(c: Config) -> Num:
    """Patches of a window of ``window_size`` pixels, merged ones whole.

    An image of any shape is counted as a strip of windows, of which the last may be narrower.
    """
    merge, patch = c.size("spatial_merge_size"), c.size("patch_size")
    if c.number("window_size") % (c.number("spatial_merge_size") * c.number("patch_size")) == 0:
        side: Num = divide(c.size("window_size"), patch)
    elif c.number("window_size") < c.number("spatial_merge_size") * c.number("patch_size"):
        side = merge
    else:
        side = merge * floor_div(c.size("window_size"), merge * patch)
    return side * side


def qwen3_tower(c: Config, *, deep: int = 0) -> PackedTower:
    """A tower with trained positions, of which ``deep`` layers' vectors go into the text's first layers too."""
    h, out, count = c.size("hidden_size"), c.size("out_hidden_size"), c.size("num_position_embeddings")
    layers = native_resolution.tower_layers(
        c, native_resolution.layer(h, native_resolution.attention(c), native_resolution.network(c, LINEAR_FC))
    )
    mergers = [native_resolution.merger(c, h, out)]
    if deep:
        mergers.append(native_resolution.merger(c, h, out, name="deepstack_merger_list", together=True, count=deep))
    positions = Resampled("pos_embed", count, h, neighbours=4)
    patches = native_resolution.patch_rows(c, h, bias=True)
    return native_resolution.tower(patches, layers, *mergers, positions=positions, count=count)


@family("qwen3_vl_vision", "qwen3_vl_moe_vision", heads=BARE)
def qwen3_vl_vision(c: Config) -> Module:
    """The tower of Qwen3-VL (arXiv 2511.21631): DeepStack (arXiv 2406.04334) merges early layers' vectors as well."""
    return qwen3_tower(c, deep=len(c.numbers("deepstack_visual_indexes")))


@family("qwen3_5_vision", "qwen3_5_moe_vision", heads=BARE)
def qwen3_5_vision(c: Config) -> Module:
    """The tower of Qwen3.5: Qwen3-VL's without DeepStack."""
    return qwen3_tower(c)


@family("qwen3_vl_moe_text", heads=BARE)
def qwen3_vl_moe_text(c: Config) -> Module:
    """Qwen3-MoE with rotary positions in three dimensions."""
    return qwen_moe.with_head_norms(c, by_sequence=True, normalized=True)


def nested(c: Config) -> Config:
    """The text's config."""
    return subconfig(c, "text_config", f"{c.model_type}_text")


def nested_or_flat(c: Config) -> Config:
    """The text's config, whose fields are at the top in the first files of Qwen2-VL and Qwen2.5-VL."""
    return c.read_as(f"{c.model_type}_text", head="Model") if c.get("text_config") is None else nested(c)


def seeing(c: Config, language: Config) -> Module:
    """A tower and a text of the family's own."""
    vision = subconfig(c, "vision_config", f"{c.model_type}_vision")
    side = vision.size("spatial_merge_size")
    count = vision.optional("num_position_embeddings")
    tower = vision_tower.nested(vision, "visual")
    return reader(tower, (), language, vectors=count, width=language.size("hidden_size"), together=side * side)


@family("qwen2_vl", "qwen2_5_vl", heads=heads(nested_or_flat, tied=either))
def qwen2_vl(c: Config) -> Module:
    """Qwen2-VL (arXiv 2409.12191), Qwen2.5-VL (2502.13923)."""
    return seeing(c, nested_or_flat(c))


@family("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", heads=heads(nested))
def qwen3_vl(c: Config) -> Module:
    """Qwen3-VL (arXiv 2511.21631), Qwen3.5 (Qwen team, 2026)."""
    return seeing(c, nested(c))
