"""Layers that loop over time in PyTorch's code: answered where they were held against it, else refused in a line."""

from __future__ import annotations

import pytest

from tfcalc import InvalidModel, Training, Workload, from_config, memory
from tfcalc.configs.published import HFModel

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "vocab_size": 50}
TYPES = ("mamba", "falcon_mamba", "rwkv")


def model(name: str) -> HFModel:
    return from_config({"model_type": name, **SMALL})


@pytest.mark.parametrize("name", TYPES)
def test_the_peak_has_its_caveat(name: str) -> None:
    notes = memory(model(name), Workload(seq_len=8), training=Training()).notes
    assert any("loop over time came out up to 11 % below" in note for note in notes)
    assert any("fused kernels (fla, mamba-ssm) and checkpointing, not modelled, take less" in note for note in notes)


@pytest.mark.parametrize("name", TYPES)
def test_checkpointing_is_refused(name: str) -> None:
    with pytest.raises(InvalidModel, match=r"checkpointing full .* loops over time, is not supported") as refused:
        memory(model(name), Workload(seq_len=8, recompute="full"), training=Training())
    assert refused.value.hint == "use --checkpointing none, which takes more"


@pytest.mark.parametrize("name", TYPES)
def test_fused_kernels_are_refused(name: str) -> None:
    with pytest.raises(InvalidModel, match="the fused kernel of"):
        memory(model(name), Workload(seq_len=8), training=Training(backend="fused"))


def test_attention_is_not_concerned() -> None:
    llama = from_config({"model_type": "llama", **SMALL, "num_attention_heads": 2, "intermediate_size": 16})
    notes = memory(llama, Workload(seq_len=8, recompute="full"), training=Training()).notes
    assert not any("loop" in note for note in notes)
