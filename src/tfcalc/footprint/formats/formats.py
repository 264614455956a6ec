"""How a matrix lies in memory, by number format: the formats, each as data with its source.

A matrix has ``rows`` (outputs) and ``columns`` (inputs), as ``torch.nn.Linear.weight`` has. What is not packed whole is
filled up: the last group of a row, the last word of packed numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tfcalc.core.cost import Held
from tfcalc.core.measure import bytes_of
from tfcalc.core.number import Num, ceil_div, total
from tfcalc.number_formats import FLOAT, Block, NumberFormat

if TYPE_CHECKING:
    from fractions import Fraction

LINEAR = ("linear",)
"""What quantization touches: linear maps alone; embeddings, output head, routers, norms, convolutions stay."""

TABLES = (*LINEAR, "output", "embedding")
"""What llama.cpp quantizes: the vocabulary's two matrices as well."""

WHOLE = None
"""A piece that spans all rows, or all columns."""


class Piece(NamedTuple):
    """One tensor that a matrix is stored as: ``bits`` for every ``rows`` × ``columns`` numbers of it.

    ``⌈o / rows⌉ · ⌈i / columns⌉`` times ``bits`` for a matrix of o rows and i columns. ``run`` counts along the matrix
    laid out as one line instead, whatever its rows: ``⌈o·i / run⌉``.
    """

    name: str
    bits: int
    rows: int | None = 1
    columns: int | None = 1
    run: int = 0

    def factors(self, rows: Num, columns: Num) -> tuple[Num, ...]:
        """How many times ``bits``: a product."""
        if self.run:
            return (ceil_div(rows * columns, self.run),)
        sizes = ((rows, self.rows), (columns, self.columns))
        return tuple(size if step == 1 else ceil_div(size, step) for size, step in sizes if step is not WHOLE)


class Format(NamedTuple):
    """A number format of weights: the tensors that a matrix is stored as, and what of a model is stored so.

    ``kinds`` are the operations whose matrices are; every tensor where there are none given. The others are stored as
    ``rest``, or as the question says where that is empty. Rows that ``block`` does not divide are stored as ``instead``
    (llama.cpp's ``tensor_type_fallback``).
    """

    name: str
    source: str
    pieces: tuple[Piece, ...]
    kinds: tuple[str, ...] = LINEAR
    rest: str = ""
    block: int = 1
    instead: str = ""

    @property
    def plain(self) -> bool:
        """Whether every tensor of a model is stored so, quantized by nothing."""
        return not self.kinds

    @property
    def bits(self) -> int:
        """Of one number of a plain format."""
        return self.pieces[0].bits

    @property
    def least_bits(self) -> int:
        """Of one number of any matrix that is stored so, without its scales, rounded down.

        >>> from tfcalc.footprint.formats.names import single
        >>> [single(name).least_bits for name in ("nf4-dq", "int8", "bf16", "gptq-3bit", "mxfp4")]
        [4, 8, 16, 3, 4]
        """
        first = self.pieces[0]
        together = first.run or (first.rows or 0) * (first.columns or 0)
        return first.bits // together if together else 0

    def held(self, name: str, rows: Num, columns: Num, copies: int = 1) -> tuple[Held, ...]:
        """The tensors that a matrix of this name is stored as."""
        times = (copies,) if copies > 1 else ()
        return tuple(
            Held(f"{name} {piece.name}".rstrip(), (*times, *piece.factors(rows, columns)), piece.bits)
            for piece in self.pieces
        )

    def bytes(self, rows: Num, columns: Num) -> Num:
        """Bytes of a matrix, all its scales included.

        >>> from tfcalc.footprint.formats.names import single
        >>> single("nf4").bytes(4096, 4096), single("q8_0-pure").bytes(4096, 4096)
        (9437248, 17825792)
        """
        return total(bytes_of(held.size, held.bits) for held in self.held("", rows, columns))

    def bits_per_weight(self, rows: int, columns: int) -> Fraction:
        """True bits per number of a matrix of this shape: ``8 · bytes / (rows · columns)``.

        >>> from tfcalc.footprint.formats.names import single
        >>> single("mxfp4").bits_per_weight(2880, 2880), float(single("nvfp4").bits_per_weight(4096, 4096))
        (Fraction(17, 4), 4.500001907348633)
        """
        from fractions import Fraction  # slow to import, and rarely asked for

        return Fraction(8 * int(self.bytes(rows, columns)), rows * columns)  # type: ignore[call-overload]


def plain(numbers: NumberFormat) -> Format:
    """Every tensor cast to these numbers, with no scales; integers are else what a library scales: ``int8-plain``."""
    name = numbers.name if numbers.kind == FLOAT else f"{numbers.name}-plain"
    return Format(name, numbers.source, (Piece("", numbers.bits),), kinds=())


def blocks(name: str, of: Block) -> Piece:
    """The numbers of a row in whole blocks."""
    return Piece(name, of.bits, 1, of.numbers)


def scales(name: str, of: Block) -> Piece:
    """What the blocks of a row have beside their numbers."""
    return Piece(name, of.scales, 1, of.numbers)


def packed(bits: int, along: str = "columns") -> tuple[int, int, int]:
    """Bits, rows and columns of what is packed into whole 32-bit words: 8 numbers of 4 bits, 32 of 3.

    >>> packed(4), packed(3, "rows")
    ((32, 1, 8), (96, 32, 1))
    """
    numbers = 32 // bits if 32 % bits == 0 else 32
    words = numbers * bits
    return (words, 1, numbers) if along == "columns" else (words, numbers, 1)


def gptq(bits: int = 4, group: int | None = 128) -> Format:
    """GPTQ: packed along the inputs; of each group a 16-bit scale and a packed zero; of each input its group.

    Source: AutoGPTQ and GPTQModel, QuantLinear.__init__ (``qweight``, ``qzeros``, ``scales``, ``g_idx``);
    arXiv 2210.17323.
    """
    words, zeros_rows, _ = packed(bits, "rows")
    pieces = (
        Piece("qweight", *packed(bits)),
        Piece("scales", 16, 1, group),
        Piece("qzeros", words, zeros_rows, group),
        Piece("g_idx", 32, WHOLE, 1),
    )
    return Format(_called("gptq", bits, group), "GPTQModel, QuantLinear", pieces)


def awq(bits: int = 4, group: int | None = 128, name: str = "awq") -> Format:
    """AWQ: ``qweight`` packed along the outputs; of each group a 16-bit scale and a packed zero.

    Source: AutoAWQ, WQLinear_GEMM.__init__ (``qweight``, ``qzeros``, ``scales``); arXiv 2306.00978.
    """
    words, rows, columns = packed(bits, "rows")
    pieces = (
        Piece("qweight", words, rows, columns),
        Piece("scales", 16, 1, group),
        Piece("qzeros", words, rows, group),
    )
    return Format(_called(name, bits, group), "AutoAWQ, WQLinear_GEMM", pieces)


def grouped_integers(bits: int, group: int | None, *, zeros: bool = False, indices: bool = False) -> Format:
    """compressed-tensors' ``pack-quantized``: packed along the inputs, a 16-bit scale a group, the shape as two int64.

    Source: compressed_tensors, PackedQuantizationCompressor.compress.
    """
    words, rows, _ = packed(bits, "rows")
    pieces = (
        Piece("weight_packed", *packed(bits)),
        Piece("weight_scale", 16, 1, group),
        *([Piece("weight_zero_point", words, rows, group)] if zeros else []),
        *([Piece("weight_g_idx", 32, WHOLE, 1)] if indices else []),
        Piece("weight_shape", 128, WHOLE, WHOLE),
    )
    return Format(_called("int", bits, group), "compressed-tensors, PackedQuantizationCompressor", pieces)


def bitsandbytes_4bit(kind: str, block: int = 64, *, double: bool = False) -> Format:
    """NF4 or FP4 of bitsandbytes: blocks of the matrix as one line, an fp32 ``absmax`` each, a table of 16 numbers.

    ``double``: of each absmax one byte, of 256 of these an fp32 absmax, an offset and a table of 256 numbers.
    Per number ``4 + 32/64`` bits, or ``4 + 8/64 + 32/(64·256)``: 4.127.

    Source: bitsandbytes.functional.quantize_4bit; arXiv 2305.14314, p. 5.
    """
    table = Piece("code", 32 * 16, WHOLE, WHOLE)
    once = (Piece("absmax", 32, run=block), table)
    twice = (
        Piece("absmax", 8, run=block),
        Piece("nested absmax", 32, run=256 * block),
        Piece("offset", 32, WHOLE, WHOLE),
        table,
        Piece("nested code", 32 * 256, WHOLE, WHOLE),
    )
    name = kind + ("-dq" if double else "")
    return Format(name, "bitsandbytes.functional.quantize_4bit", (Piece("", 4), *(twice if double else once)))


def scaled(name: str, bits: int, source: str, *scales: Piece) -> Format:
    """Numbers of so many bits, and the scales beside them."""
    return Format(name, source, (Piece("", bits), *scales))


def fp8(rows: int | None, columns: int | None, *, static: bool = False, scale: int = 32) -> Format:
    """8-bit floats with a ``scale`` of so many bits for every ``rows`` × ``columns``; ``static`` inputs have one too.

    Source: transformers, FP8Linear (``weight_scale_inv``); vLLM, Fp8LinearMethod (``weight_scale``, ``input_scale``);
    arXiv 2412.19437, section 3.3.2, for blocks of 128 × 128.
    """
    name = "fp8" if (rows, columns) == (WHOLE, WHOLE) else "fp8-channel" if columns is WHOLE else "fp8-block"
    beside = (Piece("input_scale", 32, WHOLE, WHOLE),) if static else ()
    return scaled(name, 8, "transformers, FP8Linear", Piece("scale", scale, rows, columns), *beside)


def _called(name: str, bits: int, group: int | None) -> str:
    """``gptq``, ``gptq-g32``, ``gptq-3bit-g64``, ``awq-g-1``: what differs from 4 bits in groups of 128."""
    size = "" if group == 128 else f"-g{-1 if group is None else group}"
    return name + ("" if bits == 4 else f"-{bits}bit") + size
