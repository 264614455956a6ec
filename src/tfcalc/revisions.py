"""Files at another git revision, without a checkout: the only module that runs git.

Nothing of the repository is executed and nothing is fetched: plumbing commands that call no hook, no filter and no
other program read objects that this clone has.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from posixpath import normpath, relpath
from typing import IO, cast

from tfcalc.errors import Unavailable
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted, shortened
from tfcalc.reader import LARGEST, BadConfig

SECONDS = 20
"""Time limit of one call of git."""
HERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")
"""Variables that select a repository, which are removed: inside a hook they name another one than the folder's."""
QUIETLY = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # for git before 2.45: keeps a partial clone from fetching
    "GIT_PAGER": "",
    "LC_ALL": "C",
}
"""Environment of git: no prompt, no lock, no network, no pager, and English messages."""
PARTIAL = "promisor remote"
PROBLEMS = (
    ("not a git repository", "{folder} is in no git repository", "run it inside one, or name files"),
    (
        "dubious ownership",
        "git does not trust the repository of {folder}: it belongs to another user",
        "git config --global --add safe.directory '*', in a container of CI",
    ),
    ("is outside repository", "{asked} is outside the repository", "name a file inside it"),
    (PARTIAL, "{asked} is not in this clone, which is partial", "git cat-file -e {asked} gets it"),
    ("outside working tree", "{folder} is no working tree of git", "run it in a clone that is not bare"),
)
"""Messages of git, each with the fact and the remedy of our error."""


class GitObject(NamedTuple):
    """A git object: its hash, type (blob, tree, commit) and bytes; without a hash, a name that has no object."""

    hash: str
    type: str = "missing"
    size: int = 0


class GitError(Exception):
    """Message of git when a command failed."""


def at_ref(text: str, *, bare: bool = False) -> tuple[str, str] | None:
    r"""Split git's ``REF:PATH`` into revision and path; None for any other text, whatever files exist.

    A path ends in ``.json`` or has a slash, unless it may be a ``bare`` word: ``llama3:8b`` is no revision, nor is a
    drive of Windows.

    >>> at_ref("HEAD~1:configs/model.json"), at_ref("origin/main:./chat")
    (('HEAD~1', 'configs/model.json'), ('origin/main', './chat'))
    >>> at_ref("llama3:8b"), at_ref("C:\\model.json"), at_ref("https://a/b.json"), at_ref("-p:a.json")
    (None, None, None, None)
    """
    match = re.fullmatch(r"([^\s:\0-][^\s:\0]*):([^:/\\\0\n][^:\0\n]*)", text)
    if not match or re.fullmatch("[A-Za-z]", match[1]) or " -" in text:  # " -": a model with options
        return None
    ref, path = match.groups()
    return (ref, path) if bare or path.endswith(".json") or "/" in path or path == "." else None


def show(ref: str, path: str, folder: Path) -> str | None:
    """Return the text of a file at ``ref``; ``path`` is relative to ``folder``. None if there is no such file.

    Raises Unavailable if git, the repository or the commit cannot be reached, and BadConfig if the file is not UTF-8
    text, or is larger than 4 MiB.
    """
    raw = content(ref, path, folder)
    try:
        return None if raw is None else raw.decode("utf-8-sig")
    except UnicodeError:
        raise BadConfig(f"{ref}:{path} is not text in UTF-8") from None


def content(ref: str, path: str, folder: Path) -> bytes | None:
    """Return the bytes of a file at ``ref``; see :func:`show`. A symbolic link is followed."""
    _, file = _look_up(ref, path, folder)
    if file.type != "blob":
        return None
    if file.size > LARGEST:
        raise BadConfig(f"{ref}:{path} is larger than 4 MiB", "a config.json has a few thousand bytes")
    try:
        return _git(folder, "cat-file", "blob", file.hash)
    except GitError as error:
        raise _unavailable(error, folder, f"{ref}:{path}") from None


def is_folder(ref: str, path: str, folder: Path) -> bool:
    """Return whether there is a folder of this name at ``ref``. Raises Unavailable as :func:`show` does."""
    return _look_up(ref, path, folder)[1].type == "tree"


def renamed(ref: str, path: str, folder: Path) -> str | None:
    """Return the path that a present file had at ``ref``, if git detects that it was renamed since; else None.

    Both are relative to ``folder``. Git detects no rename before ``git add``. Raises Unavailable as :func:`show` does.
    """
    commit, _ = _look_up(ref, path, folder)
    similar = ("diff-index", "--cached", "-M", "--diff-filter=R", "--name-status", "--no-ext-diff", "-r", "-z")
    try:
        root = _git(folder, "rev-parse", "--show-prefix").decode(errors="surrogateescape").rstrip("\n")
        words = _git(folder, *similar, commit).decode(errors="surrogateescape").split("\0")
    except GitError as error:
        raise _unavailable(error, folder, f"{ref}:{path}") from None
    now = normpath(f"{root}{_relative(path, folder)}")
    before = {new: old for old, new in zip(words[1::3], words[2::3], strict=False)}
    return relpath(before[now], root or ".") if now in before else None


def path_at(ref: str, path: str, folder: Path) -> str:
    """Return the path at ``ref`` of a present file: the same, or that before it was renamed.

    Raises Unavailable as :func:`show` does.
    """
    _, file = _look_up(ref, path, folder)
    return path if file.hash else renamed(ref, path, folder) or path


def _look_up(ref: str, path: str, folder: Path) -> tuple[str, GitObject]:
    """Return the hash of the commit that ``ref`` names, and its object at ``path``."""
    asked = f"{ref}:{path}"
    if not re.fullmatch(r"[^\s:-][^\s:]*", ref) or not ref.isprintable():
        raise Unavailable(f"{quoted(ref)} is no name of a commit", "write HEAD~1, a branch, a tag or a hash")
    if "\n" in path or "\0" in path:
        raise Unavailable(f"{quoted(path)} is no name of a file", "name a file without a line break")
    relative = _relative(path, folder)
    try:
        given = f"{ref}^{{commit}}\n{ref}:./{relative}\n"
        lines = _git(folder, "cat-file", "--batch-check", "--follow-symlinks", given=given)
    except GitError as error:
        raise _unavailable(error, folder, asked) from None
    commit, file = _answers(lines.decode(errors="replace"))
    if commit.type != "commit":
        raise _unknown(ref, folder)
    if file.type == "missing" and _is_named(f"{ref}:./{relative}", folder):
        raise _unavailable(GitError(PARTIAL), folder, asked)
    return commit.hash, file


def _is_named(name: str, folder: Path) -> bool:
    """Return whether a commit has an object of this name, even if it is missing in this partial clone."""
    try:
        return bool(_git(folder, "rev-parse", "--verify", "--quiet", name))
    except GitError:
        return False


def _answers(text: str) -> list[GitObject]:
    """Parse the two answers of ``cat-file --batch-check``; that about a broken symbolic link has a second line."""
    answers = []
    lines = iter(text.splitlines())
    for line in lines:
        words = line.split(" ")
        if len(words) == 3 and re.fullmatch("[0-9a-f]{40,64}", words[0]):
            answers.append(GitObject(words[0], words[1], int(words[2])))
        else:
            is_broken_link = words[0] in ("dangling", "loop", "notdir", "symlink")
            answers.append(GitObject("", "symlink" if is_broken_link else "missing"))
            if is_broken_link:
                next(lines, "")
    return [*answers, GitObject(""), GitObject("")][:2]


def _relative(path: str, folder: Path) -> str:
    """Return the path for git: relative to ``folder``, with slashes."""
    path = os.path.relpath(os.path.realpath(path), os.path.realpath(folder)) if os.path.isabs(path) else path
    return normpath(path.replace(os.sep, "/"))


def _unknown(ref: str, folder: Path) -> Unavailable:
    """Return the error for a missing commit, with the command that fetches it."""
    try:
        shallow = _git(folder, "rev-parse", "--is-shallow-repository").strip() == b"true"
    except GitError:
        shallow = False
    fetch = _fetching(ref, shallow=shallow)
    if shallow:
        return Unavailable(
            f"commit {quoted(ref)} is not in this clone, which is shallow",
            f"{fetch or 'git fetch --unshallow'}, or fetch-depth: 0 in actions/checkout",
        )
    known = "git log and git branch -a list those that are there"
    return Unavailable(f"git knows no commit {quoted(ref)}", f"{fetch} may get it; {known}" if fetch else known)


def _fetching(ref: str, *, shallow: bool) -> str:
    """Return the command that fetches this one commit from its remote; empty if its name does not tell.

    >>> _fetching("origin/main", shallow=True)
    'git fetch --depth=1 origin +main:refs/remotes/origin/main'
    """
    fetch = "git fetch --depth=1" if shallow else "git fetch"
    if re.fullmatch("[0-9a-f]{40}", ref):
        return f"{fetch} origin {ref}"
    if found := re.fullmatch(r"(origin|upstream)/([\w./-]+)", ref, re.ASCII):
        return f"{fetch} {found[1]} +{found[2]}:refs/remotes/{ref}"
    plain = re.fullmatch(r"(?!(?:[A-Z_]*HEAD|[0-9a-f]*)$)[\w./-]+", ref, re.ASCII)
    return f"{fetch} origin {ref}:{ref}" if plain else ""


def _unavailable(error: GitError, folder: Path, asked: str) -> Unavailable:
    """Return git's message as an error of one line with a remedy."""
    said = str(error)
    for words, fact, remedy in PROBLEMS:
        if words in said:
            names = {"folder": "this folder" if folder == Path() else folder, "asked": quoted(asked)}
            return Unavailable(fact.format(**names), remedy.format(**names))
    reason = shortened(" ".join(said.split()).removeprefix("fatal: "), 200)
    return Unavailable(f"git cannot give {quoted(asked)}: {reason or 'it says no reason'}", "see git status")


def _git(folder: Path, *words: str, given: str = "") -> bytes:
    """Run git in ``folder`` and return its output. Raises GitError with its message, and Unavailable without git."""
    import shutil
    import subprocess
    from threading import Timer

    program = shutil.which("git")
    if program is None:
        raise Unavailable("git is not installed, or not in PATH", "install git, or name files")
    outside = {name: value for name, value in os.environ.items() if name not in HERE}
    command = [program, "-C", str(folder), "--no-pager", "-c", "core.fsmonitor=false", *words]
    with subprocess.Popen(
        command, env={**outside, **QUIETLY}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        late = Timer(SECONDS, process.kill)
        late.start()
        try:
            with suppress(BrokenPipeError):  # git failed before it read its input: its message says why
                cast("IO[bytes]", process.stdin).write(given.encode(errors="surrogateescape"))
                cast("IO[bytes]", process.stdin).close()
            answer = cast("IO[bytes]", process.stdout).read(LARGEST + 1)
            if len(answer) > LARGEST:
                process.kill()
                raise GitError("its answer is larger than 4 MiB")
            said = cast("IO[bytes]", process.stderr).read(LARGEST)
            code = process.wait()
        finally:
            late.cancel()
    if code:
        raise GitError(said.decode(errors="replace") or (f"it took longer than {SECONDS} s" if code < 0 else ""))
    return answer
