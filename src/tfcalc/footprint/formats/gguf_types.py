"""The block types of llama.cpp, as formats of matrices."""

from __future__ import annotations

from tfcalc.core.traced import known
from tfcalc.footprint.formats.formats import TABLES, Format, Piece, blocks
from tfcalc.number_formats import FP16, FP32, LLAMA_CPP

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
"""What a row is stored as that the block does not divide; F16 where that is no remedy either.

Source: src/llama-quant.cpp, ``tensor_type_fallback``.
"""

HALF = Format("f16", "ggml-common.h", (Piece("", FP16.bits),), kinds=TABLES, rest=FP32.name)
BRAIN = HALF._replace(name="gguf-bf16")


def block_type(name: str) -> Format:
    """Every matrix in this type (``llama-quantize --pure``), the rest in fp32, as convert_hf_to_gguf.py has it."""
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
    """This type, or what llama.cpp takes for rows that its blocks do not divide; symbols are taken to be divided."""
    found = block_type(name)
    size = known(columns)
    if size is None or size % found.block == 0:
        return found
    return fitting(found.instead, columns) if found.instead else HALF
