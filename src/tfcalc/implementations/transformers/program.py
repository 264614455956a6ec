"""A published model as transformers runs it, on a new tape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.errors import InvalidModel, nearest
from tfcalc.implementations import fused
from tfcalc.implementations.transformers.fields import field_of
from tfcalc.implementations.transformers.habits import habits_of
from tfcalc.implementations.transformers.running import Running
from tfcalc.implementations.transformers.whole import RULES
from tfcalc.printable import quoted
from tfcalc.tape.ledger import Ledger
from tfcalc.tape.operations import Numerics, Torch
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.configs.published import HFModel


IMPLEMENTATIONS = ("transformers", "fused")


def running(
    model: HFModel,
    run: Workload,
    numerics: Numerics,
    *,
    every_layer: bool = True,
    implementation: str = "transformers",
) -> Running:
    """The model's parts, ready to run; its tape counts what is live if every layer runs.

    They run as transformers' code does, or with ``fused`` kernels in its place wherever there are some.
    """
    if implementation not in IMPLEMENTATIONS:
        raise InvalidModel(
            f"implementation {quoted(implementation)} is not known", nearest(implementation, IMPLEMENTATIONS)
        )

    field = field_of(model.data, model.family)
    habits = habits_of(model.family.model_type, str(field("text_config.model_type")))
    tape = Torch(Ledger(watch=every_layer), numerics, apart=run.batch_size != 1)
    if implementation == "fused":
        run, habits, rules = fused.workload(run, numerics), fused.habits(habits), fused.rules()
        return Running(tape, run, field, habits, rules, every_layer=every_layer)
    return Running(tape, run, field, habits, RULES, every_layer=every_layer)
