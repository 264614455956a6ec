"""Number formats of weights: their names, and the tensors that a matrix is stored as in each.

A file type of llama-quantize such as Q4_K_M mixes block types: which one a matrix has is told by its rules, with the
matrix's place and the model's traits. An importance matrix is taken to be there for the types that llama-quantize
refuses without one (``iq1_…``, ``iq2_…``, ``iq3_xxs``), and for no others.

Source: llama.cpp, src/llama-quant.cpp, ``llama_tensor_get_type_impl`` (of 2026).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfcalc.core.component import Component, Held
from tfcalc.core.measure import bytes_of
from tfcalc.core.number import Num, ceil_div, total
from tfcalc.core.traced import known
from tfcalc.errors import InvalidModel, UsageError, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import (
    FLOAT,
    FP8,
    FP16,
    FP32,
    INT8,
    LLAMA_CPP,
    MXFP4,
    MXFP8,
    NUMBERS,
    NVFP4,
    STORED,
    BlockFormat,
    NumberFormat,
)
from tfcalc.printable import quoted

if TYPE_CHECKING:
    from fractions import Fraction


DEFAULTS = {
    **{name: name for name in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q6_k", "tq1_0", "tq2_0")},
    **{name: name for name in ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs")},
    "q2_k_s": "q2_k",
    **dict.fromkeys(("q3_k_s", "q3_k_m", "q3_k_l"), "q3_k"),
    **dict.fromkeys(("q4_k_s", "q4_k_m"), "q4_k"),
    **dict.fromkeys(("q5_k_s", "q5_k_m"), "q5_k"),
    "iq2_s": "iq2_xs",
    "iq2_m": "iq2_s",
    **dict.fromkeys(("iq3_xs", "iq3_m"), "iq3_s"),
}
"""The type of most matrices in each file type."""

ALSO = {"q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m"}
"""llama-quantize's short names."""

LOWEST = ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m")
LLM_INT8 = "int8"
"""bitsandbytes' format of 8 bits (arXiv 2208.07339), whose products are those of integers."""
OUTPUT, EMBEDDING = "output", "embedding"
LETTERS = {"W_V": "v", "W_QKV": "qkv", "W_UKV": "kv_b", "W_K": "k", "W_Q": "q", "W_O": "o", "W_2": "down"}
"""llama.cpp's categories of tfcalc's matrices; all others take the default, or are known by their layer."""
GATES = ("W_1", "W_g")
ONLY_THREE = ("q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m")
ONLY_THREE_I = ("iq3_xs", "iq3_xxs", "iq3_s", "iq3_m", "iq4_nl", "iq4_xs")


class ModelTraits(NamedTuple):
    """Properties of a model that the rules depend on: grouped queries, experts, tied embeddings, layers."""

    grouped: bool = False
    experts: int = 0
    tied: bool = False
    layers: int = 0


def type_of(file: str, what: str, layer: int, facts: ModelTraits) -> str:
    """The block type of the matrix that ``what`` names, in this layer.

    >>> [type_of("q4_k_m", "W_V", layer, ModelTraits(layers=32)) for layer in (3, 4, 6, 31)]
    ['q6_k', 'q4_k', 'q6_k', 'q6_k']
    """
    default = DEFAULTS[file]
    if what == OUTPUT or (what == EMBEDDING and facts.tied):
        return "q5_k" if file in (*LOWEST, "iq3_xxs") else default if default == "q8_0" else "q6_k"
    if what == EMBEDDING:
        return _embedding(file) or default
    category = "gate" if what in GATES else LETTERS.get(what, "")
    if file in LOWEST:
        return _lowest(file, category, layer, facts) or default
    if category in ("v", "qkv", "kv_b"):
        return _values(file, default, layer, facts)
    if category == "down":
        return _down(file, layer, facts) or default
    if category == "o":
        return _attention_output(file, facts) or default
    if category == "k" and facts.experts == 8:
        return "q8_0"
    if category in ("k", "q"):
        return {"iq3_xs": "iq3_xxs", "iq3_xxs": "iq2_s"}.get(file, default)
    middle = facts.layers // 8 <= layer < 7 * facts.layers // 8
    return "iq3_xxs" if category == "gate" and file == "iq3_xs" and middle else default


def more_bits(layer: int, layers: int) -> bool:
    """The first and the last eighth of the layers, and every third between them (``use_more_bits``)."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def _embedding(file: str) -> str:
    if file in ("iq2_s", "iq2_m", "iq3_xxs"):
        return "iq3_s"
    if file in LOWEST:
        return "q2_k"
    return "q4_k" if file in ("tq1_0", "tq2_0") else ""


def _lowest(file: str, category: str, layer: int, facts: ModelTraits) -> str:
    two = "iq3_s" if file in ("iq2_s", "iq2_m") else "q2_k"
    if category in ("v", "qkv", "kv_b"):
        return "q4_k" if facts.grouped or facts.experts >= 4 else two
    if category == "k" and facts.experts == 8:
        return "q4_k"
    if category == "down" and layer < facts.layers // 8:
        return two
    if category == "o" and facts.experts == 8:
        return "q5_k"
    one = {"iq1_s": "iq2_xxs", "iq1_m": "iq2_xxs", "iq2_s": "iq3_s", "iq2_m": "iq3_s"}
    return one.get(file, "") if category == "o" else ""


def _values(file: str, default: str, layer: int, facts: ModelTraits) -> str:
    found = default
    if file == "q2_k":
        found = "q4_k" if facts.grouped else "q3_k"
    elif file in ("q2_k_s", "iq3_xxs", "iq3_xs", "iq3_s") and facts.grouped:
        found = "q4_k"
    elif file in ("iq4_nl", "iq4_xs") and facts.grouped:
        found = "q5_k"
    elif file == "iq3_m":
        found = "q4_k"
    elif file == "q3_k_m":
        found = "q5_k" if layer < 2 else "q4_k"
    elif file == "q3_k_l" or (file == "q4_k_s" and layer < 4):
        found = "q5_k"
    elif file in ("q4_k_m", "q5_k_m") and more_bits(layer, facts.layers):
        found = "q6_k"
    if facts.layers == 80 and found in ("q3_k", "q4_k"):
        found = "q5_k"
    return "q8_0" if facts.experts == 8 else found


def _down(file: str, layer: int, facts: ModelTraits) -> str:
    first = layer < facts.layers // 8
    more = more_bits(layer, facts.layers)
    if file == "q2_k":
        return "q3_k"
    if file == "q3_k_m":
        return "q5_k" if layer < facts.layers // 16 else "q4_k"
    if file == "q3_k_l" or (file in ("q4_k_s", "iq4_nl", "iq4_xs") and first):
        return "q5_k"
    if (file == "q2_k_s" and first) or (file == "iq3_m" and (first or (facts.experts == 8 and more))):
        return "q4_k"
    return "q6_k" if file in ("q4_k_m", "q5_k_m") and more else ""


def _attention_output(file: str, facts: ModelTraits) -> str:
    if facts.experts == 8:
        return "q5_k" if file in (*ONLY_THREE, *ONLY_THREE_I) else ""
    chosen = {"q2_k": "q3_k", "iq3_xxs": "iq3_s", "q3_k_m": "q4_k", "q3_k_l": "q5_k", "iq3_m": "q4_k"}
    return chosen.get(file, "")


LINEAR = ("linear",)
"""Kinds that most libraries quantize: linear maps alone, no embeddings, output head, routers, norms, convolutions."""

TABLES = (*LINEAR, "output", "embedding")
"""Kinds that llama.cpp quantizes: the vocabulary's two matrices as well."""

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
        """Factors of the number of pieces."""
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
        """Return whether every tensor of a model is stored in it, without quantization."""
        return not self.kinds

    @property
    def bits(self) -> int:
        """Bits of one number of a plain format."""
        return self.pieces[0].bits

    @property
    def least_bits(self) -> int:
        """Bits of one number, without scales, rounded down.

        >>> from tfcalc.serving.weight_formats import single
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

        >>> from tfcalc.serving.weight_formats import single
        >>> single("nf4").bytes(4096, 4096), single("q8_0-pure").bytes(4096, 4096)
        (9437248, 17825792)
        """
        return total(bytes_of(held.size, held.bits) for held in self.held("", rows, columns))

    def bits_per_weight(self, rows: int, columns: int) -> Fraction:
        """True bits per number of a matrix of this shape: ``8 · bytes / (rows · columns)``.

        >>> from tfcalc.serving.weight_formats import single
        >>> single("mxfp4").bits_per_weight(2880, 2880), float(single("nvfp4").bits_per_weight(4096, 4096))
        (Fraction(17, 4), 4.500001907348633)
        """
        from fractions import Fraction  # slow to import, and rarely asked for

        return Fraction(8 * int(self.bytes(rows, columns)), rows * columns)  # type: ignore[call-overload]


def plain(numbers: NumberFormat) -> Format:
    """Format of every tensor cast to these numbers, with no scales.

    Integers are else what a library scales, so the name is ``int8-plain``.
    """
    name = numbers.name if numbers.kind == FLOAT else f"{numbers.name}-plain"
    return Format(name, numbers.source, (Piece("", numbers.bits),), kinds=())


def blocks(name: str, of: BlockFormat) -> Piece:
    """The numbers of a row in whole blocks."""
    return Piece(name, of.bits, 1, of.numbers)


def scales(name: str, of: BlockFormat) -> Piece:
    """Scales of the blocks of a row."""
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
    """Format of numbers of ``bits`` bits, and scales beside them."""
    return Format(name, source, (Piece("", bits), *scales))


def fp8(rows: int | None, columns: int | None, *, static: bool = False, scale: int = 32) -> Format:
    """8-bit floats with a scale of ``scale`` bits for every ``rows`` × ``columns``; ``static`` inputs have one too.

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


INSTEAD = {
    "q2_k": "q4_0",
    "q3_k": "q4_0",
    "q4_k": "q5_0",
    "q5_k": "q5_1",
    "q6_k": "q8_0",
    "tq1_0": "q4_0",
    "tq2_0": "q4_0",
    **dict.fromkeys(("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_xs"), "iq4_nl"),
}
"""BlockFormat types for rows that the block does not divide; F16 where that does not help either.

Source: src/llama-quant.cpp, ``tensor_type_fallback``.
"""

HALF = Format("f16", "ggml-common.h", (Piece("", FP16.bits),), kinds=TABLES, rest=FP32.name)
BRAIN = HALF._replace(name="gguf-bf16")


def block_type(name: str) -> Format:
    """Format with every matrix in this type (``llama-quantize --pure``).

    The rest is in fp32, as convert_hf_to_gguf.py has it.
    """
    block = LLAMA_CPP[name]
    return Format(
        f"{name}-pure",
        "llama.cpp, ggml-common.h",
        (blocks(name, block),),
        kinds=TABLES,
        rest=FP32.name,
        block=block.numbers,
        instead=INSTEAD.get(name, ""),
    )


def fitting(name: str, columns: object) -> Format:
    """Return this type, or llama.cpp's substitute for rows that its blocks do not divide; symbols count as divided."""
    found = block_type(name)
    size = known(columns)
    if size is None or size % found.block == 0:
        return found
    return fitting(found.instead, columns) if found.instead else HALF


BY_LAYER = (*LOWEST, "q2_k_s", "q3_k_m", "q4_k_s", "q4_k_m", "q5_k_m", "iq3_xs", "iq3_m", "iq4_nl", "iq4_xs")
"""File types that give the first layers, or every third, another block type."""


BY_NAME = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q6_k", "tq1_0", "tq2_0")
"""File types that ask nothing of a model's sizes, but whether it has 8 experts."""


class MixedFormat(NamedTuple):
    """File type of llama-quantize, which gives each matrix a block type: ``q4_k_m``.

    Source: llama.cpp, src/llama-quant.cpp; see :mod:`tfcalc.serving.weight_formats`.
    """

    name: str
    source: str = "llama.cpp, src/llama-quant.cpp"
    kinds: tuple[str, ...] = TABLES
    rest: str = "fp32"
    plain: bool = False

    @property
    def by_layer(self) -> bool:
        """Return whether layers differ."""
        return self.name in BY_LAYER

    def of(self, kind: str, tensor: str, layer: int, columns: object, facts: ModelTraits) -> Format:
        """The block type of this matrix."""
        what = kind if kind in ("output", "embedding") else tensor
        return fitting(type_of(self.name, what, layer, facts), columns)


def facts_of(tree: Component, name: str) -> ModelTraits:
    """Properties of a model that llama.cpp's rules for this file type depend on.

    Raises InvalidModel for a family that it has other rules for, and where they ask for a size that is a symbol.
    """
    if tree.name.startswith("Falcon") and "Mamba" not in tree.name:
        raise InvalidModel(
            f"llama.cpp mixes the types of a {tree.name} by rules of its own", "write q4_k-pure or q8_0-pure"
        )
    experts = layers = 0
    shapes: dict[str, tuple[int, int]] = {}
    tied = True
    for node in tree.walk():
        part = node.component
        if part.kind == "experts" or (part.kind == "layer" and name not in BY_NAME):
            _check(part, name)
        if part.kind == "experts" and isinstance(part.copies, int):
            experts = max(experts, part.copies)
        stacked = sum(inner.copies for inner in part.parts if inner.kind == "layer" and isinstance(inner.copies, int))
        layers = max(layers, stacked)
        for weight in part.own.weights:
            tied = tied and not (part.kind == "output" and weight.key == "weight" and weight.tied_to is None)
            if len(weight.shape) == 2 and all(isinstance(size, int) for size in weight.shape):
                fan_in, fan_out = weight.shape
                shapes.setdefault(weight.name, (int(fan_in), int(fan_out)))  # type: ignore[call-overload]
    queries = shapes["W_O"][0] if "W_O" in shapes else 0
    joined = (shapes["W_QKV"][1] - queries) // 2 if "W_QKV" in shapes else 0
    values = shapes["W_V"][1] if "W_V" in shapes else joined
    return ModelTraits(0 < 4 * values <= queries, experts, tied, layers)


def _check(part: Component, name: str) -> None:
    sizes = [part.copies, *(size for node in part.walk() for one in node.component.own.weights for size in one.shape)]
    if not all(isinstance(size, int) for size in sizes):
        raise InvalidModel(
            f"llama.cpp's {name} gives each {part.kind} its types by sizes, which are symbols here",
            "give the sizes, or take one type for all: q8_0-pure",
        )


PLAIN = {each.name: each for each in map(plain, STORED)}
"""Every tensor in this format, whatever it is, with no scales."""

_PER_TENSOR = Piece("weight_scale_2", FP32.bits, WHOLE, WHOLE)
QUANTIZED = {
    one.name: one
    for one in (
        scaled(LLM_INT8, INT8.bits, "bitsandbytes, Linear8bitLt; arXiv 2208.07339", Piece("SCB", FP32.bits, 1, WHOLE)),
        scaled("w8a8", INT8.bits, "vLLM, CompressedTensorsW8A8Int8", Piece("weight_scale", FP32.bits, 1, WHOLE)),
        awq(name="int4"),
        gptq(),
        awq(),
        *(bitsandbytes_4bit(kind, double=double) for kind in ("nf4", "fp4") for double in (False, True)),
        fp8(WHOLE, WHOLE),
        fp8(1, WHOLE),
        fp8(128, 128),
        Format("mxfp4", "OCP Microscaling v1.0, section 5.1", (blocks("blocks", MXFP4), scales("scales", MXFP4))),
        scaled("mxfp8", FP8.bits, "OCP Microscaling v1.0, section 5.1", scales("scales", MXFP8)),
        Format("nvfp4", "NVIDIA ModelOpt", (blocks("", NVFP4), scales("weight_scale", NVFP4), _PER_TENSOR)),
    )
}
"""The linear maps in this format; embeddings, head, routers, norms, biases and convolutions as they were."""

PURE = {f"{name}-pure": block_type(name) for name in LLAMA_CPP}
"""llama.cpp's block types, every matrix in the same (``llama-quantize --pure``)."""

SINGLE: dict[str, Format] = PLAIN | QUANTIZED | PURE | {HALF.name: HALF, BRAIN.name: BRAIN}

MULTIPLIED_IN = {"fp8": "fp8", "mxfp8": "fp8", "w8a8": "int8", "nvfp4": "fp4", "mxfp4": "fp4"}
"""Number format of both operands of a product, by how the name of a format begins; all others are of weights alone."""


def multiplied_in(recipe: Format | MixedFormat) -> str:
    """Return the number format in which weights of a format are multiplied; empty: in 16 bits, which they are read as.

    It is so on GPUs that have such products; on others engines read these weights as 16 bits, too (Marlin).

    Source: vLLM's Fp8LinearMethod, CompressedTensorsW8A8Int8 and ModelOptNvFp4LinearMethod; its marlin_utils_fp8.py and
    marlin_utils_fp4.py for GPUs without.

    >>> [multiplied_in(format_named(name)) for name in ("fp8-block", "w8a8", "nvfp4", "awq", "q4_k_m")]
    ['fp8', 'int8', 'fp4', '', '']
    """
    return next((numbers for start, numbers in MULTIPLIED_IN.items() if recipe.name.startswith(start)), "")


def multiplied_at_best(recipe: Format | MixedFormat) -> str:
    """Return the number format of the fastest kernel: that, or int8 where a library rounds the other operand to it.

    Source: llama.cpp's pull request 7860 (tensor cores of int8 for MMQ), and bitsandbytes' igemmlt.

    >>> [multiplied_at_best(format_named(name)) for name in ("q4_k_m", "q8_0-pure", "int8", "fp8", "gptq")]
    ['int8', 'int8', 'int8', 'fp8', '']
    """
    rounds = recipe.name in (*DEFAULTS, *PURE, LLM_INT8)
    return INT8.name if rounds else multiplied_in(recipe)


ALIASES = {"llm.int8": "int8", "int8-channel": "w8a8", "gguf-f16": "f16", "qlora": "nf4-dq"}
ALIASES |= dict.fromkeys(("4bit", "4-bit"), "nf4") | dict.fromkeys(("8bit", "8-bit"), "int8")

_GROUPED = re.compile(r"(gptq|awq|int4)(?:-([2348])bit)?(?:-g(-1|\d{1,5}))?", re.ASCII)


def known_names() -> list[str]:
    """Names that :func:`format_named` takes, all but ``gptq-3bit-g64`` and the like."""
    return [*PLAIN, *QUANTIZED, *sorted(DEFAULTS), HALF.name, BRAIN.name, *PURE]


def format_named(name: str) -> Format | MixedFormat:
    """The format that a name means. Raises UsageError with the nearest name for others.

    ``gptq-3bit-g64`` and ``awq-g32`` state bits and group. ``q4_k_m``, ``q8_0`` … are llama-quantize's file types,
    which mix block types (:mod:`tfcalc.serving.weight_formats`); ``q4_k-pure`` … are the block types themselves.

    >>> format_named("NF4").name, format_named("gptq-g32").name, format_named("q4_k").name
    ('nf4', 'gptq-g32', 'q4_k_m')
    """
    asked = name.strip().lower()
    file = asked.replace("-", "_").removeprefix("gguf_")
    file = ALSO.get(file, file)
    if file in DEFAULTS:
        return MixedFormat(file)
    return single(asked)


def file_type(name: str) -> str | None:
    """Return the name of a file type of llama.cpp that is meant; None where it is none that is known.

    >>> file_type("Q4_K_M"), file_type("fp16"), file_type("q4_k_xl") is None
    ('q4_k_m', 'f16', True)
    """
    asked = name.lower().replace("fp16", HALF.name)
    file = ALSO.get(asked, asked)
    return file if file in DEFAULTS or file in (HALF.name, BRAIN.name, FP32.name) else None


def single(name: str) -> Format:
    """The format of this name that is no mixture. Raises UsageError with the nearest name for others."""
    asked = name.strip().lower()
    dashed = asked.replace("_", "-")
    for spelled in (
        asked,
        dashed,
        ALIASES.get(dashed, dashed),
        NUMBERS[dashed].name if dashed in NUMBERS else dashed,
        dashed.replace("-pure", "").replace("-", "_") + "-pure",
    ):
        if spelled in SINGLE and (spelled.endswith("-pure") is dashed.endswith("-pure")):
            return SINGLE[spelled]
    if dashed == "tf32":
        raise UsageError("tf32 is a way to multiply, not to store", "its numbers are stored as fp32: write fp32")
    grouped = _GROUPED.fullmatch(dashed)
    if grouped:
        bits, group = int(grouped[2] or 4), int(grouped[3] or 128)
        if group:
            size = None if group < 0 else group
            return gptq(bits, size) if grouped[1] == "gptq" else awq(bits, size, grouped[1])
    raise UsageError(f"weight format {quoted(name)} is not known", nearest(asked, known_names()))
