"""``python -m tests.cuda.serving -o rows.jsonl``: transformers generates on the first GPU: seconds, and bytes.

Prompts are read at once, then tokens are made one by one, with a cache that grows (transformers' DynamicCache).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch

from tests.cuda.settings import Setting
from tests.cuda.training import load_config, machine, prepared

RUNS = (
    ("gpt2", 8, 512),
    ("llama-3.2-1b", 1, 2048),
    ("llama-3.2-1b", 16, 2048),
    ("qwen2.5-1.5b", 8, 2048),
    ("llama-3-8b", 1, 2048),
    ("llama-3-8b", 8, 4096),
    ("mistral-7b-v0.3", 4, 2048),
    ("gemma-2-9b", 2, 2048),
    ("olmoe-1b-7b-0924", 4, 2048),
)
"""Model, sequences, and tokens of a prompt."""
MADE = 16


def generated(model: str, batch: int, prompt: int) -> dict[str, Any]:
    """The peak of reading the prompts, and of making tokens; what the cache takes, and seconds."""
    torch.cuda.empty_cache()
    config = load_config(model)
    built: Any = prepared(Setting(model, "bf16", "sdpa", batch, prompt), config, "cuda")[0].eval()
    ids = torch.randint(0, config["vocab_size"], (batch, prompt), device="cuda")
    weights = torch.cuda.memory_allocated() - 8 * ids.numel()
    out: Any = None
    for _ in range(2):  # the first chooses kernels
        del out
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = perf_counter()
        out = built(input_ids=ids, use_cache=True, logits_to_keep=1)
        torch.cuda.synchronize()
        prefill = perf_counter() - before
        peak = torch.cuda.max_memory_allocated()
    steps, cache = [], out.past_key_values
    torch.cuda.reset_peak_memory_stats()
    for _ in range(MADE):
        before = perf_counter()
        out = built(input_ids=out.logits[:, -1:].argmax(-1), past_key_values=cache, use_cache=True, logits_to_keep=1)
        torch.cuda.synchronize()
        steps.append(perf_counter() - before)
    return {
        "model": model,
        "batch": batch,
        "prompt": prompt,
        "made": MADE,
        "weights": weights,
        "prefill_peak": peak,
        "decode_peak": torch.cuda.max_memory_allocated(),
        "prefill_seconds": prefill,
        "decode_seconds": median(steps),
    }


def main(arguments: Sequence[str]) -> int:
    """Always 0."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.cuda.serving", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="a file to write to")
    given = parser.parse_args(arguments)
    where = asdict(machine())
    with torch.no_grad(), given.output.open("w", encoding="utf-8") as written:
        for run in RUNS:
            written.write(json.dumps({**where, **generated(*run)}) + "\n")
            written.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
