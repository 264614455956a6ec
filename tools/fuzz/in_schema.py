"""Answers in JSON against their schemas, and whatever ``explain`` says of their numbers."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, TypeChecker
from jsonschema.exceptions import best_match
from jsonschema.validators import extend

from tfcalc.cli.commands import COMMANDS
from tfcalc.schemas import schema
from tools.fuzz.checks import look, whole
from tools.fuzz.configs import PRESETS
from tools.fuzz.findings import FOUND
from tools.fuzz.program import call
from tools.fuzz.questions import random_options, sensible

OTHERS = (
    "overview {}",
    "compare {} gpt2",
    "diff {} gpt2",
    "solve params<=10B --for layers {}",
    "solve attention=ffn --for seq {}",
    "sweep {} --layers 1,2 --of params",
    "sweep {} --seq 64,128 --of flops",
    "shapes layer {}",
    "why 163M {}",
    "design --params 125M",
    "memory {} --train --gpu h100",
    "memory {} --serve --gpu h100 --context 1k",
    "flops {} --train --tokens 1B",
    "formula layer --model {} --sympy",
    "formula layer --model {} --latex",
    "params {} --lora 8",
    "memory {} --train --lora 8",
    "memory {} --train --timeline",
    "memory {} --train --method dpo --seq 128",
    "memory {} --train --method ppo --max-prompt-length 32 --max-completion-length 32",
    "memory {} --serve --tp 2 --ep 2 --context 1k",
    "memory {} --train --gpus 4 --fsdp --offload optimizer",
    "train {} --tokens 1B --gpu h100",
    "train {} --qlora --tokens 10M --gpu rtx-4090",
    "serve {} --gpu h100",
    "serve {} --gpu 2xl40s --concurrency 4 --context 2k",
    "ranks {} --tp 2 --dp 2",
    "fit {} --gpu rtx-4090",
    "plan {} --gpu 8xh100 --seq 1k",
)


def _is_exact(_: TypeChecker, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_TYPES = Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_exact)
_Exact = extend(Draft202012Validator, type_checker=_TYPES)  # type: ignore[no-untyped-call]  # jsonschema states no types


@cache
def _schema(name: str) -> Any:
    return _Exact(schema(name))


def in_schema(draw: random.Random) -> None:
    """A question's JSON and that of a number of it, opened."""
    stdin = b""
    if draw.random() < 0.5:
        argv, stdin = sensible(draw)
    else:
        argv = draw.choice(OTHERS).format(draw.choice(PRESETS)).split()
    if draw.random() < 0.3:
        argv += random_options(draw, argv[0], 1, 0.0)
        if any(word.startswith(("-o", "--output", "--update", "--base", "--install", "--show")) for word in argv):
            return
    if "--help" in argv or "-h" in argv or "-q" in argv or "--quiet" in argv or "--format" in " ".join(argv):
        return
    found = _asked([*argv, "--json"], stdin)
    if found is None or argv[0] not in COMMANDS:
        return
    numbers = [path for path in _numbers(found) if path[0] not in ("schema_version", "conventions", "model")]
    if not numbers or argv[0] in ("explain", "formula"):
        return
    path = ".".join((argv[0], *draw.choice(numbers)))
    _asked(["explain", path, *argv[1:], "--json"], stdin)


def _asked(argv: list[str], stdin: bytes) -> dict[str, Any] | None:
    """The answer, held against its schema; None where there is none."""
    outcome = call(argv, stdin=stdin)
    look(argv, outcome, stdin=stdin)
    if outcome.code not in (0, 1):
        return None
    try:
        found: dict[str, Any] = json.loads(outcome.out)
    except ValueError as error:
        FOUND.bug("json-invalid", f"{argv[0]}: {str(error)[:80]}", (argv, outcome.out[:200]))
        return None
    if argv[0] in ("params", "flops", "memory"):
        whole(outcome.out.decode(), argv, stdin)
    FOUND.checked["schema"] += 1
    wrong = best_match(_schema(found.get("command", "error")).iter_errors(found))
    if wrong is not None:
        place = ".".join(map(str, wrong.absolute_path))
        FOUND.bug("schema", f"{argv[0]} {argv[1].split('.')[0]}: {place}: {wrong.message[:120]}", (argv, stdin[:300]))
    return found


def _numbers(value: object, passed: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of all numbers."""
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [passed]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, one in inner for path in _numbers(one, (*passed, str(key)))]
