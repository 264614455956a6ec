"""Messages and shards against PyTorch itself, which runs here: FSDP2, DDP, and rings of context parallelism."""

from __future__ import annotations

import random
from collections import Counter
from importlib.util import find_spec
from typing import Any

import pytest

from tests.placed.live import Case, answers_of, as_called
from tfcalc import Layout, Training, Workload, ranks
from tfcalc.configs.published import HFModel

WHY = "transformers is not installed: pip install transformers"
pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("transformers") is None, reason=WHY)]


def config(draw: random.Random) -> dict[str, Any]:
    """A Llama of a few layers."""
    heads, width = draw.choice([2, 4]), 16 * draw.randint(1, 2)
    return {
        "model_type": "llama",
        "hidden_size": heads * width,
        "num_hidden_layers": draw.randint(1, 5),
        "num_attention_heads": heads,
        "num_key_value_heads": draw.choice([1, 2]),
        "intermediate_size": 32 * draw.randint(1, 5),
        "vocab_size": 32 * draw.randint(3, 9),
        "tie_word_embeddings": draw.random() < 0.5,
    }


def cases() -> list[Case]:
    """Shards with and without replicas, DDP, and rings."""
    draw, drawn = random.Random(20261128), list[Case]()
    for _ in range(24):
        replicas, reshards = draw.choice([1, 1, 2, 4]), draw.random() < 0.6
        more = {"replicas": replicas, "reshards": reshards, "micro_batches": draw.randint(1, 3)}
        drawn.append({"what": "fsdp", "config": config(draw), "dp": draw.choice([2, 4, 8])} | more)
    drawn.append({"what": "ddp", "config": config(draw), "dp": 2})
    for cp in (2, 3, 4, 8):
        groups, width = draw.choice([1, 2, 4]), draw.choice([8, 16])
        sizes = {"heads": 4 * groups, "groups": groups, "width": width, "seq": 2 * cp * draw.randint(2, 5)}
        drawn.append({"what": "ring", "cp": cp, "batch": draw.randint(1, 3)} | sizes)
    return drawn


def sharded(case: Case) -> Counter[tuple[str, int, int]]:
    """Gathered in bf16 and summed in fp32."""
    model, run = HFModel(case["config"]), Workload(phase="train", batch_size=1, seq_len=8)
    plan = Training(zero="3" if case["reshards"] else "2", grad_accum=case["micro_batches"])
    at = Layout(dp=case["dp"] * case["replicas"], replicas=case["replicas"])
    answer = ranks(model, at, run, plan, stack="fsdp")
    return Counter({(each.what, each.ranks, each.bytes): each.times for each in answer.messages})


def replicated(case: Case) -> Counter[tuple[str, int, int]]:
    """All gradients, in fp32."""
    run = Workload(phase="train", batch_size=1, seq_len=8)
    answer = ranks(HFModel(case["config"]), Layout(dp=case["dp"], rows=1), run, Training(precision="fp32", zero="0"))
    return Counter({(each.what, each.ranks, each.bytes): each.times for each in answer.messages})


def around(case: Case) -> Counter[tuple[str, int, int]]:
    """Keys and values of one layer, in fp32, in which their gradients are as large."""
    sizes = {
        "model_type": "llama",
        "hidden_size": case["heads"] * case["width"],
        "num_hidden_layers": 1,
        "num_attention_heads": case["heads"],
        "num_key_value_heads": case["groups"],
    }
    run = Workload(phase="train", batch_size=case["batch"], seq_len=case["seq"])
    answer = ranks(HFModel(sizes), Layout(cp=case["cp"]), run, Training(precision="fp32"))
    found = Counter[tuple[str, int, int]]()
    for each in answer.messages:
        if each.group == "context":
            found[each.what, each.ranks, each.bytes] += each.times
    return found


def test_messages_are_those_that_pytorch_sends() -> None:
    """Two replicas of shards, their layers and their root; DDP of two processes; exchanges of a ring."""
    ours = {"fsdp": sharded, "ddp": replicated, "ring": around}
    drawn = cases()
    for case, seen in zip(drawn, answers_of("tests.placed.torch_distributed", drawn), strict=True):
        assert ours[case["what"]](case) == as_called(seen), case


def shards() -> list[Case]:
    """Small models whose tables and matrices no number of ranks divides, and one with experts."""
    draw = random.Random(20261129)
    uneven = [config(draw) | {"vocab_size": 32 * draw.randint(3, 9) + 1, "intermediate_size": 37} for _ in range(3)]
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 48, "vocab_size": 101}
    mixture = config(draw) | experts | {"model_type": "mixtral", "num_hidden_layers": 2}
    sizes = [(uneven[0], 8, 1), (uneven[1], 5, 1), (uneven[1], 4, 2), (uneven[2], 48, 1), (mixture, 8, 1)]
    return [{"what": "stored", "config": each, "dp": dp, "replicas": n} for each, dp, n in sizes]


def test_each_rank_stores_what_pytorch_gives_it() -> None:
    """The first has most, the last fewest or nothing; gradients and moments are as large as the weights."""
    cases = shards()
    for case, seen in zip(cases, answers_of("tests.placed.torch_distributed", cases), strict=True):
        at = Layout(dp=case["dp"] * case["replicas"], replicas=case["replicas"])
        run = Workload(phase="train", batch_size=1, seq_len=8)
        (stage,) = ranks(HFModel(case["config"]), at, run, stack="fsdp").stages
        weights = [each[0] for each in seen]
        assert (weights[0], weights[-1]) == (max(weights), min(weights))
        assert (stage.stored_params, stage.least_stored_params) == (weights[0], weights[-1])
        first, gradients, moments, counters = seen[0]
        assert (stage.weights_bytes, stage.gradients_bytes) == (4 * first, 4 * gradients)
        more = 3 * 2 * 2 if "num_local_experts" in case["config"] else 0  # of each expert, where PyTorch has one of all
        assert stage.optimizer_bytes == 4 * (moments + counters + more)
