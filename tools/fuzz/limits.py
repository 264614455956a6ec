"""How long an answer may take, and how much memory an input may ask for: what is promised, and held."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS = 1.0
"""Seconds of the processor's time that an answer about one model may take, a parser, and start-up."""

SEARCHES = {"solve": 5.0, "why": 5.0, "sweep": 5.0, "plot": 5.0, "design": 20.0}
"""Seconds of those that try sizes, where how many is the question's own.

``solve`` and ``why`` count a model at each size or with each setting that may explain a number, mostly some hundred
times at some milliseconds. ``sweep`` and ``plot`` are as long as the table that is asked for: at most 10,000 runs, and
the ranges that are drawn here have at most 64. ``design`` counts memory shape by shape.
"""

MODELS = ("compare", "diff")
"""Commands that answer for each of several models: so many times as long."""

LIMIT = 30.0
"""Seconds after which an answer is given up, however it is asked for."""

GROWTH = 400 << 20
"""Bytes by which the process may grow for one input: it is refused more, so that nothing that asks for it passes.

With what the program is itself, an answer takes less than 500 MB.
"""

PAGE = resource.getpagesize()
BEAT = 100_000


def promised(argv: list[str], env: dict[str, str]) -> float:
    """Seconds of the processor's time within which there is an answer."""
    name = argv[0] if argv else ""
    if name == "budget":
        return SECONDS * max(1, env.get("toml", "").count("[[budget]]"))
    if name in MODELS:
        return SECONDS * max(2, sum(not one.startswith("-") for one in argv[1:]))
    return SEARCHES.get(name, SECONDS)


class Machine:
    """How much slower it is at this moment than it was at its best: others may use the same cores."""

    def __init__(self) -> None:
        self.best = self._beat()

    def pace(self) -> float:
        """Times that the same work takes longer now."""
        now = self._beat()
        self.best = min(self.best, now)
        return now / self.best

    def _beat(self) -> float:
        """Seconds of the processor's for some plain Python, the least of five that its clock saw."""
        found = list[float]()
        while len(found) < 5:
            started = time.process_time()
            for _ in range(BEAT):
                pass
            if (seconds := time.process_time() - started) > 0:
                found.append(seconds)
        return min(found)


@contextmanager
def growth_bounded() -> Iterator[None]:
    """Refuse memory beyond what the process has and GROWTH: MemoryError, where it is asked for."""
    kept = resource.getrlimit(resource.RLIMIT_DATA)
    data = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * PAGE
    resource.setrlimit(resource.RLIMIT_DATA, (data + GROWTH, kept[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, kept)
