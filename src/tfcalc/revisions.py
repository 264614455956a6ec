"""Files as they are at another git revision, without a checkout; the only place that runs git.

Nothing that a repository says is run and nothing is fetched: only objects that this clone has are read, by plumbing
that calls no hook, no filter and no other program.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from posixpath import normpath, relpath
from typing import IO, NamedTuple, cast

from tfcalc.errors import Unavailable
from tfcalc.printable import quoted, shortened
from tfcalc.reader import LARGEST, BadConfig

SECONDS = 20
"""How long one call of git may take."""
HERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")
"""Variables that say which repository is meant: a hook's are those of another folder than the one asked for."""
QUIETLY = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # what git before 2.45 knows: a partial clone then fetches nothing, by no program
    "GIT_PAGER": "",
    "LC_ALL": "C",
}
"""No prompt, no lock, no network, no other program, and messages in the language that is read here."""
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
"""What git says (in English), the fact, and the remedy."""


class Found(NamedTuple):
    """What git says of a name: its object, of which type (blob, tree, commit), and how many bytes; or no object."""

    object: str
    type: str = "missing"
    size: int = 0


class Failed(Exception):
    """What git said when it gave up."""


def at_ref(text: str) -> tuple[str, str] | None:
    r"""A revision and a path as git writes them, ``REF:PATH``; None for any other text, whatever files there are.

    A path is one of a ``.json``, or has a slash: ``llama3:8b`` is no revision, nor is a drive of Windows.

    >>> at_ref("HEAD~1:configs/model.json"), at_ref("origin/main:./chat")
    (('HEAD~1', 'configs/model.json'), ('origin/main', './chat'))
    >>> at_ref("llama3:8b"), at_ref("C:\\model.json"), at_ref("https://a/b.json"), at_ref("-p:a.json")
    (None, None, None, None)
    """
    found = re.fullmatch(r"([^\s:\0-][^\s:\0]*):([^:/\\\0\n][^:\0\n]*)", text)
    if not found or re.fullmatch("[A-Za-z]", found[1]) or " -" in text:  # a model with its options
        return None
    ref, path = found.groups()
    return (ref, path) if path.endswith(".json") or "/" in path or path == "." else None


def show(ref: str, path: str, folder: Path) -> str | None:
    """The text of a file as it is at ``ref``; ``path`` is relative to ``folder``. None where it has no such file.

    Raises Unavailable where git, the repository or the commit cannot be reached, and BadConfig for what is not text
    in UTF-8, or is larger than 4 MiB.
    """
    raw = content(ref, path, folder)
    try:
        return None if raw is None else raw.decode("utf-8-sig")
    except UnicodeError:
        raise BadConfig(f"{ref}:{path} is not text in UTF-8") from None


def content(ref: str, path: str, folder: Path) -> bytes | None:
    """The bytes of a file as it is at ``ref``, as :func:`show` has them. A symbolic link is followed."""
    _, found = _look_up(ref, path, folder)
    if found.type != "blob":
        return None
    if found.size > LARGEST:
        raise BadConfig(f"{ref}:{path} is larger than 4 MiB", "a config.json has a few thousand bytes")
    try:
        return _git(folder, "cat-file", "blob", found.object)
    except Failed as error:
        raise _unavailable(error, folder, f"{ref}:{path}") from None


def is_folder(ref: str, path: str, folder: Path) -> bool:
    """Whether there is a folder of this name at ``ref``. Raises Unavailable as :func:`show` does."""
    return _look_up(ref, path, folder)[1].type == "tree"


def renamed(ref: str, path: str, folder: Path) -> str | None:
    """The path that a file of today had at ``ref``, where git finds that it was renamed since; None where it was not.

    Both are relative to ``folder``. A file whose new name git was not told (``git add``) was not renamed for git.
    Raises Unavailable as :func:`show` does.
    """
    commit, _ = _look_up(ref, path, folder)
    similar = ("diff-index", "--cached", "-M", "--diff-filter=R", "--name-status", "--no-ext-diff", "-r", "-z")
    try:
        root = _git(folder, "rev-parse", "--show-prefix").decode(errors="surrogateescape").rstrip("\n")
        words = _git(folder, *similar, commit).decode(errors="surrogateescape").split("\0")
    except Failed as error:
        raise _unavailable(error, folder, f"{ref}:{path}") from None
    now = normpath(f"{root}{_relative(path, folder)}")
    before = {new: old for old, new in zip(words[1::3], words[2::3], strict=False)}
    return relpath(before[now], root or ".") if now in before else None


def path_at(ref: str, path: str, folder: Path) -> str:
    """The path that is meant by today's name: itself where ``ref`` has it, or that before it was renamed.

    Raises Unavailable as :func:`show` does.
    """
    _, found = _look_up(ref, path, folder)
    return path if found.object else renamed(ref, path, folder) or path


def _look_up(ref: str, path: str, folder: Path) -> tuple[str, Found]:
    """The commit that ``ref`` names, and what stands at ``path`` in it."""
    asked = f"{ref}:{path}"
    if not re.fullmatch(r"[^\s:-][^\s:]*", ref) or not ref.isprintable():
        raise Unavailable(f"{quoted(ref)} is no name of a commit", "write HEAD~1, a branch, a tag or a hash")
    if "\n" in path or "\0" in path:
        raise Unavailable(f"{quoted(path)} is no name of a file", "name a file without a line break")
    relative = _relative(path, folder)
    try:
        given = f"{ref}^{{commit}}\n{ref}:./{relative}\n"
        lines = _git(folder, "cat-file", "--batch-check", "--follow-symlinks", given=given)
    except Failed as error:
        raise _unavailable(error, folder, asked) from None
    commit, found = _answers(lines.decode(errors="replace"))
    if commit.type != "commit":
        raise _unknown(ref, folder)
    if found.type == "missing" and _is_named(f"{ref}:./{relative}", folder):
        raise _unavailable(Failed(PARTIAL), folder, asked)
    return commit.object, found


def _is_named(name: str, folder: Path) -> bool:
    """Whether a commit has an object of this name, even if this clone has not got it."""
    try:
        return bool(_git(folder, "rev-parse", "--verify", "--quiet", name))
    except Failed:
        return False


def _answers(text: str) -> list[Found]:
    """The two lines of ``cat-file --batch-check``; a symbolic link that leads nowhere takes a second one."""
    found = []
    lines = iter(text.splitlines())
    for line in lines:
        words = line.split(" ")
        if len(words) == 3 and re.fullmatch("[0-9a-f]{40,64}", words[0]):
            found.append(Found(words[0], words[1], int(words[2])))
        else:
            leads_nowhere = words[0] in ("dangling", "loop", "notdir", "symlink")
            found.append(Found("", "symlink" if leads_nowhere else "missing"))
            if leads_nowhere:
                next(lines, "")
    return [*found, Found(""), Found("")][:2]


def _relative(path: str, folder: Path) -> str:
    """The path as git reads it: from ``folder``, with slashes."""
    path = os.path.relpath(os.path.realpath(path), os.path.realpath(folder)) if os.path.isabs(path) else path
    return normpath(path.replace(os.sep, "/"))


def _unknown(ref: str, folder: Path) -> Unavailable:
    """The refusal of a commit that is not there, with how to get it."""
    try:
        shallow = _git(folder, "rev-parse", "--is-shallow-repository").strip() == b"true"
    except Failed:
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
    """The command that gets this one commit from its remote; empty where its name alone does not say how.

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


def _unavailable(error: Failed, folder: Path, asked: str) -> Unavailable:
    """What git said as one line with a remedy."""
    said = str(error)
    for words, fact, remedy in PROBLEMS:
        if words in said:
            names = {"folder": "this folder" if folder == Path() else folder, "asked": quoted(asked)}
            return Unavailable(fact.format(**names), remedy.format(**names))
    reason = shortened(" ".join(said.split()).removeprefix("fatal: "), 200)
    return Unavailable(f"git cannot give {quoted(asked)}: {reason or 'it says no reason'}", "see git status")


def _git(folder: Path, *words: str, given: str = "") -> bytes:
    """What git answers to a command in ``folder``. Raises Failed with its words, and Unavailable without a git."""
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
            with suppress(BrokenPipeError):  # git gave up before it read: its words say why
                cast("IO[bytes]", process.stdin).write(given.encode(errors="surrogateescape"))
                cast("IO[bytes]", process.stdin).close()
            answer = cast("IO[bytes]", process.stdout).read(LARGEST + 1)
            if len(answer) > LARGEST:
                process.kill()
                raise Failed("its answer is larger than 4 MiB")
            said = cast("IO[bytes]", process.stderr).read(LARGEST)
            code = process.wait()
        finally:
            late.cancel()
    if code:
        raise Failed(said.decode(errors="replace") or (f"it took longer than {SECONDS} s" if code < 0 else ""))
    return answer
