"""``tfcalc ranks --stack``: GPUs of FSDP2, of its hybrid (HSDP) and of DeepSpeed, by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Program
from tfcalc import Layout, Training, Workload, load, ranks

LLAMA, LAYERS, TENSORS = 8_030_261_248, 32, 32 * 9 + 3
"""Parameters of Llama 3 8B, its layers, and its tensors, each with a number of AdamW's steps."""
OF_A_LAYER = 2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 4096 * 14336 + 2 * 4096
ROOT = 2 * 128256 * 4096 + 4096
SHORT = Workload(seq_len=512, batch_size=1)


def asked(tfcalc: Program, *words: str) -> dict[str, Any]:
    done = tfcalc("ranks", *words, "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def rows(answer: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(one["what"], one["group"], one["ranks"], one["bytes"], one["times"]) for one in answer["messages"]]


def test_a_gpu_of_fsdp_has_shards_in_fp32(tfcalc: Program) -> None:
    """Llama 3 8B on 8 GPUs, all of whose sizes 8 divides: 4 bytes of weights, 4 of gradients and 8 of moments.

    Each layer is gathered in bf16 in forward and in backward, the root once.
    """
    found = asked(tfcalc, "llama-3-8b", "--stack", "fsdp", "--dp", "8", "--seq", "4096")
    (stage,) = found["stages"]
    assert (found["stack"], found["zero"], found["precision"]) == ("fsdp", "3", "bf16-fsdp")
    assert (stage["params"], stage["stored_params"], stage["least_stored_params"]) == (LLAMA, LLAMA // 8, LLAMA // 8)
    states = stage["weights_bytes"], stage["gradients_bytes"], stage["optimizer_bytes"]
    assert states == (LLAMA // 2, LLAMA // 2, LLAMA + 4 * TENSORS)
    assert rows(found) == [
        ("all-gather", "data", 8, 2 * OF_A_LAYER, 2 * LAYERS),
        ("reduce-scatter", "data", 8, 4 * OF_A_LAYER, LAYERS),
        ("all-gather", "data", 8, 2 * ROOT, 1),
        ("reduce-scatter", "data", 8, 4 * ROOT, 1),
    ]


@pytest.mark.parametrize(
    ("name", "params"), [("gemma-2-9b", 9_241_705_984), ("gpt-oss-20b", 20_914_757_184), ("falcon-7b", 6_921_720_704)]
)
def test_a_model_without_rules_is_whole_on_each_gpu(tfcalc: Program, name: str, params: int) -> None:
    """Of two norms around a sub-layer, of sinks and of parallel layers nobody says how they are split; data are not.

    Parameters as Hugging Face counts them in the checkpoints (safetensors; of gpt-oss-20b those of its class).
    """
    (stage,) = asked(tfcalc, name, "--stack", "fsdp", "--dp", "4", "--seq", "512")["stages"]
    assert (stage["params"], stage["stored_params"]) == (params, params // 4)
    refused = tfcalc("ranks", name, "--stack", "fsdp", "--tp", "2")
    assert refused.returncode == 2
    assert "no rule splits" in refused.stderr


def test_shards_of_fsdp_are_rows_of_each_tensor(tfcalc: Program) -> None:
    """On 3 GPUs the first two have ⌈n / 3⌉ rows of each tensor, the last one the rest (torch.chunk)."""
    shapes = [(4096, 4096)] * 2 + [(1024, 4096)] * 2 + [(14336, 4096)] * 2 + [(4096, 14336)] + [(4096, 1)] * 2
    tensors = shapes * LAYERS + [(128256, 4096)] * 2 + [(4096, 1)]
    first = sum(-(-count // 3) * width for count, width in tensors)
    (stage,) = asked(tfcalc, "llama-3-8b", "--stack", "fsdp", "--dp", "3")["stages"]
    assert (stage["stored_params"], stage["least_stored_params"]) == (first, LLAMA - 2 * first)
    assert stage["weights_bytes"] == 4 * first
    said = " ".join(tfcalc("ranks", "llama-3-8b", "--stack", "fsdp", "--dp", "3").stdout.split())
    assert f"it stores {first:,} at most ({LLAMA - 2 * first:,} on the last GPU)" in said


def test_a_gpu_beyond_the_rows_stores_nothing_of_a_tensor(tfcalc: Program) -> None:
    """Of 1,024 rows of keys and values each of 4,096 GPUs has one, or none."""
    (stage,) = asked(tfcalc, "llama-3-8b", "--stack", "fsdp", "--dp", "4096")["stages"]
    of_a_layer = 4 * 4096 + 3 * 4096 + 4 * 4096 + 14336 + 2  # ⌈14336 / 4096⌉ is 4
    assert stage["stored_params"] == LAYERS * (of_a_layer + 4096) + 2 * 32 * 4096 + 1


def test_hybrid_shards_have_replicas(tfcalc: Program) -> None:
    """HSDP on 16 GPUs, two replicas of 8 shards: as much as 8 GPUs have, and gradients summed over the replicas."""
    found = asked(tfcalc, "llama-3-8b", "--stack", "fsdp", "--dp", "16", "--replicas", "2")
    assert found["layout"]["replicas"] == 2
    assert found["stages"][0]["stored_params"] == LLAMA // 8
    assert [one for one in rows(found) if one[1] == "replicas"] == [
        ("all-reduce", "replicas", 2, 4 * OF_A_LAYER // 8, LAYERS),
        ("all-reduce", "replicas", 2, 4 * ROOT // 8, 1),
    ]


def test_experts_of_a_replica_are_shared_by_those_that_have_them(tfcalc: Program) -> None:
    """Mixtral on 32 GPUs, two replicas of 16: 8 groups of experts, each shared by 2 GPUs of a replica (torchtitan)."""
    words = ("mixtral-8x7b", "--stack", "fsdp", "--dp", "32", "--replicas", "2", "--ep", "8")
    (stage,) = asked(tfcalc, *words)["stages"]
    experts, every = 3 * 4096 * 14336 * 32, 46_702_792_704
    others = every - 8 * experts
    assert (stage["expert_params"], stage["dense_params"]) == (experts, others)
    router = 8 * 4096 * 32  # rows: one for each of 8 GPUs, and none of 8 more
    assert stage["stored_params"] == experts // 2 + (others - router) // 16 + 4096 * 32


def test_stage_2_in_a_pipeline_gathers_once_a_step(tfcalc: Program) -> None:
    """Weights are whole, and gradients summed up, until the last micro-batch; without a pipeline in each of them."""
    words = ("llama-3-8b", "--stack", "fsdp", "--zero", "2", "--grad-accum", "4")
    for pipeline, times in ((("--pp", "2", "--dp", "4"), 1), (("--dp", "4"), 4)):
        found = asked(tfcalc, *words, *pipeline)
        layers = LAYERS // found["layout"]["pp"]
        of_data = [one for one in rows(found) if one[1] == "data" and one[3] % OF_A_LAYER == 0]
        assert {one[4] for one in of_data} == {times * layers}


@pytest.mark.parametrize(
    ("precision", "zero", "gradients", "optimizer"),
    [
        ("bf16-master", "0", 6, 12),
        ("bf16-master", "1", 6, 12 / 8),
        ("bf16-master", "2", 6 / 8, 12 / 8),
        ("fp16-master", "0", 6, 12),
        ("fp16-master", "1", 2 + 4 / 8, 12 / 8),
        ("fp16-master", "2", 6 / 8, 12 / 8),
    ],
)
def test_deepspeed_adds_gradients_up_in_fp32(precision: str, zero: str, gradients: float, optimizer: float) -> None:
    """2 bytes of a gradient, and 4 of its sum: whole by the bf16 optimizer (ZeRO 0 and 1), else a part of 8.

    Source: DeepSpeed's runtime/bf16_optimizer.py and runtime/zero/stage_1_and_2.py.
    """
    plan = Training(precision=precision, zero=zero)
    (stage,) = ranks(load("llama-3-8b"), Layout(dp=8), SHORT, plan, stack="deepspeed").stages
    steps = 4 * (TENSORS if zero == "0" else 1)
    assert stage.weights_bytes == 2 * LLAMA
    assert (stage.gradients_bytes, stage.optimizer_bytes) == (gradients * LLAMA, optimizer * LLAMA + steps)


def test_deepspeed_fills_up_its_buffer_and_each_tensor(tfcalc: Program) -> None:
    """GPT-2 on 7 GPUs: 14 numbers at a time in one buffer (ZeRO 1), 7 of each tensor (ZeRO 3); 16 bits are sent."""
    found = asked(tfcalc, "gpt2", "--stack", "deepspeed", "--dp", "7", "--zero", "1")
    params = found["stages"][0]["params"]
    buffer = -(-params // 14) * 14
    assert found["stages"][0]["optimizer_bytes"] == 12 * buffer // 7 + 4
    assert rows(found) == [
        ("reduce-scatter", "data", 7, 2 * buffer, 1),
        ("all-gather", "data", 7, 2 * buffer, 1),
    ]
    h, f = 768, 3072
    layer = [3 * h * h, 3 * h, h * h, h, h * f, f, f * h, h, h, h, h, h]
    whole = sum(-(-size // 7) for size in 12 * layer + [50304 * h, 1024 * h, h, h])
    third = asked(tfcalc, "gpt2", "--stack", "deepspeed", "--dp", "7", "--zero", "3")["stages"][0]
    assert (third["stored_params"], third["weights_bytes"]) == (whole, 2 * whole)


def test_deepspeed_drops_duplicates_before_experts(tfcalc: Program) -> None:
    """Mixtral with two GPUs of tensor parallelism, which have the same 512 tokens: each sends half to 2 experts of 8.

    Behind them a row for each of a token's experts is gathered, and in backward the gradients.

    Source: DeepSpeed's moe/sharded_moe.py (``MOELayer``) and moe/mappings.py.
    """
    words = ("mixtral-8x7b", "--stack", "deepspeed", "--tp", "2", "--dp", "4", "--ep", "8", "--etp", "1")
    found = asked(tfcalc, *words, "--seq", "512", "--batch", "1")
    sent = rows(found)
    assert ("all-gather", "tensor", 2, 2 * 2 * 512 * 4096, 2 * LAYERS) in sent
    assert ("all-to-all", "expert", 8, 2 * 2 * 256 * 4096, 4 * LAYERS) in sent


REFUSED = (
    ("llama-3-8b --stack fsdp --dp 2 --zero 1", "--zero 1 is not FSDP's; take --zero 2 or 3, or --stack megatron"),
    ("llama-3-8b --dp 4 --replicas 2", "--replicas 2 is for --stack fsdp; add it, or leave this out"),
    (
        "llama-3-8b --stack fsdp --dp 6 --replicas 4",
        "GPUs with the same weights 6 not divisible by replicas 4; nearest: 3, 6",
    ),
    (
        "mixtral-8x7b --stack fsdp --dp 48 --ep 8 --replicas 4",
        "a replica's 12 GPUs of a stage do not divide by expert 8; nearest: 3 replicas",
    ),
    (
        "llama-3-8b --stack deepspeed --pp 2 --vpp 2",
        "--vpp 2 with --stack deepspeed, which does not have it; take --vpp 1, or --stack megatron",
    ),
    (
        "llama-3-8b --stack deepspeed --cp 2",
        "--cp 2 with --stack deepspeed, which does not have it; take --cp 1, or --stack megatron",
    ),
    (
        "llama-3-8b --stack deepspeed --pp 2 --dp 2 --zero 2",
        "--zero 2 in a pipeline with --stack deepspeed, whose pipelines have ZeRO 1 at most; take --pp 1, or --zero 1",
    ),
    (  # DeepSpeedEngine._configure_zero_optimizer: "MoE not supported with Stage 3"
        "mixtral-8x7b --stack deepspeed --dp 8 --ep 8 --zero 3",
        "--zero 3 with --ep 8 and --stack deepspeed, whose experts have ZeRO 2 at most; take --ep 1, or --zero 2",
    ),
    (
        "llama-3-8b --stack deepspeed --tp 2 --sequence-parallel",
        "--sequence-parallel with --stack deepspeed, which does not have it; leave it out, or take --stack megatron",
    ),
    (
        "mixtral-8x7b --stack deepspeed --tp 2 --dp 4 --ep 4",
        "experts under tensor 2 without sequence parallelism, which GPUs share; add --etp 1",
    ),
    (
        "llama-3-8b --stack fsdp --precision bf16-master --dp 8",
        "--precision bf16-master is not one of --stack fsdp; take bf16-fsdp or fp16-fsdp",
    ),
    ("llama-3-8b --stack megatron-2022", "--stack 'megatron-2022' is not known; did you mean megatron?"),
)


@pytest.mark.parametrize(("words", "said"), REFUSED)
def test_what_a_stack_does_not_have_is_refused_in_one_line(tfcalc: Program, words: str, said: str) -> None:
    done = tfcalc("ranks", *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"tfcalc: {said}\n"


@pytest.mark.parametrize(
    ("flag", "remedy"), [("--fsdp", "fsdp"), ("--hsdp", "fsdp --replicas N"), ("--deepspeed", "deepspeed")]
)
def test_another_commands_name_of_a_stack_is_answered_with_ours(tfcalc: Program, flag: str, remedy: str) -> None:
    for words in ("ranks llama-3-8b --dp 8", "plan llama-3-8b --gpu 8xh100"):
        done = tfcalc(*words.split(), flag)
        assert (done.returncode, done.stderr) == (2, f"tfcalc: option {flag} is not known; type --stack {remedy}\n")


@pytest.mark.parametrize(
    "words",
    [
        "llama-3-8b --stack fsdp --dp 6 --replicas 3",
        "mixtral-8x7b --stack fsdp --dp 48 --ep 8 --replicas 3",
        "mixtral-8x7b --stack deepspeed --tp 2 --dp 4 --ep 4 --etp 1",
        "llama-3-8b --stack fsdp --precision fp16-fsdp --dp 8",
    ],
)
def test_the_remedies_of_refusals_work(tfcalc: Program, words: str) -> None:
    assert tfcalc("ranks", *words.split()).returncode == 0
