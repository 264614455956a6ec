"""Tensors of a training step that have a row for each token: what a row takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfcalc.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tfcalc.analysis.facts import Facts


class RowWidth(NamedTuple):
    """Bytes that a token takes in a tensor, and ``what`` that is."""

    what: str
    each: int


def logits(known: Facts) -> Iterator[RowWidth]:
    """Scores of all words of the vocabulary."""
    for said, each in (("fp32", 4), ("16 bits", 2)):
        if known.vocab_size:
            yield RowWidth(f"the logits in {said}", known.vocab_size * each)


def in_layers(known: Facts) -> Iterator[RowWidth]:
    """Tensors between the matrices of a feed-forward network, and those that a layer hands to the next."""
    between = "one tensor between the matrices of a feed-forward network"
    for what, size, said, each in (
        (between, known.ffn_size, "16 bits", 2),
        ("one tensor of the hidden size", known.hidden_size, "16 bits", 2),
        ("one tensor of the hidden size", known.hidden_size, "fp32", 4),
        (between, known.ffn_size, "fp32", 4),
    ):
        if size:
            yield RowWidth(f"{what} in {said}", size * each)
