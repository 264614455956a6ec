"""Safe reading of files that others name: regular files only, opened without blocking."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path
from typing import BinaryIO

NOT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
FLAGS = os.O_RDONLY | NOT_WAITING | getattr(os, "O_BINARY", 0)


def opened(path: Path) -> BinaryIO:
    """Open a regular file, or a link to one, for reading. Raises OSError for anything else.

    Opening a pipe without a writer blocks forever, and opening a device may have effects. So the file's type is checked
    before it is opened, and again after, as the file may have been replaced in between.
    """
    try:
        _check(os.stat(path))
    except ValueError:  # Python's own, for a name with a NUL or half a surrogate pair, which no file can have
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), ascii(path)) from None
    file = os.fdopen(os.open(path, FLAGS), "rb")
    try:
        status = os.fstat(file.fileno())
        _check(status)
    except OSError:
        file.close()
        raise
    if status.st_size:
        return file
    file.close()  # files in /proc have size 0, and reading some of them blocks
    return io.BytesIO()


def content(path: Path, most: int) -> bytes:
    """Read a regular file, at most one byte more than ``most``. Raises OSError if it cannot be read."""
    with opened(path) as file:
        return file.read(most + 1)


def _check(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
