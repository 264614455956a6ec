"""Ints, arrays, tfcalc's symbols and sympy's give the same answer on every node of every tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given

from tests.examples import examples
from tests.laws.models import models_and_runs
from tfcalc import Transformer, Workload
from tfcalc.core import measure
from tfcalc.core.component import Measure
from tfcalc.core.polynomial import Polynomial
from tfcalc.model import values, with_symbols
from tfcalc.symbolic import sympy_symbol

MEASURES: dict[str, Measure] = {
    "params": measure.params,
    "major_params": measure.major_params,
    "matmul_flops": measure.matmul_flops,
    "matmul_backward_flops": measure.matmul_backward_flops,
    "elementwise_flops": measure.elementwise_flops,
    "elementwise_backward_flops": measure.elementwise_backward_flops,
    "steps": measure.steps,
    "fp32_bytes": measure.weight_bytes(32),
    "int4_bytes": measure.weight_bytes(4),
    "buffer_bytes": measure.buffer_bytes(16),
}


def nodes(model: Transformer, run: Workload) -> list[Any]:
    root = model.tree(run)
    return list(root.walk())


def with_arrays(described: Any, kind: Callable[[int], Any]) -> Any:
    return replace(
        described,
        **{
            name: kind(getattr(described, name))
            for name in described.dimensions()
            if getattr(described, name) is not None
        },
    )


@given(models_and_runs)
@examples(24)
def test_symbols_evaluated_at_the_sizes_give_the_ints(case: tuple[Transformer, Workload]) -> None:
    model, run = case
    at = values(model, run)
    for general in (False, True):
        twins = nodes(with_symbols(model, general=general), with_symbols(run, general=general))
        at_general = at | all_values(model, run) if general else at
        for node, twin in zip(nodes(model, run), twins, strict=True):
            for name, one in MEASURES.items():
                expected, closed = node.total(one), twin.total(one)
                found = closed.at(at_general) if isinstance(closed, Polynomial) else closed
                assert found == expected, (node.path, name, closed)


def all_values(model: Transformer, run: Workload) -> dict[str, Any]:
    """Also for the sizes that follow from others."""
    head_dim = model.head_dim or model.d_model // model.n_heads  # type: ignore[operator]
    return {
        "f": model.d_ff or 4 * model.d_model,
        "d": head_dim,
        "d_v": model.value_dim or head_dim,
        "g": model.n_kv_heads or model.n_heads,
        "n_e": model.encoder_layers or model.n_layers,
        "n_d": model.decoder_layers or model.n_layers,
        "s": run.source_len or run.seq_len,
        "c": run.cached or run.seq_len,
    }


@pytest.mark.long
@given(models_and_runs)
@examples(15)
def test_sympy_gives_the_same_closed_forms(case: tuple[Transformer, Workload]) -> None:
    model, run = case
    at = {sympy_symbol(letter): value for letter, value in values(model, run).items()}
    twins = nodes(with_symbols(model, sympy_symbol), with_symbols(run, sympy_symbol))
    for node, twin in zip(nodes(model, run), twins, strict=True):
        for name, one in MEASURES.items():
            assert sympy.sympify(twin.total(one)).subs(at) == node.total(one), (node.path, name)


@given(models_and_runs)
@examples(15)
@pytest.mark.parametrize("dtype", [object, np.float64])
def test_arrays_give_a_value_for_each_of_their_points(dtype: type, case: tuple[Transformer, Workload]) -> None:
    model, run = case
    arrays = nodes(
        with_arrays(model, lambda size: np.array([size, size], dtype)),
        with_arrays(run, lambda size: np.array([size, size], dtype)),
    )
    for node, many in zip(nodes(model, run), arrays, strict=True):
        for name, one in MEASURES.items():
            assert np.all(many.total(one) == node.total(one)), (node.path, name)


def test_arrays_of_different_points_do_not_mix() -> None:
    widths, depths = np.array([64, 128, 512]), np.array([1, 2, 6])
    swept = Transformer(d_model=widths, n_layers=depths).tree(Workload()).total(measure.params)
    apart = [
        Transformer(d_model=h, n_layers=n).tree(Workload()).total(measure.params)
        for h, n in zip([64, 128, 512], [1, 2, 6], strict=True)
    ]
    assert swept.tolist() == apart  # type: ignore[attr-defined]
    assert apart[-1] == 44_140_544
