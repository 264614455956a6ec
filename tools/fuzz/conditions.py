"""Conditions that are solved: whatever stands in them, there is an answer or one line, soon."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import tfcalc
from tfcalc.errors import TfcalcError
from tools.fuzz.findings import FOUND
from tools.fuzz.limits import SEARCHES
from tools.fuzz.mutations import edited
from tools.fuzz.program import guarded

MODELS = (*[""] * 12, "gpt2", "llama-3-8b", "mixtral-8x7b", "t5-small", "mistral-7b-v0.1", "bert-base-uncased")
QUANTITIES = ("params", "flops", "memory", "active_params", "trainable_params", "total", "total_params")
PARTS = (
    "attention",
    "ffn",
    "norms",
    "embedding",
    "output",
    "layers",
    "encoder",
    "decoder",
    "decoder.ffn",
    "self_attention",
)
SIZES = ("d_model", "seq", "batch", "layers", "d_ff", "h", "l", "heads", "vocab")
NUMBERS = ("0", "1", "2", "1/2", "3", "7", "100", "1k", "125M", "1B", "80GiB", "24GB", "1e12", "0.3", "1e30", "4_096")
UNKNOWNS = (
    *("seq", "seq", "seq", "batch", "layers", "d_model", "d_ff", "heads", "vocab", "kv_heads", "h", "l", "context"),
    *("head_dim", "gpus", "tokens", "source_seq", "n", "x", "", "seq,seq"),
)
CONDITIONS = (
    *("attention = ffn", "params = 125M", "memory <= 80GiB", "attention / total = 1/2", "1B <= params < 2B"),
    *(
        "ffn <= 2 * attention",
        "flops < 1e15",
        "d_ff = 8 * d_model / 3",
        "params - embedding >= 10M",
        "min(params, flops) > 3",
    ),
    *("decoder.attention = decoder.ffn", "⌊params/7⌋ = 100k", "params^2 > flops", "1/params > 1/flops"),
)


def conditions(draw: random.Random) -> None:
    """A condition, some size to solve it for, and some model."""
    text, name = _condition(draw), draw.choice(MODELS)
    unknown = draw.choice(UNKNOWNS)
    of = draw.choice((None, None, None, "params", "flops", "memory"))
    run = tfcalc.Workload(
        phase=draw.choice(("forward", "forward", "train")),
        seq_len=draw.choice((1, 64, 512)),
        attention=draw.choice(("full", "full", "causal")),
    )
    if "memory" in text or of == "memory":
        run = run.replaced(phase="forward")  # that of training has a kind of its own: it takes longer
    pattern = draw.choice(("dense", "dense", "sliding:7", "chunked:5", "sparse:4")) if not name else ""
    given = (text, unknown, name or pattern, of, run.phase)
    FOUND.case += f" {given}"
    state, found = guarded(
        lambda: tfcalc.solve(text, unknown, _model(name, pattern), run, of=of), "library solve", SEARCHES["solve"]
    )
    FOUND.exits[f"solve {state}"] += 1
    if state == "crash":
        FOUND.bug("uncaught-library", f"solve: {str(found).strip().splitlines()[-1]}", (given, found))
    elif state == "hang":
        FOUND.bug("hang", "solve", given)
    elif isinstance(found, TfcalcError):
        if "\n" in str(found) or len(str(found)) > LONGEST:
            FOUND.bug("error-lines", f"solve: {found}", given)
    elif state == "ok":
        _answered(found, given)


LONGEST = 900
"""Characters of an error with its hint."""


def _answered(found: Any, given: object) -> None:
    """Every row of an answer is what the condition says, and the answer can be shown."""
    for show in (found.to_dict, found.sheet):
        state, shown = guarded(show)
        if state == "crash":
            FOUND.bug("uncaught-library", f"solve.{show.__name__}", (given, shown))
    if (found.exit_code == 1) != (found.value is None and found.outcome != "always") or not found.rows:
        FOUND.bug("solve-answer", f"{found.outcome}: {found.value!r}", given)


@cache
def _preset(name: str) -> Any:
    return tfcalc.load(name)


def _model(name: str, pattern: str) -> Any:
    return _preset(name) if name else tfcalc.Transformer(pattern=pattern, vocab_size=1000)


def _condition(draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.6:
        return edited(draw, draw.choice(CONDITIONS), list(CONDITIONS))
    if kind < 0.7:
        return draw.choice(CONDITIONS)
    sides = [_side(draw, draw.choice((0, 0, 1, 1, 2))) for _ in range(2 if kind < 0.95 else 3)]
    return "".join(
        side + (f" {draw.choice(('=', '<=', '>=', '<', '>'))} " if place < len(sides) - 1 else "")
        for place, side in enumerate(sides)
    )


def _side(draw: random.Random, depth: int) -> str:
    if depth == 0:
        kind = draw.random()
        if kind < 0.4:
            return draw.choice(NUMBERS)
        if kind < 0.5:
            return draw.choice(SIZES)
        if kind < 0.75:
            return draw.choice(QUANTITIES)
        part = draw.choice(PARTS)
        return draw.choice((part, f"{part}.{draw.choice(QUANTITIES)}", f"{draw.choice(QUANTITIES)}.{part}"))
    one, other = _side(draw, depth - 1), _side(draw, depth - 1)
    return draw.choice(
        (
            f"{one} + {other}",
            f"{one} - {other}",
            f"{one} * {other}",
            f"{one} / ({other})",
            f"({one})^2",
            f"min({one}, {other})",
            f"⌊({one})/3⌋",
        )
    )
