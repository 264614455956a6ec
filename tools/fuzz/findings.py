"""What was found: a count, and the first cases, by check and kind."""

from __future__ import annotations

import re
import resource
import time
from collections import Counter
from pathlib import Path

KEPT = 3
"""Cases that are kept of a kind of bug."""

WORTH_KEEPING = 0.05
"""Seconds that are worth telling of."""


class Findings:
    """What one run of the fuzzer found, and how far it reached."""

    def __init__(self) -> None:
        self.bugs: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
        self.count: Counter[tuple[str, str]] = Counter()
        self.exits: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.checked: Counter[str] = Counter()
        self.inputs = self.calls = 0
        self.slowest: dict[str, tuple[float, str, str, str]] = {}
        self.case = ""
        self.families: set[str] = set()
        self.options: set[str] = set()
        self.notes: dict[str, list[tuple[str, str]]] = {}
        self.started = self.told = time.time()

    def note(self, law: str, *example: object) -> None:
        """What a law does not hold for by design, as formulas.md says: counted, and no bug."""
        self.notes.setdefault(law, []).append((self.case, repr(example)[:400]))

    def bug(self, check: str, what: str, example: object, *, exact: bool = False) -> None:
        """One case of a bug; cases whose text is alike but for their values are of one kind, unless ``exact``."""
        key = (check, what[:200] if exact else shorten(what))
        self.count[key] += 1
        if len(self.bugs.setdefault(key, [])) < KEPT:
            self.bugs[key].append((self.case, what[:600], _shown(example)))

    def timed(self, what: str, seconds: float, example: object) -> None:
        """The slowest run of each command and parser is kept."""
        if seconds > max(WORTH_KEEPING, self.slowest.get(what, (0.0,))[0]):
            self.slowest[what] = (round(seconds, 2), what, self.case, _shown(example)[:300])

    def report(self) -> str:
        """All of it as text."""
        lines = [
            f"{self.inputs} inputs, {self.calls} runs of main(), {time.time() - self.started:.0f} s",
            "by kind: " + _counted(self.kinds),
            "exits: " + _counted(self.exits),
            f"families mutated: {len(self.families)}; options given: {len(self.options)}",
            "checks: " + _counted(self.checked),
            *(f"noted: {law} x{len(found)}, such as {found[0]}" for law, found in sorted(self.notes.items())),
            f"largest resident size: {resident() >> 10} MB",
            "slowest:",
            *(f"  {one}" for one in sorted(self.slowest.values(), reverse=True)),
            f"kinds of bugs: {len(self.bugs)}, cases {sum(self.count.values())}",
        ]
        for (check, what), examples in sorted(self.bugs.items(), key=lambda item: (item[0][0], -self.count[item[0]])):
            lines.append(f"[{check}] x{self.count[check, what]}  {what}")
            for case, text, example in examples[:2]:
                lines += [f"    {case}: {text[:300]!r}", f"      {example}"]
        return "\n".join(lines)

    def write(self, path: str) -> None:
        """The report, into a file."""
        Path(path).write_text(self.report() + "\n", encoding="utf-8", errors="backslashreplace")


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _shown(example: object) -> str:
    try:
        return repr(example)[:900]
    except ValueError:  # a number of more digits than Python prints
        return "…"


def shorten(text: str) -> str:
    """A message without what differs from case to case."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", text)
    text = re.sub(r"/\S+", "/…", text)
    return re.sub(r"-?\d[\d,.e+_]*", "#", text)[:160]


def resident() -> int:
    """The largest resident size so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


FOUND = Findings()
