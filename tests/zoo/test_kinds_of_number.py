"""One description, three kinds of number: ints, arrays and symbols agree on every family."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.verify.compare import configs
from tests.verify.random_configs import load
from tfcalc.configs.config import model_types
from tfcalc.configs.family import find
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import active_params, matmul_flops, params
from tfcalc.core.number import Num
from tfcalc.core.polynomial import symbol
from tfcalc.errors import InvalidModel
from tfcalc.model import with_symbols
from tfcalc.report import polynomial
from tfcalc.workload import Workload

FAMILIES = model_types()
DRAWS = 4
RUN = Workload(batch_size=2, seq_len=16)


def instead(model: HFModel, numbers: Mapping[str, Num]) -> HFModel:
    return HFModel(model.data, instead=numbers)


def models(model_type: str) -> list[HFModel]:
    """At the defaults, where these fit a model (transformers cannot build all of them either), and at random ones."""
    default, *drawn = configs(model_type, DRAWS)
    made = [HFModel(config) for config in drawn]
    try:
        made.append(HFModel(default))
        made[-1].tree(RUN)
    except InvalidModel:
        if model_type not in UNBUILDABLE:
            raise
        made.pop()
    return made


UNBUILDABLE = {"dots1", "nemotron-nas", "aya_vision"}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("model_type", FAMILIES)
def test_symbols_agree_with_ints(model_type: str) -> None:
    for model in models(model_type):
        letters = {path: symbol(field.letter) for path, field in model.reading.fields.items()}
        root, twin = model.tree(RUN), instead(model, letters).tree(with_symbols(RUN))
        for measure in (params, active_params, matmul_flops):
            closed = polynomial(twin.total(measure))
            assert closed.at(model.values() | RUN.values()) == root.total(measure)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("model_type", FAMILIES)
def test_arrays_agree_with_ints(model_type: str) -> None:
    numpy = pytest.importorskip("numpy")
    for model in models(model_type):
        arrays = {path: numpy.array([size, size], object) for path, size in model.reading.sizes.items()}
        counted = instead(model, arrays).tree(RUN).total(params)
        assert numpy.broadcast_to(counted, 2).tolist() == [model.tree(RUN).total(params)] * 2


def test_every_family_has_random_configs() -> None:
    """But those that transformers lacks (see test_remote_families.py), and towers that only a whole is built with."""
    without = set(FAMILIES) - set(load())
    whole = {name for name in without if not name.endswith(PARTS)}
    missing = sorted(name for name in whole if not find(name).like and name not in UNDRAWN)
    assert not missing, f"{', '.join(missing)}: tests/verify/spaces has no function that draws configs"


UNDRAWN = {"emu3"}
"""Its text model is drawn."""
PARTS = ("_text", "_vision", "_audio", "_encoder", "_text_model", "_vision_model", "_qformer")
