"""A million layouts searched on one core, beside some evaluated one by one; and a cold ``plan`` beside ``params``.

Times are of the CPU, which other programs on the machine change less than others. Wanted are 1.2 s and 1 s. The ratios
tell of a change: one by one, layouts take about 700 times as long, and ``plan`` 3 to 4 times as long as ``params``.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from tests.timing.test_published_steps import searched_million

SINGLE, ROUNDS = 100, 5
PROGRAM = str(Path(sys.executable).with_name("tfcalc"))
PLAN = ["plan", "llama-3-70b", "--gpus", "1024", "--gpu", "h100", "--global-batch", "16.8M", "--seq", "8192"]
PARAMS = ["params", "llama-3-70b", "-q"]


def of_a_child(words: list[str]) -> float:
    """The CPU time of a program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([PROGRAM, *words], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    searched_million()  # imports, and terms that are remembered
    start = time.process_time()
    by, found = searched_million()
    million = (time.process_time() - start) * 1e6 / found.number
    chosen = [found.at(place) for place in range(0, found.number, found.number // SINGLE)]
    start = time.process_time()
    for at in chosen:
        by.evaluated(at)
    single = (time.process_time() - start) * 1e6 / len(chosen)
    print(f"a million layouts: {million:.2f} s; one by one they take {single / million:.0f} times as long")
    pairs = [(of_a_child(PLAN), of_a_child(PARAMS)) for _ in range(ROUNDS + 1)][1:]  # bytecode is there
    taken, ratio = median(plan for plan, _ in pairs), median(plan / one for plan, one in pairs)
    print(f"plan for 1,024 GPUs: {taken:.2f} s, {ratio:.1f} times as long as params")


if __name__ == "__main__":
    main()
