"""Log lines of public threads, each with its cause. Numbers are recomputed by hand, as in tests/oracle/serving."""

from __future__ import annotations

import json
import time
from typing import Any, NamedTuple

import pytest

import tfcalc
from tests.conftest import Program, Quick
from tests.schemas.test_answers import wrong
from tfcalc.analysis.why.log_lines import LONGEST, MOST, logged

GIB, MIB = 2**30, 2**20
LLAMA_3 = 8_030_261_248
LLAMA_NORMS = 65 * 4096


class Line(NamedTuple):
    """A log line of a thread: who asked what, the number behind it, and words of its cause."""

    thread: str
    text: str
    words: str
    value: float
    cause: str
    place: int = 0
    off: float = 2e-3


LINES = (
    Line(
        "vllm#10517",
        "INFO 11-21 Loading model weights took 14.9888 GB",
        "llama-3.1-8b",
        2 * LLAMA_3 + 131_072 * 128 * 2,
        "table of rotary angles",
    ),
    Line(
        "vllm#10511",
        "Model loading took 7.48 GiB",
        "llama-3-8b",
        LLAMA_3 + LLAMA_NORMS + 8192 * 128 * 2,  # norms whole on both GPUs
        "one of 2 GPUs of tensor parallelism",
    ),
    Line(
        "mlcommons/inference#2267",
        "Loading model weights took 1.9028 GB",
        "llama-3.1-8b",
        (2 * LLAMA_3 - 2 * LLAMA_NORMS) / 8 + 2 * LLAMA_NORMS + 131_072 * 128 * 2,
        "one of 8 GPUs",
    ),
    Line(
        "genlm/genlm-backend#10",
        "model weights take 3.7418GiB; non_torch_memory takes 0.1GiB",
        "llama-3-8b",
        (2 * LLAMA_3 - 2 * LLAMA_NORMS) / 4 + 2 * LLAMA_NORMS + 8192 * 128 * 2,
        "one of 4 GPUs",
    ),
    Line(
        "vllm#10517",
        "the rest of the memory reserved for KV Cache is 3.81GiB.\n# GPU blocks: 1952, # CPU blocks: 2048",
        "llama-3.1-8b",
        3.81 * GIB / (131_072 * 16),
        "blocks of 16 tokens",
    ),
    Line(
        "vllm#10517",
        "# GPU blocks: 1952, # CPU blocks: 2048\nMaximum concurrency for 20000 tokens per request: 1.56x",
        "llama-3.1-8b",
        1952 * 16 / 20_000,
        "blocks of 16 tokens over the tokens of a request",
    ),
    Line(
        "hf-mem#60",
        "Available KV cache memory: 5.38 GiB\nGPU KV cache size: 78,384 tokens",
        "gpt-oss-120b",
        5.38 * GIB / 73_728,  # all 36 layers of 8 heads of 64
        "room for the cache",
    ),
    Line(
        "hf-mem#61",
        "Available KV cache memory: 24.54 GiB\nGPU KV cache size: 26,800 tokens",
        "gemma-4-31b-it-nvfp4",
        24.54 * GIB / 983_040,  # bytes of a token in all 60 layers
        "blocks of a group",
    ),
    Line(
        "vllm#15928",
        "GPU KV cache size: 107,824 tokens\nMaximum concurrency for 32,768 tokens per request: 3.29x",
        "deepseek-v3",
        107_824 / 32_768,
        "tokens of the cache over those of a request",
    ),
    Line(
        "vllm#20665",
        "GPU KV cache size: 807,792 tokens\nMaximum concurrency for 1,024 tokens per request: 788.86x",
        "deepseek-v2-lite",
        807_792 / 1024,
        "tokens of the cache over those of a request",
    ),
    Line(
        "ovg-project/kvcached#215",
        "GPU KV cache size: 317,136 tokens\nMaximum concurrency for 3,072 tokens per request: 102.78x",
        "gemma-3-4b-it",
        317_136 / 16 * 7 / (192 + 6 * 193),
        "blocks over those of a request",
    ),
    Line(
        "vllm#19029",
        "GPU KV cache size: 2,198,512 tokens\nMaximum concurrency for 16,384 tokens per request: 134.19x",
        "starcoder2-3b",
        2_198_512 / 16_384,  # before windows were counted, which made it 178.68
        "tokens of the cache over those of a request",
    ),
    Line(
        "vllm#34076",
        "To serve at least one request with the models's max seq len (262144), (24.0 GiB KV cache is needed",
        "qwen3-30b-a3b",  # Qwen3-Coder-30B-A3B has the same layers
        48 * 4 * 128 * 2 * 2 * 262_144,
        "the cache of one request of 262,144 tokens",
    ),
    Line(
        "vllm#49878",
        "max seq len (131072), (45.79 GiB KV cache is needed",
        "gemma-4-31b-it-nvfp4",
        (8192 + 5 * (33_791 // 16 + 2)) * 256 * 1024 * 10,
        "32,768 tokens of a prompt",
    ),
    Line(
        "vllm#49878",
        "max seq len (131072), (70.79 GiB KV cache is needed",
        "gemma-4-31b-it-nvfp4",
        (8192 + 5 * (66_559 // 16 + 2)) * 256 * 1024 * 10,
        "those of the step before",
    ),
    Line(
        "vllm#15871",
        "max seq len (32768), (0.95 GiB KV cache is needed",
        "deepseek-v2-lite",
        27 * 576 * 2 * 32_768,
        "the cache of one request",
    ),
    Line(
        "vllm#21348",
        "KV Cache is allocated. #tokens: 367404, K size: 8.23 GB, V size: 8.23 GB",
        "qwen3-235b-a22b",
        367_404 * 94 * 128 * 2,
        "keys of 367,404 tokens of one of 4 GPUs",
    ),
    Line(
        "llama.cpp#4381",
        "llama_new_context_with_model: n_ctx      = 512\nllama_new_context_with_model: KV self size  =   64.00 MiB",
        "mixtral-8x7b",
        32 * 8 * 128 * 2 * 2 * 512,
        "keys and values of 512 tokens",
    ),
    Line(
        "ik_llama.cpp#380",
        "llm_load_print_meta: model params     = 30.532 B\nllm_load_print_meta: model size  = 20.228 GiB (5.691 BPW)",
        "qwen3-30b-a3b",
        30_532_122_624,
        "as tfcalc counts",
    ),
    Line(
        "ik_llama.cpp#380",
        "llm_load_print_meta: model size       = 20.228 GiB (5.691 BPW)",
        "qwen3-30b-a3b",
        30_532_122_624 * 5.691 / 8,
        "Q5_K_M",
    ),
    Line(
        "Megatron-LM#756",
        "elapsed time per iteration (ms): 5580.9 | throughput per GPU (TFLOP/s/GPU): 234.0 |",
        "mixtral-8x7b --gpu h100",
        23.4e3 / 989.4,
        "share of the dense peak of H100",
    ),
    Line(
        "nanoGPT#215",
        "iter 2920: loss 3.9883, time 1099.34ms, mfu 15.34%",
        "gpt2 --gpu v100",
        15.34 * 312 / 125,
        "an A100, 312 TFLOP/s",
    ),
    Line(
        "nanochat#157",
        "step 00010 | tok/sec: 38,055 | mfu: 13.44 | total time: 2.1m",
        "gpt2 --gpu rtx-4090",
        13.44 * 989 / 165.2,
        "an H100, 989 TFLOP/s",
        off=5e-3,
    ),
    Line(
        "Chinese-LLaMA-Alpaca#189",
        "trainable params: 4194304 || all params: 6889689088 || trainable%: 0.060877986603275876",
        "llama-7b --vocab-size 49954",
        32 * 2 * 2 * 4096 * 8,
        "adapters of rank 8 on q_proj,v_proj",
    ),
    Line(
        "trl#3456",
        "CUDA out of memory. Tried to allocate 6.96 GiB.",
        "qwen3-0.6b --batch 4 --seq 3072",
        4 * 3072 * 151_936 * 4,
        "the logits in fp32",
    ),
    Line(
        "Liger-Kernel#47",
        "Tried to allocate 1.95 GiB. GPU 0 has a total capacity of 8.00 GiB of which 0 bytes is free.",
        "llama-2-7b",
        16_384 * 32_000 * 4,
        "the logits in fp32, of 16,384 tokens",
        off=3e-3,
    ),
    Line(
        "llama-cookbook#898",
        "Tried to allocate 424.00 MiB. GPU 0 has a total capacity of 21.96 GiB of which 163.12 MiB is free.",
        "llama-3-8b --batch 1 --seq 54080",
        54_080 * 4096 * 2,  # empty_strided_cuda((54080, 4096)), by the traceback
        "one tensor of the hidden size in 16 bits",
        off=5e-3,
    ),
)


def asked(tfcalc: Program, line: Line) -> dict[str, Any]:
    """The answer in JSON."""
    found = tfcalc("why", line.text, *line.words.split(), "--json")
    assert (found.returncode, found.stderr) == (0, ""), line.thread
    said: dict[str, Any] = json.loads(found.stdout)
    return said


def test_lines_of_public_threads_have_their_cause(tfcalc: Program) -> None:
    for line in LINES:
        said = asked(tfcalc, line)
        reason = said["reasons"][line.place]
        assert line.cause in reason["cause"], (line.thread, reason)
        assert reason["exact_value"] == pytest.approx(line.value, rel=line.off), (line.thread, reason)
    assert not list(wrong(said))
    assert len({line.thread for line in LINES}) >= 18


@pytest.mark.parametrize("said", ["--seq 3072", "--train --seq 3072", "--train"])
def test_a_batch_that_nobody_says_is_found(tfcalc: Program, said: str) -> None:
    """trl#3456 again: 4 x 3,072 tokens, of which a length alone, or nothing, is said."""
    found = tfcalc("why", "Tried to allocate 6.96 GiB", "qwen3-0.6b", *said.split(), "--json")
    first = json.loads(found.stdout)["reasons"][0]
    assert (found.returncode, first["exact_value"]) == (0, 4 * 3072 * 151_936 * 4)
    assert first["command"] == f"tfcalc memory qwen3-0.6b --train --seq {'3072 --batch 4' if '3072' in said else 12288}"


def test_the_numbers_of_a_log_are_told_together(tfcalc: Program) -> None:
    """vllm#11251, a row of the oracle: 3.76 GiB, 3,852 blocks, 1.54 requests of 40,000 tokens, on 2 GPUs."""
    text = (
        "the rest of the memory reserved for KV Cache is 3.76GiB.\n# CUDA blocks: 3852, # CPU blocks: 4096\n"
        "Maximum concurrency for 40000 tokens per request: 1.54x"
    )
    said = json.loads(tfcalc("why", text, "llama-3.1-8b", "--json").stdout)
    assert [round(one["exact_value"], 2) for one in said["reasons"]] == [3850, 1.54]
    assert "one of 2 GPUs" in said["reasons"][0]["cause"]
    assert (
        tfcalc("why", text, "llama-3.1-8b", "--tp", "2", "--json").stdout
        == tfcalc("why", text, "llama-3.1-8b", "--json").stdout
    )
    shown = tfcalc("why", text, "llama-3.1-8b").stdout
    assert shown.startswith('vLLM logs "# CUDA blocks: 3852": blocks of 16 tokens of one of 2 GPUs')


OOM = (
    "CUDA out of memory. Tried to allocate 424.00 MiB. GPU 0 has a total capacity of 21.96 GiB of which 163.12 MiB is "
    "free. Including non-PyTorch memory, this process has 21.80 GiB memory in use. Of the allocated memory 20.30 GiB "
    "is allocated by PyTorch, and 1.15 GiB is reserved by PyTorch but unallocated."
)


def test_what_an_oom_message_says_of_the_card(tfcalc: Program) -> None:
    """llama-cookbook#898: 1.15 GiB lie idle where 0.41 are wanted. NetLLM#11: 22.35 GiB on a card of 8."""
    said = tfcalc("why", OOM, "llama-3-8b", "--batch", "1", "--seq", "54080").stdout
    assert "fragmentation: 1.15 GiB is reserved by PyTorch but unallocated, more than was tried" in said
    assert "the weights alone are 14.96 GiB" in said
    assert "74 %" in said  # 14.96 of 20.30
    text = "Tried to allocate 172.00 MiB (GPU 0; 8.00 GiB total capacity; 22.35 GiB already allocated; 0 bytes free"
    assert "more is allocated than the card has" in tfcalc("why", text, "llama-2-7b").stdout
    text = "Tried to allocate 64.00 GiB. GPU 0 has a total capacty of 14.75 GiB of which 5.48 GiB is free."
    assert "one tensor is larger than the card" in tfcalc("why", text, "codellama-13b").stdout


def test_what_is_wrong_with_a_number_that_is_not_the_models(tfcalc: Program) -> None:
    """The weights of Llama 3 8B are no Mixtral's: exit 1, and by how much."""
    found = tfcalc("why", "Loading model weights took 14.9888 GB", "mixtral-8x7b", "--tp", "1")
    assert found.returncode == 1
    assert "which is not" in found.stdout.splitlines()[0]
    share = tfcalc("why", "throughput per GPU (TFLOP/s/GPU): 1200.0", "llama-3-8b", "--gpu", "h100").stdout
    assert "1.21 times the dense peak of H100-SXM is impossible" in share
    for text in ("Tried to allocate 0.00 GiB", "KV self size = 64.00 MiB", "trainable params: 9 || all params: 5"):
        assert tfcalc("why", text, "gpt2").returncode == 1, text
    assert "n_ctx = N; add it" in tfcalc("why", "KV self size = 64.00 MiB", "gpt2").stdout
    assert "add --gpu h100" in tfcalc("why", "throughput per GPU (TFLOP/s/GPU): 400.0", "llama-3-8b").stdout


def test_total_flos_are_six_times_parameters_without_embeddings(tfcalc: Program) -> None:
    """6 · 85,056,000 · 1e9 of GPT-2's; with the tokens said it is compared."""
    text = f"'total_flos': {6 * 85_056_000 * 10**9:.4e}"
    assert "6ND, N without embeddings" in tfcalc("why", text, "gpt2", "--tokens", "1B").stdout.splitlines()[0]
    assert "add --tokens" in tfcalc("why", text, "gpt2").stdout


def test_megatron_says_the_parameters_of_a_rank(tfcalc: Program) -> None:
    """Half of 8 of 32 layers and half of the embedding, norms whole: 4 stages of 2 GPUs."""
    layer = 2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14_336
    first = 8 * (layer // 2 + 2 * 4096) + 128_256 * 4096 // 2
    text = f" > number of parameters on (tensor, pipeline) model parallel rank (0, 0): {first}"
    said = tfcalc("why", text, "llama-3-8b").stdout
    assert "tensor parallel 2, pipeline parallel 4" in said.splitlines()[0]


def test_a_log_needs_a_model_and_numbers_take_no_options_of_logs(tfcalc: Program) -> None:
    refused = {
        ("why", "Loading model weights took 14.9888 GB"): "names no model",
        ("why", "163M", "gpt2", "--gpu", "h100"): "--gpu h100 has no effect on a number",
        ("why", "Tried to allocate 2 GiB", "gpt2", "--of", "params"): "--of params has no effect on a log line",
        ("why", "# GPU blocks: 1952", "gpt2", "--tp", "0"): "--tp 0",
        ("why", "mfu 15.34%", "gpt2", "--tp", "2"): "--tp 2 has no effect on what nanoGPT logs here",
        ("why", "# GPU blocks: 1952", "gpt2", "--gpu", "h100"): "--gpu h100 has no effect on what vLLM logs here",
        ("why", "# GPU blocks: 1952", "gpt2", "--seq", "8"): "--seq 8 has no effect on what vLLM logs here",
        ("why", "mfu 15.34%", "gpt2", "--tokens", "1B"): "has no effect on what nanoGPT logs here",
    }
    for words, fact in refused.items():
        found = tfcalc(*words)
        assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1), words
        assert fact in found.stderr, words


def test_a_question_names_its_model(tfcalc: Program) -> None:
    found = tfcalc("why", "does HF say 8.03B for llama-3.1-8b?")
    assert found.stdout.startswith("8.03B is 8,030,261,248 parameters: as tfcalc counts")
    assert "32 x 218,112,000 + 2 x 525,336,576 + 4,096" in found.stdout
    assert tfcalc("why", "is", "gpt2").returncode == 2


def test_reading_is_bounded() -> None:
    """No text takes long, whatever it repeats; what is behind the limit is not read."""
    start = time.process_time()
    for piece in (
        "Tried to allocate ",
        "max seq len (1), (",
        "Load weight end.",
        "1,1,1,1,",
        "#tokens: 1, K size: ",
        "eval time = 1 ms / 1 runs (1 ",
        "max model len (1) is larger than the maximum number of tokens ",
        "num decayed parameter tensors: 1, with ",
        "iter 1: loss 1",
        "CUDA0 model buffer size ",
        "a_a_",
        "a = 1",
        "\n",
    ):
        assert not logged(piece * 100_000)
    assert time.process_time() - start < 2
    assert len(logged("mfu 1.0%\n" * 10_000)) == 1
    assert len(logged("".join(f"mfu {place}%\n" for place in range(1000)))) == MOST
    assert not logged(" " * LONGEST + "Tried to allocate 2 GiB")
    assert not logged("")
    assert not logged("163M")


def test_the_concurrency_alone_is_told_in_bytes(quick: Quick) -> None:
    """mlcommons/inference#2267: of 131,072 tokens a request of Llama 3.1 8B takes 131,072 times 131,072 bytes."""
    line = "Maximum concurrency for 131072 tokens per request: 56.73x"
    said = quick("why", line, "llama-3.1-8b").stdout
    assert f"{131_072**2 / 2**30:.2f} GiB for each" in said
    assert f"{56.73 * 131_072**2 / 2**30:.2f} in all" in said


def test_the_concurrency_of_windows_is_told_in_bytes(quick: Quick) -> None:
    """gpt-oss-120b: 18 of 36 layers store all tokens, 18 a window of 128, which in vLLM's SlidingWindowSpec is 127 and
    the 8,192 tokens of a step, in whole blocks of 16 and one more.
    """
    told = quick("why", "Maximum concurrency for 131,072 tokens per request: 5.76x", "gpt-oss-120b").stdout
    windows = (-(-(127 + 8192) // 16) + 1) * 16
    each = 18 * (131_072 + windows) * 2 * 8 * 64 * 2 / GIB
    assert f"18 layers store a window alone, with which it is {each:.2f} GiB for each, {5.76 * each:.2f} in all" in told
    size = " ".join(quick("why", "GPU KV cache size: 525,000 tokens", "gpt-oss-120b").stdout.split())
    assert f"{525_000 / 131_072 * each:.2f} GiB for requests of 131,072 tokens; of those within a window" in size
    assert f"{525_000 * 36 * 2 * 8 * 64 * 2 / GIB:.2f} GiB" in size
    left = " ".join(quick("why", "Available KV cache memory: 9.5 GiB", "gpt-oss-120b").stdout.split())
    assert f"18 store a window alone: {9.5 / each:.2f} requests of 131,072 tokens at once" in left


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Maximum concurrency for 1,048,576 tokens per request: 20.43x", "requests at once, were each so long"),
        ("GPU KV cache size: 150,000 tokens", "requests at once x their length, no capacity"),
        ("Available KV cache memory: 7.7 GiB", "what is left of the card for the cache"),
    ],
)
def test_lines_of_a_cache_that_no_rule_pages(quick: Quick, line: str, said: str) -> None:
    """vllm#51041 and vllm-project/recipes#762, of DeepSeek-V4-Flash: what the line is, and why no bytes follow."""
    told = quick("why", line, "deepseek-v4-flash")
    assert told.returncode == 0
    assert f"{said}; " in told.stdout
    assert "stores one key per 4 tokens; how engines page such a cache is not known" in told.stdout


def test_the_library_reads_log_lines_too() -> None:
    """8,030,261,248 parameters of 2 bytes are 14.958 GiB; nanoGPT divides by 312 TFLOP/s on any card."""
    llama = tfcalc.load("llama-3.1-8b")
    found = tfcalc.why("Loading model weights took 14.9888 GB", llama)
    assert found.reasons
    assert found.to_dict()["command"] == "why"
    card = tfcalc.why("iter 10: loss 5.0, time 100ms, mfu 13.44%", llama, gpu="rtx-4090")
    assert "312" in card.reasons[0].cause
    with pytest.raises(tfcalc.UsageError, match="names no model"):
        tfcalc.why("Loading model weights took 14.9888 GB")
    with pytest.raises(tfcalc.UsageError, match="of a log line"):
        tfcalc.why("163M", llama, gpu="h100")


def test_a_share_of_a_sparse_peak_is_one_of_the_dense_peak(tfcalc: Program) -> None:
    """ "420/1979, that is very small, why is that?": NVIDIA's H100 has 989.4 TFLOP/s in bf16, 1,979 with sparsity."""
    found = tfcalc("why", "420/1979").stdout
    assert "peak of H100-SXM with sparsity" in found
    assert "420 ÷ 989.4 = 42.4 %" in found
    assert "420 ÷ 989 = 42.5 %" in tfcalc("why", "420 TFLOPS / 989").stdout
