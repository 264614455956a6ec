"""Streams that are full, closed, or read by nobody: the exit code is the answer's, whoever reads."""

from __future__ import annotations

import errno
import io
import os
import random
import sys
from contextlib import suppress

from tfcalc.cli.main import main
from tools.fuzz.findings import FOUND
from tools.fuzz.program import WATCH, Hang, call
from tools.fuzz.questions import sensible

NEGATIVE = (
    "params gpt2 --max 1",
    "memory gpt2 --train --gpu t4 --batch 512",
    "why 163M gpt2",
    "solve params=1 --for layers",
)
REFUSED = (
    "params nope",
    "params --d-model 513",
    "params gpt2 --zzz",
    "memory gpt2 --dtype bf17",
    "budget --file no.toml",
)
OTHERS = (
    "--help",
    "--version",
    "-V",
    "params --help",
    "models",
    "schema params",
    "gpt2",
    "params gpt2 -q",
    "help memory",
    "",
)
USAGE, NO_SPACE = 2, errno.ENOSPC


class _Broken(io.RawIOBase):
    """A stream that takes so many bytes, and then is full or read by nobody."""

    def __init__(self, error: int, room: int) -> None:
        self.error, self.room = error, room

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        size = len(data)  # type: ignore[arg-type]  # what a buffer hands on has a length
        if size > self.room:
            raise OSError(self.error, os.strerror(self.error))
        self.room -= size
        return size


def streams(draw: random.Random) -> None:
    """The same question with sound and with broken streams."""
    argv = draw.choice((*NEGATIVE, *REFUSED, *OTHERS)).split()
    if draw.random() < 0.4:
        argv, _ = sensible(draw)
        if "-" in argv:
            return
        argv += draw.choice(([], ["--json"], ["-q"]))
    sound = call(argv)
    out = draw.choice((None, errno.EPIPE, errno.ENOSPC))
    err = draw.choice((None, errno.EPIPE, errno.ENOSPC, 0))
    room = draw.choice((0, 0, 10))
    found = _code(argv, out, err, room)
    told = bool(sound.out) and (room < len(sound.out))
    expected = USAGE if out == NO_SPACE and told else sound.code
    FOUND.checked["broken streams"] += 1
    if found != expected:
        names = {None: "sound", 0: "none", errno.EPIPE: "unread", errno.ENOSPC: "full"}
        FOUND.bug("stream-code", f"{found}, not {expected}: stdout {names[out]}, stderr {names[err]}", (argv, room))


def _code(argv: list[str], out: int | None, err: int | None, room: int) -> int | str:
    """The exit code of the program with these streams: an error's number, None for a sound one, 0 for none at all."""
    kept = sys.stdin, sys.stdout, sys.stderr
    streams = [
        None
        if error == 0
        else io.TextIOWrapper(
            io.BytesIO() if error is None else io.BufferedWriter(_Broken(error, room), 1 << 13), encoding="utf-8"
        )
        for error in (out, err)
    ]
    sys.stdin, (sys.stdout, sys.stderr) = io.TextIOWrapper(io.BytesIO()), streams
    WATCH.set_alarm(5)
    try:
        return main(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except Hang:
        return "hang"
    except BaseException as error:
        return f"{type(error).__name__} was raised"
    finally:
        WATCH.set_alarm(0)
        sys.stdin, sys.stdout, sys.stderr = kept
        for stream in streams:
            if stream is not None:
                with suppress(OSError, ValueError):
                    stream.detach()
