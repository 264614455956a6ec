"""Live: the most bytes that torch.nn.Transformer's forward and backward need, counted storage by storage.

MemTracker's own hooks on modules with two inputs (a decoder layer's) hold gradients until the last of them has come,
which is why it sees up to 0.8% more in a few recorded steps; here nothing but the storages' own lives is looked at.
"""

from __future__ import annotations

import pytest

from tfcalc import Transformer, Workload
from tfcalc.backends.program import program
from tfcalc.tape.interpreter import Numerics

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

from torch import nn  # noqa: E402  # after the skip, like what follows

from tests.verify.live import Live  # noqa: E402
from tests.verify.test_memory_of_torch_modules import without_numbers  # noqa: E402
from tfcalc.verify.cuda_choices import cuda_choices  # noqa: E402
from tfcalc.verify.step import without_data  # noqa: E402

BATCH, SOURCE, TARGET = 3, 200, 120


@pytest.mark.parametrize("drop", [0.0, 0.1])
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("kernel", ["math", "efficient"])
def test_the_peaks_of_forward_and_backward_are_those_of_the_storages(kernel: str, pre_norm: bool, drop: float) -> None:
    module = nn.Transformer(64, 4, 3, 3, 256, dropout=drop, batch_first=True, norm_first=pre_norm).train()
    with without_data() as fake:
        without_numbers(module, fake)
        source, target = torch.zeros(BATCH, SOURCE, 64), torch.zeros(BATCH, TARGET, 64)
        with cuda_choices(kernel), Live() as live:
            for each in (*module.parameters(), source, target):
                live.see(each)
            base = live.bytes
            loss = module(source, target).sum()
            forward = live.peak() - base
            loss.backward()
            backward = live.peak() - base
    run = Workload(phase="train", batch_size=BATCH, seq_len=TARGET, source_len=SOURCE, kernel=kernel, dropout=drop > 0)
    model = Transformer(d_model=64, n_heads=4, n_layers=3, d_ff=256, pre_norm=pre_norm)
    m = program(model, run, Numerics(), "torch")
    made = m(model.tree(run))
    assert m.tape.tracker.new_phase().total == forward
    m.tape.backward(made)
    assert m.tape.tracker.new_phase().total == backward
