"""A word of a scenario that only one command takes, such as a precision of training, breaks no other command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Quick
from tfcalc.errors import UsageError
from tfcalc.testing import assert_budget

HEAD = '[models.a]\npreset = "gpt2"\n[scenarios.tune]\ntrain = true\nseq = 64\n'


def of(metric: str) -> str:
    return f'[[budget]]\nmodel = "a"\nscenario = "tune"\nmetric = "{metric}"\nmax = 1e30\n'


def test_each_command_takes_the_words_that_it_has(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "tfcalc.toml").write_text(
        HEAD.replace("seq", 'precision = "bf16-mixed"\nseq') + of("memory.peak_bytes") + of("flops.total_flops"),
        encoding="utf-8",
    )
    ran = quick("budget", "--format", "csv")
    assert ran.returncode == 0
    for command in ("memory gpt2 --train --seq 64 --precision bf16-mixed", "flops gpt2 --train --seq 64"):
        assert quick(*command.split(), "-q").stdout.strip() in ran.stdout


def test_a_word_that_none_of_the_asked_commands_takes_is_refused(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "tfcalc.toml").write_text(
        HEAD.replace("seq", 'precision = "bf16-mixed"\nseq') + of("flops.total_flops"), encoding="utf-8"
    )
    said = "tfcalc.toml: scenarios.tune: precision 'bf16-mixed' has no effect on flops; "
    refused = quick("budget")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr.startswith(f"tfcalc: {said}")


def test_a_word_that_no_command_takes_is_refused_as_before(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "tfcalc.toml").write_text(
        HEAD.replace("seq", 'precision = "bf61"\nseq') + of("memory.peak_bytes"), encoding="utf-8"
    )
    refused = quick("budget")
    assert refused.returncode == 3
    assert "precision 'bf61' is not known" in refused.stderr


def test_the_word_of_another_command_is_refused_where_one_is_asked() -> None:
    with pytest.raises(UsageError, match="precision 'bf16-mixed' is not known"):
        assert_budget("gpt2", "flops.total_flops", max="1T", train=True, precision="bf16-mixed")
