"""``verify`` and ``--via torch`` on configs: transformers beside tfcalc."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Program
from tfcalc.catalog import from_config


@pytest.fixture
def tfcalc(process: Program) -> Program:
    """The program in a process of its own: that is what is asked about here."""
    return process


pytestmark = pytest.mark.torch

TINY: dict[str, Any] = {"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2}
TINY |= {"num_attention_heads": 2, "vocab_size": 10, "pad_token_id": 0}
TOTAL = 2 * 80 + 8 + 2 * (4 * 64 + 3 * 96 + 16)


@pytest.fixture(autouse=True)
def _transformers() -> None:
    pytest.importorskip("transformers")


def test_a_config_agrees_with_transformers(tfcalc: Program, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    outcome = tfcalc("verify", str(tmp_path), "--json")
    assert outcome.returncode == 0
    answer = json.loads(outcome.stdout)
    assert answer["agrees"]
    assert answer["total_params"] == answer["reference_params"] == TOTAL
    assert "model.layers.self_attn.q_proj" in [part["path"] for part in answer["components"]]


def test_a_leaf_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from tfcalc.nn.basic import Linear
    from tfcalc.verify.count import verify
    from tfcalc.zoo.blocks import layers

    def wrong(name: str, fan_in: Any, fan_out: Any, *rest: Any) -> Linear:
        return Linear(name, fan_in, fan_out + (name.startswith(("gate", "up", "down"))), *rest)

    monkeypatch.setattr(layers, "Linear", wrong)
    found = verify(from_config(TINY))
    assert not found.agrees
    assert {row.path for row in found.rows if row.difference} == {
        "model.layers.mlp.gate_proj",
        "model.layers.mlp.up_proj",
        "model.layers.mlp.down_proj",
        "total",
    }


def test_transformers_counts_what_it_is_asked_to(tfcalc: Program, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    assert tfcalc("params", str(tmp_path), "--via", "torch", "-q").stdout == f"{TOTAL}\n"


def test_a_type_that_transformers_lacks_is_exit_4(tfcalc: Program, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "lama"}))
    outcome = tfcalc("params", str(tmp_path), "--via", "torch")
    assert outcome.returncode == 4
    assert outcome.stderr.count("\n") == 1
    assert len(outcome.stderr) < 400


def test_too_many_layers_are_not_built(tfcalc: Program, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY | {"num_hidden_layers": 9_000}))
    outcome = tfcalc("verify", str(tmp_path))
    assert outcome.returncode == 2
    assert "9000" in outcome.stderr
