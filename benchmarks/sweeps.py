"""A million points of Llama-3-8B on one core: parameters, FLOPs, training peak, cache; and what one point takes alone.

The times are of this process's CPU. The ratio of a point of the sweep to a single answer is taken within one run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tfcalc

POINTS = 1_000_000
SINGLE = 20
TRAIN = tfcalc.Workload(phase="train")


def main() -> None:
    rng = np.random.default_rng(0)
    model = tfcalc.load("llama-3-8b")
    batch, length = rng.integers(1, 65, POINTS), rng.integers(1, 8193, POINTS)
    width, inner, layers = (
        128 * rng.integers(1, 129, POINTS),
        256 * rng.integers(1, 129, POINTS),
        rng.integers(1, 129, POINTS),
    )
    tfcalc.sweep(model, d_model=[64])  # numpy is imported

    def served(at: dict[str, int]) -> int:
        return int(tfcalc.memory(model, serving=tfcalc.Serving().replaced(**at)).totals["kv_cache_bytes"])

    questions: tuple[tuple[str, dict[str, Any], dict[str, Any], Callable[[dict[str, int]], int]], ...] = (
        (
            "params",
            {},
            {"d_model": width, "d_ff": inner, "n_layers": layers},
            lambda at: tfcalc.params(model.replaced(**at)).answer,
        ),
        (
            "flops",
            {"workload": TRAIN},
            {"batch_size": batch, "seq_len": length},
            lambda at: tfcalc.flops(model, TRAIN.replaced(**at)).answer,
        ),
        (
            "memory",
            {"workload": TRAIN},
            {"batch_size": batch, "seq_len": length},
            lambda at: tfcalc.memory(model, TRAIN.replaced(**at)).answer,
        ),
        ("cache", {}, {"concurrency": batch, "context": length}, served),
    )
    whole = 0.0
    for of, how, sizes, single in questions:
        start = time.process_time()
        swept = tfcalc.sweep(model, of, **how, **sizes)
        taken = time.process_time() - start
        whole += taken
        points = [{name: int(values[row]) for name, values in sizes.items()} for row in range(SINGLE)]
        start = time.process_time()
        answers = [single(at) for at in points]
        each = (time.process_time() - start) / SINGLE
        equal = answers == swept.values[:SINGLE].tolist()
        ratio = each / (taken / POINTS)
        print(f"{of:8} {POINTS:,} points in {taken:.2f} s; a single answer takes {ratio:,.0f} points; equal: {equal}")
    print(f"together {whole:.2f} s")


if __name__ == "__main__":
    main()
