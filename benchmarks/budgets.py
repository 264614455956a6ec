"""44 budgets over 10 models as a whole process, as a ratio to a typer hello-world in the same run.

``python -m benchmarks.budgets [ROUNDS]``. Each model has a budget for its parameters, for its FLOPs per token, for the
peak of a LoRA step and for its KV cache; four more budgets hold for other numbers of the same answers. The two programs
are run in turn, so that a machine that slows down slows both. Promised: under 1 s on an idle machine, and at most 8
times the hello-world.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.start_up import ENVIRONMENT, HELLO

PRESETS = (
    "llama-3-8b",
    "llama-3-70b",
    "mistral-7b-v0.1",
    "mixtral-8x7b",
    "qwen2.5-7b",
    "qwen3-8b",
    "gemma-2-9b",
    "phi-3-mini-4k-instruct",
    "gpt2",
    "olmo-2-1124-7b",
)
SCENARIOS = """
[scenarios.tune]
train = true
seq = "4k"
lora = 16
gradient_checkpointing = true

[scenarios.serve]
serve = true
context = "4k"
"""
EACH = (
    ("", "params.total_params"),
    ("", "flops.flops_per_token"),
    ("tune", "memory.peak_bytes"),
    ("serve", "memory.kv_cache_bytes"),
)
MORE = (
    ("", "params.embedding_params"),
    ("", "flops.forward_flops"),
    ("tune", "memory.optimizer_bytes"),
    ("serve", "memory.weights_bytes"),
)


def file() -> str:
    """44 budgets over 10 models."""
    models = [f'[models."{name}"]\npreset = "{name}"\n' for name in PRESETS]
    budgets = [(name, *each) for name in PRESETS for each in EACH] + [(PRESETS[0], *each) for each in MORE]
    return "\n".join(["version = 1", *models, SCENARIOS, *(_budget(*one) for one in budgets)])


def _budget(model: str, scenario: str, metric: str) -> str:
    run = f'scenario = "{scenario}"\n' if scenario else ""
    return f'[[budget]]\nmodel = "{model}"\n{run}metric = "{metric}"\nmax = 1e30\n'


def seconds(command: list[str], folder: str) -> float:
    """Of one whole process."""
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main(rounds: int) -> None:
    """Print the median time and ratio."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "hello.py").write_text(HELLO, encoding="utf-8")
        Path(folder, "tfcalc.toml").write_text(file(), encoding="utf-8")
        ours, hello = [sys.executable, "-m", "tfcalc", "budget"], [sys.executable, "hello.py"]
        seconds(ours, folder)  # compiled files and caches are warm
        seconds(hello, folder)
        found = [(seconds(ours, folder), seconds(hello, folder)) for _ in range(rounds)]
    ratio = median(mine / its for mine, its in found)
    times = ", ".join(f"{1000 * median(each):.0f} ms" for each in zip(*found, strict=True))
    print(
        f"44 budgets over {len(PRESETS)} models, typer hello-world: {times}, median of {rounds}, {os.cpu_count()} cores"
    )
    print(f"tfcalc budget {ratio:.1f} times a typer hello-world")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
