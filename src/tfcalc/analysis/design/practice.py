"""Rules that practice favours in a shape, each with its source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log

from tfcalc.named_tuple import NamedTuple

Sizes = Mapping[str, int]
"""Sizes by tfcalc's names: ``d_model``, ``n_layers``, ``n_heads`` …"""

SLIM, WIDE = 30, 160
LEVINE = 5.039, 0.0555
"""ln(width) = a + b · depth, where one more layer stops to be worth more than more width."""
TILE = 64
PAIR = 2 * TILE


class Practice(NamedTuple):
    """A rule: its ``name``, in words, where it comes from, and whether a shape follows it."""

    name: str
    rule: str
    source: str
    follows: Callable[[Sizes], bool]


def _aspect(sizes: Sizes) -> bool:
    return SLIM * sizes["n_layers"] <= sizes["d_model"] <= WIDE * sizes["n_layers"]


def _depth(sizes: Sizes) -> bool:
    a, b = LEVINE
    return log(sizes["d_model"]) >= a + b * sizes["n_layers"]


def _d_ff(sizes: Sizes) -> bool:
    return "d_ff" not in sizes or 2 * sizes["d_model"] <= sizes["d_ff"] <= 6 * sizes["d_model"]


PRACTICES = (
    Practice(
        "aspect",
        f"d_model / layers from {SLIM} to {WIDE}",
        "GPT-2 XL 33 to PaLM 540B 156 (arXiv 2204.02311, table 1), Llama 2 102 to 128; the loss is flat over far more:"
        " Kaplan et al. 2020 (arXiv 2001.08361), figure 5",
        _aspect,
    ),
    Practice(
        "depth",
        "layers <= (ln d_model - 5.039) / 0.0555: beyond, width helps more than depth",
        "Levine et al. 2020 (arXiv 2006.12467): the fit to their experiments, by which 10^12 parameters want a width of"
        " 30,000 (abstract)",
        _depth,
    ),
    Practice(
        "head-dim",
        f"head size a multiple of {TILE}",
        "Anthony et al. 2024 (arXiv 2401.14489); GPT-3 and Llama 2 have 128",
        lambda sizes: sizes["head_dim"] % TILE == 0,
    ),
    Practice(
        "kv-heads",
        "as many key and value heads as heads, or a power of two of them, which GPUs can share",
        "Ainslie et al. 2023 (arXiv 2305.13245), section 3.3: 8 groups; Llama 2 (arXiv 2307.09288), table 1; Llama 3",
        lambda sizes: (
            sizes.get("n_kv_heads", 1) in (sizes["n_heads"], 1 << (sizes.get("n_kv_heads", 1).bit_length() - 1))
        ),
    ),
    Practice(
        "multiples",
        f"d_model and d_ff multiples of {PAIR}: tiles of {TILE} on tensor cores, also on each of two GPUs",
        "NVIDIA, Matrix Multiplication Background User's Guide, section 4; Anthony et al. 2024 (arXiv 2401.14489)",
        lambda sizes: sizes["d_model"] % PAIR == 0 and sizes.get("d_ff", 0) % PAIR == 0,
    ),
    Practice(
        "odd-layers",
        "an even number of layers, for pipeline stages",
        "Anthony et al. 2024 (arXiv 2401.14489); Narayanan et al. 2021 (arXiv 2104.04473)",
        lambda sizes: sizes["n_layers"] % 2 == 0,
    ),
    Practice(
        "d-ff",
        "d_ff from 2 to 6 times d_model",
        "Kaplan et al. 2020 (arXiv 2001.08361), figure 5: flat from 1 to 10; Shazeer 2020 (arXiv 2002.05202): 8/3 with"
        " a gate, 4 without",
        _d_ff,
    ),
)


def broken(sizes: Sizes) -> tuple[str, ...]:
    """The names of the rules that a shape does not follow.

    >>> broken({"d_model": 768, "n_layers": 12, "n_heads": 12, "head_dim": 64, "d_ff": 3072})
    ()
    >>> broken({"d_model": 64, "n_layers": 13, "n_heads": 2, "head_dim": 32, "d_ff": 256})
    ('aspect', 'depth', 'head-dim', 'multiples', 'odd-layers')
    """
    return tuple(each.name for each in PRACTICES if not each.follows(sizes))
