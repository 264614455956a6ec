"""``python -m tests.cuda.kernels -o rows.jsonl``: how fast the first GPU multiplies, attends and copies."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

ROWS = (1, 16, 64, 256, 1024, 4096, 16384)
MATRICES = ((2048, 2048), (2048, 8192), (4096, 4096), (4096, 14336), (14336, 4096), (8192, 28672), (4096, 128256))
"""Inner size and columns of products, as models of 1B to 70B parameters have them."""
ATTENTION = tuple(
    (batch, heads, size, 16384 // batch) for batch in (1, 2, 4, 8, 16, 32) for heads, size in ((32, 128), (16, 64))
)
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
BEYOND_CACHE = 2**28
"""Bytes of operands that are taken in turn, more than the card's second-level cache holds."""


def seconds(run: Callable[[int], Any], repeats: int = 12) -> float:
    """The middle of several runs, by the card's clock; each is given its number."""
    for number in range(3):
        run(number)
    found: list[float] = []
    for number in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run(number)
        end.record()
        end.synchronize()
        found.append(float(begin.elapsed_time(end)) / 1e3)
    return median(found)


def random(*shape: int) -> torch.Tensor:
    """Numbers in bf16: products of zeros are faster."""
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def products() -> Iterator[dict[str, Any]]:
    """``rows x inner`` times ``inner x columns`` in bf16, the matrix stored as nn.Linear's weight is."""
    for inner, columns in MATRICES:
        weights = [random(columns, inner) for _ in range(max(1, BEYOND_CACHE // (2 * inner * columns)))]
        for rows in ROWS:
            left = random(rows, inner)

            def run(number: int, left: torch.Tensor = left, weights: list[torch.Tensor] = weights) -> None:
                torch.nn.functional.linear(left, weights[number % len(weights)])

            yield {"kind": "product", "m": rows, "n": columns, "k": inner, "seconds": seconds(run)}


def attention() -> Iterator[dict[str, Any]]:
    """Causal attention in bf16, forward and backward."""
    for batch, heads, size, length in ATTENTION:
        for name in BACKENDS:
            forward, backward = attended(name, batch, heads, length, size)
            shape = {"batch": batch, "heads": heads, "head_dim": size, "seq": length}
            yield {"kind": "attention", "kernel": name, **shape, "forward": forward, "backward": backward}


def attended(name: str, *shape: int) -> tuple[float, float]:
    """Seconds of one kernel, forward and backward."""
    three = tuple(random(*shape).requires_grad_() for _ in range(3))
    with sdpa_kernel(BACKENDS[name]):
        forward = seconds(lambda _: scaled_dot_product_attention(*three, is_causal=True))
        out = scaled_dot_product_attention(*three, is_causal=True)
        gradient = random(*out.shape)
        backward = seconds(lambda _: torch.autograd.grad(out, three, gradient, retain_graph=True))
    return forward, backward


def copies() -> Iterator[dict[str, Any]]:
    """A copy, a sum of two, and a step of fused AdamW in bf16."""
    source, target = random(2**29), torch.empty(2**29, device="cuda", dtype=torch.bfloat16)
    yield {"kind": "copy", "bytes": 2**31, "seconds": seconds(lambda _: target.copy_(source))}
    yield {"kind": "add", "bytes": 3 * 2**30, "seconds": seconds(lambda _: torch.add(source, target, out=target))}
    weights = [random(4096, 4096).requires_grad_() for _ in range(64)]
    for weight in weights:
        weight.grad = random(4096, 4096)
    step = torch.optim.AdamW(weights, fused=True).step
    yield {"kind": "adamw", "parameters": 2**30, "bytes": 7 * 2**31, "seconds": seconds(lambda _: step())}
    small = torch.zeros(1, device="cuda")
    yield {"kind": "launches", "number": 1000, "seconds": seconds(lambda _: [small.add_(1) for _ in range(1000)])}


def main(arguments: Sequence[str]) -> int:
    """Always 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.kernels", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="a file to write to")
    given = parser.parse_args(arguments)
    where = {"card": torch.cuda.get_device_name(0), "torch": torch.__version__, "cuda": torch.version.cuda}
    with given.output.open("w", encoding="utf-8") as written:
        for measure in (copies, products, attention):
            for row in measure():
                written.write(json.dumps({**where, **row}) + "\n")
            written.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
