"""How one limit is held: exactly, with a warning, by its severity, until it expires."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tfcalc
from tests.budgets.sample import CACHE, CHAT, FILES, config, sample
from tests.conftest import Quick
from tfcalc.budgets.config_diff import changed_field, differences, line_of
from tfcalc.budgets.file import ModelEntry
from tfcalc.budgets.limit_check import AmountFormat, percent_change, threshold, violated
from tfcalc.budgets.limits import amount
from tfcalc.budgets.sources import Source
from tfcalc.cli.asking import Asker
from tfcalc.configs.published import HFModel
from tfcalc.workload import Workload

HEAD, _, _ = FILES["tfcalc.toml"].partition("[[budget]]")


def held(quick: Quick, folder: Path, limits: str, *words: str, metric: str = "memory.kv_cache_bytes") -> dict[str, Any]:
    """The only check of one budget with these ``limits``, and the exit code."""
    scenario = 'scenario = "serving"\n' if metric.startswith("memory") else ""
    (folder / "configs").mkdir(exist_ok=True)
    (folder / "configs/chat.json").write_text(config(), encoding="utf-8")
    text = f'{HEAD}[[budget]]\nmodel = "chat"\n{scenario}metric = "{metric}"\n{limits}\n'
    (folder / "tfcalc.toml").write_text(text, encoding="utf-8")
    ran = quick("budget", "--json", *words)
    (check,) = json.loads(ran.stdout)["checks"]
    return {**check, "code": ran.returncode, "alone": quick("budget", "-q", *words).stdout}


@pytest.mark.parametrize(
    ("limits", "status", "code"),
    [
        (f"max = {CACHE}", "passed", 0),
        (f"max = {CACHE - 1}", "failed", 1),
        (f"min = {CACHE}", "passed", 0),
        (f"min = {CACHE + 1}", "failed", 1),
        (f"equals = {CACHE}", "passed", 0),
        (f"equals = {CACHE + 1}", "failed", 1),
        (f"equals = {CACHE - 1}", "failed", 1),
        (f"max = {CACHE - 1}\nseverity = 'warning'", "warning", 0),
        (f"max = {2 * CACHE}\nwarn = {CACHE}", "passed", 0),
        (f"max = {2 * CACHE}\nwarn = {CACHE - 1}", "warning", 0),
        (f"max = {CACHE - 1}\nwarn = {CACHE - 2}", "failed", 1),
        (f"min = {CACHE // 2}\nwarn = {CACHE + 1}", "warning", 0),
        (f"min = {CACHE // 2}\nwarn = {CACHE}", "passed", 0),
    ],
)
def test_a_limit_is_held_to_the_last_byte(quick: Quick, tmp_path: Path, limits: str, status: str, code: int) -> None:
    found = held(quick, tmp_path, limits)
    assert (found["value"], found["status"], found["code"]) == (CACHE, status, code)
    assert found["alone"] == f"{code}\n"


@pytest.mark.parametrize(("card", "code"), [("h100", 0), ("a100", 1), ("24GB", 1)])
def test_a_card_is_a_limit_by_the_rule_of_verdicts(quick: Quick, tmp_path: Path, card: str, code: int) -> None:
    """The verdict is that of memory: of training one sequence of 4,096 tokens."""
    text = (
        '[models.a]\npreset = "llama-3-8b"\n\n[scenarios.tune]\ntrain = true\nseq = 4096\n\n[[budget]]\nmodel = "a"\n'
    )
    (tmp_path / "tfcalc.toml").write_text(f'{text}scenario = "tune"\nfits_gpu = "{card}"\n', encoding="utf-8")
    ran = quick("budget", "--json")
    (check,) = json.loads(ran.stdout)["checks"]
    verdict = quick("memory", "llama-3-8b", "--train", "--seq", "4096", "--gpu", card, "--json")
    told = json.loads(verdict.stdout)
    assert (ran.returncode, verdict.returncode) == (code, code)
    assert check["message"] == f"a, tune on {card}: {told['verdict']} (fits_gpu)"
    assert (check["value"], check["rule"], check["limit"]) == (told["total_bytes"], "fits_gpu", card)


def test_what_is_just_over_is_told_in_full(quick: Quick, tmp_path: Path) -> None:
    """4 GiB less a byte."""
    found = held(quick, tmp_path, f"max = {CACHE - 1}\nwhy = 'one card'")
    assert found["message"] == (
        "chat, serving: memory.kv_cache_bytes 4.00 GiB, at most 4294967295 (max), 1 B over; why: one card"
    )


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--today", "2027-01-30"), "passed"),
        (("--today", "2027-01-31"), "failed"),
        (("--today", "2028-01-01"), "failed"),
    ],
)
def test_a_budget_expires_on_its_day(quick: Quick, tmp_path: Path, words: tuple[str, ...], status: str) -> None:
    found = held(quick, tmp_path, f"max = {CACHE}\nexpires = 2027-01-31", *words)
    assert found["status"] == status
    assert found["rule"] == ("max" if status == "passed" else "expires")
    assert ("expired on 2027-01-31" in found["message"]) == (status == "failed")


def test_an_expired_warning_is_a_warning(quick: Quick, tmp_path: Path) -> None:
    limits = f"max = {CACHE}\nexpires = 2027-01-31\nseverity = 'warning'"
    found = held(quick, tmp_path, limits, "--today", "2027-02-01")
    assert (found["status"], found["code"]) == ("warning", 0)


def test_the_day_is_that_of_a_reproducible_build(quick: Quick, tmp_path: Path) -> None:
    """1,800,000,000 seconds after 1970 it is 15 January 2027."""
    sample(
        tmp_path,
        {
            **FILES,
            "tfcalc.toml": HEAD
            + "[[budget]]\nmodel = 'chat'\nmetric = 'total_params'\nmin = 1\nexpires = 2027-01-15\n",
        },
    )
    for seconds, code in (("1799971199", 0), ("1799971200", 1)):
        assert quick("budget", env={"SOURCE_DATE_EPOCH": seconds}).returncode == code
    ran = quick("budget", env={"SOURCE_DATE_EPOCH": "soon"})
    assert (ran.returncode, ran.stdout) == (2, "")


def test_growth_is_compared_exactly() -> None:
    """A tenth of 10^18 + 1 is no float."""
    base = 10**18 + 1
    allowed = threshold("max_increase", amount("10%", "max_increase", "bytes"), base)
    assert allowed == Fraction(11 * base, 10)
    assert not violated("max_increase", 11 * 10**17 + 1, allowed)
    assert violated("max_increase", 11 * 10**17 + 2, allowed)


@pytest.mark.parametrize(("rule", "value", "fails"), [("max_increase", 1, True), ("max_increase", 0, False)])
def test_from_nothing_every_growth_is_too_much(rule: str, value: int, fails: bool) -> None:
    """A percentage of 0 is 0."""
    assert violated(rule, value, threshold(rule, amount("50%", rule, "bytes"), 0)) is fails
    assert not violated(rule, 5, threshold(rule, amount(5, rule, ""), 0))


def test_what_shrinks_may_be_negative() -> None:
    """Headroom of -100 may fall by 10 % of 100."""
    allowed = threshold("max_decrease", amount("10%", "max_decrease", ""), -100)
    assert allowed == -110
    assert violated("max_decrease", -111, allowed)


@pytest.mark.parametrize(
    ("base", "value", "said"),
    [
        (4 * 2**30, 8 * 2**30, "4.00 GiB -> 8.00 GiB (+100.0 %)"),
        (2**30, 2**30 + 1, "1,073,741,824 -> 1,073,741,825 (+1)"),
        (0, 2**20, "0 B -> 1.00 MiB (+1,048,576)"),
        (2**20, 0, "1.00 MiB -> 0 B (-100.0 %)"),
        (2**20, 2**20, "1.00 MiB (unchanged)"),
    ],
)
def test_two_different_numbers_never_look_the_same(base: int, value: int, said: str) -> None:
    assert AmountFormat("bytes").change(base, value) == said


def test_a_fraction_of_a_per_cent() -> None:
    assert (percent_change(1_000_000, 1_001_000), percent_change(1_000_000, 999_999)) == ("+0.1 %", "-1")


def test_the_line_of_a_field() -> None:
    text = '{\n "a": {"x": 1,\n  "b": "\\"x\\": {",\n  "x": 2},\n "list": [{"c": 1}],\n "c":\n 3, "\\u0064": 4\n}'
    assert [line_of(text, path) for path in (("a",), ("a", "b"), ("list",), ("c",), ("d",))] == [2, 3, 5, 6, 7]
    assert line_of(text, ("b",)) == 1


def test_the_fields_that_changed() -> None:
    before = {"same": 1, "text": {"layers": 2, "heads": 2}, "gone": 1, "list": [1, 2]}
    now = {"list": [1, 3], "same": 1, "text": {"heads": 2, "layers": 4}, "more": None}
    assert list(differences(before, now)) == [("list",), ("text", "layers"), ("more",), ("gone",)]


def test_the_field_that_moves_a_number() -> None:
    before, now = {"a": 1, "b": {"c": 1}, "d": 1}, {"a": 2, "b": {"c": 2}}
    assert changed_field(before, now, lambda fields: fields["b"] == {"c": 2}) == ("b", "c")
    assert changed_field(before, now, lambda fields: "d" not in fields) == ("d",)
    assert changed_field(before, now, lambda _: False) == ("a",)
    assert changed_field(before, before, lambda _: True) is None


BROKEN = {
    "no JSON": ("configs/chat.json", "{"),
    "no such type": ("configs/chat.json", '{"model_type": "no-such-type"}'),
    "heads that do not divide": ("configs/chat.json", config(num_attention_heads=31)),
    "no config": ("tfcalc.toml", FILES["tfcalc.toml"].replace("configs/chat", "configs/none")),
    "no such option value": ("tfcalc.toml", FILES["tfcalc.toml"].replace('"32k"', '"long"')),
    "an option that no command has": (
        "tfcalc.toml",
        FILES["tfcalc.toml"].replace("serve = true", "tokens_per_second = 5\nserve = true"),
    ),
    "an option without effect": ("tfcalc.toml", FILES["tfcalc.toml"].replace("serve = true", "train = true")),
    "no such component": ("tfcalc.toml", FILES["tfcalc.toml"].replace("total_params", "components.no.params")),
    "no number": ("tfcalc.toml", FILES["tfcalc.toml"].replace("kv_cache_bytes", "peak_phase")),
    "no budgets": ("tfcalc.toml", HEAD),
}


@pytest.mark.parametrize(("name", "text"), BROKEN.values(), ids=BROKEN)
def test_a_file_that_is_wrong_today_is_one_line_and_3(quick: Quick, tmp_path: Path, name: str, text: str) -> None:
    sample(tmp_path, {**FILES, name: text})
    ran = quick("budget", "--base", "HEAD")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert len(ran.stderr.splitlines()) == 1
    assert ran.stderr.startswith("tfcalc: tfcalc.toml")


def test_without_a_file(quick: Quick) -> None:
    ran = quick("budget")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "tfcalc.toml" in ran.stderr


def test_the_other_name_of_the_command(quick: Quick, tmp_path: Path) -> None:
    sample(tmp_path)
    assert quick("check-budget", "--base", "HEAD") == quick("budget", "--base", "HEAD")
    assert quick("help", "check-budget").stdout == quick("budget", "--help").stdout


def test_an_entry_is_found_when_it_is_read_and_is_that_of_the_json() -> None:
    """What a card shows of a step is simulated; the peak of the step does not wait for it."""
    found = tfcalc.memory(tfcalc.Transformer(), Workload(phase="train"))
    entries = found.entries()
    assert entries["peak_bytes"] == found.answer
    assert "on_card" not in vars(found)
    assert dict(entries) == found.to_dict()
    assert len(entries) == len(found.to_dict())
    assert "no_such_key" not in entries


def test_a_model_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []

    def counted(fields: dict[str, object], **named: str) -> HFModel:
        built.append(fields)
        return HFModel(fields, treated_as=named["treat_as"])

    monkeypatch.setattr("tfcalc.cli.asking.from_config", counted)
    ask, source = Asker(), Source(ModelEntry("chat", "chat.json", None, {}), CHAT, "chat.json")
    answers = [ask(name, source, {}, {}) for name in ("params", "flops", "memory")]
    assert built == [CHAT]
    assert [answer["command"] for answer in answers] == ["params", "flops", "memory"]
