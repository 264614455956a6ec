"""Logs of trainers as rows of :mod:`tfcalc.timing.measured_runs`: what they say of a step's time and of the run.

Megatron-LM, torchtitan, transformers' Trainer (trainer_state.json, or what it prints), nanotron, and Composer
(llm-foundry). A log is text: lines are matched, and nothing in them is evaluated, opened or run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import median
from typing import Any

from tfcalc.errors import BadFile
from tfcalc.files import whole_number
from tfcalc.named_tuple import NamedTuple
from tfcalc.timing.measured_runs import Row, rows_of

LARGEST_LOG = 1 << 26
"""Bytes of a log."""
LONGEST_LINE = 2_000
"""Characters of a line that are read."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
NUMBER = r"([\d.,]+(?:[eE][+-]?\d+)?)"
WORDS = {"K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
SURE = 0.01
"""Relative distance from a whole number within which a ratio of rounded figures is that number."""


class Log(NamedTuple):
    """Kind of a log: whose it is, what a line of a step looks like, and the row that lines make."""

    name: str
    step: re.Pattern[str]
    row: Callable[[list[str]], Row]


def rows_in(text: str, called: str) -> list[tuple[str, Row]]:
    """Return the rows of a file: one for a log, one for each line of JSON. Raises BadFile where it is neither."""
    if state := _trainer_state(text):
        return [(called, state)]
    first = next((line for line in text.splitlines() if line.strip()), "")
    if first.lstrip().startswith("{") and not first.lstrip().startswith("{'"):
        return rows_of(text, called)
    lines = [COLOURS.sub("", line[:LONGEST_LINE]) for line in text.splitlines()]
    counts = {log: sum(bool(log.step.search(line)) for line in lines) for log in LOGS}
    best = max(LOGS, key=lambda log: counts[log])
    if not counts[best]:
        known = ", ".join(log.name for log in LOGS)
        raise BadFile(f"{called} has no line with the time of a step", f"logs that are read: {known}; or rows of JSON")
    row = {name: value for name, value in best.row(lines).items() if value is not None}
    return [(called, row)]


# --- numbers of lines


def _plain(text: str) -> float | None:
    """``1,234.5``, ``2.5K``, ``None``; None where it is no number above 0."""
    text = text.strip().replace(",", "")
    factor = WORDS.get(text[-1:], 1.0)
    try:
        found = float(text[:-1] if factor != 1 else text) * factor
    except ValueError:
        return None
    return found if 0 < found < float("inf") else None


def _values(pattern: str, lines: Iterable[str]) -> Iterator[float]:
    """Yield the number that the pattern finds in each line that it matches."""
    compiled = re.compile(pattern)
    for line in lines:
        if (match := compiled.search(line)) and (value := _plain(match[1])) is not None:
            yield value


def _first(pattern: str, lines: Iterable[str]) -> float | None:
    return next(_values(pattern, lines), None)


def _count(value: float | None) -> int | None:
    """A whole number, where it is one."""
    return int(value) if value is not None and value == int(value) else None


def _ratio(above: float | None, below: float | None) -> int | None:
    """The whole number that is the ratio of two rounded figures, where it is certain."""
    if not above or not below:
        return None
    found = round(above / below)
    return found if found and found < 1 / (2 * SURE) and abs(above / below / found - 1) < SURE else None


def _usual(values: Iterable[float]) -> float | None:
    """The middle of the values but for the first, which is long: kernels are compiled, memory is allocated."""
    found = list(values)
    return median(found[1:] or found) if found else None


# --- Megatron-LM

ARGUMENT = re.compile(r"^\W*(?:\[[^\]]*\]:?\s*)?(\w+) \.{2,} (.*)$")


def _megatron(lines: list[str]) -> Row:
    """The arguments that it prints say the model and the layout; of a batch that grows, the last counts."""
    said = {match[1]: match[2].strip() for line in lines if (match := ARGUMENT.match(line))}

    def count(name: str) -> int | None:
        return _count(_plain(said.get(name, "")))

    def true(name: str) -> bool:
        return said.get(name) == "True"

    steps = [line for line in lines if MEGATRON.search(line)]
    batches = list(_values(rf"global batch size:\s*{NUMBER}", steps))
    if batches:
        steps = [line for line in steps if _first(rf"global batch size:\s*{NUMBER}", [line]) == batches[-1]]
    milliseconds = _usual(_values(rf"elapsed time per iteration \(ms\):\s*{NUMBER}", steps))
    granularity = said.get("recompute_granularity", "None")
    deepspeed = true("deepspeed")
    row: dict[str, Any] = {
        "step_time_s": None if milliseconds is None else milliseconds / 1000,
        "global_batch": _count(batches[-1]) if batches else count("global_batch_size"),
        "n_gpus": count("world_size"),
        "tp": count("tensor_model_parallel_size"),
        "pp": count("pipeline_model_parallel_size"),
        "vpp": count("virtual_pipeline_model_parallel_size"),
        "cp": count("context_parallel_size"),
        "ep": count("expert_model_parallel_size"),
        "etp": count("expert_tensor_parallel_size"),
        "micro_batch": count("micro_batch_size"),
        "seq": count("seq_length"),
        "recompute": granularity if granularity in ("full", "selective") else "none" if said else None,
        "arch": _megatron_model(said) if count("hidden_size") else None,
        "framework": "Megatron-DeepSpeed" if deepspeed else "Megatron-LM",
    }
    if said:
        row["precision"] = (
            "fp8" if said.get("fp8", "None") not in ("None", "False") else "fp16" if true("fp16") else "bf16"
        )
        row["sp"] = true("sequence_parallel")
        row["zero"] = 1 if deepspeed or true("use_distributed_optimizer") else 0
    return row


def _megatron_model(said: Mapping[str, str]) -> Row | None:
    """The model of its arguments, as ``arch``; None for one that these sizes do not describe."""

    def count(name: str) -> int | None:
        return _count(_plain(said.get(name, "")))

    def true(name: str) -> bool:
        return said.get(name) == "True"

    hidden, heads, layers = count("hidden_size"), count("num_attention_heads"), count("num_layers")
    vocabulary = count("padded_vocab_size") or count("vocab_size")
    if not (hidden and heads and layers and vocabulary) or true("multi_latent_attention"):
        return None
    experts = count("num_experts")
    if experts and count("moe_shared_expert_intermediate_size"):
        return None
    inner = count("ffn_hidden_size") or 4 * hidden
    return {
        "L": layers,
        "h": hidden,
        "a": heads,
        "g": (count("num_query_groups") or heads) if true("group_query_attention") else heads,
        "d": count("kv_channels") or hidden // heads,
        "f": inner,
        "V": vocabulary,
        "gated": true("swiglu"),
        "untied": true("untie_embeddings_and_output_weights"),
        "E": experts or 0,
        "k": count("moe_router_topk"),
        "fe": count("moe_ffn_hidden_size") or inner,
    }


# --- torchtitan

MESH = re.compile(r"\d-D device mesh with \[([^\]]*)\], \[([\d, ]*)\]")
TITAN_BATCH = (
    rf"local batch size {NUMBER}, global batch size",
    rf"global batch size {NUMBER}, (?:gradient accumulation steps \d+, )?sequence length",
    rf"sequence length {NUMBER},",
)


def _titan(lines: list[str]) -> Row:
    """Its ``tps`` are tokens per second of a GPU; its mesh says the layout."""
    mesh: dict[str, int] = {}
    for line in lines:
        if match := MESH.search(line):
            names = re.findall(r"\w+", match[1])
            mesh = dict(zip(names, map(int, re.findall(r"\d{1,9}", match[2])), strict=False))
            break
    gpus = 1
    for size in mesh.values():
        gpus *= size
    local, batch, length = (_count(_first(pattern, lines)) for pattern in TITAN_BATCH)
    row: dict[str, Any] = {
        "tokens_per_s_per_gpu": _usual(_values(rf"\b(?:tps|wps): *{NUMBER}", lines)),
        "micro_batch": local,
        "global_batch": batch,
        "seq": length,
        "stack": "fsdp",
        "framework": "torchtitan",
        "zero": 3,
    }
    if mesh:
        row |= {"n_gpus": gpus} | {name: mesh.get(name, 1) for name in ("tp", "pp", "cp")}
        if mesh.get("dp_replicate", 1) > 1:
            row["hsdp_shard"] = mesh.get("dp_shard", 1)
    return row


# --- transformers' Trainer

TRAINER_LINES = {
    "micro_batch": rf"Instantaneous batch size per device = {NUMBER}",
    "global_batch": rf"Total train batch size \(w\. parallel, distributed & accumulation\) = {NUMBER}",
}


def _trainer_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the figures of a whole run: samples and steps per second."""
    steps, samples = (_figure(entry.get(f"train_{name}_per_second")) for name in ("steps", "samples"))
    runtime, step = _figure(entry.get("train_runtime")), _figure(entry.get("step"))
    seconds = runtime / step if runtime and step else 1 / steps if steps else None
    return {"step_time_s": seconds, "global_batch": _whole_batch(samples, steps), "framework": "transformers Trainer"}


def _whole_batch(samples: float | None, steps: float | None) -> int | None:
    """The samples of a step, where three decimals of its rate say it."""
    if not samples or not steps:
        return None
    found = round(samples / steps)
    return found if found and abs(found * 0.0005 / steps) < 0.4 else None


def _figure(value: object) -> float | None:
    """A number of a log, which newer releases print as text."""
    if isinstance(value, str):
        return _plain(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _trainer_state(text: str) -> Row | None:
    """The row of a trainer_state.json; None where the text is another one."""
    if '"log_history"' not in text:
        return None
    try:
        found = json.loads(text, parse_int=whole_number)
        history = found["log_history"]
        entries = [entry for entry in history if isinstance(entry, dict)]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    last = next((entry for entry in reversed(entries) if "train_runtime" in entry), None)
    if last is None:
        return None
    row = _trainer_entry(last)
    batch = found.get("train_batch_size")
    if isinstance(batch, int) and batch > 0:
        row["micro_batch"] = batch
    row["stack"] = "fsdp"
    return {name: value for name, value in row.items() if value is not None}


def _trainer(lines: list[str]) -> Row:
    last = next(line for line in reversed(lines) if TRAINER.search(line))
    figures = dict(re.findall(r"['\"](train_\w+|step)['\"]: ['\"]?([\d.eE+-]+)", last))
    row = _trainer_entry(figures) | {"stack": "fsdp"}
    return row | {
        name: value for name, pattern in TRAINER_LINES.items() if (value := _count(_first(pattern, lines))) is not None
    }


# --- nanotron

NANOTRON_ARGUMENTS = {
    "dp": r"ParallelismArgs\(dp=(\d+)",
    "tp": r"\btp=(\d+),",
    "pp": r"\bpp=(\d+),",
    "cp": r"\bcontext_parallel_size=(\d+)",
    "ep": r"\bexpert_parallel_size=(\d+)",
    "seq": r"TokensArgs\(sequence_length=(\d+)",
    "micro_batch": r"\bmicro_batch_size=(\d+)",
    "hidden_size": r"\bhidden_size=(\d+)",
    "intermediate_size": r"\bintermediate_size=(\d+)",
    "num_hidden_layers": r"\bnum_hidden_layers=(\d+)",
    "num_attention_heads": r"\bnum_attention_heads=(\d+)",
    "num_key_value_heads": r"\bnum_key_value_heads=(\d+)",
    "vocab_size": r"\bvocab_size=(\d+)",
}


def _nanotron(lines: list[str]) -> Row:
    """Figures of three digits; the configuration that it prints says the model and the layout."""
    said = {name: _count(_first(pattern, lines)) for name, pattern in NANOTRON_ARGUMENTS.items()}
    steps = [line for line in lines if NANOTRON.search(line)]

    def usual(name: str) -> float | None:
        return _usual(_values(rf"\b{name}: ([\d.]+[KMBGT]?)", steps))

    milliseconds, rate, each = (
        usual(name) for name in (r"(?:elapsed_)?time_per_iteration_ms", "tokens_per_sec", "tokens_per_sec_per_gpu")
    )
    zero = [int(match[1]) for line in lines if (match := re.search(r"\bzero_stage=([0-3])\b", line))]
    row: dict[str, Any] = {
        "step_time_s": None if milliseconds is None else milliseconds / 1000,
        "global_batch": _count(usual("global_batch_size")),
        "n_gpus": _ratio(rate, each),
        "framework": "nanotron",
        **{name: said[name] for name in ("tp", "pp", "cp", "ep", "seq", "micro_batch")},
    }
    if said["dp"]:
        row["n_gpus"] = said["dp"] * (said["tp"] or 1) * (said["pp"] or 1) * (said["cp"] or 1)
    if zero:
        row["zero"] = zero[0]
    if (hidden := said["hidden_size"]) and (heads := said["num_attention_heads"]):
        sizes = {"L": "num_hidden_layers", "f": "intermediate_size", "V": "vocab_size"}
        row["arch"] = {
            **{letter: said[name] for letter, name in sizes.items()},
            "h": hidden,
            "a": heads,
            "g": said["num_key_value_heads"] or heads,
            "d": hidden // heads,
            "gated": True,
            "untied": not any("tie_word_embeddings=True" in line for line in lines),
            "E": 0,
        }
    return row


# --- Composer (llm-foundry)


def _composer(lines: list[str]) -> Row:
    """Its rates say the GPUs and the length, and where they have digits enough the batch."""

    def usual(name: str) -> float | None:
        return _usual(_values(rf"\bthroughput/{name}: *{NUMBER}", lines))

    tokens, samples, batches = (usual(f"{name}_per_sec") for name in ("tokens", "samples", "batches"))
    each = usual("device/tokens_per_sec")
    nodes, of_a_node = (
        _count(_first(rf"^\s*{name}: {NUMBER}\s*$", lines)) for name in ("num_nodes", "n_gpus_per_node")
    )
    length = round(tokens / samples) if tokens and samples else None
    certain = length and tokens and samples and abs(tokens / samples / length - 1) < SURE / 10 and length % 64 == 0
    batch = round(samples / batches) if samples and batches else None
    return {
        "tokens_per_s_per_gpu": each,
        "n_gpus": nodes * of_a_node if nodes and of_a_node else _ratio(tokens, each),
        "seq": _count(_first(rf"^\s*max_seq_len: {NUMBER}\s*$", lines)) or (length if certain else None),
        "global_batch": _count(_first(rf"^\s*global_train_batch_size: {NUMBER}\s*$", lines))
        or (batch if batch and batches and batch * 0.00005 / batches < 0.4 else None),
        "micro_batch": _count(_first(rf"device_train_microbatch_size: {NUMBER}", lines)),
        "stack": "fsdp",
        "framework": "Composer",
    }


MEGATRON = re.compile(r"iteration\s{1,20}\d+/\s{0,20}\d+ \|.*elapsed time per iteration \(ms\):")
TRAINER = re.compile(r"\{.{0,500}?['\"]train_runtime['\"]: ")
NANOTRON = re.compile(r"iteration: \d+ / \d+ \|.*time_per_iteration_ms: ")
LOGS = (
    Log("Megatron-LM", MEGATRON, _megatron),
    Log("torchtitan", re.compile(r"\bstep: *\d+ .*\b(?:tps|wps): *[\d,]+"), _titan),
    Log("transformers' Trainer", TRAINER, _trainer),
    Log("nanotron", NANOTRON, _nanotron),
    Log("llm-foundry", re.compile(r"\bthroughput/device/tokens_per_sec: *[\d.]+"), _composer),
)
