"""Models that read text and generate none: embeddings, rerankers."""

from __future__ import annotations

import pytest

from tests.conftest import Quick
from tfcalc import Serving, fits, load, memory
from tfcalc.configs.published import HFModel
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


def test_rerankers_are_served_and_what_reads_images_or_decodes_is_not() -> None:
    found = memory(HFModel(RERANKER), serving=Serving(context=8192))
    assert found.weights_bytes == pytest.approx(2 * 567_755_777, rel=1e-4)
    assert fits(load("bge-m3"), gpu="rtx-3060", serving=Serving()).fits
    for name in ("clip-vit-base-patch16", "chatglm3-6b", "opus-mt-en-de", "vit-base-patch16-224"):
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
