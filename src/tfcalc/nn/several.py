"""Modules of which there are several, and of which a token goes through some."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.module import Module


class Several(Module):
    """So many are stored (``count``), of which a token goes through ``chosen``."""

    count: Num = 1
    chosen: Num = 1

    @property
    def copies(self) -> Num:
        """How many are stored."""
        return self.count

    @property
    def active(self) -> Num | None:
        """How many of them a token goes through."""
        return self.chosen
