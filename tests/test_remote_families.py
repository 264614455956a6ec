"""Types that transformers does not have, against those of the same structure that it has.

The latter are compared with transformers by parameter name, so equal totals here are right totals there.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.verify.random_configs import coin, grouped
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import active_params, params
from tfcalc.errors import InvalidModel
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
