"""Question of a plan: model, machine, batch, and the axes that are given."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tfcalc.core.component import CORE_ATTENTION, MODULES, selected
from tfcalc.errors import UsageError, one_of
from tfcalc.named_tuple import NamedTuple
from tfcalc.timing.rates import NO_PRICES, STACKS, Price
from tfcalc.training.precisions import OF_MEGATRON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfcalc.hardware import Accelerator
    from tfcalc.model import Model
    from tfcalc.search.axes import Axes
    from tfcalc.timing.rates_file import RatesFile


def modules_again(kind: str | None, modules: Sequence[str], stack: str) -> tuple[str, ...]:
    """Return the modules that a kind of checkpointing runs again, or those that were named, in one order.

    Raises UsageError for what is no module, and where they contradict the kind or the stack.
    """
    if not modules:
        return selected(kind or "none")
    known = dict.fromkeys(MODULES)
    named = {one_of("recompute_modules", each, known) for each in modules}
    if kind in ("full", "none"):
        raise UsageError(
            f"--checkpointing {kind} runs {'whole layers' if kind == 'full' else 'nothing'} again, and no modules",
            "leave --checkpointing or --recompute-modules out",
        )
    if stack != STACKS[0] and named != {CORE_ATTENTION}:
        raise UsageError(
            f"--recompute-modules is Megatron-core's, and --stack is {stack}",
            "leave it out, or take --stack megatron",
        )
    return tuple(name for name in MODULES if name in named)


OF_STATES = (OF_MEGATRON.name, "bf16-master-fp32-grads-bf16-moments", "bf16-master-bf16-moments")
"""Number formats that Megatron-core's optimizers have."""


def states_of_stack(states: str | None, stack: str) -> str:
    """Return the number formats of the states. Raises UsageError where the stack has its own."""
    if states is None:
        return OF_MEGATRON.name
    found: str = one_of("states", states, dict.fromkeys(OF_STATES))
    if stack != STACKS[0] and found != OF_MEGATRON.name:
        fact = f"--states are formats of Megatron-core's optimizer, and --stack is {stack}"
        raise UsageError(fact, "leave it out, or take --stack megatron")
    return found


USUAL_BATCH = 2**22
"""Tokens of a step where nobody says it: 4M, the global batch of Llama 2 (Touvron et al. 2023, table 1)."""


class PlanQuestion(NamedTuple):
    """Question of a plan.

    Attributes:
        model: the model.
        card: the GPU.
        gpus: how many there are; the ``fewest`` that are enough are searched for where nobody says it.
        sequences: sequences of a step, of all GPUs.
        length: tokens of a sequence.
        fixed: values of the axes that were given.
        stack: whose code runs: megatron, fsdp, deepspeed or megatron-2022.
        precision: number format of the products.
        domain: GPUs with fast links among them, where it is not the card's own number.
        nic: bytes per second of a GPU to other nodes, where it is not the usual.
        tokens: tokens of the run, if it is asked for.
        price: US dollars for a GPU and an hour; else a dated list.
        measured: a measured rate in tokens per second and GPU, and the axes of the layout that it was measured with.
        top: layouts that are listed.
        modules: modules that backward runs again, of ``core.recomputation.MODULES`` (selective checkpointing).
        pareto: the front of seconds and memory is listed.
        all_timed: seconds of layouts that do not fit are asked for, too.
        budget_days: days in which the run is to end.
        rates: a file of rates in the place of those of published runs.
        prices: one's own prices by the names of GPUs, before ``price`` and the dated list.
        states: number formats of weights, gradients and optimizer: a precision of ``memory --train``.
        usual_batch: nobody gave the ``sequences``: they are those of :data:`USUAL_BATCH`.
        named: how the model is named in commands; by default by its name.
        asked_tokens: tokens of a step that were asked for, where sequences follow from them.
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
    modules: tuple[str, ...] = ()
    pareto: bool = False
    all_timed: bool = False
    budget_days: float | None = None
    rates: RatesFile | None = None
    prices: Mapping[str, Price] = NO_PRICES
    states: str = OF_MEGATRON.name
    usual_batch: bool = False
    named: str = ""
    asked_tokens: int | None = None
    fewest: bool = False

    @property
    def model_words(self) -> str:
        """The model, as commands name it."""
        return self.named or shlex.quote(getattr(self.model, "name", None) or "MODEL")

    @property
    def tokens_per_step(self) -> int:
        """Tokens of a step, of all GPUs."""
        return self.sequences * self.length
