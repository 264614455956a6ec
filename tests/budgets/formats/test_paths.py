"""A finding's file, as a CI system looks it up in a repository."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from tfcalc.budgets.formats.paths import from_root, reference, uri


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, and a folder in it that the program runs in."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "training" / "configs").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "training")
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_paths_are_those_from_the_root_of_the_repository() -> None:
    assert from_root("configs/chat.json") == "training/configs/chat.json"
    assert from_root("../tfcalc.toml") == "tfcalc.toml"
    assert uri("../a b.json") == "a%20b.json"


def test_an_absolute_path_in_the_repository_is_a_relative_one(folder: Path) -> None:
    assert from_root(str(folder / "training" / "configs" / "chat.json")) == "training/configs/chat.json"


def test_a_file_outside_of_the_repository_is_named_as_it_was(folder: Path) -> None:
    assert from_root("../../other.json") == "../../other.json"
    outside = str(folder.parent / "other.json")
    assert from_root(outside) == outside
    assert uri(outside) == f"file://{outside}"


def test_without_a_repository_a_path_is_one_from_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert from_root("configs/chat.json") == "configs/chat.json"
    (tmp_path / "empty").rmdir()
    assert from_root("configs/chat.json") == "configs/chat.json"


def test_a_path_of_windows() -> None:
    assert from_root("configs\\chat.json", "\\") == "configs/chat.json"


@pytest.mark.parametrize(
    "path", ["a b#c?d%e.json", "a:b.json", "modèle.json", "[1]&@!.json", "a+b~c.json", "two\nlines"]
)
def test_a_reference_leads_to_the_file(path: str) -> None:
    absolute = urljoin("https://example.org/repository/", uri(f"configs/{path}"))
    assert unquote(urlsplit(absolute).path) == f"/repository/configs/{path}"
    assert uri(path).isascii()


def test_names_that_are_no_unicode() -> None:
    assert uri("\udcff.json") == "%FF.json"  # Python reads the byte ff of a file's name so
    assert uri("\ud83d.json") == "%5Cud83d.json"  # half of a surrogate pair, which is no byte
    assert reference("\udcff\ud83d.json") == "\\udcff\\ud83d.json"
