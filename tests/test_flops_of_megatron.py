"""FLOPs as Megatron-LM counts them: its own function agrees with ``--attention causal-half`` for 13 models."""

from __future__ import annotations

import json
from pathlib import Path

import tfcalc

FILE = Path(__file__).parent / "oracle" / "planning" / "megatron_flops.jsonl"


def test_megatrons_own_function_agrees() -> None:
    """Equal to the last one; of mixtures but for the router, 6·h·E FLOPs a token and layer, which it leaves out."""
    rows = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 13
    for row in rows:
        args = row["args"]
        run = tfcalc.Workload(seq_len=args["seq_length"], phase="train", attention="causal-half")
        experts = args.get("num_experts", 0)
        routers = 6 * args["hidden_size"] * experts * args["num_layers"] * args["seq_length"]
        assert tfcalc.flops(tfcalc.load(row["model"]), run).answer == row["flops"] + routers, row["model"]


def test_a_count_of_megatron_by_hand() -> None:
    """Llama 3 8B on 4,096 tokens: 6 FLOPs a matrix weight and token, and half of attention, 12·n·h·l/2 a token."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    row = next(json.loads(line) for line in lines if '"llama-3-8b"' in line)
    matrices = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 128256 * 4096
    assert row["flops"] == 4096 * (6 * matrices + 6 * 32 * 4096 * 4096)
