"""Models that read text and generate none: embeddings, rerankers."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Quick
from tfcalc import Serving, Workload, fits, load, memory
from tfcalc.answers.serve_reading import serve_reading
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import matmul_flops
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel, UsageError

GIB = 2**30
RERANKER = {
    "model_type": "xlm-roberta",
    "architectures": ["XLMRobertaForSequenceClassification"],
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "vocab_size": 250002,
    "max_position_embeddings": 8194,
    "type_vocab_size": 1,
    "num_labels": 1,
}
"""bge-reranker-v2-m3."""


def test_weights_and_one_reading_are_what_an_encoder_takes() -> None:
    """bge-m3 in fp16, 8,192 tokens: a network holds its inner vectors twice, and those of a layer three times."""
    found = memory(load("bge-m3"), serving=Serving(context=8192))
    assert (found.weights_bytes, found.kv_cache_bytes) == (2 * 567_754_752, 0)
    assert found.to_dict()["peak_phase"] == "forward"
    assert found.temporary_bytes == 8192 * 2 * (2 * 4096 + 3 * 1024)
    several = memory(load("bge-m3"), serving=Serving(context=512, concurrency=32))
    assert several.temporary_bytes == pytest.approx(2 * found.temporary_bytes, rel=0.02)  # twice as many tokens
    assert several.to_dict()["conventions"]["cache"] == "none"  # type: ignore[index]


def test_what_translates_decodes() -> None:
    """MarianMTModel is a GenerationMixin: 6 layers keep keys and values of 512 tokens, and of as many of the source."""
    found = memory(load("opus-mt-en-de"), serving=Serving(context=512))
    assert found.kv_cache_bytes == 6 * 2 * 2 * 512 * 512 * 2


def test_rerankers_are_served_and_what_reads_images_or_decodes_is_not() -> None:
    found = memory(HFModel(RERANKER), serving=Serving(context=8192))
    assert found.weights_bytes == pytest.approx(2 * 567_755_777, rel=1e-4)
    assert fits(load("bge-m3"), gpu="rtx-3060", serving=Serving()).fits
    for name in ("clip-vit-base-patch16", "chatglm3-6b", "vit-base-patch16-224"):
        with pytest.raises(InvalidModel, match="does not generate text"):
            memory(load(name), serving=Serving())
    with pytest.raises(UsageError, match="--kv fp8 has no effect: bge-m3 keeps no cache"):
        memory(load("bge-m3"), serving=Serving(kv="fp8"))
    with pytest.raises(InvalidModel, match="generates no text on several GPUs"):
        memory(load("bge-m3"), serving=Serving(tensor_parallel=2))


def test_how_many_requests_fit_is_found(quick: Quick) -> None:
    said = quick("memory", "bge-m3", "--serve", "--gpu", "rtx-4090").stdout
    assert "no cache, as no text is generated" in said
    (line,) = (line for line in said.splitlines() if "largest concurrency" in line)
    most = int(line.split("concurrency: ")[1].split()[0])
    for number, held in ((most, 0), (most + 1, 1)):
        words = ("memory", "bge-m3", "--serve", "--gpu", "rtx-4090", "--concurrency", f"{number}")
        assert quick(*words).returncode == held


L4_BANDWIDTH, L4_PEAK = 300e9, 121e12
"""Bytes per second, and FLOP/s in 16 bits without sparsity (NVIDIA's datasheet)."""


def test_a_reading_is_bound_by_its_products_or_by_its_weights() -> None:
    """bge-m3 on an L4, by hand: 24 layers of 12 · h² weights in 16 bits, with 2 FLOPs for each and token, and
    2 · 2 · n² · h of attention; 32 requests of 512 tokens take 89 ms, and one of 8 tokens as long as its weights.
    """
    h, layers, n = 1024, 24, 512
    products = n * layers * (2 * 12 * h * h + 4 * n * h) + 2 * h * h  # and a pooler's map of one token
    many = serve_reading("bge-m3", "l4", n, 32)
    assert many.reading.flops_per_request == pytest.approx(products, rel=1e-5)
    assert many.reading_floor.latency_ms == pytest.approx(32 * products / L4_PEAK * 1000, rel=1e-3)
    assert many.reading_floor.requests_per_second == pytest.approx(L4_PEAK / products, rel=1e-3)
    assert many.reading_floor.tokens_per_second == pytest.approx(n * L4_PEAK / products, rel=1e-3)
    few = serve_reading("bge-m3", "2xl4", 8)
    weights = 2 * (layers * 12 * h * h + h * h)
    assert few.reading_floor.bound == "bandwidth"
    assert few.reading_floor.latency_ms == pytest.approx(1000 * weights / L4_BANDWIDTH, rel=2e-2)  # biases and norms
    assert few.reading_floor.requests_per_second == pytest.approx(2 * 1000 / few.reading_floor.latency_ms)


@pytest.mark.parametrize("name", ["bge-m3", "bert-base-uncased", "deberta-v3-base", "modernbert-base"])
def test_what_is_read_is_what_flops_says(name: str) -> None:
    """All products of a forward pass, but for those of a head that makes words."""
    tree = load(name).tree(Workload(seq_len=256))
    heads = sum(value_of(node.total(matmul_flops)) for node in tree.walk() if node.component.kind == "output")
    assert serve_reading(name, "h100", 256).reading.flops_per_request == value_of(tree.total(matmul_flops)) - heads


def test_decoders_make_embeddings_without_their_heads(quick: Quick) -> None:
    """Qwen3-Embedding-8B by hand: 36 layers; the head of 151,665 words is not read."""
    said = json.loads(quick("serve", "qwen3-embedding-8b", "--output", "0", "--input", "512", "--json").stdout)
    h, m, kv, heads = 4096, 12288, 8 * 128, 32 * 128
    layer = 2 * h * heads + 2 * h * kv + 3 * h * m
    pairs = 512 * 513 // 2
    assert said["reading"]["flops_per_request"] == 36 * (2 * 512 * layer + 4 * heads * pairs)
    assert said["reading"]["weights_bytes"] == 2 * (36 * (layer + 2 * h + 2 * 128) + h)


def test_what_reads_alone_is_served(quick: Quick) -> None:
    words = ("serve", "bge-m3", "--gpu", "t4", "--input", "8k", "--concurrency")
    said = json.loads(quick(*words, "1", "--json").stdout)
    most = said["reading"]["capacity_requests"]
    for number, code in ((most, 0), (most + 1, 1)):
        done = quick(*words, f"{number}")
        assert done.returncode == code
    assert done.stdout.startswith("CANNOT: weights and")
    assert "no run of a model that writes nothing is known" in quick(*words, "1").stdout
    refused = {
        ("--engine", "vllm"): "--engine vllm has no effect where nothing is written",
        ("--output", "5"): "--output 5 has no effect where nothing is written",
        ("--tp", "2"): "--tp 2 has no effect where nothing is written",
    }
    for more, fact in refused.items():
        assert fact in quick(*words, "1", *more).stderr
    assert "an encoder whose decoder writes nothing" in quick("serve", "t5-small", "--output", "0").stderr
    assert "does not generate text" in quick("serve", "vit-base-patch16-224").stderr
