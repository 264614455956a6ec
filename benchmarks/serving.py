"""A hundred thousand configurations of a served model as arrays, a curve of 256 points, and a cold ``serve``.

Times are of the CPU. Wanted are 1 s, 0.6 s and 0.35 s on the machine of the issue; the ratios tell of a change: arrays
beside single questions, in one run, and programs beside one that does nothing.
"""

from __future__ import annotations

import subprocess
import sys
import time
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

import numpy as np

from tfcalc.answers.serve import serve
from tfcalc.arrays.serving import serve_points

POINTS, SINGLE, ROUNDS = 100_000, 100, 5
MODELS = ("llama-3.1-70b", "gpt-oss-120b", "deepseek-v3")
NOTHING = "pass"
COLD = "from tfcalc.cli.main import main; main(['serve', 'llama-3.1-70b', '--gpu', '4xh100'])"
CURVE = """
import tfcalc
found = tfcalc.serve("llama-3.1-70b", "4xh100", 2048, 500)
curve = [(point.rate, point.token, point.first) for point in map(found.case.point, range(1, 257))]
"""


def seconds_of(program: str) -> float:
    """CPU seconds of a Python program."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL, check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    draw = np.random.default_rng(7)
    sizes = [draw.integers(1, most, POINTS) for most in (32_768, 4_096, 1_024)]
    tp = 2 ** draw.integers(2, 4, POINTS)
    for name in MODELS:
        start = time.process_time()
        serve_points(name, "h200", *sizes, tp=tp)
        arrays = time.process_time() - start
        start = time.process_time()
        for place in range(SINGLE):
            length, answer, requests, layout = (int(each[place]) for each in (*sizes, tp))
            found = serve(name, f"{layout}xh200", length, answer, requests, tp=layout).case
            told = found.at.rate if found.by else found.at.floor_of_token.seconds
            assert told
        single = (time.process_time() - start) / SINGLE * POINTS
        print(f"{name}: {POINTS:,} points {arrays:.2f} s; one by one they take {single / arrays:,.0f} times as long")
    for name, program in (("cold serve", COLD), ("a curve of 256 points", CURVE)):
        pairs = [(seconds_of(program), seconds_of(NOTHING)) for _ in range(ROUNDS + 1)][1:]  # bytecode is there
        taken, ratio = median(one for one, _ in pairs), median(one / nothing for one, nothing in pairs)
        print(f"{name}: {taken:.2f} s, {ratio:.1f} times as long as a program that does nothing")


if __name__ == "__main__":
    main()
