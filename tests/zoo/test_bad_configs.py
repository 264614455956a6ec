"""What a config.json can have wrong: one line with the field's name, exit 3, nothing read beyond a bound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Program
from tests.examples import examples
from tfcalc import catalog, params
from tfcalc.configs.published import HFModel
from tfcalc.errors import InvalidModel
from tfcalc.workload import Workload

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
NEMOTRON = {"model_type": "qwen3_next", "num_hidden_layers": 3, "layer_types": ["full_attention"] * 2}

CASES: dict[str, tuple[Any, str]] = {
    "null": (LLAMA | {"hidden_size": None}, "hidden_size is null"),
    "a word for a number": (LLAMA | {"hidden_size": "wide"}, "hidden_size 'wide'"),
    "a number in quotes": (LLAMA | {"num_hidden_layers": "2"}, "num_hidden_layers '2'"),
    "negative": (LLAMA | {"num_hidden_layers": -2}, "num_hidden_layers -2"),
    "zero": (LLAMA | {"hidden_size": 0}, "hidden_size 0"),
    "NaN": (LLAMA | {"intermediate_size": float("nan")}, "intermediate_size nan"),
    "a fraction": (LLAMA | {"num_hidden_layers": 2.5}, "num_hidden_layers 2.5"),
    "true for a number": (LLAMA | {"vocab_size": True}, "vocab_size True"),
    "a list for a number": (LLAMA | {"vocab_size": [1]}, "vocab_size [1]"),
    "a number for a flag": (LLAMA | {"attention_bias": 1}, "attention_bias 1"),
    "absurd": (LLAMA | {"hidden_size": 10**30}, "hidden_size 1e+30"),
    "heads that do not divide": (LLAMA | {"num_attention_heads": 5}, "64 is not divisible by num_attention_heads 5"),
    "a billion layers": (LLAMA | {"num_hidden_layers": 10**9}, "num_hidden_layers 1000000000"),
    "groups that do not divide": (LLAMA | {"num_key_value_heads": 3}, "num_key_value_heads 3"),
    "too few layer types": (NEMOTRON, "layer_types has 2 entries, not 3"),
    "too few layer types that nothing reads": (
        LLAMA | {"layer_types": ["full_attention"]},
        "layer_types has 1 entries, not 2",
    ),
    "a layer of no known type": (NEMOTRON | {"layer_types": ["full_attention", "magic", "magic"]}, "magic"),
    "no model_type": ({"hidden_size": 64}, "model_type"),
    "a model_type that is no word": ({"model_type": ["llama"]}, "model_type ['llama']"),
    "an unknown model_type": ({"model_type": "lama"}, "did you mean llama?"),
    "architectures of no list": (LLAMA | {"architectures": "LlamaForCausalLM"}, "architectures"),
    "an unknown head": (LLAMA | {"architectures": ["LlamaForPoetry"]}, "LlamaForPoetry"),
    "an activation of no known name": (LLAMA | {"hidden_act": "__import__('os')"}, "activation"),
    "an object for a layer": (
        {"model_type": "llava_next", "vision_feature_layer": {"factor": 8}},
        "vision_feature_layer {'factor': 8} is not a whole number",
    ),
    "a list": ([LLAMA], "a list, not an object"),
    "nothing": ("", "a string"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_config_gets_one_line_with_its_field(case: str, tmp_path: Path, tfcalc: Program) -> None:
    config, expected = CASES[case]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    outcome = tfcalc("params", str(path))
    assert outcome.returncode == 3
    assert outcome.stdout == ""
    assert expected in outcome.stderr
    assert outcome.stderr.count("\n") == 1


BYTES = {
    "empty": (b"", "is empty"),
    "no JSON": (b"{model_type: llama}", "is not JSON"),
    "no text": (b"\xff\xfe\x00", "is not JSON"),
    "50 MB": (b'{"model_type": "' + b"a" * 50_000_000 + b'"}', "larger than 4 MiB"),
    "100,000 levels": (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    "a number of a million digits": (b'{"hidden_size": ' + b"9" * 1_000_000 + b"}", "is not JSON"),
}


@pytest.mark.parametrize("case", BYTES)
def test_bytes_that_are_no_config_get_one_line(case: str, tmp_path: Path, tfcalc: Program) -> None:
    raw, expected = BYTES[case]
    path = tmp_path / "config.json"
    path.write_bytes(raw)
    outcome = tfcalc("params", str(path))
    assert outcome.returncode == 3
    assert outcome.stdout == ""
    assert expected in outcome.stderr
    assert outcome.stderr.count("\n") == 1


def test_a_directory_without_a_config_is_refused(tmp_path: Path, tfcalc: Program) -> None:
    outcome = tfcalc("params", str(tmp_path))
    assert outcome.returncode == 3
    assert "holds no config.json" in outcome.stderr


def test_a_file_that_is_not_there_is_refused(tfcalc: Program) -> None:
    outcome = tfcalc("params", "./nothing/config.json")
    assert outcome.returncode == 3
    assert "does not exist" in outcome.stderr


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_a_device_is_not_read(path: str, tfcalc: Program) -> None:
    if not Path(path).exists():
        pytest.skip("no such device here")
    outcome = tfcalc("params", path)
    assert outcome.returncode == 3
    assert "is not a regular file" in outcome.stderr


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 7),
    st.sampled_from([10**30, 10**9, float("nan"), float("inf"), -0.5, 2.0, "", "x", "[/b]"]),
    st.sampled_from([[], [1], {}, {"a": 1}, [[]], [None]]),
)


@examples(400)
@given(st.data())
def test_a_config_with_junk_is_answered_or_refused(data: st.DataObject) -> None:
    preset = data.draw(st.sampled_from(PRESETS))
    config = dict(preset.config)
    scopes = [config, *(value for value in config.values() if isinstance(value, dict))]
    scope = data.draw(st.sampled_from(scopes))
    for field in data.draw(st.lists(st.sampled_from(sorted(scope)), max_size=2)) if scope else []:
        scope[field] = data.draw(JUNK)
    try:
        HFModel(config).tree(Workload())
    except InvalidModel as error:
        assert error.message  # noqa: PT017  # either outcome is right, another exception is not


PRESETS = [preset for name in catalog.names() if (preset := catalog.preset(name)).config]


# PyTorch's topk refuses to choose 300 of them, so that no more than all can run.
EXPERTS = {
    "granitemoehybrid": "num_experts_per_tok",
    "jamba": "num_experts_per_tok",
    "kimi_linear": "num_experts_per_token",
    "lfm2_moe": "num_experts_per_tok",
    "llama4_text": "num_experts_per_tok",
    "mixtral": "num_experts_per_tok",
    "nemotron_h": "num_experts_per_tok",
    "qwen3_5_moe_text": "num_experts_per_tok",
}


@pytest.mark.parametrize("model_type", EXPERTS)
def test_no_more_experts_are_active_than_there_are(model_type: str) -> None:
    totals = params(catalog.from_config({"model_type": model_type, EXPERTS[model_type]: 300})).totals
    assert totals["active_params"] == totals["total_params"]  # all of them, and no more
