"""Edits of a named model's config: experts, windows and attention that it was not published with."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Quick
from tfcalc.configs.edits import edited
from tfcalc.configs.published import HFModel
from tfcalc.errors import UsageError

# transformers 5.23 on the meta device: the preset's config with the fields below changed, built by AutoModel's class
# for it, each parameter's numel once. Of latent attention: model_type deepseek_v3, first_k_dense_replace above the
# number of layers, kv_lora_rank as said, q_lora_rank null, qk_nope_head_dim 128, qk_rope_head_dim 64, v_head_dim 128,
# num_key_value_heads as many as there are heads.
PARAMS = [
    ("mixtral-8x7b --experts 64 --active 8", 362_390_228_992),  # num_local_experts, num_experts_per_tok
    ("qwen3-30b-a3b --num-experts 64 --active 4", 16_030_316_544),  # num_experts, num_experts_per_tok
    ("llama-3.1-8b --as mixtral --experts=8 --moe-router-topk 2", 47_491_321_856),
    ("llama-3.1-8b --attention mla", 8_239_992_832),
    ("qwen3-8b --attention mla:256", 8_313_418_752),
    ("llama-3.1-8b --attention-kind mqa", 7_795_380_224),  # num_key_value_heads 1
    ("gpt-oss-20b --window 1024", 20_914_757_184),
]


@pytest.mark.parametrize(("words", "params"), PARAMS)
def test_parameters_are_those_of_the_edited_config(words: str, params: int, quick: Quick) -> None:
    done = quick("params", *words.split(), "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{params}\n", "")


# Layers by kind of transformers' StaticCache of the edited config, max_cache_len 32768: windowed ones of this many
# tokens, and the others. A layer stores 2 (keys and values) x heads x width x 2 bytes of bf16 for each token.
CACHES = [
    ("gemma-3-12b-it --window 2048:3/4", 36, 2048, 12, 2 * 8 * 256 * 2),
    ("gemma-3-12b-it --window none", 0, 0, 48, 2 * 8 * 256 * 2),
    ("qwen2.5-7b --window 4k", 28, 4096, 0, 2 * 4 * 128 * 2),
    ("qwen2.5-7b --window 4096:5/6", 24, 4096, 4, 2 * 4 * 128 * 2),
    ("mistral-7b-v0.3 --window 4096", 32, 4096, 0, 2 * 8 * 128 * 2),
    ("mistral-7b --as ministral --window 4096:1/2", 16, 4096, 16, 2 * 8 * 128 * 2),
    ("gpt-oss-20b --window 1024", 12, 1024, 12, 2 * 8 * 64 * 2),
]


@pytest.mark.parametrize(("words", "windowed", "width", "others", "per_token"), CACHES)
def test_the_cache_is_that_of_the_edited_windows(
    words: str, windowed: int, width: int, others: int, per_token: int, quick: Quick
) -> None:
    asked = ("--serve", "--context", "32k", "--cache", "static", "--json")
    told = json.loads(quick("memory", *words.split(), *asked).stdout)
    assert told["kv_cache_bytes"] == (windowed * width + others * 32768) * per_token


def test_latent_attention_caches_its_rank_and_rotary_key(quick: Quick) -> None:
    """DeepSeek-V2 (arXiv 2405.04434), table 1: (d_c + d_h^R) l numbers of each token, here (512 + 64) x 32 layers."""
    told = json.loads(
        quick("memory", "llama-3.1-8b", "--attention", "mla", "--serve", "--context", "32k", "--json").stdout
    )
    assert told["kv_cache_bytes"] == (512 + 64) * 32 * 32768 * 2


def test_edits_are_said_in_header_and_json(quick: Quick) -> None:
    edit = ("gemma-3-12b-it", "--window", "2048:3/4")
    said = "with text_config.sliding_window 2048, text_config.layer_types (36 sliding_attention, 12 full_attention)"
    for words in (("params",), ("memory", "--serve")):
        assert said in quick(words[0], *edit, *words[1:]).stdout
    changed = json.loads(quick("params", *edit, "--json").stdout)["model"]["changed"]
    assert changed["text_config.layer_types"][2:4] == ["sliding_attention", "full_attention"]


def test_a_sweep_over_experts_grows_by_the_same_for_each(quick: Quick) -> None:
    """transformers on meta: 8 experts of Mixtral are 46,702,792,704 parameters, 64 are 362,390,228,992."""
    told = json.loads(quick("sweep", "mixtral-8x7b", "--num-experts", "8,36,64", "--json").stdout)
    assert told["columns"][-1]["values"] == [46_702_792_704, (46_702_792_704 + 362_390_228_992) // 2, 362_390_228_992]


def test_an_edit_of_one_side_is_a_difference(quick: Quick) -> None:
    told = json.loads(quick("diff", "mixtral-8x7b", "mixtral-8x7b --experts 64 --active 8", "--json").stdout)
    assert {field["field"] for field in told["fields"]} == {"num_local_experts", "num_experts_per_tok"}


REFUSED = [
    ("llama-3.1-8b --experts 8", "a llama config has no experts; read it as a family that has: --as mixtral"),
    ("gpt2 --active 2", "a gpt2 config has no experts; families that have: mixtral, qwen3_moe, "),
    ("mixtral-8x7b --experts 4 --active 8", "8 experts per token are more than the 4 that there are"),
    ("mixtral-8x7b --experts 1", "2 experts per token are more than the 1 that there are"),
    ("llama-3.1-8b --window 4096", "read it as a family that has: --as mistral"),
    ("llama-3.1-8b --window 4096:5/6", "read it as a family that has: --as ministral"),
    ("mistral-7b --window 4096:5/6", "a mistral config cannot say that some layers have this window"),
    ("mistral-7b-v0.3 --window none", "no layer has a window"),
    ("qwen2.5-7b --window 4096:7/6", "windows '4096:7/6' are not known"),
    ("t5-small --window 64", "a t5 config has no window"),
    ("deepseek-v3 --attention mla", "has latent attention as it is"),
    ("deepseek-v3 --attention mha", "has latent attention alone"),
    ("swin-small-patch4-window7-224 --attention mha", "a swin config has no one number of heads"),
    ("mixtral-8x7b --attention mla", "no field for latent attention; llama, mistral, qwen2, qwen3"),
    ("mistral-7b --window 4096 --attention mla", "latent attention has no window"),
    ("--experts 8", "has no effect on the classic model; name a model"),
    ("--window 64", "give --pattern local:N"),
]


@pytest.mark.parametrize(("words", "told"), REFUSED)
def test_what_no_field_can_say_is_refused_in_a_line(words: str, told: str, quick: Quick) -> None:
    done = quick("params", *words.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr


def test_a_window_takes_the_place_of_no_other_kind_of_layer() -> None:
    """MiniMax-Text-01 has lightning attention in seven of eight layers (arXiv 2501.08313): they have no window."""
    with pytest.raises(UsageError):
        edited(HFModel({"model_type": "minimax"}), {"windows": "4096:7/8"})
