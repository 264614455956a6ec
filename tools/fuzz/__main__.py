"""The command line of the fuzzer: ``python -m tools.fuzz --n 20000 --seed 1``."""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable

from tools.fuzz.agreement import cards, solved, swept
from tools.fuzz.checkpoints import checkpoint
from tools.fuzz.conditions import conditions
from tools.fuzz.findings import FOUND
from tools.fuzz.formulas import formulas
from tools.fuzz.found_files import found_files
from tools.fuzz.gates import gate
from tools.fuzz.headers import headers
from tools.fuzz.in_schema import in_schema
from tools.fuzz.kinds import config, junk, raw, settings, valid
from tools.fuzz.large import large, long_values, long_words
from tools.fuzz.laws import laws
from tools.fuzz.library import configs, library
from tools.fuzz.limits import GROWTH, growth_bounded
from tools.fuzz.lists import lists
from tools.fuzz.names import names
from tools.fuzz.numbers import numbers
from tools.fuzz.odd_places import odd_places
from tools.fuzz.opened import opened
from tools.fuzz.options import options, substitutes
from tools.fuzz.outside_text import outside_text
from tools.fuzz.program import WATCH, WORK, Hang
from tools.fuzz.searches import searches
from tools.fuzz.streams import streams
from tools.fuzz.toml_files import budgets, limits, settings_table

Kind = Callable[[random.Random], None]

PROGRAM: dict[str, tuple[Kind, int]] = {
    "junk": (junk, 20),
    "config": (config, 14),
    "raw": (raw, 2),
    "valid": (valid, 3),
    "settings": (settings, 4),
    "library": (library, 3),
    "conditions": (conditions, 3),
    "checkpoint": (checkpoint, 2),
    "laws": (laws, 2),
    "gate": (gate, 3),
    "searches": (searches, 2),
}
"""Kinds of input for the whole program and for the library, and how often of a thousand each is drawn."""

PARSERS: dict[str, tuple[Kind, int]] = {
    "numbers": (numbers, 300),
    "options": (options, 120),
    "formulas": (formulas, 120),
    "headers": (headers, 100),
    "limits": (limits, 100),
    "tables": (settings_table, 80),
    "budgets": (budgets, 60),
    "substitutes": (substitutes, 40),
    "names": (names, 30),
    "configs": (configs, 20),
}
"""The same for single parsers, of which thousands of inputs a second are tried."""

ATTACKS: dict[str, tuple[Kind, int]] = {
    "found-files": (found_files, 120),
    "outside-text": (outside_text, 200),
    "lists": (lists, 200),
    "odd-places": (odd_places, 150),
    "streams": (streams, 80),
    "in-schema": (in_schema, 40),
    "swept": (swept, 25),
    "solved": (solved, 20),
    "cards": (cards, 5),
    "opened": (opened, 20),
    "long-values": (long_values, 120),
    "long-words": (long_words, 60),
    "large": (large, 2),
}
"""The same of what attackers try (found files, hostile text, odd places, large inputs) and of what should agree."""

KINDS = {**PROGRAM, **PARSERS, **ATTACKS}
GROUPS = {"program": PROGRAM, "parsers": PARSERS, "attacks": ATTACKS}

PROGRESS, MINUTE = 100_000, 60
"""Inputs, or seconds, after which it is told how far it is."""

MOST_MEMORY = 3 << 30
OURS = ("TFCALC_", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "HF_")


def fuzz(given: argparse.Namespace) -> None:
    """Try the inputs that were asked for, one after another."""
    kinds = [kind for name in given.kinds.split(",") for kind in GROUPS.get(name, [name])]
    drawn = [name for name in kinds for _ in range(KINDS[name][1])]
    numbers = range(given.start, given.start + given.n) if given.only is None else [given.only]
    for number in numbers:
        draw = random.Random(f"{given.seed}:{number}:{','.join(kinds)}")
        kind = draw.choice(drawn)
        FOUND.case = f"#{number} {kind}"
        FOUND.inputs += 1
        FOUND.kinds[kind] += 1
        try:
            with growth_bounded():
                KINDS[kind][0](draw)
        except Hang:
            FOUND.bug("hang", f"in the checks of {kind}", FOUND.case)
        except MemoryError:
            FOUND.bug("memory", f"{kind} asks for more than {GROWTH >> 20} MB", (FOUND.case, traceback.format_exc()))
        except Exception as error:
            FOUND.bug("fuzzer", f"{type(error).__name__} in the checks", (FOUND.case, traceback.format_exc()[-1500:]))
        if FOUND.inputs % PROGRESS == 0 or time.time() - FOUND.told > MINUTE:
            _progress(given.report)
        if given.minutes and time.time() - FOUND.started > 60 * given.minutes:
            print(f"stopped after {given.minutes} minutes", file=sys.stderr)
            break


def _progress(report: str) -> None:
    FOUND.told = time.time()
    if report:
        FOUND.write(report)
    seconds = time.time() - FOUND.started
    print(f"{FOUND.inputs} inputs, {len(FOUND.bugs)} kinds of bugs, {seconds:.0f} s", file=sys.stderr, flush=True)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description="Hostile inputs for the whole program.")
    parser.add_argument("--n", type=int, default=2000, help="inputs [default: 2000]")
    parser.add_argument("--seed", type=int, default=1, help="what they follow from [default: 1]")
    parser.add_argument("--start", type=int, default=0, help="the number of the first [default: 0]")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join([*GROUPS, *KINDS])} [default: all]")
    parser.add_argument("--only", type=int, help="the input of this number alone")
    parser.add_argument("--minutes", type=float, default=0, help="stop after so long")
    parser.add_argument("--patience", type=float, default=1, help="times that limits are multiplied by [default: 1]")
    parser.add_argument("--report", default="", help="write the report to this file")
    given = parser.parse_args()
    given.report = given.report and os.path.abspath(given.report)
    return given


def _ring(*_: object) -> None:
    raise Hang


def run() -> int:
    """Fuzz in a folder and a home of its own; 1 where a bug was found."""
    given = _asked()
    sys.dont_write_bytecode = True  # a module that is compiled while the program runs is no file that it writes
    for alarm in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(alarm, _ring)
    WATCH.patience = given.patience
    for name in [name for name in os.environ if name.startswith(OURS)]:
        del os.environ[name]
    for folder in ("settings/below", "checkpoints", "home", "cwd"):
        (WORK / folder).mkdir(parents=True, exist_ok=True)
    os.environ["HOME"] = str(WORK / "home")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    here = os.getcwd()
    os.chdir(WORK / "cwd")
    try:
        fuzz(given)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        os.chdir(here)
        shutil.rmtree(WORK, ignore_errors=True)
    if given.report:
        FOUND.write(given.report)
    print(FOUND.report())
    return 1 if FOUND.bugs else 0


if __name__ == "__main__":
    sys.exit(run())
