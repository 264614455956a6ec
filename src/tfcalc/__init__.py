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
    from tfcalc.analysis.check import check
    from tfcalc.analysis.design.design import design
    from tfcalc.analysis.design.family import Constraints
    from tfcalc.analysis.design.optimum import compute_optimal
    from tfcalc.analysis.diff import diff
    from tfcalc.analysis.diff_report import Diff
    from tfcalc.analysis.explain import explain
    from tfcalc.analysis.fits import fits
    from tfcalc.analysis.flops import flops
    from tfcalc.analysis.formula import formula
    from tfcalc.analysis.formulas import formulas
    from tfcalc.analysis.growth import plot
    from tfcalc.analysis.kernels import kernels
    from tfcalc.analysis.memory import memory
    from tfcalc.analysis.overview import Overview, overview
    from tfcalc.analysis.params import params
    from tfcalc.analysis.shapes import shapes
    from tfcalc.analysis.side_by_side import Comparison, compare
    from tfcalc.analysis.totals import Operand
    from tfcalc.analysis.why import Reason, Why, why
    from tfcalc.arrays.sweep import sweep
    from tfcalc.catalog import from_config, load
    from tfcalc.configs.published import HFModel
    from tfcalc.conventions import Conventions
    from tfcalc.core.component import Component
    from tfcalc.errors import InvalidModel, TfcalcError, Unavailable, UsageError
    from tfcalc.exercises import quiz
    from tfcalc.footprint.plans import Serving, Training
    from tfcalc.footprint.training_presets import training_preset
    from tfcalc.solving.solve import solve
    from tfcalc.workload import Workload
    from tfcalc.zoo.transformer import Transformer

_HOME = {
    "Comparison": "analysis.side_by_side",
    "Constraints": "analysis.design.family",
    "Component": "core.component",
    "Conventions": "conventions",
    "Diff": "analysis.diff_report",
    "HFModel": "configs.published",
    "Serving": "footprint.plans",
    "Training": "footprint.plans",
    "fits": "analysis.fits",
    "InvalidModel": "errors",
    "TfcalcError": "errors",
    "Transformer": "zoo.transformer",
    "Unavailable": "errors",
    "UsageError": "errors",
    "Workload": "workload",
    "check": "analysis.check",
    "compare": "analysis.side_by_side",
    "compute_optimal": "analysis.design.optimum",
    "design": "analysis.design.design",
    "diff": "analysis.diff",
    "explain": "analysis.explain",
    "flops": "analysis.flops",
    "formula": "analysis.formula",
    "formulas": "analysis.formulas",
    "from_config": "catalog",
    "kernels": "analysis.kernels",
    "load": "catalog",
    "memory": "analysis.memory",
    "Operand": "analysis.totals",
    "overview": "analysis.overview",
    "Overview": "analysis.overview",
    "params": "analysis.params",
    "plot": "analysis.growth",
    "quiz": "exercises",
    "shapes": "analysis.shapes",
    "solve": "solving.solve",
    "sweep": "arrays.sweep",
    "Reason": "analysis.why",
    "training_preset": "footprint.training_presets",
    "Why": "analysis.why",
    "why": "analysis.why",
}

__all__ = [
    "Comparison",
    "Component",
    "Constraints",
    "Conventions",
    "Diff",
    "HFModel",
    "InvalidModel",
    "Operand",
    "Overview",
    "Reason",
    "Serving",
    "TfcalcError",
    "Training",
    "Transformer",
    "Unavailable",
    "UsageError",
    "Why",
    "Workload",
    "check",
    "compare",
    "compute_optimal",
    "design",
    "diff",
    "explain",
    "fits",
    "flops",
    "formula",
    "formulas",
    "from_config",
    "kernels",
    "load",
    "memory",
    "overview",
    "params",
    "plot",
    "quiz",
    "shapes",
    "solve",
    "sweep",
    "training_preset",
    "why",
]


def __getattr__(name: str) -> object:
    """Import what is asked for, when it is asked for."""
    if name not in _HOME:
        raise AttributeError(f"module 'tfcalc' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"tfcalc.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
