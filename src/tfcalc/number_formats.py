"""Number formats: bits, names in torch and elsewhere, and blocks of numbers that share scales.

How a library packs a matrix is in :mod:`tfcalc.serving.weight_formats`, how a cache is stored in
:mod:`tfcalc.serving.caches`.
"""

from tfcalc.named_tuple import NamedTuple

FLOAT, INTEGER = "float", "integer"


class NumberFormat(NamedTuple):
    """A number format.

    ``bits`` is its size in memory, ``torch`` the name of its ``torch.dtype`` (empty if there is none), and
    ``spellings`` are other names in use.
    """

    name: str
    bits: int
    kind: str = FLOAT
    torch: str = ""
    spellings: tuple[str, ...] = ()
    source: str = ""


FP64 = NumberFormat("fp64", 64, torch="float64", source="IEEE 754")
FP32 = NumberFormat("fp32", 32, torch="float32", spellings=("f32", "float"), source="IEEE 754")
BF16 = NumberFormat("bf16", 16, torch="bfloat16", source="torch.bfloat16")
FP16 = NumberFormat("fp16", 16, torch="float16", spellings=("half",), source="IEEE 754")
FP8 = NumberFormat("fp8-e4m3", 8, torch="float8_e4m3fn", spellings=("fp8", "e4m3"), source="arXiv 2209.05433")
FP8_E5M2 = NumberFormat("fp8-e5m2", 8, torch="float8_e5m2", spellings=("e5m2",), source="arXiv 2209.05433")
FP4 = NumberFormat("fp4", 4, source="OCP Microscaling v1.0, section 5.3.3")
INT64 = NumberFormat("int64", 64, INTEGER, "int64")
INT32 = NumberFormat("int32", 32, INTEGER, "int32")
INT8 = NumberFormat("int8", 8, INTEGER, "int8", source="accelerate estimate-memory: 1/4 of fp32")
UINT8 = NumberFormat("uint8", 8, INTEGER, "uint8")
BOOL = NumberFormat("bool", 8, INTEGER, "bool")
INT4 = NumberFormat("int4", 4, INTEGER, source="accelerate estimate-memory: 1/8 of fp32")

STORED = (FP64, FP32, BF16, FP16, FP8, FP8_E5M2, INT8, INT4)
"""Formats that all weights can be cast to."""

FORMATS = (*STORED, FP4, INT64, INT32, UINT8, BOOL)

NUMBERS = {
    name: number_format
    for number_format in FORMATS
    for name in (
        number_format.name,
        *number_format.spellings,
        number_format.torch,
        number_format.torch.replace("_", "-"),
    )
    if name
}
"""Formats by all their names: tfcalc's, torch's, and other spellings."""

WIDTHS = {number_format.torch: number_format.bits // 8 for number_format in FORMATS if number_format.torch}
"""Bytes of one number, by torch's name of its format."""

COMPUTED = (FP32.name, BF16.name, FP16.name)
"""Formats that layers compute in, and save for backward."""

FLOATS_ELSEWHERE = {name: one.name for one in (FP32, BF16, FP16) for name in (one.torch, *one.spellings)}
"""Names of these formats in PyTorch and in engines: bfloat16, half."""

MULTIPLIED = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4")
"""Precisions of accelerators' matrix products: tf32 is no storage format, fp8 is either of the two."""


class BlockFormat(NamedTuple):
    """Block of ``numbers`` of a row that are stored together: in ``bits``, and ``scales`` bits beside them."""

    numbers: int
    bits: int
    scales: int = 0


MXFP4 = BlockFormat(32, 32 * FP4.bits, 8)
MXFP8 = BlockFormat(32, 32 * FP8.bits, 8)
"""OCP Microscaling v1.0, section 5.1: a power of two as the scale of 32 numbers."""

NVFP4 = BlockFormat(16, 16 * FP4.bits, FP8.bits)
"""NVIDIA's: an fp8 scale of 16 numbers, and an fp32 one of the tensor."""

LLAMA_CPP = {
    name: BlockFormat(numbers, 8 * size)
    for name, numbers, size in (
        ("q1_0", 128, 18),
        ("q4_0", 32, 18),
        ("q4_1", 32, 20),
        ("q5_0", 32, 22),
        ("q5_1", 32, 24),
        ("q8_0", 32, 34),
        ("q8_1", 32, 40),
        ("q2_k", 256, 84),
        ("q3_k", 256, 110),
        ("q4_k", 256, 144),
        ("q5_k", 256, 176),
        ("q6_k", 256, 210),
        ("q8_k", 256, 292),
        ("iq1_s", 256, 50),
        ("iq1_m", 256, 56),
        ("iq2_xxs", 256, 66),
        ("iq2_xs", 256, 74),
        ("iq2_s", 256, 82),
        ("iq3_xxs", 256, 98),
        ("iq3_s", 256, 110),
        ("iq4_nl", 32, 18),
        ("iq4_xs", 256, 136),
        ("tq1_0", 256, 54),
        ("tq2_0", 256, 66),
    )
}
"""Block types of llama.cpp, with scales in their bytes. Source: ggml-common.h, static_assert of each block."""
