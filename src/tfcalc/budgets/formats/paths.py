"""The files that findings are about, as CI systems look them up: from the root of the repository, with slashes."""

from __future__ import annotations

import os
from contextlib import suppress
from urllib.parse import quote

from tfcalc.settings_file import repository, working_folder


def reference(path: str) -> str:
    r"""The path from the repository's root, half characters in it written out.

    >>> print(reference("configs/chat\udcff.json"))
    configs/chat\udcff.json
    """
    return from_root(path).encode("utf-8", "backslashreplace").decode()


def from_root(path: str, separator: str = os.sep) -> str:
    """A path from the folder that the program runs in, made one from the repository's root.

    It is the same where that folder is in no repository, and where the file is outside of it.
    """
    folder, inside = working_folder(), path
    if folder:
        with suppress(ValueError):  # the file is on another drive
            inside = os.path.relpath(folder / path, repository(folder) or folder)
    return (path if inside.startswith(os.pardir) else inside).replace(separator, "/")


def uri(path: str) -> str:
    """URI of a path in a document: a relative one, or ``file:///…`` for a file outside of the repository.

    >>> uri("configs/größe 1.json"), uri("a:b.json"), uri("/tmp/a.json")
    ('configs/gr%C3%B6%C3%9Fe%201.json', 'a%3Ab.json', 'file:///tmp/a.json')
    """
    inside = from_root(path)
    escaped = quote(inside.encode("utf-8", "surrogateescape" if _from_bytes(inside) else "backslashreplace"), safe="/")
    return f"file://{escaped}" if escaped.startswith("/") else escaped


def _from_bytes(path: str) -> bool:
    """Return whether all surrogates in it are bytes that are no UTF-8, as Python reads the names of files."""
    return all(not 0xD800 <= ord(one) <= 0xDFFF or 0xDC80 <= ord(one) <= 0xDCFF for one in path)
