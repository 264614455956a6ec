"""``verify`` on the real program: it agrees (0) and says what was compared, differs (1), or cannot compare (4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Program
from tfcalc import Transformer, Workload


@pytest.fixture
def tfcalc(process: Program) -> Program:
    """The program in a process of its own: that is what is asked about here."""
    return process


torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

SMALL = ("--d-model", "64", "--heads", "2", "--layers", "2", "--vocab-size", "100")
RUN = ("--of", "flops", "--seq", "64")
TORCH = f"PyTorch {torch.__version__}"
H, L, V, N = 64, 64, 100, 2
FORWARD = N * (2 * L * (4 * H * H + 8 * H * H) + 4 * L * L * H) + 2 * L * H * V
"""Of a decoder of N layers by hand: four square maps and two of 4h, scores and mixture, the head."""
PARAMETERS = N * (12 * H * H + 13 * H) + 2 * H + 2 * V * H


@pytest.mark.parametrize(
    ("arguments", "verdict"),
    [
        (("--kind", "decoder", *SMALL, *RUN), f"a forward pass, {FORWARD:,} FLOPs equal to FlopCounterMode of {TORCH}"),
        (
            ("--kind", "decoder", *SMALL, *RUN, "--train"),
            f"forward and backward, {3 * FORWARD:,} FLOPs equal to FlopCounterMode of {TORCH}",
        ),
        (("--kind", "decoder", *SMALL), f"{2 + N * 12 + 2} tensors, {PARAMETERS:,} parameters equal to {TORCH}"),
    ],
)
def test_agrees_with_what_was_compared(tfcalc: Program, arguments: tuple[str, ...], verdict: str) -> None:
    result = tfcalc("verify", *arguments)
    assert result.stdout.splitlines()[0] == f"agrees: {verdict}"
    assert result.returncode == 0


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--pattern", "local:8", *RUN), "attention pattern local:8"),
        *((("--positions", kind, *RUN), f"positions {kind}") for kind in ("t5", "rotary", "alibi", "transformer-xl")),
        (("--positions", "deberta", "--max-distance", "8", *RUN), "positions deberta"),
        (("--positions", "t5"), "positions t5"),
        (("--of", "memory", "--norm", "rmsnorm"), "RMSNorm"),
    ],
)
def test_cannot_compare_what_pytorch_has_no_module_for(tfcalc: Program, more: tuple[str, ...], named: str) -> None:
    result = tfcalc("verify", "--kind", "decoder", *SMALL, *more)
    assert result.returncode == 4
    assert result.stdout == ""
    assert result.stderr.startswith("tfcalc: cannot compare: ")
    assert named in result.stderr
    assert result.stderr.count("\n") == 1
    refusal = tfcalc("verify", "--kind", "decoder", *SMALL, *more, "--json")
    assert json.loads(refusal.stderr)["code"] == "not-comparable"


@pytest.mark.parametrize("more", [{"pattern": "local:8"}, {"positions": "rotary"}, {"positions": "alibi"}])
def test_parameters_without_what_has_none_agree_and_say_so(more: dict[str, Any]) -> None:
    from tfcalc.verify.count import verify

    found = verify(Transformer(d_model=64, n_heads=2, n_layers=1, vocab_size=10, **more))
    assert found.agrees
    assert "where nothing is trained" in found.reference


def test_differs_in_rows_that_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from tfcalc.core.measure import matmul_backward_flops
    from tfcalc.verify import flop_count

    monkeypatch.setattr(flop_count, "matmul_flops", matmul_backward_flops)
    found = flop_count.verify_flops(Transformer(d_model=64, n_heads=2, n_layers=1), Workload(seq_len=8))
    assert not found.agrees
    assert found.verdict.startswith("DIFFERS: ")
    assert found.verdict.endswith("(1 of 1 rows)")


def test_nothing_on_either_side_is_no_agreement() -> None:
    from tfcalc.verify.verification import NotComparable, VerifiedParams, side_by_side

    with pytest.raises(NotComparable, match="nor has the file"):
        VerifiedParams("a model", "0 tensors", "the file", "file", "", side_by_side({}, {}), {})


@pytest.mark.parametrize(
    ("arguments", "idle"),
    [
        (("gpt2", "--seq", "10"), "--seq 10 has no effect on parameters"),
        (("gpt2", "--precision", "bf16"), "--precision bf16 has no effect on parameters"),
        (("gpt2", "--of", "flops", "--precision", "bf16"), "--precision bf16 has no effect on FLOPs"),
        (("gpt2", "--of", "flops", "--checkpoint", "a.gguf"), "--checkpoint has no effect with --of flops"),
    ],
)
def test_what_has_no_effect_is_refused(tfcalc: Program, arguments: tuple[str, ...], idle: str) -> None:
    result = tfcalc("verify", *arguments)
    assert result.returncode == 2
    assert idle in result.stderr


CLASSIC = (
    (),
    ("--precision", "bf16-mixed", "--device", "recorded", "--no-dropout", "--pre-norm", "--output-head", "tied"),
    ("--precision", "bf16", "--kind", "decoder", "--positions", "learned", "--max-len", "40", "--no-attention-bias"),
    ("--target-vocab-size", "30", "--source-seq", "9", "--attention-kernel", "math"),
)


def test_a_core_without_words_is_verified_and_what_a_cpu_saves_otherwise_is_not() -> None:
    from tfcalc.verify.memory_count import verify_memory
    from tfcalc.verify.verification import NotComparable

    run = Workload(batch_size=1, seq_len=9, source_len=7, phase="train", input_gradient=True)
    assert verify_memory(Transformer(d_model=64, n_heads=4, n_layers=1), run).agrees
    with pytest.raises(NotComparable, match="RMSNorm"):
        verify_memory(Transformer(d_model=64, n_heads=4, n_layers=1, norm="rmsnorm"), run)


@pytest.mark.parametrize("more", CLASSIC)
def test_memory_of_the_classic_model_is_verified(tfcalc: Program, more: tuple[str, ...]) -> None:
    result = tfcalc("verify", "--of", "memory", *SMALL, "--seq", "17", "--batch", "2", *more)
    assert result.stdout.startswith("agrees: tensors saved for backward, "), result.stdout + result.stderr
    assert f"bytes equal to saved_tensors_hooks of {TORCH}" in result.stdout.splitlines()[0]
    assert result.returncode == 0


@pytest.mark.parametrize("more", [(), ("--precision", "bf16"), ("--precision", "bf16", "--device", "recorded")])
def test_memory_is_verified_with_the_defaults_and_without(tfcalc: Program, more: tuple[str, ...]) -> None:
    pytest.importorskip("transformers")
    result = tfcalc("verify", "gpt2", "--of", "memory", "--seq", "12", "--num-hidden-layers", "2", *more)
    assert result.stdout.startswith("agrees: tensors saved for backward, "), result.stdout + result.stderr
    assert f"bytes equal to saved_tensors_hooks of {TORCH}" in result.stdout.splitlines()[0]
    assert result.returncode == 0
