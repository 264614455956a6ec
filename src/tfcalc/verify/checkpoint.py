"""tfcalc's count of a model beside what a checkpoint's header says that it stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tfcalc.core.tensors import plain, tensors, tied
from tfcalc.errors import UsageError
from tfcalc.report import exact
from tfcalc.verify import gguf, safetensors
from tfcalc.verify.verification import Verification, side_by_side
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model

NOT_TRAINED = ("inv_freq", "position_ids", "attn.bias", "attention.bias", "masked.bias", "num_batches_tracked")
"""Ends of tensors that old files store although nothing trains them: angles, positions, causal masks."""

OTHERWISE = "tensors under other names"


def verify_checkpoint(model: Model, place: str) -> Verification:
    """Hold the model's tensors against the header of a .safetensors or .gguf file, or of a .safetensors index.

    Tensors go by their names, layers together. Those that the file names otherwise (experts one by one, say) are held
    against each other as one sum. Buffers, causal masks and tied copies in the file are left aside, and named. Raises
    BadCheckpoint for a file that cannot be read.
    """
    path = Path(place)
    stored = _sizes(path)
    root = model.tree(Workload())
    ours = {name: exact(size) for name, size in tensors(root).items()}
    extra = {*tensors(root, buffers=True), *tied(root)}
    theirs, aside = _apart(_aligned(stored, {*ours, *extra}), set(ours), extra)
    matched = set(ours) & set(theirs)
    notes = [f"left aside in the file: {name} ({size:,})" for name, size in aside.items()]
    return Verification(
        heading=model.summary,
        against=f"the header of {path.name}",
        column="file",
        reference="tensors by name, all layers together",
        rows=side_by_side(_gathered(ours, matched), _gathered(theirs, matched)),
        model=model.described(),
        notes=tuple(notes),
    )


def _sizes(path: Path) -> dict[str, int]:
    """By plain name."""
    if not path.is_file():
        raise safetensors.BadCheckpoint(f"file {str(path)[:200]!r} does not exist", "name a .safetensors or .gguf file")
    if path.suffix == ".gguf":
        found = gguf.sizes(path)
        named = ((gguf.NAMES.get(plain(name), plain(name)), size) for name, size in found.items())
    elif path.suffix in (".safetensors", ".json"):
        named = ((plain(name), size) for name, size in safetensors.sizes(path).items())
    else:
        raise UsageError(f"checkpoint {path.name!r} is of no known kind", "known: .safetensors, its .index.json, .gguf")
    return _summed(named)


def _summed(sizes: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, size in sizes:
        found[name] = found.get(name, 0) + size
    return found


def _aligned(stored: Mapping[str, int], known: set[str]) -> dict[str, int]:
    """The stored names as ours: with or without the base model's prefix, whichever fits more of them."""
    prefixes = {name.partition(".")[0] + "." for name in (*known, *stored)}
    ways = [dict(stored)]
    for prefix in sorted(prefixes):
        ways.append({prefix + name: size for name, size in stored.items()})
        ways.append({name.removeprefix(prefix): size for name, size in stored.items()})
        ways.append({prefix + name if prefix + name in known else name: size for name, size in stored.items()})
    return max(ways, key=lambda way: len(known & set(way)))


def _apart(stored: Mapping[str, int], ours: set[str], extra: set[str]) -> tuple[dict[str, int], dict[str, int]]:
    """What the file stores of the model's parameters, and what it stores besides."""
    besides = {
        name: size
        for name, size in stored.items()
        if name not in ours and (name in extra or name.endswith(NOT_TRAINED))
    }
    return {name: size for name, size in stored.items() if name not in besides}, besides


def _gathered(sizes: Mapping[str, int], matched: set[str]) -> dict[str, int]:
    """The matched tensors by name, all others as one."""
    return _summed((name if name in matched else OTHERWISE, size) for name, size in sizes.items())
