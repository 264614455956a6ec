"""Evaluations in one process: parameters and FLOPs at one point, and at a million points as arrays.

``python benchmarks/evaluations.py``. The ratio to a bare Python multiplication in the same run is what to compare
between machines. Promised: 50 µs for one point of the core, 150 µs for one of Llama-3-8B, 1 s for a million
(3 s of training memory).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tfcalc
from tfcalc.analysis.training_memory import Peaks
from tfcalc.core.measure import matmul_flops


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
        ("Llama-3-8B, the whole tree built anew", lambda: llama.tree(run), 100),
        ("core, the whole tree built anew", lambda: model.tree(run), 100),
        ("core, a full report with formulas", lambda: tfcalc.params(model), 20),
    ):
        taken = per_call(function, calls)
        print(f"{name:44} {1e6 * taken:10.1f} µs  {taken / bare:10.0f} times")

    rng = np.random.default_rng(0)
    points = 1_000_000
    h, n, l = 8 * rng.integers(1, 512, points), rng.integers(1, 100, points), rng.integers(1, 8192, points)
    for of in ("params", "flops"):
        sizes_of: dict[str, Any] = {"d_model": h, "n_layers": n, **({"seq_len": l} if of == "flops" else {})}
        start = time.perf_counter()
        swept = tfcalc.sweep(model, of, **sizes_of)
        taken = time.perf_counter() - start
        sample = rng.integers(0, points, 200)
        exact = tfcalc.sweep(model, of, exact=True, **{name: size[sample] for name, size in sizes_of.items()})
        fits = exact < 2**53
        agree = bool(np.all(swept[sample][fits.astype(bool)] == exact[fits.astype(bool)]))
        print(f"{of}: {points:,} points in {taken:.3f} s; equal to exact ints where those fit: {agree}")
    batches, lengths = rng.integers(1, 64, points), rng.integers(1, 8192, points)
    start = time.perf_counter()
    swept = tfcalc.sweep(llama, "flops", batch_size=batches, seq_len=lengths)
    taken = time.perf_counter() - start
    agree = all(
        swept[i] == llama.tree(tfcalc.Workload(batch_size=int(batches[i]), seq_len=int(lengths[i]))).total(matmul_flops)
        for i in range(50)
    )
    print(f"Llama-3-8B, FLOPs: {points:,} points (b, l) in {taken:.3f} s; equal to the tree's own count: {agree}")
    step = tfcalc.Workload(phase="train")
    start = time.perf_counter()
    swept = tfcalc.sweep(llama, "memory", step, batch_size=batches, seq_len=lengths)
    taken = time.perf_counter() - start
    peaks = Peaks(llama)
    agree = all(
        swept[i] == peaks.peak(step.replaced(batch_size=int(batches[i]), seq_len=int(lengths[i])), tfcalc.Training())
        for i in range(1000)
    )
    print(f"Llama-3-8B, training memory: {points:,} points in {taken:.3f} s; 1,000 equal to single answers: {agree}")


if __name__ == "__main__":
    main()
