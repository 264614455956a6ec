"""Bytes are said in the units that were asked for, in every format; the numbers stay what they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.budgets.sample import CACHE, CHAT, FILES
from tests.conftest import Quick

IEC, SI = "4.00 GiB", "4.29 GB"
"""Of the cache: 2 · 32 layers · 8 heads · 128 · 2 bytes · 32,768 tokens = 4,294,967,296 bytes."""
HEAD, _, _ = FILES["tfcalc.toml"].partition("[[budget]]")
BUDGET = '[[budget]]\nmodel = "chat"\nscenario = "serving"\nmetric = "memory.kv_cache_bytes"\nmax = "3GiB"\n'


def written(folder: Path, *, pinned: str = "") -> None:
    (folder / "configs").mkdir()
    (folder / "configs/chat.json").write_text(json.dumps(CHAT), encoding="utf-8")
    conventions = f'[conventions]\nunits = "{pinned}"\n' if pinned else ""
    (folder / "tfcalc.toml").write_text(HEAD + conventions + BUDGET, encoding="utf-8")


@pytest.mark.parametrize("form", ["table", "plain", "markdown", "junit", "github", "sarif", "gitlab", "csv"])
def test_the_units_that_are_typed_or_pinned_hold_in_every_format(quick: Quick, tmp_path: Path, form: str) -> None:
    assert CACHE == 4_294_967_296
    written(tmp_path)
    plain, typed = quick("budget", "--format", form), quick("budget", "--format", form, "--units", "si")
    assert plain.returncode == typed.returncode == 1
    if form == "csv":
        assert str(CACHE) in plain.stdout
        assert typed == plain
        return
    assert IEC in plain.stdout
    assert SI not in plain.stdout
    assert SI in typed.stdout
    assert IEC not in typed.stdout
    assert quick("budget", "--format", form, env={"TFCALC_UNITS": "si"}) == typed


def test_the_units_of_a_file_are_those_that_it_pins(quick: Quick, tmp_path: Path) -> None:
    written(tmp_path, pinned="si")
    for form in ("markdown", "table"):
        assert SI in quick("budget", "--format", form).stdout
        assert SI in quick("budget", "--format", form, env={"TFCALC_UNITS": "iec"}).stdout
        assert IEC in quick("budget", "--format", form, "--units", "iec").stdout
    other = tmp_path / "settings"
    other.mkdir()
    (other / "tfcalc.toml").write_text('units = "iec"\n', encoding="utf-8")
    assert SI in quick("budget", "--file", "tfcalc.toml").stdout


def test_a_rise_that_wants_a_reason_is_said_in_the_same_units(quick: Quick, tmp_path: Path) -> None:
    written(tmp_path)
    assert quick("budget", "--update").returncode == 0
    changed = {**CHAT, "num_key_value_heads": 16}
    (tmp_path / "configs/chat.json").write_text(json.dumps(changed), encoding="utf-8")
    assert "4.00 GiB -> 8.00 GiB (+100.0 %)" in quick("budget", "--update").stderr
    assert "4.29 GB -> 8.59 GB (+100.0 %)" in quick("budget", "--update", "--units", "si").stderr
