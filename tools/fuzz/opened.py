"""What an answer shows, opened: each row by its name, its formula printed, and that formula handed in again."""

from __future__ import annotations

import json
import random

from tools.fuzz.checks import look
from tools.fuzz.configs import PRESETS
from tools.fuzz.findings import FOUND
from tools.fuzz.program import Outcome, call

TRAINED: dict[str, tuple[str, ...]] = {
    "--precision": ("bf16", "fp32", "fp16", "bf16-autocast", "bf16-master", "fp8"),
    "--optimizer": ("sgd", "adamw-8bit", "paged-adamw-8bit", "adafactor", "muon", "lion", "adamw-forloop"),
    "--checkpointing": ("none", "full", "selective", "selective-op", "every:2"),
    "--loss": ("fused", "checkpointed", "logits", "chunked"),
    "--offload": ("optimizer", "all"),
    "--zero": ("1", "2", "3"),
    "--gpus": ("2", "8"),
    "--tp": ("2",),
    "--lora": ("8",),
    "--qlora": ("8",),
    "--method": ("dpo", "grpo", "ppo"),
    "--backend": ("megatron", "megatron-2022"),
    "--attention-kernel": ("flash", "eager", "math", "efficient"),
    "--grad-accum": ("4",),
    "--loop": ("tutorial",),
    "--batch": ("2", "3"),
    "--fsdp": (),
    "--dora": (),
    "--optimizer-in-backward": (),
    "--offload-activations": (),
    "--gradient-as-bucket-view": (),
    "--no-dropout": (),
}
SERVED: dict[str, tuple[str, ...]] = {
    "--weights": ("nf4", "int8", "fp8", "bf16"),
    "--kv": ("fp8", "int8", "bf16"),
    "--cache": ("dynamic", "static", "paged"),
    "--concurrency": ("1", "7"),
    "--context": ("100", "2k"),
    "--tp": ("2",),
}
COUNTED: dict[str, tuple[str, ...]] = {
    "--count": ("all", "matmul"),
    "--attention": ("causal", "causal-half", "full"),
    "--phase": ("decode", "train", "forward"),
    "--checkpointing": ("full", "selective"),
    "--lora": ("8",),
    "--cached": ("77",),
    "--batch": ("2",),
    "--seq": ("9", "64"),
}
"""Options that a question takes, with values that make sense; whether they do together is for tfcalc to say."""
MOST = 4
"""Rows of an answer that are opened."""
WITHOUT_EFFECT = b"has no effect"
"""On a part alone, of what has one on the whole."""


def opened(draw: random.Random) -> None:
    """Each row that an answer has is known to ``explain`` and ``formula``, and to ``check`` by what these print."""
    model, of = draw.choice(PRESETS), draw.choice(("params", "flops", "memory", "memory", "memory"))
    asked: list[str] = []
    if of == "flops":
        asked = _drawn(draw, COUNTED)
    elif of == "memory":
        mode, known = draw.choice((("--train", TRAINED), ("--train", TRAINED), ("--serve", SERVED)))
        asked = [mode, *_drawn(draw, known)]
        asked += ["--seq", draw.choice(("64", "300"))] if mode == "--train" else []
    found = _ran([of, model, *asked, "--json", "--depth", "2"])
    if not found.ok:
        return
    parts = [part for part in json.loads(found.out)["components"] if part.get("bytes", 1) or of != "memory"]
    rows = [row for part in parts for row in (part, *part["parts"])]
    for row in draw.sample(rows, min(MOST, len(rows))):
        name = row["name"] if of == "memory" and row in parts else row["path"].partition(".")[2]
        behind = [model, "--of", of, *asked]
        FOUND.checked["opened rows"] += 1
        shown = _ran(["explain", name, *behind])
        if row in parts and shown.code == 2 and WITHOUT_EFFECT not in shown.err:
            FOUND.bug("opened", "a row that explain does not know", ([of, model, *asked], name, shown.err[:200]))
        printed = _ran(["formula", name, "--model", *behind, "-q"])
        if not printed.ok:
            continue
        graded = _ran(["check", name, printed.out.decode().strip(), *behind])
        if not graded.ok:
            FOUND.bug("opened", "check refuses what formula prints", ([of, model, *asked], name, graded.err[:200]))


def _drawn(draw: random.Random, known: dict[str, tuple[str, ...]]) -> list[str]:
    flags = draw.sample(list(known), draw.choice((0, 1, 1, 2, 2, 3, 4)))
    return [word for flag in flags for word in (flag, *(draw.sample(known[flag], 1) if known[flag] else ()))]


def _ran(argv: list[str]) -> Outcome:
    outcome = call(argv)
    look(argv, outcome)
    return outcome
