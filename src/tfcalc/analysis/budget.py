"""How much memory there is: an amount as it was stated, or what GPUs leave to a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tfcalc.errors import UsageError
from tfcalc.hardware import Accelerator, named, parse_gpu
from tfcalc.training.card import allocatable
from tfcalc.units import parse_bytes, short_bytes

if TYPE_CHECKING:
    from tfcalc.plans import Serving, Training

UTILIZATION = 0.9
"""The part of a GPU's memory that an engine with a paged cache takes (vLLM's ``gpu_memory_utilization``)."""

ANY_CARD = "a card"
"""What :func:`~tfcalc.hardware.named` calls a card of which only the memory is known."""


class Budget(NamedTuple):
    """So many ``bytes``, as they were ``stated``; ``notes`` say what was assumed.

    Of GPUs they are those of one; ``gpus`` is their number, and ``card`` its name as it was typed. ``memory`` is what a
    card has without anything running on it; ``assumes`` say in short what was taken off it. ``capability`` is CUDA's
    number for what it can do.
    """

    bytes: int
    stated: str
    notes: tuple[str, ...] = ()
    gpus: int = 1
    card: str = ""
    memory: int = 0
    assumes: tuple[str, ...] = ()
    capability: str = ""

    def has(self, system: str) -> str:
        """``RTX 4090 has 23.0 GiB usable``, ``the budget is 80GB = 74.5 GiB``."""
        amount = short_bytes(self.bytes, system)
        if self.card:
            return f"{self.stated} has {amount} usable"
        also = "" if self.stated.replace(" ", "") in _spellings(amount) else f" = {amount}"
        return f"the budget is {self.stated}{also}"

    def serving(self, plan: Serving, utilization: float | None = None) -> Budget:
        """What of it can be used in serving: of a card the share that is asked for, or that of a paged cache."""
        if not self.card or (utilization is None and plan.cache != "paged"):
            return self
        return self.utilized(UTILIZATION if utilization is None else utilization)

    def allocatable(self, plan: Training) -> int:
        """How many of the bytes a training step may allocate: on a card fragments take a part."""
        return self.bytes if not self.card or plan.backend == "megatron" else allocatable(self.bytes)

    def utilized(self, share: float) -> Budget:
        """What is left of a card to an engine that takes this share of its memory. Raises UsageError."""
        if not 0 < share <= 1:
            raise UsageError(f"--gpu-memory-utilization {share:g} is not from 0 to 1", "vLLM's default is 0.9")
        assumed = f"{100 * share:g} % of the card's memory as in vLLM"
        return self._replace(bytes=min(self.bytes, int(share * self.memory)), assumes=(*self.assumes, assumed))


def stated(amount: str | int) -> Budget:
    """An amount as people write it, or a number of bytes. Raises UsageError.

    >>> stated("80GB").has("iec"), stated("80GB").has("si"), stated("24 GiB").has("iec")
    ('the budget is 80GB = 74.5 GiB', 'the budget is 80GB', 'the budget is 24 GiB')
    """
    if isinstance(amount, int):
        if isinstance(amount, bool) or amount < 1:
            raise UsageError(f"a budget of {amount!r} bytes", "give more than 0")
        return Budget(amount, f"{amount:,} bytes")
    return Budget(parse_bytes(amount), amount.strip())


def of_card(text: str) -> Budget:
    """What GPUs leave to a process, each of them: ``h100``, ``8xh100``, ``24GB``. Raises UsageError.

    >>> of_card("8xh100").stated, of_card("8xh100").gpus
    ('H100 SXM', 8)
    """
    gpus, name = parse_gpu(text)
    found, *others = named(name, "--budget")
    usable = found.usable()
    unlike = [other for other in others if other.usable().bytes != usable.bytes]
    more = (
        (f"assuming {found.name}; others of this name: {', '.join(f'{one.name} ({one.memory})' for one in unlike)}",)
        if unlike
        else ()
    )
    budget = of_accelerator(found)
    return budget._replace(notes=(*budget.notes, *more), gpus=gpus, card=name)


def of_accelerator(found: Accelerator) -> Budget:
    """The same of one that is known."""
    usable, memory = found.usable(), parse_bytes(found.memory_reported or found.memory)
    return Budget(usable.bytes, _called(found), usable.notes, 1, found.name, memory, capability=found.capability)


def _called(card: Accelerator) -> str:
    """``RTX 4090``; of a card by its memory alone ``a 24 GB card``."""
    return (
        card.name.replace("-", " ")
        if card.name != ANY_CARD
        else f"{'an' if card.memory.startswith(('8', '11 ', '18 ')) else 'a'} {card.memory} card"
    )


def _spellings(written: str) -> tuple[str, ...]:
    """``74.5 GiB`` may be stated as ``74.5GiB``, ``80.0 GB`` as ``80GB``."""
    number, unit = written.replace(",", "").split(" ")
    return f"{number}{unit}", f"{number.rstrip('0').rstrip('.') if '.' in number else number}{unit}"
