"""Losses that go by chunks, and the layers of torchtune: counted by hand; every way of asking has an answer.

What each keeps is beside PyTorch's own in tests/verify/test_torchtune.py and test_compiled_layers.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import tfcalc
from tests.training.test_training_rows import CONFIGS
from tfcalc import InvalidModel, Training, Workload
from tfcalc.backends.program import program
from tfcalc.configs.published import HFModel
from tfcalc.tape.interpreter import Numerics

BATCH, LENGTH = 2, 64
TOKENS = BATCH * LENGTH
LLAMA: dict[str, Any] = dict(CONFIGS["llama-3-8b"]) | {"num_hidden_layers": 1}
WORDS = LLAMA["vocab_size"]
RUN = Workload(phase="train", batch_size=BATCH, seq_len=LENGTH, kernel="flash")
CODES = [
    {"backend": "fused"},
    {"backend": "fused", "loss": "logits"},
    {"backend": "transformers", "loss": "fused"},
    {"backend": "transformers", "loss": "checkpointed"},
    {"backend": "transformers", "loss": "litgpt"},
    {"backend": "transformers", "compile": True},
    {"backend": "torchtune"},
    {"backend": "torchtune", "loss": "chunked"},
    {"backend": "torchtune", "loss": "linear", "compile": True},
]


def kept(loss: str, *, compiles: bool = False) -> int:
    """What a Llama keeps with this loss."""
    m = program(HFModel(LLAMA), RUN, Numerics("bfloat16"), "torchtune", loss, compiles)
    assert m(HFModel(LLAMA).tree(RUN)).node is not None
    return m.tape.tracker.saved


@pytest.mark.parametrize(
    ("loss", "compiles", "more"),
    [
        ("chunked", False, 8 * TOKENS + 7 * 4),
        ("linear", False, 16 * TOKENS + 7 * 4),
        ("checkpointed", False, 16 * TOKENS - 4 * TOKENS * WORDS - 4),
        ("chunked", True, 8 * TOKENS),
        ("linear", True, 16 * TOKENS),
    ],
)
def test_a_loss_keeps_so_many_bytes_more_than_that_of_all_logits(loss: str, compiles: bool, more: int) -> None:
    """The logarithms of all logits in fp32 are kept in chunks, too, and 4 bytes for the number of targets in each.

    A chunk of two sequences has a copy of its labels, of 8 bytes each; where tokens are picked out there are also their
    places. Compiled, logits are kept as they are, of 2 bytes rather than of 4.
    """
    of_logits = 2 * TOKENS * WORDS if compiles else 0
    assert kept(loss, compiles=compiles) == kept("logits", compiles=compiles) + more - of_logits


def test_litgpts_loss_keeps_logarithms_in_fp32_as_its_caller_has_logits() -> None:
    """Of 128 tokens at a time; each chunk has the number of its targets."""
    model, run = HFModel(LLAMA), RUN.replaced(seq_len=300)
    saved = {}
    for loss in ("logits", "litgpt"):
        m = program(model, run, Numerics("bfloat16"), "transformers", loss)
        assert m(model.tree(run)).node is not None
        saved[loss] = m.tape.tracker.saved
    assert saved["litgpt"] == saved["logits"] + 3 * 4 - 4


@pytest.mark.parametrize("code", CODES, ids=lambda code: " ".join(map(str, code.values())))
@pytest.mark.parametrize("length", [64, 61])
def test_each_is_answered_in_numbers_and_in_formulas(code: dict[str, Any], length: int) -> None:
    """The rows of the answer are formulas whose values are the numbers of a run of every layer."""
    model, run, plan = HFModel(LLAMA), RUN.replaced(seq_len=length), Training(precision="bf16", **code)
    report = tfcalc.memory(model, run, training=plan)
    assert json.loads(report.to_json())["peak_bytes"] == report.answer
    told = tfcalc.explain("activations", model, of="memory", workload=run, training=plan)
    assert told.to_dict()["total_bytes"] == report.totals["activations_bytes"]


@pytest.mark.parametrize("code", CODES, ids=lambda code: " ".join(map(str, code.values())))
def test_a_sweep_has_the_same_numbers(code: dict[str, Any]) -> None:
    model, plan = HFModel(LLAMA), Training(precision="bf16", **code)
    lengths = [8, 61, 64, 300]
    swept = tfcalc.sweep(model, "memory", RUN, training=plan, l=lengths).values.tolist()
    assert swept == [tfcalc.memory(model, RUN.replaced(seq_len=each), training=plan).answer for each in lengths]


@pytest.mark.parametrize(
    ("model", "plan", "run", "said"),
    [
        (HFModel(LLAMA), {"compile": True, "backend": "fused"}, {}, "--backend fused"),
        (HFModel(LLAMA), {"compile": True, "precision": "bf16-mixed"}, {}, "bf16-mixed"),
        (HFModel(LLAMA), {"compile": True}, {"kernel": "eager"}, "eager"),
        (HFModel(LLAMA), {"compile": True}, {"recompute": "selective"}, "selective"),
        (HFModel(dict(CONFIGS["gpt2"])), {"compile": True}, {}, "layers"),
        (HFModel(dict(CONFIGS["gpt2"])), {"backend": "torchtune"}, {}, "gpt2.*llama"),
        (HFModel(LLAMA), {"loss": "chunked", "backend": "megatron"}, {}, "no effect"),
        (tfcalc.Transformer(), {"loss": "chunked"}, {}, "no effect"),
        (HFModel(LLAMA), {"loss": "litgpt", "backend": "torchtune"}, {}, "litgpt.*torchtune"),
        (tfcalc.Transformer(), {"compile": True}, {}, "compile"),
    ],
)
def test_what_has_no_effect_or_is_not_known_is_refused(
    model: Any, plan: dict[str, Any], run: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidModel, match=said):
        tfcalc.memory(model, Workload(phase="train", seq_len=LENGTH, **run), training=Training(**plan))
