"""torch.einsum of two operands, with the copies that it makes and the layout of its result."""

from __future__ import annotations

from collections.abc import Iterable

from tfcalc.core.number import Num, product
from tfcalc.core.traced import value_of
from tfcalc.ops.products import matmul
from tfcalc.ops.shapes import permute, reshape
from tfcalc.tape.tensor import Tensor


def einsum(equation: str, a: Tensor, b: Tensor) -> Tensor:
    """Compute einsum as one batched matrix product.

    Each operand is permuted (axes of both first) and reshaped to three axes; if its layout does not allow a view, it is
    copied, and the copy is saved. Summed axes must be wider than 1. The operand with the result's first axis comes
    first in the product, so that the result is contiguous.

    Source: torch's einsum and sumproduct_pair (aten/src/ATen/native/Linear.cpp).
    """
    operands, result = equation.split("->")
    left, right = operands.split(",")
    if next((letter for letter in result if (letter in left) != (letter in right)), left[0]) not in left:
        left, right, a, b = right, left, b, a
    sizes = dict(zip(left, a.shape, strict=True)) | dict(zip(right, b.shape, strict=True))
    wide_left = {letter for letter in left if value_of(sizes[letter]) != 1}
    wide_right = {letter for letter in right if value_of(sizes[letter]) != 1}
    summed = "".join(sorted(letter for letter in left if letter not in result))  # as torch.einsum orders them
    both = "".join(letter for letter in result if letter in wide_left and letter in wide_right)
    first = "".join(letter for letter in result if letter in wide_left and letter not in both)
    second = "".join(letter for letter in result if letter not in both and letter not in first)

    def wide(letters: Iterable[str]) -> Num:
        return product(sizes[letter] for letter in letters)

    def ordered(x: Tensor, own: str, order: str) -> Tensor:
        wide_axes = [letter for letter in order if letter in own]
        narrow_axes = [letter for letter in own if letter not in order]  # of size 1
        return permute(x, [own.index(letter) for letter in (*wide_axes, *narrow_axes)])

    a = reshape(ordered(a, left, both + first + summed), wide(both), wide(first), wide(summed))
    b = reshape(ordered(b, right, both + summed + second), wide(both), wide(summed), wide(second))
    order = both + first + second
    product_of_both = reshape(matmul(a, b), *(sizes[letter] for letter in order))
    return permute(product_of_both, [order.index(letter) for letter in result])
