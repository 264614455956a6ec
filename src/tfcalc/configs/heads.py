"""Heads on top of a base model, by the end of its class's name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.configs.tops import labels as labels

if TYPE_CHECKING:
    pass
