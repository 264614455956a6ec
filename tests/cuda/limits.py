"""``python -m tests.cuda.limits CARD -o rows.jsonl``: the largest batch that is said to fit, and the first that is not.

Each is run on the first GPU, which is to be that card; a row says what tfcalc said, and whether it ran.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.cuda.record import here
from tests.cuda.settings import ALL_LINEAR, Setting
from tests.real_runs import answered

SETTINGS = (
    Setting("llama-3.2-1b", "bf16", "flash", seq=2048),
    Setting("qwen2.5-1.5b", "bf16", "flash", seq=4096, checkpointing=True),
    Setting("llama-3-8b", "bf16", "flash", seq=1024, checkpointing=True),
    Setting("gpt2-medium", "fp32", "eager", seq=1024),
    Setting("smollm2-1.7b", "bf16-mixed", "flash", seq=2048, checkpointing=True),
    Setting("llama-3-8b", "bf16", "flash", seq=2048, checkpointing=True, lora=16, targets=ALL_LINEAR, base="nf4-dq"),
)
"""What is run, with any batch."""
STATES = ("fits", "tight", "risky", "no")
"""From the surest to the least; each is said of a range of batches."""


@cache
def status(setting: Setting, card: str) -> str:
    """What is said of a run on this card."""
    answer, error = answered((*setting.arguments, "--gpu", card))
    assert not error, error
    return str(answer["status"])


def largest(setting: Setting, card: str, state: str) -> int:
    """The largest batch of which this state, or a surer one, is said; 0 where there is none."""
    sure = STATES[: STATES.index(state) + 1]
    few, many = 0, 1
    while status(replace(setting, batch=many), card) in sure:
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        inside = status(replace(setting, batch=middle), card) in sure
        few, many = (middle, many) if inside else (few, middle)
    return few


def near_the_limit(card: str) -> Iterator[Setting]:
    """Of each setting the largest batches that fit, tightly, with risk, and the first that does not."""
    for setting in SETTINGS:
        ends = {largest(setting, card, state) for state in STATES[:-1]}
        for batch in sorted({*ends, max(ends) + 1} - {0}):
            yield replace(setting, batch=batch)


def run(setting: Setting) -> str:
    """Whether three steps end, and their peak, as JSON."""
    from tests.cuda import training

    return json.dumps(training.ran(setting))


def asked(card: str) -> Iterator[dict[str, Any]]:
    """Each run near the limit, and what is said of it."""
    for setting in near_the_limit(card):
        said = status(setting, card)
        yield {"card": card, "said": said, "setting": asdict(setting), "arguments": setting.arguments}


def main(arguments: Sequence[str]) -> int:
    """0 if each run did what was said, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.limits", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("card", help="the name of the card, as for --gpu, or a file with --ask's rows")
    parser.add_argument("-o", "--output", type=Path, required=True, help="a file to write to")
    parser.add_argument("--ask", action="store_true", help="only ask tfcalc, which takes minutes, and run nothing")
    given = parser.parse_args(arguments)
    known = Path(given.card)
    rows = [json.loads(line) for line in known.read_text("utf-8").splitlines()] if known.exists() else asked(given.card)
    wrong = 0
    with given.output.open("w", encoding="utf-8") as written:
        for row in rows:
            if not given.ask:
                setting = Setting(**row["setting"])
                text, error = here(setting, run)
                row |= json.loads(text) if text else {"ran": False, "error": error}
                wrong += row["ran"] == (row["said"] == "no") and row["said"] in ("fits", "no")
                print(f"{setting.name}: {row['said']}, ran: {row['ran']}", file=sys.stderr, flush=True)
            written.write(json.dumps(row) + "\n")
            written.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
