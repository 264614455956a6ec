"""``tfcalc init``: what it writes is a file of budgets that hold today."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.conftest import Outcome, Quick
from tfcalc.cli.budget_options import file_schema

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
    "dtype": "bfloat16",
}
"""Per layer: attention 64·64 + 2·64·32 + 64·64, MLP 3·64·128, norms 2·64; embedding 1000·64, last norm 64."""
PARAMS = 2 * (64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 128 + 2 * 64) + 1000 * 64 + 64
CACHE = 2 * 2 * 256 * 32 * 2
"""Keys and values of 2 layers, 256 tokens, 2 heads of 16, in bf16."""


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    """A folder with the config of one model that is counted, and of one that is not."""
    (tmp_path / "models" / "chat").mkdir(parents=True)
    (tmp_path / "models" / "chat" / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "other.json").write_text('{"model_type": "llamma"}')
    return tmp_path


def holds(quick: Quick, *arguments: str) -> Outcome:
    done = quick("budget", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done


def check(text: str) -> dict[str, object]:
    data = tomllib.loads(text)
    assert list(Draft202012Validator(file_schema()).iter_errors(data)) == []
    return data


def test_a_file_is_written_from_the_configs(quick: Quick, configs: Path) -> None:
    done = quick("init")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "tfcalc.toml has 1 model and 3 budgets; next: tfcalc budget\n"
    text = (configs / "tfcalc.toml").read_text(encoding="utf-8")
    data = check(text)
    assert data["models"] == {"chat": {"config": "models/chat/config.json"}}
    assert f"today {PARAMS:,}\n" in text
    assert f"today {CACHE // 1024}.0 KiB ({CACHE:,} bytes)\n" in text
    assert "# other.json is left out: model_type 'llamma' is not known\n" in text
    assert [one["metric"] for one in data["budget"]] == [  # type: ignore[attr-defined]  # it was validated
        "params.total_params",
        "memory.peak_bytes",
        "memory.kv_cache_bytes",
    ]
    holds(quick)


def test_twice_the_layers_are_over_the_budget(quick: Quick, configs: Path) -> None:
    assert quick("init").returncode == 0
    (configs / "models" / "chat" / "config.json").write_text(json.dumps({**LLAMA, "num_hidden_layers": 4}))
    assert quick("budget").returncode == 1


def test_without_a_config_it_is_about_a_preset(quick: Quick, tmp_path: Path) -> None:
    assert quick("init").returncode == 0
    data = check((tmp_path / "tfcalc.toml").read_text(encoding="utf-8"))
    assert data["models"] == {"example": {"preset": "gpt2"}}
    holds(quick)


def test_it_never_overwrites_unless_told_to(quick: Quick, tmp_path: Path) -> None:
    own = tmp_path / "tfcalc.toml"
    own.write_text("# mine\n")
    done = quick("init")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tfcalc: 'tfcalc.toml' exists; replace it with --force, or write another: -o FILE\n"
    assert own.read_text() == "# mine\n"
    assert quick("init", "-o", "other.toml").returncode == 0
    assert own.read_text() == "# mine\n"
    assert quick("init", "--force").returncode == 0
    assert own.read_text() == (tmp_path / "other.toml").read_text()


def test_a_link_to_nowhere_is_not_followed(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "tfcalc.toml").symlink_to(tmp_path / "elsewhere")
    assert quick("init").returncode == 2
    assert not (tmp_path / "elsewhere").exists()


def test_settings_in_a_pyproject_are_not_hidden(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.tfcalc]\nunits = "si"\n')
    done = quick("init")
    assert (done.returncode, done.stdout) == (2, "")
    assert "pyproject.toml has [tool.tfcalc]" in done.stderr
    assert not (tmp_path / "tfcalc.toml").exists()
    assert quick("init", "--force").returncode == 0


def test_it_is_printed_to_the_standard_output(quick: Quick, configs: Path) -> None:
    printed = quick("init", "-o", "-")
    assert (printed.returncode, printed.stderr) == (0, "")
    assert not (configs / "tfcalc.toml").exists()
    assert quick("init").returncode == 0
    assert printed.stdout == (configs / "tfcalc.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("flag", "called"), [("--force", "--force"), ("--json", "--json"), ("-q", "--quiet")])
def test_what_has_no_effect_on_the_standard_output_is_refused(quick: Quick, flag: str, called: str) -> None:
    done = quick("init", "-o", "-", flag)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{called} has no effect with -o -" in done.stderr


def test_paths_are_those_from_the_file_on(quick: Quick, configs: Path) -> None:
    (configs / "ci").mkdir()
    assert quick("init", "-o", "ci/budgets.toml").returncode == 0
    data = check((configs / "ci" / "budgets.toml").read_text(encoding="utf-8"))
    assert data["models"] == {"chat": {"config": "../models/chat/config.json"}}
    holds(quick, "--file", "ci/budgets.toml")


def test_variables_and_settings_do_not_change_the_numbers(quick: Quick, configs: Path) -> None:
    plain = quick("init", "-o", "-").stdout
    (configs / "tfcalc.toml").write_text('batch = 7\nprecision = "bf16"\n')
    assert quick("init", "-o", "-", env={"TFCALC_SEQ": "128"}).stdout == plain


@pytest.mark.usefixtures("configs")
def test_its_answer_as_json(quick: Quick) -> None:
    done = quick("init", "--json")
    assert json.loads(done.stdout) == {
        "schema_version": 1,
        "command": "init",
        "file": "tfcalc.toml",
        "models": ["chat"],
        "budget_count": 3,
    }
    assert quick("init", "-q", "--force").stdout == "tfcalc.toml\n"


def test_a_file_that_cannot_be_written_is_usage(quick: Quick) -> None:
    done = quick("init", "-o", "no/such/folder.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot write 'no/such/folder.toml'" in done.stderr
