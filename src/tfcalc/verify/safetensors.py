"""The header of a .safetensors file, or of the files that an index names: names and shapes, never a tensor."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

from tfcalc.plain_data import whole_number
from tfcalc.printable import quoted
from tfcalc.reader import BadConfig, parse, reading

LARGEST = 100_000_000
"""Bytes of a header, as the format itself bounds it."""

MOST_FILES = 2_000
MOST_ELEMENTS = 2**63
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
    with reading(index, BadCheckpoint), index.open("rb") as file:
        table = parse(file.read(LARGEST + 1)[:LARGEST], str(index)).get("weight_map")
    if not isinstance(table, dict) or not all(isinstance(name, str) for name in table.values()):
        raise BadCheckpoint(f"{index} has no weight_map", "an index maps each tensor to its file")
    names = sorted(set(table.values()))
    if len(names) > MOST_FILES or any(Path(name).name != name for name in names):
        raise BadCheckpoint(
            f"{index} names files that are not in its directory", "an index names files of its own directory"
        )
    return [index.parent / name for name in names]


def _header(path: Path) -> dict[str, Shape]:
    with reading(path, BadCheckpoint), path.open("rb") as file:
        start = file.read(8)
        length, there = int.from_bytes(start, "little"), path.stat().st_size - 8
        if len(start) < 8:
            raise BadCheckpoint(f"{path} is truncated after {len(start)} bytes", "its first 8 are a length")
        if length > min(LARGEST, there):
            raise BadCheckpoint(
                f"{path} claims a header of {length} bytes, and has {there}",
                "it is truncated, or not a .safetensors file",
            )
        raw = file.read(length)
    try:
        table = json.loads(raw.decode(), parse_int=whole_number)
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict):
        raise BadCheckpoint(f"the header of {path} is not a JSON object", "it is not a .safetensors file")
    return {name: _shape(path, name, entry) for name, entry in table.items() if name != "__metadata__"}


def _shape(path: Path, name: str, entry: object) -> Shape:
    shape = entry.get("shape") if isinstance(entry, dict) else None
    if not isinstance(shape, list) or not all(type(side) is int and side >= 0 for side in shape):
        raise BadCheckpoint(f"{path}: tensor {quoted(name)} has no shape", "the file is damaged")
    return checked(path, name, tuple(shape))


def checked(path: Path, name: str, shape: Shape) -> Shape:
    """The shape of a tensor that a file can hold. Raises BadCheckpoint for a larger one."""
    if prod(shape) > MOST_ELEMENTS:
        raise BadCheckpoint(f"{path}: tensor {quoted(name)} claims over 2^63 elements", "the file is damaged")
    return shape
