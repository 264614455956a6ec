"""Other names of commands, of tasks and of questions, and the command line that each means."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise, takewhile

from tfcalc.cli.commands import COMMANDS, OVERVIEW

MEANT = {
    "budget": "check-budget budgets limits gate ci",
    OVERVIEW: "info show describe about summary glance inspect card model cost costs size sizes estimate estimates "
    "need needs requirement requirements quantize quantise quantization",
    "params": "param parameter parameters count",
    "flops": "flop macs mac compute",
    "flops --mfu": "mfu utilization utilisation",
    "memory": "mem memories vram ram gpu-memory weights footprint",
    "memory --train --timeline": "timeline",
    "fit": "fits finetune fine-tune finetuning fine-tuning tune tuning sft pretrain pretraining training can-i-train",
    "fit --lora": "lora peft",
    "fit --qlora": "qlora",
    "fit --fsdp": "fsdp",
    "fit --serve": "run canirun can-i-run host",
    "train": "hours days duration time",
    "serve": "serving infer inference vllm sglang tgi trtllm tensorrt-llm deploy generate generation throughput "
    "latency speed tps ttft tpot itl tokens-per-second roofline decode decoding prefill benchmark bench",
    "plan": "plans parallel parallelism parallelize layout layouts cluster shard sharding",
    "ranks": "rank",
    "compare": "vs versus side-by-side",
    "formula": "formulas formulae closed-form",
    "explain": "derive derivation breakdown",
    "explain kv": "kv kvcache kv-cache kv_cache cache",
    "explain activations": "activations activation",
    "explain gradients": "gradients gradient",
    "shapes": "tensors intermediates",
    "solve": "invert solver",
    "design": "shape designs scaling scale",
    "design --compute": "chinchilla optimal compute-optimal",
    "sweep": "grid scan",
    "plot": "chart graph draw plots",
    "quiz": "exercise exercises practice practise",
    "check": "grade",
    "verify": "validate",
    "models": "list ls search find presets preset",
    "gpus": "gpu card-list cards hardware accelerators accelerator devices prices price",
    "schema": "schemas json-schema",
    "--help": "docs doc tutorial manual guide usage commands examples example learn course",
    "--version": "version",
}
"""The words of a command line, and the first words that stand for them, where no model is in their place."""
ALIASES = {word: meant for meant, words in MEANT.items() for word in words.split()}
"""Command line by the word that stands for it."""
WITH_TOKENS = ("fit", "cost", "costs", "price", "prices")
"""Words that ask about a run where the number of its tokens stands beside them: ``finetune MODEL --tokens 100M``."""
LISTS = {"model": "models", "card": "gpus"}
"""Words that ask for a list where nothing follows them."""
BETWEEN = ("vs", "vs.", "versus", "and")
"""Words between two models that are compared."""
ON_ALL = "all"
"""GPU by which a command asks about each common one."""


def meant(asked: Sequence[str]) -> list[str]:
    """Return the command line that is meant: the same, but for what others call a command, or type in its place.

    >>> meant(["finetune", "gpt2", "--gpu", "a100"]), meant(["qlora", "gpt2"]), meant(["chinchilla", "1e23"])
    (['fit', 'gpt2', '--gpu', 'a100'], ['fit', '--qlora', 'gpt2'], ['design', '--compute', '1e23'])
    >>> meant(["finetune", "gpt2", "--tokens", "1B"]), meant(["design", "3B"]), meant(["model", "gpt2"])
    (['train', 'gpt2', '--tokens', '1B'], ['design', '--params', '3B'], ['overview', 'gpt2'])
    """
    words = list(asked)
    if words and words[0] not in COMMANDS and words[0].lower() in ALIASES and not is_place(words[0]):
        words = [*_of_alias(words[0].lower(), words[1:]), *words[1:]]
    command, *rest = words or [""]
    match command:
        case "design" if rest and re.fullmatch(NUMBER, rest[0], re.ASCII | re.IGNORECASE):
            return [command, "--params", *rest]
        case "check" if len(rest) > 1 and re.fullmatch(PART, rest[1], re.ASCII) and not re.fullmatch(PART, rest[0]):
            return [command, rest[1], rest[0], *rest[2:]]
        case "models" if "--gpus" in rest:
            return ["gpus"]
        case "flops" if _is_run(rest):
            return ["train", *rest]
        case "memory" if _cards(rest):
            return ["fit", *rest]
    return words


PART = r"[A-Za-z][A-Za-z_-]+"
"""Name of a part of a model, and no formula."""
NUMBER = r"[\d.]+(?:[kmbt]|e\d+)?"
"""Number of parameters as it is typed."""


def _of_alias(word: str, rest: Sequence[str]) -> list[str]:
    if not rest and word in LISTS:
        return [LISTS[word]]
    command = ALIASES[word].split()
    about_run = any(option.startswith("--tokens") for option in rest)
    if about_run and (word in WITH_TOKENS or command[0] in WITH_TOKENS):
        return ["train", *command[1:]]
    return command


def compared(words: Sequence[str]) -> list[str] | None:
    """Return the command that compares models, where several names come first; None where one does.

    >>> compared(["gpt2", "vs", "gpt2-xl", "--seq", "64"]), compared(["gpt2", "--seq", "64"])
    (['compare', 'gpt2', 'gpt2-xl', '--seq', '64'], None)
    """
    first = list(takewhile(lambda word: not word.startswith("-"), words))
    names = [word for word in first if word.lower() not in BETWEEN]
    return ["compare", *names, *words[len(first) :]] if len(names) > 1 else None


def _values(words: Sequence[str]) -> dict[str, str]:
    """Options that have a value, written with a space or an equals sign."""
    apart = {one: value for one, value in pairwise(words) if one.startswith("--") and not value.startswith("--")}
    return apart | {option: value for option, sign, value in (word.partition("=") for word in words) if sign}


def _is_run(words: Sequence[str]) -> bool:
    """Return whether the hours or the price of a run are asked about, which train tells."""
    values = _values(words)
    share = re.fullmatch(r"[\d.]+%?", values.get("--mfu", ""), re.ASCII)
    tokens = "--tokens" in values
    return bool(share) or "--price" in values or (tokens and ("--step-time" in values or _cards(words)))


def _cards(words: Sequence[str]) -> bool:
    """Return whether several kinds of GPUs are named, or all: each has a line in fit's table."""
    named = _values(words).get("--gpu", "")
    return named.lower() == ON_ALL or "," in named


def is_place(word: str) -> bool:
    """Return whether a word is a file, or a folder with a config: that is the model of this name."""
    return os.path.isfile(word) or os.path.isfile(os.path.join(word, "config.json"))
