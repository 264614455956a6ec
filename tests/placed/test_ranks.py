"""``tfcalc ranks``: what one GPU of each stage stores, computes and sends."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from tests.conftest import Program
from tfcalc import Layout, Training, Workload, flops, load, memory, ranks
from tfcalc.catalog import config_of, from_config
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import matmul_flops
from tfcalc.placed.ranks import Ranks

LAYERS, H = 32, 4096
SIZES = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 8, "vocab_size": 1024}
"""Of a small Llama, for a check that any layout shares its work."""


def asked(tfcalc: Program, *words: str) -> dict[str, Any]:
    done = tfcalc("ranks", *words, "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_llama_on_two_times_four_gpus(tfcalc: Program) -> None:
    """Parameters as Megatron-core has them, and (p - 1)/m of the work.

    States by hand: 2 + 4 + 12 bytes of a parameter, and of each of 9 tensors a layer the number of the step (AdamW).
    """
    found = asked(tfcalc, "llama-3-8b", "--tp", "2", "--pp", "4", "--grad-accum", "16", "--seq", "4096")
    wanted = [1_135_149_056, 872_480_768, 872_480_768, 1_135_153_152]
    assert [stage["params"] for stage in found["stages"]] == wanted
    for stage, count in zip(found["stages"], wanted, strict=True):
        tensors = 8 * 9 + {0: 1, 3: 2}.get(stage["stage"], 0)
        states = stage["weights_bytes"], stage["gradients_bytes"], stage["optimizer_bytes"]
        assert states == (2 * count, 4 * count, 12 * count + 4 * tensors)
        assert (stage["layers"], stage["in_flight"]) == (8, 4 - stage["stage"])
    assert (found["bubble"], found["bubble_share"], found["layout"]["gpus"]) == ("3/16", 0.1875, 8)
    one = {"stage": 1, "what": "all-reduce", "group": "tensor", "ranks": 2, "bytes": 2 * 4096 * H}
    assert {**one, "times": 4 * 8 * 16, "sent_bytes": 4 * 8 * 16 * 2 * 4096 * H} in found["messages"]
    assert tfcalc("ranks", "llama-3-8b", "--tp", "2", "--pp", "4", "-q").stdout == "1135153152\n"


def test_states_of_experts_are_shared_by_fewer() -> None:
    """Mixtral on 8 GPUs: 4 with the same weights of all else, 2 with the same experts; a step's number for each."""
    experts, others = 11_274_289_152, 803_475_456
    plan = Training(zero="1")
    (stage,) = ranks(load("mixtral-8x7b"), Layout(2, True, ep=4, etp=1, dp=4), training=plan).stages
    assert (stage.dense_params, stage.expert_params) == (others, experts)
    assert stage.optimizer_bytes == 12 * (others // 4 + experts // 2) + 2 * 4
    assert stage.weights_bytes == 2 * (others + experts)


@pytest.mark.parametrize(
    "at",
    [Layout(tp=2), Layout(tp=4, sequence_parallel=True, pp=2), Layout(cp=4), Layout(2, True, 2, 2, cp=2, dp=3)],
)
def test_all_gpus_together_do_the_work_of_the_batch(at: Layout) -> None:
    """FLOPs of one sequence for each of dp, over tp, pp and cp GPUs."""
    model = HFModel(SIZES)
    run = Workload(phase="train", batch_size=2, seq_len=64)
    every = sum(rank.tree.total(matmul_flops) for rank in Ranks(model.module(), at, run).stages)
    assert every * at.tp * at.cp == model.tree(run).total(matmul_flops)


def test_flops_are_those_of_a_training_step() -> None:
    model, run = load("gpt2"), Workload(phase="train", batch_size=3, seq_len=128)
    (stage,) = ranks(model, Layout(rows=1), run).stages
    assert stage.flops == flops(model, run).answer


def test_copies_of_a_tied_table_sum_up_their_gradients(tfcalc: Program) -> None:
    """GPT-2 in two stages: 50,304 rows of 768, gradients in fp32."""
    found = asked(tfcalc, "gpt2", "--pp", "2", "--seq", "128")
    tied = [one for one in found["messages"] if one["group"] == "embeddings"]
    assert [(one["stage"], one["ranks"], one["bytes"]) for one in tied] == [
        (stage, 2, 4 * 50_304 * 768) for stage in (0, 1)
    ]


def test_stage_3_stores_a_share_and_gathers_layers(tfcalc: Program) -> None:
    """Llama 3 8B on 8 GPUs, two micro-batches: each layer is gathered twice in each, in bf16, and summed in fp32."""
    layer = 2 * H * H + 2 * H * 1024 + 3 * H * 14_336 + 2 * H
    found = asked(tfcalc, "llama-3-8b", "--dp", "8", "--zero", "3", "--grad-accum", "2")
    of_layers = [(one["what"], one["bytes"], one["times"]) for one in found["messages"]][:2]
    assert of_layers == [("all-gather", 2 * layer, 2 * 2 * LAYERS), ("reduce-scatter", 4 * layer, 2 * LAYERS)]
    assert found["stages"][0]["weights_bytes"] == 2 * 8_030_261_248 // 8
    table = tfcalc("ranks", "llama-3-8b", "--dp", "8", "--zero", "3").stdout
    assert f"it stores {8_030_261_248 // 8:,} at most" in table
    assert "Bubble" not in table


def test_stage_2_gathers_weights_once(tfcalc: Program) -> None:
    """Gradients of each layer are summed in fp32 for each of three micro-batches, weights gathered for the next step.

    Source: ZeRO's paper, section 7.2.1. FSDP2, which has shards of the weights between micro-batches, gathers in each
    (tests/placed/test_live_messages.py).
    """
    layer = 2 * H * H + 2 * H * 1024 + 3 * H * 14_336 + 2 * H
    asks = ("llama-3-8b", "--dp", "8", "--zero", "2", "--grad-accum", "3")
    found = asked(tfcalc, *asks)
    of_layers = [(one["what"], one["bytes"], one["times"]) for one in found["messages"]][:2]
    assert of_layers == [("all-gather", 2 * layer, LAYERS), ("reduce-scatter", 4 * layer, 3 * LAYERS)]
    assert found["stages"][0]["weights_bytes"] == 2 * 8_030_261_248
    assert found["stages"][0]["gradients_bytes"] == 4 * 8_030_261_248 // 8
    of_fsdp = asked(tfcalc, *asks, "--precision", "bf16-fsdp")["messages"]
    assert [(one["what"], one["times"]) for one in of_fsdp][:2] == [
        ("all-gather", 3 * LAYERS),
        ("reduce-scatter", 3 * LAYERS),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("llama-3-8b --tp 3", "heads 32 not divisible by tensor 3; nearest: 2, 4"),
        ("llama-3-8b --tp 2 --gpus 5", "GPUs 5 not divisible by tp x pp x cp = 2; nearest: 4, 6"),
        ("llama-3-8b --dp 2 --gpus 4", "--gpus and --dp both"),
        ("llama-3-8b --zero 1", "ZeRO 1 has no effect without data parallelism; add --dp 2"),
        ("llama-3-8b --sequence-parallel", "sequence parallelism has no effect without"),
        ("llama-3-8b --vpp 2", "--vpp 2 has no effect on a pipeline of one stage"),
        ("llama-3-8b --pp 2 --vpp 2 --grad-accum 3", "micro-batches 3 not divisible by pipeline 2; nearest: 2, 4"),
        ("llama-3-8b --pp 2 --schedule interleaved", "1 chunk a stage under interleaved; it has 2 or more"),
        ("llama-3-8b --cp 3", "sequence length 4,096 not divisible by twice context 6"),
        ("gpt2 --ep 2", "expert parallelism has no effect on a model without experts"),
        ("gpt2 --shared-latents", "no effect without latent attention"),
        ("mixtral-8x7b --tp 2 --ep 2 --etp 1", "experts under tensor 2 without sequence parallelism"),
        ("mistral-7b --cp 2", "with window over devices"),
        ("bert-base-uncased --tp 2", "no rule splits BertModel"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(tfcalc: Program, words: str, said: str) -> None:
    done = tfcalc("ranks", *words.split())
    assert done.returncode in (2, 3)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout


B200 = (
    (Layout(2, True, cp=4), 32768, 1, 68.43, "allocated"),
    (Layout(1, pp=2, dp=4), 4096, 4, 72586.0 / 1024, "reserved"),
    (Layout(4, True, dp=2), 4096, 4, 41140.0 / 1024, "reserved"),
)
"""Llama 3 70B with 12 layers on 8 B200: layout, tokens, micro-batches of a step, GiB of the fullest GPU, and of what.

Source: SimuMax docs/b200/b200_release_v1.2_summary.json (real_alloc_gib, max_reserved_mb): Megatron-LM 23e00ed,
with the distributed optimizer, gradients in fp32, nothing recomputed.
"""


@pytest.mark.parametrize(("at", "length", "times", "gib", "what"), B200)
def test_reserved_memory_is_what_megatron_had_on_b200(
    at: Layout, length: int, times: int, gib: float, what: str
) -> None:
    """Within 8 %; the end of the band is above what was reserved."""
    model = from_config({**config_of("llama-3-70b"), "num_hidden_layers": 12})
    run = Workload(seq_len=length, batch_size=1, phase="train", attention="causal")
    stages = ranks(model, at, run, Training(zero="1", grad_accum=times)).stages
    assert all(stage.reserved.simulated for stage in stages)
    sizes = [stage.reserved.expected_bytes if what == "reserved" else stage.allocated_bytes for stage in stages]
    assert max(sizes) / 2**30 == pytest.approx(gib, rel=0.08)
    if what == "reserved":
        assert max(stage.reserved.high_bytes for stage in stages) / 2**30 >= gib


def test_memory_with_shared_sequences_is_what_megatron_had_on_b200() -> None:
    """The first of these by ``memory --backend megatron --cp 4``: within 8 %, and what ranks has."""
    at, length, times, gib, _ = B200[0]
    model = from_config({**config_of("llama-3-70b"), "num_hidden_layers": 12})
    run = Workload(seq_len=length, batch_size=1, phase="train", recompute="none")
    plan = Training(backend="megatron", tensor_parallel=at.tp, sequence_parallel=True, context_parallel=at.cp)
    found = memory(model, run, training=plan.replaced(gpus=8, grad_accum=times)).total_bytes
    assert found / 2**30 == pytest.approx(gib, rel=0.08)
    stages = ranks(model, at, run.replaced(attention="causal"), Training(zero="1", grad_accum=times)).stages
    assert [stage.allocated_bytes for stage in stages] == [found]


MEMORY, TRAIN = "memory {} --train --backend megatron", "train {} --gpu 8xh100 --tokens 1B --backend megatron"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("memory llama-3-8b --train --cp 2", "--cp 2 needs --backend megatron (it is auto); add --backend megatron"),
        (f"{MEMORY}-2022 --cp 2", "--cp with --backend megatron-2022, which did not have it; take --backend megatron"),
        (f"{MEMORY} --cp 2 --gpus 3", "--cp 2 = 2 GPUs, and there are 3; take --cp 1, or --gpus 2, or --gpus 4"),
        (f"{MEMORY} --tp 2 --pp 2 --cp 4 --gpus 8", "= 16 GPUs, and there are 8; take --cp 2, or --gpus 16"),
        (f"{MEMORY} --cp 2 --seq 4098", "sequence length 4,098 not divisible by twice context 4; nearest: 4096, 4100"),
        (f"{MEMORY} --pp 4 --vpp 2 --grad-accum 6", "micro-batches 6 not divisible by pipeline 4; nearest: 4, 8"),
        (f"{TRAIN} --pp 4 --vpp 2 --grad-accum 6", "micro-batches 6 not divisible by pipeline 4; nearest: 4, 8"),
        (f"{TRAIN} --pp 4 --vpp 2", "micro-batches 1 not divisible by pipeline 4; nearest: 4"),
    ],
)
def test_what_training_cannot_share_is_refused_in_a_line(tfcalc: Program, words: str, said: str) -> None:
    done = tfcalc(*words.format("llama-3-8b").split())
    assert done.returncode in (2, 3)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout


def test_no_length_fits_where_the_states_alone_do_not(tfcalc: Program) -> None:
    """A share of Llama 3 70B over 8 GPUs: 18 bytes of 8.8B parameters are twice a card, whatever the length.

    Lengths that the GPUs cannot share are no reason for that.
    """
    words = "memory llama-3-70b --train --backend megatron --tp 8 --sequence-parallel --gpu h100 --json"
    done = tfcalc(*words.split())
    found = json.loads(done.stdout)
    assert found["budget_bytes"] < 18 * 70.5e9 / 8
    assert (found["largest_batch_size"], found["largest_seq_len"]) == (0, 0)
    assert "not divisible" not in done.stdout


def test_a_run_with_shared_sequences(tfcalc: Program) -> None:
    """``train --cp`` has a step of plan's layout: its tokens by hand, and the seconds and bytes that plan has."""
    shape = ("--seq", "8192", "--tp", "4", "--pp", "2", "--vpp", "4", "--cp", "2", "--zero", "1")
    of_plan = ("--global-batch-size", "64", "--micro-batch", "1", "--checkpointing", "none")
    planned = json.loads(tfcalc("plan", "llama-3-8b", "--gpu", "64xh100", *shape, *of_plan, "--json").stdout)
    _, _, command = planned["layouts"][0]["commands"]
    assert "--cp 2" in command
    by_memory = json.loads(tfcalc(*command.split()[1:], "--json").stdout)
    words = [word for word in command.split()[2:] if word != "--train"]
    run = json.loads(tfcalc("train", *words, "--gpu", "h100", "--tokens", "1B", "--json").stdout)["run"]
    assert run["tokens_per_step"] == 64 * 8192
    assert run["step_seconds"] == pytest.approx(planned["step_seconds"])
    assert run["peak_bytes"] == planned["peak_bytes"] == by_memory["peak_bytes"]
    assert by_memory["conventions"]["data_parallel"] == 64 // (4 * 2 * 2)
    assert by_memory["conventions"]["global_batch_size"] == 64


@pytest.mark.parametrize(
    ("name", "again", "chunks", "fullest"),
    [
        ("llama-3-8b", "none", "1", 0),  # two micro-batches of 16 layers, 4.56 GB, beside 2 of the last stage's
        ("llama-3-8b", "full", "1", 1),  # inputs of layers alone, and 4,096 x 128,256 / 2 logits
        ("llama-3-8b", "none", "2", 0),
        ("qwen3-0.6b", "none", "2", 1),  # 151,936 words, and layers of 1,024
    ],
)
def test_memory_is_that_of_the_fullest_stage(tfcalc: Program, name: str, again: str, chunks: str, fullest: int) -> None:
    """The same step, of ``memory --backend megatron``: the first stage has most in flight, the last the logits."""
    words = ("--tp", "2", "--sequence-parallel", "--pp", "2", "--grad-accum", "8", "--seq", "2048", "--vpp", chunks)
    stages = asked(tfcalc, name, *words, "--checkpointing", again)["stages"]
    more = ("--backend", "megatron", "--precision", "bf16-master-fp32-grads", "--checkpointing", again, "--gpus", "4")
    memory = json.loads(tfcalc("memory", name, "--train", *more, *words, "--json").stdout)
    peaks = [stage["allocated_bytes"] for stage in stages]
    assert max(peaks) == peaks[fullest] == memory["peak_bytes"]
    assert memory["reserved_bytes"] > memory["peak_bytes"]
    if fullest == 0 or chunks == "1":
        names = ("reserved_bytes", "reserved_low_bytes", "reserved_high_bytes")
        assert list(stages[fullest]["reserved"].values()) == [*(memory[name] for name in names), True]
    else:
        assert stages[fullest]["reserved"]["simulated"] is False


def test_memory_of_experts_is_an_estimate(tfcalc: Program) -> None:
    """What is reserved is from what is allocated upwards."""
    (stage,) = asked(tfcalc, "mixtral-8x7b", "--ep", "8", "--dp", "8")["stages"]
    reserved, states = stage["reserved"], stage["weights_bytes"] + stage["gradients_bytes"] + stage["optimizer_bytes"]
    assert reserved["simulated"] is False
    assert states < stage["allocated_bytes"] == reserved["low_bytes"] < reserved["high_bytes"]


@pytest.mark.parametrize(
    "words",
    [
        ("llama-3-8b", "--pp", "8", "--first-stage-layers", "4", "--last-stage-layers", "4"),
        ("mixtral-8x7b", "--pp", "8", "--ep", "4", "--dp", "4", "--zero", "1"),
    ],
)
def test_stages_between_hold_what_is_in_flight(tfcalc: Program, words: tuple[str, ...]) -> None:
    """Each stage has a micro-batch less in flight than the one before: so many bytes less, of as many layers."""
    answer = asked(tfcalc, *words, "--grad-accum", "16", "--checkpointing", "none")
    between = [stage["allocated_bytes"] for stage in answer["stages"][1:-1]]
    less = [one - other for one, other in pairwise(between)]
    assert [stage["in_flight"] for stage in answer["stages"]] == [8, 7, 6, 5, 4, 3, 2, 1]
    assert less == pytest.approx([less[0]] * 5, abs=2)  # bytes are rounded down
    hidden = 4096 * 4096 * 2 * 4  # of a token's vector in 16 bits, each of four layers saves several
    assert less[0] > 4 * hidden


def test_layers_that_are_given_hold_what_equal_ones_do(tfcalc: Program) -> None:
    """The closed form of a pipeline with ends of its own, beside the step on a tape of the same split: within 2 %."""
    words = ("llama-3-8b", "--pp", "4", "--grad-accum", "16")
    by_tape, given = (asked(tfcalc, *words, *more)["stages"] for more in ((), ENDS_OF_8))
    for one, other in zip(by_tape, given, strict=True):
        assert other["allocated_bytes"] == pytest.approx(one["allocated_bytes"], rel=0.02)


ENDS_OF_8 = ("--first-stage-layers", "8", "--last-stage-layers", "8")


def test_a_bubble_of_uneven_stages_says_so(tfcalc: Program) -> None:
    """32 layers as 1, 15, 15 and 1: the slowest is not in (p - 1)/m."""
    words = ("ranks", "llama-3-8b", "--pp", "4", "--grad-accum", "16")
    said = "3/16 of the work, 18.75%, were the stages equal; they have 1 to 15 layers, and wait for the slowest"
    ends = ("--first-stage-layers", "1", "--last-stage-layers", "1")
    assert said in " ".join(tfcalc(*words, *ends).stdout.split())
    assert "were the stages equal" not in tfcalc(*words).stdout


def test_the_defaults_of_help_are_those_of_the_answer(tfcalc: Program) -> None:
    """What ``auto`` is of ZeRO, precision and checkpointing is as ranks has it; of the first two as memory does."""
    told = " ".join(tfcalc("ranks", "-h", "all").stdout.split())
    found = asked(tfcalc, "llama-3-8b", "--tp", "2", "--pp", "2", "--dp", "4", "--sequence-parallel")
    assert "over GPUs; auto: 1 with several copies of the weights, 3 with --stack fsdp, else 0: " in told
    assert (found["zero"], asked(tfcalc, "llama-3-8b", "--tp", "2")["zero"]) == ("1", "0")
    layout = ("--backend", "megatron", "--gpus", "16", "--tp", "2", "--pp", "2")
    usual = tfcalc("memory", "llama-3-8b", "--train", *layout).stdout
    assert "bf16-master-fp32-grads, " in usual
    assert "16 GPUs = TP 2 x PP 2 x ZeRO-1 4" in " ".join(usual.split())
    assert f"auto: {found['precision']}, bf16-fsdp with --stack fsdp, bf16-master with deepspeed: " in told
    assert "(torchtitan); auto: none: " in told
    words = ("llama-3-8b", "--tp", "2", "--pp", "2", "--dp", "4", "--sequence-parallel", "--checkpointing", "none")
    assert found["stages"] == asked(tfcalc, *words)["stages"]
