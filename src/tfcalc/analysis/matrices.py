"""What people ask about the matrices of an answer: why there is one for all heads, what a bias or a table is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tfcalc.core.number import Num, divide
from tfcalc.report.explanation import Line


def note_of(name: str, together: int, sizes: Mapping[str, Num]) -> str:
    """The remark on a matrix of this name, where so many stand side by side; empty where there is none."""
    return _of_all_heads(sizes) if name == "W_Q" and together == 3 and "a" in sizes else NOTES.get(name, "")


def _of_all_heads(sizes: Mapping[str, Num]) -> str:
    """Why there is one matrix where people look for one per head."""
    heads = sizes["a"]
    width: Num = sizes.get("d", divide(sizes["h"], heads))
    return "" if heads == 1 else f"one matrix for all {heads} heads ({heads} × {width} = {heads * width})"


def by_head(lines: Iterable[Line], sizes: Mapping[str, Num]) -> Iterator[str]:
    """How many matrices there are where each head is written with its own, as in the paper's W_i^Q."""
    names = {name for line in lines for name in line.names}
    if "a" not in sizes or not names >= {"W_Q", "W_K", "W_V", "W_O"}:
        return
    heads, groups = sizes["a"], sizes.get("g", sizes["a"])
    width: Num = sizes.get("d", divide(sizes["h"], heads))
    many = f"3·{heads}" if groups == heads else f"{heads} + 2·{groups}"
    yield (
        f"per head W_Q is {heads} matrices of {sizes['h']} × {width}; "
        f"with those of W_K and W_V, and W_O: {many} + 1 = {heads + 2 * groups + 1} matrices"
    )


NOTES = {
    "W_O": "output projection",
    "γ": "scale",
    "β": "shift",
    "E": "one row per token id; a lookup costs no FLOPs",
    "P": "one row per position",
}
"""What people ask about a tensor."""
