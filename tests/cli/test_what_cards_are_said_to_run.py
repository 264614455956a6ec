"""Sentences about cards that people act on: what is shared, what is on the host, what a card runs, what comes first."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Outcome, Quick

LAYERS, WIDTH, VOCABULARY = 80, 8192, 128_256
MATRICES = LAYERS * (2 * WIDTH * WIDTH + 2 * WIDTH * 1024 + 3 * WIDTH * 28_672)
TABLES, NORMS = 2 * VOCABULARY * WIDTH, (2 * LAYERS + 1) * WIDTH
ADAPTERS = LAYERS * 16 * (2 * (WIDTH + WIDTH) + 2 * (WIDTH + 1024) + 3 * (WIDTH + 28_672))
"""Parameters of Llama 3.1 70B, and of adapters of rank 16 beside all its matrices."""
PRINTED = Path(__file__).parent.parent


def asked(quick: Quick, line: str) -> Outcome:
    return quick(*line.split())


def answered(quick: Quick, line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(asked(quick, f"{line} --json").stdout)
    return found


def told(quick: Quick, line: str) -> str:
    return " ".join(asked(quick, line).stdout.split())


def test_gpus_are_all_of_them_and_share_the_model_by_its_layout(quick: Quick) -> None:
    line = "memory llama-3.1-70b --train --gpu 256xh100 --fsdp --tp 8 --seq 8k"
    assert "256 GPUs = TP 8 x FSDP 32, global batch 32 x 8,192 = 262,144 tokens" in told(quick, line)
    found = answered(quick, line)
    assert (found["conventions"]["gpus"], found["conventions"]["data_parallel"]) == (256, 32)
    assert found["weights_bytes"] == pytest.approx(2 * (MATRICES + TABLES + NORMS) / 256, rel=1e-3)
    done = asked(quick, "memory llama-3.1-8b --train --gpu 8xh100 --tp 8 --pp 2")
    assert done.returncode == 2
    assert "--tp 8 x --pp 2 = 16 GPUs, and there are 8; take --pp 1, or --gpu 16xh100" in done.stderr
    typed = told(quick, "memory llama-3.1-8b --preset torchtune/full-distributed --gpu 8xh100")
    assert "8 GPUs = FSDP 8" in typed  # the preset's own number is 4


def test_base_weights_of_4_bits_that_are_offloaded_are_on_the_host_once(quick: Quick) -> None:
    """A 70B model on two cards of 24 GB was reported done; the scales of nf4 are no parameters, and stay."""
    line = "memory llama-3.1-70b --qlora --fsdp --offload all --gpu 2xrtx-4090 --seq 512 --checkpointing full"
    found = answered(quick, line)
    adapted = 2 * ADAPTERS * (1 + 1 + 2)  # weights, gradients and two moments in bf16
    assert found["status"] == "fits"
    assert found["host_bytes"] == pytest.approx((MATRICES / 2 + 2 * (TABLES + NORMS) + adapted) / 2, rel=1e-5)
    assert found["weights_bytes"] == pytest.approx(MATRICES * (1 / 64 + 4 / 64 / 256), rel=0.01)


def test_checkpoints_in_fp32_are_served_in_16_bits(quick: Quick) -> None:
    """9,241,705,984 parameters; keys and values of 8 heads of 256 in 21 layers, and in 21 with a window of 4,096.

    Of these a block of 16 tokens is beside the window.
    """
    found = answered(quick, "memory gemma-2-9b --serve --gpu rtx-4090")
    assert found["weights_bytes"] == 2 * 9_241_705_984
    assert found["kv_cache_bytes"] == 21 * (8192 + 4096 + 16) * 2 * 8 * 256 * 2
    assert found["status"] in ("fits", "tight")


def test_the_cache_of_a_checkpoint_in_fp32_has_16_bits_beside_fewer_bits_of_weights_too(quick: Quick) -> None:
    """vLLM's cache has the model's dtype, which auto makes fp16; OLMo 2's 32 layers keep 2 x 4,096 numbers a token."""
    told = json.loads(quick("memory", "olmo-2-1124-7b", "--serve", "--weights", "int8", "--json").stdout)
    assert told["kv_cache_bytes"] == 32 * 2 * 4096 * 2 * told["conventions"]["context"]


@pytest.mark.parametrize(
    ("model", "params"),
    [
        ("gemma-2-27b", 27_227_128_320),
        ("olmo-7b", 6_888_095_744),
        ("starcoder2-3b", 3_030_371_328),
        ("smollm-1.7b", 1_711_376_384),
    ],
)
def test_so_are_all_others_whose_weights_are_stored_in_32(model: str, params: int, quick: Quick) -> None:
    """By the parameters that their pages on the Hub print."""
    assert answered(quick, f"memory {model} --serve")["weights_bytes"] == 2 * params


@pytest.mark.parametrize(
    ("card", "has", "lacks"),
    [
        ("t4", ["full fine-tuning, fp16", "math attention"], ["bf16", "flash"]),
        ("v100", ["full fine-tuning, fp16", "math attention"], ["bf16", "flash"]),
        ("tpu-v5p", ["full fine-tuning, bf16", "as on CUDA (no such card was compared)"], ["nvidia-smi"]),
        ("mi300x", ["full fine-tuning, bf16", "rocm-smi", "ROCm, as on CUDA"], ["nvidia-smi"]),
        ("a100", ["assuming A100-SXM-40 (40 GB); others of this name: A100-SXM-80 (80 GB)"], []),
    ],
)
def test_a_card_runs_what_it_has(card: str, has: list[str], lacks: list[str], quick: Quick) -> None:
    said = told(quick, f"memory qwen2.5-0.5b --train --gpu {card} --seq 128")
    assert [word for word in has if word not in said] == []
    assert [word for word in lacks if word in said] == []


def test_megatron_of_today_stores_no_scores_and_is_that_with_flash_attention(quick: Quick) -> None:
    """Its row with selective checkpointing were said to be 279 GiB; by hand it is 17.0 + 22.8 GB.

    A GPU of the first stage has 2.27B parameters, of 2 + 4 + 12/8 bytes each (Megatron-core's distributed optimizer).
    """
    line = "memory llama-3.1-70b --train --backend megatron --tp 8 --pp 4 --gpus 256 --seq 8k"
    line += " --sequence-parallel --checkpointing none"
    found = answered(quick, line)
    assert found["peak_bytes"] == pytest.approx(39.8e9, rel=0.02)
    flash = answered(quick, f"{line} --attention-kernel flash")
    assert flash["peak_bytes"] == found["peak_bytes"]


@pytest.mark.parametrize(
    ("line", "first", "before"),
    [
        ("llama-3.1-8b --gpu h100 --checkpointing none", "--checkpointing full", "--qlora 16"),
        ("llama-3.1-70b --gpu 8xh100", "--fsdp --offload optimizer", "--fsdp --gpu 16xh100"),
        pytest.param(
            *("llama-3.1-70b --qlora --gpu 4xa100-40 --seq 4k --checkpointing none", "--checkpointing full", ""),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *("llama-3.1-8b --gpu 8xh100 --seq 128k", "--offload-activations", ""),
            marks=pytest.mark.long,
        ),
    ],
)
def test_the_cheapest_change_that_fits_comes_first(line: str, first: str, before: str, quick: Quick) -> None:
    """Impossible was what was accepted as fitting; adapters, bits and GPUs came before a flag."""
    changes = answered(quick, f"memory {line} --train")["changes"]
    fitting = [change["flags"] for change in changes if change["fits"]]
    assert first in fitting[0]
    assert not before or fitting.index(before) > 0


def test_what_an_engine_takes_of_a_card_is_told_as_it_is_counted(quick: Quick) -> None:
    """Nine tenths of the 79.18 GiB that an H100 reports; nothing of it is a driver's."""
    line = "memory llama-3.1-8b --serve --gpu h100"
    assert answered(quick, line)["budget_bytes"] == pytest.approx(0.9 * 79.18 * 2**30, rel=1e-3)
    said = told(quick, f"{line} --assumptions")
    assert "90 % of the card's memory as in older vLLM" in said
    assert "512 MiB" not in said


def test_a_mixer_of_grouped_convolutions_costs_the_same_everywhere(quick: Quick) -> None:
    """Mamba 2: the overview and compare said 16.6G of a training token, as PyTorch's counter does of its groups."""
    overview = answered(quick, "mamba2-1.3b")["training_flops_per_token"]
    (beside, _) = answered(quick, "compare mamba2-1.3b llama-3.2-1b")["models"]
    assert answered(quick, "flops mamba2-1.3b --train")["flops_per_token"] == overview
    assert beside["training_flops_per_token"] == overview
    assert overview == pytest.approx(9.28e9, rel=1e-3)


def test_the_overview_says_in_which_format_it_trains(quick: Quick) -> None:
    assert "fine-tuning in bf16 with --seq 4096" in told(quick, "llama-3.1-8b")


def test_a_swept_column_in_bytes_holds_bytes(quick: Quick) -> None:
    header, *rows = asked(quick, "sweep gpt2 --seq 128,256 --of memory --train --format csv").stdout.split()
    assert header == "seq_len,peak_bytes"
    assert all(re.fullmatch(r"\d+,\d{9,}", row) for row in rows)


def test_no_option_is_printed_without_the_space_before_it() -> None:
    """``with--batch 8``"""
    printed = [*PRINTED.glob("corpus/*.txt"), *PRINTED.glob("golden/*.txt")]
    assert len(printed) > 50
    assert [path.name for path in printed if re.search(r"[a-z]--[a-z]", path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("card", ["rtx-4090", "h100"])
def test_why_it_fits_tightly_with_gigabytes_to_spare_is_said(quick: Quick, card: str) -> None:
    """Eight shards of Llama-3-8B take 15 of 24 GB; what PyTorch may reserve beside is more than the card has."""
    line = f"memory llama-3-8b --train --fsdp --gpu 8x{card}"
    found = answered(quick, line)
    fragments = found["reserved_high_bytes"] > found["budget_bytes"]
    assert (found["status"], fragments) == (("tight", True) if card == "rtx-4090" else ("fits", False))
    assert found["verdict"].endswith(" free, which fragments may take)" if fragments else " to spare)")
