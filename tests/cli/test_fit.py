"""``tfcalc fit``: the verdicts of ``memory --gpu``, on each common GPU."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import tfcalc
from tests.conftest import Quick
from tfcalc import Training
from tfcalc.answers import fit as tables
from tfcalc.answers.verdict import Fit, memory_within


def _json(quick: Quick, *words: str) -> dict[str, Any]:
    return json.loads(quick(*words, "--json").stdout)  # type: ignore[no-any-return]


def test_each_line_is_the_verdict_on_that_card(quick: Quick) -> None:
    """A card has the verdict and the bytes that memory has of it, smallest first; a change makes it fit as it says."""
    asked = ("gpt2", "--layers", "1", "--batch", "16", "--seq", "512", "--checkpointing", "none")
    found = _json(quick, "fit", *asked)
    cards: list[dict[str, Any]] = found["cards"]
    usable = [card["usable_bytes"] for card in cards]
    assert usable == sorted(usable)
    assert found["fitting_count"] == len(cards)
    for card in cards:
        assert card["free_bytes"] == card["usable_bytes"] - card["peak_bytes"] > 0
    changed = next(card for card in cards if card["change"])
    kept = next(card for card in cards if not card["change"])
    for card in (changed, kept):
        alone = _json(quick, "memory", *asked, "--train", "--gpu", str(card["gpu"]))
        assert alone["status"] == card["status"]
        assert card["status"] in ("fits", "tight") or card["change"]
    again = _json(quick, "memory", *asked, "--train", "--gpu", str(changed["gpu"]), *str(changed["change"]).split())
    assert again["total_bytes"] == changed["peak_bytes"]


def test_with_a_card_it_is_the_verdict(quick: Quick) -> None:
    """With --gpu it says what memory --train --gpu says, and --gpu all is the table."""
    asked = ("gpt2", "--layers", "1", "--lora", "4", "--seq", "64")
    assert quick("fit", *asked, "--gpu", "t4").stdout == quick("memory", *asked, "--gpu", "t4").stdout
    served = ("llama-3-8b", "--context", "1k")
    assert quick("fit", *served, "--gpu", "t4").returncode == 1
    assert quick("fit", *served, "--gpu", "all").stdout == quick("fit", *served, "--serve").stdout


LARGE = ("llama-3-8b", "--layers", "2", "--seq", "512", "--checkpointing", "none")


@pytest.mark.parametrize("command", ["fit", "train --tokens 1B"])
def test_gpus_that_a_table_did_not_come_to_are_named(
    quick: Quick, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """The largest are asked first, as less is tried on them; of the others nothing is claimed."""
    whole = _json(quick, *command.split(), *LARGE)
    assert whole["not_searched"] == []
    monkeypatch.setattr(tables, "TABLE_UNITS", 1000)
    found, told = _json(quick, *command.split(), *LARGE), quick(*command.split(), *LARGE).stdout
    rows = "runs" if "runs" in whole else "cards"
    left = found["not_searched"]
    assert "B200-HGX" not in left
    assert {row["gpu"] for row in found[rows]} | {*left} >= {row["gpu"] for row in whole[rows]} > {*left}
    assert f"Not all changes were tried on: {', '.join(left)} (--gpu NAME asks about one alone)" in " ".join(
        told.split()
    )
    assert not {*left} & {*found.get("too_small", ())}


@pytest.mark.long
@pytest.mark.parametrize("model", ["gemma-3-27b", "olmo-3.1-32b-instruct"])
def test_models_of_unlike_layers_have_a_table(quick: Quick, model: str) -> None:
    """They were refused, as their layers took more runs than an answer may."""
    found = _json(quick, "train", model, "--tokens", "1B", "--gpus", "8")
    assert len(found["runs"]) >= 8
    assert {"H100-SXM", "H200-SXM", "B200-HGX"} <= {run["gpu"] for run in found["runs"]}


@pytest.mark.parametrize("card", ["rtx-3060", "t4", "rtx-4090", "a100-40"])
@pytest.mark.parametrize("gpus", [1, 4])
@pytest.mark.parametrize("batch", [8, 32])
def test_the_cheapest_change_is_the_first_of_all(card: str, gpus: int, batch: int) -> None:
    """It is found sooner, and is the same as where all changes are listed."""
    asked, plan = tfcalc.load("gpt2-large"), Training(gpus=gpus)
    judge = memory_within(asked, f"{gpus}x{card}", tfcalc.Workload(batch, 1024, phase="train"), training=plan).judge
    assert isinstance(judge, Fit)
    first = [one for one in judge.case.remedies().found if one.fits][:1]
    assert [one for one in judge.case.cheapest(grows=True).found if one.fits][:1] == first
    there = judge.case.cheapest(grows=False).found
    assert not any("gpus" in one.change.values for one in there)
    if first and "gpus" not in first[0].change.values:
        assert next(one for one in there if one.fits) == first[0]


def test_serving(quick: Quick) -> None:
    """8B weights of 16 bits are 16.1e9 bytes: beyond 90 % of a card with 16 GB, within those of one with 24 GB."""
    found = _json(quick, "fit", "llama-3-8b", "--serve", "--context", "1k")
    cards: list[dict[str, Any]] = found["cards"]
    status = {card["gpu"]: card["status"] for card in cards}
    assert status["RTX-4090"] == "fits"
    assert status["RTX-4080"] == "no"
    assert next(card["change"] for card in cards if card["gpu"] == "RTX-4080")
    assert found["not_computed"] == ["T4"]  # which has no bf16


def test_llama_cpp_runs_its_formats_on_any_gpu(quick: Quick) -> None:
    """A T4 multiplies no bf16, which vLLM would compute in; llama.cpp's CUDA kernels need capability 5.0."""
    for words, said in ((("--quant", "awq"), True), (("--quant", "q4_k_m"), False)):
        found = json.loads(quick("fit", "llama-3.1-8b", "--serve", *words, "--json").stdout)
        assert ("T4" in found["not_computed"]) is said
    assert json.loads(quick("fit", "llama-3.1-8b-q4_k_m", "--serve", "--json").stdout)["not_computed"] == []


def test_a_file_of_llama_cpp_is_served(quick: Quick) -> None:
    """4.9e9 bytes in q4_k_m fit on a card of 8 GB; trained it is not, so a training is that of the checkpoint."""
    found = quick("fit", "llama-3-8b-q4_k_m").stdout
    assert found.startswith("Fits on RTX-4060 (8 GB)")
    assert "weights in q4_k_m" in found
    trained = quick("memory", "llama-3-8b-q4_k_m", "--train", "--lora").stdout
    assert "llama.cpp's files are not trained" in trained
    assert "llama.cpp" not in quick("memory", "llama-3-8b", "--train", "--lora").stdout


def test_on_several_of_each(quick: Quick) -> None:
    """--gpus is the number of each: the states are shared, and the line says how many."""
    found = _json(quick, "fit", "gpt2", "--layers", "1", "--seq", "64", "--gpus", "4", "--fsdp")
    cards: list[dict[str, Any]] = found["cards"]
    assert {card["gpus"] for card in cards} == {4}
    assert quick("fit", "gpt2", "--layers", "1", "--seq", "64", "--gpus", "4", "--fsdp").stdout.count("4 x ") >= 17


def test_refusals(quick: Quick) -> None:
    """What is asked of one GPU alone is refused without one; a model without training memory says so."""
    done = quick("fit", "gpt2", "--margin", "3")
    assert (done.returncode, done.stdout) == (2, "")
    assert "add --gpu NAME" in done.stderr


def test_the_overview_of_a_card_has_the_verdicts_of_memory(quick: Quick) -> None:
    """What ``tfcalc MODEL --gpu`` says of each line is what the command beside it says."""
    asked = ("gpt2", "--layers", "2", "--seq", "64")
    found = _json(quick, *asked, "--gpu", "t4")
    assert found["gpu"] == "t4"
    for name, words in {"finetune_full": ("--train",), "finetune_qlora": ("--train", "--qlora")}.items():
        alone = _json(quick, "memory", *asked, *words, "--gpu", "t4", "--checkpointing", "full")
        assert alone["status"] == found["verdicts"][name]
        assert alone["total_bytes"] == found[f"{name}_bytes"]
    assert _json(quick, "llama-3-8b", "--gpu", "t4")["verdicts"]["finetune_full"] == "no"  # 2 x 8.03e9 bytes of weights
    assert "gpu" not in _json(quick, *asked)
    refused = quick(*asked, "--gpu", "zzz")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)


def test_headings_of_csv_say_bytes_where_bytes_are(quick: Quick) -> None:
    """As the datasheet has it: an H100 of 80 GB, less what the driver keeps, is over 80 thousand million bytes."""
    header, *rows = quick("fit", "gpt2", "--gpu", "h100,a100", "--format", "csv").stdout.splitlines()
    assert header == "GPU,as asked,change,peak bytes,usable bytes,free bytes"
    cells = next(row.split(",") for row in rows if row.startswith("H100-SXM,"))
    peak, usable, free = map(int, cells[-3:])
    assert 75 * 10**9 < usable < 86 * 10**9
    assert peak + free == usable


def test_formats_are_changed_before_the_request_is(quick: Quick) -> None:
    """Five requests of 131,072 tokens of Llama 3.1 70B on a B200: weights of 4 bits and 4.2 with scales (37 GB) and a
    cache of 80 x 2 x 8 x 128 bytes a token (107 GB) are within 90 % of 180 GB; no shorter context is advised for it.
    """
    words = ("fit", "llama-3.1-70b", "--serve", "--concurrency", "5", "--context", "128k")
    line = next(line for line in quick(*words).stdout.splitlines() if line.startswith("B200-HGX"))
    assert "--kv fp8 --weights int4" in line
    assert "--context" not in line
    typed = ("--kv", "fp8", "--weights", "int4", "--gpu", "b200")
    assert quick("memory", *words[1:], *typed).returncode == 0


def test_what_fits_shows_no_more_than_the_card_has(quick: Quick) -> None:
    """Where PyTorch's cache would take more than 24 GB, it gives back what it would keep."""
    said = quick("fit", "llama-3-8b", "--gpu", "rtx-4090", "--fsdp", "--gpus", "4").stdout
    on_card = next(line for line in said.splitlines() if line.startswith("On the card: "))
    assert max(map(float, re.findall(r"\d+\.\d+", on_card))) <= 24
    assert "PyTorch's cache would take 28" in said


@pytest.mark.parametrize("words", [("gpt2",), ("gpt2-medium", "--lora"), ("gpt2", "--serve", "--context", "1k")])
def test_the_largest_is_tight_where_it_fits_tightly(quick: Quick, words: tuple[str, ...]) -> None:
    told = quick("fit", *words, "--gpu", "rtx-4090").stdout
    grown = re.findall(r"^largest .*?(\(tight\))? +[\d.]+ +[\d.]+  (--.+?) *$", told, re.MULTILINE)
    assert grown
    for tight, flags in grown:
        first = quick("fit", *words, "--gpu", "rtx-4090", *flags.split()).stdout
        assert first.startswith("FITS, TIGHTLY: " if tight else "FITS: "), flags
