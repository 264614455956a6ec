"""Attention of blocks of tokens to a few other blocks, as BigBird has it."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.number import Num, ceil_div, floor_div, minimum


def beyond(length: Num, most: int) -> Num:
    """1 where a sequence is longer than ``most``, else 0.

    >>> beyond(4, 4), beyond(5, 4), beyond(50, 4)
    (0, 1, 1)
    """
    longer: Num = minimum(1, floor_div(length, most + 1))
    return longer


class SparseBlocks(NamedTuple):
    """The first block and the last see everything and are seen by all; others see three neighbours and ``random`` more.

    The second block and the last but one have a global block among their neighbours. Where a sequence is no longer than
    what such a token may see, all pairs are compared.

    Source: Zaheer et al. 2020 (BigBird, arXiv 2007.14062), section 2; transformers' BigBirdBlockSparseAttention.
    """

    block: int
    random: int
    mask: str = "float32"

    @property
    def all_seen(self) -> int:
        """How long a sequence is in which all pairs are compared."""
        return (5 + 2 * self.random) * self.block

    def filled(self, length: Num) -> Num:
        """The length as it is run: of whole blocks, where they are used."""
        more: Num = ceil_div(length, self.block) * self.block - length
        return length + beyond(length, self.all_seen) * more

    def pairs(self, length: Num) -> Num:
        """Of a sequence of this length before it is filled up.

        >>> SparseBlocks(2, 1).pairs(14), SparseBlocks(2, 1).pairs(20)
        (196, 264)
        """
        size, blocks = self.block * self.block, ceil_div(length, self.block)
        seen = 2 * blocks + 2 * (4 + self.random) + (blocks - 4) * (5 + self.random)
        number: Num = length * length + beyond(length, self.all_seen) * (size * seen - length * length)
        return number
