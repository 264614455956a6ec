"""tfcalc's count of a model beside what a checkpoint's header says that it stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from tfcalc.core.component import Component
from tfcalc.core.measure import plain, shapes, tensors, tied
from tfcalc.errors import UsageError
from tfcalc.printable import QUOTED, shortened
from tfcalc.reader import reading
from tfcalc.report import exact
from tfcalc.verify import gguf, safetensors
from tfcalc.verify.safetensors import Shape
from tfcalc.verify.verification import VerifiedParams, side_by_side
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model

NOT_TRAINED = ("inv_freq", "position_ids", "attn.bias", "attention.bias", "masked.bias", "num_batches_tracked")
"""Ends of tensors that old files store although nothing trains them: angles, positions, causal masks."""

MOST_NAMES, MOST_IGNORED = 3, 20
MOST_PREFIXES = 16
"""Names of outermost modules in a file under which tensors of the model are looked for, the commonest ones."""
OTHERWISE = "tensors under other names"
Shapes = Mapping[str, "Counter[Shape]"]
"""Count of each shape under a plain name: one for every layer. Axes are sorted, as libraries differ in their order."""


def verify_checkpoint(model: Model, place: str) -> VerifiedParams:
    """Compare the model's tensors with the header of a .safetensors or .gguf file, or of a .safetensors index.

    Tensors are matched by name and shape, layers together. Those that the file names otherwise (experts one by one,
    say) are compared as one sum. Buffers, causal masks and tied copies in the file are left aside, and named.
    Raises BadCheckpoint for a file that cannot be read.
    """
    path = Path(place)
    root = model.tree(Workload())
    ours = {name: exact(size) for name, size in tensors(root).items()}
    extra = {*tensors(root, buffers=True), *tied(root)}
    stored, aside = _apart(_aligned(_stored(path), {*ours, *extra}), set(ours), extra)
    theirs, matched = _sizes(stored), set(ours) & set(stored)
    return VerifiedParams(
        heading=model.summary,
        compared=_compared(stored, matched),
        against=path.name,
        column="file",
        reference="tensors by name and shape, all layers together",
        rows=side_by_side(_gathered(ours, matched), _gathered(theirs, matched)),
        model=model.described(),
        differences=tuple(_other_shapes(root, stored, matched)) if matched else (_no_names(ours, stored),),
        notes=tuple(_ignored(_sizes(aside))),
    )


def _compared(stored: Shapes, matched: set[str]) -> str:
    """Numbers of tensors that were found by name, and that were not."""
    by_name = sum(found.total() for name, found in stored.items() if name in matched)
    others = sum(found.total() for name, found in stored.items() if name not in matched)
    return f"{by_name:,} tensors by name" + (f" and the sum of {others:,} others" if others else "")


def _ignored(sizes: Mapping[str, int]) -> Iterator[str]:
    for name, size in islice(sizes.items(), MOST_IGNORED):
        yield f"ignored in the file: {shortened(name, QUOTED)} ({size:,})"
    if len(sizes) > MOST_IGNORED:
        yield f"ignored in the file: {len(sizes) - MOST_IGNORED:,} more tensors"


def _no_names(ours: Iterable[str], stored: Iterable[str]) -> str:
    some = ([shortened(name, QUOTED) for name in islice(names, MOST_NAMES)] for names in (ours, stored))
    first, other = (", ".join(names) or "none" for names in some)
    return f"no tensor matches by name: the model has {first}; the file has {other}"


def _stored(path: Path) -> Shapes:
    """Tensors of the file, by plain name."""
    with reading(path, safetensors.BadCheckpoint):
        there = path.exists()
    if not there:
        raise safetensors.BadCheckpoint(f"file {str(path)!r} does not exist", "name a .safetensors or .gguf file")
    if path.suffix == ".gguf":
        named = [(gguf.NAMES.get(plain(name), plain(name)), shape) for name, shape in gguf.shapes(path).items()]
    elif path.suffix in (".safetensors", ".json"):
        named = [(plain(name), shape) for name, shape in safetensors.shapes(path).items()]
    else:
        raise UsageError(
            f"checkpoint {path.name!r} has an unknown format", "known: .safetensors, its .index.json, .gguf"
        )
    found: dict[str, Counter[Shape]] = {}
    for name, shape in named:
        if name not in found:
            found[name] = Counter()
        found[name][tuple(sorted(shape))] += 1
    return found


def _aligned(stored: Shapes, known: set[str]) -> Shapes:
    """The stored names as ours: with or without the base model's prefix, whichever fits more of them."""
    in_front = Counter(_outermost(name) for name in stored if name.partition(".")[2] in known)
    prefixes = {*map(_outermost, known), *(prefix for prefix, _ in in_front.most_common(MOST_PREFIXES))}
    spelled = known.union(*({prefix + name, name.removeprefix(prefix)} for prefix in prefixes for name in known))
    near = [name for name in spelled if name in stored]  # no other name can become one of ours
    ways: list[Callable[[str], str]] = [str]
    for prefix in sorted(prefixes):
        ways += [partial(_under, prefix), partial(_bare, prefix), partial(_under_if, known, prefix)]
    best = max(ways, key=lambda way: len(known & {way(name) for name in near}))
    found: dict[str, Counter[Shape]] = {}
    for name, shaped in stored.items():
        called = best(name)
        found[called] = found[called] + shaped if called in found else shaped
    return found


def _outermost(name: str) -> str:
    return name.partition(".")[0] + "."


def _under(prefix: str, name: str) -> str:
    return prefix + name


def _bare(prefix: str, name: str) -> str:
    return name.removeprefix(prefix)


def _under_if(known: set[str], prefix: str, name: str) -> str:
    return prefix + name if prefix + name in known else name


def _apart(stored: Shapes, ours: set[str], extra: set[str]) -> tuple[Shapes, Shapes]:
    """Tensors of the file that are the model's parameters, and others."""
    besides = {
        name: found
        for name, found in stored.items()
        if name not in ours and (name in extra or name.endswith(NOT_TRAINED))
    }
    return {name: found for name, found in stored.items() if name not in besides}, besides


def _other_shapes(root: Component, stored: Shapes, matched: set[str]) -> Iterable[str]:
    """Names whose tensors are of other shapes, though they may hold as many numbers together.

    Where the file holds more or fewer tensors, all of one size, it has fused or split them: the sum decides.
    """
    for name, expected in shapes(root).items():
        found = stored.get(name)
        if name not in matched or found is None or found == expected:
            continue
        regrouped = found.total() != expected.total() and len(set(map(prod, found))) == 1
        if not regrouped:
            yield f"{name}: {_listed(found)} in the file, {_listed(expected)} expected"


def _listed(found: Counter[Shape]) -> str:
    return ", ".join(f"{count} of {'×'.join(map(str, shape))}" for shape, count in sorted(found.items())[:3])


def _sizes(shaped: Shapes) -> dict[str, int]:
    return {name: sum(prod(shape) * count for shape, count in found.items()) for name, found in shaped.items()}


def _gathered(sizes: Mapping[str, int], matched: set[str]) -> dict[str, int]:
    """The matched tensors by name, all others as one."""
    sums: dict[str, int] = {}
    for name, size in sizes.items():
        called = name if name in matched else OTHERWISE
        sums[called] = sums.get(called, 0) + size
    return sums
