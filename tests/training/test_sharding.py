"""States spread over devices: ZeRO's table 1, PyTorch's own pieces, what DeepSpeed and Megatron-LM document."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import Transformer, Workload, load, memory
from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component
from tfcalc.core.measure import bytes_held
from tfcalc.core.measure import params as parameters
from tfcalc.core.number import total
from tfcalc.core.polynomial import symbols
from tfcalc.errors import InvalidModel
from tfcalc.model import with_symbols
from tfcalc.nn.basic import parameter
from tfcalc.plans import Training
from tfcalc.training.optimizers import optimizer
from tfcalc.training.plan_checks import check_gpus
from tfcalc.training.precisions import precision
from tfcalc.training.sharding import LAYOUTS, Placement, pieces, stored_numbers, units
from tfcalc.training.states import Placed, gathered, placed

CONFIGS = json.loads((Path(__file__).parents[1] / "oracle" / "zoo.models.json").read_text(encoding="utf-8"))
PUBLISHED = recorded("memory/published.jsonl")
SHARDING = recorded("memory/sharding.jsonl")
TRAIN = Workload(phase="train", seq_len=16)
MIXED, ADAMW = precision("fp16-master"), optimizer("adamw")
GB = 10**9


def table(name: str) -> list[dict[str, Any]]:
    rows = [row for row in PUBLISHED if row["table"].startswith(name)]
    assert rows
    return rows


def step_of(printed: float) -> float:
    """One unit of the last digit that is printed; papers round or cut off."""
    text = str(printed)
    return float(10.0 ** -len(text.partition(".")[2]))


def alone(params: int) -> Component:
    return Component("model", "model", parts=tuple(parameter("Ψ", params).components()))


@pytest.mark.parametrize("row", table("ZeRO T1"), ids=lambda row: f"{row['params_B']}B-{row['dp']}")
def test_table_1_of_zero_is_what_it_prints(row: dict[str, Any]) -> None:
    tree = alone(int(row["params_B"] * GB))
    for stage, column in enumerate(("pos", "pos_g", "pos_g_p"), start=1):
        states = placed(tree, MIXED, ADAMW, Placement(stage, row["dp"])).device
        ours: Any = states.bytes
        assert abs(ours / GB - row[column]) < step_of(row[column])
        assert ours / GB == pytest.approx(row[f"f_{column}"], rel=1e-7)


@pytest.mark.parametrize("row", SHARDING, ids=lambda row: f"{row['layout']}-{row['model']}-{row['devices']}")
def test_a_device_has_the_piece_that_pytorch_gives_it(row: dict[str, Any]) -> None:
    tree = HFModel(row["config"]).tree(TRAIN)
    assert tree.total(parameters) == row["params"]
    ours = pieces(tree, Placement(3, row["devices"], row["layout"])).total(stored_numbers)
    if row["layout"] == "fsdp2" and row["model"] == "gpt2":  # its Conv1D has its axes the other way round
        assert ours == pytest.approx(row["piece"], rel=0.01)
    else:
        assert ours == row["piece"]


def test_deepspeed_sees_t5_large_as_its_documentation_prints_it() -> None:
    tree = load("t5-large").tree(TRAIN)
    params, largest = (
        int(tree.total(parameters)),  # type: ignore[call-overload]
        max(int(numbers) for _, numbers, _ in units(tree, Placement(3, 4, "zero"))),  # type: ignore[call-overload]
    )
    assert (round(params / 1e6, 2), round(largest / 1e6, 2), 4 * largest >> 20) == (737.67, 32.90, 125)
    needed = gathered(tree, MIXED, Placement(3, 4, "zero"))
    assert needed.total(bytes_held) == 4 * largest  # "largest layer memory: 125MB"


@pytest.mark.parametrize(("by", "whole", "spread"), [("bf16-master-fp32-grads", 6, 12), ("fp32", 8, 8)])
def test_stage_1_holds_what_megatron_states_per_parameter(by: str, whole: int, spread: int) -> None:
    """Megatron-LM's documentation, "Distributed Optimizer": 6 + 12/d and 8 + 8/d bytes on each of d devices."""
    params, devices = 2**30, 64
    ours: Any = placed(alone(params), precision(by), ADAMW, Placement(1, devices)).device.bytes
    assert ours == params * (whole + Fraction(spread, devices)) + 4  # PyTorch's counter of steps


def test_weights_and_moments_in_16_bits_are_galores_full_rank() -> None:
    # its table names models by a rounded size; what it prints for full rank is 6 bytes of some P beside that name
    for row in table("GaLore"):
        named = {"60M": 60e6, "130M": 130e6, "350M": 350e6, "1B": 1.3e9}[row["model"]]
        states = placed(alone(int(named)), precision("bf16"), ADAMW, Placement()).device
        ours: Any = states.weights.total(bytes_held) + states.optimizer.total(bytes_held)
        assert ours / GB == pytest.approx(row["full_G"], rel=0.03)


@pytest.mark.parametrize(("by", "dtype"), [("fp32", "float32"), ("fp16", "float16")])
def test_accelerate_takes_four_times_the_weights_for_adam(by: str, dtype: str) -> None:
    row = next(row for row in table("accelerate") if row["dtype"] == dtype)
    ours: Any = placed(alone(108_310_272), precision(by), ADAMW, Placement()).device.bytes
    assert ours / 2**20 == pytest.approx(row["adam_MB"], rel=0.003)


def everywhere(answer: Placed) -> Any:
    return total([answer.device.bytes, answer.host.bytes])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_one_device_has_everything_whichever_the_layout(layout: str, stage: int) -> None:
    # 44,140,544 parameters of torch.nn.Transformer() in 2 + 2 + 12 bytes, and a counter for each piece
    ours = everywhere(placed(Transformer().tree(TRAIN), MIXED, optimizer("momentum"), Placement(stage, 1, layout)))
    assert ours == 44_140_544 * (2 + 2 + 4 + 4)


@pytest.mark.parametrize("offload", ["optimizer", "all"])
def test_what_is_offloaded_is_on_the_host_and_not_on_the_device(offload: str) -> None:
    tree = Transformer().tree(TRAIN)
    kept = placed(tree, MIXED, ADAMW, Placement(3, 4))
    moved = placed(tree, MIXED, ADAMW, Placement(3, 4, offload=offload))
    assert everywhere(kept) == everywhere(moved)
    assert kept.host.bytes == 0
    assert moved.device.bytes == (0 if offload == "all" else 2 * 44_140_544 // 4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ["gpt2", "llama-2-7b"])
def test_closed_forms_in_the_number_of_devices_give_the_numbers(layout: str, stage: int, name: str) -> None:
    (devices,) = symbols("N")
    model = HFModel(CONFIGS[name])
    tree, twin = model.tree(TRAIN), with_symbols(model).tree(TRAIN)
    where = Placement(stage, 6, layout)
    ours = placed(tree, MIXED, ADAMW, where)
    forms = placed(twin, MIXED, ADAMW, where._replace(devices=devices), sized=(tree, where))
    values = {**model.values(), "N": 6}
    for number, form in zip(
        (*ours.device, ours.gathered, ours.step), (*forms.device, forms.gathered, forms.step), strict=True
    ):
        formula: Any = form.total(bytes_held)
        assert (formula if formula == 0 else formula.at(values)) == number.total(bytes_held), number.name


def test_a_single_number_is_whole_on_every_device() -> None:
    tree = Component("model", "model", parts=tuple(parameter("logit_scale").components()))
    for layout in LAYOUTS:
        ours = placed(tree, precision("fp32"), optimizer("sgd"), Placement(3, 4, layout)).device.bytes
        assert ours == 4 + 4  # it and its gradient


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        (Placement(4), "stage 4"),
        (Placement(1, 0), "0 devices"),
        (Placement(1, 2, "fsdp3"), "'fsdp3' is not known; did you mean fsdp"),
        (Placement(1, 2, offload="optimiser"), "'optimiser' is not known; did you mean optimizer"),
        (Placement(2, 2, offload="all"), "offload 'all' with ZeRO stage 2"),
    ],
)
def test_a_bad_placement_is_refused_with_its_value(placement: Placement, said: str) -> None:
    with pytest.raises(InvalidModel, match=said):
        placed(alone(8), MIXED, ADAMW, placement)


def test_fsdp_shares_packed_numbers_and_no_scales() -> None:
    """QLoRA over N devices: each has its piece of packed matrices, adapters and the rest, and all of the scales."""
    devices, run = 8, Workload(phase="train", seq_len=16, recompute="full")
    plan = Training(lora=16, base_weights="nf4-dq", precision="bf16", zero="3", gpus=devices, layout="fsdp2")
    ours: Any = memory(load("llama-3-8b"), run, training=plan).totals["weights_bytes"]
    h, f, kv, layers, vocabulary, rank = 4096, 14336, 1024, 32, 128256, 16
    matrices = [h * h, h * h, h * kv, h * kv, h * f, h * f, f * h]
    packed = layers * sum(matrices) // 2
    # bitsandbytes: a byte for 64 numbers, a float for 256 of these, an offset, tables of 16 and of 256 floats
    scales = layers * sum(n // 64 + 4 * n // (64 * 256) + 4 + 4 * 16 + 4 * 256 for n in matrices)
    adapters = layers * rank * (2 * (h + h) + 2 * (h + kv) + 3 * (h + f))
    rest = 2 * vocabulary * h + (2 * layers + 1) * h
    assert ours == packed // devices + scales + 2 * (adapters + rest) // devices


def test_gpus_are_all_gpus_of_which_some_share_a_copy_of_the_model() -> None:
    """Rajbhandari et al. 2020 (arXiv 1910.02054), section 4: states are shared over the degree of data parallelism."""
    plan = Training(gpus=256, tensor_parallel=8, pipeline_parallel=4)
    assert (plan.model_parallel, plan.data_parallel) == (32, 8)
    assert Training(tensor_parallel=8).data_parallel == Training().data_parallel == 1
    assert Training(tensor_parallel=8).size("gpus") == 8


@pytest.mark.parametrize(
    ("plan", "card", "remedy"),
    [
        (Training(gpus=8, tensor_parallel=8, pipeline_parallel=2), "h100", "take --pp 1, or --gpu 16xh100"),
        (Training(gpus=12, tensor_parallel=8), "", "take --tp 4, or --gpus 8, or --gpus 16"),
        (Training(gpus=24, tensor_parallel=4, pipeline_parallel=4), "", "take --pp 2, or --gpus 16, or --gpus 32"),
        (Training(gpus=2, tensor_parallel=3), "t4", "take --tp 1, or --gpu 3xt4"),
    ],
)
def test_gpus_that_copies_of_the_model_cannot_share_are_refused(plan: Training, card: str, remedy: str) -> None:
    with pytest.raises(InvalidModel, match=re.escape(remedy)):
        check_gpus(plan, card)
