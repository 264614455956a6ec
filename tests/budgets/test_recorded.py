"""tfcalc.lock.json: what is recorded, what wants a reason, and what is not comparable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.budgets.sample import CACHE, FILE, KV_HEADS, config, sample
from tests.conftest import Quick
from tests.repositories import Repository

METRIC = "memory.kv_cache_bytes"
DOUBLED, HALVED = config(num_key_value_heads=16), config(num_key_value_heads=4)
UPDATE = ("budget", "--update")
LOCK = "tfcalc.lock.json"


@pytest.fixture
def repository(tmp_path: Path, quick: Quick) -> Repository:
    """With recorded values."""
    made = sample(tmp_path)
    assert quick(*UPDATE).returncode == 0
    return made


def write(repository: Repository, name: str, text: str) -> None:
    (repository.folder / name).write_text(text, encoding="utf-8")


def lock(repository: Repository) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((repository.folder / LOCK).read_text(encoding="utf-8"))
    return found


def change(repository: Repository, **fields: object) -> None:
    """Rewrite the lock with other fields at its top."""
    write(repository, LOCK, json.dumps({**lock(repository), **fields}))


def record(repository: Repository) -> dict[str, Any]:
    (found,) = [one for one in lock(repository)["values"] if one["metric"] == METRIC]
    return dict(found)


def cache_check(stdout: str) -> dict[str, Any]:
    (found,) = [one for one in json.loads(stdout)["checks"] if one["metric"] == METRIC]
    return dict(found)


def test_what_is_recorded(quick: Quick, repository: Repository) -> None:
    """A line for each value, sorted, and the same bytes when it is recorded again."""
    text = (repository.folder / LOCK).read_text(encoding="utf-8")
    assert record(repository)["value"] == CACHE
    lines = [line for line in text.splitlines() if line.startswith('    {"model"')]
    assert [json.loads(line.rstrip(","))["model"] for line in lines] == ["chat", "chat", "small"]
    assert text.endswith("}\n")
    assert quick(*UPDATE).stdout == f"{LOCK}: 3 values recorded (3 unchanged)\n"
    assert (repository.folder / LOCK).read_text(encoding="utf-8") == text
    assert quick("budget", "-q").stdout == "0\n"


def test_growth_over_the_recorded_value_fails(quick: Quick, repository: Repository) -> None:
    write(repository, "configs/chat.json", DOUBLED)
    ran = quick("budget", "--json")
    assert ran.returncode == 1
    found = cache_check(ran.stdout)
    assert (found["base"], found["value"], found["base_name"]) == (CACHE, 2 * CACHE, LOCK)
    assert (found["path"], found["status"]) == ("tfcalc.toml", "failed")


def test_raising_a_value_wants_a_reason(quick: Quick, repository: Repository) -> None:
    before = (repository.folder / LOCK).read_bytes()
    write(repository, "configs/chat.json", DOUBLED)
    ran = quick(*UPDATE)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"chat, serving: {METRIC} 4.00 GiB -> 8.00 GiB (+100.0 %)" in ran.stderr
    assert "--reason" in ran.stderr
    assert (repository.folder / LOCK).read_bytes() == before
    assert quick(*UPDATE, "--reason", "longer answers").stdout == f"{LOCK}: 3 values recorded (2 raised, 1 unchanged)\n"
    assert (record(repository)["value"], record(repository)["reason"]) == (2 * CACHE, "longer answers")
    assert quick("budget").returncode == 0


def test_lowering_a_value_wants_none(quick: Quick, repository: Repository) -> None:
    """The parameters fall, too. A reason of an earlier raise stays."""
    write(repository, "configs/chat.json", DOUBLED)
    quick(*UPDATE, "--reason", "longer answers")
    write(repository, "configs/chat.json", HALVED)
    assert quick(*UPDATE).stdout == f"{LOCK}: 3 values recorded (2 lowered, 1 unchanged)\n"
    assert (record(repository)["value"], record(repository)["reason"]) == (CACHE // 2, "longer answers")


def test_lowering_what_must_not_fall_wants_a_reason(quick: Quick, repository: Repository) -> None:
    write(repository, "tfcalc.toml", FILE.replace('max_increase = "10%"', 'max_decrease = "10%"'))
    write(repository, "configs/chat.json", HALVED)
    assert quick("budget").returncode == 1
    assert quick(*UPDATE).returncode == 2
    assert quick(*UPDATE, "--reason", "a smaller cache is enough").returncode == 0
    assert quick("budget").returncode == 0


def test_a_value_of_another_version_is_not_comparable(quick: Quick, repository: Repository) -> None:
    """Unless it is the same."""
    change(repository, tfcalc="0.1.0")
    assert quick("budget").returncode == 0
    write(repository, "configs/chat.json", DOUBLED)
    ran = quick("budget", "--json")
    assert ran.returncode == 3
    assert cache_check(ran.stdout)["status"] == "not comparable"
    assert "may count this differently than 0.1.0, which recorded it" in cache_check(ran.stdout)["message"]
    assert quick(*UPDATE).returncode == 2
    assert quick(*UPDATE, "--reason", "tfcalc was updated").returncode == 0
    assert quick("budget").returncode == 0


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (FILE.replace('context = "32k"', 'context = "64k"'), "context was '32k' and is '64k'"),
        (FILE + '\n[conventions]\ndtype = "fp32"\n', "dtype was not set and is 'fp32'"),
    ],
    ids=["a longer context", "another format"],
)
def test_a_definition_that_moved_is_no_growth(quick: Quick, repository: Repository, file: str, said: str) -> None:
    write(repository, "tfcalc.toml", file)
    ran = quick("budget", "--json")
    assert ran.returncode == 3
    found = cache_check(ran.stdout)
    assert (found["status"], found["base"], found["value"]) == ("not comparable", None, 2 * CACHE)
    assert said in found["message"]
    assert "tfcalc budget --update --reason" in found["message"]


def test_a_default_that_moved_is_no_growth(quick: Quick, repository: Repository) -> None:
    """The same model, asked in the same way, by the same version: another value rests on other definitions."""
    values = [{**one, "value": 1, "definitions": "0" * 16} for one in lock(repository)["values"]]
    change(repository, values=values)
    ran = quick("budget", "--json")
    assert (ran.returncode, cache_check(ran.stdout)["status"]) == (3, "not comparable")


def test_what_a_model_says_of_itself_is_growth(quick: Quick, repository: Repository) -> None:
    """Its heads of keys and values are a field of the config: twice as many are twice as much."""
    write(repository, "configs/chat.json", config(num_key_value_heads=2 * KV_HEADS))
    ran = quick("budget", "--json")
    assert ran.returncode == 1
    assert (cache_check(ran.stdout)["base"], cache_check(ran.stdout)["value"]) == (CACHE, 2 * CACHE)


def test_a_value_that_was_never_recorded_is_not_comparable(quick: Quick, repository: Repository) -> None:
    change(repository, values=[one for one in lock(repository)["values"] if one["metric"] != METRIC])
    ran = quick("budget", "--json")
    assert ran.returncode == 3
    assert "tfcalc budget --update" in cache_check(ran.stdout)["message"]


def test_a_value_that_no_budget_asks_for_is_dropped(quick: Quick, repository: Repository) -> None:
    write(repository, "tfcalc.toml", FILE.replace('model = "*"', 'model = "chat"'))
    assert quick(*UPDATE).stdout == f"{LOCK}: 2 values recorded (1 removed, 2 unchanged)\n"


def broken(**fields: object) -> str:
    """A lock that is fine but for these fields."""
    fine = {"schema_version": 1, "tfcalc": "0.2.0", "conventions": {}, "scenarios": {}, "values": []}
    return json.dumps({**fine, **fields})


def with_value(value: object) -> str:
    """A lock with one such value."""
    texts = dict.fromkeys(("metric", "definitions", "fields", "reason"), "")
    return broken(values=[{"model": "chat", "scenario": None, "value": value, **texts}])


BROKEN: Mapping[str, str] = {
    "nothing": "",
    "no JSON": "{",
    "a list": "[]",
    "no values": "{}",
    "another version": broken(schema_version=2),
    "conventions that are text": broken(conventions=""),
    "scenarios that are text": broken(scenarios={"serving": ""}),
    "a value that is text": with_value("7"),
    "a value that is a bool": with_value(True),
    "a value that is no number": with_value(float("nan")),
    "a value without end": with_value(float("inf")),
    "a value of 300 digits": with_value(10**300),
    "a scenario that is a list": broken(values=[{**json.loads(with_value(7))["values"][0], "scenario": []}]),
    "another key": broken(values=[{"x": 1}]),
    "deep": "[" * 100_000,
    "digits": '{"schema_version": ' + "9" * 5_000 + "}",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("words", [("budget",), UPDATE], ids=["budget", "update"])
def test_a_broken_lock_is_one_clear_line(
    quick: Quick, repository: Repository, text: str, words: tuple[str, ...]
) -> None:
    write(repository, LOCK, text)
    ran = quick(*words)
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.startswith(f"tfcalc: {LOCK} is no file of recorded values")
    assert len(ran.stderr.splitlines()) == 1
    assert len(ran.stderr) < 600


def test_a_lock_elsewhere(quick: Quick, repository: Repository) -> None:
    (repository.folder / LOCK).unlink()
    ran = quick("budget", "--baseline", "other.json")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert quick(*UPDATE, "--baseline", "other.json").returncode == 0
    assert not (repository.folder / LOCK).exists()
    assert quick("budget", "--baseline", "other.json").returncode == 0


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--base", "HEAD", "--baseline", LOCK), "--base and --baseline both"),
        (("--reason", "why not"), "--reason why not has no effect without --update"),
        (("--update", "--base", "HEAD"), "--base HEAD has no effect with --update"),
        (("--update", "--model", "chat"), "--model chat has no effect with --update"),
        (("--update", "--baseline", "no/such/folder.json"), "cannot write"),
        (("--today", "yesterday"), "is not a date"),
        (("--model", "chta"), "did you mean chat?"),
    ],
    ids=str,
)
def test_flags_without_effect_are_refused(quick: Quick, words: tuple[str, ...], said: str) -> None:
    ran = quick("budget", *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr
