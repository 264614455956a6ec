"""Bytes of weights and of what training adds to them, as people multiply them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from tfcalc.analysis.why.given import BYTES_UNIT, nominal
from tfcalc.analysis.why.search import CountingStep, Start, State
from tfcalc.analysis.why.tensors import Cell, Cells
from tfcalc.errors import TfcalcError
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import NUMBERS
from tfcalc.serving.memory import own_name, weights_bytes

if TYPE_CHECKING:
    from tfcalc.core.component import Component
    from tfcalc.model import Model


class PerParameter(NamedTuple):
    """Number of bytes for each parameter, and of what."""

    name: str
    each: Fraction
    words: str
    cost: float
    flags: str = ""


FORMATS = (
    PerParameter("fp32", Fraction(4), "4 bytes a parameter (fp32)", 0.5, "--dtype fp32"),
    PerParameter("bf16", Fraction(2), "2 bytes a parameter (bf16, fp16)", 0.5, "--dtype bf16"),
    PerParameter("int8", Fraction(1), "1 byte a parameter (int8, fp8)", 0.5, "--dtype int8"),
    PerParameter("int4", Fraction(1, 2), "half a byte a parameter (4 bits, without scales)", 0.5, "--dtype int4"),
)
ADAM = (
    PerParameter(
        "adam_16",
        Fraction(16),
        "16 bytes a parameter: weights and gradients in 16 bits, fp32 weights and Adam's two moments "
        "(or all four in fp32)",
        0.75,
    ),
    PerParameter("adam_12", Fraction(12), "12 bytes a parameter: fp32 weights and Adam's two moments in fp32", 1.0),
    PerParameter("adam_8", Fraction(8), "8 bytes a parameter: 16 bits each of weights, gradients and two moments", 1.0),
    PerParameter("adam_10", Fraction(10), "10 bytes a parameter: 16-bit weights, and Adam's two moments in fp32", 1.25),
)
QUANTIZED = ("nf4", "gptq", "awq")
"""How libraries pack the matrices of layers; embeddings, the output head and norms stay as they were."""
FILES, BLOCKS, PACKED = 0.75, 1.0, 0.75
COMMON_FILES = ("q4_0", "q4_k_m", "q8_0", "q5_k_m", "q6_k")
"""llama.cpp's file types that people download."""
OLD_BLOCKS = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0")
"""Files from before GGUF have every matrix in the same type."""
OVERHEAD = Fraction(6, 5)


def starts(model: Model, tree: Component, cells: Cells, called: str) -> Iterator[Start[Cell]]:
    """Bytes of the weights in the checkpoint's own format, in others, and with what training adds."""
    own, command = own_name(model), f"tfcalc memory {called}".strip()
    total = sum(cells.values())
    of_own = NUMBERS[own].bits if own in NUMBERS else 0
    exact: State[Cell] = State({Cell("bytes"): weights_bytes(model, tree)})
    plain = of_own and exact.value * 8 == total * of_own
    said = f"{total:,} parameters x {_plain(Fraction(of_own, 8))} bytes" if plain else ""
    what = f"bytes of the weights in {own}"
    yield Start("own_bytes", what, "", exact, command, 0.0, BYTES_UNIT, deep=2, composed=said)
    for held in (*FORMATS, *ADAM):
        cost = 0.0 if held.each * 8 == of_own else held.cost
        asked = f"{command} {held.flags}" if held.flags else f"{command} --train"
        words = held.words if cost else ""
        state: State[Cell] = State(cells, held.each)
        what = f"{total:,} parameters x {_plain(held.each)} bytes"
        yield Start(held.name, what, words, state, asked, cost, BYTES_UNIT)
        for size, said, rare in nominal(total):
            of = f"parameters rounded to {said}"
            round_number: State[Cell] = State({Cell("parameters"): size}, held.each)
            what = f"{size:,} x {_plain(held.each)} bytes"
            name = f"{held.name}_of_{said}"
            yield Start(name, what, f"{of}, {held.words}", round_number, asked, cost + rare, BYTES_UNIT, deep=2)


def packed_files(model: Model, tree: Component, called: str) -> Iterator[Start[Cell]]:
    """Bytes of files and libraries that store a matrix in blocks, with scales."""
    kinds = [(name, f"a GGUF file of type {name.upper()}", FILES) for name in COMMON_FILES]
    old = "every matrix in llama.cpp's {} (a GGML file from before GGUF)"
    kinds += [(f"{name}-pure", old.format(name.upper()), BLOCKS) for name in OLD_BLOCKS]
    kinds += [(name, f"the layers' matrices packed as {name}", PACKED) for name in QUANTIZED]
    for name, words, cost in kinds:
        try:
            size = weights_bytes(model, tree, name)
        except TfcalcError:
            continue
        command = f"tfcalc memory {called} --weights {name}".replace("  ", " ")
        state: State[Cell] = State({Cell("bytes"): size})
        yield Start(f"weights_{name}", f"bytes of {words}", words, state, command, cost, BYTES_UNIT, deep=1)


def _plain(number: Fraction) -> str:
    return f"{number.numerator}" if number.denominator == 1 else f"{float(number):g}"


SOME_OF_PARAMS = (
    "untied",
    "tied",
    "non_embedding",
    "input_embeddings",
    "active",
    "positions",
    "mtp",
    "mtp_with_copies",
    "no_minor",
    "masks",
)
"""What of the parameters changes bytes in questions that people ask."""


def steps(of_params: Iterator[CountingStep[Cell]]) -> Iterator[CountingStep[Cell]]:
    """Some of those that parameters have, and what is added or divided."""
    yield from (step for step in of_params if step.name in SOME_OF_PARAMS)
    words = "times 1.2, a rule of thumb for what is used beside the weights"
    yield CountingStep("overhead", words, 0.75, lambda state: state.times(OVERHEAD), "overhead")
    for ranks in (2, 4, 8, 16, 32, 64):
        words = f"one of {ranks} equal shares, as ZeRO-3, FSDP or tensor parallelism divide"
        yield CountingStep(f"share_{ranks}", words, 1.25, lambda state, n=ranks: state.times(Fraction(1, n)), "ranks")  # type: ignore[misc]  # bound now
