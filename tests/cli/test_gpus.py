"""``tfcalc gpus``: the figures of hardware.csv, by the names that people type."""

from __future__ import annotations

import csv
import json

import pytest

from tests.conftest import Quick

MEANT = {
    "h100": "H100-SXM H100-PCIe H100-NVL",
    "H100 PCIe": "H100-PCIe",
    "a100-80": "A100-SXM-80 A100-PCIe-80",
    "NVIDIA A100 40GB": "A100-SXM-40",
    "94GB": "H100-NVL",
    "4090": "RTX-4090",
    "m2 max": "M2-Max-32 M2-Max-64 M2-Max-96",
}


def test_a_word_is_a_name_a_maker_or_an_amount(quick: Quick) -> None:
    for word, meant in MEANT.items():
        assert quick("gpus", word, "-q").stdout.split() == meant.split(), word
    everything = quick("gpus", "-q").stdout.split()
    assert quick("gpus", "all", "-q").stdout.split() == everything
    for word in ("rtx", "apple", "amd"):
        found = quick("gpus", word, "-q").stdout.split()
        assert set(found) < set(everything)
    for word in ("h1000", "23GB", "zzz"):
        refused = quick("gpus", word)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)


def test_figures_are_those_of_the_datasheet(quick: Quick) -> None:
    """H100 SXM: 80 GB, 3.35 TB/s, 989.4 TFLOP/s dense in bf16, 450 GB/s each way among 8, compute capability 9.0."""
    (card,) = json.loads(quick("gpus", "h100 sxm", "--json").stdout)["gpus"]
    assert (card["memory"], card["bandwidth"], card["capability"]) == ("80 GB", 3.35e12, "9.0")
    assert (card["peaks"]["bf16"], card["peaks"]["fp8"]) == (989_400_000_000_000, 1_978_900_000_000_000)
    assert (card["link"], card["domain"]) == (450e9, 8)
    assert card["price_per_hour"] == pytest.approx(2.95)
    assert "2026" in card["price_from"]
    assert all(card["sources"].values())
    (row,) = csv.DictReader(quick("gpus", "h100 sxm", "--format", "csv").stdout.splitlines())
    assert (row["GPU"], row["bf16"], row["price_from"]) == ("H100-SXM", "989400000000000", card["price_from"])


def test_what_is_not_known_has_no_key(quick: Quick) -> None:
    """An RTX 4060 is rented by nobody in the list of prices."""
    (card,) = json.loads(quick("gpus", "rtx-4060", "--json").stdout)["gpus"]
    assert "price_per_hour" not in card
