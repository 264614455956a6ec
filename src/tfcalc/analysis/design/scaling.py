"""Compute-optimal sizes by published fits: how a number of FLOPs is best spent on parameters and on tokens.

Each fit is what its authors measured on their data, with their tokens and their optimizer: an estimate, and no law.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tfcalc.named_tuple import NamedTuple

FLOPS_PER_PARAM = 6
"""Of a training token: 2 forward, 4 backward; attention's own products and the embedding are left out."""
PF_DAY = 8.64e19
"""FLOPs of 10¹⁵ per second in a day."""


class Split(NamedTuple):
    """Parameters, training tokens, and the loss that the fit predicts, in nats per token; None where it has none."""

    params: float
    tokens: float
    loss: float | None = None


class ScalingFit(NamedTuple):
    """A fit: its ``name``, its ``formula``, the ``constants`` in it, their ``source``, and what it answers.

    ``counted`` says which parameters it counts. ``loss`` is that of parameters and tokens, where it predicts one.
    """

    name: str
    formula: str
    constants: Mapping[str, float]
    source: str
    counted: str
    split: Callable[[float], Split]
    loss: Callable[[float, float], float] | None = None


def _loss_fit(name: str, source: str, E: float, A: float, B: float, alpha: float, beta: float) -> ScalingFit:
    """L(N, D) = E + A/N^α + B/D^β, smallest where 6ND = C: N = G (C/6)^(β/(α+β)), G = (αA/βB)^(1/(α+β))."""

    def split(compute: float) -> Split:
        budget = compute / FLOPS_PER_PARAM
        params: float = (alpha * A / (beta * B)) ** (1 / (alpha + beta)) * budget ** (beta / (alpha + beta))
        tokens = budget / params
        return Split(params, tokens, loss(params, tokens))

    def loss(params: float, tokens: float) -> float:
        found: float = E + A / params**alpha + B / tokens**beta
        return found

    constants = {"E": E, "A": A, "B": B, "alpha": alpha, "beta": beta}
    return ScalingFit(name, "L = E + A/N^alpha + B/D^beta", constants, source, "all", split, loss)


def _power_fit(name: str, source: str, counted: str, k: float, a: float, unit: float = 1.0) -> ScalingFit:
    """N = k (C / unit)^a, and D = C / 6N."""

    def split(compute: float) -> Split:
        params: float = k * (compute / unit) ** a
        return Split(params, compute / (FLOPS_PER_PARAM * params))

    formula = "N = k C^a" if unit == 1 else "N = k (C/c)^a"
    return ScalingFit(name, formula, {"k": k, "a": a} | ({} if unit == 1 else {"c": unit}), source, counted, split)


def _token_fit(name: str, source: str, counted: str, k: float, b: float, unit: float = 1.0) -> ScalingFit:
    """D = k (C / unit)^b, and N = C / 6D."""

    def split(compute: float) -> Split:
        tokens: float = k * (compute / unit) ** b
        return Split(compute / (FLOPS_PER_PARAM * tokens), tokens)

    formula = "D = k C^b" if unit == 1 else "D = k (C/c)^b"
    return ScalingFit(name, formula, {"k": k, "b": b} | ({} if unit == 1 else {"c": unit}), source, counted, split)


def _rule(tokens_per_param: float) -> ScalingFit:
    def split(compute: float) -> Split:
        params = (compute / (FLOPS_PER_PARAM * tokens_per_param)) ** 0.5
        return Split(params, tokens_per_param * params)

    source = "Hoffmann et al. 2022 (arXiv 2203.15556), table 3: 20.0 to 22.4 tokens per parameter"
    return ScalingFit("20 tokens each", "D = 20 N", {"tokens_per_param": tokens_per_param}, source, "all", split)


CHINCHILLA = "Hoffmann et al. 2022 (arXiv 2203.15556)"
FITS = (
    _rule(20),
    _power_fit(
        "Chinchilla 1",
        f"{CHINCHILLA}: exponent of table 2, through 10^9 parameters at 1.21e20 FLOPs of table 3",
        "all",
        1e9,
        0.50,
        1.21e20,
    ),
    _power_fit(
        "Chinchilla 2",
        f"{CHINCHILLA}: exponent of table 2, through 10^9 parameters at 1.20e20 FLOPs of table A3",
        "all",
        1e9,
        0.49,
        1.20e20,
    ),
    _loss_fit("Chinchilla 3", f"{CHINCHILLA}: equation 10, as rounded there", 1.69, 406.4, 410.7, 0.34, 0.28),
    _loss_fit(
        "Chinchilla 3, refitted",
        "Besiroglu et al. 2024 (arXiv 2404.10102): the data of approach 3 fitted anew; table 1",
        1.8172,
        482.01,
        2085.43,
        0.3478,
        0.3658,
    ),
    _token_fit(
        "DeepSeek LLM",
        "DeepSeek-AI 2024 (arXiv 2401.02954), equation 4: D = 5.8316 C^0.4757; N here is C/6D, there FLOPs per token",
        "non-embedding",
        5.8316,
        0.4757,
    ),
    _token_fit(
        "Llama 3",
        "Llama Team 2024 (arXiv 2407.21783), section 3.2.1: exponent 0.53, through 16.55T tokens at 3.8e25 FLOPs",
        "all",
        16.55e12,
        0.53,
        3.8e25,
    ),
    _power_fit(
        "Kaplan et al.",
        "Kaplan et al. 2020 (arXiv 2001.08361), table 6: N = 1.3e9 C^0.73, C in PF-days of the smallest compute",
        "non-embedding",
        1.3e9,
        0.73,
        PF_DAY,
    ),
)
"""The rule of thumb first, then the fits, newest method of each group last."""
