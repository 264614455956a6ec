"""Text from outside: nothing in a config's names or on the command line may drive a terminal, or run over its line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Program, Quick
from tests.golden.test_golden import COMMANDS

ESCAPE, CSI, REVERSED, SURROGATE = "\x1b[31m", "\x9b31m", "\u202e", "\ud800"
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
HOSTILE = f"Gpt2{ESCAPE}{CSI}{REVERSED}\r\n{SURROGATE}"
NEAR = {"hidden_siz\x1b": 3, "num_hidden_layer\x9b": 1}
CONFIG = {"model_type": "gpt2", "architectures": [f"{HOSTILE}LMHeadModel"], **NEAR}
FORMATS = ("table", "csv", "markdown", "plain", "latex", "json")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("command", ["params", "flops"])
def test_a_name_in_a_config_is_shown_and_not_obeyed(quick: Quick, command: str, form: str) -> None:
    result = quick(command, "-", "--format", form, input=json.dumps(CONFIG))
    assert result.returncode == 0
    assert UNSEEN.findall(result.stdout + result.stderr) == []
    assert result.stderr.count("\n") == len(re.findall("did you mean", result.stderr)) == 2
    if form == "json":
        assert json.loads(result.stdout)["model"]["architecture"] == f"{HOSTILE}LMHeadModel"
    elif form != "csv":
        bracket = r"\[" if form == "markdown" else "["  # Markdown's own escape
        assert rf"\x1b{bracket}31m\x9b31m\u202e\r\n\ud800" in result.stdout


def test_a_name_in_a_config_is_shown_in_a_file_too(quick: Quick, tmp_path: Path) -> None:
    for form in FORMATS:
        assert quick("params", "-", "--format", form, "-o", "out", input=json.dumps(CONFIG)).returncode == 0
        assert UNSEEN.findall((tmp_path / "out").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["params", HOSTILE.replace(SURROGATE, "")],
        ["params", f"--norm={ESCAPE}{CSI}"],
        ["params", "--d-modl\n\n\x1b"],
        [f"{ESCAPE}\nparams"],
        ["formula", f"mha{CSI}\n"],
        ["params", "A" * 10_000],
        ["flops", "--seq", "9" * 10_000],
        ["flops", "--recompute", "A" * 10_000],
        ["memory", "gpt2", "--train", "--lora", "8", "--lora-targets", "A" * 10_000],
        ["memory", "gpt2", "--weights", "A" * 10_000],
        ["params", "./" + "A" * 10_000 + "/config.json"],
        ["params", "-o", "A" * 10_000],
        ["A" * 10_000],
    ],
)
@pytest.mark.parametrize("as_json", [[], ["--json"]], ids=["text", "json"])
def test_what_was_typed_is_repeated_in_one_short_line(quick: Quick, arguments: list[str], as_json: list[str]) -> None:
    result = quick(*arguments, *as_json)
    assert result.returncode in (2, 3)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert len(result.stderr) <= 600
    assert UNSEEN.findall(result.stderr[:-1]) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"layer_types": ["x" * 3000] * 13},
        {"architectures": ["A" * 3000]},
        {"n_layer": ["A" * 50] * 200},
        {"n_layer": "\n" * 500},
        {"activation_function": "A" * 4000},
        {"quantization_config": {"quant_method": "A" * 4000}},
        {"model_type": "A" * 4000},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_config_is_repeated_in_one_short_line(quick: Quick, fields: dict[str, object]) -> None:
    result = quick("memory", "-", input=json.dumps({"model_type": "gpt2", **fields}))
    assert result.returncode == 3
    assert result.stderr.count("\n") == 1
    assert len(result.stderr) <= 600


def test_an_error_that_is_cut_keeps_its_beginning_and_its_end(quick: Quick) -> None:
    error = quick("params", "-", input=json.dumps({"model_type": "gpt2", "n_layer": ["A" * 50] * 200})).stderr
    assert error.startswith("tfcalc: n_layer ['AAAA")
    assert error.endswith("A'] is not a whole number; give an int of at least 1\n")


@pytest.mark.one_in(8)
@pytest.mark.parametrize("line", COMMANDS)
def test_every_golden_can_be_had_in_ascii(process: Program, quick: Quick, line: str) -> None:
    asked = quick(*line.split(), "--ascii")
    encoded = process(*line.split(), env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}, encoding="ascii")
    result: Any
    for result in (asked, encoded):
        assert (result.stdout + result.stderr).isascii()
        if "json" not in line:  # which has escapes of its own
            assert "\\x" not in result.stdout + result.stderr
            assert "\\u" not in result.stdout + result.stderr
    assert asked.stdout == encoded.stdout
