"""What others published, asked of the program: what agreed goes on to agree, and what had a cause agrees now."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.points3 import answer, points
from tests.real_runs import answered

ROWS = {row["id"]: row for row in points()}
AGREED = [name for name, row in ROWS.items() if row["verdict"] == "agree" and row["json_path"]]
TORCHTITAN = {
    **dict.fromkeys(("ao-float8nocompile-layer2", "titan-e23bb70-chunked"), ""),
    **dict.fromkeys(("titan-qwen3-32b-b2-g8", "titan-qwen3-32b-b4-g16", "titan-qwen3-32b-b32-fsdp8-tp8"), ""),
    **dict.fromkeys(("titan-nvfp4-llama3-bf16", "titan-nvfp4-qwen3-bf16"), "--loss chunked"),
}
"""Runs whose scripts set ``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`` (run_train.sh since October 2024).

Those of 2026 were configured as torchtitan's recipes are since then: selective checkpointing, and the loss in a
``ChunkedLossWrapper`` (torchtitan/models/qwen3/config_registry.py), which their page does not repeat.
"""
ON_LLAMA = "llama-3-8b --gpus 8 --batch 1"
ON_QWEN = "qwen3-32b --seq 4096 --checkpointing full"
FURTHER = {
    f"{ON_LLAMA} --seq 8192 --checkpointing selective-op": 49.41,  # torchtitan 5940ddeb5
    f"{ON_LLAMA} --seq 4096 --checkpointing none": 53.12,  # torchao/prototype/float8nocompile/README.md
    f"{ON_LLAMA} --seq 4096 --checkpointing full": 28.07,
    f"{ON_QWEN} --gpus 8 --batch 1": 81.47,  # torchtitan d66b72a6a (#1690), as the four below
    f"{ON_QWEN} --gpus 8 --batch 2 --compile": 81.85,
    f"{ON_QWEN} --gpus 32 --tp 8 --sequence-parallel --batch 16": 43.45,
    f"{ON_QWEN} --gpus 32 --tp 8 --sequence-parallel --batch 32": 70.79,
    f"{ON_QWEN} --gpus 32 --tp 4 --sequence-parallel --batch 16": 70.20,
}
"""GiB of further runs with this setting, as torchtitan prints them (``max_reserved_gib``)."""
MEGATRON = [name for name in ROWS if name.startswith(("simumax-alloc-", "simumax-plain-"))]
QLORA = [name for name, row in ROWS.items() if name.startswith("litgpt") and {"--lora", "nf4"} <= {*row["command"]}]
PEFT_DORA = 24_532_484_096
"""``max_memory_reserved`` of peft's run of the row ``peft-mm-lora-r32`` with ``use_dora`` (method_comparison)."""


def off(row: dict[str, Any]) -> float:
    found = answer(row)
    assert found is not None, row["command"]
    return abs(found / float(row["expected"]) - 1)


@pytest.mark.parametrize("name", AGREED)
def test_no_point_that_agreed_is_lost(name: str) -> None:
    assert off(ROWS[name]) <= ROWS[name]["tolerance"]


SEGMENTS = "--alloc-conf expandable_segments"


@pytest.mark.parametrize("name", TORCHTITAN)
def test_what_torchtitan_reserves_is_that_of_its_allocator(name: str) -> None:
    row, more = ROWS[name], f"{TORCHTITAN[name]} {SEGMENTS}".split()
    assert off({**row, "command": [*row["command"], *more]}) <= 0.035


@pytest.mark.one_in(4)
@pytest.mark.parametrize("words", FURTHER)
def test_so_is_that_of_its_further_runs(words: str) -> None:
    found, error = answered((*f"memory {words} --train --fsdp --precision bf16-fsdp {SEGMENTS}".split(),))
    assert not error
    assert found["reserved_bytes"] / 2**30 == pytest.approx(FURTHER[words], rel=0.035)


def on_b200(name: str) -> list[str]:
    """The words for a run of SimuMax's table, whose layout its name has: ``llama3_70b_l12_tp4_pp1_dp2_mbc4_cef``.

    ``--gpus`` is that of one copy, as in the other rows.
    """
    config = "-".join(name.split("-")[2].split("_")[:3])
    flags = {"tp": "--tp", "pp": "--pp", "dp": "--gpus", "mbc": "--grad-accum"}
    sizes = {flag: re.findall(rf"_{letters}(\d+)", name)[0] for letters, flag in flags.items()}
    layout = [word for flag, size in sizes.items() if size != "1" for word in (flag, size)]
    sharing = ["--sequence-parallel"] if sizes["--tp"] != "1" else []
    how = ["--precision", "bf16-master-fp32-grads", "--checkpointing", "none", "--seq", "4096", "--batch", "1"]
    return ["memory", f"truth-configs/{config}.json", "--train", "--backend", "megatron", *layout, *sharing, *how]


@pytest.mark.parametrize("name", MEGATRON)
def test_megatron_of_today_is_within_2_per_cent_on_b200(name: str) -> None:
    """What is temporary in backward is in it, and the optimizer is distributed without being asked to be."""
    assert off({**ROWS[name], "command": on_b200(name)}) <= 0.015


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("simumax-resv-")])
def test_what_megatron_reserves_is_within_3_per_cent_and_in_its_band(name: str) -> None:
    asked = {**ROWS[name], "command": on_b200(name), "json_path": "reserved_bytes"}
    assert off(asked) <= 0.03
    low, high = (answer({**asked, "json_path": f"reserved_{end}_bytes"}) for end in ("low", "high"))
    assert low is not None
    assert high is not None
    assert low <= asked["expected"] <= high


def test_what_dora_reserves_is_that_of_pefts_run() -> None:
    row = ROWS["peft-mm-lora-r32"]
    assert off({**row, "command": [*row["command"], "--dora"], "expected": PEFT_DORA}) <= 0.04


@pytest.mark.parametrize("name", QLORA)
def test_litgpts_qlora_is_near_with_the_bitsandbytes_that_it_had(name: str) -> None:
    """Its 0.41 and 0.42 put the input of each 4-bit product on the node, where it outlives backward.

    LitGPT's loop has the last step's loss, and so its graph, until that of the next step is computed. These rows were
    20 to 30 % low.
    """
    row = ROWS[name]
    more = ["--bitsandbytes", "0.43", "--quantize-head", "--loss", "litgpt"]
    assert off({**row, "command": [*row["command"], *more]}) <= 0.07


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("litgpt-hub") and name.endswith("-lora")])
def test_litgpts_lora_is_that_of_its_own_loss(name: str) -> None:
    row = ROWS[name]
    assert off({**row, "command": [*row["command"], "--loss", "litgpt"]}) <= row["tolerance"]


def test_a_prompt_of_4_bit_weights_has_a_dequantized_matrix() -> None:
    """LitGPT's falcon-40b, of whose largest matrix a product has a copy: 9 % low without one."""
    row = ROWS["litgpt-res-inf-falcon-40b-nf4"]
    assert off(row) <= row["tolerance"]


def test_litgpts_int8_peak_is_that_of_loading_the_head() -> None:
    """8.7 GB, where 7.9 are live while it generates; the answer says that loading is not counted.

    Lightning's plugin quantizes each matrix on the GPU, of whose fp16 copy bitsandbytes 0.41 makes two of 1 byte, one
    of them transposed (``double_quant``). The head is the last and the largest: 65,024 × 4,544.
    """
    row = ROWS["litgpt-quant-falcon7b-int8"]
    weights = answer({**row, "json_path": "weights_bytes"})
    assert weights is not None
    assert weights + 2 * 65_024 * 4_544 / 1e9 == pytest.approx(row["expected"], rel=0.04)


ACTIVE = ("active_params", "active_non_embedding_params", "active_layer_params", "active_text_params")
"""Counts of the answer: with both tables, without the embedding, without either, and without a tower."""


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("active-")])
def test_active_parameters_are_one_of_the_counts_that_the_answer_names(name: str) -> None:
    """To the figures of the card: most leave out the embedding, some both tables."""
    row = ROWS[name]
    assert min(off({**row, "json_path": key}) for key in ACTIVE) <= row["tolerance"]
