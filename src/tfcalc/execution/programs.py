"""Which program runs a model, by whose code is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.backends.transformers import Transformers
from tfcalc.errors import InvalidModel
from tfcalc.execution.modules import ModuleProgram
from tfcalc.tape.numerics import Numerics

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.nn.module import Module
    from tfcalc.workload import Workload


def program(
    model: Model,
    run: Workload,
    numerics: Numerics,
    implementation: str,
    *,
    every_layer: bool = True,
    ends_alone: bool = False,
) -> ModuleProgram:
    """The model on a new tape. Raises InvalidModel where this code does not run such a model.

    ``every_layer`` runs, rather than one of each kind; or, of a row of equal layers, those at its ends
    (``ends_alone``), which is enough to find when most is live.
    """
    module, backend = _run_by(model, implementation)
    made = ModuleProgram(module, run, numerics, backend, every_layer=every_layer)
    made.trace.ends_alone = ends_alone
    return made


def _run_by(model: Model, implementation: str) -> tuple[Module, Transformers]:
    from tfcalc.configs.published import HFModel
    from tfcalc.families.transformer import Transformer

    if isinstance(model, HFModel) and implementation == "fused":
        from tfcalc.backends.fused import Fused

        return model.module(), Fused()
    if isinstance(model, HFModel) and implementation in PUBLISHED:
        return model.module(), Transformers()
    if isinstance(model, Transformer) and implementation in CLASSIC:
        from tfcalc.backends.torch_nn import TorchNN
        from tfcalc.execution.torch_nn import check

        check(model)
        return model.module(), TorchNN()
    known = PUBLISHED if isinstance(model, HFModel) else CLASSIC
    raise InvalidModel(f"backend {implementation!r} cannot run {model.summary}", f"choose {' or '.join(known)}")


PUBLISHED = ("auto", "transformers", "fused")
CLASSIC = ("auto", "torch")
"""Whose code can run a model of a config.json, and the classic one."""
