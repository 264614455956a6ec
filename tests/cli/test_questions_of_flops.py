"""``flops`` with a question of its own: bad values and contradictions, one line each; and what the door loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import Program
from tfcalc.units import parse_amount

MFU = ["--mfu", "--tokens-per-second", "9", "--gpu", "h100"]
CASES = {
    "no tokens": (["--train", "--tokens", "0"], "0", "at least 1"),
    "negative tokens": (["--train", "--tokens", "-5"], "-5", "at least 1"),
    "a half token": (["--train", "--tokens", "1.5"], "1.5", "1 and 2"),
    "absurdly many tokens": (["--train", "--tokens", "1e19"], "1e+19", "10^18"),
    "tokens of decoding": (["--phase", "decode", "--tokens", "5"], "--tokens 5", "--train"),
    "tokens in words": (["--train", "--tokens", "many"], "many", "1e12"),
    "no rate": (["--mfu", "--gpu", "h100"], "throughput", "--tokens-per-second"),
    "no peak": (["--mfu", "--tokens-per-second", "9"], "peak", "--gpu h100"),
    "rate of nothing": (["--mfu", "--tokens-per-second", "0", "--gpu", "h100"], "'0'", "above 0"),
    "negative rate": (["--mfu", "--tokens-per-second", "-3.5", "--gpu", "h100"], "-3.5", "above 0"),
    "a rate that is no number": (["--mfu", "--tokens-per-second", "nan", "--gpu", "h100"], "nan", "3.5k"),
    "an infinite rate": (["--mfu", "--tokens-per-second", "inf", "--gpu", "h100"], "inf", "3.5k"),
    "a huge exponent": (["--mfu", "--tokens-per-second", "1e999", "--gpu", "h100"], "1e999", "typo"),
    "two peaks": ([*MFU, "--peak", "989e12"], "9.89e+14", "one of them"),
    "a peak in teraflops": ([*MFU[:-2], "--peak", "989"], "989", "989T"),
    "no GPUs": ([*MFU, "--gpus", "0"], "0", "at least 1"),
    "half a GPU": ([*MFU, "--gpus", "2.5"], "2.5", "2 and 3"),
    "unknown GPU": ([*MFU[:-1], "h1000"], "h1000", "H100"),
    "a precision that it lacks": ([*MFU[:-1], "v100"], "bf16", "fp16"),
    "unknown precision": ([*MFU, "--precision", "bf61"], "bf61", "bf16"),
    "MFU of a forward pass": ([*MFU, "--phase", "forward"], "forward", "leave one"),
    "a GPU without --mfu": (["--gpu", "h100"], "h100", "--mfu"),
    "a rate without --mfu": (["--tokens-per-second", "5"], "5", "--mfu"),
    "a number of GPUs without --mfu": (["--train", "--gpus", "4"], "4", "--mfu"),
    "per GPU without --mfu": (["--per-gpu"], "--per-gpu", "--mfu"),
    "two questions": (["--compare-conventions", *MFU], "--compare-conventions", "choose one"),
    "a depth of no tree": (["--train", "--tokens", "9", "--depth", "2"], "--depth 2", "leave it out"),
    "attention is compared": (["--compare-conventions", "--attention", "causal"], "causal", "leave it out"),
    "operations are compared": (["--compare-conventions", "--count", "all"], "all", "leave it out"),
    "comparison of decoding": (["--compare-conventions", "--phase", "decode"], "decode", "--train"),
}


@pytest.mark.parametrize(("arguments", "value", "remedy"), CASES.values(), ids=CASES)
def test_one_line_with_the_value_and_the_remedy(tfcalc: Program, arguments: list[str], value: str, remedy: str) -> None:
    result = tfcalc("flops", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert value in result.stderr
    assert remedy in result.stderr
    assert len(result.stderr) < 300


def test_defaults_from_a_settings_file_do_not_contradict(tfcalc: Program) -> None:
    result = tfcalc("flops", "gpt2", "--compare-conventions", "-q", env={"TFCALC_ATTENTION": "causal"})
    assert result.stdout == tfcalc("flops", "gpt2", "-q").stdout
    trained = tfcalc("flops", "gpt2", "--tokens", "5120", "-q", env={"TFCALC_PHASE": "train"})
    assert trained.returncode == 0


def test_amounts_are_read_as_people_write_them() -> None:
    texts = {"989e12": 989e12, "989T": 989e12, "3.5k": 3500.0, "1,024.5": 1024.5, "0.25": 0.25, "1_000": 1000.0}
    assert {text: parse_amount(text) for text in texts} == texts


def test_what_is_not_asked_is_not_loaded() -> None:
    code = "import sys; from tfcalc.cli.main import main; main(['flops', '-q']); print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for module in ("training", "utilisation", "comparison", "papers", "shape", "six_nd"):
        assert f"tfcalc.analysis.{module}" not in done.stdout
    assert "tfcalc.hardware" not in done.stdout


def test_several_gpus_may_be_in_the_name_of_the_gpu(tfcalc: Program) -> None:
    """8 H100 have 8 · 989.4 TFLOP/s: a rate of all of them is an eighth of the share that it is of one."""
    asked = ("flops", "llama-3-8b", "--train", "--mfu", "--tokens-per-second", "80k")
    assert tfcalc(*asked, "--gpu", "8xh100", "-q").stdout == tfcalc(*asked, "--gpu", "h100", "--gpus", "8", "-q").stdout
    refused = tfcalc(*asked, "--gpu", "8xh100", "--gpus", "4")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "are 8 GPUs, and --gpus says 4" in refused.stderr
