"""Messages of a GPU in one micro-batch: collective operations, their bytes, and how often they run."""

from __future__ import annotations

from collections.abc import Iterable

from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.named_tuple import NamedTuple
from tfcalc.ops.collectives import ALL_REDUCE, SEND


class Sent(NamedTuple):
    """A collective operation of ``devices`` GPUs on a tensor of ``bytes``, and how often it runs in each pass."""

    name: str
    devices: Num
    bytes: Num
    forward: Num = 0
    backward: Num = 0
    group: str = "tensor"

    @property
    def times(self) -> Num:
        """Number of times in both passes."""
        return self.forward + self.backward

    @property
    def alike(self) -> tuple[str, Num, Num, str]:
        """Key of messages that are listed as one."""
        return self.name, self.devices, self.bytes, self.group

    @property
    def by_each(self) -> Num:
        """Bytes that each GPU sends at a time, by NCCL's ring algorithms.

        >>> [Sent(name, 8, 2**30).by_each / 2**30 for name in ("all-reduce", "all-gather", "send")]
        [1.75, 0.875, 1.0]
        """
        if self.name == SEND:
            return self.bytes
        rounds = (2 if self.name == ALL_REDUCE else 1) * (self.devices - 1)
        sent: Num = divide(rounds * self.bytes, self.devices)
        return sent


def messages(tree: Component, bits: int) -> list[Sent]:
    """Return the messages of a tree, equal ones merged, with ``bits`` per number unless a message has its own.

    Backward sends those of forward once more where it runs an operation again.
    """
    return merged(
        Sent(
            message.name,
            message.devices,
            divide(message.elements * (message.bits or bits), 8),
            node.times.run * message.forward,
            node.times.run * (message.backward + message.forward * node.component.own.again),
            message.group,
        )
        for node in tree.walk()
        for message in node.component.own.messages
    )


def merged(every: Iterable[Sent]) -> list[Sent]:
    """Return these messages, equal ones as one that runs as often as all of them."""
    found: list[Sent] = []
    for sent in every:
        place = next((place for place, known in enumerate(found) if known.alike == sent.alike), None)
        if place is None:
            found.append(sent)
        else:
            known = found[place]
            forward, backward = known.forward + sent.forward, known.backward + sent.backward
            found[place] = known._replace(forward=forward, backward=backward)
    return found
