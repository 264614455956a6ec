"""The block types of llama.cpp: so many numbers of a row in so many bytes."""

from __future__ import annotations

from tfcalc.core.traced import known
from tfcalc.held.formats.formats import TABLES, Format, Piece

BLOCKS = {
    "q1_0": (128, 18),
    "q4_0": (32, 18),
    "q4_1": (32, 20),
    "q5_0": (32, 22),
    "q5_1": (32, 24),
    "q8_0": (32, 34),
    "q8_1": (32, 40),
    "q2_k": (256, 84),
    "q3_k": (256, 110),
    "q4_k": (256, 144),
    "q5_k": (256, 176),
    "q6_k": (256, 210),
    "q8_k": (256, 292),
    "iq1_s": (256, 50),
    "iq1_m": (256, 56),
    "iq2_xxs": (256, 66),
    "iq2_xs": (256, 74),
    "iq2_s": (256, 82),
    "iq3_xxs": (256, 98),
    "iq3_s": (256, 110),
    "iq4_nl": (32, 18),
    "iq4_xs": (256, 136),
    "tq1_0": (256, 54),
    "tq2_0": (256, 66),
}
"""Numbers and bytes of a block. Source: ggml/src/ggml-common.h, the static_assert of each ``block_…``."""

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

HALF = Format("f16", "ggml-common.h", (Piece("", 16),), kinds=TABLES, rest="fp32")
BRAIN = HALF._replace(name="gguf-bf16")


def block_type(name: str) -> Format:
    """Every matrix in this type (``llama-quantize --pure``), the rest in fp32, as convert_hf_to_gguf.py has it."""
    numbers, size = BLOCKS[name]
    return Format(
        f"{name}-pure",
        "llama.cpp, ggml-common.h",
        (Piece(name, 8 * size, 1, numbers),),
        kinds=TABLES,
        rest="fp32",
        block=numbers,
        instead=INSTEAD.get(name, ""),
    )


def fitting(name: str, columns: object) -> Format:
    """This type, or what llama.cpp takes for rows that its blocks do not divide; symbols are taken to be divided."""
    found = block_type(name)
    size = known(columns)
    if size is None or size % found.block == 0:
        return found
    return fitting(found.instead, columns) if found.instead else HALF
