"""Two ways to one number: sweeps and single answers, solutions and the sizes around them, overviews and verdicts."""

from __future__ import annotations

import csv
import io
import json
import random
import shlex

from tools.fuzz.checks import look
from tools.fuzz.configs import PRESETS
from tools.fuzz.findings import FOUND
from tools.fuzz.program import Outcome, call

SIZES = {
    "--layers": (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 24, 31, 48),
    "--d-model": (64, 128, 256, 512, 1024, 1536),
    "--heads": (1, 2, 4, 8, 16),
    "--kv-heads": (1, 2, 4, 8),
    "--d-ff": (64, 100, 512, 4096),
    "--vocab-size": (7, 1000, 32000),
    "--encoder-layers": (1, 3, 5),
    "--decoder-layers": (1, 2, 7),
}
LENGTHS = {"--seq": (1, 7, 64, 129, 512, 1000), "--batch": (1, 2, 5)}
PHASES = ((), ("--train",), ("--phase", "decode"), ("--count", "all"), ("--attention", "causal"))


def _run(argv: list[str]) -> Outcome:
    outcome = call(argv)
    look(argv, outcome)
    return outcome


def swept(draw: random.Random) -> None:
    """Each row of a sweep is the single answer at its sizes; where there is none, the row has none."""
    preset, of = draw.choice(PRESETS), draw.choice(("params", "flops", "flops", "memory", "cache"))
    further: list[str] = list(draw.choice(PHASES)) if of == "flops" else []
    if of == "memory" and draw.random() < 0.5:
        further = ["--train", "--seq", "64"]
    known = {**SIZES, **LENGTHS} if of == "flops" else SIZES
    flag = draw.choice(("--layers", "--layers", draw.choice(list(known))))
    values = sorted(draw.sample(known[flag], min(len(known[flag]), draw.choice((2, 3, 3)))))
    line = ["sweep", preset, flag, ",".join(map(str, values)), "--of", of, *further, "--format", "csv"]
    outcome = _run(line)
    if not outcome.ok:
        return
    rows = list(csv.reader(io.StringIO(outcome.out.decode())))
    if of == "cache":
        single = ["memory", preset, "--serve", "--context", "64"]
        outcome = _run([*line[:-2], "--context", "64", "--format", "csv"])
        if not outcome.ok:
            return
        rows = list(csv.reader(io.StringIO(outcome.out.decode())))
    else:
        single = [of, preset]
    for value, row in zip(values, rows[1:], strict=False):
        alone = call([*single, flag, str(value), *further, *(("--json",) if of == "cache" else ("-q",))])
        text = alone.out.decode().strip()
        if of == "cache" and alone.ok:
            text = str(json.loads(text)["kv_cache_bytes"])
        if alone.code in (0, 1) and row[-1] != text:
            FOUND.bug("law-sweep", f"{of} over {flag}: {row[-1]}, and alone {text}", (line, value))
        FOUND.checked["law sweep"] += 1


def solved(draw: random.Random) -> None:
    """What ``solve`` finds holds with all that was typed, and the next size does not."""
    preset = draw.choice(PRESETS)
    flag = draw.choice(("--layers", "--layers", "--d-ff", "--vocab-size", "--d-model"))
    unknown = flag[2:].replace("-", "_")
    typed: list[str] = []
    for other in draw.sample([one for one in SIZES if one != flag], draw.choice((0, 1, 1, 2))):
        typed += [other, str(draw.choice(SIZES[other]))]
    least = draw.choice((10**6, 5 * 10**7, 10**8, 10**9, 7 * 10**9, 10**11))
    argv = ["solve", f"params <= {least}", "--for", unknown, "--model", preset, *typed]
    outcome = _run([*argv, "-q"])
    if not outcome.ok:
        return
    text = outcome.out.decode().strip()
    if not text.isdecimal():
        return
    value = int(text)
    FOUND.checked["law solve"] += 1
    at, beyond = (call(["params", preset, flag, str(size), *typed, "-q"]) for size in (value, value + 1))
    if (
        b"has no effect" in at.err
    ):  # a model of this size has no part that reads what was typed, as heads without attention
        return
    if not at.ok or int(at.out) > least:
        FOUND.bug("law-solve", "its value does not hold", (argv, value, at.out or at.err))
    if beyond.ok and int(beyond.out) <= least:
        FOUND.bug("law-solve", "the next value holds, too", (argv, value, beyond.out))


def cards(draw: random.Random) -> None:
    """The command of an overview's line takes the cards that the line names."""
    preset = draw.choice(PRESETS)
    argv = [preset]
    if draw.random() < 0.4:
        argv += ["--layers", str(draw.choice(SIZES["--layers"]))]
    outcome = _run([*argv, "--json"])
    if not outcome.ok:
        return
    found = json.loads(outcome.out)
    for name, command in (("serving", "serve"), *((f"finetune_{how}",) * 2 for how in ("full", "lora", "qlora"))):
        named = found[f"{name}_gpus"] or ()
        for card in dict.fromkeys((*named[:1], *(draw.sample(named, 1) if named else ()))):  # the tightest, and another
            line = [*shlex.split(found["commands"][command])[1:], "--gpu", card, "-q"]
            FOUND.checked["law cards"] += 1
            if (verdict := _run(line)).code != 0:
                FOUND.bug("law-cards", "an overview names a card that is refused", (shlex.join(line), verdict.code))
