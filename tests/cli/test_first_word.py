"""The first word: a command, a model, or a slip of either."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Program


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("parms", 2, "'parms' is neither a command nor a model; did you mean the command params?"),
        ("memroy llama-3-8b", 2, "did you mean the command memory?"),
        ("gpt2 memory", 2, "the command comes first: tfcalc memory gpt2"),
        ("llama3", 3, "llama-3-8b"),
        ("lama-3-8b", 3, "did you mean llama-3-8b?"),
        ("qwertyuiop", 2, "neither a command nor a model"),
        ("./none.json", 3, "does not exist"),
        ("llama-3-8b --laers 2", 2, "did you mean --layers?"),
        ("train qwen3-0.6b --method grpo --prompt 512", 2, "did you mean --max-prompt-length?"),
        ("llama-3-8b --heads 7", 2, "7"),
    ],
)
def test_a_slip_is_answered_with_what_may_be_meant(tfcalc: Program, line: str, code: int, says: str) -> None:
    result = tfcalc(*line.split())
    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr


def test_a_path_and_the_standard_input_are_models(tfcalc: Program, tmp_path: Path) -> None:
    config = json.dumps({"model_type": "gpt2"})
    (tmp_path / "config.json").write_text(config, encoding="utf-8")
    for place in ("config.json", "."):
        assert tfcalc(place, "-q").stdout == "124439808\n"
    assert tfcalc("-", "-q", input=config).stdout == "124439808\n"


def test_a_slip_under_json_is_an_object(tfcalc: Program) -> None:
    assert json.loads(tfcalc("parms", "--json").stderr)["hint"] == "did you mean the command params?"


def test_help_shows_the_model_first(tfcalc: Program) -> None:
    alone = tfcalc()
    assert (alone.returncode, alone.stderr) == (0, "")
    assert alone.stdout.startswith("usage: tfcalc MODEL")
    assert alone.stdout.index("tfcalc llama-3-8b") < alone.stdout.index("params")
