"""A sweep has at each point the single answer: of depth, where layers are of several kinds, and of lengths and batches.

The first value is often the smallest one: what it leaves out of a pattern of layers has to be there again at the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.laws.presets import ALL, ENDS, settings
from tfcalc.catalog import load
from tfcalc.cli.commands import command
from tfcalc.configs.published import HFModel
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel, UsageError


def swept(model: str, name: str, values: tuple[int, ...], **typed: object) -> list[int | None]:
    """The column of answers, None where a point has none."""
    try:
        found: Any = command("sweep").answer(settings("sweep", model, **{name: values}, **typed))
    except InvalidModel:
        return [None] * len(values)
    told: list[int | None] = found.table.to_dict()[found.table.key]
    return told


def singles(called: str, model: str, name: str, values: tuple[int, ...], **typed: object) -> list[int | None]:
    """Each answer by itself; None where there is no such model."""
    return [_single(called, model, **{name: value}, **typed) for value in values]


def _single(called: str, model: str, **typed: object) -> int | None:
    try:
        found: Any = command(called).answer(settings(called, model, **typed))
    except InvalidModel:
        return None
    return int(found.totals["kv_cache_bytes"] if "serve" in typed else found.answer)


def depth(model: str) -> int | None:
    """How many layers it has; None where no option sets them."""
    found = load(model)
    if not isinstance(found, HFModel):
        return value_of(found.size("n_layers"))
    try:
        return next(
            (found.reading.sizes[path] for path in found.places("n_layers") if path in found.reading.sizes), None
        )
    except UsageError:
        return None


def check_layers(model: str, quantities: Iterable[str]) -> None:
    """Compare a sweep over layers with the single answers, for each of these quantities."""
    layers = depth(model)
    if layers is None:
        pytest.skip("no option sets its layers")
    values = tuple(dict.fromkeys([3, 7, 12, layers + 1]))
    for of in quantities:
        its, typed = ASKED[of]
        assert swept(model, "n_layers", values, of=of, **typed) == singles(its, model, "n_layers", values, **typed), of


HYBRIDS = [
    *("gemma-4-31b-it-nvfp4", "granite-4.0-h-micro", "lfm2-350m", "lfm2-1.2b"),
    *("qwen3.5-35b-a3b", "qwen3.5-397b-a17b"),
]
"""Models with layers of several kinds, of which a sweep once took others than the single answers did."""


@pytest.mark.parametrize("model", HYBRIDS)
def test_a_sweep_over_the_layers_of_a_hybrid_has_the_single_answers(model: str) -> None:
    check_layers(model, ("params", "flops"))


@pytest.mark.one_in(18)
@pytest.mark.parametrize("model", ALL)
def test_a_sweep_over_layers_has_the_single_answers(model: str) -> None:
    check_layers(model, ASKED)


@pytest.mark.long
@pytest.mark.parametrize("model", sorted(ENDS))
def test_a_sweep_over_the_layers_of_each_family_has_the_single_answers(model: str) -> None:
    """A first and a last model of every family; of all others the test above tries some."""
    check_layers(model, ASKED)


@pytest.mark.parametrize("model", ["llama-3-8b", "deepseek-v3", "gpt2", "mixtral-8x7b", "gemma-2-2b", "qwen3-0.6b"])
@pytest.mark.parametrize("name", ["d_model", "n_heads", "n_kv_heads", "head_dim", "d_ff"])
def test_a_sweep_of_the_cache_over_sizes_has_the_single_answers(name: str, model: str) -> None:
    """One run stands for all sizes at which the same is decided, such as that the heads divide the width."""
    values = (4, 8, 32, 64, 96, 2048)
    try:
        found = swept(model, name, values, of="cache", context=300)
    except UsageError:
        pytest.skip("this model has no such size, or its cache does not depend on it")
    assert found == singles("memory", model, name, values, context=300, serve=True)


ASKED: dict[str, tuple[str, dict[str, object]]] = {
    "params": ("params", {}),
    "flops": ("flops", {"batch_size": 3}),
    "memory": ("memory", {}),
    "cache": ("memory", {"context": 64, "serve": True}),
}
"""What is swept, and the command that answers it alone, with these options."""


@pytest.mark.one_in(18)
@pytest.mark.parametrize("model", ALL)
@pytest.mark.parametrize("phase", ["forward", "train", "decode"])
@pytest.mark.parametrize(("name", "values"), [("seq_len", (30, 260)), ("batch_size", (1, 3))])
def test_a_sweep_over_lengths_and_batches_has_the_single_answers(
    name: str, values: tuple[int, ...], phase: str, model: str
) -> None:
    try:
        one_by_one = singles("flops", model, name, values, phase=phase)
    except UsageError as refused:  # an image is as large as it is, and so is a state
        if "has no effect" not in refused.message:
            raise
        one_by_one = []
    if len(set(one_by_one)) <= 1 and None not in one_by_one:
        with pytest.raises(UsageError, match="has no effect"):
            swept(model, name, values, of="flops", phase=phase)
    else:
        assert swept(model, name, values, of="flops", phase=phase) == one_by_one
