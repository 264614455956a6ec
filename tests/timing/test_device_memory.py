"""Bytes of a device of a layout, against Megatron-core on B200; what waits in a pipeline, by PyTorch's tables."""

from __future__ import annotations

from statistics import median

import pytest

import tfcalc
from tests.planning_runs import CARDS, Row, config, layout, rows, work
from tfcalc.hardware import named
from tfcalc.search.gpus import of_card
from tfcalc.timing.device_memory import DeviceMemory
from tfcalc.timing.step import Layouts
from tfcalc.timing.work import work_of

LLAMA_70B = {"h": 8192, "a": 64, "g": 8, "d": 128, "f": 28672, "V": 128256, "gated": True, "untied": True, "E": 0}
LLAMA_405B = LLAMA_70B | {"h": 16384, "a": 128, "f": 53248}
MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("arch", "layers", "length", "at", "allocated"),
    [
        (LLAMA_70B, 12, 4096, Layouts(pp=2, dp=4, batches=4), 68149.2 * MIB),
        (LLAMA_70B, 12, 4096, Layouts(tp=8, batches=4), 28965.4 * MIB),
        (LLAMA_405B, 4, 4096, Layouts(tp=2, dp=4, batches=4), 83549.9 * MIB),
        (LLAMA_405B, 4, 4096, Layouts(tp=4, dp=2, batches=4), 54158.1 * MIB),
        (LLAMA_70B, 12, 32768, Layouts(tp=2, cp=4, batches=4), 68.43 * GIB),
        (LLAMA_405B, 4, 131072, Layouts(tp=2, cp=4, batches=4), 118.13 * GIB),
    ],
    ids=["70b-pp2", "70b-tp8", "405b-tp2", "405b-tp4", "70b-cp4", "405b-cp4"],
)
def test_peaks_of_megatron_core(
    arch: dict[str, object], layers: int, length: int, at: Layouts, allocated: float
) -> None:
    """Source: SimuMax docs/b200/b200_release_v1.2_summary.json (max_allocated_mb, real_alloc_gib): 8 B200, a
    distributed optimizer, gradients in fp32, sequence parallelism, nothing recomputed (tests/oracle/points3).
    """
    model = tfcalc.from_config(config({"arch": arch, "layers": layers, "seq": length}))
    peak = float(DeviceMemory(work_of(model, length), at).peak)
    assert peak == pytest.approx(allocated, rel=0.015)


@pytest.mark.parametrize(
    ("at", "first", "last"),
    [
        (Layouts(pp=4, batches=8), 4, 1),
        (Layouts(pp=4, vpp=2, batches=8), 5.5, 2.5),
        (Layouts(pp=4, vpp=4, batches=8), 4.75, 3.25),
        (Layouts(pp=8, vpp=2, batches=32), 11.5, 4.5),
        (Layouts(pp=8, vpp=4, batches=32), 9.75, 6.25),
        (Layouts(pp=8, batches=3), 3, 1),
    ],
)
def test_what_is_in_flight(at: Layouts, first: float, last: float) -> None:
    """Source: PyTorch 2.13's schedules put on a clock (get_schedule_ops of 1F1B and Interleaved1F1B)."""
    memory = DeviceMemory(work_of(tfcalc.load("gpt2"), 64), at)
    assert float(memory.in_flight()) == first
    assert float(memory.in_flight(last=True)) == last


def test_states_by_hand() -> None:
    """GPT-2 on one device: 2 bytes of weights, 4 of gradients, 12 of the optimizer; over 8 with ZeRO-1, 2 and 3."""
    work = work_of(tfcalc.load("gpt2"), 64)
    states = {zero: float(DeviceMemory(work, Layouts(dp=8, zero=zero)).states()) for zero in range(4)}
    params = 124_439_808
    assert states == {0: 18 * params, 1: 7.5 * params, 2: 4 * params, 3: 2.25 * params}


@pytest.mark.parametrize(("vocabulary", "tied"), [(256, False), (8192, False), (65536, False), (65536, True)])
def test_what_fsdp_gathers_is_what_its_tape_has(vocabulary: int, tied: bool) -> None:
    """Eight tokens, whose activations are next to nothing: shards, and what is gathered while a layer, or the root, is
    at its peak, by the tape, which tests/verify compares with PyTorch's ``FSDPMemTracker``.
    """
    sizes = {"hidden_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 2}
    more = {"intermediate_size": 4096, "vocab_size": vocabulary, "tie_word_embeddings": tied}
    model = tfcalc.from_config({"model_type": "llama", **sizes, **more})
    run = tfcalc.Workload(seq_len=8, batch_size=1, phase="train", recompute="none")
    plan = tfcalc.Training(precision="bf16-fsdp", zero="3", gpus=8, layout="fsdp2", grad_accum=4)
    step = tfcalc.memory(model, run, training=plan).totals
    at = Layouts(dp=8, shards=8, zero=3, batches=4)
    peak = float(DeviceMemory(work_of(model, 8), at, fsdp=True).peak)
    assert peak == pytest.approx(int(step["total_bytes"]) - int(step["workspaces_bytes"]), rel=0.002)


def test_states_of_fsdp_by_hand() -> None:
    """GPT-2 on 8 GPUs: 16 bytes over 8, or over the 4 shards of two replicas; experts over those of a replica.

    Of Mixtral 8 groups have the experts, so that 16 of 32 GPUs share each of them by two, by torchtitan's ``efsdp``.
    """
    params, mixture = 124_439_808, 46_702_792_704
    work = work_of(tfcalc.load("gpt2"), 64)
    states = [float(DeviceMemory(work, Layouts(dp=8, shards=n, zero=3), fsdp=True).states()) for n in (8, 4)]
    assert states == [2 * params, 4 * params]
    experts = 8 * 32 * 3 * 4096 * 14336
    at = Layouts(dp=32, shards=16, ep=8, zero=3)
    found = float(DeviceMemory(work_of(tfcalc.load("mixtral-8x7b"), 64), at, fsdp=True).states())
    assert found == 16 * (experts / 8 / 2 + (mixture - experts) / 16)


def test_states_of_deepspeed_by_hand() -> None:
    """In fp16 2 and 2 bytes, and 16 over the copies; in bf16 gradients are added up in fp32: 2, 2, 4, and 12 over them.

    With ZeRO-2 and ZeRO-3 both share 16 bytes, and gradients, and weights. GPT-2 on 8 GPUs.
    """
    work = work_of(tfcalc.load("gpt2"), 64)
    params = 124_439_808
    per_parameter = {"fp16": [20, 6, 4.25, 2.5], "bf16": [20, 9.5, 4.25, 2.5]}
    for precision, expected in per_parameter.items():
        at = [Layouts(dp=8, zero=zero) for zero in range(4)]
        states = [float(DeviceMemory(work, each, deepspeed=precision).states()) / params for each in at]
        assert states == expected


@pytest.mark.parametrize(
    ("modules", "per_token"),
    [
        (("core_attn",), 128 * 4),
        (("mla_up_proj",), 2 * 128 * (192 + 256)),
        (("layernorm",), 2 * 7168 * 2),
        (("moe_act",), 2 * 8 * 2048),
        (("shared_experts",), 2 * 3 * 2048),
        (("moe",), 2 * 3 * 2048 + 2 * 256 + 8 * (4 * 7168 + 2 * 3 * 2048)),
        (("moe", "moe_act", "shared_experts"), 2 * 3 * 2048 + 2 * 256 + 8 * (4 * 7168 + 2 * 3 * 2048)),
        (("mlp",), 0),
    ],
)
def test_what_modules_drop_by_hand(modules: tuple[str, ...], per_token: int) -> None:
    """Bytes of a token that a mixture of DeepSeek-V3 does not save, by its sizes: 128 heads of 192 and 128 + 128, 256
    experts of 2,048, of which 8 and one that all share, h = 7,168; of 16 bits each, log-sums of 32.

    Source: Megatron-core 0.16's TransformerConfig, recompute_modules, and where it is read (the test of the shared
    experts and of an MLP runs it: tests/placed/test_live_ranks.py).
    """
    work = work_of(tfcalc.load("deepseek-v3"), 4096)
    whole, less = (float(DeviceMemory(work, Layouts(modules=each)).layer(work.layers[1])) for each in ((), modules))
    assert whole - less == 4096 * per_token


@pytest.mark.parametrize(
    ("name", "kind", "by_hand"),
    [
        # two norms, two inputs; queries, keys and values; attention's result; gate and up; what the last product reads
        ("llama-3-8b", 0, 2 * 2 * 4096 + 2 * 4096 + 2 * 6144 + 3 * 4096 + 4 * 32 + 2 * 28672 + 14336),
        # the latents and their norms' results; 128 heads of 192, 128 and 128; the shared expert; the router; 8 experts
        (
            "deepseek-v3",
            1,
            2 * 2 * 7168
            + 2 * 7168
            + (2 + 1) * 1536
            + (2 * 576 + 512)
            + 2 * 128 * (192 + 128 + 128)
            + 3 * 128 * 128
            + 4 * 128
            + (2 * 2 * 2048 + 2048)
            + 2 * 256
            + 2 * 7168
            + 8 * (3 * 7168 + 2 * 2 * 2048 + 2048),
        ),
    ],
)
def test_what_fp8_saves_by_hand(name: str, kind: int, by_hand: int) -> None:
    """Bytes of a token: products save what they read in 8 bits, where nobody else has it in 16 as well.

    Attention has its own result in 16 bits besides; both maps down to latents read the same hidden vectors.

    Source: NVIDIA/TransformerEngine, pull request 1865, on what Linear and GroupedLinear save.
    """
    work = work_of(tfcalc.load(name), 4096)
    found = float(DeviceMemory(work, Layouts(), precision="fp8").layer(work.layers[kind]))
    assert found == pytest.approx(4096 * by_hand, rel=1e-3)


def test_rows_whose_source_names_the_modules() -> None:
    """Of 213 runs of Megatron-Bridge 34 say in their configurations which modules run again, and 5 that none does.

    20 of the 34 fit, and all of these 5; DeepSeek-V3 in 8 bits on GB200 and B200 from 8 to 11 % beyond the usable bytes
    comes to within them. What does not fit offloads, or has moments in 16 bits: that is not counted.
    """
    told = [row for row in rows() if row.get("recompute_modules") is not None]
    room = {name: named(card)[0].usable().bytes for name, card in CARDS.items()}

    def over(row: Row, at: Layouts) -> float:
        precision = row["precision"].split("-")[0]
        return float(DeviceMemory(work(row), at, precision=precision).peak) / room[row["gpu"]] - 1

    named_modules = [row for row in told if row["recompute_modules"]]
    assert (len(told), len(named_modules)) == (39, 34)
    close = [
        row
        for row in named_modules
        if row["model"] == "deepseek-v3" and row["recompute_modules"] == ["mla_up_proj"] and "fp8" in row["precision"]
        if row["gpu"] in ("GB200", "B200")
    ]
    assert len(close) == 8
    assert all(over(row, layout(row)) <= 0 for row in close)
    assert all(over(row, layout(row)._replace(modules=())) > 0.05 for row in close)
    assert sum(over(row, layout(row)) <= 0 for row in named_modules) == 20
    assert all(over(row, layout(row)) <= 0 for row in told if not row["recompute_modules"])


OF_BIGSCIENCE = [row for row in rows() if "BigScience" in row["unit"] and row.get("zero") == 1]
SHOWN = [row for row in OF_BIGSCIENCE if "peak_memory_gib" in row]
OUT_OF_MEMORY = [row for row in rows() if row.get("oom")]


def needed(row: Row) -> float:
    """GiB of the fullest device."""
    at = layout(row)
    return float(DeviceMemory(work(row), at, eager=True, deepspeed=row["precision"]).peak) / GIB


def test_what_cards_of_bigscience_showed_beyond_it_is_the_same_in_both_formats() -> None:
    """The CUDA context, NCCL's buffers, backward's temporary tensors and free blocks: 11 GiB in fp16 as in bf16.

    These are figures of nvidia-smi, of 94 runs on 16 to 48 nodes.
    """
    beyond = {
        precision: sorted(row["peak_memory_gib"] - needed(row) for row in SHOWN if row["precision"] == precision)
        for precision in ("fp16", "bf16")
    }
    middles = [median(each) for each in beyond.values()]
    assert abs(middles[0] - middles[1]) <= 1
    assert all(10 <= middle <= 12 for middle in middles)
    assert all(each[len(each) // 10] >= 7 for each in beyond.values())
    assert all(each[-len(each) // 10] <= 15 for each in beyond.values())


def test_five_of_six_runs_that_ran_out_of_memory_do_not_fit_and_all_that_ran_do() -> None:
    """The sixth, of 206B, needs 0.6 GiB more than one of 203B in the same layout, which ran (cards showed 67 GB).

    Twelve that ran need up to 10 GiB more than it (cards showed 69 to 79): no count of bytes, and no reserve, can tell
    them apart (chronicles-prequel.md, "Rebalancing layers": NLAYERS=82 and NLAYERS=94).
    """
    room = of_card("a100-80").allocatable / GIB
    assert sum(needed(row) > room for row in OUT_OF_MEMORY) == 5
    assert all(needed(row) <= room for row in SHOWN)
    (sixth,) = (row for row in OUT_OF_MEMORY if needed(row) <= room)
    larger = [row["peak_memory_gib"] for row in SHOWN if needed(row) > needed(sixth)]
    assert len(larger) == 12
    assert all(shown >= 69 for shown in larger)


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("gpt2", Layouts(tp=2, pp=2)),
        ("llama-3-8b", Layouts(tp=4, pp=4)),
        ("deepseek-v3", Layouts(tp=8, ep=8, etp=1)),
        ("deepseek-v3", Layouts(tp=2, ep=8, etp=1, dp=4)),
    ],
)
def test_states_are_those_of_ranks(name: str, at: Layouts) -> None:
    """Norms, routers, maps down to latents and positions are whole on each GPU, as ``ranks`` has them.

    That is compared with Megatron-core (tests/placed). What is left are biases, and the last norm.
    """
    model, memory = tfcalc.load(name), DeviceMemory(work_of(tfcalc.load(name), 512), at._replace(zero=0, batches=12))
    sparse = {"ep": at.ep, "etp": 1} if at.ep > 1 else {}
    layout = tfcalc.Layout(tp=at.tp, pp=at.pp, dp=at.dp, sequence_parallel=True, **sparse)
    run, whole = tfcalc.Workload(phase="train", seq_len=512), tfcalc.Training(zero="0")
    stages = tfcalc.ranks(model, layout, run, whole).stages
    for last in (False, True):
        assert float(memory.states(last=last)) == pytest.approx(stages[-last].states_bytes, rel=2e-4)
