"""Axes of a search over layouts, of which some are given."""

from __future__ import annotations

from typing import NamedTuple


class Axes(NamedTuple):
    """Axes of the search: values that were given; None where all are tried. ``again``: 1 for full checkpointing."""

    tp: int | None = None
    pp: int | None = None
    vpp: int | None = None
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    micro_batch: int | None = None
    zero: int | None = None
    again: int | None = None

    def with_those(self, others: Axes) -> Axes:
        """Return these axes, and those of the ``others`` that are given."""
        return Axes(*(one if other is None else other for one, other in zip(self, others, strict=True)))
