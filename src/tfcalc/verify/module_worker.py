"""Count a person's own class, in a process of its own: ``python -c`` starts it, and it prints one JSON object.

Their file is executed: that is what they asked for by naming it. The process is not a sandbox. It has a time limit, no
GPU, nothing to read, and it refuses to open connections, so that a file that fetches a model or data says so instead.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from tfcalc.verify.data_flow import by_name
from tfcalc.verify.module_load import ModuleRefused, arguments, found, load, made

MOST_WITH_DATA = 300_000_000
"""Parameters of a module that is run with data, where it cannot be run without."""


def main() -> None:
    """Read the request from the command line; whatever the file prints goes to stderr."""
    request = json.loads(sys.argv[1])
    out = os.dup(1)
    os.dup2(2, 1)
    sys.argv = [request["file"]]
    sys.addaudithook(_without_network)
    warnings.simplefilter("ignore")
    answer = answered(request)
    with os.fdopen(out, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)


def answered(request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer about the class that the request names, or the reason why there is none."""
    try:
        return _examined(request)
    except ModuleRefused as refused:
        return {"refused": str(refused), "hint": refused.hint}


def _without_network(event: str, _: object) -> None:
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        raise PermissionError("no network access in tfcalc verify --module")


def _examined(request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer about the class that the request names. Raises ModuleRefused."""
    path = Path(request["file"])
    try:
        module = load(path)
    except ModuleRefused as refused:
        missing = refused.__cause__
        if isinstance(missing, ModuleNotFoundError) and missing.name == "torch":
            return {"torch": None}
        raise
    kind = found(module, request["class"], path)
    if not _is_module(kind):
        if request["of"] != "params":
            raise ModuleRefused(
                f"{kind.__name__} is no torch.nn.Module, so nothing of it runs", "ask for its parameters"
            )
        return _arrays(kind, request)
    from tfcalc.verify.module_run import ModuleFailed, counted

    given = arguments(kind, request["positional"], request["named"])
    last: ModuleFailed | None = None
    for device in ("meta", "cpu"):
        try:
            return counted(kind, request, given, device)
        except ModuleFailed as failed:
            last = failed
            if device == "meta" and failed.size > MOST_WITH_DATA:
                break
    assert last is not None
    raise ModuleRefused(str(last), last.hint) from None


def _is_module(kind: type) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(kind, torch.nn.Module)


def _arrays(kind: type, request: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays among the attributes of a class without torch, once it is made. Raises ModuleRefused if it has none."""
    one = made(kind, request["positional"], request["named"])
    arrays = dict(_attributes(one, "", set()))
    if not arrays:
        raise ModuleRefused(f"{kind.__name__} is no torch.nn.Module, and its attributes hold no arrays")
    return {
        "kind": "arrays",
        "class": kind.__name__,
        "arguments": arguments(kind, request["positional"], request["named"]),
        "parameters": [
            {
                "name": name,
                "shape": list(shape),
                "trained": True,
                "gradient": None,
                "uses": [{"role": role, "place": []}] if (role := by_name(name, len(shape))) else [],
                "used": None,
            }
            for name, shape in arrays.items()
        ],
        "buffers": [],
    }


def _attributes(value: object, name: str, seen: set[int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The floating-point arrays in an object, by the path to each, one of the same memory once."""
    if id(value) in seen:
        return
    seen.add(id(value))
    shape, kind = getattr(value, "shape", None), str(getattr(value, "dtype", ""))
    if isinstance(shape, tuple) and "float" in kind:
        yield name, tuple(int(size) for size in shape)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _attributes(inner, f"{name}.{key}".lstrip("."), seen)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _attributes(inner, f"{name}[{place}]", seen)
    elif hasattr(value, "__dict__") and not isinstance(value, type | ModuleType | FunctionType):
        yield from _attributes(vars(value), name, seen)
