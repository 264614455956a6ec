"""Published training runs (tests/oracle/planning/runs.jsonl), as models, layouts and machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import tfcalc
from tfcalc.hardware import named
from tfcalc.timing.rates import Machine, machine_of, rates_of
from tfcalc.timing.step import Layouts, StepParts, StepTime
from tfcalc.timing.work import ModelWork, work_of

Row = Mapping[str, Any]
FILE = Path(__file__).parent / "oracle" / "planning" / "runs.jsonl"
CARDS = {
    "A100-80": "A100-SXM-80",
    "A100-40": "A100-SXM-40",
    "H100-SXM": "H100-SXM",
    "B200": "B200-HGX",
    "GB200": "GB200",
    "B300": "B300-HGX",
    "GB300": "GB300",
}
"""Names in hardware.csv; TPUs are not modelled."""


@cache
def rows() -> tuple[Row, ...]:
    """All of them."""
    return tuple(json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines())


def timed() -> list[Row]:
    """Those with a layout and a time, on a GPU whose rates are known."""
    return [row for row in rows() if row["gpu"] in CARDS and "micro_batch" in row and "step_time_s" in row]


def stack(row: Row) -> str:
    """The software stack: DeepSpeed's of 2022 is Megatron's before fused attention, too."""
    framework = row["framework"]
    if any(word in framework for word in ("2022", "2023", "DeepSpeed")):
        return "deepspeed"
    return "fsdp" if "FSDP" in framework else "megatron"


def config(row: Row) -> dict[str, Any]:
    """A config.json of the row's shape."""
    arch = row["arch"]
    longest = max(row["seq"], 2048)
    common = {
        "hidden_size": arch["h"],
        "num_hidden_layers": row.get("layers") or arch["L"],
        "num_attention_heads": arch["a"],
        "num_key_value_heads": arch["g"],
        "vocab_size": arch["V"],
        "tie_word_embeddings": not arch["untied"],
        "max_position_embeddings": longest,
    }
    experts = {"num_experts_per_tok": arch.get("k")}
    if mla := arch.get("mla"):
        return {
            **common,
            **experts,
            "model_type": "deepseek_v3",
            "q_lora_rank": mla["q"] or None,
            "kv_lora_rank": mla["kv"],
            "qk_rope_head_dim": mla["r"],
            "qk_nope_head_dim": mla["n"],
            "v_head_dim": mla["v"],
            "intermediate_size": arch["f"],
            "moe_intermediate_size": arch["fe"],
            "n_routed_experts": arch["E"],
            "n_shared_experts": arch["fs"] // arch["fe"],
            "first_k_dense_replace": arch["dense_layers"],
            "n_group": 1,
            "topk_group": 1,
        }
    common["head_dim"] = arch["d"]
    if arch["E"]:
        kind = {"intermediate_size": arch["fe"], "num_local_experts": arch["E"]}
        if window := arch.get("window"):
            kinds = ["sliding_attention", "full_attention"] * arch["L"]
            kind |= {"sliding_window": window, "layer_types": kinds[: common["num_hidden_layers"]]}
        return {**common, **experts, **kind, "model_type": "gpt_oss" if window else "mixtral"}
    model_type = "llama" if arch["gated"] else "nemotron"
    return {**common, "model_type": model_type, "intermediate_size": arch["f"]}


@cache
def _work(text: str, length: int) -> ModelWork:
    return work_of(tfcalc.from_config(json.loads(text)), length)


def work(row: Row) -> ModelWork:
    """What the row's model does."""
    return _work(json.dumps(config(row)), row["seq"])


def machine(row: Row) -> Machine:
    """The row's GPUs among others."""
    nic = row["nic_gbps_node"] * 1e9 / 8 / row["gpus_per_node"] if "nic_gbps_node" in row else None
    card = named(CARDS[row["gpu"]])[0]
    found = machine_of(card, row.get("nvlink_domain") or row["gpus_per_node"], nic)
    assert found is not None
    return found


def layout(row: Row) -> Layouts:
    """The row's layout; as many copies as its GPUs make. Where interleaving is not told, as much as Llama 3 had."""
    tp, pp, cp = row["tp"], row["pp"], row["cp"]
    copies = row["n_gpus"] // (tp * pp * cp)
    kind = row.get("recompute")
    return Layouts(
        tp=tp,
        pp=pp,
        vpp=row.get("vpp") or (8 if pp > 1 else 1),
        cp=cp,
        ep=row["ep"] or 1,
        etp=row.get("etp") or (tp if row["arch"]["E"] else 1),
        dp=copies,
        micro_batch=row["micro_batch"],
        batches=max(1, row["global_batch"] / (copies * row["micro_batch"])),
        zero=row["zero"],
        shards=row.get("hsdp_shard"),
        again=float(kind == "full"),
        attention_again=float(kind == "selective"),
        sequence_parallel=stack(row) != "deepspeed",
    )


def parts(row: Row, known: Mapping[str, Any] | None = None) -> StepParts:
    """Seconds of the row's step, by these rates."""
    by = machine(row)
    rates = rates_of(by.generation, stack(row), known)
    return StepTime(work(row), by, rates, precision=row["precision"].split("-")[0]).parts(layout(row))


def error(row: Row, known: Mapping[str, Any] | None = None) -> float:
    """Estimate over what was published, less one."""
    return float(parts(row, known).seconds) / float(row["step_time_s"]) - 1
