"""The accelerators that are known: what each has, and where that is from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from tfcalc.hardware import GIGA, STATUS, TERA, Accelerator, matching
from tfcalc.number_formats import MULTIPLIED
from tfcalc.report.declared import Answer, Record, When, by_name, integer, number, records, text
from tfcalc.report.opening import count, given
from tfcalc.report.sheet import Bytes, Cell, Column, InUnit, Sheet, of
from tfcalc.timing.rates import Price, prices
from tfcalc.units import rounded

LISTED = given("given by hardware.csv: see its sources")


class GpuKeys(Record):
    """A GPU or another accelerator."""

    name = text("its name", lambda card: card.name)
    vendor = text("its maker", lambda card: card.vendor)
    memory = text("its memory, as its maker states it", lambda card: card.memory)
    memory_reported = text(
        "its memory, as its driver reports it; empty where unknown", lambda card: card.memory_reported
    )
    usable_bytes = integer(
        "bytes that a process can use: less the driver's context, or what Metal lets a GPU take",
        lambda card: card.usable().bytes,
        given("given by its memory in hardware.csv, less the context"),
    )
    bandwidth = number("bytes per second of its memory; 0 where unknown", lambda card: card.bandwidth, LISTED)
    peaks = by_name(
        "integer", "dense peak in FLOP/s, without sparsity, by number format", lambda card: _peaks(card), LISTED
    )
    link = number(
        "bytes per second to the others of its domain, in one direction; 0 where unknown",
        lambda card: card.link,
        LISTED,
    )
    domain = integer("accelerators that are linked directly", lambda card: card.domain, LISTED)
    capability = text("CUDA compute capability; mps where PyTorch computes by Metal", lambda card: card.capability)
    price_per_hour = number(
        "US dollars for one of them and an hour, of a dated list",
        lambda card: prices()[card.name].typical,
        given("given by the dated list of prices"),
        when=When(lambda card: card.name in prices(), "price_from", mutual=True),
    )
    price_from = text(
        "source and date of the price",
        lambda card: prices()[card.name].origin,
        when=When(lambda card: card.name in prices()),
    )
    sources = by_name("string", "where its peaks, memory, and rates are from", lambda card: dict(_sources(card)))


class ListOfGpus(Answer):
    """GPUs and other accelerators."""

    command: ClassVar[str] = "gpus"
    about: ClassVar[str] = "The accelerators that are known, with their figures and the sources of these."

    gpus = records(GpuKeys, "the accelerators", lambda answer: answer.cards)
    listed_count = integer("how many are listed", lambda answer: len(answer.cards), count("those that are listed"))

    def __init__(self, cards: Sequence[Accelerator]) -> None:
        self.cards = cards

    @property
    def heading(self) -> str:
        """Number of accelerators."""
        return f"{len(self.cards)} accelerators" if len(self.cards) != 1 else self.cards[0].name

    def sheet(self) -> Sheet:
        """A row for each."""
        alone = len(self.cards) == 1
        lines = tuple(line for card in self.cards for line in _lines(card))
        return Sheet(
            title=self.heading,
            columns=[
                Column("GPU", numeric=False),
                Column("memory", numeric=False),
                Column("usable GiB", spare=2),
                Column("GB/s"),
                Column("16-bit"),
                Column("fp8"),
                Column("link", spare=3),
                Column("cc", numeric=False, spare=4),
                Column("USD/h", spare=1),
            ],
            rows=[_row(card) for card in self.cards],
            quiet="\n".join(card.name for card in self.cards),
            notes=(
                "GB/s of its memory; dense TFLOP/s in 16 bits and fp8; link in GB/s and one direction; cc capability",
                *(lines if alone else ()),
            ),
            see_also=("--json (all formats)", *(() if alone else ("--assumptions (sources)",)), "tfcalc fit MODEL"),
            assumptions=lines,
            detailed=self._detailed,
        )

    def _detailed(self) -> Sheet:
        """Return the sheet for programs: all figures, in full."""
        names = ("GPU", "vendor", "memory", "usable_bytes", "bandwidth", *MULTIPLIED, "link", "domain")
        return Sheet(
            title=self.heading,
            columns=[
                Column(name, numeric=name not in ("GPU", "vendor", "memory"))
                for name in (*names, "capability", "price_per_hour", "price_from")
            ],
            rows=[_in_full(card) for card in self.cards],
            quiet="",
        )


def _row(card: Accelerator) -> list[Cell]:
    price = prices().get(card.name)
    return [
        card.name,
        card.memory,
        of(InUnit(card.usable().bytes, "GiB"), ListOfGpus.gpus, card.name, GpuKeys.usable_bytes),
        _in(GIGA, card.bandwidth),
        _in(TERA, max(card.peaks.get("bf16", 0), card.peaks.get("fp16", 0))),
        _in(TERA, card.peaks.get("fp8", 0)),
        _in(GIGA, card.link),
        card.capability,
        of(f"{price.typical:,.2f}" if price else None, ListOfGpus.gpus, card.name, GpuKeys.price_per_hour),
    ]


def _in_full(card: Accelerator) -> list[Cell]:
    price: Price | None = prices().get(card.name)
    rates = map(_peaks(card).get, MULTIPLIED)
    return [
        card.name,
        card.vendor,
        card.memory,
        Bytes(card.usable().bytes),
        card.bandwidth or None,
        *rates,
        card.link or None,
        card.domain,
        card.capability,
        price.typical if price else None,
        price.origin if price else None,
    ]


def _peaks(card: Accelerator) -> dict[str, int]:
    """FLOP/s by format, as they are printed: whole numbers."""
    return {name: round(peak) for name, peak in card.peaks.items()}


def _in(unit: int, rate: float) -> str | None:
    return rounded(rate / unit, 4) if rate else None


def _lines(card: Accelerator) -> Iterator[str]:
    """Yield what one GPU's figures rest on."""
    peaks = ", ".join(f"{name} {rounded(peak / TERA, 4)}" for name, peak in card.peaks.items())
    yield f"{card.name}: dense TFLOP/s: {peaks or 'unknown'}{f'; {card.caveat}' if card.caveat else ''}"
    yield from card.usable().notes
    yield from (f"{card.name}: {what}: {where}" for what, where in _sources(card) if where)
    if price := prices().get(card.name):
        yield f"{card.name}: {price.low:,.2f} to {price.high:,.2f} USD an hour ({price.origin})"


def _sources(card: Accelerator) -> Iterator[tuple[str, str]]:
    groups = {
        "peaks": (card.sources, card.status),
        "memory": (card.memory_sources, card.memory_status),
        "rates": (card.rates_sources, card.rates_status),
    }
    for what, (where, status) in groups.items():
        yield what, f"{where} ({STATUS[status]})" if STATUS[status] else where


def gpus(name: str = "") -> ListOfGpus:
    """List the accelerators that are known, with peaks, memory, bandwidth, links, prices, and their sources.

    Args:
        name: only those that this may mean: ``"h100"``, ``"rtx"``, a maker, an amount of memory such as ``"24GB"``, or
            several of these with commas between them.

    Returns:
        ListOfGpus: ``gpus``, in the order of the table.

    Raises:
        UsageError: no accelerator is called so.

    >>> [card.name for card in gpus("h200,l4").cards]
    ['H200-SXM', 'L4']
    """
    return ListOfGpus(list({card.name: card for word in name.split(",") for card in matching(word)}.values()))
