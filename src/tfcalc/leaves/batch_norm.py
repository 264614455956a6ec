"""Normalisation of every channel by what it was in training."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise, Tensor
from tfcalc.core.number import Num


def batch_norm(name: str, channels: Num, positions: Num) -> Component:
    """``(x − mean) / std · γ + β``, with mean and variance of the channel over all batches that were seen.

    ====================  =======================================================================
    parameters            ``2·c``
    buffers               ``2·c + 1``: means, variances, and how many batches they are of
    elementwise FLOPs     4 per element; backward 13, as that of a LayerNorm, for then the batch's own count
    ====================  =======================================================================

    Source: Ioffe and Szegedy 2015 (arXiv 1502.03167), algorithm 1; torch.nn.BatchNorm1d and BatchNorm2d.
    """
    return Component(
        name,
        "norm",
        Cost(
            weights=(
                Tensor("γ", (channels,), minor=True, key="weight"),
                Tensor("β", (channels,), minor=True, key="bias"),
            ),
            buffers=(
                Tensor("mean", (channels,), key="running_mean"),
                Tensor("variance", (channels,), key="running_var"),
                Tensor("batches", (), key="num_batches_tracked"),
            ),
            elementwise=(Elementwise("batch norm", positions * channels, forward=4, backward=13),),
        ),
    )
