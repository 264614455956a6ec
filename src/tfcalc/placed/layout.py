"""Layouts: how GPUs share a model, and which of them is meant."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from tfcalc.core.number import Num, ceil_div, divide
from tfcalc.core.traced import known
from tfcalc.errors import InvalidModel

ROWS_AT_A_TIME = 128
"""Megatron-LM's ``--make-vocab-size-divisible-by``: each GPU's rows of a vocabulary table are a multiple of this."""

MOST_DEVICES = 10_000
"""Largest number of GPUs that is proposed if a size is not divisible."""


class Layout(NamedTuple):
    """One GPU of those that train a model together, in Megatron-LM's terms.

    ``tp`` GPUs share each layer (tensor parallelism). With ``sequence_parallel`` they share the sequence outside of
    attention and MLP, too; otherwise each has all of it there. ``pp`` stages have the layers one after another, each
    in ``vpp`` chunks, which are interleaved with those of the others. A vocabulary table is padded until each GPU has a
    multiple of ``rows`` of it. Backward ``gathers_again`` the other GPUs' tokens; otherwise these are saved.

    Source: Shoeybi et al. 2019 (arXiv 1909.08053); Narayanan et al. 2021 (arXiv 2104.04473), section 2; Korthikanti et
    al. 2022 (arXiv 2205.05198).
    """

    tp: Num = 1
    sequence_parallel: bool = False
    pp: Num = 1
    vpp: Num = 1
    stage: Num = 0
    rows: int = ROWS_AT_A_TIME
    gathers_again: bool = True

    @property
    def first(self) -> bool:
        """True on the first stage, which has the embeddings."""
        return self.stage == 0

    @property
    def last(self) -> bool:
        """True on the last stage, which has the output head."""
        return self.stage == self.pp - 1

    @property
    def chunks(self) -> Num:
        """Number of chunks of layers, over all stages."""
        return self.pp * self.vpp

    @property
    def alone(self) -> bool:
        """True if no other GPU shares its layers."""
        return known(self.tp) == 1

    def share(self, whole: Num, what: str) -> Num:
        """Return this GPU's share of heads, of a matrix's columns, or of tokens: ``whole / t``. Raises InvalidModel."""
        check_even(what, whole, "tensor", self.tp)
        part: Num = divide(whole, self.tp)
        return part

    def share_of_words(self, vocabulary: Num) -> Num:
        """Return a GPU's rows of a vocabulary table: ``⌈V / (128 t)⌉ · 128``.

        >>> Layout(tp=2).share_of_words(50257), Layout(tp=8).share_of_words(51200)
        (25216, 6400)
        """
        padded: Num = ceil_div(vocabulary, self.tp * self.rows) * self.rows
        return padded

    def check(self) -> None:
        """Raise InvalidModel if there is no such GPU."""
        for what, number, least in (
            ("tensor", self.tp, 1),
            ("pipeline", self.pp, 1),
            ("interleave", self.vpp, 1),
            ("stage", self.stage, 0),
        ):
            check_least(what, number, least)
        stage, stages = known(self.stage), known(self.pp)
        if stage is not None and stages is not None and stage >= stages:
            raise InvalidModel(f"stage {stage} of pipeline {stages}", f"stages count from 0 to {stages - 1}")


def check_least(what: str, number: Num, least: int) -> None:
    """Raise InvalidModel for a number that is too small."""
    size = known(number)
    if size is not None and size < least:
        raise InvalidModel(f"{what} {size}", f"it is {least} or more")


def check_even(what: str, whole: Num, by: str, parts: Num) -> None:
    """Raise InvalidModel, with the nearest divisors, if GPUs cannot share something evenly."""
    size, count = known(whole), known(parts)
    if size is not None and count is not None and size % count:
        remedy = "nearest: " + ", ".join(map(str, _divisors(size, count)))
        raise InvalidModel(f"{what} {size:,} not divisible by {by} {count:,}", remedy)


def _divisors(whole: int, near: int) -> list[int]:
    """Return the divisors of ``whole`` next to ``near``: one below and, up to ``MOST_DEVICES``, one above."""
    below = next(number for number in range(min(near, whole), 0, -1) if whole % number == 0)
    above = (number for number in range(near, min(whole, MOST_DEVICES) + 1) if whole % number == 0)
    return [below, *islice(above, 1)]
