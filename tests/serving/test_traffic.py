"""Bytes that a step of serving reads and writes: laws, and sums by hand from the configs."""

from __future__ import annotations

import math
import random
from functools import cache

import pytest

import tfcalc
from tfcalc import Workload
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import bytes_held, matmul_flops
from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.core.traced import value_of
from tfcalc.defaults import resolve_serving
from tfcalc.plans import Serving
from tfcalc.serving.stored import weight_recipe
from tfcalc.serving.traffic import ChosenExperts, Traffic
from tfcalc.serving.weights import hold

DENSE, GROUPED, WINDOWS = "gpt2", "llama-3-8b", "gpt-oss-120b"
LATENT, INDEXED, STATES, EXPERTS = "deepseek-v3", "glm-5", "qwen3.5-397b-a17b", "mixtral-8x7b"
EVERY = (DENSE, GROUPED, WINDOWS, LATENT, INDEXED, STATES, EXPERTS)


@cache
def traffic(name: str, **plan: str) -> Traffic:
    """The traffic of a preset."""
    model = tfcalc.load(name)
    run, made = resolve_serving(model, Workload(), Serving(context=4096, **plan))  # type: ignore[arg-type]
    return Traffic(model, run, made)


def test_by_hand() -> None:
    """Llama 3 8B, Mixtral 8x7B and DeepSeek-V3, of their configs' fields: weights without the table, which is gathered,
    a row for each token; and 2 · 8 · 128 · 2 bytes a token and layer, or 576 · 2 latent ones.
    """
    step = traffic(GROUPED).decode(3, 1000)
    assert step.least_weights == 2 * (8_030_261_248 - 128_256 * 4096) + 3 * 4096 * 2
    assert step.cached == 3 * 1000 * 32 * (2 * 8 * 128 * 2)
    assert step.written == 3 * 32 * (2 * 8 * 128 * 2)
    step = traffic(EXPERTS).decode(2, 100)
    expert, layers = 3 * 4096 * 14336, 32
    rest = layers * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 4096 * 8 + 2 * 4096) + 4096 + 4096 * 32000
    assert step.least_weights == 2 * (rest + 2 * layers * expert) + 2 * 4096 * 2
    assert step.most_weights == 2 * (rest + 4 * layers * expert) + 2 * 4096 * 2
    assert step.expected_weights == 2 * (rest + 3.5 * layers * expert) + 2 * 4096 * 2
    assert traffic(LATENT).decode(5, 700).cached == 5 * 700 * 61 * 576 * 2


def test_a_table_that_nothing_is_looked_up_in_is_not_read() -> None:
    """T5-small's 6 layers by hand: q, k, v, o, of its cross-attention q and o, two matrices, three norms; and
    the head, which is the table that encoder and decoder share, of which a row is looked up.
    """
    layer = 6 * 512 * 512 + 2 * 512 * 2048 + 3 * 512
    assert traffic("t5-small").decode(1, 100).least_weights == 2 * (6 * layer + 512 + 32_128 * 512) + 512 * 2
    for name in ("t5-small", "bart-large", "opus-mt-en-de", "whisper-large-v3", "led-base-16384"):
        alone = value_of(traffic(name).decoded(1, 100).total(bytes_held))
        assert value_of(traffic(name).decode(1, 100).least_weights) < alone


def test_windows_indexers_and_states() -> None:
    """GPT-OSS has windows of 128 tokens in 18 of 36 layers; GLM-5 reads 128 index keys of every token, and 576 numbers
    of the 2,048 that are chosen; Qwen3.5 has 45 states of 64 x 128 x 256 numbers in fp32 and 15 layers with 2 heads.
    """
    token = 2 * 8 * 64 * 2
    for length in (100, 128, 129, 5000):
        assert traffic(WINDOWS).decode(1, length).cached == 18 * token * (length + min(length, 128))
        chosen = 78 * 2 * (128 * length + 576 * min(length, 2048))
        assert traffic(INDEXED).decode(1, length).cached == chosen
    convolution, state = 12288 * 4 * 2, 64 * 128 * 128 * 4
    step = traffic(STATES).decode(2, 1000)
    assert step.cached == 2 * (45 * (convolution + state) + 15 * 1000 * 2 * 2 * 256 * 2)
    assert step.written == 2 * (45 * (convolution + state) + 15 * 2 * 2 * 256 * 2)


def test_attention_to_chosen_keys() -> None:
    """By hand: GLM-5 has 64 heads of 576 + 512 numbers in decoding and 256 + 256 in a prompt, each for 2,048 keys; its
    indexer 32 heads of 128, and their weights, for all. Of DeepSeek-V4-Flash every other layer but two chooses 512 of
    a summary of each 4 tokens, the others read one of each 128, and all a window of 128.
    """
    for cached in (1000, 100_000):
        step = traffic(INDEXED).decode(3, cached)
        attend = sum(one.layers * one.flops for one in step.operations if one.kind == "attend")
        assert attend == 3 * 78 * 2 * (64 * 1088 * min(cached, 2048) + 32 * 129 * cached)
        assert step.stored == 3 * 78 * 2 * (576 + 128) * cached
    pairs = sum(min(place, 2048) for place in range(1, 10_001))
    step = traffic(INDEXED).prefill(1, 10_000)
    attend = sum(one.layers * one.flops for one in step.operations if one.path.endswith(".attend"))
    assert attend == 78 * 2 * 64 * 512 * pairs
    flash = traffic("deepseek-v4-flash")
    found = {one.path.rpartition("model.")[2]: one for one in flash.decode(1, 100_000).operations}
    summaries, chosen = 25_000, 512
    assert found["layers[4-42:2].self_attn.attend_compressed"].flops == 2 * 2 * 64 * 512 * chosen
    assert found["layers[4-42:2].self_attn.compressor.indexer.score"].flops == 2 * 64 * 128 * summaries
    assert found["layers[3-41:2].self_attn.attend_compressed"].flops == 2 * 2 * 64 * 512 * (100_000 // 128)
    bias = found["layers[4-42:2].self_attn.compressor.position_bias"]
    assert value_of(bias.stored) - value_of(bias.cached) == (summaries - chosen) * 512 * 2
    found = {one.path.rpartition("model.")[2]: one for one in flash.prefill(2, 10_003).operations}
    pairs = sum(min(place // 4, chosen) for place in range(1, 10_004))
    assert found["layers[4-42:2].self_attn.attend_compressed"].flops == 2 * 2 * 2 * 64 * 512 * pairs
    pairs = sum(place // 128 for place in range(1, 10_004))
    assert found["layers[3-41:2].self_attn.attend_compressed"].flops == 2 * 2 * 2 * 64 * 512 * pairs


@pytest.mark.parametrize("name", EVERY)
def test_linear_in_requests_and_tokens(name: str) -> None:
    """Differences of equal steps are equal, in requests always, in tokens beyond what is chosen of them."""
    of = traffic(name)
    for measure in ("cached", "written", "gathered", "flops"):
        one, two, three = (getattr(of.decode(requests, 300), measure) for requests in (1, 2, 3))
        assert (two, three) == (2 * one, 3 * one)
    sizes = [value_of(of.decode(1, length).cached) for length in (3000, 4000, 5000)]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0]


@pytest.mark.parametrize("name", EVERY)
def test_flops_are_those_of_flops(name: str) -> None:
    """To the last one: of a token with absorbed latent attention, of a prompt with causal pairs and no image."""
    model, of = tfcalc.load(name), traffic(name)
    decode = Workload(phase="decode", batch_size=3, cached=500, latent="absorbed", attention="causal", logits="last")
    assert of.decode(3, 500).flops == model.tree(decode).total(matmul_flops)
    prefill = Workload(phase="prefill", batch_size=2, seq_len=500, attention="causal", logits="last")
    tree = model.tree(prefill)
    images = sum(node.total(matmul_flops) for node in tree.walk() if node.path.endswith(".visual"))
    assert of.prefill(2, 500).flops == tree.total(matmul_flops) - images


@pytest.mark.parametrize("name", [GROUPED, EXPERTS, LATENT, WINDOWS])
def test_all_weights_are_read_by_many_tokens(name: str) -> None:
    """Of many tokens all weights are read, but for rows of the table that are not looked up; of one the active ones."""
    model, of = tfcalc.load(name), traffic(name)
    tree = model.tree(Workload(phase="decode", cached=10))
    every = value_of(hold(tree, weight_recipe(model, of.plan)).total(bytes_held))
    assert isinstance(model, HFModel)
    vocabulary, width = (model.data[name] for name in ("vocab_size", "hidden_size"))
    table = 2 * value_of(vocabulary) * value_of(width)
    many = of.decode(10**9, 10)
    assert value_of(many.most_weights - many.gathered) == every - table
    assert many.expected_weights - value_of(many.gathered) == pytest.approx(every - table)
    one = of.decode(1, 10)
    assert one.least_weights == one.most_weights == pytest.approx(one.expected_weights)


def test_experts_are_between_their_bounds() -> None:
    """k ≤ t ≤ min(E, kT), no less with more tokens, and what 400 draws of tokens find, within 4 σ."""
    draw = random.Random(7)
    for number, active in ((8, 2), (128, 4), (256, 8)):
        routing = ChosenExperts(number, active)
        before = 0.0
        for tokens in (1, 2, 5, 40, 300):
            found = routing.expected(tokens)
            assert active <= found + 1e-9
            assert found <= min(number, active * tokens) + 1e-9
            assert found >= before
            before = found
            counts = [
                len({expert for _ in range(tokens) for expert in draw.sample(range(number), active)})
                for _ in range(400 if tokens < 100 else 40)
            ]
            missed = (1 - active / number) ** tokens
            spread = math.sqrt(number * missed * (1 - missed) / len(counts))  # at most: draws exclude each other
            assert abs(sum(counts) / len(counts) - found) <= 4 * spread + 1e-9


@pytest.mark.parametrize("name", EVERY)
def test_prompts_in_chunks(name: str) -> None:
    """The FLOPs of layers do not change; weights are read for each chunk, the cache of those before, and more bytes."""
    of = traffic(name)
    whole, parts = of.prefill(1, 1000), of.chunked(1, 1000, 300)
    head = value_of(sum(one.layers * one.flops for one in whole.operations if one.kind == "output"))
    assert [part.tokens for part in parts] == [300, 300, 300, 100]
    assert sum(value_of(part.flops) - head for part in parts) == value_of(whole.flops) - head
    assert sum(value_of(part.least_weights) for part in parts) > 3 * value_of(whole.least_weights)
    assert sum(value_of(part.least_bytes) for part in parts) > value_of(whole.least_bytes)
    if name == GROUPED:
        assert [value_of(part.cached) for part in parts] == [131072 * before for before in (0, 300, 600, 900)]


@pytest.mark.parametrize("name", EVERY)
def test_a_cached_prefix_is_not_computed(name: str) -> None:
    """What is left of a prompt is the whole without its prefix, and the logits of its last token."""
    of = traffic(name)
    whole, prefix, rest = of.prefill(1, 1000), of.prefill(1, 640), of.prefill(1, 1000, 640)
    head = sum(one.layers * one.flops for one in whole.operations if one.kind == "output")
    assert rest.flops == whole.flops - prefix.flops + head
    assert rest.tokens == 360


def test_half_the_bits_are_half_the_bytes() -> None:
    """Of the cache or of the quantized maps, and of nothing else. The head and norms of Llama stay in 16 bits."""
    plain, cache, weights = (
        traffic(GROUPED, **plan).decode(4, 1000) for plan in ({}, {"kv": "fp8"}, {"weights": "fp8"})
    )
    assert (2 * cache.cached, 2 * cache.written) == (plain.cached, plain.written)
    assert (cache.least_weights, cache.flops) == (plain.least_weights, plain.flops)
    layers = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    maps, scales = 32 * 7, 4
    assert plain.least_weights - weights.least_weights == layers - maps * scales
    assert (weights.cached, weights.flops) == (plain.cached, plain.flops)


@pytest.mark.parametrize("name", [*EVERY, "deepseek-v4-flash"])
def test_letters_are_numbers(name: str) -> None:
    """Bytes and FLOPs of each operation in letters b and c, at several sizes, are its numbers there."""
    of = traffic(name)
    letters = symbol("b"), symbol("c")
    for made in (of.decode, of.prefill):
        whole = made(*letters)
        for requests, tokens in ((1, 50), (7, 5000)):
            numbers = {one.path: one for one in made(requests, tokens).operations}
            assert len(numbers) > 0.6 * len([one for one in whole.operations if ".visual" not in one.path])
            for one in whole.operations:  # of few tokens some do nothing, and are not there
                other = numbers.get(one.path, one)
                for measure in ("weights", "gathered", "flops", "cached", "written", "stored"):
                    found, at = getattr(one, measure), {"b": requests, "c": tokens}
                    value = found.at(at) if isinstance(found, Polynomial) else found
                    assert other is one or value == getattr(other, measure), (one.path, measure)
