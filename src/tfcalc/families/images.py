"""Images as sequences of patches, and what vision towers have in common."""

from __future__ import annotations

from tfcalc.configs.config import Config
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
