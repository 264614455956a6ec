"""The header of a .safetensors file, or of the files that an index names: names and shapes, never a tensor."""

from __future__ import annotations

import json
from math import prod
from os import SEEK_END
from pathlib import Path

from tfcalc.files import content, opened
from tfcalc.printable import quoted
from tfcalc.reader import BadConfig, reading

LARGEST = 50_000_000
"""Bytes of a header, or of an index. The format allows a header 100 million, which nobody writes: 280,000 tensors, as a
trillion parameters in experts of 4 bits have them in some 100 files, take 22 million in the index."""

MOST_TENSORS = 400_000
"""Limit of all files together."""

MARKS = {b"{": 1, b"[": 2, b",": 8}
"""Limits for each tensor's entry: Python makes an object for each of these marks, which is larger than its text."""

MOST_FILES = 2_000
MOST_ELEMENTS = 2**63
MOST_AXES = 8
LONGEST_NAME = 1_000
Shape = tuple[int, ...]


class BadCheckpoint(BadConfig):
    """A checkpoint whose header cannot be read (exit 3)."""

    code = "bad-checkpoint"


def shapes(path: Path) -> dict[str, Shape]:
    """The shape of each tensor of a .safetensors file, or of those that an index names.

    Raises BadCheckpoint for a header that is cut off, claims more than there is, or holds anything but shapes.

    Source: the format's own description (8 bytes little-endian length, then JSON).
    """
    if path.suffix != ".json":
        return _header(path, LARGEST)[0]
    found: dict[str, Shape] = {}
    left, tensors = LARGEST, MOST_TENSORS
    for file in _files(path):
        header, size = _header(file, left)
        left, tensors = left - size, tensors - len(header)
        if tensors < 0:
            raise _too_many(f"{path} leads to more")
        found.update(header)
    return found


def _files(index: Path) -> list[Path]:
    with reading(index, BadCheckpoint):
        raw = content(index, LARGEST)
    if len(raw) > LARGEST:
        raise BadCheckpoint(f"{index} has over {LARGEST:,} bytes", "give an index of fewer tensors")
    table = _table(raw, str(index)).get("weight_map")
    if not isinstance(table, dict) or not all(isinstance(name, str) for name in table.values()):
        raise BadCheckpoint(f"{index} has no weight_map", "an index maps each tensor to its file")
    names = sorted(set(table.values()))
    if len(names) > MOST_FILES:
        raise BadCheckpoint(f"{index} names {len(names):,} files", f"an index names at most {MOST_FILES:,}")
    if any(Path(name).name != name for name in names):
        raise BadCheckpoint(
            f"{index} names files that are not in its directory", "an index names files of its own directory"
        )
    return [index.parent / name for name in names]


def _header(path: Path, most: int) -> tuple[dict[str, Shape], int]:
    """Shapes in a header of at most ``limit`` bytes, and the bytes that it has."""
    with reading(path, BadCheckpoint), opened(path) as file:
        there = file.seek(0, SEEK_END) - 8
        file.seek(0)
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8:
            raise BadCheckpoint(f"{path} is truncated after {len(start)} bytes", "its first 8 are a length")
        if length > there:
            raise BadCheckpoint(
                f"{path} claims a header of {length} bytes, and has {there}",
                "it is truncated, or not a .safetensors file",
            )
        if length > most:
            fact = f"the header of {path} has {length:,} bytes"
            raise BadCheckpoint(fact, f"at most {LARGEST:,} are read, of all files together")
        table = _table(file.read(length), f"the header of {path}")
    return {name: _shape(path, name, entry) for name, entry in table.items() if name != "__metadata__"}, length


def _table(raw: bytes, called: str) -> dict[str, object]:
    """The JSON object in these bytes, which are looked at before Python makes objects of them. Raises BadCheckpoint."""
    if any(raw.count(mark) > most * MOST_TENSORS for mark, most in MARKS.items()):
        raise _too_many(f"{called} has more")
    try:
        table = json.loads(raw.decode("utf-8-sig"), object_hook=_of_tensor)
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict):
        raise BadCheckpoint(f"{called} is not a JSON object", "it is not a .safetensors file, or no index of any")
    return table


def _too_many(fact: str) -> BadCheckpoint:
    return BadCheckpoint(f"{fact} than {MOST_TENSORS:,} tensors need", "give a file with fewer")


def _of_tensor(entry: dict[str, object]) -> object:
    """The shape alone of a tensor's entry, which takes a tenth of the memory; anything else as it is."""
    shape = entry.get("shape")
    return tuple(shape) if isinstance(shape, list) else entry


def _shape(path: Path, name: str, shape: object) -> Shape:
    if not isinstance(shape, tuple) or not all(type(side) is int and side >= 0 for side in shape):
        raise BadCheckpoint(f"{path}: tensor {quoted(name)} has no shape", "the file is damaged")
    return checked(path, name, shape)


def checked(path: Path, name: str, shape: Shape) -> Shape:
    """The shape of a tensor that a file can hold. Raises BadCheckpoint for a larger one, or a longer name."""
    if len(name) > LONGEST_NAME:
        raise BadCheckpoint(f"{path}: a tensor's name has {len(name):,} characters", "the file is damaged")
    if len(shape) > MOST_AXES:
        raise BadCheckpoint(f"{path}: tensor {quoted(name)} claims {len(shape):,} axes", "the file is damaged")
    if max(shape, default=0) > MOST_ELEMENTS or prod(shape) > MOST_ELEMENTS:
        raise BadCheckpoint(f"{path}: tensor {quoted(name)} claims over 2^63 elements", "the file is damaged")
    return shape
