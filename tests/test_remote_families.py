"""Types that transformers does not have, against those of the same structure that it has.

The latter are compared with transformers by parameter name, so equal totals here are right totals there.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.verify.random_configs import coin, grouped
from tfcalc import memory
from tfcalc.answers.memory_base import Memory
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import active_params, params
from tfcalc.errors import InvalidModel
from tfcalc.plans import Training
from tfcalc.training.measured import NEVER, TABLE, table
from tfcalc.workload import Workload

CHATGLM = {
    "num_layers": "num_hidden_layers",
    "ffn_hidden_size": "intermediate_size",
    "padded_vocab_size": "vocab_size",
    "multi_query_group_num": "num_key_value_heads",
    "kv_channels": "head_dim",
}
FULL = {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 5.25}}
NO_OP, LINEAR = {"no_op": True}, {"replace_with_linear": True}
NEMOTRON = {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 100}


def total(model_type: str, fields: dict[str, Any]) -> Any:
    return HFModel({"model_type": model_type, **fields}).tree(Workload()).total(params)


def drawn(seed: int) -> dict[str, Any]:
    random = Random(seed)
    return grouped(random) | {"bias": coin(random)}


STEP = Workload(phase="train", batch_size=2, seq_len=20)


def step_of(model_type: str, fields: dict[str, Any]) -> Memory:
    return memory(HFModel({"model_type": model_type, **fields}), STEP, training=Training(precision="bf16"))


def saved(model_type: str, fields: dict[str, Any]) -> Any:
    return step_of(model_type, fields).totals["activations_bytes"]


@pytest.mark.parametrize("seed", range(5))
def test_each_saves_for_backward_what_its_kin_does(seed: int) -> None:
    """Their kin was compared with PyTorch's own steps, tensor by tensor (tests/verify/test_errors_as_measured.py).

    Peaks are equal where maps are: the gradient of a map of queries, keys and values at once (W_pack) comes at once.
    """
    fields = drawn(seed)
    alone = {**fields, "num_key_value_heads": fields["num_attention_heads"]}
    bias, d = fields["bias"], fields["hidden_size"] // fields["num_attention_heads"]
    assert saved("baichuan", alone) == saved("llama", alone)
    assert saved("minicpm", fields) == saved("llama", fields)  # which scales by numbers, and saves nothing for that
    assert saved("internlm2", fields) == saved("llama", {**fields, "attention_bias": bias})
    doubled = {**alone, "intermediate_size": 2 * fields["intermediate_size"], "kv_channels": d}
    assert saved("qwen", doubled) == saved("qwen2", alone)
    assert step_of("mimo", fields).answer == step_of("qwen2", fields).answer
    assert step_of("internlm", alone).answer == step_of("llama", {**alone, "attention_bias": bias}).answer


def test_a_step_of_kimi_k2_takes_what_that_of_deepseek_v3_does() -> None:
    small = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 3}
    fields = {**small, "intermediate_size": 96, "vocab_size": 100, "n_routed_experts": 8, "moe_intermediate_size": 32}
    assert step_of("kimi_k2", fields).answer == step_of("deepseek_v3", fields).answer


def test_a_step_of_equal_blocks_of_a_nemotron_takes_what_that_of_a_llama_does() -> None:
    fields = {**NEMOTRON, "num_hidden_layers": 3}
    kin = step_of("llama", {**fields, "intermediate_size": 1792})
    assert step_of("nemotron-nas", {**fields, "block_configs": [FULL] * 3}).answer == kin.answer


def test_those_that_were_never_compared_are_marked() -> None:
    said = "Accuracy: what this class saves for backward was never compared with tensors of a run"
    marked = [name for name, classes in table().items() if None in classes.values()]
    assert {"internlm2", "kimi_k2", "qwen"} <= set(marked)
    for model_type in marked:
        small = {"num_hidden_layers": 2, "block_configs": [FULL] * 2} if model_type == "nemotron-nas" else {}
        model = HFModel({"model_type": model_type, **small})
        found = memory(model, STEP, training=Training())
        assert said in found.notes
        assert found.to_dict()["compared"] is False
    known = memory(HFModel({"model_type": "llama"}), STEP, training=Training())
    assert said not in known.notes
    assert "compared" not in known.to_dict()


def test_a_line_of_the_table_is_all_that_the_mark_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What CONTRIBUTING tells of a new type: this class of BERT was not compared, and so is refused without a line."""
    model = HFModel({"model_type": "bert", "architectures": ["BertForMultipleChoice"]})
    with pytest.raises(InvalidModel, match="training memory is not supported for BertForMultipleChoice"):
        memory(model, STEP, training=Training())
    lines = tmp_path / TABLE.name
    lines.write_text(TABLE.read_text(encoding="utf-8") + f"bert,BertForMultipleChoice,{NEVER}\n", encoding="utf-8")
    monkeypatch.setattr("tfcalc.training.measured.TABLE", lines)
    table.cache_clear()
    try:
        assert any("was never compared" in note for note in memory(model, STEP, training=Training()).notes)
    finally:
        table.cache_clear()


@pytest.mark.parametrize("seed", range(10))
def test_each_is_as_large_as_its_kin(seed: int) -> None:
    fields = drawn(seed)
    alone = {**fields, "num_key_value_heads": fields["num_attention_heads"]}
    bias, heads = fields["bias"], fields["num_attention_heads"]
    d = fields["hidden_size"] // heads
    assert total("mimo", fields) == total("qwen2", fields)
    assert total("baichuan", alone) == total("llama", alone)
    assert total("minicpm", fields) == total("llama", fields)
    assert total("internlm", alone) == total("llama", {**alone, "attention_bias": bias})
    assert total("internlm2", fields) == total("llama", {**fields, "attention_bias": bias})
    assert total("qwen", {**alone, "intermediate_size": 2 * fields["intermediate_size"], "kv_channels": d}) == (
        total("qwen2", alone)
    )
    theirs = {"attention_bias": bias, "head_dim": 6}
    ours = {"add_qkv_bias": bias, "multi_query_attention": True}
    ours |= {name: {**fields, **theirs}[other] for name, other in CHATGLM.items()}
    ours |= {"hidden_size": fields["hidden_size"], "num_attention_heads": heads}
    ours |= {"tie_word_embeddings": fields["tie_word_embeddings"]}
    assert total("chatglm", ours) == total("glm", {**fields, **theirs})


def test_orion_has_layernorms_with_biases() -> None:
    fields = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3, "intermediate_size": 96}
    assert total("orion", fields) == total("llama", {**fields, "vocab_size": 84608}) + 7 * 64


def test_minicpm_may_have_experts() -> None:
    fields = {"num_experts": 8, "num_experts_per_tok": 2, "tie_word_embeddings": False, "num_hidden_layers": 2}
    ours = HFModel({"model_type": "minicpm", **fields}).tree(Workload())
    kin = {**fields, "num_local_experts": 8, "vocab_size": 32000, "intermediate_size": 11008, "num_key_value_heads": 32}
    theirs = HFModel({"model_type": "mixtral", **kin}).tree(Workload())
    assert (ours.total(params), ours.total(active_params)) == (theirs.total(params), theirs.total(active_params))


def test_a_nemotron_of_equal_blocks_is_a_llama() -> None:
    fields = {**NEMOTRON, "num_hidden_layers": 3}
    assert total("nemotron-nas", {**fields, "block_configs": [FULL] * 3}) == (
        total("llama", {**fields, "intermediate_size": 1792})
    )


def test_blocks_of_a_nemotron_may_be_missing_or_linear() -> None:
    h, f = 512, 512
    blocks = [{"attention": NO_OP, "ffn": {"ffn_mult": 1.3125}}, {"attention": LINEAR, "ffn": NO_OP}]
    found = total("nemotron-nas", {**NEMOTRON, "num_hidden_layers": 2, "block_configs": blocks})
    assert found == 2 * 100 * h + h + (3 * h * f + h) + (h * h + h)


@pytest.mark.parametrize(
    ("blocks", "named"),
    [
        (None, "block_configs"),
        ([3], r"block_configs\[0\]"),
        ([{"attention": NO_OP, "ffn": {"ffn_mult": "2"}}], r"block_configs\[0\].ffn.ffn_mult"),
        ([{"attention": {"n_heads_in_group": 3}, "ffn": NO_OP}], r"block_configs\[0\].attention.n_heads_in_group"),
    ],
)
def test_bad_blocks_are_named(blocks: object, named: str) -> None:
    with pytest.raises(InvalidModel, match=named):
        total("nemotron-nas", {**NEMOTRON, "num_hidden_layers": 1, "block_configs": blocks})


def test_the_first_chatglm_is_refused() -> None:
    with pytest.raises(InvalidModel, match="inner_hidden_size"):
        total("chatglm", {"inner_hidden_size": 16384})
