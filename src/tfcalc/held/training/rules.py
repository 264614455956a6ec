"""Rules of thumb for the states of training, each by the name of who uses it: what others print, to compare with.

They take a number of parameters, and answer in bytes; what tfcalc holds to be so is in
:mod:`tfcalc.held.training.states` and :mod:`tfcalc.held.training.placement`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from tfcalc.errors import InvalidModel, nearest
from tfcalc.printable import quoted

BUFFER = Fraction(3, 2)
"""DeepSpeed's ``additional_buffer_factor`` on what the host needs."""


class Estimate(NamedTuple):
    """Bytes per device, and bytes of the host's memory per node."""

    device: int
    host: int


def deepspeed_zero2(params: int, devices: int, nodes: int = 1, *, offload: bool = False) -> Estimate:
    """``4P + 16P/N``, or ``2P`` with the optimizer offloaded; host ``P·4·n·1.5``, offloaded ``P·max(4N, 16)·1.5``.

    ``devices`` are those of a node, n, and N those of all nodes. The 16 bytes are fp32 weights, gradients and moments.

    >>> round(deepspeed_zero2(2_851_000_000, 8).device / 2**30, 2)
    15.93

    Source: ``deepspeed.runtime.zero.stage_1_and_2.estimate_zero2_model_states_mem_needs``.
    """
    everywhere = nodes * devices
    if offload:
        return Estimate(2 * params, int(params * max(4 * everywhere, 16) * BUFFER))
    return Estimate(4 * params + 16 * params // everywhere, int(params * 4 * devices * BUFFER))


def deepspeed_zero3(
    params: int, largest: int, devices: int, nodes: int = 1, *, offload: str = "none", zero_init: bool = True
) -> Estimate:
    """``4·largest + 18P/N``; optimizer offloaded ``4·largest + 2P/N``; weights too (``all``) ``4·largest``.

    ``largest`` is the number of parameters of the largest module by itself. Host: 18 or 16 bytes per parameter and node
    (weights in 16 bits are with the device, or not), or what loading takes without ``zero_init``: 4 per device.

    >>> round(deepspeed_zero3(2_851_000_000, 32_000_000, 8).device / 2**30, 2)
    6.09

    Source: ``deepspeed.runtime.zero.stage3.estimate_zero3_model_states_mem_needs``.
    """
    everywhere, gathered = nodes * devices, 4 * largest
    kept = {"none": 18, "optimizer": 2, "all": 0}
    if offload not in kept:
        raise InvalidModel(f"offload {quoted(offload)} is not known", nearest(offload, kept))
    device = gathered + kept[offload] * params // everywhere
    loading = Fraction(4 * devices)
    if offload == "none":
        return Estimate(device, int((largest if zero_init else params) * loading * BUFFER))
    hosted = Fraction(18 if offload == "all" else 16, nodes)
    return Estimate(device, int(params * (hosted if zero_init else max(loading, hosted)) * BUFFER))


MEGATRON = {"fp16": (4, 16), "bf16-fp32-grads": (6, 12), "fp32": (8, 8)}
"""Bytes per parameter that each device holds, and those that a distributed optimizer spreads.

fp16 with fp16 gradients has fp32 copies of both weights and gradients beside AdamW's moments: 20 in all.
"""


def megatron_bytes_per_param(recipe: str, data_parallel: int = 1) -> Fraction:
    """``6 + 12/d`` (bf16 weights, fp32 gradients), ``4 + 16/d`` (fp16), ``8 + 8/d`` (fp32); d = 1: 18, 20, 16.

    >>> megatron_bytes_per_param("bf16-fp32-grads"), megatron_bytes_per_param("bf16-fp32-grads", 8)
    (Fraction(18, 1), Fraction(15, 2))

    Source: Megatron-LM, docs, "Distributed Optimizer", table of theoretical bytes per parameter.
    """
    if recipe not in MEGATRON:
        raise InvalidModel(
            f"precision {quoted(recipe)} is not covered by Megatron-LM's rule", nearest(recipe, MEGATRON)
        )
    whole, spread = MEGATRON[recipe]
    return whole + Fraction(spread, data_parallel)


def galore_full_rank(params: int) -> int:
    """``2P + 4P``: weights and Adam's two moments in bf16, neither gradients nor activations.

    Source: Zhao et al. 2024 (GaLore, arXiv 2403.03507), table 2 ("memory estimate of parameters and optimizer states").
    """
    return 6 * params


def qlora_full_16_bit(params: int) -> int:
    """``12P``: 16-bit weights and gradients, and 8 bytes of the optimizer: "more than 780 GB" for 65B.

    Source: Dettmers et al. 2023 (QLoRA, arXiv 2305.14314), section 1.
    """
    return 12 * params


def accelerate_adam(params: int, bits: int) -> int:
    """``4 · P · bits/8``: weights, gradients and two moments, all of one type ("training using Adam").

    Source: Hugging Face accelerate, ``estimate-memory``.
    """
    return 4 * params * bits // 8
