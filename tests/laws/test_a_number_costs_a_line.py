"""A number costs a line: declared in one place, every part of the program knows it.

A copy of the package gets four lines: in ``params`` an expression of other numbers and a new measure, in ``memory
--train`` the same. JSON, JSON Schema, the text below the table, ``explain``, ``budget`` and the reference know them;
``compare`` those of ``params``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LINES = {
    "answers/params.py": (
        "    by = Conventions()\n",
        """
    idle_params = integer("parameters not used per token", total("total_params", less="active_params"), label="Idle")
    matrix_params = integer("parameters of matrices", Fold("params", major_params, of_answer(major)), label="Matrices")
""",
    ),
    "answers/training_memory.py": (
        "    def __init__(",
        """
    states_bytes = integer("weights and optimizer states", total("weights_bytes", "optimizer_bytes"), label="States")
    phases_count = integer("phases of a step", lambda memory: len(memory.step.phases), found("counted"), label="Phases")
""",
    ),
}
"""Of a file, the line before which the new ones go: each number is one line."""
H, V, T, N = 768, 50_257, 1_024, 12
"""GPT-2: hidden size, vocabulary, positions, layers."""
MATRICES = N * 12 * H * H + (V + T) * H
"""By hand: 12 h² of each layer, and the two tables."""
PARAMETERS = MATRICES + N * 13 * H + 2 * H


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with the new lines."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name, (before, lines) in LINES.items():
        path = root / "src" / "tfcalc" / name
        text = path.read_text(encoding="utf-8")
        assert before in text
        path.write_text(text.replace(before, f"{lines}\n{before}", 1), encoding="utf-8")
    return root


def run(copy: Path, *words: str, code: int = 0) -> str:
    """What the copy prints."""
    env = {**os.environ, "PYTHONPATH": str(copy / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "tfcalc", *words], cwd=copy, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def answer(copy: Path, *words: str) -> Any:
    return json.loads(run(copy, *words, "--json"))


def test_json_and_schema_know_it(copy: Path) -> None:
    counted = answer(copy, "params", "gpt2")
    assert (counted["idle_params"], counted["matrix_params"]) == (0, MATRICES)
    trained = answer(copy, "memory", "gpt2", "--train", "--seq", "64")
    tensors = 12 * N + 4  # 12 of each layer, two tables, the last norm's two
    # fp32: 4 bytes of a weight and 8 of AdamW's moments; a step counter of 4 bytes for each tensor
    assert trained["states_bytes"] == 12 * PARAMETERS + 4 * tensors
    assert trained["phases_count"] == len(trained["timeline"])
    for command, keys in (("params", ("idle_params", "matrix_params")), ("memory", ("states_bytes", "phases_count"))):
        stated = json.loads(run(copy, "schema", command))["properties"]
        assert all(stated[key]["type"] == "integer" and stated[key]["description"] for key in keys)


def test_people_are_told(copy: Path) -> None:
    assert f"Matrices: {MATRICES:,}" in run(copy, "params", "gpt2")
    assert "States: 1.39 GiB" in run(copy, "memory", "gpt2", "--train", "--seq", "64")  # 12 · 124,439,808 bytes


def test_explain_opens_it(copy: Path) -> None:
    idle = answer(copy, "explain", "params.idle_params", "mixtral-8x7b")
    assert idle["how"] == "difference"
    assert [term["path"] for term in idle["terms"]] == ["params.total_params", "params.active_params"]
    items = answer(copy, "explain", "matrix_params", "gpt2")["items"]
    assert sum(item["params"] for item in items) == MATRICES
    states = answer(copy, "explain", "states_bytes", "gpt2", "--train", "--seq", "64")
    assert [term["path"] for term in states["terms"]] == ["memory.weights_bytes", "memory.optimizer_bytes"]


def test_budgets_hold_it(copy: Path) -> None:
    (copy / "tfcalc.toml").write_text(
        "version = 1\n[models.it]\npreset = 'gpt2'\n[scenarios.tune]\ntrain = true\nseq = 64\n"
        "[[budget]]\nmodel = 'it'\nmetric = 'matrix_params'\nmax = '124M'\n"
        "[[budget]]\nmodel = 'it'\nscenario = 'tune'\nmetric = 'states_bytes'\nmax = '1GiB'\n",
        encoding="utf-8",
    )
    checks = json.loads(run(copy, "budget", "--json", code=1))["checks"]
    assert [(check["metric"], check["status"]) for check in checks] == [
        ("params.matrix_params", "failed"),
        ("memory.states_bytes", "failed"),
    ]


def test_compare_shows_it(copy: Path) -> None:
    first, second = answer(copy, "compare", "gpt2", "mixtral-8x7b")["models"]
    assert first["matrix_params"] == MATRICES
    assert second["idle_params"] == second["total_params"] - second["active_params"]
    assert "matrix_params" in json.loads(run(copy, "schema", "compare"))["properties"]["models"]["items"]["properties"]
    opened = answer(copy, "explain", "compare.models.1.idle_params", "gpt2", "mixtral-8x7b")
    assert opened["value"] == second["idle_params"]


def test_the_reference_has_it(copy: Path) -> None:
    keys = run(copy, "schema", "params", "--format", "csv")
    assert "idle_params" in keys
    assert "parameters of matrices" in keys
