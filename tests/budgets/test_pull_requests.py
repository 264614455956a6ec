"""``tfcalc budget --base`` in a repository that git made: what a pull request may do, each answered rightly."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.budgets.sample import CACHE, CHAT, FILE, FILES, WHY, config, sample
from tests.conftest import Outcome, Quick
from tests.repositories import Repository
from tfcalc.cli.commands.budget import SHOWN

FORMATS = next(option.known for option in SHOWN if option.name == "format")
DOUBLED = config(num_key_value_heads=2 * CHAT["num_key_value_heads"])  # type: ignore[operator]  # it is a number
METRIC = "memory.kv_cache_bytes"
BASE = ("budget", "--base", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """With the sample's budgets; its working tree is the pull request."""
    return sample(tmp_path)


def write(repository: Repository, name: str, text: str) -> None:
    (repository.folder / name).write_text(text, encoding="utf-8")


def checks(ran: Outcome) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ran.stdout)["checks"]
    return found


def the_check(ran: Outcome, metric: str = METRIC) -> dict[str, Any]:
    (found,) = [check for check in checks(ran) if check["metric"] == metric and check["model"] != "small"]
    return found


@pytest.mark.parametrize("form", FORMATS)
def test_doubled_key_value_heads_fail_with_all_that_one_needs(quick: Quick, repository: Repository, form: str) -> None:
    """The cache is proportional to num_key_value_heads: it doubles, where at most 10 % more are allowed."""
    write(repository, "configs/chat.json", DOUBLED)
    ran = quick(*BASE, "--format", form)
    assert (ran.returncode, ran.stderr) == (1, "")
    text = ran.stdout.replace("\\", "").replace("%25", "%").replace("&#34;", '"')
    assert METRIC in text
    assert WHY in text
    assert "max_increase" in text
    assert "10%" in text or "10 %" in text
    if form in ("json", "csv"):
        assert str(CACHE) in text
        assert str(2 * CACHE) in text
    else:
        assert f"{CACHE / 2**30:.2f} GiB" in text
        assert f"{2 * CACHE / 2**30:.2f} GiB" in text


def test_the_numbers_are_those_of_the_arithmetic(quick: Quick, repository: Repository) -> None:
    write(repository, "configs/chat.json", DOUBLED)
    found = the_check(quick(*BASE, "--json"))
    assert (found["base"], found["value"]) == (CACHE, 2 * CACHE)
    assert (found["status"], found["rule"], found["limit"], found["why"]) == ("failed", "max_increase", "10%", WHY)
    assert found["message"] == (
        f"chat, serving: {METRIC} 4.00 GiB -> 8.00 GiB (+100.0 %), at most +10 % (max_increase); why: {WHY}"
    )


def test_a_failed_check_points_to_the_field_that_moved_it(quick: Quick, repository: Repository) -> None:
    """Of several changed fields it is the one that alone moves the metric: a vocabulary has no keys."""
    text = config(vocab_size=1_000, num_key_value_heads=16, intermediate_size=8_192)
    write(repository, "configs/chat.json", text)
    found = the_check(quick(*BASE, "--json"))
    line = 1 + [one.split('"')[1] for one in text.splitlines()[1:-1]].index("num_key_value_heads") + 1
    assert (found["path"], found["line"]) == ("configs/chat.json", line)


def test_the_quiet_answer_is_the_number_of_failed_checks(quick: Quick, repository: Repository) -> None:
    assert quick(*BASE, "-q").stdout == "0\n"
    write(repository, "configs/chat.json", DOUBLED)
    assert quick(*BASE, "-q").stdout == "1\n"


@pytest.mark.parametrize("form", FORMATS)
def test_another_layout_of_the_same_config_passes_silently(quick: Quick, repository: Repository, form: str) -> None:
    """Order and white space of a JSON file, and comments of a TOML file, are no fields."""
    write(repository, "configs/chat.json", json.dumps(dict(reversed(CHAT.items()))))
    write(repository, "tfcalc.toml", "# budgets\n" + FILE.replace("[[budget]]", "\n[[budget]] # a limit"))
    ran = quick(*BASE, "--format", form)
    assert (ran.returncode, ran.stderr) == (0, "")
    if form == "table":
        assert ran.stdout == "passed: 3 checks\n"
    if form == "csv":
        assert {row["result"] for row in csv.DictReader(io.StringIO(ran.stdout))} == {"passed"}


def test_a_renamed_config_is_compared_with_what_it_was(quick: Quick, repository: Repository) -> None:
    """The entry had another path then."""
    repository.git("mv", "configs/chat.json", "configs/assistant.json")
    write(repository, "tfcalc.toml", FILE.replace("configs/chat.json", "configs/assistant.json"))
    ran = quick(*BASE, "--json")
    assert ran.returncode == 0
    assert the_check(ran)["base"] == CACHE
    assert json.loads(ran.stdout)["notes"] == ["chat: its config is configs/assistant.json, and was configs/chat.json"]
    write(repository, "configs/assistant.json", DOUBLED)
    assert quick(*BASE).returncode == 1


def test_a_model_with_another_name_is_the_one_of_the_same_config(quick: Quick, repository: Repository) -> None:
    repository.git("mv", "configs/chat.json", "configs/assistant.json")
    renamed = FILE.replace("configs/chat", "configs/assistant").replace("[models.chat]", "[models.assistant]")
    write(repository, "tfcalc.toml", renamed.replace('model = "chat"', 'model = "assistant"'))
    ran = quick(*BASE, "--json")
    assert ran.returncode == 0
    assert the_check(ran)["base"] == CACHE
    assert "assistant was chat at HEAD" in json.loads(ran.stdout)["notes"]


def test_a_deleted_model_is_noted(quick: Quick, repository: Repository) -> None:
    write(repository, "tfcalc.toml", FILE.replace("[models.small]\nd_model = 512\nlayers = 6\n", ""))
    ran = quick(*BASE)
    assert ran.returncode == 0
    assert "small was deleted since HEAD" in ran.stdout


def test_a_budget_that_is_left_without_a_model_is_a_mistake(quick: Quick, repository: Repository) -> None:
    write(repository, "tfcalc.toml", FILE.replace('[models.chat]\nconfig = "configs/chat.json"\n', ""))
    ran = quick(*BASE)
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "'chat'" in ran.stderr


def test_a_new_model_has_nothing_to_grow_from(quick: Quick, repository: Repository) -> None:
    write(repository, "configs/long.json", DOUBLED)
    added = FILE.replace("[models.small]", '[models.chat-long]\nconfig = "configs/long.json"\n\n[models.small]')
    write(repository, "tfcalc.toml", added.replace('model = "chat"', 'model = "chat*"'))
    ran = quick(*BASE, "--json")
    assert ran.returncode == 0
    (found,) = [check for check in checks(ran) if (check["model"], check["metric"]) == ("chat-long", METRIC)]
    assert (found["status"], found["base"], found["value"]) == ("new", None, 2 * CACHE)
    assert "chat-long is new since HEAD" in json.loads(ran.stdout)["notes"]


FLOPS = """
[[budget]]
model = "chat"
metric = "flops.total_flops"
max_increase = "0%"
"""


def test_a_moved_convention_is_not_comparable_and_no_growth(quick: Quick, tmp_path: Path) -> None:
    """With ``count = "all"`` the same model has more FLOPs; its parameters are what they were."""
    repository = sample(tmp_path, {**FILES, "tfcalc.toml": FILE + FLOPS})
    write(repository, "tfcalc.toml", FILE + FLOPS + '\n[conventions]\ncount = "all"\n')
    ran = quick(*BASE, "--json")
    assert ran.returncode == 3
    found = the_check(ran, "flops.total_flops")
    assert (found["status"], found["base"]) == ("not comparable", None)
    assert "count was not set and is 'all'" in found["message"]
    assert {check["status"] for check in checks(ran) if check["metric"] != "flops.total_flops"} == {"passed"}


def test_a_moved_convention_that_changes_no_number_is_fine(quick: Quick, tmp_path: Path) -> None:
    repository = sample(tmp_path, {**FILES, "tfcalc.toml": FILE + FLOPS})
    write(repository, "tfcalc.toml", FILE + FLOPS + '\n[conventions]\nunits = "si"\n')
    assert quick(*BASE).returncode == 0
    write(repository, "tfcalc.toml", FILE + FLOPS + '\n[conventions]\ndtype = "fp32"\n')
    found = {check["metric"]: check["status"] for check in checks(quick(*BASE, "--json"))}
    assert found == {METRIC: "not comparable", "flops.total_flops": "passed", "params.total_params": "passed"}


def test_before_there_were_budgets_the_configs_are_compared(quick: Quick, tmp_path: Path) -> None:
    repository = sample(tmp_path, {"configs/chat.json": FILES["configs/chat.json"]})
    write(repository, "tfcalc.toml", FILE)
    assert quick(*BASE).returncode == 0
    write(repository, "configs/chat.json", DOUBLED)
    ran = quick(*BASE, "--json")
    assert ran.returncode == 1
    assert the_check(ran)["base"] == CACHE


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("configs/chat.json", "{", "is not JSON"),
        ("configs/chat.json", '{"model_type": "no-such-type"}', "no-such-type"),
        ("configs/chat.json", config(num_attention_heads=31), "31"),
        ("tfcalc.toml", "[models", "is not TOML"),
        (
            "tfcalc.toml",
            FILE.replace("configs/chat.json", "configs/none.json"),
            "HEAD:configs/none.json does not exist",
        ),
    ],
)
def test_a_base_that_is_broken_is_not_comparable(quick: Quick, tmp_path: Path, name: str, text: str, said: str) -> None:
    """The limits that need no base still hold."""
    repository = sample(tmp_path, {**FILES, name: text})
    for own, content in FILES.items():
        write(repository, own, content)
    ran = quick(*BASE, "--json")
    assert ran.returncode == 3
    assert the_check(ran)["status"] == "not comparable"
    assert said in the_check(ran)["message"]
    assert the_check(ran, "params.total_params")["status"] == "passed"


def test_a_shallow_clone_has_no_such_commit(quick: Quick, tmp_path: Path) -> None:
    origin = sample(tmp_path / "origin")
    Repository(tmp_path / "clone", clone=origin, depth=1)
    ran = quick("budget", "--file", "clone/tfcalc.toml", "--base", "HEAD~1")
    assert (ran.returncode, ran.stdout) == (4, "")
    assert "shallow" in ran.stderr
    assert quick("budget", "--file", "clone/tfcalc.toml", "--base", "HEAD").returncode == 0


def test_without_a_repository_there_is_no_base(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    ran = quick(*BASE)
    assert (ran.returncode, ran.stdout) == (4, "")
    assert "no git repository" in ran.stderr


@pytest.mark.usefixtures("repository")
def test_an_unknown_commit_cannot_be_reached(quick: Quick) -> None:
    ran = quick("budget", "--base", "no-such-branch")
    assert (ran.returncode, ran.stdout) == (4, "")
    assert "'no-such-branch'" in ran.stderr


def test_without_git_there_is_no_base(quick: Quick, repository: Repository) -> None:
    ran = quick(*BASE, env={"PATH": str(repository.folder)})
    assert (ran.returncode, ran.stdout) == (4, "")
    assert "git is not installed" in ran.stderr


def test_budgets_of_a_folder_below_are_found_from_further_below(quick: Quick, tmp_path: Path) -> None:
    """Paths in the file are those from its own folder, at either side."""
    repository = sample(tmp_path, {f"models/{name}": text for name, text in FILES.items()})
    write(repository, "models/configs/chat.json", DOUBLED)
    ran = quick("budget", "--file", "models/tfcalc.toml", "--base", "HEAD", "--json")
    assert ran.returncode == 1
    assert the_check(ran)["path"] == "models/configs/chat.json"


def test_a_config_may_be_a_folder(quick: Quick, tmp_path: Path) -> None:
    """As the Hub has it: a directory with a config.json."""
    file = FILE.replace("configs/chat.json", "configs/chat")
    repository = sample(tmp_path, {"tfcalc.toml": file, "configs/chat/config.json": FILES["configs/chat.json"]})
    write(repository, "configs/chat/config.json", DOUBLED)
    ran = quick(*BASE, "--json")
    assert (ran.returncode, the_check(ran)["base"]) == (1, CACHE)
    assert the_check(ran)["path"] == "configs/chat/config.json"


@pytest.mark.parametrize("named", ["configs/chat", "configs/chat/", "configs/chat/config.json"])
def test_a_folder_with_another_name_has_the_same_model(quick: Quick, tmp_path: Path, named: str) -> None:
    file = FILE.replace("configs/chat.json", named)
    repository = sample(tmp_path, {"tfcalc.toml": file, "configs/chat/config.json": FILES["configs/chat.json"]})
    repository.git("mv", "configs/chat", "configs/assistant")
    renamed = FILE.replace("configs/chat.json", "configs/assistant").replace("[models.chat]", "[models.assistant]")
    write(repository, "tfcalc.toml", renamed.replace('model = "chat"', 'model = "assistant"'))
    ran = quick(*BASE, "--json")
    assert (ran.returncode, the_check(ran)["base"]) == (0, CACHE)
    notes = json.loads(ran.stdout)["notes"]
    assert "assistant was chat at HEAD" in notes
    assert not [note for note in notes if "deleted" in note]


@pytest.mark.usefixtures("repository")
def test_without_a_base_growth_cannot_be_told(quick: Quick) -> None:
    ran = quick("budget", "--json")
    assert ran.returncode == 3
    assert the_check(ran)["status"] == "not comparable"
    assert "--base REF" in the_check(ran)["message"]
    assert "--update" in the_check(ran)["message"]


def test_a_model_that_is_left_out_is_not_taken_for_deleted(quick: Quick, repository: Repository) -> None:
    write(repository, "tfcalc.toml", FILE.replace("models.chat", "models.talk").replace('"chat"', '"talk"'))
    ran = quick(*BASE, "--model", "small", "--json")
    assert [check["model"] for check in checks(ran)] == ["small"]
    assert json.loads(ran.stdout)["notes"] == ["talk was chat at HEAD"]


def test_a_scenario_that_changed_is_asked_of_both_sides(quick: Quick, repository: Repository) -> None:
    """Twice the tokens are twice the cache, then as today: no model has grown."""
    write(repository, "tfcalc.toml", FILE.replace('context = "32k"', 'context = "64k"'))
    found = the_check(quick(*BASE, "--json"))
    assert (found["base"], found["value"], found["status"]) == (2 * CACHE, 2 * CACHE, "passed")


def test_a_config_with_the_name_of_the_standard_input_is_a_file(quick: Quick, tmp_path: Path) -> None:
    sample(tmp_path, {"tfcalc.toml": FILE.replace("configs/chat.json", "-"), "-": FILES["configs/chat.json"]})
    assert quick(*BASE, input="{}").returncode == 0
