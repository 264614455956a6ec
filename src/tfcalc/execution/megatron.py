"""A micro-batch on one device of Megatron-LM: what its piece of a model keeps for backward."""

from __future__ import annotations

from tfcalc.backends.megatron import NUMERICS, Megatron
from tfcalc.core.component import Component
from tfcalc.execution.modules import ModuleProgram
from tfcalc.nn.module import Module
from tfcalc.placed.dropout import with_dropout
from tfcalc.tape.value import Kept
from tfcalc.workload import Workload


def kept_on_device(piece: Module, tree: Component, run: Workload) -> list[Kept]:
    """What backward needs when forward has ended, of each kind of layer once; ``tree`` says what is trained."""
    running = ModuleProgram(with_dropout(piece), run, NUMERICS, Megatron(), every_layer=False)
    running(tree)
    return list(running.tape.kept.values())
