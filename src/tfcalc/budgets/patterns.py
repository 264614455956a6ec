"""Names that match a pattern: each pattern is compiled and tried once, however many budgets have it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from fnmatch import translate
from functools import cache

SPECIAL = re.compile(r"[*?[]")
"""Special characters of patterns."""
LAST = "\U0010ffff"
"""Character that sorts after all that a name may have: it is not printable."""


class NamePatterns:
    """Names of models, matched by patterns: ``chat*``, ``[ab]-?b``, or a name itself.

    >>> names = NamePatterns(["chat-b", "base", "chat-a"])
    >>> names.of("chat*"), names.of_any(["base", "*-b"])
    (('chat-a', 'chat-b'), ['chat-b', 'base'])
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = dict.fromkeys(names)
        self.sorted = sorted(self.names)
        self.found: dict[str, tuple[str, ...]] = {}

    def of(self, pattern: str) -> tuple[str, ...]:
        """Names that match one pattern, sorted."""
        if pattern not in self.found:
            self.found[pattern] = self._of(pattern)
        return self.found[pattern]

    def of_any(self, patterns: Iterable[str]) -> list[str]:
        """Names that match any of the patterns, in their original order."""
        found = set[str]().union(*map(self.of, patterns))
        return [name for name in self.names if name in found]

    def _of(self, pattern: str) -> tuple[str, ...]:
        special = SPECIAL.search(pattern)
        if special is None:
            return (pattern,) if pattern in self.names else ()
        prefix, rest = pattern[: special.start()], pattern[special.start() :]
        alike = self.sorted[bisect_left(self.sorted, prefix) : bisect_left(self.sorted, prefix + LAST)]
        if rest == "*":
            return tuple(alike)
        compiled = _compiled(pattern)
        return tuple(name for name in alike if name == pattern or compiled.match(name))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))
