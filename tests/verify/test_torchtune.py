"""Live: torchtune's layers and losses beside the same lines of PyTorch: what they keep, and what is live at most."""

from __future__ import annotations

import pytest

from tests.training.test_training_rows import NUMERICS
from tfcalc import Workload, memory
from tfcalc.backends.program import program
from tfcalc.configs.published import HFModel
from tfcalc.plans import Training

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

from tests.verify.llama_of_torchtune import CONFIG, Llama  # noqa: E402
from tests.verify.peaks import peaks  # noqa: E402  # after the skip, like what follows
from tests.verify.test_fused_kernels import weights_of  # noqa: E402
from tfcalc.verify.saved import saved  # noqa: E402
from tfcalc.verify.step import without_data  # noqa: E402

LOSSES = ("logits", "chunked", "linear", "checkpointed")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("batch", "length"), [(1, 32), (3, 29), (16, 64)])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_a_llama_of_torchtune_keeps_what_torch_keeps(loss: str, batch: int, length: int, dtype: str) -> None:
    with without_data():
        with weights_of(torch.bfloat16 if dtype == "bf16" else torch.float32):
            module = Llama(loss)
        inputs = {"ids": torch.zeros((batch, length), dtype=torch.int64)}
        found = saved(module, inputs, recipe=dtype, loss=lambda out: out)
    kernel = "flash" if dtype == "bf16" else "efficient"
    run = Workload(phase="train", recompute="none", batch_size=batch, seq_len=length, kernel=kernel)
    whole = HFModel(CONFIG)
    m = program(whole, run, NUMERICS["bf16 (pure)" if dtype == "bf16" else "fp32"], "torchtune", loss)
    loss_ = m(whole.tree(run))
    assert loss_.node is not None
    assert m.tape.tracker.saved == found.total


@pytest.mark.parametrize("loss", LOSSES)
def test_its_peaks_are_torchs(loss: str) -> None:
    with without_data():
        with weights_of(torch.bfloat16):
            module = Llama(loss)
        inputs = {"ids": torch.zeros((4, 64), dtype=torch.int64)}
        tracked = peaks(module, inputs, recipe="bf16", optimizer="adamw", loss=lambda out: out, as_recorded=True)
    run = Workload(phase="train", recompute="none", batch_size=4, seq_len=64, kernel="flash")
    plan = Training(precision="bf16", optimizer="adamw", device="recorded", backend="torchtune", loss=loss)
    timeline = memory(HFModel(CONFIG), run, training=plan).more["timeline"]
    phases = {phase["phase"]: phase["peak_bytes"] for phase in timeline}
    assert max(phases["forward"], phases["loss"]) == pytest.approx(tracked.total("fwd_peak"), rel=0.02)
    assert phases["backward"] == pytest.approx(tracked.total("bwd_peak"), rel=0.02)
