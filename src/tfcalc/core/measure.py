"""Measures of an operation's cost, one line each: the tree adds them up for any component."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from tfcalc.core.component import ACTIVE, RUN, STORED, Measure
from tfcalc.core.cost import Cost
from tfcalc.core.number import Num, ceil_div, total


def _stored(of: Callable[[Cost], Num]) -> Measure:
    return Measure(of, STORED)


def _run(of: Callable[[Cost], Num]) -> Measure:
    return Measure(of, RUN)


SMALLEST_BUFFER = 16
"""Fewest bits per number of a buffer: buffers are not quantized with the weights."""


@_stored
def params(cost: Cost) -> Num:
    """Parameters: each stored weight once, a tied one where it is stored."""
    return total(weight.size for weight in cost.weights if weight.tied_to is None)


active_params = Measure(params.of, ACTIVE)
"""Active parameters (per token): all but those of the experts that a token is not routed to."""


@_stored
def major_params(cost: Cost) -> Num:
    """Parameters without biases and norms, as rules of thumb count (12h² per encoder layer)."""
    return total(weight.size for weight in cost.weights if weight.tied_to is None and not weight.minor)


@_stored
def frozen_params(cost: Cost) -> Num:
    """Parameters that are never trained, such as sinusoids that a model stores as a table."""
    return total(weight.size for weight in cost.weights if weight.frozen and weight.tied_to is None)


@_stored
def trainable_params(cost: Cost) -> Num:
    """Parameters that a training step updates."""
    return total(weight.size for weight in cost.weights if not weight.frozen and weight.tied_to is None)


@_stored
def buffer_elements(cost: Cost) -> Num:
    """Elements of the buffers: tensors stored with the model that are no parameters."""
    return total(buffer.size for buffer in cost.buffers)


@_run
def matmul_flops(cost: Cost) -> Num:
    """FLOPs of the forward pass's matrix products (a multiply-add is 2)."""
    return total(product.flops for product in cost.products)


@_run
def matmul_backward_flops(cost: Cost) -> Num:
    """FLOPs of the backward pass's matrix products, including those that FlopCounterMode counts in error."""
    return total((product.backward + product.overcounted) * product.flops for product in cost.products)


@_run
def overcounted_flops(cost: Cost) -> Num:
    """FLOPs of backward products that FlopCounterMode counts though no kernel runs them."""
    return total(product.overcounted * product.flops for product in cost.products)


@_run
def elementwise_flops(cost: Cost) -> Num:
    """FLOPs of the forward pass that are no matrix product."""
    return total(work.forward * work.elements for work in cost.elementwise)


@_run
def elementwise_backward_flops(cost: Cost) -> Num:
    """FLOPs of the backward pass that are no matrix product."""
    return total(work.backward * work.elements for work in cost.elementwise)


@_run
def matmul_again_flops(cost: Cost) -> Num:
    """FLOPs of the matrix products that are recomputed in backward, as their results were not saved."""
    return matmul_flops(cost) if cost.again else 0


@_run
def elementwise_again_flops(cost: Cost) -> Num:
    """FLOPs of recomputation in backward that are no matrix product."""
    return elementwise_flops(cost) if cost.again else 0


def flops_of(training: bool, everything: bool) -> Measure:
    """Return the FLOPs of a forward pass or a training step: of matrix products only, or of ``everything``."""
    chosen = [matmul_flops]
    chosen += [matmul_backward_flops, matmul_again_flops] * training
    chosen += [elementwise_flops] * everything
    chosen += [elementwise_backward_flops, elementwise_again_flops] * (training and everything)
    return Measure(lambda cost: total(measure(cost) for measure in chosen), RUN)


@_run
def steps(cost: Cost) -> Num:
    """Operations that take time: all FLOPs of the forward pass, and one per row looked up."""
    return matmul_flops(cost) + elementwise_flops(cost) + cost.lookups


def weight_bytes(bits: int) -> Measure:
    """Bytes of the stored weights at ``bits`` each; every tensor is padded to whole bytes."""

    @_stored
    def measure(cost: Cost) -> Num:
        return total(bytes_of(weight.size, bits) for weight in cost.weights if weight.tied_to is None)

    return measure


def buffer_bytes(bits: int) -> Measure:
    """Bytes of the buffers: tensors stored with the model that are no parameters."""

    @_stored
    def measure(cost: Cost) -> Num:
        return total(bytes_of(buffer.size, bits) for buffer in cost.buffers)

    return measure


def held_bytes(bits: int) -> Measure:
    """Bytes of weights and buffers at ``bits`` each; buffers are not quantized, and have at least 16 bits."""
    weights, buffers = weight_bytes(bits), buffer_bytes(max(bits, SMALLEST_BUFFER))
    return Measure(lambda cost: weights(cost) + buffers(cost), STORED)


@_stored
def bytes_held(cost: Cost) -> Num:
    """Bytes of the tensors in a tree of memory (``Cost.held``)."""
    return total(bytes_of(held.size, held.bits) for held in cost.held)


def bytes_of(elements: Num, bits: int) -> Num:
    """Return the bytes of ``elements`` numbers of ``bits`` each: ``⌈n·bits / 8⌉``."""
    common = gcd(bits, 8)
    pieces: Num = ceil_div(elements * (bits // common), 8 // common)
    return pieces
