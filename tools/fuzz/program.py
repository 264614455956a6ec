"""The program and the library, run under watch: streams of their own, a time limit, and what they do to the system."""

from __future__ import annotations

import gc
import io
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tfcalc.cli.main import main
from tfcalc.errors import TfcalcError
from tools.fuzz.findings import FOUND
from tools.fuzz.limits import LIMIT, SECONDS, Machine

T = TypeVar("T")
WORK = Path(tempfile.gettempdir()) / f"tfcalc-fuzz-{os.getpid()}"
WAITING = 20
"""Times that a machine with other work may take longer than the processor's time."""

TOUCHES = frozenset(
    (
        *("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "socket.connect"),
        *("socket.getaddrinfo", "socket.bind", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.chmod"),
        *("shutil.rmtree", "urllib.Request", "os.kill"),
    )
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Hang(BaseException):
    """The alarm went off."""


class Outcome(NamedTuple):
    """How a run ended: ``code`` is the exit code, or ``hang`` or ``crash``."""

    code: int | str
    out: bytes
    err: bytes
    seconds: float
    crash: str = ""

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return self.code == 0


class Watch:
    """What the program does to the system while it runs."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.on = False
        self.patience = 1.0
        self.machine = Machine()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event in TOUCHES:
            self.events.append(f"{event} {args!r:.200}")
        elif event == "open":
            path, mode, flags = args
            by_mode = isinstance(mode, str) and any(mark in mode for mark in "wax+")
            if by_mode or (mode is None and isinstance(flags, int) and flags & WRITING):
                self.events.append(f"write {path!r:.200}")

    def set_alarm(self, seconds: float) -> None:
        """Raise Hang after so many seconds of the processor's, times the patience that a slow machine needs.

        Or after many more by the clock, for what waits. 0 turns it off.
        """
        signal.setitimer(signal.ITIMER_PROF, seconds * self.patience)
        signal.setitimer(signal.ITIMER_REAL, seconds * self.patience * WAITING)

    def slow(self, seconds: float, promise: float, again: Callable[[], float]) -> float:
        """Seconds that an answer takes beyond what is promised, 0 where it does not; what is slow is tried ``again``.

        The machine may have been busy: with others, or with what it does once.
        """
        if seconds <= promise * self.patience:
            return 0
        seconds = min(seconds, again())
        return seconds if seconds > promise * self.patience * self.machine.pace() else 0


WATCH = Watch()


def call(argv: list[str], *, stdin: bytes = b"", env: dict[str, str] | None = None, limit: float = LIMIT) -> Outcome:
    """Run ``main(argv)`` with streams of its own."""
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors, newline="\n", write_through=True)
        for errors in ("strict", "backslashreplace")
    )
    kept, environ = (sys.stdin, sys.stdout, sys.stderr), dict(os.environ)
    code: int | str
    crash = ""
    sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"), out, err
    os.environ.update(env or {})
    WATCH.events.clear()
    WATCH.set_alarm(limit)
    gc.disable()  # as the program does
    started = time.process_time()
    WATCH.on = True
    try:
        code = main(argv)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except Hang:
        code = crash = "hang"
    except BaseException as error:
        code, crash = "crash", "".join(traceback.format_exception(error)[-12:])
    finally:
        WATCH.on = False
        WATCH.set_alarm(0)
        seconds = time.process_time() - started
        gc.enable()
        sys.stdin, sys.stdout, sys.stderr = kept
        if env:
            os.environ.clear()
            os.environ.update(environ)
    return Outcome(code, _written(out), _written(err), seconds, crash)


def _written(stream: io.TextIOWrapper) -> bytes:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue()


def alone(argv: list[str], *, stdin: bytes = b"", env: dict[str, str] | None = None) -> float:
    """Seconds of the processor's that the same takes in a process of its own, as people run it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with suppress(subprocess.TimeoutExpired, ValueError, OSError):  # the latter two: what no process can be given
        subprocess.run(
            [sys.executable, "-m", "tfcalc", *argv],
            input=stdin,
            env={**os.environ, **{key: value for key, value in (env or {}).items() if key.isupper()}},
            capture_output=True,
            timeout=LIMIT * WATCH.patience * WAITING,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return math.inf


def guarded(
    function: Callable[[], Any], what: str = "", promise: float = SECONDS, limit: float = LIMIT
) -> tuple[str, Any]:
    """A library call: ``ok`` and its value; ``refused``, which is an answer, too; ``hang``; or ``crash`` and where.

    What is named has ``promise`` seconds.
    """
    (state, found), seconds = timed(lambda: _guarded(function, limit))
    if what and state != "hang":
        FOUND.timed(what, seconds, FOUND.case)
        if seconds := WATCH.slow(seconds, promise, lambda: timed(lambda: _guarded(function, limit))[1]):
            FOUND.bug("slow", f"{what} takes over {promise:.0f} s", (FOUND.case, seconds))
    return state, found


def timed(function: Callable[[], T]) -> tuple[T, float]:
    """What it returns, and the seconds of the processor's that it took."""
    started = time.process_time()
    return function(), time.process_time() - started


def _guarded(function: Callable[[], Any], limit: float) -> tuple[str, Any]:
    WATCH.set_alarm(limit)
    try:
        return "ok", function()
    except TfcalcError as error:
        return "refused", error
    except Hang:
        return "hang", None
    except MemoryError:
        raise
    except Exception as error:
        return "crash", "".join(traceback.format_exception(error)[-5:])
    finally:
        WATCH.set_alarm(0)
