"""Weights, gradients, optimizer states and the step's own need, as PyTorch's memory tracker saw them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import Transformer, Workload
from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component, Cost, Weight
from tfcalc.core.measure import bytes_held, params
from tfcalc.errors import InvalidModel
from tfcalc.model import with_symbols
from tfcalc.nn.basic import parameter
from tfcalc.training.optimizers import OPTIMIZERS as OPTIMIZERS_BY_NAME
from tfcalc.training.optimizers import optimizer
from tfcalc.training.precisions import PRECISIONS, precision
from tfcalc.training.sharding import largest_tensor, packed, tensor_count
from tfcalc.training.states import model_states, step_temporary

CONFIGS = json.loads((Path(__file__).parents[1] / "oracle" / "zoo.models.json").read_text(encoding="utf-8"))
TRAINING = recorded("memory/training.public.jsonl")
OF_TORCH = recorded("memory/nn-transformer.public.jsonl")
OPTIMIZERS = recorded("memory/optimizers.jsonl")
RECORDED_PRECISIONS = {"fp32": "fp32", "bf16 (pure)": "bf16", "fp32 weights, CUDA bf16 autocast": "bf16-mixed"}
RECORDED_OPTIMIZERS = {"sgd_mom": "momentum", "adamw_fused": "adamw-fused", "adamw_forloop": "adamw-forloop"}
TRAIN = Workload(phase="train", seq_len=16)


def tree_of(row: dict[str, Any]) -> Component:
    """The model that was recorded; its table of positions is as long as what it read, where that is longer."""
    config = dict(CONFIGS[row["model"]])
    for field in ("n_positions", "max_position_embeddings"):
        if config["model_type"] in ("gpt2", "bert") and field in config:
            config[field] = max(config[field], row["seq"])
    return HFModel(config).tree(TRAIN)


def compare(tree: Component, row: dict[str, Any]) -> None:
    by = precision(RECORDED_PRECISIONS[row["recipe"]])
    name = row["optimizer"]
    chosen = optimizer(RECORDED_OPTIMIZERS.get(name, name))
    states, phases = model_states(tree, by, chosen), row["phases"]
    assert states.weights.total(bytes_held) == row["param_bytes"], row
    assert states.gradients.total(bytes_held) == phases["bwd_end"]["Gradient"], row
    assert states.optimizer.total(bytes_held) == phases["start"].get("Optstate", 0), row
    assert states.master.total(bytes_held) == 0
    if "step_peak" in phases:
        more = phases["step_peak"]["Total"] - phases["step_end"]["Total"]
        assert step_temporary(tree, by, chosen).total(bytes_held) == more, row


@pytest.mark.parametrize("model", sorted({row["model"] for row in TRAINING}))
def test_states_and_step_of_published_models_are_exact(model: str) -> None:
    for row in TRAINING:
        if row["model"] == model:
            compare(tree_of(row), row)


def test_states_and_step_of_torch_nn_transformer_are_exact() -> None:
    for row in OF_TORCH:
        compare(packed(Transformer(pre_norm=row["norm_first"]).tree(TRAIN)), row)


def test_the_recorded_rows_are_all_there() -> None:
    assert (len(TRAINING), len(OF_TORCH), len(OPTIMIZERS)) == (368, 58, 66)


@pytest.mark.parametrize("row", OPTIMIZERS, ids=lambda row: f"{row['optimizer']}-{row['model']}-{row['dtype']}")
def test_what_an_optimizer_keeps_and_needs_is_exact(row: dict[str, Any]) -> None:
    tree, by, chosen = HFModel(row["config"]).tree(TRAIN), precision(row["dtype"]), optimizer(row["optimizer"])
    assert tree.total(params) == row["params"]
    assert tensor_count(tree) == row["tensors"]
    assert model_states(tree, by, chosen).optimizer.total(bytes_held) == row["state_bytes"]
    if row["step_bytes"] is not None:  # bitsandbytes steps on a GPU only
        assert step_temporary(tree, by, chosen).total(bytes_held) == row["step_bytes"]


@pytest.mark.parametrize("name", ["gpt2", "llama-2-7b", "t5-small"])
@pytest.mark.parametrize(
    "rule", ["adamw", "adamw-forloop", "adamw-8bit", "adafactor", "adafactor-momentum", "lion", "muon"]
)
def test_closed_forms_give_the_numbers(name: str, rule: str) -> None:
    model, by, chosen = HFModel(CONFIGS[name]), precision("bf16-master"), optimizer(rule)
    symbolic = with_symbols(model)
    tree, twin = model.tree(TRAIN), symbolic.tree(TRAIN)
    ours = [*model_states(tree, by, chosen), step_temporary(tree, by, chosen)]
    forms = [*model_states(twin, by, chosen, sized=tree), step_temporary(twin, by, chosen, sized=tree)]
    for number, form in zip(ours, forms, strict=True):
        formula: Any = form.total(bytes_held)
        assert formula.at(model.values()) == number.total(bytes_held), (number.name, formula)


BYTES_WITH_ADAMW = {  # Rajbhandari et al. 2020, section 3.1; Megatron-LM's 18; PyTorch's fp32
    "fp32": (4, 4, 0, 8),
    "bf16": (2, 2, 0, 4),
    "fp16": (2, 2, 0, 4),
    "bf16-mixed": (4, 4, 0, 8),
    "bf16-master": (2, 2, 4, 8),
    "fp16-master": (2, 2, 4, 8),
    "bf16-master-fp32-grads": (2, 4, 4, 8),
    "bf16-master-fp32-grads-bf16-moments": (2, 4, 4, 4),  # Megatron-Bridge's DeepSeek-V3, main_grads_dtype fp32, bf16
    "bf16-master-bf16-moments": (2, 2, 4, 4),
    "fp8": (2, 2, 0, 4),  # torchao's float8 linear keeps its weight in bf16
}


@pytest.mark.parametrize("name", sorted(BYTES_WITH_ADAMW))
def test_precisions_have_the_bytes_per_parameter_of_their_sources(name: str) -> None:
    by = PRECISIONS[name]
    assert (by.weights, by.gradients, by.master, 2 * by.moments) == tuple(8 * size for size in BYTES_WITH_ADAMW[name])


def test_gradients_are_there_at_the_start_only_where_they_are_accumulated() -> None:
    states = model_states(Transformer().tree(TRAIN), precision("fp32"), optimizer("adamw"))
    assert "gradients" not in [state.name for state in states.base()]
    assert "gradients" in [state.name for state in states.base(accumulation=2)]
    with pytest.raises(InvalidModel, match="0 micro-batches"):
        states.base(accumulation=0)


def test_sixteen_bit_gradients_are_copied_for_fp32_master_weights() -> None:
    tree = Transformer().tree(TRAIN)
    assert tree.total(params) == 44_140_544  # torch.nn.Transformer()
    fused = optimizer("adamw-fused")
    assert step_temporary(tree, precision("bf16-master"), fused).total(bytes_held) == 4 * 44_140_544
    assert step_temporary(tree, precision("bf16-master-fp32-grads"), fused).total(bytes_held) == 0


def test_rmsprop_keeps_a_number_for_each_and_a_count_and_copies_all_to_step() -> None:
    """torch.optim.RMSprop on two tensors of 64 × 128 and 100 numbers: ``square_avg``, and √ of all of these."""
    tree = Component("model", "model", Cost(weights=(Weight("W", (64, 128)), Weight("b", (100,)))))
    chosen, numbers = optimizer("rmsprop"), 64 * 128 + 100
    for name, size in (("fp32", 4), ("bf16", 2)):
        assert model_states(tree, precision(name), chosen).optimizer.total(bytes_held) == size * numbers + 2 * 4
        assert step_temporary(tree, precision(name), chosen).total(bytes_held) == size * numbers


@pytest.mark.parametrize("name", sorted(OPTIMIZERS_BY_NAME))
def test_a_single_number_is_a_tensor_like_any_other(name: str) -> None:
    tree = Component("model", "model", parts=tuple(parameter("logit_scale").components()))
    kept = {"none": 0, "sgd": 0, "momentum": 4, "lion": 4, "adafactor": 4 + 4, "adafactor-momentum": 4 + 4 + 4}
    kept |= {"adafactor-trainer": 4 + 4, "rmsprop": 4 + 4}
    adam = 4 + 4 + 4  # two moments, and the count of steps
    states = model_states(tree, precision("fp32"), OPTIMIZERS_BY_NAME[name])
    expected = kept.get(name, of_bitsandbytes(name) or adam)
    assert states.optimizer.total(bytes_held) == expected, f"a new optimizer that is not Adam's kin? {name} into kept"


def of_bitsandbytes(name: str) -> int:
    """Moments of fp32 where tensors are small, which counts no steps; of 8 bits the maps of all tensors beside them."""
    family, bits = next((each for each in MOMENTS if each in name), ""), "8" if "8bit" in name else "32"
    if "torchao" in name or f"{bits}bit" not in name:
        return 0
    maps = min(MOMENTS[family], 2) * 256 * 4 if bits == "8" else 0
    return MOMENTS[family] * 4 + maps


MOMENTS = {"adamw": 2, "lion": 1, "ademamix": 3}


def test_the_largest_tensor_of_gpt2_is_its_vocabulary() -> None:
    assert largest_tensor(HFModel(CONFIGS["gpt2"]).tree(TRAIN)).shape == (50257, 768)


@pytest.mark.parametrize("ask", [precision, optimizer])
def test_an_unknown_name_is_refused_with_the_value_and_the_nearest(ask: Any) -> None:
    with pytest.raises(InvalidModel, match="'fp31a' is not known; "):
        ask("fp31a")
