"""The parts of tests/cuda that need no GPU."""

from __future__ import annotations

import json

import pytest

from tests.cuda.record import chosen, main
from tests.cuda.rows import Machine, Measured, rows
from tests.cuda.settings import KERNELS, Setting, settings
from tests.real_runs import answered, compared, run_of

MACHINE = Machine("Tesla T4", "2.13.0", "13.0", "5.23.0", "driver 580")


@pytest.mark.one_in(6)
@pytest.mark.parametrize("setting", settings(), ids=lambda setting: setting.name)
def test_tfcalc_answers_the_command_of_each_run(setting: Setting) -> None:
    answer, error = answered(tuple(setting.arguments))
    assert not error
    asked = answer["conventions"]
    assert (asked["batch_size"], asked["seq_len"]) == (setting.batch, setting.seq)
    assert asked["precision"] == setting.precision
    assert setting.backend != "auto" or asked["attention_kernel"] == setting.kernel
    assert (asked["recomputation"] == "full") == setting.checkpointing
    assert (asked["lora"] or 0) == setting.lora
    assert asked["loop"] == setting.loop


def test_no_run_is_there_twice() -> None:
    names = [one.name for one in settings()]
    assert len(set(names)) == len(names)


def test_flash_computes_in_16_bits() -> None:
    assert all("flash" not in kernels for precision, kernels in KERNELS.items() if precision == "fp32")


def test_rows_can_be_compared() -> None:
    """One number for each quantity, in bytes; without the saved ones where there is checkpointing."""
    setting = Setting("gpt2", "fp32", "eager", seq=64)
    found = [
        json.loads(json.dumps(row))
        for row in rows(setting, Measured(2**30, 2**31, 2**32, 2**20, 0, 0.1, 0.1, 0.1), MACHINE)
    ]
    assert {row["quantity"]: run_of(row).bytes for row in found} == {
        "allocated": 2**30,
        "reserved": 2**31,
        "nvidia-smi": 2**32,
        "saved": 2**20,
    }
    assert all(compared(run_of(row)).predicted for row in found)
    assert all(row["card"] == "Tesla T4" and "PyTorch 2.13.0" in row["source"] for row in found)
    assert len(list(rows(setting, Measured(1, 1, 1, None, 0, 0.1, 0.1, 0.1), MACHINE))) == 3


def test_a_dry_run_names_what_would_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dry-run", "gpt2-bf16-flash"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{one.name}: tfcalc {' '.join(one.arguments)}" for one in chosen(["gpt2-bf16-flash"])]
    assert lines[0].startswith("gpt2-bf16-flash-b2-l512: tfcalc memory gpt2 --train --batch 2 --seq 512")
