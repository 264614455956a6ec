"""The exit code is the answer's, whoever reads it: full disks, readers that are gone, and streams that are closed."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from tfcalc.cli.main import main

ANSWERS = {
    "the version": (["--version"], 0),
    "no arguments": ([], 0),
    "all help": (["--help"], 0),
    "help of a command": (["params", "--help"], 0),
    "help in words": (["help", "solve"], 0),
    "a table": (["params", "gpt2"], 0),
    "a number": (["params", "gpt2", "-q"], 0),
    "an object": (["params", "gpt2", "--json"], 0),
    "the model alone": (["gpt2"], 0),
    "a schema": (["schema", "init"], 0),
    "over its limit": (["params", "gpt2", "--max", "1"], 1),
    "over its limit, as JSON": (["params", "gpt2", "--max", "1", "--json"], 1),
    "does not fit": (["memory", "gpt2", "--budget", "1MB"], 1),
    "a wrong formula": (["check", "mha", "5h"], 1),
    "no size": (["solve", "params <= 1", "--for", "layers"], 1),
}
"""What is asked, and what it answers."""
REFUSALS = {
    "an unknown option": (["params", "--bogus"], 2),
    "an unknown model": (["params", "nope"], 3),
    "an unknown model, as JSON": (["params", "nope", "--json"], 3),
    "a place without a model": (["params", "./nope.json"], 3),
    "no commit": (["params", "HEAD:nope.json"], 4),
}


class Broken(io.RawIOBase):
    """A stream that takes nothing."""

    def __init__(self, number: int) -> None:
        self.number = number

    def writable(self) -> bool:
        """It looks as if it could be written."""
        return True

    def write(self, _: object) -> int:
        """It cannot."""
        raise OSError(self.number, os.strerror(self.number))


class BrokenText(io.TextIOWrapper):
    """Text that fails when it is written, or when what is buffered is flushed, but not when it is collected."""

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()


def broken(number: int, *, buffered: bool = True) -> io.TextIOWrapper:
    """A stream of text that cannot be written."""
    if buffered:
        return BrokenText(io.BufferedWriter(Broken(number)), "utf-8")
    return BrokenText(cast("BinaryIO", Broken(number)), "utf-8", write_through=True)


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Set the streams that main() finds, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return monkeypatch


@pytest.mark.parametrize("buffered", [True, False], ids=["buffered", "at once"])
@pytest.mark.parametrize(("words", "code"), ANSWERS.values(), ids=ANSWERS)
def test_a_reader_that_is_gone_changes_no_exit_code(
    streams: pytest.MonkeyPatch, words: list[str], code: int, buffered: bool
) -> None:
    said = io.StringIO()
    streams.setattr(sys, "stdout", broken(errno.EPIPE, buffered=buffered))
    streams.setattr(sys, "stderr", said)
    assert main(words) == code
    assert said.getvalue() == ""
    sys.stdout.close()  # main() leaves one open for the flush at exit


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("words", [words for words, _ in ANSWERS.values()], ids=ANSWERS)
def test_an_answer_that_cannot_be_written_is_told_in_a_line(
    streams: pytest.MonkeyPatch, words: list[str], number: int
) -> None:
    said = io.StringIO()
    streams.setattr(sys, "stdout", broken(number))
    streams.setattr(sys, "stderr", said)
    assert main(words) == 2
    assert said.getvalue().count("\n") == 1
    assert f"cannot write the standard output: {os.strerror(number)}" in said.getvalue()


@pytest.mark.parametrize("words", [words for words, _ in ANSWERS.values()], ids=ANSWERS)
def test_an_answer_without_a_standard_output_is_told_in_a_line(streams: pytest.MonkeyPatch, words: list[str]) -> None:
    said = io.StringIO()
    streams.setattr(sys, "stdout", None)
    streams.setattr(sys, "stderr", said)
    assert main(words) == 2
    assert "cannot write the standard output: it is closed" in said.getvalue()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE, None], ids=["full", "reader gone", "closed"])
@pytest.mark.parametrize(("words", "code"), [*ANSWERS.values(), *REFUSALS.values()], ids=[*ANSWERS, *REFUSALS])
def test_what_cannot_be_told_keeps_its_exit_code(
    streams: pytest.MonkeyPatch, words: list[str], code: int, number: int | None
) -> None:
    answer = io.StringIO()
    streams.setattr(sys, "stdout", answer)
    streams.setattr(sys, "stderr", None if number is None else broken(number))
    assert main(words) == code
    assert bool(answer.getvalue()) == (code < 2)


def test_what_a_named_pipe_no_longer_reads_changes_no_exit_code(streams: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``-o >(head -1)``: the file is written until its reader ends."""

    def gone(*_: object, **__: object) -> io.TextIOWrapper:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    streams.setattr("tfcalc.cli.output.open", gone, raising=False)
    assert main(["params", "gpt2", "--max", "1", "-o", str(tmp_path / "pipe")]) == 1


def run(words: list[str], **streams: int) -> int:
    """The exit code of the real program with these streams."""
    command = [sys.executable, "-m", "tfcalc", *words]
    given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **streams}
    return subprocess.run(command, check=False, timeout=120, **given).returncode  # type: ignore[call-overload, no-any-return]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
@pytest.mark.parametrize(
    ("words", "stream", "code"),
    [
        (["--version"], "stdout", 2),
        (["--help"], "stdout", 2),
        (["--show-completion", "bash"], "stdout", 2),
        (["params", "nope"], "stderr", 3),
        ([], "stdout", 2),
        (["parms"], "stderr", 2),
    ],
)
def test_a_full_disk(words: list[str], stream: str, code: int) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        assert run(words, **{stream: full.fileno()}) == code


@pytest.mark.skipif(os.name != "posix", reason="file descriptors are inherited otherwise")
@pytest.mark.parametrize(
    ("words", "stream", "code"), [(["params", "gpt2", "--max", "1"], "stdout", 1), (["params", "nope"], "stderr", 3)]
)
def test_a_pipe_that_nobody_reads(words: list[str], stream: str, code: int) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        assert run(words, **{stream: write}) == code
    finally:
        os.close(write)
