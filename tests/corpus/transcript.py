"""Transcripts: commands with what they printed, one file for each group of them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from tfcalc.cli.main import main

HERE = Path(__file__).parent
FILES = HERE / "files"
"""What lies in the folder in which each command runs."""
PROMPT = "$ tfcalc "
SHOWN = 40
"""Lines of a long output that stand in the transcript; the hash below them is of the whole."""


def commands(transcript: str) -> list[str]:
    """The command lines of a transcript, without the program's name."""
    return re.findall(rf"^{re.escape(PROMPT)}(.*)$", transcript, re.MULTILINE)


def told(text: str) -> str:
    """An output as a transcript has it: a long one by its beginning and the hash of the whole."""
    lines = text.splitlines(keepends=True)
    if len(lines) <= SHOWN + SHOWN // 2:
        return text
    rest = len(lines) - SHOWN
    return "".join(lines[:SHOWN]) + f"… and {rest} lines; in all sha256 {_hash(text.encode())}\n"


def run(line: str, folder: Path) -> str:
    """What a command prints at 80 columns, its exit code, and the files that it leaves in a folder of its own.

    Args:
        line: the command line, without the program's name
        folder: where ``files`` are copied to; must not exist
    """
    shutil.copytree(FILES, folder)
    there = {path.name: path.read_bytes() for path in folder.iterdir()}
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), _environment(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: object = main(shlex.split(line))
        except SystemExit as stopped:
            code = stopped.code
    written = [path for path in sorted(folder.iterdir()) if there.get(path.name) != path.read_bytes()]
    parts = [
        f"{PROMPT}{line}\n",
        told(out.getvalue()),
        *(f"stderr: {each}" for each in told(err.getvalue()).splitlines(keepends=True)),
        *(f"wrote: {path.name}, sha256 {_hash(path.read_bytes())}\n" for path in written),
        f"[{code}]\n",
    ]
    return "".join(part if not part or part.endswith("\n") else f"{part}\n" for part in parts)


def transcript(lines: list[str], folder: Path) -> str:
    """The transcript of some commands, each run in a folder of its own below ``folder``."""
    found = [run(line, folder / f"{place}") for place, line in enumerate(lines)]
    return "\n".join(found)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Nothing of the caller's that decides how an answer looks; 80 columns."""
    before = dict(os.environ)
    ours = ("TFCALC_", "NO_COLOR", "FORCE_COLOR", "GITHUB_", "PYTHONIOENCODING", "_TYPER")
    for name in list(os.environ):
        if name.startswith(ours):
            del os.environ[name]
    os.environ.update({"COLUMNS": "80", "LINES": "25"})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
