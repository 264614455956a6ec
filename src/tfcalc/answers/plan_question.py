"""Question of a plan: model, machine, batch, and the axes that are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tfcalc.timing.rates import NO_PRICES, Price

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfcalc.hardware import Accelerator
    from tfcalc.model import Model
    from tfcalc.search.axes import Axes
    from tfcalc.timing.rates_file import RatesFile


class PlanQuestion(NamedTuple):
    """Question of a plan.

    Attributes:
        model: the model.
        card: the GPU.
        gpus: how many there are.
        sequences: sequences of a step, of all GPUs.
        length: tokens of a sequence.
        fixed: values of the axes that were given.
        stack: whose code runs: megatron, fsdp or deepspeed.
        precision: number format of the products.
        domain: GPUs with fast links among them, where it is not the card's own number.
        nic: bytes per second of a GPU to other nodes, where it is not the usual.
        tokens: tokens of the run, if it is asked for.
        price: US dollars for a GPU and an hour; else a dated list.
        measured: a measured rate in tokens per second and GPU, and the axes of the layout that it was measured with.
        top: layouts that are listed.
        attention_again: attention is recomputed, and nothing else (selective checkpointing).
        pareto: the front of seconds and memory is listed.
        all_timed: seconds of layouts that do not fit are asked for, too.
        budget_days: days in which the run is to end.
        rates: a file of rates in the place of those of published runs.
        prices: one's own prices by the names of GPUs, before ``price`` and the dated list.
    """

    model: Model
    card: Accelerator
    gpus: int
    sequences: int
    length: int
    fixed: Axes
    stack: str = "megatron"
    precision: str = "bf16"
    domain: int | None = None
    nic: float | None = None
    tokens: int | None = None
    price: float | None = None
    measured: tuple[float, Axes] | None = None
    top: int = 5
    attention_again: bool = False
    pareto: bool = False
    all_timed: bool = False
    budget_days: float | None = None
    rates: RatesFile | None = None
    prices: Mapping[str, Price] = NO_PRICES

    @property
    def tokens_per_step(self) -> int:
        """Tokens of a step, of all GPUs."""
        return self.sequences * self.length
