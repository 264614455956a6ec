"""States spread over devices: ZeRO's table 1, PyTorch's own pieces, and the estimators that others print."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import Transformer, Workload, load
from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component
from tfcalc.core.measure import bytes_held
from tfcalc.core.measure import params as parameters
from tfcalc.core.number import total
from tfcalc.core.polynomial import symbols
from tfcalc.errors import InvalidModel
from tfcalc.held.training.optimizers import optimizer
from tfcalc.held.training.placement import Placed, gathered, placed
from tfcalc.held.training.precisions import precision
from tfcalc.held.training.rules import (
    accelerate_adam,
    deepspeed_zero2,
    deepspeed_zero3,
    galore_full_rank,
    megatron_bytes_per_param,
    qlora_full_16_bit,
)
from tfcalc.held.training.sharding import LAYOUTS, Placement, pieces, stored_numbers, units
from tfcalc.leaves import parameter
from tfcalc.symbols import with_symbols

CONFIGS = json.loads((Path(__file__).parents[1] / "oracle" / "zoo.models.json").read_text(encoding="utf-8"))
PUBLISHED = recorded("memory/published.jsonl")
SHARDING = recorded("memory/sharding.jsonl")
TRAIN = Workload(phase="train", seq_len=16)
MIXED, ADAMW = precision("fp16-master"), optimizer("adamw")
GB, GIB = 10**9, 2**30


def table(name: str) -> list[dict[str, Any]]:
    rows = [row for row in PUBLISHED if row["table"].startswith(name)]
    assert rows
    return rows


def step_of(printed: float) -> float:
    """One unit of the last digit that is printed; papers round or cut off."""
    text = str(printed)
    return float(10.0 ** -len(text.partition(".")[2]))


def alone(params: int) -> Component:
    return Component("model", "model", parts=(parameter("Ψ", params),))


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


CPU_GIB = [  # docs/code-docs/source/memory.rst: t5-3b of 2851M parameters, largest layer 32M, 8 GPUs on a node
    (deepspeed_zero2(2_851_000_000, 8, offload=True), 127.45, 5.31),
    (deepspeed_zero2(2_851_000_000, 8), 127.45, 15.93),
    (deepspeed_zero3(2_851_000_000, 32_000_000, 8, offload="all"), 71.69, 0.12),
    (deepspeed_zero3(2_851_000_000, 32_000_000, 8, offload="all", zero_init=False), 127.45, 0.12),
    (deepspeed_zero3(2_851_000_000, 32_000_000, 8, offload="optimizer"), 63.72, 0.78),
    (deepspeed_zero3(2_851_000_000, 32_000_000, 8, offload="optimizer", zero_init=False), 127.45, 0.78),
    (deepspeed_zero3(2_851_000_000, 32_000_000, 8), 1.43, 6.09),
    (deepspeed_zero3(2_851_000_000, 32_000_000, 8, zero_init=False), 127.45, 6.09),
]


@pytest.mark.parametrize(("estimate", "host", "device"), CPU_GIB)
def test_deepspeed_estimates_what_its_documentation_prints(estimate: Any, host: float, device: float) -> None:
    assert (round(estimate.host / GIB, 2), round(estimate.device / GIB, 2)) == (host, device)


def test_deepspeed_sees_t5_large_as_its_documentation_prints_it() -> None:
    tree = load("t5-large").tree(TRAIN)
    params, largest = (
        int(tree.total(parameters)),  # type: ignore[call-overload]
        max(int(numbers) for _, numbers, _ in units(tree, Placement(3, 4, "zero"))),  # type: ignore[call-overload]
    )
    assert (round(params / 1e6, 2), round(largest / 1e6, 2), 4 * largest >> 20) == (737.67, 32.90, 125)
    printed = {"none": 3291, "all": 125, "optimizer": 477}
    for offload, megabytes in printed.items():
        assert deepspeed_zero3(params, largest, 4, offload=offload).device >> 20 == megabytes
    needed = gathered(tree, MIXED, Placement(3, 4, "zero"))
    assert needed.total(bytes_held) == 4 * largest  # "largest layer memory: 125MB"


MEGATRON = [  # Megatron-LM's documentation, "Distributed Optimizer"
    ("fp16", 20, 4, 16),
    ("bf16-fp32-grads", 18, 6, 12),
    ("fp32", 16, 8, 8),
]


@pytest.mark.parametrize(("name", "alone", "whole", "spread"), MEGATRON)
def test_megatron_has_its_documented_bytes_per_parameter(name: str, alone: int, whole: int, spread: int) -> None:
    assert megatron_bytes_per_param(name) == alone
    assert megatron_bytes_per_param(name, 64) == whole + Fraction(spread, 64)


@pytest.mark.parametrize(("by", "rule"), [("bf16-master-fp32-grads", "bf16-fp32-grads"), ("fp32", "fp32")])
def test_stage_1_holds_what_megatron_states_per_parameter(by: str, rule: str) -> None:
    params, devices = 2**30, 64
    ours: Any = placed(alone(params), precision(by), ADAMW, Placement(1, devices)).device.bytes
    assert ours == params * megatron_bytes_per_param(rule, devices) + 4  # PyTorch's counter of steps


def test_galore_counts_weights_and_moments_in_16_bits() -> None:
    # its table names models by a rounded size; what it prints for full rank is 6 bytes of some P beside that name
    for row in table("GaLore"):
        named = {"60M": 60e6, "130M": 130e6, "350M": 350e6, "1B": 1.3e9}[row["model"]]
        assert galore_full_rank(int(named)) / GB == pytest.approx(row["full_G"], rel=0.03)


def test_qlora_says_780_gb() -> None:
    assert "65B full 16-bit finetune >780GB" in table("QLoRA")[0]["fact"]
    assert qlora_full_16_bit(65 * GB) == 780 * GB


def test_accelerate_takes_four_times_the_weights() -> None:
    bits = {"float32": 32, "float16": 16, "int8": 8, "int4": 4}
    for row in table("accelerate"):
        assert accelerate_adam(108_310_272, bits[row["dtype"]]) / 2**20 == pytest.approx(row["adam_MB"], rel=0.003)


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
    where = Placement(stage, 6, layout, prefetch=True)
    ours = placed(tree, MIXED, ADAMW, where)
    forms = placed(twin, MIXED, ADAMW, where._replace(devices=devices), sized=(tree, where))
    values = {**model.values(), "N": 6}
    for number, form in zip(
        (*ours.device, ours.gathered, ours.step), (*forms.device, forms.gathered, forms.step), strict=True
    ):
        formula: Any = form.total(bytes_held)
        assert (formula if formula == 0 else formula.at(values)) == number.total(bytes_held), number.name


def test_a_single_number_is_whole_on_every_device() -> None:
    tree = Component("model", "model", parts=(parameter("logit_scale"),))
    for layout in LAYOUTS:
        ours = placed(tree, precision("fp32"), optimizer("sgd"), Placement(3, 4, layout)).device.bytes
        assert ours == 4 + 4  # it and its gradient


def test_prefetch_gathers_the_weights_of_one_more_layer() -> None:
    tree = HFModel(CONFIGS["llama-2-7b"]).tree(TRAIN)
    once, twice = (
        gathered(tree, precision("bf16"), Placement(3, 8, "fsdp2", prefetch=prefetch)) for prefetch in (False, True)
    )
    more: Any = twice.total(bytes_held) - once.total(bytes_held)
    # 4·4096² + 3·4096·11008 + 2·4096 of a layer, but 2·32000·4096 + 4096 are in none
    assert more == 2 * max(4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096, 2 * 32000 * 4096 + 4096)


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
