"""``tfcalc train`` of 40 presets on 10 GPUs in full, by LoRA and by QLoRA: each answers in a line, or refuses in one.

``python -m tests.laws.train_grid FILE`` asks all 1,200, adds each outcome to FILE as a line of JSON, and goes on where
it was stopped; then it prints how many of each kind there were, and what is neither.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from itertools import product
from pathlib import Path
from time import process_time
from typing import NamedTuple

from tfcalc.cli.main import main

PRESETS = (
    *("gpt2", "gpt-3-6.7b", "gpt-j-6b", "gpt-neox-20b", "pythia-1.4b", "opt-1.3b", "bloom-560m", "falcon-7b", "mpt-7b"),
    *("llama-3.2-1b", "llama-3-8b", "llama-3.1-70b", "llama-3.1-405b", "tinyllama-1.1b", "mistral-7b-v0.1", "yi-34b"),
    *("qwen2.5-0.5b", "qwen2.5-7b", "qwen2.5-72b", "qwen3-8b", "qwen3-30b-a3b", "gemma-2-9b", "gemma-3-4b-it"),
    *("phi-2", "phi-4", "olmo-2-1124-7b", "smollm2-1.7b", "starcoder2-3b", "stablelm-2-12b", "granite-3.0-2b-base"),
    *("mixtral-8x7b", "deepseek-v2-lite", "deepseek-v3", "gpt-oss-20b", "mamba-1.4b", "bert-base-uncased", "t5-base"),
    *("modernbert-base", "whisper-small", "vit-base-patch16-224"),
)
"""Decoders with all kinds of attention, mixtures, a recurrence, encoders, encoder-decoders, audio and images."""
CARDS = ("t4", "rtx-3090", "rtx-4090", "l40s", "a100-40", "a100-80", "h100", "h200", "b200", "mi300x")
"""GPUs with and without known rates and prices, of two vendors."""
MODES = {"full": (), "LoRA": ("--lora", "16"), "QLoRA": ("--lora", "16", "--base-weights", "nf4")}
ANSWER = re.compile(r"(FITS|FITS, TIGHTLY|MAY NOT FIT|DOES NOT FIT)\b.*: 100M tokens in \S+ \w+ \([^)]+ to [^)]+\)")
FLOOR = re.compile(r"(FITS|FITS, TIGHTLY|MAY NOT FIT|DOES NOT FIT)\b.*: 100M tokens in at least ")
NOTHING = re.compile(r"(FITS|FITS, TIGHTLY|MAY NOT FIT)\b.*; how long 100M tokens take is not known$")
TOO_LARGE = re.compile(r"DOES NOT FIT\b.*")


class Case(NamedTuple):
    """One of the 1,200 questions."""

    preset: str
    card: str
    mode: str

    @property
    def words(self) -> list[str]:
        """What is typed after ``tfcalc``."""
        return ["train", self.preset, *MODES[self.mode], "--tokens", "100M", "--gpu", self.card]


class Reply(NamedTuple):
    """What the program did: its exit code, and the texts on both streams."""

    code: int
    out: str
    err: str

    @property
    def first(self) -> str:
        """The line that answers, or refuses."""
        return next(iter((self.out or self.err).splitlines()), "")

    @property
    def kind(self) -> str:
        """``band``, ``floor``, ``unknown`` (fits, no time), ``too large``, ``refused``, or ``NEITHER``."""
        if self.code in (2, 3) and not self.out and self.err.startswith("tfcalc:") and self.err.count("\n") == 1:
            return "refused"
        if self.code not in (0, 1) or (self.code == 1) != self.first.startswith(("DOES NOT FIT", "MAY NOT FIT")):
            return "NEITHER"
        if ANSWER.match(self.first):
            return "band"
        if FLOOR.match(self.first) and "nothing is estimated" in self.out:
            return "floor"
        if NOTHING.match(self.first) and "nothing is estimated" in self.out:
            return "unknown"
        return "too large" if TOO_LARGE.match(self.first) and " tokens in " not in self.first else "NEITHER"


def every() -> Iterator[Case]:
    """Yield all 1,200."""
    for case in product(PRESETS, CARDS, MODES):
        yield Case(*case)


def drawn() -> Iterator[Case]:
    """Yield 120 of them: each preset in each mode, each GPU in each mode four times, no preset on a GPU twice."""
    for number, (preset, mode) in enumerate(product(PRESETS, MODES)):
        yield Case(preset, CARDS[number % len(CARDS)], mode)


def asked(case: Case) -> Reply:
    """Ask the program, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(case.words)
    return Reply(code, out.getvalue(), err.getvalue())


def run(file: Path) -> None:
    """Ask all that the file does not have yet, and count."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    known = {tuple(one["case"]): one for one in map(json.loads, lines)}
    with file.open("a", encoding="utf-8") as kept:
        for case in every():
            if case not in known:
                start = process_time()
                reply = asked(case)
                line = reply.first if reply.kind != "NEITHER" else reply.out + reply.err
                seconds = round(process_time() - start, 2)
                known[case] = {"case": case, "code": reply.code, "kind": reply.kind, "line": line, "seconds": seconds}
                kept.write(json.dumps(known[case]) + "\n")
                kept.flush()
    print(len(known), dict(Counter(one["kind"] for one in known.values())))
    for one in known.values():
        if one["kind"] == "NEITHER":
            print(one)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
