"""Log lines whose own numbers agree, or contradict each other; numbers are computed by hand from configs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Program

GIB, MIB = 2**30, 2**20
LLAMA_3 = 8_030_261_248
ALL_LINEAR = 32 * (4 * 4096 + 2 * (4096 + 1024) + 3 * 4096 + 3 * 14_336)
"""Inputs and outputs: q and o are 4096 x 4096, k and v 4096 x 1024; three maps between 4096 and 14336."""


def asked(tfcalc: Program, text: str, *words: str) -> tuple[int, dict[str, Any], str]:
    """The exit code, the answer in JSON, and its title."""
    found, shown = tfcalc("why", text, *words, "--json"), tfcalc("why", text, *words)
    assert found.stderr == "", text
    return found.returncode, json.loads(found.stdout), " ".join(shown.stdout.split())


def peft(trained: int, every: int, share: str) -> str:
    return f"trainable params: {trained:,} || all params: {every:,} || trainable%: {share}"


def test_adapters_come_before_a_part_of_their_size(tfcalc: Program) -> None:
    """peft prints 41,943,040 for r=16 on all linear maps of Llama 3.1 8B, which is one attention's size, too."""
    trained = 16 * ALL_LINEAR
    assert trained == 41_943_040
    code, said, shown = asked(tfcalc, peft(trained, LLAMA_3 + trained, "0.5196"), "llama-3.1-8b")
    assert code == 0
    assert [one["exact_value"] for one in said["reasons"][:2]] == [trained, LLAMA_3 + trained]
    assert "rank 16 on all-linear" in said["reasons"][0]["cause"]
    assert said["reasons"][0]["command"] == "tfcalc params llama-3.1-8b --lora 16"
    assert "8,030,261,248; + 41,943,040 = 8,072,204,288" in shown


def test_another_rank_is_solved_for(tfcalc: Program) -> None:
    trained = 24 * ALL_LINEAR
    _, said, _ = asked(
        tfcalc, peft(trained, LLAMA_3 + trained, f"{100 * trained / (LLAMA_3 + trained):.4f}"), "llama-3.1-8b"
    )
    assert "rank 24 on all-linear" in said["reasons"][0]["cause"]


@pytest.mark.parametrize(
    ("text", "words", "wrong"),
    [
        (peft(41_943_040, 8_072_204_288, "5.196"), "llama-3.1-8b", "trainable%: 5.196"),
        (peft(83_886_080, 8_072_204_288, "0.5196"), "llama-3.1-8b", "all params: 8,072,204,288"),
        (
            "Available KV cache memory: 54.0 GiB\nGPU KV cache size: 884,736 tokens\n"
            "Maximum concurrency for 8,192 tokens per request: 54.00x",
            "llama-3.1-8b",
            "Maximum concurrency for 8,192 tokens per request: 54.00x",
        ),
        (
            "number of parameters on (tensor, pipeline) model parallel rank (0, 0): 1003970560",
            "llama-3-8b",
            "number of parameters",
        ),
        (
            "Available KV cache memory: 54.00 GiB\nGPU KV cache size: 440,000 tokens",
            "llama-3.1-8b",
            "GPU KV cache size",
        ),
        ("iter 100: loss 3.0, time 24.50ms, mfu 41.20%", "gpt2 --batch 12", "mfu 41.20%"),
        ("iter 100: loss 3.0, time 2.00ms, mfu 1.20%", "gpt2", "mfu 1.20%"),
        ("KV self size = 2048.00 MiB", "qwen2.5-7b", "KV self size = 2048.00 MiB"),
        ("eval time = 5012.44 ms / 255 runs ( 19.66 ms per token, 80.87 tokens per second)", "gpt2", "eval time"),
        ("weight and optimizer=6868.71 MB, activation=2000.00 MB, total=9868.71 MB", "llama-3-8b", "total=9868.71 MB"),
        (
            "GPU KV cache size: 442,368 tokens\nMaximum concurrency for 8,192 tokens per request: 53.50x",
            "llama-3.1-8b",
            "Max",
        ),
        ("throughput per GPU (TFLOP/s/GPU): 1200.0", "llama-3-8b --gpu h100", "throughput per GPU"),
    ],
)
def test_a_planted_mistake_is_exit_1(tfcalc: Program, text: str, words: str, wrong: str) -> None:
    code, said, shown = asked(tfcalc, text, *words.split())
    assert code == 1
    assert not said["found"]
    assert any(one["logged"].startswith(wrong) for one in said["nearest"]), said["nearest"]
    assert "which is not" in shown


def test_counts_of_a_rank_are_exact(tfcalc: Program) -> None:
    """Llama 3 8B on 4 GPUs of 2 stages: a quarter of 16 layers, norms whole, 128,512 rows of the table, or 128,256."""
    layers = 16 * ((2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14_336) // 4 + 2 * 4096)
    text = "number of parameters on (tensor, pipeline) model parallel rank (3, 0): "
    for rows, words in ((128_512, "pipeline parallel 2"), (128_256, "--make-vocab-size-divisible-by 1")):
        code, said, _ = asked(tfcalc, f"{text}{layers + rows * 4096 // 4}", "llama-3-8b")
        assert code == 0
        assert words in said["reasons"][0]["cause"]


def test_mfu_follows_from_the_time_of_the_iteration(tfcalc: Program) -> None:
    """estimate_mfu of nanoGPT: N without positions, 6N + 12 L H Q T a token, over 312e12."""
    each = (6 * (124_439_808 - 1024 * 768) + 12 * 12 * 768 * 1024) * 1024
    mfu = 100 * 40 * each / 0.245 / 312e12
    code, said, _ = asked(tfcalc, f"iter 100: loss 3.0, time 245.00ms, mfu {mfu:.2f}%", "gpt2")
    assert code == 0
    assert said["reasons"][0]["exact_value"] == pytest.approx(mfu)
    assert said["reasons"][0]["cause"].startswith("40 sequences of 1,024 tokens")


def test_lines_that_agree_are_exit_0(tfcalc: Program) -> None:
    """llama.cpp's own logs of Llama 3 8B in Q4_K_M; Qwen2.5 7B has 28 layers of 4 heads of 128."""
    for text, words, value in (
        ("load_tensors: CUDA0 model buffer size = 4403.49 MiB", "llama-3-8b", 4403.49 * MIB),
        ("CUDA0 compute buffer size =   258.50 MiB", "llama-3-8b", 512 * 4 * (128_256 + 4096)),
        ("KV self size = 1792.00 MiB", "qwen2.5-7b", 28 * 4 * 128 * 2 * 2 * 32_768),
        (
            "offloaded 20/33 layers to GPU\nn_ctx = 8192\nCUDA0 KV buffer size = 640.00 MiB",
            "llama-3-8b",
            20 * 8 * 128 * 2 * 2 * 8192,
        ),
        (
            "num decayed parameter tensors: 50, with 124,354,560 parameters",
            "gpt2",
            12 * 12 * 768**2 + (50_304 + 1024) * 768,
        ),
        ("num non-decayed parameter tensors: 98, with 121,344 parameters", "gpt2", 25 * 2 * 768 + 12 * 9 * 768),
        (
            "GPU KV cache size: 442,368 tokens\nMaximum concurrency for 8,192 tokens per request: 54.00x",
            "llama-3.1-8b",
            54,
        ),
    ):
        code, said, _ = asked(tfcalc, text, *words.split())
        assert code == 0, text
        assert said["reasons"][-1]["exact_value"] == pytest.approx(value, rel=1e-5), text


def test_what_is_right_and_has_nothing_to_compare_is_exit_0(tfcalc: Program) -> None:
    for text, fact in (
        ("GPU KV cache size: 26,544 tokens", f"{26_544 * 131_072 / GIB:.2f} GiB"),
        ("max_total_num_tokens=447034, chunked_prefill_size=8192", f"{447_034 * 131_072 / GIB:.2f} GiB"),
        ("Avg prompt throughput: 1000.0 tokens/s, Avg generation throughput: 500.0 tokens/s", "are measured"),
        ("Available KV cache memory: 54.0 GiB", "442,368 tokens"),
        ("Available KV cache memory: -2.31 GiB", "2.31 GiB more than vLLM may use of the card"),
    ):
        code, _, shown = asked(tfcalc, text, "llama-3.1-8b")
        assert code == 0, text
        assert fact in shown, text


def test_the_longest_request_follows_from_the_bytes(tfcalc: Program) -> None:
    """3.24 GiB of 131,072 bytes a token, in blocks of 16: 26,528 tokens, give or take the rounding of 3.24."""
    text = (
        "To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is "
        "larger than the available KV cache memory (3.24 GiB). Based on the available memory, the estimated maximum "
        "model length is {}. Try increasing `gpu_memory_utilization` or decreasing `max_model_len`"
    )
    code, said, _ = asked(tfcalc, text.format(26_544), "llama-3.1-8b")
    assert (code, [one["exact_value"] for one in said["reasons"]]) == (0, [16 * GIB, 26_528])
    assert asked(tfcalc, text.format(36_544), "llama-3.1-8b")[0] == 1


def test_a_length_that_the_cache_does_not_hold_is_told_in_bytes(tfcalc: Program) -> None:
    """32 layers x 8 heads x 128 x 2 x 2 bytes a token: 16 GiB for 131,072 tokens."""
    text = (
        "The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache "
        "(26544). Try increasing gpu_memory_utilization or decreasing max_model_len"
    )
    code, _, shown = asked(tfcalc, text, "llama-3.1-8b")
    assert code == 0
    for fact in ("26,544 tokens, 3.24 GiB", "131,072 takes 16.00", "12.76 GiB more", "--max-model-len 26544"):
        assert fact in shown


@pytest.mark.parametrize(
    ("text", "model", "causes"),
    [
        ("2.00 GiB", "llama-3-8b", ("scores of eager attention, 4,096 x 4,096", "hidden size")),
        ("130.00 MiB", "qwen2.5-7b", ("one matrix in 16 bits", "feed-forward network in 16 bits, of 3,584 tokens")),
        ("112.00 MiB", "llama-3.1-8b", ("one matrix in 16 bits", "feed-forward network in 16 bits, of 4,096 tokens")),
        ("224.00 MiB", "llama-3.1-8b", ("one matrix in fp32", "feed-forward network in 16 bits, of 8,192 tokens")),
        ("20.00 MiB", "llama-3.1-8b", ("one matrix in 16 bits", "hidden size")),  # 8 MiB of k_proj
    ],
)
def test_several_tensors_of_a_size_are_candidates(tfcalc: Program, text: str, model: str, causes: list[str]) -> None:
    code, said, shown = asked(tfcalc, f"CUDA out of memory. Tried to allocate {text}.", model)
    assert code == 0
    assert "which may be" in shown
    told = [one["cause"] for one in said["reasons"]]
    assert causes[0] in told[0], told
    assert any(causes[1] in one for one in told), told
    assert len(told) > 1


def test_free_memory_that_would_do_is_a_contradiction(tfcalc: Program) -> None:
    text = "Tried to allocate 1.96 GiB. GPU 0 has a total capacity of 79.10 GiB of which 4.12 GiB is free."
    assert "while 4.12 GiB is free" in asked(tfcalc, text, "llama-3-8b")[2]
    assert "while" not in asked(tfcalc, text.replace("4.12", "1.12"), "llama-3-8b")[2]


def test_a_card_tells_the_share_of_its_memory(tfcalc: Program) -> None:
    """The driver of an H100 reports 81,559 MiB less what it keeps: 79.2 GiB; 54 are 68.2 %."""
    assert (
        "68.2 % of the 79.2 GiB"
        in asked(tfcalc, "Available KV cache memory: 54.0 GiB", "llama-3.1-8b", "--gpu", "h100")[2]
    )


@pytest.mark.parametrize(
    "text",
    [
        "ggml_backend_cuda: found 1 CUDA devices",
        "INFO 11-21 10:11:12 llm_engine.py:161] Initializing an LLM engine with config: max_seq_len=8192",
        "epoch=3 step=100 lr=0.0003",
    ],
)
def test_a_log_line_that_is_not_known_is_refused(tfcalc: Program, text: str) -> None:
    for gpu in ((), ("--gpu", "h100")):
        found = tfcalc("why", text, "gpt2", *gpu)
        assert (found.returncode, found.stdout) == (2, "")
        assert "looks like a log line" in found.stderr
        assert "Megatron-LM" in found.stderr


@pytest.mark.parametrize(
    "text", ["step 100: loss 2.31, 345 ms/iter, 12000 tokens/s", "why do I get 30 tokens/s", "300 ms"]
)
def test_what_is_measured_is_asked_elsewhere(tfcalc: Program, text: str) -> None:
    found = tfcalc("why", text, "gpt2")
    assert (found.returncode, found.stdout) == (2, "")
    assert "a time or a speed, which is measured" in found.stderr
    for words in ("serve gpt2 --gpu h100", "train gpt2 --gpu h100 --tokens 1B"):
        assert f"tfcalc {words}" in found.stderr
        assert tfcalc(*words.split()).returncode == 0


def test_each_of_several_lines_is_answered(tfcalc: Program) -> None:
    """Of Llama 3.1 8B on an H100: weights, the room beside them, its tokens, and requests of 8,192."""
    text = (
        "Loading model weights took 14.9888 GB\nAvailable KV cache memory: 54.0 GiB\n"
        "GPU KV cache size: 442,368 tokens\nMaximum concurrency for 8,192 tokens per request: 54.00x"
    )
    code, said, _ = asked(tfcalc, text, "llama-3.1-8b", "--gpu", "h100")
    assert code == 0
    assert [round(one["exact_value"]) for one in said["reasons"]] == [2 * LLAMA_3 + 2**25, 442_368, 54]


def test_the_help_says_that_a_log_line_may_be_given(tfcalc: Program) -> None:
    shown = " ".join(tfcalc("why", "-h").stdout.split())
    assert "or log lines with numbers" in shown
    assert "why 'Loading model weights took 14.9888 GB' llama-3.1-8b" in shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (peft(294_912, 124_734_720, "0.2364"), "gpt2"),  # 8 x 12 x (768 + 2304)
        (peft(294_912, 109_777_152, "0.2686"), "bert-base-uncased"),  # 8 x 12 x 2 x (768 + 768)
        ("Tried to allocate 2.00 GiB", "llama-3-8b"),
        ("Tried to allocate 130.00 MiB", "qwen2.5-7b"),
        ("CUDA0 model buffer size = 4403.49 MiB", "llama-3-8b"),
        ("KV self size = 1792.00 MiB", "qwen2.5-7b"),
        ("num decayed parameter tensors: 50, with 124,354,560 parameters", "gpt2"),
        ("number of parameters on (tensor, pipeline) model parallel rank (0, 0): 1004142592", "llama-3-8b"),
        ("3.14e23", "gpt-3-175b"),
        ("31.25GiB", "llama-2-7b --train --batch 256 --seq 2048"),
    ],
)
def test_what_an_answer_says_to_start_from_runs(tfcalc: Program, text: str, words: str) -> None:
    code, said, _ = asked(tfcalc, text, *words.split())
    assert code == 0
    for one in (one for one in said["reasons"] if one["command"]):
        name, *command = one["command"].split()
        assert name == "tfcalc"
        found = tfcalc(*command)
        assert (found.returncode, found.stderr) == (0, ""), one["command"]


def test_adapters_are_what_their_command_prints(tfcalc: Program) -> None:
    _, said, _ = asked(tfcalc, peft(294_912, 124_734_720, "0.2364"), "gpt2")
    assert said["reasons"][0]["command"] == "tfcalc params gpt2 --lora 8 --lora-targets c_attn"
    assert tfcalc(*said["reasons"][0]["command"].split()[1:], "-q").stdout.strip() == "294912"


def test_a_count_that_is_off_by_little_says_by_how_much(tfcalc: Program) -> None:
    code, _, shown = asked(tfcalc, peft(294_912, 124_734_722, "0.2364"), "gpt2")
    assert code == 1
    assert 'logs "all params: 124,734,722", which is not 124,734,720 parameters' in shown
    assert ", -2)" in shown


@pytest.mark.parametrize(
    "text",
    [
        "max seq len (26544) is larger than the maximum number of tokens that can be stored in KV cache (26544)",
        "Maximum concurrency for 16 tokens per request: 16x",
        "Maximum concurrency for 0 tokens per request: 1.0x",
        "Available KV cache memory: 0.00 GiB\nGPU KV cache size: 16 tokens",
        "eval time = 0.00 ms / 255 runs ( 0.00 ms per token, 80.87 tokens per second)",
        "iter 1: loss 1.0, time 0.00ms, mfu 4.00%",
        "trainable params: 0 || all params: 0 || trainable%: 0.0",
        "number of parameters on (tensor, pipeline) model parallel rank (9999, 9999): 0",
    ],
)
def test_nothing_and_the_same_twice_break_nothing(tfcalc: Program, text: str) -> None:
    found = tfcalc("why", text, "llama-3.1-8b")
    assert found.returncode in (0, 1, 2), found.stderr
