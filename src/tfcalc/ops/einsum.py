"""torch.einsum of two operands: which of them are copied before their product, and how its result is laid out."""

from __future__ import annotations

from collections.abc import Iterable

from tfcalc.core.number import Num, product
from tfcalc.core.traced import value_of
from tfcalc.ops.products import matmul
from tfcalc.ops.shapes import permute, reshape
from tfcalc.tape.tensor import Tensor


def einsum(equation: str, a: Tensor, b: Tensor) -> Tensor:
    """One product of matrices for all axes that both have and that stay.

    The axes of each operand are put in order, those that both have first, and made three; where memory does not allow
    that, it is copied, and the copy is kept. What is summed must be wider than one. The operand whose axis the result
    has first is the first of the product, so that the result lies in order.

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
        there = [letter for letter in order if letter in own]
        narrow = [letter for letter in own if letter not in order]  # axes of one
        return permute(x, [own.index(letter) for letter in (*there, *narrow)])

    a = reshape(ordered(a, left, both + first + summed), wide(both), wide(first), wide(summed))
    b = reshape(ordered(b, right, both + summed + second), wide(both), wide(summed), wide(second))
    order = both + first + second
    made = reshape(matmul(a, b), *(sizes[letter] for letter in order))
    return permute(made, [order.index(letter) for letter in result])
