"""Exact costs of a transformer: parameters, FLOPs and memory, each with its formula.

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
    from tfcalc.analysis.design.spending import spending
    from tfcalc.analysis.formulas import formulas
    from tfcalc.analysis.kernels import kernels
    from tfcalc.analysis.why.answer import Reason, Why
    from tfcalc.analysis.why.asked import why
    from tfcalc.answers.compare import Comparison, compare
    from tfcalc.answers.compared import Operand
    from tfcalc.answers.diff import Diff, diff
    from tfcalc.answers.explain import explain
    from tfcalc.answers.fit import fit
    from tfcalc.answers.flops import flops
    from tfcalc.answers.formula import formula
    from tfcalc.answers.gpus import gpus
    from tfcalc.answers.memory_in_words import fits, memory
    from tfcalc.answers.overview import Overview, overview
    from tfcalc.answers.params import params
    from tfcalc.answers.plan import plan
    from tfcalc.answers.plot import plot
    from tfcalc.answers.ranks import ranks
    from tfcalc.answers.serve import serve
    from tfcalc.answers.serve_reading import serve_reading
    from tfcalc.answers.shapes import shapes
    from tfcalc.answers.train import train
    from tfcalc.arrays.serving import serve_points
    from tfcalc.arrays.sweep import sweep
    from tfcalc.catalog import from_config, load
    from tfcalc.configs.published import HFModel
    from tfcalc.core.component import Component
    from tfcalc.errors import InvalidModel, TfcalcError, Unavailable, UsageError
    from tfcalc.exercises import quiz
    from tfcalc.placed.layout import Layout
    from tfcalc.plans import Serving, Training, training_preset
    from tfcalc.solving.solve import solve
    from tfcalc.workload import Conventions, Workload
    from tfcalc.zoo.transformer import Transformer

_HOME = {
    "Comparison": "answers.compare",
    "Constraints": "analysis.design.family",
    "Component": "core.component",
    "Conventions": "workload",
    "Diff": "answers.diff",
    "HFModel": "configs.published",
    "Serving": "plans",
    "Training": "plans",
    "fit": "answers.fit",
    "fits": "answers.memory_in_words",
    "InvalidModel": "errors",
    "TfcalcError": "errors",
    "Transformer": "zoo.transformer",
    "Unavailable": "errors",
    "UsageError": "errors",
    "Workload": "workload",
    "check": "analysis.check",
    "compare": "answers.compare",
    "compute_optimal": "analysis.design.optimum",
    "design": "analysis.design.design",
    "diff": "answers.diff",
    "explain": "answers.explain",
    "flops": "answers.flops",
    "formula": "answers.formula",
    "formulas": "analysis.formulas",
    "from_config": "catalog",
    "gpus": "answers.gpus",
    "kernels": "analysis.kernels",
    "load": "catalog",
    "memory": "answers.memory_in_words",
    "Operand": "answers.compared",
    "overview": "answers.overview",
    "Overview": "answers.overview",
    "params": "answers.params",
    "plan": "answers.plan",
    "plot": "answers.plot",
    "quiz": "exercises",
    "Layout": "placed.layout",
    "ranks": "answers.ranks",
    "serve": "answers.serve",
    "serve_points": "arrays.serving",
    "serve_reading": "answers.serve_reading",
    "shapes": "answers.shapes",
    "solve": "solving.solve",
    "spending": "analysis.design.spending",
    "sweep": "arrays.sweep",
    "Reason": "analysis.why.answer",
    "train": "answers.train",
    "training_preset": "plans",
    "Why": "analysis.why.answer",
    "why": "analysis.why.asked",
}

__all__ = [
    "Comparison",
    "Component",
    "Constraints",
    "Conventions",
    "Diff",
    "HFModel",
    "InvalidModel",
    "Layout",
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
    "fit",
    "fits",
    "flops",
    "formula",
    "formulas",
    "from_config",
    "gpus",
    "kernels",
    "load",
    "memory",
    "overview",
    "params",
    "plan",
    "plot",
    "quiz",
    "ranks",
    "serve",
    "serve_points",
    "serve_reading",
    "shapes",
    "solve",
    "spending",
    "sweep",
    "train",
    "training_preset",
    "why",
]


def __getattr__(name: str) -> object:
    """Import a public name on first access, so that ``import tfcalc`` is fast."""
    if name not in _HOME:
        raise AttributeError(f"module 'tfcalc' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"tfcalc.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
