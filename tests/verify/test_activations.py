"""What each activation of transformers keeps for backward: one kernel its input or result, Python every step's."""

from __future__ import annotations

from typing import Any

import pytest

from tfcalc.backends.elementwise import activation
from tfcalc.ops.elementwise import scaled
from tfcalc.tape.interpreter import Interpreter, Numerics
from tfcalc.tape.memory_tracker import MemoryTracker
from tfcalc.tape.tape import Tape

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
pytestmark = pytest.mark.torch

from transformers.activations import ACT2CLS, ACT2FN  # noqa: E402  # after the skip

WITH_WEIGHTS = ("prelu", "xielu")
"""Those that hold parameters, which are counted elsewhere."""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", sorted(set(ACT2CLS) - set(WITH_WEIGHTS)))
def test_an_activation_keeps_what_transformers_code_keeps(kind: str, dtype: str) -> None:
    x = torch.zeros(6, 7, dtype=getattr(torch, dtype), requires_grad=True)
    theirs: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        theirs[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        made = ACT2FN[kind](x * 1)  # a number's product keeps nothing
    tape = Tape(MemoryTracker())
    ours = activation(kind, scaled(Interpreter(tape, Numerics(dtype)).data((6, 7), "x")))
    assert tape.tracker.saved == sum(storage.nbytes() for storage in theirs.values())
    del made, ours
