"""Rates of machines and software stacks (rates.toml), links between GPUs, and what GPUs cost."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tfcalc.errors import UsageError
from tfcalc.hardware import GIGA, MOST_PRICE, Accelerator, named
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted

TABLE = Path(__file__).with_name("rates.toml")
LINKS = Path(__file__).with_name("links.csv")
PRICES = Path(__file__).with_name("prices.csv")
STACKS = MEGATRON, FSDP, DEEPSPEED, OF_2022 = "megatron", "fsdp", "deepspeed", "megatron-2022"
"""Megatron-core; FSDP2; DeepSpeed of 2022, in which each GPU has the hidden vectors of all tokens; and Megatron-LM of
2022."""
GENERATIONS = {"8.0": "ampere", "9.0": "hopper", "10.0": "blackwell", "10.3": "blackwell-ultra"}
"""Names in rates.toml, by CUDA compute capability."""
FP8, FP4 = ("fp8", "mxfp8"), ("nvfp4", "fp4")


class Machine(NamedTuple):
    """A GPU among others.

    Attributes:
        peak: dense FLOP/s in 16 bits.
        bandwidth: bytes per second of its memory.
        bus: bytes per second of a collective among the GPUs of a ``domain``.
        nic: bytes per second of a GPU to other nodes.
        processors: streaming multiprocessors.
        generation: name in rates.toml.
    """

    peak: float
    bandwidth: float
    bus: float
    nic: float
    domain: int
    processors: int
    generation: str


class Rates(NamedTuple):
    """Rates of one generation of GPUs and one stack. See rates.toml for what each is."""

    product: float
    flash_forward: float
    flash_backward: float
    memory: float
    network: float
    launch: float
    kernels: float
    expert_kernels: float
    latency: float
    jitter: float
    eager: float
    optimizer: float
    expert_rate: float
    expert_rows: float
    elementwise: float
    tensor: float
    experts: float
    hidden: float
    host: float = 0.0
    fp8: float = 0.0
    fp4: float = 0.0
    written: float = 0.0
    call: float = 0.0
    eager_attention: bool = False
    scale: float = 1.0

    def faster(self, precision: str) -> float:
        """Return how many times as fast as 16 bits products are in this format. Raises UsageError."""
        ratio = self.fp8 if precision in FP8 else self.fp4 if precision in FP4 else 1.0
        if not ratio:
            raise UsageError(f"no rate is known for {precision} on this GPU", "take --precision bf16")
        return ratio


@cache
def table() -> Mapping[str, Any]:
    """The file of rates."""
    import tomllib  # only where seconds are asked for

    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def rates_of(generation: str, stack: str, known: Mapping[str, Any] | None = None) -> Rates:
    """Return the rates of a generation with a stack: those that the stack has of it come before its own."""
    known = table() if known is None else known
    of_stack = {name: rate for name, rate in known["stacks"][stack].items() if not isinstance(rate, Mapping)}
    of_both = known["stacks"][stack].get(generation, {})
    return Rates(**{**known["generations"][generation], **known["machine"], **of_stack, **of_both})


class Links(NamedTuple):
    """Bytes per second of a collective inside a domain, and of a GPU to other nodes; its multiprocessors."""

    bus: float
    nic: float
    processors: int


class Price(NamedTuple):
    """US dollars for a GPU and an hour: the range that was seen, and what is ``typical`` (the middle of it if unsaid).

    Any number that comes from it has its ``date`` and ``source`` beside it.
    """

    low: float
    typical: float
    high: float
    date: str
    source: str

    @property
    def origin(self) -> str:
        """Source and date."""
        return f"{self.source}, {self.date}" if self.date else self.source


NO_PRICES: Mapping[str, Price] = MappingProxyType({})


@cache
def links() -> Mapping[str, Links]:
    """The links of each GPU whose collectives were measured, by its name."""
    with LINKS.open(encoding="utf-8", newline="") as file:
        return {
            row["name"]: Links(float(row["bus"]) * GIGA, float(row["nic"]) * GIGA, int(row["processors"]))
            for row in csv.DictReader(file)
        }


@cache
def prices() -> Mapping[str, Price]:
    """Rents that were seen, by the GPU's name."""
    with PRICES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = {}
    for row in rows:
        low, high = float(row["low"]), float(row["high"])
        typical = float(row["typical"] or (low + high) / 2)
        found[row["name"]] = Price(low, typical, high, row["date"], row["source"])
    return found


def price_of(card: Accelerator, given: float | None, own: Mapping[str, Price] = NO_PRICES) -> Price | None:
    """Return one's own price of a GPU, the one that was given for all, or that of the dated list; None without one."""
    if card.name in own:
        return own[card.name]
    if given is not None:
        return Price(given, given, given, "", "given by --price")
    return prices().get(card.name)


def own_prices(table: Mapping[str, object], origin: str) -> dict[str, Price]:
    """Return prices by the names of GPUs, as a file has them: ``h100`` is each H100 that has none of its own.

    Raises UsageError for a name that is no GPU's, and for a price that is none.
    """
    first: dict[str, Price] = {}
    others: dict[str, Price] = {}
    for name, value in table.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value <= MOST_PRICE:  # type: ignore[operator]  # it is a number
            fact = f"{quoted(name)} {quoted(value)} is no price of a GPU and an hour"
            raise UsageError(fact, f"write US dollars, at most {MOST_PRICE:,}: h100 = 2.50")
        dollars = float(value)  # type: ignore[arg-type]  # as above
        price = Price(dollars, dollars, dollars, "", origin)
        best, *further = named(name)
        first[best.name] = price
        for card in further:
            if card.name.lower().startswith(name.lower()):
                others.setdefault(card.name, price)
    return others | first


def machine_of(card: Accelerator, domain: int | None = None, nic: float | None = None) -> Machine | None:
    """Return what is known of a GPU among others of a ``domain``; None where no run on such a GPU is known.

    ``nic``: bytes per second of each GPU to other nodes, where it is not the usual.
    """
    generation = GENERATIONS.get(card.capability)
    known = links().get(card.name)
    if generation is None or known is None:
        return None
    return Machine(
        card.peaks["bf16"],
        card.bandwidth,
        known.bus,
        known.nic if nic is None else nic,
        card.domain if domain is None else domain,
        known.processors,
        generation,
    )
