"""``REF:PATH`` where a model is named: the config.json as it is at a git revision."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tfcalc
from tests.conftest import Quick
from tests.repositories import Repository

SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "intermediate_size": 96,
}
EARLIER = json.dumps({"model_type": "llama", **SIZES, "num_key_value_heads": 4})
LATER = json.dumps({"model_type": "llama", **SIZES, "num_key_value_heads": 2})


def expected(kv_heads: int) -> str:
    """Embedding and head 2·100·64; a layer: queries, outputs 2·64², keys, values 2·64·16·g, MLP 3·64·96, two norms."""
    return f"{2 * 100 * 64 + 2 * (2 * 64**2 + 2 * 64 * 16 * kv_heads + 3 * 64 * 96 + 2 * 64) + 64}\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Two commits of configs/model.json and configs/folder/config.json in the folder that the program runs in."""
    found = Repository(tmp_path)
    found.commit({"configs/model.json": EARLIER, "configs/folder/config.json": EARLIER}, "first")
    found.commit({"configs/model.json": LATER, "configs/folder/config.json": LATER}, "second")
    return found


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("name", ["HEAD~1:configs/model.json", "HEAD^:./configs/folder", "HEAD~1:configs/folder/"])
def test_a_config_at_a_revision(quick: Quick, name: str) -> None:
    assert quick("params", name, "-q") == (0, expected(4), "")
    assert quick("params", "--model", name.replace("HEAD~1", "main").replace("HEAD^", "@"), "-q").stdout == expected(2)
    assert quick("params", name, "--kv-heads", "1", "-q").stdout == expected(1)
    assert quick(name).stdout.endswith("\n")


@pytest.mark.usefixtures("repository")
def test_it_may_be_compared_with_the_file_of_today(quick: Quick) -> None:
    asked = ("compare", "HEAD~1:configs/model.json", "configs/model.json", "HEAD:configs/model.json --kv-heads 1", "-q")
    assert quick(*asked).stdout == expected(4) + expected(2) + expected(1)


def test_in_python(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository.folder / "configs")
    assert tfcalc.params(tfcalc.load("HEAD~1:model.json")).answer == int(expected(4))
    with pytest.raises(tfcalc.Unavailable):
        tfcalc.load("none:model.json")


def test_a_file_of_that_name_wins(quick: Quick, repository: Repository) -> None:
    (repository.folder / "HEAD~1:configs").mkdir()
    (repository.folder / "HEAD~1:configs" / "model.json").write_text(LATER)
    assert quick("params", "HEAD~1:configs/model.json", "-q").stdout == expected(2)


def test_other_names_with_a_colon_are_no_revisions(quick: Quick) -> None:
    """Not even git is asked: this folder is in no repository."""
    assert quick("params", "llama3:8b", "-q").stdout == "8030261248\n"  # transformers (tests/oracle)
    for name in ("C:\\configs\\model.json", "C:configs/model.json", "https://example.org/config.json", "qwen9:7b"):
        result = quick("params", name)
        assert (result.returncode, result.stdout) == (3, "")
        assert "git" not in result.stderr


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("none:configs/model.json", 4, "git knows no commit 'none'; git fetch origin none:none may get it"),
        ("HEAD~9:configs/model.json", 4, "git knows no commit 'HEAD~9'"),
        ("HEAD:../outside.json", 4, "'HEAD:../outside.json' is outside the repository; name a file inside it"),
        ("HEAD:configs/none.json", 3, "HEAD has no file 'configs/none.json'; paths are relative to this folder"),
        ("HEAD~1:configs/now.json", 3, "it was renamed since; name HEAD~1:configs/model.json"),
        ("HEAD:bad.json", 3, "HEAD:bad.json is not JSON"),
    ],
)
@pytest.mark.parametrize("form", ["table", "json"])
def test_what_cannot_be_read(quick: Quick, repository: Repository, name: str, code: int, says: str, form: str) -> None:
    repository.git("mv", "configs/model.json", "configs/now.json")
    repository.commit({"bad.json": "{"}, "third")
    result = quick("params", name.replace("HEAD~1", "HEAD~2"), "--format", form)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (code, "", 1)
    said = json.loads(result.stderr) if form == "json" else {}
    assert says.replace("HEAD~1", "HEAD~2") in (f"{said['message']}; {said['hint']}" if said else result.stderr)


@pytest.mark.usefixtures("repository")
def test_where_there_is_no_repository_and_no_git(quick: Quick, tmp_path: Path) -> None:
    result = quick("params", "HEAD:configs/model.json", env={"PATH": ""})
    assert (result.returncode, result.stderr) == (
        4,
        "tfcalc: git is not installed, or not in PATH; install git, or name files\n",
    )
    (tmp_path / ".git").rename(tmp_path / "no-git")
    result = quick("params", "HEAD:configs/model.json")
    assert (result.returncode, result.stderr) == (
        4,
        "tfcalc: this folder is in no git repository; run it inside one, or name files\n",
    )


@pytest.mark.usefixtures("repository")
def test_a_folder_at_a_revision_needs_no_slash(quick: Quick, tmp_path: Path) -> None:
    Repository(tmp_path).commit({"chat/config.json": EARLIER}, "third")
    (tmp_path / "chat" / "config.json").write_text(LATER, encoding="utf-8")
    assert quick("params", "HEAD:chat", "-q").stdout == expected(4)
    assert quick("params", "main:chat", "-q").stdout == expected(4)
    assert quick("diff", "HEAD:chat", "chat", "--json").returncode == 0
    assert "HEAD has no file 'none'" in quick("params", "HEAD:none").stderr
    assert quick("params", "llama3:8b", "-q").stdout == "8030261248\n", "a tag, not a revision"
