"""``tfcalc.testing.assert_budget``: what passes, what fails with which words, and what is misuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tfcalc
from tests.budgets.sample import CACHE, CHAT, config
from tfcalc.testing import assert_budget

SERVING: dict[str, Any] = {"serve": True, "context": "32k"}
GPT2 = 50_257 * 768 + 1_024 * 768 + 12 * (12 * 768 * 768 + 13 * 768) + 2 * 768
"""The two embeddings, twelve layers, and the last norm."""


def test_a_limit_is_the_last_value_that_passes() -> None:
    assert_budget("gpt2", "params.total_params", max=GPT2)
    assert_budget("gpt2", "total_params", min=GPT2, max="124_439_808")
    assert_budget("gpt2", "total_params", equals=GPT2)
    beyond: list[dict[str, Any]] = [{"max": GPT2 - 1}, {"min": GPT2 + 1}, {"equals": GPT2 + 1}]
    for limit in beyond:
        with pytest.raises(AssertionError):
            assert_budget("gpt2", "total_params", **limit)


def test_a_model_is_named_given_by_its_fields_or_loaded(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(config(), encoding="utf-8")
    for model in (str(path), path, tmp_path, CHAT, tfcalc.from_config(CHAT)):
        assert_budget(model, "memory.kv_cache_bytes", equals=CACHE, **SERVING)
        with pytest.raises(AssertionError):
            assert_budget(model, "memory.kv_cache_bytes", max=CACHE - 1, **SERVING)
    six = tfcalc.Transformer(d_model=512, n_layers=6)
    assert_budget(six, "total_params", equals=44_140_544)  # torch.nn.Transformer(512, 8, 6, 6, 2048)


def test_the_failure_says_what_a_reviewer_asks() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_budget("llama-3-8b", "kv_cache_bytes", max="2GiB", why="one L40S\x1b[31m", **SERVING)
    said = "llama-3-8b, serve, context 32k: memory.kv_cache_bytes 4.00 GiB, at most 2GiB (max), 2.00 GiB over"
    assert str(caught.value) == rf"{said}; why: one L40S\x1b[31m"


def test_neither_variables_nor_files_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tfcalc.toml").write_text('cache_dtype = "int8"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TFCALC_CACHE_DTYPE", "int8")
    assert_budget("llama-3-8b", "kv_cache_bytes", equals=CACHE, **SERVING)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"metric": "total_parms"}, "metric 'total_parms' is not known; did you mean total_params?"),
        ({"max": None}, "params.total_params has no limit; give max, min or equals"),
        ({"max": "8.1GiB"}, "max '8.1GiB' is an amount of memory, and the metric is not; it counts parameters: "),
        ({"max": 1, "min": 2}, "max 1 is below min 2; exchange them"),
        ({"max": 1, "equals": 2}, "it has equals and max; leave one of them out"),
        ({"train": True}, "params.total_params: option 'train' has no effect; leave it out"),
        ({"layers": 2}, "params.total_params: option 'layers' is not known; "),
        (
            {"metric": "peak_bytes", "trian": True},
            "memory.peak_bytes: option 'trian' is not known; did you mean train?",
        ),
        ({"metric": "peak_bytes", "seq": "long", "max": "1GB"}, "seq 'long' is not a number; "),
        (
            {"metric": "peak_bytes", "seq": 8, "seq_len": 8, "max": "1GB"},
            "memory.peak_bytes: option 'seq_len' is given twice; ",
        ),
        ({"metric": "peak_bytes", "max": "1GB"}, "'peak_bytes' is not in the answer; "),
        ({"model": 7}, "7 is no model; give a name, "),
    ],
    ids=lambda value: str(value)[:40],
)
def test_misuse_is_no_failed_assertion(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(tfcalc.UsageError) as caught:
        assert_budget(
            **{"model": "gpt2", "metric": "total_params", "max": "1" if "seq" in arguments else 1} | arguments
        )
    assert str(caught.value).startswith(said)
    assert [frame.name for frame in caught.traceback] == ["test_misuse_is_no_failed_assertion", "assert_budget"]


def test_a_model_that_there_is_not() -> None:
    with pytest.raises(tfcalc.InvalidModel, match="model 'gpt22' is not known"):
        assert_budget("gpt22", "total_params", max=1)
