"""One image for each sequence, as transformers' models take it: whole, in tiles, or cut into patches already.

The names of a model's arguments tell which. Pixels are ones: a black image counts as padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from math import isqrt, prod
from typing import TYPE_CHECKING

import torch

from tfcalc.workload import Workload

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel

TOWERS_GRID = "grid_thw"
GRIDS = ("image_grid_thw", TOWERS_GRID)
PLACES = ("image_position_ids", "pixel_position_ids")
HELD = ("vision_config", "encoder")
"""Nested configs of what reads images."""


def images(built: PreTrainedModel, run: Workload) -> dict[str, Tensor]:
    """The arguments that make an image; none where a token is decoded, for then the image has been seen."""
    known = signature(built.forward).parameters
    if run.decoding or not known.keys() & {"pixel_values", TOWERS_GRID}:
        return {}
    vision, batch = tower(built.config), int(run.batch_size)  # type: ignore[call-overload]
    if vision is None or (vision is built.config and "input_ids" in known and not _has_size(vision)):
        return {}  # words alone: where an encoder takes patches among them (NeoMME), there need be none
    given = _image(built.config, vision, batch, run, known)
    if "pixel_values" not in known:  # Qwen's towers
        return {"hidden_states" if name == "pixel_values" else name: one for name, one in given.items()}
    types = {name: torch.zeros(batch, int(run.seq_len), dtype=torch.long) for name in TYPES if name in known}  # type: ignore[call-overload]
    return types | given | _places(built, vision, run, given)


def _has_size(vision: PreTrainedConfig) -> bool:
    return getattr(vision, "image_size", None) is not None


TYPES = ("token_type_ids", "mm_token_type_ids")
"""Inputs that mark the tokens of an image: none for most models, as their number does not change the count."""


def _places(
    built: PreTrainedModel, vision: PreTrainedConfig, run: Workload, given: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Words for an image: one for each vector, where these are added to the vectors of words (DeepStack)."""
    if not getattr(vision, "deepstack_visual_indexes", None):
        return {}
    _, rows, columns = next(given[grid] for grid in GRIDS if grid in given)[0].tolist()
    words = torch.zeros(int(run.batch_size), int(run.seq_len), dtype=torch.long)  # type: ignore[call-overload]
    words[:, : rows * columns // _merged(vision) ** 2] = built.config.image_token_id
    return {"input_ids": words}


def tower(config: PreTrainedConfig) -> PreTrainedConfig | None:
    """The config of what reads images: nested, once or twice, or the whole; None where a model was built without it."""
    for held in HELD:
        if hasattr(config, held):
            return tower(getattr(config, held))
    return config


def _image(
    config: PreTrainedConfig, vision: PreTrainedConfig, batch: int, run: Workload, known: Mapping[str, Parameter]
) -> dict[str, Tensor]:
    for grid in GRIDS:
        if grid in known:
            return _packed(grid, vision, batch, run)
    if "spatial_shapes" in known:
        return _cut(vision, batch)
    for places in PLACES:
        if places in known:
            return _placed(places, vision, batch, run)
    if vision is config and hasattr(
        config, "text_config"
    ):  # no tower at all: a language model reads the patches (Fuyu)
        side, (rows, columns) = config.patch_size, _grid(config, run)
        return {"pixel_values": torch.ones(batch, rows * columns, _channels(config) * side * side)}
    size = _pair(vision.image_size)
    pixels = (_channels(vision), *size)
    if "aspect_ratio_ids" in known:
        tiles = vision.max_num_tiles
        return {
            "pixel_values": torch.ones(batch, 1, tiles, *pixels),
            "aspect_ratio_ids": torch.ones(batch, 1, dtype=torch.long),
            "aspect_ratio_mask": torch.ones(batch, 1, tiles, dtype=torch.long),
        }
    several = 1 if "pixel_attention_mask" in known else getattr(config, "num_image_with_embedding", None)
    shapes = getattr(config, "image_grid_pinpoints", None)
    if shapes is not None:
        from transformers.models.llava_next.modeling_llava_next import image_size_to_num_patches

        several = image_size_to_num_patches(list(size), shapes, size[0])
    between = () if several is None else (several,)
    sizes = {"image_sizes": torch.tensor([size] * batch, device="cpu")} if _wants_sizes(config, known) else {}
    return {"pixel_values": torch.ones(batch, *between, *pixels)} | sizes


def _wants_sizes(config: PreTrainedConfig, known: Mapping[str, Parameter]) -> bool:
    """Only towers for images of any shape take their sizes."""
    return "image_sizes" in known and (
        hasattr(config, "image_grid_pinpoints") or getattr(tower(config), "model_type", "") == "pixtral"
    )


def _packed(grid: str, vision: PreTrainedConfig, batch: int, run: Workload) -> dict[str, Tensor]:
    """The patches of all images in one row, and each image's frames, rows and columns."""
    rows, columns = _grid(vision, run)
    side, frames = vision.patch_size, getattr(vision, "temporal_patch_size", 1)
    pixels = (_channels(vision), frames, side, side)
    flat = (prod(pixels),) if hasattr(vision, "temporal_patch_size") else (pixels[0], side, side)
    return {
        "pixel_values": torch.ones(batch * rows * columns, *flat),
        grid: torch.tensor([[1, rows, columns]] * batch, device="cpu"),
    }


def _grid(vision: PreTrainedConfig, run: Workload) -> tuple[int, int]:
    """Grid of patches: by its table of positions or its images; a strip of the source where any size will do."""
    places = getattr(vision, "num_position_embeddings", None)
    if places is not None:
        return isqrt(places), isqrt(places)
    if hasattr(vision, "pos_emb_height"):
        return vision.pos_emb_height, vision.pos_emb_width
    if getattr(vision, "image_size", None) is not None:
        rows, columns = _pair(vision.image_size)
        return rows // vision.patch_size, columns // vision.patch_size
    high, merged = strip(vision), _merged(vision)
    return high, max(int(run.source.length) // (high * merged), 1) * merged  # type: ignore[call-overload]


def strip(vision: PreTrainedConfig) -> int:
    """Rows of an image that is a strip: as high as a window, or as what is merged."""
    merged = _merged(vision)
    window = getattr(vision, "window_size", None)
    return merged if window is None else max(window // merged // vision.patch_size, 1) * merged


def fewest(vision: PreTrainedConfig) -> int:
    """Patches of the shortest strip: those that are pooled together, or a column of those that are merged."""
    pooled = getattr(vision, "pooling_kernel_size", None)
    return strip(vision) * _merged(vision) if pooled is None else int(pooled) ** 2


def _merged(vision: PreTrainedConfig) -> int:
    return int(getattr(vision, "spatial_merge_size", 1))


def _cut(vision: PreTrainedConfig, batch: int) -> dict[str, Tensor]:
    """Return each image's patches in a row of its own, with its rows and columns (SigLIP 2)."""
    side, count = isqrt(vision.num_patches), vision.num_patches
    return {
        "pixel_values": torch.ones(batch, count, _channels(vision) * vision.patch_size**2),
        "pixel_attention_mask": torch.ones(batch, count, dtype=torch.long),
        "spatial_shapes": torch.tensor([[side, side]] * batch, device="cpu"),
    }


def _placed(name: str, vision: PreTrainedConfig, batch: int, run: Workload) -> dict[str, Tensor]:
    """Return each image's patches in a row of its own, with the place of each (Gemma 4).

    The image is a strip, as high as is pooled.
    """
    high = vision.pooling_kernel_size
    count = max(int(run.source.length) // high**2, 1) * high**2  # type: ignore[call-overload]
    side = getattr(vision, "model_patch_size", vision.patch_size)
    places = [[place // high, place % high] for place in range(count)]
    return {
        "pixel_values": torch.ones(batch, count, 3 * side**2),
        name: torch.tensor([places] * batch),
    }


def _pair(size: int | Sequence[int]) -> tuple[int, int]:
    rows, columns = size if isinstance(size, list | tuple) else (size, size)
    return rows, columns


def _channels(vision: PreTrainedConfig) -> int:
    return next((int(getattr(vision, name)) for name in ("num_channels", "in_channels") if hasattr(vision, name)), 3)
