"""The generated tables about memory: recipes, optimizers, formats of weights and of caches."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.component import Cost, Held
from tfcalc.core.measure import bytes_held
from tfcalc.core.notation import write
from tfcalc.core.traced import formula_of, traced
from tfcalc.serving.caches import FORMATS
from tfcalc.serving.weight_formats import PLAIN, QUANTIZED
from tfcalc.training.optimizers import OPTIMIZERS
from tfcalc.training.precisions import PRECISIONS
from tfcalc.training.sharding import StoredWeight

SIDE = 4096
"""Of the square matrix by which bits per weight are stated."""

HEAD = 128
"""Of the head by which a cache's bytes are stated."""


def recipes() -> Iterator[str]:
    """Bytes of each number, by precision."""
    yield "| `--precision` | weights | gradients | master | each moment | with AdamW | computed in |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for one in PRECISIONS.values():
        sizes = [bits // 8 for bits in (one.weights, one.gradients, one.master, one.moments)]
        cast = ", autocast" if one.autocast else ""
        yield f"| `{one.name}` | {' | '.join(map(str, sizes))} | {sum(sizes) + sizes[-1]} | {one.compute}{cast} |"


def optimizers() -> Iterator[str]:
    """The bytes that an optimizer keeps for an o × i matrix of fp32, and that its step needs beside."""
    yield "| `--optimizer` | states of an o × i matrix in fp32 | bytes | its step needs |"
    yield "| --- | --- | --- | --- |"
    shape = traced("o", SIDE), traced("i", SIDE)
    weight = StoredWeight("W", shape, (SIDE, SIDE), hidden=True, frozen=False)
    for one in OPTIMIZERS.values():
        kept, paged = one.state(weight, 32), one.paged(weight, 32) if one.paged else ()
        named = [*(f"{_called(item)} (paged)" for item in paged), *map(_called, kept)]
        names = ", ".join(named) or "nothing"
        size = write(formula_of(bytes_held.of(Cost(held=(*paged, *kept)))))
        scratch = [item.name for item in one.scratch(None, weight, 32)]
        step = "a copy of all weights" if one.copied(weight) else _of_one(scratch)
        yield f"| `{one.name}` | {names} | {size} | {step} |"


def _called(item: Held) -> str:
    return item.name.replace(" of W", "")


def _of_one(names: list[str]) -> str:
    return f"of one tensor after another: {', '.join(names)}" if names else "nothing"


def weight_formats() -> Iterator[str]:
    """True bits per weight of a large square matrix, scales among them."""
    yield f"| `--weights` | bits per weight of a {SIDE:,} × {SIDE:,} matrix | what is stored, by |"
    yield "| --- | --- | --- |"
    for one in (*PLAIN.values(), *QUANTIZED.values()):
        yield f"| `{one.name}` | {float(one.bits_per_weight(SIDE, SIDE)):.4g} | {one.source} |"


def cache_formats() -> Iterator[str]:
    """Bytes of a token's key or value of one head."""
    yield f"| `--kv` | bytes of {HEAD} numbers of a token and head |"
    yield "| --- | --- |"
    for one in FORMATS.values():
        if one.only is None:
            bits = sum(int(item.size) * item.bits for item in one.each.held("K", (), HEAD))  # type: ignore[call-overload]
            yield f"| `{one.name}` | {bits // 8} |"


TABLES = {"recipes": recipes, "optimizers": optimizers, "weights": weight_formats, "caches": cache_formats}
