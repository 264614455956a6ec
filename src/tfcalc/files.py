"""Files that are read, whoever names them: regular ones alone, opened without waiting for anything."""

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
    """A regular file, or what a link to one leads to, opened for reading. Raises OSError for anything else.

    A pipe that nobody writes to would be waited for without end, and a device may do something when it is opened. So
    the file is looked at before, and again once it is open, as it may have been exchanged in between.
    """
    try:
        _check(os.stat(path))
    except ValueError:  # of Python itself: no file can have a NUL or half a character in its name
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), ascii(path)) from None
    file = os.fdopen(os.open(path, FLAGS), "rb")
    try:
        found = os.fstat(file.fileno())
        _check(found)
    except OSError:
        file.close()
        raise
    if found.st_size:
        return file
    file.close()  # files of /proc say that they are empty, and reading some of them waits
    return io.BytesIO()


def content(path: Path, most: int) -> bytes:
    """What is in a regular file, up to a byte more than ``most``. Raises OSError where it cannot be read."""
    with opened(path) as file:
        return file.read(most + 1)


def _check(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
