"""NVIDIA's AIConfigurator and tfcalc asked about the same published runs: error and time of both.

``python -m benchmarks.beside_aiconfigurator PYTHON [--every N] [--left-out FILE] [--answers FILE]``; PYTHON is
that of an environment of its own with ``pip install aiconfigurator==0.12.0`` (Apache-2.0; 120 MB with its tables),
which tfcalc neither needs nor imports. Every N-th run of tests/oracle/serving/runs.csv is asked, of engines, GPUs and
models that both know. Told is how many both answer, and of these the error of a token and of the first one, by kind;
CPU seconds of an answer, too.

AIConfigurator is asked as its ``estimate`` asks: version of its tables nearest to the run's (its latest where the run
has none), formats as the run has them, the cache's its own where that is unknown, requests of a copy as its batch.
tfcalc's rates were fitted to such runs. ``--left-out`` reads estimates by rates that were fitted without the run's
system (``python -m tools.fit_serving --left-out 14 --each FILE``): that is the even comparison. AIConfigurator's tables
are of operators; NVIDIA measures them, and publishes these runs to be compared with.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import mean, median
from typing import Any

SYSTEMS = {
    "A100-SXM-80": "a100_sxm",
    "H100-SXM": "h100_sxm",
    "H200-SXM": "h200_sxm",
    "B200-HGX": "b200_sxm",
    "B300-HGX": "b300_sxm",
    "GB200": "gb200",
}
"""Its names of GPUs."""
ENGINES = {"trtllm": "trtllm", "vllm": "vllm", "sglang": "sglang"}
MODELS = {
    "deepseek-r1": "deepseek-ai/DeepSeek-R1",
    "glm-5": "zai-org/GLM-5-FP8",
    "gpt-oss-120b": "openai/gpt-oss-120b",
    "kimi-k2.5": "moonshotai/Kimi-K2.5",
    "llama-3.1-8b": "meta-llama/Meta-Llama-3.1-8B",
    "llama-3.1-70b": "meta-llama/Meta-Llama-3.1-70B",
    "minimax-m2.5": "MiniMaxAI/MiniMax-M2.5",
    "qwen3-32b": "Qwen/Qwen3-32B",
    "qwen3-235b-a22b": "Qwen/Qwen3-235B-A22B",
    "qwen3.5-397b-a17b": "Qwen/Qwen3.5-397B-A17B",
}
"""Its models, whose configs are in its package; each runs in the formats of the row."""
FORMATS = {"bf16": "bfloat16", "fp16": "bfloat16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}
OWN = {("deepseek-r1", "fp8"), ("glm-5", "fp8"), ("minimax-m2.5", "fp8")}
"""Formats that are the checkpoint's own, in blocks, which it reads from the config."""
IN_BLOCKS = {("qwen3.5-397b-a17b", "fp8")}
"""Formats that are published in blocks, of models whose config there is in 16 bits."""
BATCHES = ("served", "static")


def question(row: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what to ask AIConfigurator about a row; None where it knows no such GPU, engine or model."""
    if row["mode"] not in BATCHES or row["suspect"] or not row["tpot_ms"]:
        return None
    if row["gpu"] not in SYSTEMS or row["engine"] not in ENGINES or row["model"] not in MODELS:
        return None
    tp, dp, ep = (int(row[name]) for name in ("tp", "dp", "ep"))
    found = {
        "model_path": MODELS[row["model"]],
        "system_name": SYSTEMS[row["gpu"]],
        "backend_name": ENGINES[row["engine"]],
        "mode": "static" if row["mode"] == "static" else "agg",
        "isl": int(row["input"]),
        "osl": int(row["output"]),
        "batch_size": max(1, -(-round(float(row["requests"])) // dp)),
        "tp_size": tp,
        "pp_size": int(row["pp"]),
        "attention_dp_size": dp,
        "moe_ep_size": ep,
        "moe_tp_size": tp * dp // ep,
    }
    blocks = (row["model"], row["weights"]) in IN_BLOCKS
    weights = "fp8_block" if blocks else FORMATS.get(row["weights"])
    if weights and (row["model"], row["weights"]) not in OWN:
        found |= {"gemm_quant_mode": weights, "moe_quant_mode": weights}
    if row["kv"] == "fp8":
        found["kvcache_quant_mode"] = "fp8"
    return {"id": row["id"], "version": row["version"], "asked": found}


# --- in the environment of AIConfigurator


def ask(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield its answers to questions of JSON, and the CPU seconds of each."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    from aiconfigurator.cli.api import cli_estimate  # type: ignore[import-not-found]

    for line in lines:
        one = json.loads(line)
        start = time.process_time()
        try:
            found = cli_estimate(**one["asked"], **version_of_tables(one))
            answer = {"ttft_ms": found.ttft, "tpot_ms": found.tpot}
        except (Exception, SystemExit) as error:  # whatever it raises is no answer
            answer = {"refused": f"{type(error).__name__}: {error}"[:200]}
        yield {"id": one["id"], **answer, "seconds": time.process_time() - start}


def version_of_tables(one: Mapping[str, Any]) -> dict[str, str]:
    """The version of its tables that is nearest to the run's; nothing, which is its latest, where none was said."""
    from aiconfigurator_core.sdk import perf_database  # type: ignore[import-not-found]

    asked = _numbers(one["version"])
    if not asked:
        return {}
    every = perf_database.get_supported_databases()[one["asked"]["system_name"]][one["asked"]["backend_name"]]

    def away(name: str) -> list[int]:
        return [abs(one - other) for one, other in zip(_numbers(name), asked, strict=False)]

    return {"backend_version": min(every, key=away)}


def _numbers(version: str) -> list[int]:
    """``[1, 0, 0]`` of ``1.0.0rc3``."""
    match = re.match(r"\d+(?:\.\d+){1,2}", version)
    return [int(part) for part in match[0].split(".")] if match else []


# --- in tfcalc's own


def answers_of(python: str, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return AIConfigurator's answers."""
    text = "".join(json.dumps(one) + "\n" for one in questions)
    told = subprocess.run(
        [python, __file__, python, "--ask"], input=text, capture_output=True, text=True, check=True
    ).stdout
    return [json.loads(line) for line in told.splitlines() if line.startswith("{")]


def compared(theirs: Mapping[str, Mapping[str, Any]], left_out: Mapping[str, Mapping[str, float]]) -> None:
    """Print the errors of both on rows that both answer, and the CPU seconds of an answer."""
    from tests import serving_runs

    errors: dict[tuple[str, str], list[tuple[float, ...]]] = defaultdict(list)
    seconds: list[float] = []
    for row in serving_runs.rows():
        other = theirs.get(row["id"])
        if other is None or "tpot_ms" not in other:
            continue
        start = time.process_time()
        run = serving_runs.run_of(row)
        if run is None or not run.linked or not run.runs_known:
            continue
        for name, first in (("tpot_ms", False), ("ttft_ms", True)):
            measured = float(row[name]) if row[name] else 0.0
            ours = 1000 * run.guess(first=first).value
            unseen = left_out.get(row["id"], {}).get(name, float("nan"))
            if measured and other[name]:
                off = tuple(abs(each / measured - 1) for each in (other[name], ours, unseen))
                kind = "experts" if run.model.token.routings else "dense"
                for key in (row["mode"] + " " + kind, row["source"], "all"):
                    errors[name, key].append(off)
        seconds.append(time.process_time() - start)
    print(f"{'':38}{'AIConfigurator':>20}{'tfcalc':>20}{'its system unseen':>20}{'nearer':>8}")
    for (name, key), each in sorted(errors.items()):
        columns = ""
        for place in range(3):
            known = [one[place] for one in each if one[place] == one[place]]
            columns += f"{median(known):12.1%}{mean(known):8.1%}" if known else f"{'':20}"
        nearer = sum(one[2 if one[2] == one[2] else 1] < one[0] for one in each)
        print(f"{name:8} {key:22} n={len(each):4}{columns}{nearer / len(each):8.0%}")
    print(f"CPU seconds of an answer: tfcalc {median(seconds):.3f}")


def main() -> None:
    """Ask, or compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("python", help="the Python of the environment with AIConfigurator")
    parser.add_argument("--every", type=int, default=5, help="of this many rows one is asked")
    parser.add_argument("--left-out", type=Path, help="estimates by rates that were fitted without the run's system")
    parser.add_argument("--answers", type=Path, help="keep AIConfigurator's answers in this file, and read them again")
    parser.add_argument("--ask", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ask:
        for answer in ask(sys.stdin):
            print(json.dumps(answer), flush=True)
        return
    if given.answers and given.answers.exists():
        answers = [json.loads(line) for line in given.answers.read_text(encoding="utf-8").splitlines()]
    else:
        from tests import serving_runs

        questions = [one for row in serving_runs.rows() if (one := question(row))][:: given.every]
        answers = answers_of(given.python, questions)
        if given.answers:
            given.answers.write_text("".join(json.dumps(one) + "\n" for one in answers), encoding="utf-8")
    refused = [one["refused"] for one in answers if "refused" in one]
    print(f"AIConfigurator answers {len(answers) - len(refused)} of {len(answers)}")
    reasons: dict[str, int] = defaultdict(int)
    for one in refused:
        reasons[one[:90]] += 1
    for reason, number in sorted(reasons.items(), key=lambda pair: -pair[1])[:8]:
        print(f"  {number:4} {reason}")
    print(f"CPU seconds of an answer: AIConfigurator {median(one['seconds'] for one in answers):.3f}")
    left_out = {}
    if given.left_out:
        for line in given.left_out.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            left_out[one["id"]] = one
    compared({one["id"]: one for one in answers}, left_out)


if __name__ == "__main__":
    main()
