"""A backend is one class: what was compared with it it says itself, and nobody else asks for it by its name."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import Program
from tfcalc.backends import BACKENDS, SAVED, WITH_COMPILE, backend
from tfcalc.backends.transformers import Transformers
from tfcalc.tape.tensor import Call, Tensor

SOURCES = Path(__file__).parents[2] / "src" / "tfcalc"
NAMED = {"plans.py"}
"""``Training.megatron`` and ``of_2022``, which tell whether layers are shared by Megatron's rules."""


def names_asked(file: Path) -> Iterator[str]:
    """The comparisons of an attribute ``backend`` with the name of one."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "backend":
            words = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
            if words & BACKENDS.keys():
                yield f"{file.name}:{node.lineno}"


def test_no_backend_is_asked_for_by_its_name() -> None:
    asked = [each for file in SOURCES.rglob("*.py") if file.name not in NAMED for each in names_asked(file)]
    assert asked == []


def test_the_law_finds_a_comparison(tmp_path: Path) -> None:
    (tmp_path / "asking.py").write_text('if plan.backend in ("auto", "fused"):\n    pass\n', encoding="utf-8")
    assert list(names_asked(tmp_path / "asking.py")) == ["asking.py:1"]


def test_backends_that_are_there_were_compared() -> None:
    assert all(SAVED in backend(name).compared for name in BACKENDS)


class Own(Transformers):
    """A trainer's own code, whose gates are one kernel."""

    name, label = "fused", "a trainer's code"
    fuses_gates = True

    def gate(self, _: str, gate: Tensor, up: Tensor) -> Tensor:
        """Save both inputs alone."""
        return gate.trace.call(Call("gated", (gate, up), gate.shape, gate.dtype, saves=(gate, up)))


MODEL = ("llama-3-8b", "--layers", "31")
"""A model that no other test asks for, as what was counted of one may be remembered."""


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The class in the place of another backend: the words of an option are those that there are from the start."""
    module = ModuleType("tfcalc.backends.own")
    module.__dict__["Own"] = Own
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(BACKENDS, "fused", "own.Own")


@pytest.mark.usefixtures("own")
def test_a_new_one_claims_nothing(tfcalc: Program) -> None:
    words = ("memory", *MODEL, "--train", "--backend", "fused", "--checkpointing", "none")
    assert Own.compared == frozenset()
    told = " ".join(tfcalc(*words, "--assumptions").stdout.split())
    assert "Accuracy: what a trainer's code saves was never compared with tensors of a run" in told
    assert "saved tensors as in PyTorch" not in told
    refused = tfcalc(*words, "--compile")
    assert refused.returncode == 2
    assert f"{WITH_COMPILE} of --backend fused is not supported" in refused.stderr


@pytest.mark.usefixtures("own")
def test_a_gate_in_one_kernel_changes_gates_alone(tfcalc: Program) -> None:
    """SiLU's result is not saved: 31 layers x 4,096 tokens x 14,336 numbers of 2 bytes, whatever attention runs."""
    for kernel in ("flash", "efficient"):
        words = ("memory", *MODEL, "--train", "--checkpointing", "none", "--attention-kernel", kernel)
        saved = [activations(tfcalc, *words, "--backend", name) for name in ("transformers", "fused")]
        assert saved[0] - saved[1] == 31 * 4096 * 14336 * 2


def activations(tfcalc: Program, *words: str) -> int:
    """Bytes of the activations at the peak."""
    return int(json.loads(tfcalc(*words, "--json").stdout)["activations_bytes"])
