"""FLOPs of a training that dollars or GPU hours pay for: by the estimated time of a step of a model of that size.

The best size follows from the FLOPs, and how fast it trains from its size, so the two are found together: a decoder
whose hidden size is 128 times its layers, in bf16 under FSDP on as many GPUs as hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from tfcalc.analysis.design.scaling import FLOPS_PER_PARAM
from tfcalc.errors import UsageError
from tfcalc.hardware import Accelerator, named, parse_gpu
from tfcalc.named_tuple import NamedTuple
from tfcalc.timing.device_memory import DeviceMemory
from tfcalc.timing.estimate import SECONDS_OF_AN_HOUR, Estimate
from tfcalc.timing.rates import NO_PRICES, Machine, Price, machine_of, price_of
from tfcalc.timing.rates_file import RatesFile, band_for, rates_for
from tfcalc.timing.step import Layouts, StepTime
from tfcalc.timing.work import ModelWork, work_of
from tfcalc.zoo.transformer import Transformer

STACK = "fsdp"
ASPECT, HEAD = 128, 128
"""Hidden size over layers, and width of a head: of the shape whose step is timed."""
VOCABULARY, LENGTH = 50_304, 4_096
BATCHES = (8, 4, 2, 1)
"""Sequences at once, tried in this order."""
OF_A_STEP = 4
"""Micro-batches of a step."""
MOST_GPUS = 2**17
LEAST_HOURS, MOST_HOURS = 1e-3, 1e12
ROUNDS, CLOSE = 20, 1e-3


class Spending(NamedTuple):
    """Dollars or GPU hours of a training, and the GPUs.

    Attributes:
        card: the GPU.
        gpu_hours: hours of all GPUs together, or None where dollars are given.
        usd: US dollars, or None where hours are given.
        gpus: GPUs in all; by default as many nodes as hold the model.
        price: US dollars for a GPU and an hour; else a dated list.
        prices: one's own prices by the names of GPUs.
        mfu: share of the peak that it is said to reach, in the place of an estimate.
        rates: a file of rates in the place of those of published runs.
    """

    card: Accelerator
    gpu_hours: float | None = None
    usd: float | None = None
    gpus: int | None = None
    price: float | None = None
    prices: Mapping[str, Price] = NO_PRICES
    mfu: float | None = None
    rates: RatesFile | None = None

    @property
    def priced(self) -> Price | None:
        """Price of a GPU and an hour."""
        return price_of(self.card, self.price, self.prices)

    @property
    def hours(self) -> float:
        """Hours of all GPUs together. Raises UsageError where dollars have no price."""
        if self.gpu_hours is not None:
            return self.gpu_hours
        assert self.usd is not None
        if self.priced is None:
            raise UsageError(f"no price of {self.card.name} is known", "add --price 2.50, or give --budget-gpu-hours")
        return self.usd / self.priced.typical

    @property
    def peak(self) -> float:
        """Dense FLOP/s of a GPU in bf16."""
        return float(self.card.peaks["bf16"])


def spending(
    gpu: str,
    *,
    gpu_hours: float | None = None,
    usd: float | None = None,
    price: float | None = None,
    prices: Mapping[str, Price] = NO_PRICES,
    mfu: float | None = None,
    rates: RatesFile | None = None,
) -> Spending:
    """Return what a training may cost on these GPUs, for :func:`tfcalc.compute_optimal`.

    Args:
        gpu: the GPU, or several (``"h100"``, ``"64xh100"``).
        gpu_hours: hours of all GPUs together; or
        usd: US dollars.
        price: US dollars for a GPU and an hour; by default a dated list.
        prices: one's own prices by the names of GPUs.
        mfu: share of the peak that is said to be reached; by default the time of a step is estimated.
        rates: a file of rates in the place of those of published runs.

    Returns:
        Spending: what may be spent.

    Raises:
        UsageError: neither dollars nor hours or both, no price, or a GPU that computes nothing in bf16.
    """
    gpus, name = parse_gpu(gpu)
    if (gpu_hours is None) == (usd is None):
        raise UsageError("a budget is dollars or GPU hours", "give one of --budget-usd and --budget-gpu-hours")
    found = Spending(named(name)[0], gpu_hours, usd, gpus if gpus > 1 else None, price, prices, mfu, rates)
    if "bf16" not in found.card.peaks:
        raise UsageError(f"{found.card.name} has no bf16 products", "take another GPU")
    if found.mfu is not None and not 0 < found.mfu <= 1:
        raise UsageError(f"an MFU of {found.mfu:g} is not from 0 to 1", "write 40% or 0.4")
    if not LEAST_HOURS <= found.hours <= MOST_HOURS:
        raise UsageError(f"{found.hours:g} GPU hours are no training's", f"give {LEAST_HOURS:g} to {MOST_HOURS:g}")
    return found


class TimedShape(NamedTuple):
    """A decoder: layers, hidden size and heads."""

    layers: int
    width: int

    @property
    def model(self) -> Transformer:
        """The model."""
        return Transformer(
            kind="decoder",
            d_model=self.width,
            n_layers=self.layers,
            n_heads=self.width // HEAD,
            vocab_size=VOCABULARY,
            norm="rmsnorm",
            positions="rotary",
            attention_bias=False,
            ffn_bias=False,
            output_head="tied",
        )


def shape_of(params: float) -> TimedShape:
    """Return a decoder of about this many parameters: 12 n h² of layers, V h of the vocabulary.

    >>> shape_of(6.7e9)
    TimedShape(layers=32, width=4096)
    """
    layers = max(1, round((params / (12 * ASPECT**2)) ** (1 / 3)))
    each = 12 * layers
    width = (-VOCABULARY + (VOCABULARY**2 + 4 * each * params) ** 0.5) / (2 * each)
    return TimedShape(layers, max(HEAD, HEAD * round(width / HEAD)))


class Paid(NamedTuple):
    """FLOPs of a training that are paid for, and how fast a model of its best size trains.

    Attributes:
        spending: what may be spent.
        shape: the model whose step was timed.
        gpus: GPUs that hold it.
        tokens_at_once: tokens of a micro-batch on one of them; 0 where the MFU was given.
        recomputed: whether layers are recomputed in backward.
        mfu: share of the dense bf16 peak that 6ND reaches.
        estimate: seconds of a step, with a band; None where the MFU was given.
    """

    spending: Spending
    shape: TimedShape
    gpus: int
    tokens_at_once: int
    recomputed: bool
    mfu: float
    estimate: Estimate | None = None

    @property
    def compute(self) -> float:
        """FLOPs of the training, 6 for each parameter and token."""
        return self.mfu * self.spending.peak * self.spending.hours * SECONDS_OF_AN_HOUR

    @property
    def compute_low(self) -> float:
        """FLOPs where a step takes as long as the upper end of its band."""
        return self.compute * (self.estimate.seconds / self.estimate.high if self.estimate else 1)

    @property
    def compute_high(self) -> float:
        """FLOPs where a step takes as long as the lower end of its band, or as all GPUs at their peak."""
        most = self.estimate.seconds / self.estimate.low if self.estimate else 1
        return self.compute * min(most, 1 / self.mfu)


class _Timed:
    """Speed at which models of any size train on a GPU."""

    def __init__(self, of: Spending) -> None:
        self.of = of

    @cached_property
    def machine(self) -> Machine:
        """The GPU among others. Raises UsageError where no run on it is known."""
        found = machine_of(self.of.card)
        if found is None:
            fact = f"no training run on {self.of.card.name} is known, so there is no rate to estimate by"
            raise UsageError(fact, "say how fast it is: --mfu 40%")
        return found

    def paid(self, params: float) -> Paid:
        """Return what is paid for where the model has this many parameters."""
        of, shape = self.of, shape_of(params)
        if of.mfu is not None:
            return Paid(of, shape, of.gpus or 1, 0, False, of.mfu)
        work = work_of(shape.model, LENGTH)
        at = self.layout(work, shape)
        machine, stack = self.machine, STACK if of.rates is None else of.rates.stack(STACK)
        seconds = float(StepTime(work, machine, rates_for(machine.generation, stack, of.rates)).parts(at).seconds)
        tokens = at.dp * at.micro_batch * at.batches * LENGTH
        reached = FLOPS_PER_PARAM * work.params * tokens / (seconds * at.dp * of.peak)
        estimate = Estimate(seconds, band_for(machine.generation, stack, of.rates, experts=False))
        return Paid(of, shape, at.dp, at.micro_batch * LENGTH, bool(at.again), min(reached, 1.0), estimate)

    def layout(self, work: ModelWork, shape: TimedShape) -> Layouts:
        """Return FSDP over the GPUs, or over as few nodes as hold the model; recomputed where it has to be."""
        room = self.of.card.usable().bytes
        node = self.machine.domain if self.machine.domain <= 8 else 8
        gpus = self.of.gpus or node
        while gpus <= MOST_GPUS:
            for again in (0, 1):
                for batch in BATCHES:
                    at = Layouts(dp=gpus, micro_batch=batch, batches=OF_A_STEP, zero=3, again=again)
                    if DeviceMemory(work, at, fsdp=True).peak <= room:
                        return at
            if self.of.gpus:
                break
            gpus *= 2
        fact = f"a model of {shape.layers} layers, {shape.width:,} wide, does not fit on {gpus:,} x {self.of.card.name}"
        raise UsageError(fact, "give more GPUs: --gpu 64xh100, or say how fast it is: --mfu 40%")


def paid_for(of: Spending, params_of: Callable[[float], float]) -> Paid:
    """Return the FLOPs that are paid for; ``params_of`` is the best size for an amount of FLOPs."""
    timed = _Timed(of)
    most = of.peak * of.hours * SECONDS_OF_AN_HOUR
    known: dict[TimedShape, Paid] = {}
    share = 0.4
    for _ in range(ROUNDS):
        params = params_of(share * most)
        shape = shape_of(params)
        found = known[shape] if shape in known else timed.paid(params)
        known[shape] = found
        if abs(found.mfu / share - 1) < CLOSE:
            break
        share = found.mfu
    return found
