"""vLLM's and SGLang's own log lines, from public threads: each test names its thread. vLLM's "GB" is GiB.

Lines that do not come out, and what they lack: vllm#21348 (Qwen3-235B-A22B on four ranks, 8.11 GiB and 178,880 tokens,
1.1 % fewer than these hold: of the ranks one other had less), vllm#13061 (R1-Distill-Qwen-14B on two, 13.9476 GB, 1.2 %
more than its weights), vllm PR #10909 (Bamba-9B's 18.4902 GB, 1.2 % more), club-3090#295 (Qwen3.6-27B, 620,944 tokens:
no number of pages that were tried has them), vllm#26646 (Qwen3-Next, 90,048 tokens, of ranks that nobody named),
vllm#29796 (Olmo-3-7B: a pool of 57.18 GiB does not have the blocks of its own lines), vllm#51041 (DeepSeek-V4, whose
cache is not paged here); vllm#54458, #15340, #43308, #28228, vllm PR #14447 and QwenLM/Qwen3#16 name no config, no
number of ranks, or round numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest

from tfcalc import Serving, Workload
from tfcalc.catalog import load
from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component
from tfcalc.core.measure import bytes_held
from tfcalc.errors import InvalidModel
from tfcalc.model import Model
from tfcalc.placed.layout import Layout
from tfcalc.placed.rules import on_device
from tfcalc.placed.served import ServedLayout
from tfcalc.serving.engine_rules import Profile, engine, loaded
from tfcalc.serving.paging import STATE, CachePool, Engine, layers, pool, pools
from tfcalc.serving.ranks import ServingRanks
from tfcalc.serving.weight_formats import single
from tfcalc.serving.weights import weights

GIB = 2**30
CLOSE = 1e-3
OLMO_3_7B: Mapping[str, Any] = {
    "model_type": "olmo3",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "intermediate_size": 11008,
    "vocab_size": 100278,
    "sliding_window": 4096,
}
BAMBA_9B: Mapping[str, Any] = {
    "model_type": "bamba",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "attn_layer_indices": [9, 18, 27],
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "mamba_n_heads": 128,
    "mamba_d_head": 64,
    "mamba_d_state": 256,
}
QWEN_27B: Mapping[str, Any] = {  # 16 of 64 layers see everything, the others are gated delta networks
    "model_type": "qwen3_5_text",
    "hidden_size": 5120,
    "num_hidden_layers": 64,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}

QWEN_35B: Mapping[str, Any] = {  # 10 of 40 layers see everything; nothing else of it decides about the cache
    "model_type": "qwen3_5_moe_text",
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}


def gib(size: float) -> int:
    return int(size * GIB)


def decoding(model: Any) -> Component:
    tree: Component = model.tree(Workload(phase="decode", cached=4096))
    return tree


def pool_of(model: Any, **settings: Any) -> CachePool:
    engine = Engine(**settings)
    return pool(layers(decoding(model), engine), engine)


def in_gib(found: CachePool, length: int) -> Fraction:
    """What a request takes, with two decimals as it is printed."""
    size = found.bytes(1, length)
    assert isinstance(size, int)
    return round(Fraction(size, GIB), 2)


def changed(name: str, **fields: Any) -> HFModel:
    """A preset with other fields."""
    model = load(name)
    assert isinstance(model, HFModel)
    return HFModel({**model.data, **fields})


def loaded_gib(model: Model, positions: int, ranks: int, format: str, keep: Sequence[str] = ()) -> float:
    """The weights of one rank, and a 16-bit cosine and sine for each pair of 128 rotated numbers at each position."""
    (share,) = on_device(model.module(), Layout(ranks, rows=1)).components()  # its vocabulary is not filled up
    size = weights(share, single(format), keep=keep).total(bytes_held)
    assert isinstance(size, int)
    return (size + 2 * positions * 128) / GIB


@pytest.mark.parametrize(
    ("name", "positions", "ranks", "format", "logged"),
    [
        ("llama-3.1-8b", 131072, 1, "bf16", 14.9888),  # vllm#10517
        ("llama-3-8b", 8192, 1, "bf16", 14.96),  # vllm PR #10511
        ("llama-3-8b", 8192, 2, "bf16", 7.48),  # the same
        ("llama-3.1-8b", 131072, 8, "bf16", 1.9028),  # mlcommons/inference#2267
        ("llama-3-8b", 8192, 4, "bf16", 3.7418),  # genlm/genlm-backend#10
        ("llama-3.1-70b", 131072, 1, "w8a8", 67.7229),  # vllm PR #12569
    ],
)
def test_what_loading_took_is_the_weights_and_a_table_of_sines(
    name: str, positions: int, ranks: int, format: str, logged: float
) -> None:
    assert loaded_gib(load(name), positions, ranks, format) == pytest.approx(logged, rel=CLOSE)


def of_qwen_vl_72b() -> HFModel:
    """Qwen2.5-VL-72B's config: that of 7B, with other sizes."""
    model = load("qwen2.5-vl-7b-instruct")
    assert isinstance(model, HFModel)
    tower: dict[str, Any] = model.data["vision_config"]  # type: ignore[assignment]
    vision = {**tower, "out_hidden_size": 8192, "intermediate_size": 3456}
    sizes = {"hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8}
    return HFModel({**model.data, **sizes, "intermediate_size": 29568, "vision_config": vision})


@pytest.mark.parametrize(
    ("model", "ranks", "format", "logged"),
    [
        (load("qwen3-30b-a3b"), 4, "bf16", 14.2474),  # vllm#17327, #17469
        (of_qwen_vl_72b(), 4, "bf16", 34.4340),  # vllm#16570
        (load("qwen2.5-7b"), 1, "awq", 5.20),  # vllm#13882
    ],
    ids=["qwen3-30b-a3b", "qwen2.5-vl-72b", "qwen2.5-7b-awq"],
)
def test_a_rank_loads_what_its_log_says(model: Model, ranks: int, format: str, logged: float) -> None:
    """With the rules that ``memory --serve`` has: towers of images and tables of sines are in it."""
    plan = Serving(context=4096, weights=format)
    (rank,) = ServingRanks(model, ServedLayout(tp=ranks), Workload(), plan).each
    assert loaded(rank, model) / GIB == pytest.approx(logged, rel=1e-2)


@pytest.mark.parametrize(
    ("rules", "memory", "share", "weights", "profiled", "nontorch", "graphs", "left"),
    [
        ("vllm@0.10", 8.00, 0.70, 5.20, 1.42, 0.03, 0.0, -1.05),  # vllm#13882
        ("vllm@0.10", 39.38, 0.95, 34.434, 2.51, 0.34, 0.0, 0.13),  # vllm#16570, the rank with most
        ("vllm@0.10", 39.38, 0.95, 34.434, 2.51, 0.43, 0.0, 0.04),  # and the one with least
        ("vllm@0.10", 31.40, 0.92, 15.03, 1.59, 0.0, 0.09, 12.26),  # noonghunna/club-3090#1087
        ("vllm@0.24", 79.33, 0.85, 16.92, 5.66, 0.13, 1.34, 43.4),  # vllm#50722: graphs are counted before
    ],
)
def test_what_is_left_is_a_share_of_the_card_less_what_the_log_lists(
    rules: str,
    memory: float,
    share: float,
    weights: float,
    profiled: float,
    nontorch: float,
    graphs: float,
    left: float,
) -> None:
    profile = Profile(gib(profiled), gib(nontorch), gib(graphs))
    found = engine(rules).available(gib(weights), profile, gib(memory), share) / GIB
    assert found == pytest.approx(left, rel=CLOSE, abs=0.005)


def test_half_of_a_model_in_fp8_loads_as_logged() -> None:
    """vllm#6746: attention and the outer layers in bf16, keys and values of 16 heads, eight ranks."""
    model = changed("llama-3.1-405b", num_key_value_heads=16)  # as first uploaded: each stored twice
    kept = ("self_attn", "layers.0", "layers.125", "lm_head")
    assert loaded_gib(model, 131072, 8, "fp8", kept) == pytest.approx(57.7520, rel=CLOSE)


def test_llama_8b_has_the_blocks_and_the_concurrency_of_its_log() -> None:
    """vllm#10517: 3.81 GiB are 1952 blocks, 1.56 requests of 20000 tokens; 2.89 GiB are 1478 blocks."""
    found = pool_of(load("llama-3.1-8b"))
    assert found.blocks(gib(3.805)) < 1952 < found.blocks(gib(3.815))  # it is printed with two decimals
    assert round(found.requests(1952, 20000), 2) == Fraction("1.56")
    assert found.blocks(gib(2.89)) == pytest.approx(1478, rel=CLOSE)
    assert found.slots(1478) == 23648
    assert round(found.requests(1478, 29000), 2) == Fraction("0.82")


def test_llama_70b_has_the_concurrency_of_its_log() -> None:
    """vllm PR #12569: 1,381 blocks, 10.79 requests of 2048 tokens."""
    assert round(pool_of(load("llama-3.1-70b")).requests(1381, 2048), 2) == Fraction("10.79")


def test_eight_ranks_have_the_concurrency_of_their_log() -> None:
    """mlcommons/inference#2267: 464,716 blocks, 56.73 requests of 131072 tokens."""
    assert round(pool_of(load("llama-3.1-8b"), tensor_parallel=8).requests(464716, 131072), 2) == Fraction("56.73")


def test_latent_vectors_are_not_divided_among_ranks_and_the_longer_stage_binds() -> None:
    """vllm PR #20665: two stages of two ranks, 807,792 tokens, 788.86 requests of 1024."""
    found = pools(decoding(load("deepseek-v2-lite")), Engine(tensor_parallel=2), pipeline=2)
    tokens = [stage.slots(stage.blocks(gib(size))) for stage, size in zip(found, (12.13, 11.33), strict=True)]
    assert min(tokens) == tokens[0] == pytest.approx(807_792, rel=CLOSE)
    assert round(found[0].requests(807_792 // 16, 1024), 2) == Fraction("788.86")


def test_latent_vectors_take_what_the_error_says() -> None:
    """vllm#15871: DeepSeek-V2-Lite needs 0.95 GiB for 32768 tokens."""
    assert in_gib(pool_of(load("deepseek-v2-lite")), 32768) == Fraction("0.95")


def test_deepseek_v3_has_the_concurrency_of_its_log() -> None:
    """vllm#15928: 107,824 tokens, 3.29 requests of 32768."""
    assert round(pool_of(load("deepseek-v3")).requests(107_824 // 16, 32768), 2) == Fraction("3.29")


def test_layers_of_two_kinds_share_the_pool_evenly() -> None:
    """hf-mem#60: gpt-oss-120b, 5.38 GiB, 78,384 tokens as older versions count them."""
    found = pool_of(load("gpt-oss-120b"))
    assert found.slots(found.blocks(gib(5.38))) == pytest.approx(78_384, rel=CLOSE)


def test_without_the_hybrid_manager_windows_are_kept_whole() -> None:
    """hf-mem PR #61: gemma-4-31B, 24.54 GiB, 26,800 tokens."""
    found = pool_of(load("gemma-4-31b-it-nvfp4"), hybrid=False, filled=True)
    assert found.slots(found.blocks(gib(24.54))) == 26_800


@pytest.mark.parametrize(("version", "logged"), [("vllm@0.25.1", "45.79"), ("vllm@0.26.0", "70.79")])
def test_steps_under_way_count_for_each_window(version: str, logged: str) -> None:
    """vllm#49878: gemma-4-31B, 32768 tokens a step, 131072 a request; one step under way, then two."""
    in_flight = engine(version).in_flight
    found = pool_of(load("gemma-4-31b-it-nvfp4"), batched=32768, in_flight=in_flight, filled=True)
    assert in_gib(found, 131072) == Fraction(logged)


def test_a_window_takes_a_block_more_but_no_longer_request() -> None:
    """vllm PR #29796: Olmo-3-7B, 23.73 requests of 6144 tokens, or 11.12 of 34048 (2048 tokens a step)."""
    found = pool_of(HFModel(OLMO_3_7B), batched=2048)
    assert found.requests(1, 6144) / found.requests(1, 34048) == pytest.approx(23.73 / 11.12, rel=CLOSE)


def test_windows_and_full_layers_are_grouped_with_padding() -> None:
    """ovg-project/kvcached#215: gemma-3-4b, 317,136 tokens, 102.78 requests of 3072, one layer of padding."""
    found = pool_of(load("gemma-3-4b-it"))
    blocks = 317_136 // 16 * 7
    assert (len(found.groups), found.size) == (7, 5)  # 29 layers of a window in six groups of five
    assert found.slots(blocks) == 317_136
    assert round(found.requests(blocks, 3072), 2) == Fraction("102.78")


def test_a_model_of_windows_only_admits_what_its_log_says() -> None:
    """vllm PR #19029: starcoder2-3b, 2,198,512 tokens: 178.68 requests of 16384, and 134.19 before it saw windows."""
    windowed = changed("starcoder2-3b", sliding_window=4096)
    assert round(pool_of(windowed, hybrid=False).requests(2_198_512 // 16, 16384), 2) == Fraction("134.19")
    assert round(pool_of(windowed).requests(2_198_512 // 16, 16384), 2) == Fraction("178.68")


def test_sglang_keeps_as_many_bytes_of_keys_as_it_says() -> None:
    """vllm#21348: Qwen3-235B-A22B on four ranks: 367,404 tokens, keys of 8.23 "GB"."""
    found = layers(decoding(load("qwen3-235b-a22b")), Engine(tensor_parallel=4))
    keys = sum(layer.page.bytes for layer in found) // 2 * 367_404
    assert round(Fraction(keys, GIB), 2) == Fraction("8.23")


def test_a_quarter_of_a_million_tokens_take_24_gib() -> None:
    """vllm#34076: Qwen3-Coder-30B-A3B, 262144 tokens."""
    assert pool_of(load("qwen3-30b-a3b")).bytes(1, 262_144) == 24 * GIB


def test_states_apart_leave_the_pool_to_the_few_attention_layers() -> None:
    """vllm PR #10909: Bamba-9B, 34.78 GiB, 189,945 blocks, 2967.89 requests of 1024 tokens."""
    engine = Engine()
    attention = [layer for layer in layers(decoding(HFModel(BAMBA_9B)), engine) if layer.page.kind != STATE]
    found = pool(attention, engine)
    assert found.blocks(gib(34.78)) == 189_945
    assert round(found.requests(189_945, 1024), 2) == Fraction("2967.89")


@pytest.mark.parametrize(
    ("ranks", "format", "block"),
    [
        (2, "fp8", 1568),  # mitchross/talos-argocd-proxmox PR #1995
        (1, "fp8", 1568),  # noonghunna/club-3090#1047
        (4, "fp16", 784),  # 1CatAI/1Cat-vLLM#237
    ],
)
def test_a_state_makes_blocks_long_and_is_filled_up(ranks: int, format: str, block: int) -> None:
    """All three print "Padding mamba page size by 0.13%"."""
    found = pool_of(HFModel(QWEN_27B), tensor_parallel=ranks, format=format)
    states = next(group.page.bytes for group in found.groups if group.page.kind == STATE)
    assert {group.block for group in found.groups} == {block}
    assert round(Fraction(found.page - states, states) * 100, 2) == Fraction("0.13")


def test_states_and_keys_share_the_pool() -> None:
    """mitchross/talos-argocd-proxmox PR #1995: 4.99 GiB on each of two, 302,921 tokens, 2.31 requests of 131072."""
    found = pool_of(HFModel(QWEN_27B), tensor_parallel=2, format="fp8", state_pages=2)
    blocks = found.blocks(gib(4.99))
    assert found.tokens(blocks, 131072) == 302_921
    assert round(found.requests(blocks, 131072), 2) == Fraction("2.31")


@pytest.mark.parametrize(
    ("model", "ranks", "format", "size", "context", "tokens", "most"),
    [
        (QWEN_35B, 1, "fp8", 5.98, 131_072, 567_978, "4.33"),  # noonghunna/club-3090#612
        (QWEN_27B, 4, "fp16", 5.35, 8192, 215_401, "26.29"),  # 1CatAI/1Cat-vLLM#237
    ],
)
def test_a_pool_with_states_has_the_tokens_of_its_log(
    model: Mapping[str, Any], ranks: int, format: str, size: float, context: int, tokens: int, most: str
) -> None:
    """Two pages of a state, as where prefixes are cached."""
    found = pool_of(HFModel(model), tensor_parallel=ranks, format=format, state_pages=2)
    blocks = found.blocks(gib(size))
    assert found.tokens(blocks, context) == tokens
    assert round(found.requests(blocks, context), 2) == Fraction(most)


@pytest.mark.parametrize(("blocks", "tokens"), [(491, 377_456), (580, 445_875)])
def test_whole_blocks_have_the_tokens_of_a_log(blocks: int, tokens: int) -> None:
    """vllm-project/recipes#810: Qwen3.8-27B on two ranks, weights in fp8 or nvfp4, so that there are fewer blocks or
    more. No other number of blocks has so many tokens of requests of 262,144.
    """
    found = pool_of(HFModel(QWEN_27B), tensor_parallel=2, state_pages=2)
    near = {found.tokens(blocks + more, 262_144) for more in (-1, 0, 1)}
    assert found.tokens(blocks, 262_144) == tokens
    assert len(near) == 3


def test_two_numbers_of_a_log_that_contradict_each_other_are_of_one_pool() -> None:
    """vllm#40691: Qwen3.5-27B, 290,864 tokens, which is a group's share, and 33.04 requests of 32768."""
    found = pool_of(HFModel(QWEN_27B))
    block = found.groups[0].block
    pools = [blocks for blocks in range(1480, 1490) if found.slots(blocks) == 290_864]
    assert 290_864 % block == 0
    assert Fraction("33.04") in {round(found.requests(blocks, 32_768), 2) for blocks in pools}


def test_a_pool_that_is_too_small_is_known_to_be() -> None:
    """vllm#27508: gpt-oss-120b, 1.71 GiB, which one request of 131072 tokens does not fit into."""
    found = pool_of(load("gpt-oss-120b"))
    assert found.requests(found.blocks(gib(1.71)), 131_072) < 1


def test_what_is_not_paged_is_refused() -> None:
    with pytest.raises(InvalidModel, match="stores one key per 4 tokens"):
        pool_of(load("deepseek-v4-flash"))
