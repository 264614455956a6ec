"""Images as sequences of patches, and what vision towers have in common."""

from __future__ import annotations

from collections.abc import Mapping

from tfcalc.configs.config import Config
from tfcalc.configs.family import find
from tfcalc.core.number import Num, divide, floor_div
from tfcalc.errors import InvalidModel
from tfcalc.printable import quoted

OUT_PROJ = ("q_proj", "k_proj", "v_proj", "out_proj")
FC = ("fc1", "fc2")


def pair(c: Config, name: str) -> tuple[Num, Num]:
    """A height and a width: one size for both, or a list of two."""
    if isinstance(c.get(name), list | tuple):
        height, width = c.numbers(name, 2, least=1)
        return height, width
    return c.size(name), c.size(name)


def sides_of(c: Config, name: str) -> tuple[int, ...]:
    """The same as numbers."""
    return tuple(c.numbers(name, 2, least=1)) if isinstance(c.get(name), list | tuple) else (c.number(name),) * 2


def grid(c: Config, image: str = "image_size", patch: str = "patch_size") -> tuple[Num, Num]:
    """Rows and columns of whole patches in an image; pixels that are left over at its edges belong to none.

    ``I/p`` where both are sizes and the one divides the other, ``⌊I/p⌋`` otherwise. Raises InvalidModel where an image
    is smaller than a patch, which no convolution reads.
    """
    sides, kernel = sides_of(c, image), sides_of(c, patch)
    if any(side < each for side, each in zip(sides, kernel, strict=True)):
        raise InvalidModel(
            f"{c.path(image)} {quoted(c.get(image))} is smaller than {c.path(patch)} {quoted(c.get(patch))}",
            "an image has at least one patch",
        )
    listed = isinstance(c.get(image), list | tuple) or isinstance(c.get(patch), list | tuple)
    exact = not listed and sides[0] % kernel[0] == 0
    rows, columns = map(divide if exact else floor_div, pair(c, image), pair(c, patch))
    return rows, columns


def part(
    c: Config, field: str, model_type: str, *, over: Mapping[str, object] | None = None, free: bool = False
) -> Config:
    """The config of a model within another, as it is where nothing stands on it (with its own pooler, if it has one).

    It is of this ``model_type``, whatever its file says; where the whole leaves it ``free``, of the one that it names.
    ``over`` are the fields of a config that is left out altogether.
    """
    config = c.sub(field, defaults={})
    family = find((config.data.get("model_type") or model_type) if free else model_type)
    missing = dict(over or {}) if c.get(field) is None else {}
    config.model_type, config.head = family.model_type, "Model"
    config.defaults, config.aliases = {**family.defaults, **missing}, family.aliases
    return config
