"""What a name in a condition means: a quantity, a part of the model, a term of memory, or a size."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from tfcalc.analysis.targets import TARGETS, Finder, by_path, meant_by
from tfcalc.core.component import Node
from tfcalc.errors import UsageError, nearest
from tfcalc.printable import quoted

QUANTITIES = ("params", "flops", "memory", "active_params", "trainable_params")
"""What is counted, as a condition calls it."""
OTHER_NAMES = {
    "total_params": "params",
    "total_flops": "flops",
    "total_bytes": "memory",
    "peak_bytes": "memory",
    "peak": "memory",
    "bytes": "memory",
    "parameters": "params",
}
BYTES = "_bytes"
TERMS = ("weights", "gradients", "optimizer", "activations", "kv_cache")
"""Terms of memory that need not say so; any other does by the end of its key, BYTES."""
TOTAL = "total"
"""The whole model, in the quantity that was asked for."""

KINDS = {
    "attention": ("attention",),
    "mha": ("attention",),
    "ffn": ("ffn", "moe"),
    "mlp": ("ffn", "moe"),
    "norm": ("norm",),
    "norms": ("norm",),
    "ln": ("norm",),
    "moe": ("moe",),
    "router": ("router",),
    "experts": ("experts",),
    "layer": ("layer",),
    "layers": ("layer",),
    "embedding": ("embedding", "position"),
    "embeddings": ("embedding", "position"),
    "output": ("output",),
}
"""Parts by what they do: all that the model has of the kind, together."""


class Meant(NamedTuple):
    """A name of a condition: its ``quantity`` (one of QUANTITIES, or ``size``), and the ``part`` (empty: the whole)."""

    quantity: str
    part: str = ""


def meaning(name: str, of: str, sizes: Collection[str]) -> Meant:
    """What a name means where parts without a quantity are taken ``of`` this one, and these are the ``sizes``.

    >>> meaning("attention", "flops", ()), meaning("memory.weights", "flops", ())
    (Meant(quantity='flops', part='attention'), Meant(quantity='memory', part='weights'))
    >>> meaning("kv_cache", "flops", ())
    Meant(quantity='memory', part='kv_cache')
    """
    if name in sizes:
        return Meant("size", name)
    first, _, behind = name.partition(".")
    before, _, last = name.rpartition(".")
    for quantity, part in ((first, behind), (last, before)):
        known = OTHER_NAMES.get(quantity, quantity)
        if known in QUANTITIES:
            return Meant(known, "" if part == TOTAL else part)
    term = name.removesuffix(BYTES)
    if name.endswith(BYTES) or term in TERMS:
        return Meant("memory", term)
    return Meant(of, "" if name == TOTAL else name)


def parts(root: Node, name: str) -> list[Node]:
    """All parts of a model that a name means, none within another: by kind, by path or its end, or part.part.

    Raises UsageError with the nearest names, where there is none.
    """
    found = list(_parts(root, name)) if name else [root]
    if not found:
        found = list(_parts(root, meant_by(name)))
    if not found:
        kinds = {node.component.kind for node in root.walk()}
        known = [word for word, its in KINDS.items() if kinds & set(its)]
        paths = [node.path.partition(".")[2] for node in root.walk()]
        close = nearest(name, [*known, *QUANTITIES, TOTAL, *paths[1:]])
        here = f"known: {', '.join([*QUANTITIES[:3], TOTAL, *known])}, or a path that tfcalc params shows"
        raise UsageError(f"{quoted(name)} is no part of this model", close if "mean" in close else here)
    return found


def _parts(root: Node, name: str) -> Iterator[Node]:
    found = list(_topmost(root, _finder(name)))
    if found:
        yield from found
        return
    for place in range(len(name) - 1, 0, -1):
        if name[place] == ".":
            outer = [node for node in _topmost(root, _finder(name[:place])) if node is not root]
            inner = [part for node in outer for below in node.below() for part in _parts(below, name[place + 1 :])]
            if inner:
                yield from inner
                return


def _finder(name: str) -> Finder:
    if name in KINDS:
        return lambda node: node.component.kind in KINDS[name]
    if name == "self_attention":
        return TARGETS["mha"]
    if name in ("cross_attention", "cross-mha"):
        return TARGETS["cross-mha"]
    if name in ("encoder", "decoder"):
        return lambda node: name in (node.component.name, node.component.kind)
    return by_path(name)


def _topmost(node: Node, fits: Finder) -> Iterator[Node]:
    if fits(node):
        yield node
        return
    for below in node.below():
        yield from _topmost(below, fits)
