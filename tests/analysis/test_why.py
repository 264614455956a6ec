"""``why`` names the cause of numbers that people met in public, and says so where no convention gives one.

The rows of tests/oracle/why.jsonl are threads, model cards and papers, with what they say; the exact number is the
``sum`` that each row shows.
"""

from __future__ import annotations

import io
import json
import re
import time
from contextlib import redirect_stdout
from fractions import Fraction
from typing import Any

import pytest

from tests.conftest import Program, recorded
from tfcalc import InvalidModel, UsageError, Workload, load, why
from tfcalc.analysis.why.given import ERRATA, asked_about, read
from tfcalc.cli.main import main
from tfcalc.expressions import evaluate, read_formula

ROWS = recorded("why.jsonl")
GIVEN = [row for row in ROWS if row["exact"] is not None]
CENT = Fraction(1, 100)
NONE = [row for row in ROWS if row["exact"] is None]


def asked(row: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The exit code and the answer of the command line."""
    model = [row["model"]] if row["model"] else []
    out = io.StringIO()
    with redirect_stdout(out):
        code = main(["why", row["number"], *model, *row["options"], "--json"])
    return code, json.loads(out.getvalue())


def value_of(text: str) -> Fraction:
    """The value of arithmetic as it is written."""
    written = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    return Fraction(evaluate(read_formula(written, ()), {}))


@pytest.mark.parametrize("row", GIVEN, ids=lambda row: f"{row['number']}-{row['model']}")
def test_the_right_cause_comes_first(row: dict[str, Any]) -> None:
    began = time.process_time()
    code, answer = asked(row)
    assert time.process_time() - began < 1
    first = answer["reasons"][0]
    assert first["steps"] == row["steps"]
    assert Fraction(str(first["exact_value"])) == value_of(row["sum"]) == Fraction(str(row["exact"]))
    assert code == 0


@pytest.mark.parametrize("row", NONE, ids=lambda row: f"{row['number']}-{row['model']}")
def test_none_is_an_answer(row: dict[str, Any]) -> None:
    code, answer = asked(row)
    assert (code, answer["found"], answer["reasons"]) == (1, False, [])
    assert answer["nearest"][0]["cause"] == "as tfcalc counts"
    assert any("github.com/openai/gpt-2" in note for note in answer["notes"])


def test_most_rows_have_a_thread() -> None:
    linked = {row["link"] for row in ROWS if row["link"]}
    assert len(linked) >= 30
    assert all(link.startswith("https://") for link in linked)


@pytest.mark.parametrize("row", GIVEN[::4], ids=lambda row: f"{row['number']}-{row['model']}")
def test_the_arithmetic_adds_up(row: dict[str, Any]) -> None:
    for reason in asked(row)[1]["reasons"]:
        *steps, last = reason["arithmetic"].split(" = ")
        assert abs(value_of(last) - Fraction(str(reason["exact_value"]))) <= CENT
        sums = [step for step in steps if re.fullmatch(r"[\d,. +−×÷/()]+", step)]
        assert all(abs(value_of(step) - value_of(last)) <= CENT for step in sums)


@pytest.mark.parametrize("row", GIVEN[::3], ids=lambda row: f"{row['number']}-{row['model']}")
def test_the_command_runs(row: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    command = asked(row)[1]["reasons"][0]["command"]
    if "config.json" not in command:
        assert main(command.split()[1:]) == 0
        assert capsys.readouterr().out


def test_a_model_without_a_cache() -> None:
    found = why("5GB", load("bert-base-uncased"), "cache")
    assert not found.found
    assert "generates no text" in found.notes[0]


def test_what_multiplies_a_sum_encloses_it() -> None:
    """Multiply-adds of the causal half: (62.9e12 − 4.4e12) / 2."""
    found = why("29,261,612,187,648", load("llama-2-7b"), "flops", Workload(seq_len=4096)).reasons
    halves = [one.arithmetic for one in found if one.steps == ("causal_half", "macs")]
    assert halves == ["(62,921,270,886,400 − 4,398,046,511,104) ÷ 2 = 29,261,612,187,648"]


@pytest.mark.parametrize(
    ("text", "low", "high", "figures"),
    [
        ("117M", 116_500_000, 117_500_000, 3),
        ("6.61B", 6_605_000_000, 6_615_000_000, 3),
        ("3.14e23", 3.135 * 10**23, 3.145 * 10**23, 3),
        ("12.6 GiB", Fraction(1255, 100) * 2**30, Fraction(1265, 100) * 2**30, 3),
        ("~1.5 billion params", 1_450_000_000, 1_550_000_000, 2),
        ("0.36B", 355_000_000, 365_000_000, 2),
    ],
)
def test_a_number_means_what_rounds_to_it(
    text: str, low: float | Fraction, high: float | Fraction, figures: int
) -> None:
    reading = read(text).readings[0]
    assert float(reading.low) == pytest.approx(float(low), rel=1e-12)
    assert float(reading.high) == pytest.approx(float(high), rel=1e-12)
    assert reading.figures == figures


def test_a_number_in_full_is_exact_and_zeros_at_its_end_may_only_hold_places() -> None:
    exact, *rest = read("124,439,808").readings
    assert exact.low == exact.high == 124_439_808
    assert not rest
    assert [reading.takes(Fraction(109_482_240)) for reading in read("110M").readings] == [
        False,
        False,
        False,
        True,
    ]
    assert [reading.takes(Fraction(13_900_000_000)) for reading in read("13GB").readings] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("text", "unit", "scale"),
    [
        ("14GB", "bytes", 10**9),
        ("14 GiB", "bytes", 2**30),
        ("14Gi", "bytes", 2**30),
        ("512 KB/token", "bytes", 10**3),
        ("31.5 TFLOPs", "flops", 10**12),
        ("850 GMACs", "flops", 10**9),
        ("7B", "", 10**9),
        ("124 million parameters", "params", 10**6),
        ("300 bytes", "bytes", 1),
    ],
)
def test_units(text: str, unit: str, scale: int) -> None:
    assert (read(text).unit, read(text).scale) == (unit, scale)


@pytest.mark.parametrize("text", ["", "abc", "-3", "0", "1e99", "1" * 70, "3 parsecs", "7B7", "٣", "1e-999", "0.3"])
def test_what_is_no_number_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(text)
    assert "write 117M" in str(refused.value)


def test_few_figures_do_not_fit_far_fetched_combinations() -> None:
    """Two adapters beside the model would round to 1550M; three figures are no evidence of that, nine are."""
    model = load("whisper-large-v2")
    adapters = 1_543_304_960 + 7_208_960
    assert str(round(adapters / 10**7)) == "155"
    assert not why("1550M", model).found
    assert why(adapters, model).reasons[0].steps == ("lora_4_all-linear",)


def test_errata_show_what_the_same_sizes_have_with_another_vocabulary() -> None:
    totals = {"gpt2": (124_439_808, 768), "gpt2-medium": (354_823_168, 1024)}
    totals |= {"gpt2-large": (774_030_080, 1280), "gpt2-xl": (1_557_611_200, 1600)}
    for line in map(json.loads, ERRATA.read_text(encoding="utf-8").splitlines()):
        total, hidden = totals[line["preset"]]
        smaller = total - (50_257 - 40_478) * hidden
        assert f"{smaller:,}" in line["words"]
        assert round(smaller / 10**6) * 10**6 == line["number"]


def test_another_size_has_no_erratum() -> None:
    assert why("117M", load("gpt2").replaced(n_layers=11)).notes == ()


def test_the_model_as_it_is_counted_comes_before_any_departure() -> None:
    found = why("8.03B", load("llama-3-8b"))
    assert (found.answer, found.reasons[0].cause, found.reasons[0].steps) == (8_030_261_248, "as tfcalc counts", ())


def test_a_workload_is_of_flops_and_cache() -> None:
    model, run = load("llama-3-8b"), Workload(seq_len=8192, batch_size=2)
    assert why("2GiB", model, "cache", run).answer == 2 * 8192 * 2 * 32 * 8 * 128 * 2
    assert why("1 GiB", model, "cache", Workload(seq_len=8192)).answer == 8192 * 2 * 32 * 8 * 128 * 2


def test_a_size_of_the_model_is_no_count(tfcalc: Program) -> None:
    """By Llama 3.1 8B's config.json; a norm has as many parameters as the model is wide."""
    sizes = {131_072: "context", 4096: "hidden size", 14_336: "ffn size", 128_256: "vocab size", 8: "kv heads"}
    for size, name in sizes.items():
        title = tfcalc("why", f"{size}", "llama-3.1-8b").stdout.splitlines()[0]
        assert title == f"{size} is a size of the model: {name}"
    found = json.loads(tfcalc("why", "4096", "llama-3.1-8b", "--json").stdout)["reasons"]
    assert [(one["unit"], one["exact_value"]) for one in found] == [("size", 4096), ("params", 4096)]
    assert tfcalc(*found[0]["command"].split()[1:], "-q").stdout == "4096\n"
    assert not why("14336", load("llama-3.1-8b"), "params", called="llama-3.1-8b").found


def test_bytes_say_both_units() -> None:
    """The 80 GB of a card: 79.9 GB are 74.4 GiB, and 79.9 GiB are 85.8 GB."""
    assert why("79.9GB", load("llama-3-8b")).notes == ("79.9GB is 74.4 GiB (2^30 bytes), and 79.9 GB (10^9 bytes)",)
    assert why("79.9GiB", load("llama-3-8b")).notes == ("79.9GiB is 79.9 GiB (2^30 bytes), and 85.8 GB (10^9 bytes)",)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("why",), "no number given"),
        (("why", "many", "gpt2"), "'many' is not a number"),
        (("why", "117M", "gpt2", "--of", "parms"), "did you mean params"),
        (("why", "117M", "gpt2", "--of", "params", "--seq", "4k"), "--seq 4096 has no effect on params"),
        (("why", "14GB", "gpt2", "--of", "memory", "--batch", "2"), "--batch 2 has no effect on memory"),
        (("why", "14GB", "gpt2", "--of", "cache", "--tokens", "1B"), "--tokens 1000000000 has no effect on cache"),
    ],
)
def test_refusals(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_the_library_refuses_what_it_cannot_ask() -> None:
    with pytest.raises(UsageError):
        why("117M", load("gpt2"), "size")
    with pytest.raises(InvalidModel):
        why("117M", 117)  # type: ignore[arg-type]  # a number is no model


def test_quiet_prints_the_exact_number_or_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["why", "163M", "gpt2", "-q"]), capsys.readouterr().out) == (0, "163037184\n")
    assert (main(["why", "117M", "gpt2", "-q"]), capsys.readouterr().out) == (1, "none\n")


UNSEEN = recorded("why-unseen.jsonl")
BEHIND_ANOTHER = {
    ("gpt-j-6b", "1.5e22"),  # 6ND, and the count with attention at its 2,048 tokens: both round to it
    ("bloom", "180B"),
    ("vit-base-patch16-224", "86M"),
    ("gpt-3-175b", "3.24e23"),
    ("llama-3.1-405b", "3.8e25"),
    ("gpt-neo-2.7b", "10 GB"),
    ("bert-base-uncased", "440 MB"),
    ("llama-4-maverick-17b-128e-instruct", "17B"),
}
"""Coarse numbers that something as simple gives too: the cause is among those listed."""
NOT_FOUND = {("deberta-v3-base", "86M"), ("bert-base-cased", "178.79G"), ("vit-base-patch16-224", "16.9G")}
"""The first departs too far for two figures; FLOPs of other classes, and norms alone, are not searched."""
BY_CHANCE = {("gemma-3n-e4b-text", "6.87B")}
"""Nothing is known to give it, and something does."""


@pytest.mark.parametrize("row", UNSEEN, ids=lambda row: f"{row['number']}-{row['model']}")
def test_what_was_collected_before_why_was_asked(row: dict[str, Any]) -> None:
    began = time.process_time()
    answer = asked(row)[1]
    assert time.process_time() - began < 1
    causes = {value_of(each) for each in row["sums"]}
    found = [Fraction(str(each["exact_value"])) for each in answer["reasons"]]
    name = row["model"], row["number"]
    if not causes or name in NOT_FOUND:
        assert bool(found) == (name in BY_CHANCE)
    elif name in BEHIND_ANOTHER:
        assert causes.intersection(found)
    else:
        assert found[0] in causes


def test_what_else_gives_the_same_number_is_named() -> None:
    """A classifier of two labels over tokens is as large as one for the ends of an answer."""
    first = why(108_893_186, load("bert-base-uncased")).reasons[0]
    assert first.steps == ("class_BertForTokenClassification",)
    assert any("BertForQuestionAnswering" in other for other in first.others)


def test_the_title_says_whether_there_is_one_way() -> None:
    """163M: one value that conventions give. 26GB: 7B x 4 bytes, called GB, and others that round to it."""
    assert why("163M", load("gpt2")).sheet().title.startswith("163M is 163,037,184 parameters")
    found = why("26GB", load("llama-7b"))
    assert found.ways > 1
    assert found.sheet().title.startswith("26GB may be 28,000,000,000 bytes")
    assert f"{found.ways} values are written as 26GB; more digits distinguish them" in found.sheet().notes


def test_as_counted_is_no_departure_and_leaves_no_doubt() -> None:
    sheet = why("9b", load("gemma-7b")).sheet()
    assert sheet.title.startswith("9b is 8,537,680,896 parameters: as tfcalc counts")
    assert not any("more figures" in note for note in sheet.notes)


def words(*command: str) -> tuple[int, dict[str, Any]]:
    out = io.StringIO()
    with redirect_stdout(out):
        code = main([*command, "--json"])
    return code, json.loads(out.getvalue())


def test_biases_may_be_off_with_the_weights_of_norms_kept() -> None:
    """nanoGPT's bias=False: 124,439,808 less 9h of matrices in each of 12 layers, and h of each of 25 norms."""
    assert 124_439_808 - (12 * 9 + 25) * 768 == 124_337_664
    code, answer = words("why", "124337664", "gpt2")
    assert (code, answer["reasons"][0]["steps"]) == (0, ["no_bias"])


def test_no_mask_is_blamed_where_there_is_none() -> None:
    """An encoder's attention of 2lbh·4h and 4l²bh with half of the latter is 10h² a token, where l = h."""
    _, answer = words("why", "2621440")
    assert not [step for one in answer["reasons"] for step in one["steps"] if step.startswith("causal")]
    masked = words("why", "58.5T", "llama-2-7b", "--seq", "4096", "--of", "flops")[1]
    assert masked["reasons"][0]["steps"] == ["causal_half"]


def test_without_a_model_the_presets_are_looked_at() -> None:
    """GPT-2 has 124,439,808 parameters; Llama 3 8B 8,030,261,248, of 2 bytes each."""
    code, answer = words("why", "124M")
    assert (code, answer["reasons"][0]["exact_value"], answer["reasons"][0]["command"]) == (
        0,
        124_439_808,
        "tfcalc params gpt2",
    )
    code, answer = words("why", "16.06GB")
    assert (code, answer["reasons"][0]["exact_value"]) == (0, 2 * 8_030_261_248)
    assert "llama-3-8b" in answer["reasons"][0]["cause"]
    code, answer = words("why", "44,140,544")
    assert answer["reasons"][0]["command"] == "tfcalc params"  # the classic model, as ever


def test_a_training_run_is_proposed(capsys: pytest.CaptureFixture[str]) -> None:
    """Brown et al. 2020, table D.1: 3.14e23 FLOPs of 300B tokens."""
    assert main(["why", "3.14e23", "gpt-3"]) == 0
    command = "why 3.14e23 gpt-3 --train --tokens 300B"
    said = " ".join(capsys.readouterr().out.split())
    assert command in said
    assert said.startswith("3.14e23 may be 314,287,666,790,400,000,000,000 FLOPs: training on 300B tokens: 6ND")
    assert 6 * (96 * 12 * 12_288**2 + 96 * 13 * 12_288 + (50_257 + 2048) * 12_288 + 2 * 12_288) * 300 * 10**9 == (
        314_287_666_790_400_000_000_000
    )
    assert words(*command.split())[0] == 0


def test_a_number_is_taken_out_of_a_question() -> None:
    code, answer = words("why", "does HF say 8.03B", "llama-3-8b")
    assert (code, answer["given"]) == (0, "8.03B")
    assert answer["reasons"][0]["arithmetic"] == "32 x 218,112,000 + 2 x 525,336,576 + 4,096 = 8,030,261,248"
    assert 32 * 218_112_000 + 2 * 128_256 * 4096 + 4096 == 8_030_261_248
    assert asked_about("why is it 65 million?").value == 65_000_000
    for text, fact in (
        ("is it 7B or 8B", "has 2 numbers; ask about one of them: 7B"),
        ("llama-3-8b", "is not a number"),
    ):
        with pytest.raises(UsageError, match=fact):
            asked_about(text)


def test_bytes_are_parameters_times_their_size() -> None:
    answer = words("why", "168MiB")[1]
    assert answer["reasons"][0]["arithmetic"] == "44,140,544 parameters x 4 bytes = 176,562,176"


def test_questions_in_words(tfcalc: Program) -> None:
    """Of a layer at h = 768, 4h² + 4h; of two numbers that which differs; of none, or a factor, the concept."""
    asked = "There are 2,362,368 trainable parameters at each multi-head self-attention layer"
    assert "the attention of a model with h = 768 (4h² + 4h)" in tfcalc("why", asked).stdout
    both = tfcalc("why", "Why 124M and not the paper's 117M?", "gpt2").stdout
    assert both.startswith("no convention gives 117M")
    assert "124M is as tfcalc counts" in both
    for question, concept in {
        "Why are causal model FLOPs divided by 2?": "causal mask: ",
        "factor 6, 7 or 12?": "6ND: ",
        "Shouldn't we use 6ND instead of 2ND?": "6ND: ",
    }.items():
        assert tfcalc("why", question, "llama-3-8b").stdout.startswith(concept)
        assert tfcalc("explain", question).stdout.startswith(concept)
    assert tfcalc("why", "is there an answer?").returncode == 2


def test_k_of_a_length_is_1024() -> None:
    """Llama 3.1 was made for 128 · 1,024 tokens and has 128,256 words; Llama 2 has 32,000."""
    reasons = words("why", "128k", "llama-3.1-8b")[1]["reasons"]
    assert [(one["exact_value"], one["unit"]) for one in reasons] == [(131_072, "size"), (128_256, "size")]
    assert words("why", "32k", "llama-2-7b")[1]["reasons"][0]["exact_value"] == 32_000


def test_gpus_of_training_are_solved_for(tfcalc: Program) -> None:
    """2 bytes each of weights, gradients and two moments: 8 · 671,026,419,200 over 74 GiB are 68 GPUs at least."""
    asked = ("solve", "memory <= 74GiB", "deepseek-v3", "--for", "gpus", "--train", "--zero", "3", "--seq", "4k")
    found = tfcalc(*asked, "--checkpointing", "full", "-q")
    assert (found.returncode, int(found.stdout) > 8 * 671_026_419_200 / 74 / 2**30) == (0, True)


def test_what_is_cut_or_guessed_is_not_said_as_a_fact(tfcalc: Program) -> None:
    """OLMo 7B: 6,888,095,744 x 4 bytes are 25.66 GiB, which is rounded to 25.7."""
    assert round(6_888_095_744 * 4 / 2**30, 2) == 25.66
    assert tfcalc("why", "25.6GB").stdout.startswith("25.6GB may be")
    assert tfcalc("why", "2621440").stdout.startswith("2621440 may be")
    assert "12h²" not in tfcalc("why", "2621440").stdout


def test_a_size_that_rounds_comes_before_one_that_is_cut() -> None:
    """Llama 4 Scout's language model has 17.17B active parameters, with its vision model 17.63B."""
    code, answer = words("why", "17B", "llama-4-scout-17b-16e-instruct")
    assert code == 0
    assert [round(one["exact_value"] / 10**9, 2) for one in answer["reasons"]][:2] == [17.17, 17.63]


def test_logits_of_a_plan_are_bytes_that_people_state() -> None:
    """256 x 2,048 tokens of 32,000 scores of 2 bytes are 31.25 GiB."""
    assert 256 * 2048 * 32_000 * 2 == 31.25 * 2**30
    code, answer = words("why", "31.25GiB", "llama-2-7b", "--train", "--batch", "256", "--seq", "2048")
    assert (code, answer["reasons"][0]["exact_value"]) == (0, 256 * 2048 * 32_000 * 2)
    assert answer["reasons"][0]["cause"] == "the logits in 16 bits, of 524,288 tokens"
