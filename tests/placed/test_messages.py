"""The messages of a device, against those that were counted while Megatron-core ran."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import Workload
from tfcalc.configs.published import HFModel
from tfcalc.nn.module import counted
from tfcalc.placed.layout import Layout
from tfcalc.placed.messages import Sent, messages
from tfcalc.placed.ranks import (
    OfData,
    Ranks,
    SentBits,
    ShardedUnit,
    fully_sharded,
    optimizer_shared,
    replicated,
)
from tfcalc.placed.rules import on_device

CALLED = {"allreduce_": "all-reduce", "_allgather_base_": "all-gather", "_reduce_scatter_base_": "reduce-scatter"}
SMALL = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 256,
}
GPT = {"model_type": "gpt2", "n_embd": 64, "n_layer": 8, "n_head": 4, "vocab_size": 512}


def sent(config: dict[str, Any], at: Layout) -> list[Sent]:
    """Of one micro-batch of two sequences of 16 tokens, in fp32 as they were recorded."""
    workload = Workload(phase="train", batch_size=2, seq_len=16)
    return messages(counted(on_device(HFModel(config).module(), at), workload), 32)


@pytest.mark.parametrize(
    "row", recorded("megatron/collectives.jsonl"), ids=lambda row: f"tp{row['tp']}-{row['sequence_parallel']}"
)
def test_they_are_those_that_megatron_core_calls(row: dict[str, Any]) -> None:
    """tp 4 has more devices than heads of keys: each layer gathers queries, keys and values, too."""
    found = {
        (one.name, one.devices, one.bytes): one.times
        for one in sent(SMALL, Layout(row["tp"], row["sequence_parallel"]))
    }
    called = {(CALLED[each["name"]], each["ranks"], each["bytes"]): each["times"] for each in row["collectives"]}
    assert found == called


LATENT = {
    "model_type": "deepseek_v3",
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 256,
    "kv_lora_rank": 24,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "first_k_dense_replace": 3,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize(
    ("rank", "sequence_parallel", "called"),
    [
        (
            20,
            True,
            {
                ("all-gather", 2560): 12,
                ("all-gather", 3072): 9,
                ("all-gather", 4096): 3,
                ("all-gather", 8192): 27,
                ("reduce-scatter", 2560): 3,
                ("reduce-scatter", 3072): 3,
                ("reduce-scatter", 8192): 17,
                ("all-reduce", 128): 3,
            },
        ),
        (
            20,
            False,
            {
                ("all-gather", 2560): 3,
                ("all-gather", 4096): 3,
                ("all-reduce", 128): 3,
                ("all-reduce", 2560): 3,
                ("all-reduce", 3072): 3,
                ("all-reduce", 8192): 17,
            },
        ),
        (
            None,
            True,
            {
                ("all-gather", 3072): 9,
                ("all-gather", 4096): 3,
                ("all-gather", 8192): 27,
                ("reduce-scatter", 3072): 3,
                ("reduce-scatter", 8192): 17,
                ("all-reduce", 128): 3,
            },
        ),
    ],
)
def test_latent_attentions_are_those_that_megatron_core_calls(
    rank: int | None, sequence_parallel: bool, called: dict[tuple[str, int], int]
) -> None:
    """Megatron-core 0.16.1's GPTModel with MLATransformerConfig and its local spec, recorded as collectives.jsonl was.

    Fake process groups, PyTorch 2.13.0; a stand-in for the attention kernel, which sends nothing.
    """
    at = Layout(2, sequence_parallel, shares_latents=True)
    found = sent(LATENT | {"q_lora_rank": rank}, at)
    assert {(one.name, one.bytes): one.times for one in found} == called


SPARSE = {
    "model_type": "mixtral",
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 128,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 256,
}


@pytest.mark.parametrize(
    ("at", "called"),
    [
        (
            Layout(ep=4, dp=4),
            {("all-to-all", 4, 32768): (2, 2), ("all-to-all", 4, 512): (1, 1), ("all-gather", 4, 256): (1, 0)},
        ),
        (Layout(2, True, ep=4, etp=1, dp=2), {("all-to-all", 4, 16384): (2, 2), ("all-to-all", 4, 256): (1, 1)}),
        (
            Layout(2, True, ep=2, etp=2, dp=2),
            {
                ("all-to-all", 2, 16384): (2, 2),
                ("all-to-all", 2, 256): (1, 1),
                ("all-gather", 2, 32768): (1, 1),
                ("all-gather", 2, 512): (1, 0),
                ("reduce-scatter", 2, 32768): (1, 1),
                ("reduce-scatter", 2, 512): (0, 1),
            },
        ),
        (
            Layout(4, True),
            {
                ("all-gather", 4, 32768): (1, 1),
                ("all-gather", 4, 512): (1, 0),
                ("reduce-scatter", 4, 32768): (1, 1),
                ("reduce-scatter", 4, 512): (0, 1),
            },
        ),
    ],
)
def test_experts_are_sent_what_megatron_core_sends(
    at: Layout, called: dict[tuple[str, int, int], tuple[int, int]]
) -> None:
    """Megatron-core's MoELayer on 4 gloo processes (planning/live/moe.py): h 64, 8 experts, k 2, two times 32 tokens.

    The first with Megatron-core 0.19.2; those with tensor parallelism with 0.16.1 and a capacity factor of 1, whose
    rows are those of a balanced load, and of which nobody is told (256 bytes of the first).
    """
    workload = Workload(phase="train", batch_size=2, seq_len=32)
    (layer,) = (
        node.component
        for node in counted(on_device(HFModel(SPARSE).module(), at), workload).walk()
        if node.component.kind == "moe"
    )
    found = {(one.name, one.devices, one.bytes): (one.forward, one.backward) for one in messages(layer, 32)}
    assert found.items() >= called.items()
    counts = {("all-gather", at.ep * at.of_an_expert, 8 * 8 * 4): (1, 0)}
    assert found.items() - called.items() <= counts.items()


@pytest.mark.parametrize(("cp", "size", "passes"), [(2, 16384, (1, 3)), (4, 8192, (3, 7)), (8, 4096, (7, 15))])
def test_keys_and_values_go_around_a_ring_as_pytorch_sends_them(cp: int, size: int, passes: tuple[int, int]) -> None:
    """planning/live/cp.txt: torch's ring attention of two sequences of 64 tokens, 2 heads of keys with a width of 16.

    It was recorded in fp32, in which keys and values are as large as their gradients.
    """
    config = SMALL | {"hidden_size": 128, "num_attention_heads": 8, "num_hidden_layers": 1}
    module = on_device(HFModel(config).module(), Layout(cp=cp))
    tree = counted(module, Workload(phase="train", batch_size=2, seq_len=64 // cp))
    assert [one for one in messages(tree, 32) if one.group == "context"] == [Sent("send", cp, size, *passes, "context")]


def test_four_all_reduces_a_layer_half_of_them_forward() -> None:
    """Shoeybi et al. 2019, section 3: "2 all-reduces in the forward path and 2 in the backward path" of a layer."""
    assert [each for each in sent(SMALL, Layout(2)) if each.bytes == 4 * 2 * 16 * 64] == [
        Sent("all-reduce", 2, 8192, forward=2 * 3 + 1, backward=2 * 3 + 1)
    ]


def test_sequence_parallelism_sends_as_much_as_tensor_parallelism_alone() -> None:
    """Korthikanti et al. 2022, section 4.2.2: "the communication bandwidth used is the same".

    But for what is gathered once more for weights' gradients ("we store only Y_i^s […] and perform an extra
    all-gather in the backward pass").
    """
    alone, shared = (sent(SMALL, Layout(2, sequence_parallel)) for sequence_parallel in (False, True))
    again = (2 * 3 + 1) * Sent("all-gather", 2, 8192).by_each
    assert sum(each.times * each.by_each for each in shared) == sum(each.times * each.by_each for each in alone) + again


def test_learned_positions_are_added_before_the_sequence_is_shared() -> None:
    """Megatron-core's LanguageModelEmbedding: its words are summed for all, and only their share is kept then."""
    found = {one.name: (one.forward, one.backward) for one in sent(GPT, Layout(2, True)) if one.bytes == 8192}
    assert found["all-reduce"] == (1, 0)
    assert found["all-gather"] == (2 * 8 + 1, (2 * 8 + 1) + 2 * 8 + 1)
    assert found["reduce-scatter"] == (2 * 8, 2 * 8 + 1)


@pytest.mark.parametrize("vpp", [1, 2])
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_each_chunk_hands_on_what_the_next_one_reads(vpp: int, sequence_parallel: bool) -> None:
    """As torch's tables of interleaved schedules have it: of 4 ranks with 2 chunks each the last sends once less."""
    size = 4 * 2 * 16 * 64 // (2 if sequence_parallel else 1)
    for stage in range(4):
        found = [one for one in sent(GPT, Layout(2, sequence_parallel, 4, vpp, stage)) if one.name == "send"]
        assert found == [
            Sent("send", 2, size, forward=vpp - (stage == 3), backward=vpp - (stage == 0), group="pipeline")
        ]


WHOLE = 98_304
"""Parameters of the three blocks of planning/live/fsdp.py and ddp.py, 32,768 each."""
BLOCKS = [ShardedUnit(WHOLE // 3, 3)]
FP32_SUMS = SentBits(16, 32)


def test_ddp_reduces_all_gradients_at_once() -> None:
    """planning/live/ddp.txt: 4 gloo processes, 24,576 parameters in fp32."""
    assert replicated(24_576, 4, SentBits(32, 32)) == [Sent("all-reduce", 4, 98_304, 0, 1, "data")]


@pytest.mark.parametrize(
    ("how", "called"),
    [
        ({}, {("all-gather", 4, 65536): 6, ("reduce-scatter", 4, 131072): 3}),
        ({"reshards": False}, {("all-gather", 4, 65536): 3, ("reduce-scatter", 4, 131072): 3}),
        (
            {"replicas": 2},
            {("all-gather", 4, 65536): 6, ("reduce-scatter", 4, 131072): 3, ("all-reduce", 2, 32768): 3},
        ),
    ],
)
def test_shards_are_sent_as_pytorch_sends_them(how: dict[str, Any], called: dict[tuple[str, int, int], int]) -> None:
    """planning/live/fsdp.txt: FSDP2 of three blocks, gathered in bf16 and summed in fp32; 8 GPUs with replicas."""
    assert {
        (one.name, one.devices, one.bytes): one.times for one in fully_sharded(BLOCKS, 4, FP32_SUMS, **how)
    } == called


@pytest.mark.parametrize(("dp", "bits", "called"), [(4, 32, 624_640), (4, 16, 312_320), (8, 32, 624_640)])
def test_a_distributed_optimizer_sends_its_buffer(dp: int, bits: int, called: int) -> None:
    """planning/live/distopt.txt: Megatron-core's buffer of 156,096 parameters has 156,160 elements."""
    config = SMALL | {"num_key_value_heads": 4, "tie_word_embeddings": False}
    (rank,) = Ranks(HFModel(config).module(), Layout(dp=dp), Workload(phase="train", batch_size=2, seq_len=16)).stages
    assert rank.others == 156_096
    assert OfData(1, SentBits(16, bits)).sent(rank, 1) == [
        Sent("reduce-scatter", dp, called, 0, 1, "data"),
        Sent("all-gather", dp, 312_320, 1, 0, "data"),
    ]
    assert OfData(0, SentBits(16, 32)).sent(rank, 1) == [Sent("all-reduce", dp, 624_384, 0, 1, "data")]


def test_the_zero_papers_volumes() -> None:
    """Rajbhandari et al. 2020, section 7: 2Ψ elements without sharding and with stages 1 and 2, 3Ψ with stage 3."""
    elements, devices, bits = 1_024_000, 1_000, SentBits(16, 16)
    found = [
        replicated(elements, devices, bits),
        optimizer_shared(elements, devices, bits),
        fully_sharded([ShardedUnit(elements, 1)], devices, bits, reshards=False),
        fully_sharded([ShardedUnit(elements, 1)], devices, bits),
    ]
    share = elements * 2 * (devices - 1) // devices
    assert [sum(one.times * one.by_each for one in each) for each in found] == [
        2 * share,
        2 * share,
        2 * share,
        3 * share,
    ]
