"""Evaluations of one point in one process: by a closed form, by a tree built anew, and as a full report.

``python benchmarks/evaluations.py``. The ratio to a bare Python multiplication in the same run is what to compare
between machines. Promised: 50 µs by the closed form of the core, 150 µs by that of Llama-3-8B. What a million points
take as arrays is in ``benchmarks/sweeps.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import tfcalc


def per_call(function: Callable[[], object], calls: int) -> float:
    """The best of five runs, in seconds."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def main() -> None:
    model, run = tfcalc.Transformer(), tfcalc.Workload(batch_size=8, seq_len=1024)
    count, work = tfcalc.formula("core"), tfcalc.formula("core", "flops")
    a, b = 123_457, 765_431
    llama = tfcalc.load("llama-3-8b")
    published = tfcalc.formula("complete", "flops", llama)
    sizes = {letter: value for letter, value in llama.values().items() if letter in published.legend}
    bare = per_call(lambda: a * b, 100_000)
    print(f"{'a bare multiplication':44} {1e6 * bare:10.3f} µs")
    for name, function, calls in (
        ("core, parameters by the closed form", lambda: count.at(h=512, n=6), 2000),
        ("core, FLOPs by the closed form", lambda: work.at(h=512, n=6, l=1024, b=8), 2000),
        ("Llama-3-8B, FLOPs by the closed form", lambda: published.at(**sizes, b=8, l=1024), 2000),
        ("Llama-3-8B, the whole tree built anew", lambda: llama.replaced(n_layers=32).tree(run), 20),
        ("core, the whole tree built anew", lambda: model.tree(run), 100),
        ("core, a full report with formulas", lambda: tfcalc.params(model), 20),
    ):
        taken = per_call(function, calls)
        print(f"{name:44} {1e6 * taken:10.1f} µs  {taken / bare:10.0f} times")


if __name__ == "__main__":
    main()
