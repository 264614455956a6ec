"""What a transformer costs, exactly: parameters, FLOPs and memory, each with its formula.

>>> import tfcalc
>>> model = tfcalc.Transformer(d_model=512, n_layers=6)
>>> tfcalc.params(model).answer
44140544
>>> print(tfcalc.formula("mha"))
4h² + 4h
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:
    from tfcalc.arrays.sweep import sweep
    from tfcalc.catalog import from_config, load
    from tfcalc.configs.published import HFModel
    from tfcalc.conventions import Conventions
    from tfcalc.core.component import Component
    from tfcalc.errors import InvalidModel, TfcalcError, Unavailable, UsageError
    from tfcalc.families.transformer import Transformer
    from tfcalc.held.plans import Serving, Training
    from tfcalc.questions.explain import explain
    from tfcalc.questions.fits import fits
    from tfcalc.questions.flops import flops
    from tfcalc.questions.formula import formula
    from tfcalc.questions.kernels import kernels
    from tfcalc.questions.memory import memory
    from tfcalc.questions.overview import Overview, overview
    from tfcalc.questions.params import params
    from tfcalc.questions.side_by_side import Comparison, compare
    from tfcalc.questions.totals import Operand
    from tfcalc.workload import Workload

_HOME = {
    "Comparison": "questions.side_by_side",
    "Component": "core.component",
    "Conventions": "conventions",
    "HFModel": "configs.published",
    "Serving": "held.plans",
    "Training": "held.plans",
    "fits": "questions.fits",
    "InvalidModel": "errors",
    "TfcalcError": "errors",
    "Transformer": "families.transformer",
    "Unavailable": "errors",
    "UsageError": "errors",
    "Workload": "workload",
    "compare": "questions.side_by_side",
    "explain": "questions.explain",
    "flops": "questions.flops",
    "formula": "questions.formula",
    "from_config": "catalog",
    "kernels": "questions.kernels",
    "load": "catalog",
    "memory": "questions.memory",
    "Operand": "questions.totals",
    "overview": "questions.overview",
    "Overview": "questions.overview",
    "params": "questions.params",
    "sweep": "arrays.sweep",
}

__all__ = [
    "Comparison",
    "Component",
    "Conventions",
    "HFModel",
    "InvalidModel",
    "Operand",
    "Overview",
    "Serving",
    "TfcalcError",
    "Training",
    "Transformer",
    "Unavailable",
    "UsageError",
    "Workload",
    "compare",
    "explain",
    "fits",
    "flops",
    "formula",
    "from_config",
    "kernels",
    "load",
    "memory",
    "overview",
    "params",
    "sweep",
]


def __getattr__(name: str) -> object:
    """Import what is asked for, when it is asked for."""
    if name not in _HOME:
        raise AttributeError(f"module 'tfcalc' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"tfcalc.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
