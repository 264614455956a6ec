"""A published model as transformers runs it, on a new tape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfcalc.implementations.transformers.habits import HABITS, LLAMA
from tfcalc.implementations.transformers.running import Running
from tfcalc.implementations.transformers.whole import RULES
from tfcalc.tape.ledger import Ledger
from tfcalc.tape.operations import Numerics, Torch
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.configs.published import Published


def running(model: Published, run: Workload, numerics: Numerics, *, every_layer: bool = True) -> Running:
    """The model's parts, ready to run; its tape counts what is live if every layer runs."""

    def field(name: str, default: Any = None) -> Any:
        for known in (name, *(short for short, long in model.family.aliases.items() if long == name)):
            if known in model.data:
                return model.data[known]
        return model.family.defaults.get(name, default)

    habits = HABITS.get(model.family.model_type, LLAMA)
    tape = Torch(Ledger(watch=every_layer), numerics, apart=run.batch_size != 1)
    return Running(tape, run, field, habits, RULES, every_layer=every_layer)
