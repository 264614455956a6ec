"""The messages of a device in one micro-batch: which collective operations, of how many bytes, how often."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.ops.collectives import ALL_REDUCE, SEND


class Sent(NamedTuple):
    """A collective operation of so many ``devices`` on a tensor of ``bytes``, so many times forward and backward."""

    name: str
    devices: Num
    bytes: Num
    forward: Num = 0
    backward: Num = 0

    @property
    def times(self) -> Num:
        """In all."""
        return self.forward + self.backward

    @property
    def by_each(self) -> Num:
        """The bytes that each device sends once, as a ring of them does it.

        >>> [Sent(name, 8, 2**30).by_each / 2**30 for name in ("all-reduce", "all-gather", "send")]
        [1.75, 0.875, 1.0]
        """
        if self.name == SEND:
            return self.bytes
        rounds = (2 if self.name == ALL_REDUCE else 1) * (self.devices - 1)
        sent: Num = divide(rounds * self.bytes, self.devices)
        return sent


def messages(tree: Component, bits: int) -> list[Sent]:
    """All of a tree, those that are alike together, with numbers of so many ``bits`` where nothing else is said."""
    found: list[Sent] = []
    for node in tree.walk():
        for each in node.component.own.messages:
            times, size = node.times.run, divide(each.elements * (each.bits or bits), 8)
            one = Sent(each.name, each.devices, size, times * each.forward, times * each.backward)
            place = next((place for place, known in enumerate(found) if known[:3] == one[:3]), None)
            if place is None:
                found.append(one)
            else:
                known = found[place]
                forward, backward = known.forward + one.forward, known.backward + one.backward
                found[place] = known._replace(forward=forward, backward=backward)
    return found
