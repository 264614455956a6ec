"""What others published, asked of the program: what agreed goes on to agree, and what had a cause agrees now."""

from __future__ import annotations

from typing import Any

import pytest

from tests.points3 import answer, points

ROWS = {row["id"]: row for row in points()}
AGREED = [name for name, row in ROWS.items() if row["verdict"] == "agree" and row["json_path"]]
TORCHTITAN = (
    *("ao-float8nocompile-layer2", "titan-e23bb70-chunked", "titan-qwen3-32b-b2-g8"),
    *("titan-qwen3-32b-b4-g16", "titan-qwen3-32b-b32-fsdp8-tp8"),
)
"""Runs whose scripts set ``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`` (run_train.sh since October 2024)."""
MEGATRON = [name for name in ROWS if name.startswith(("simumax-alloc-", "simumax-plain-"))]
PAPERS = ("--checkpointing", "selective", "--no-dropout")
"""What stood for today's attention while Megatron-LM was that of 2022."""


PEFT_DORA = 24_532_484_096
"""``max_memory_reserved`` of peft's run of the row ``peft-mm-lora-r32`` with ``use_dora`` (method_comparison)."""


def off(row: dict[str, Any]) -> float:
    found = answer(row)
    assert found is not None, row["command"]
    return abs(found / float(row["expected"]) - 1)


@pytest.mark.parametrize("name", AGREED)
def test_no_point_that_agreed_is_lost(name: str) -> None:
    assert off(ROWS[name]) <= ROWS[name]["tolerance"]


@pytest.mark.parametrize("name", TORCHTITAN)
def test_what_torchtitan_reserves_is_that_of_its_allocator(name: str) -> None:
    row = ROWS[name]
    assert off({**row, "command": [*row["command"], "--alloc-conf", "expandable_segments"]}) <= 0.035


@pytest.mark.parametrize("name", MEGATRON)
def test_megatron_of_today_is_within_a_few_per_cent_on_b200(name: str) -> None:
    row = ROWS[name]
    words = [word for word in row["command"] if word not in PAPERS]
    assert off({**row, "command": [*(word for word in words if word != "none"), "--checkpointing", "none"]}) <= 0.04


def test_what_dora_reserves_is_that_of_pefts_run() -> None:
    row = ROWS["peft-mm-lora-r32"]
    assert off({**row, "command": [*row["command"], "--dora"], "expected": PEFT_DORA}) <= 0.04


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("litgpt-res-lora-llama")])
def test_litgpts_qlora_of_2023_is_near_with_the_bitsandbytes_that_it_had(name: str) -> None:
    """Its 0.41.1 saved the input of each 4-bit product, which is half of what was missing."""
    row = ROWS[name]
    assert off(row) > 0.18
    assert off({**row, "command": [*row["command"], "--bitsandbytes", "0.43"]}) <= 0.09


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("litgpt-hub") and name.endswith("-lora")])
def test_litgpts_lora_is_that_of_its_own_loss(name: str) -> None:
    row = ROWS[name]
    assert off({**row, "command": [*row["command"], "--loss", "litgpt"]}) <= row["tolerance"]


def test_a_prompt_of_4_bit_weights_has_a_dequantized_matrix() -> None:
    """LitGPT's falcon-40b, of whose largest matrix a product has a copy: 9 % low without one."""
    row = ROWS["litgpt-res-inf-falcon-40b-nf4"]
    assert off(row) <= row["tolerance"]
