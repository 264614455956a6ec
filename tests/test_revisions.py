"""Files at other git revisions: real repositories, made by git itself, and everything that can be wrong with them."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repositories import Repository
from tfcalc import revisions
from tfcalc.errors import Unavailable
from tfcalc.reader import LARGEST, BadConfig
from tfcalc.revisions import content, renamed, show

EARLIER, LATER = '{"a": 1}\n', '{"a": 2}\n'

PROGRAMS = (
    *("core.fsmonitor", "core.pager", "core.sshCommand", "core.editor", "core.askPass", "core.alternateRefsCommand"),
    *("diff.external", "diff.all.textconv", "diff.all.command", "gpg.program", "uploadpack.packObjectsHook"),
    *("filter.all.clean", "filter.all.smudge", "filter.all.process", "remote.origin.uploadpack"),
    *("alias.cat-file", "alias.diff-index", "alias.rev-parse"),
)
"""Keys of git's configuration whose value is a program."""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Two commits: configs/model.json is one thing, then another."""
    found = Repository(tmp_path / "repository")
    found.commit({"configs/model.json": EARLIER, "README": "one"}, "first")
    found.commit({"configs/model.json": LATER}, "second")
    return found


def test_a_file_at_a_revision(repository: Repository) -> None:
    (repository.folder / "configs" / "model.json").write_text("not committed")
    assert show("HEAD~1", "configs/model.json", repository.folder) == EARLIER
    assert show("HEAD", "configs/model.json", repository.folder) == LATER
    assert show(repository.head(), "configs/model.json", repository.folder) == LATER
    assert show("HEAD", "configs/none.json", repository.folder) is None
    assert show("HEAD", "configs", repository.folder) is None  # a folder is no file


def test_paths_are_relative_to_the_folder(repository: Repository) -> None:
    inside = repository.folder / "configs"
    assert show("HEAD", "model.json", inside) == LATER
    assert show("HEAD", "./model.json", inside) == LATER
    assert show("HEAD", "../README", inside) == "one"
    assert show("HEAD", "configs/model.json", inside) is None
    assert show("HEAD", str(inside / "model.json"), repository.folder) == LATER


def test_names_with_spaces_and_other_letters(repository: Repository) -> None:
    name = "a folder/modèle 8b – 'x'.json"
    repository.commit({name: EARLIER}, "odd")
    assert show("HEAD", name, repository.folder) == EARLIER
    repository.git("mv", name, "plain.json")
    assert renamed("HEAD", "plain.json", repository.folder) == name


def test_a_symbolic_link_is_followed_and_one_that_leads_nowhere_is_no_file(repository: Repository) -> None:
    os.symlink("configs/model.json", repository.folder / "link.json")
    os.symlink("nowhere.json", repository.folder / "broken.json")
    os.symlink("/etc/passwd", repository.folder / "outside.json")
    repository.commit({}, "links")
    assert show("HEAD", "link.json", repository.folder) == LATER
    assert show("HEAD", "broken.json", repository.folder) is None
    assert show("HEAD", "outside.json", repository.folder) is None


def test_a_renamed_file_is_found_where_it_was(repository: Repository) -> None:
    long = "".join(f'"field_{number}": {number},\n' for number in range(50))
    repository.commit({"configs/long.json": long}, "third")
    repository.git("mv", "configs/long.json", "configs/new.json")
    (repository.folder / "configs" / "new.json").write_text(long + "one more line\n")
    repository.commit({}, "renamed and changed")
    assert renamed("HEAD~1", "configs/new.json", repository.folder) == "configs/long.json"
    assert renamed("HEAD~1", "new.json", repository.folder / "configs") == "long.json"
    assert renamed("HEAD~1", "configs/model.json", repository.folder) is None
    assert renamed("HEAD", "configs/new.json", repository.folder) is None
    repository.git("mv", "README", "configs/README")
    assert renamed("HEAD", "README", repository.folder / "configs") == "../README"


def test_what_is_no_text_and_what_is_too_large(repository: Repository) -> None:
    (repository.folder / "binary.json").write_bytes(b"\xff\xfe")
    repository.commit({"large.json": " " * (LARGEST + 1), "largest.json": " " * LARGEST}, "large")
    with pytest.raises(BadConfig, match=r"HEAD:binary\.json is not text in UTF-8"):
        show("HEAD", "binary.json", repository.folder)
    assert content("HEAD", "binary.json", repository.folder) == b"\xff\xfe"
    with pytest.raises(BadConfig, match=r"HEAD:large\.json is larger than 4 MiB"):
        show("HEAD", "large.json", repository.folder)
    assert len(content("HEAD", "largest.json", repository.folder) or b"") == LARGEST


@pytest.mark.parametrize("ask", [show, renamed])
@pytest.mark.parametrize(
    "ref",
    ["none", "-h", "--help", "--output=x", "", "HEAD:configs", "HEAD\nHEAD", "HEAD HEAD", "HEAD~9", "HEAD^{tree}"],
)
def test_what_is_no_commit(repository: Repository, ref: str, ask: Callable[[str, str, Path], str | None]) -> None:
    with pytest.raises(Unavailable) as refusal:
        ask(ref, "configs/model.json", repository.folder)
    assert "no commit" in str(refusal.value) or "no name of a commit" in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


def test_what_the_clone_has_not_but_its_remote_has(repository: Repository, tmp_path: Path) -> None:
    """The remedy is run, and then the answer is there."""
    repository.git("branch", "base", "HEAD~1")
    clone = Repository(tmp_path / "clone", clone=repository, depth=1)
    for ref in ("origin/base", "base", repository.head("HEAD~1")):
        with pytest.raises(Unavailable, match="is not in this clone, which is shallow; git fetch --depth=1 origin"):
            show(ref, "configs/model.json", clone.folder)
    with pytest.raises(Unavailable, match="'HEAD~1' is not in this clone, which is shallow; git fetch --unshallow, or"):
        show("HEAD~1", "configs/model.json", clone.folder)
    with pytest.raises(Unavailable) as refusal:
        show("origin/base", "configs/model.json", clone.folder)
    remedy, other = refusal.value.hint.split(", or ")
    assert other == "fetch-depth: 0 in actions/checkout"
    clone.git(*remedy.split()[1:])
    assert show("origin/base", "configs/model.json", clone.folder) == EARLIER
    assert show("origin/base", "configs/none.json", clone.folder) is None


def test_what_a_partial_clone_has_not_fetched(repository: Repository, tmp_path: Path) -> None:
    repository.git("config", "uploadpack.allowFilter", "true")
    clone = Repository(tmp_path / "clone", clone=repository, filter="blob:none")
    with pytest.raises(Unavailable, match="is not in this clone, which is partial; git cat-file -e") as refusal:
        show("HEAD~1", "configs/model.json", clone.folder)
    assert show("HEAD~1", "configs/none.json", clone.folder) is None
    clone.git(*shlex.split(refusal.value.hint.removesuffix(" gets it"))[1:])
    assert show("HEAD~1", "configs/model.json", clone.folder) == EARLIER


def test_a_full_clone_says_how_to_fetch(repository: Repository, tmp_path: Path) -> None:
    clone = Repository(tmp_path / "clone", clone=repository)
    repository.git("branch", "later")
    with pytest.raises(Unavailable, match=r"git knows no commit 'origin/later'; (git fetch .*) may get it") as refusal:
        show("origin/later", "configs/model.json", clone.folder)
    clone.git(*refusal.value.hint.split(" may")[0].split()[1:])
    assert show("origin/later", "configs/model.json", clone.folder) == LATER


def test_no_repository_no_folder_and_no_git(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Unavailable, match="is in no git repository; run it inside one, or name files"):
        show("HEAD", "model.json", tmp_path)
    with pytest.raises(Unavailable, match="No such file"):
        show("HEAD", "model.json", tmp_path / "none")
    with pytest.raises(Unavailable, match=r"'HEAD:\.\./\.\./x\.json' is outside the repository"):
        show("HEAD", "../../x.json", repository.folder / "configs")
    with pytest.raises(Unavailable, match="is outside the repository"):
        show("HEAD", str(tmp_path / "x.json"), repository.folder)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="git is not installed, or not in PATH") as refusal:
        show("HEAD", "configs/model.json", repository.folder)
    assert refusal.value.exit_code == 4


def test_a_repository_without_a_commit_and_one_without_files(tmp_path: Path, repository: Repository) -> None:
    empty = Repository(tmp_path / "empty")
    with pytest.raises(Unavailable, match="git knows no commit 'HEAD'"):
        show("HEAD", "model.json", empty.folder)
    repository.git("clone", "-q", "--bare", ".", str(tmp_path / "bare"))
    with pytest.raises(Unavailable, match="is no working tree of git"):
        show("HEAD", "configs/model.json", tmp_path / "bare")


def test_a_hook_has_its_own_repository_in_its_variables(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Repository(tmp_path / "other")
    for variable, value in {
        "GIT_DIR": ".git",
        "GIT_INDEX_FILE": ".git/index",
        "GIT_PREFIX": "",
        "GIT_WORK_TREE": ".",
    }.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(other.folder)
    assert show("HEAD~1", "model.json", repository.folder / "configs") == EARLIER


def test_a_hostile_repository_runs_nothing(repository: Repository, tmp_path: Path) -> None:
    """Everything in git's configuration that names a program, and every hook, would write a file."""
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 >> {ran}\ncat\n")
    program.chmod(0o755)
    for key in PROGRAMS:
        repository.git("config", key, str(program))
    for key in ("pager.cat-file", "pager.diff-index", "filter.all.required", "remote.origin.promisor"):
        repository.git("config", key, "true")
    repository.git("config", "remote.origin.url", f"ext::{program}")
    repository.git("config", "protocol.ext.allow", "always")
    repository.git("config", "extensions.partialClone", "origin")
    (repository.folder / ".git" / "info" / "attributes").write_text("* diff=all filter=all\n")
    hooks = repository.folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout", "pre-auto-gc"):
        (hooks / hook).write_bytes(program.read_bytes())
        (hooks / hook).chmod(0o755)
    (repository.folder / "configs" / "model.json").write_text("touched")
    blob = repository.output("rev-parse", "HEAD:README")
    (repository.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    ran.unlink(missing_ok=True)
    assert show("HEAD~1", "configs/model.json", repository.folder) == EARLIER
    assert renamed("HEAD~1", "configs/model.json", repository.folder) is None
    assert show("HEAD", "none", repository.folder) is None
    with pytest.raises(Unavailable):
        show("none", "configs/model.json", repository.folder)
    with pytest.raises(
        Unavailable, match="'HEAD:README' is not in this clone, which is partial; git cat-file -e 'HEAD:R"
    ):
        show("HEAD", "README", repository.folder)
    assert not ran.exists(), ran.read_text()


def test_a_git_that_hangs_or_talks_too_much(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    monkeypatch.setenv("PATH", str(git.parent), prepend=os.pathsep)
    git.write_text("#!/bin/sh\nexec sleep 30\n")
    git.chmod(0o755)
    monkeypatch.setattr(revisions, "SECONDS", 0.2)
    with pytest.raises(Unavailable, match=r"it took longer than 0\.2 s"):
        show("HEAD", "configs/model.json", repository.folder)
    monkeypatch.setattr(revisions, "SECONDS", 20)
    git.write_text("#!/bin/sh\nexec cat /dev/zero\n")
    with pytest.raises(Unavailable, match="its answer is larger than 4 MiB"):
        show("HEAD", "configs/model.json", repository.folder)


def test_nothing_is_written(repository: Repository) -> None:
    before = {path: path.stat().st_mtime_ns for path in sorted(repository.folder.rglob("*"))}
    os.utime(repository.folder / "README")  # an index that git would like to refresh
    before[repository.folder / "README"] = (repository.folder / "README").stat().st_mtime_ns
    show("HEAD~1", "configs/model.json", repository.folder)
    renamed("HEAD~1", "configs/model.json", repository.folder)
    assert {path: path.stat().st_mtime_ns for path in sorted(repository.folder.rglob("*"))} == before


def test_git_itself_is_asked(repository: Repository) -> None:
    """Against ``git show``."""
    for ref in ("HEAD", "HEAD~1", "HEAD^", "@", "HEAD@{0}"):
        own = subprocess.run(
            ["git", "-C", str(repository.folder), "show", f"{ref}:configs/model.json"], capture_output=True, check=True
        )
        assert content(ref, "configs/model.json", repository.folder) == own.stdout


def test_a_repository_of_another_user(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container of CI; the variable is that of git's own tests."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(Unavailable, match=r"it belongs to another user; git config --global --add safe\.directory"):
        show("HEAD", "configs/model.json", repository.folder)
