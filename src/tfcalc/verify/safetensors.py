"""The header of a .safetensors file, or of the files that an index names: names and shapes, never a tensor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tfcalc.reader import BadConfig, parse

LARGEST = 100_000_000
"""Bytes of a header, as the format itself bounds it."""

MOST_FILES = 2_000
Shape = tuple[int, ...]


class BadCheckpoint(BadConfig):
    """A checkpoint whose header cannot be read (exit 3)."""

    code = "bad-checkpoint"


def shapes(path: Path) -> dict[str, Shape]:
    """The shape of each tensor of a .safetensors file, or of those that an index names.

    Raises BadCheckpoint for a header that is cut off, claims more than there is, or holds anything but shapes.

    Source: the format's own description (8 bytes little-endian length, then JSON).
    """
    if path.suffix == ".json":
        return {name: shape for file in _files(path) for name, shape in _header(file).items()}
    return _header(path)


def _files(index: Path) -> list[Path]:
    with index.open("rb") as file:
        table = parse(file.read(LARGEST + 1)[:LARGEST], str(index)).get("weight_map")
    if not isinstance(table, dict) or not all(isinstance(name, str) for name in table.values()):
        raise BadCheckpoint(f"{index} has no weight_map", "an index maps each tensor to its file")
    names = sorted(set(table.values()))
    if len(names) > MOST_FILES or any(Path(name).name != name for name in names):
        raise BadCheckpoint(f"{index} names files that are not beside it", "an index names its neighbours")
    return [index.parent / name for name in names]


def _header(path: Path) -> dict[str, Shape]:
    try:
        with path.open("rb") as file:
            start = file.read(8)
            length, there = int.from_bytes(start, "little"), path.stat().st_size - 8
            if len(start) < 8:
                raise BadCheckpoint(f"{path} is cut off after {len(start)} bytes", "its first 8 are a length")
            if length > min(LARGEST, there):
                raise BadCheckpoint(
                    f"{path} claims a header of {length} bytes, and has {there}", "it is cut off, or no .safetensors"
                )
            raw = file.read(length)
    except OSError as error:
        raise BadCheckpoint(f"{path} cannot be read: {error.strerror}") from None
    try:
        table = json.loads(raw.decode())
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict):
        raise BadCheckpoint(f"the header of {path} is no JSON object", "it is no .safetensors file")
    return {name: _shape(path, name, entry) for name, entry in table.items() if name != "__metadata__"}


def _shape(path: Path, name: str, entry: Any) -> Shape:
    shape = entry.get("shape") if isinstance(entry, dict) else None
    whole = isinstance(shape, list) and all(isinstance(side, int) and side >= 0 for side in shape)
    if not whole:
        raise BadCheckpoint(f"{path}: tensor {name[:80]!r} has no shape", "the file is damaged")
    return tuple(shape)  # type: ignore[arg-type]  # a list, as was just seen
