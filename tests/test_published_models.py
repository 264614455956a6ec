"""Every model of params.public.jsonl and params.named.jsonl: parameters, active ones and buffers, to the last one.

The rows were recorded from transformers 5.23.0 (see tests/oracle/README.md); none comes from tfcalc.
"""

from __future__ import annotations

from typing import Any

import pytest

import tfcalc
from tests.conftest import recorded
from tests.groups import by_group
from tfcalc.configs.published import HFModel
from tfcalc.core.component import STORED, Measure
from tfcalc.core.measure import active_params, params, tensors
from tfcalc.core.number import total
from tfcalc.workload import Workload

ROWS = recorded("params.public.jsonl") + recorded("params.named.jsonl")
BUFFERS = Measure(lambda cost: total(buffer.size for buffer in cost.buffers), STORED)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['model_type']}:{row['model']}")
def test_a_published_model_is_counted_exactly(row: dict[str, Any]) -> None:
    root = HFModel(row["config"]).tree(Workload())
    assert root.total(params) == row["total_params"]
    if "active_params" in row:
        assert root.total(active_params) == row["active_params"]
    assert root.total(BUFFERS) == row["persistent_buffers"]


MERGED = {
    # Fused in the published file, three matrices in the recording.
    "llama": [{"attn_q", "attn_k", "attn_v", "attn_qkv"}],
    "glm": [{"attn_q", "attn_k", "attn_v", "attn_qkv"}],
    "qwen2": [{"attn_q", "attn_k", "attn_v", "attn_qkv"}],
    # A tied table that the recording met first at the head; parts of heads and projectors.
    "xlm-roberta": [{"embedding", "lm_head"}],
    "albert": [{"mlm_head", "lm_head"}],
    "mobilebert": [{"mlm_head", "lm_head", "other"}],
    "electra": [{"mlm_head", "other"}],
    "modernbert": [{"lm_head", "other"}],
    "siglip": [{"lm_head", "ssm", "attn_qkv", "other"}],
    "llama4": [{"ffn", "other"}],
    "kimi_k25": [{"attn_o", "other"}],
    "gemma3n_text": [{"ffn", "router", "other"}],
    "nemotron_h": [{"ffn", "ssm"}],
    # Attention's inner parts.
    "deberta": [{"relative_position", "attn_relpos"}],
    "glm_moe_dsa": [{"attn_k", "attn_kv_latent"}],
    "deepseek_v4": [{"attn_q", "attn_v", "attn_qkv", "attn_kv_latent"}, {"norm", "qk_norm"}],
}
"""The recording's labels are heuristic: where they differ from ours, these are compared as one sum."""


def merged(groups: dict[str, Any], model_type: str) -> dict[str, Any]:
    for together in MERGED.get(model_type, []):
        inside = {group: size for group, size in groups.items() if group in together}
        groups = {group: size for group, size in groups.items() if group not in together}
        groups[" + ".join(sorted(together))] = sum(inside.values())
    return groups


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['model_type']}:{row['model']}")
def test_a_published_model_is_counted_group_by_group(row: dict[str, Any]) -> None:
    if sum(row["components"].values()) != row["total_params"]:
        pytest.skip("the recorded groups do not add up to the recorded total")
    ours = by_group(tensors(HFModel(row["config"]).tree(Workload())))
    assert merged(ours, row["model_type"]) == merged(row["components"], row["model_type"])


def test_published_weights_win_over_experts_that_a_library_only_makes_room_for() -> None:
    """LongCat-Flash (arXiv 2509.01322): 560B; 18.6B to 31.3B run, without the table that no product reads.

    transformers makes maps for the 256 experts that do nothing, too.
    """
    found = tfcalc.params(tfcalc.from_config({"model_type": "longcat_flash"}))
    assert round(found.total_params / 1e9) in (560, 561)
    assert found.active_params - 131_072 * 6144 == pytest.approx(31.3e9, rel=0.005)
