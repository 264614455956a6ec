"""Attention sinks: a trained score for each head, beside those of the keys."""

from __future__ import annotations

from tfcalc.nn.basic import Stored


class Sinks(Stored):
    """They take a share of each row's softmax, and have no value.

    How a library does that is of no consequence to what is counted: a sink is a ``scale`` of what a head made; it
    stands ``beside`` the scores in their softmax; or that is of all of them less the ``highest``.

    Source: Xiao et al. 2023 (arXiv 2309.17453), section 3.3; gpt-oss (arXiv 2508.10925).
    """

    code: str = "scale"
