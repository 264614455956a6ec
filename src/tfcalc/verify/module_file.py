"""A person's own class: what it is asked with, and the process that examines it."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfcalc.errors import TfcalcError, Unavailable, UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted

SECONDS = 120
"""Time limit of loading the file, making its class and two passes."""
START = (
    "import sys; sys.path.insert(0, sys.argv.pop()); import tfcalc; del sys.path[0]; "
    "from tfcalc.verify.module_worker import main; main()"
)
"""Command that finds this tfcalc first, and then takes it off the path; -P leaves the current folder out."""
ALONE = {
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "MPLBACKEND": "agg",
    "PYTHONDONTWRITEBYTECODE": "1",  # nothing is written beside their file
}
WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "none": None}
KINDS = {"": "float", "ids": "ids", "mask": "mask"}
SHAPE = re.compile(r"([0-9]{1,18}(?:[x×][0-9]{1,18})*)(?::(\w+))?")
"""Sizes that 64 bits hold, and what they are sizes of."""
LARGEST, LONGEST = 1e30, 64
"""Limits of numbers and of their characters, as everywhere on the command line."""

Value = bool | int | float | str | None


class BadModule(TfcalcError):
    """A file or a class that cannot be loaded, or a forward pass that raises (exit 3)."""

    code = "bad-module"
    exit_code = 3


class Arguments(NamedTuple):
    """Arguments of the constructor: ``512,8,dropout=0.1``."""

    positional: tuple[Value, ...] = ()
    named: Mapping[str, Value] = {}


def read_arguments(text: str) -> Arguments:
    """Parse ``--args``. Raises UsageError.

    >>> read_arguments("512, 8, bias=false, activation=gelu")
    Arguments(positional=(512, 8), named={'bias': False, 'activation': 'gelu'})
    """
    positional: list[Value] = []
    named: dict[str, Value] = {}
    for part in text.split(",") if text.strip() else []:
        name, equals, value = part.partition("=")
        if not (value if equals else part).strip() or (equals and not name.strip().isidentifier()):
            raise UsageError(f"--args {quoted(text)} is not a list of values", "write 512,8 or d_model=512,heads=8")
        if equals:
            named[name.strip()] = _value(value)
        elif named:
            raise UsageError(f"--args {quoted(text)}: {quoted(part)} follows a named value", "name it too")
        else:
            positional.append(_value(part))
    return Arguments(tuple(positional), named)


def _value(text: str) -> Value:
    text = text.strip()
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        number = float(text)
    except ValueError:
        return text.strip("'\"")
    if not -LARGEST < number < LARGEST or len(text) > LONGEST:
        raise UsageError(f"--args {quoted(text)} is no number below 1e30", "write another, or text in quotes: 'nan'")
    return int(text) if re.fullmatch(r"[+-]?\d[\d_]*", text) else number


def read_inputs(text: str) -> list[tuple[list[int], str]]:
    """Parse ``--inputs``: a shape and a kind for each argument of forward. Raises UsageError.

    >>> read_inputs("2x5x512,2x7:ids,none")
    [([2, 5, 512], 'float'), ([2, 7], 'ids'), ([], 'none')]
    """
    found: list[tuple[list[int], str]] = []
    for part in text.split(","):
        word = part.strip().lower()
        shaped = SHAPE.fullmatch(word)
        kind = KINDS.get((shaped[2] or "") if shaped else "?")
        if word == "none":
            found.append(([], "none"))
        elif shaped is None or kind is None:
            raise UsageError(
                f"--inputs {quoted(text)}: {quoted(part)} is no input", "write 2x5x512, 2x5:ids, 5x5:mask or none"
            )
        else:
            found.append(([int(size) for size in re.split("[x×]", shaped[1])], kind))
    return found


def split_place(place: str) -> tuple[Path, str]:
    """``file.py:Class`` as both; the class may be left out. Raises UsageError for what names no Python file."""
    file, colon, name = place.rpartition(":")
    if not colon or not name.isidentifier():
        file, name = place, ""
    path = Path(file)
    if path.suffix != ".py":
        raise UsageError(f"--module {quoted(place)} names no Python file", "write --module file.py:Class")
    try:
        there = stat.S_ISREG(path.stat().st_mode)
    except PermissionError as error:
        raise BadModule(f"{quoted(file)} cannot be read: {error.strerror}", "write --module file.py:Class") from None
    except (OSError, ValueError):
        there = False
    if not there:
        raise BadModule(f"file {quoted(file)} does not exist", "write --module file.py:Class")
    return path.resolve(), name


def examined(
    place: str,
    given: Arguments,
    inputs: Sequence[tuple[list[int], str]] | None,
    *,
    batch: int,
    seq: int,
    width: int | None = None,
    of: str = "params",
) -> dict[str, Any]:
    """Answer of the process about the class (see :func:`tfcalc.verify.module_worker.answered`).

    With its FLOPs or the memory of a step (``of``) only a torch.nn.Module is answered for.

    Raises BadModule with its message where it cannot be loaded or run, Unavailable without PyTorch.
    """
    path, name = split_place(place)
    request = {
        "file": str(path),
        "class": name,
        "positional": given.positional,
        "named": given.named,
        "inputs": inputs,
        "batch": batch,
        "seq": seq,
        "width": width,
        "of": of,
    }
    answer = asked(request)
    if "refused" in answer:
        raise BadModule(answer["refused"], answer["hint"])
    if answer.get("torch", "") is None:
        raise Unavailable("PyTorch is not installed", "pip install 'tfcalc[verify]'")
    return answer


def asked(request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer of a process of its own. Raises BadModule where it takes too long, or has no answer."""
    root, file = str(Path(__file__).parents[2]), Path(request["file"]).name
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", START, json.dumps(request), root],
        env={**os.environ, **ALONE},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # what they start ends with it
    )
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise BadModule(f"{file} did not end within {SECONDS} s", "choose smaller --args or --inputs") from None
    finally:
        _end(process)
    try:
        answer: dict[str, Any] = json.loads(out)
    except ValueError:
        last = err.decode(errors="replace").strip().splitlines()[-1:] or ["without a message"]
        raise BadModule(f"{file} ended the process (exit code {process.returncode}): {last[0]}") from None
    return answer


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process, and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (OSError, AttributeError):  # it has ended; or a system without groups of processes
        process.kill()
    process.communicate()
