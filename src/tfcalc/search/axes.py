"""Axes of a search over layouts, of which some are given."""

from __future__ import annotations

from collections.abc import Sequence

from tfcalc.named_tuple import NamedTuple

Values = Sequence[int] | None
"""Values of an axis; None where all that divide are tried."""


class Axes(NamedTuple):
    """Axes of the search. ``replicas`` are those of whole shards (HSDP); ``again`` is 1 for full checkpointing."""

    tp: Values = None
    pp: Values = None
    vpp: Values = None
    cp: Values = None
    ep: Values = None
    etp: Values = None
    micro_batch: Values = None
    zero: Values = None
    replicas: Values = None
    again: Values = None

    def with_those(self, others: Axes) -> Axes:
        """Return these axes, and those of the ``others`` that are given."""
        return Axes(*(one if other is None else other for one, other in zip(self, others, strict=True)))


class WrittenLayout(NamedTuple):
    """Layout as it was written: its ``text``, its axes with one value or none each, and ``dp`` where it was said."""

    text: str
    axes: Axes
    dp: int | None = None
