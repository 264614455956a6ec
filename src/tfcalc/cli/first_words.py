"""Words that people type first, and the command line that each means: other names of commands, tasks, and questions."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import takewhile

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
    if words[:1] == ["design"] and words[1:] and re.fullmatch(NUMBER, words[1], re.ASCII | re.IGNORECASE):
        words.insert(1, "--params")
    return _on_all(words)


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
    """Return the command that compares models, where several names stand first; None where one does.

    >>> compared(["gpt2", "vs", "gpt2-xl", "--seq", "64"]), compared(["gpt2", "--seq", "64"])
    (['compare', 'gpt2', 'gpt2-xl', '--seq', '64'], None)
    """
    first = list(takewhile(lambda word: not word.startswith("-"), words))
    names = [word for word in first if word.lower() not in BETWEEN]
    return ["compare", *names, *words[len(first) :]] if len(names) > 1 else None


def _on_all(words: list[str]) -> list[str]:
    """``memory … --gpu all`` is asked of each common GPU, as ``fit`` does; ``train`` does so by itself."""
    if words[:1] not in (["memory"], ["train"]):
        return words
    joined = f"--gpu={ON_ALL}"
    kept = [word for word in words if word.lower() != joined]
    for place, word in enumerate(kept[:-1]):
        if word == "--gpu" and kept[place + 1].lower() == ON_ALL:
            del kept[place : place + 2]
            break
    if len(kept) == len(words):
        return words
    return ["fit" if words[0] == "memory" else words[0], *kept[1:]]


def is_place(word: str) -> bool:
    """Return whether a word is a file, or a folder with a config: that is the model of this name."""
    return os.path.isfile(word) or os.path.isfile(os.path.join(word, "config.json"))
