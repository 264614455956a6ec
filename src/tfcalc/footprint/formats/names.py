"""The formats by the names that people write."""

from __future__ import annotations

import re

from tfcalc.errors import UsageError, nearest
from tfcalc.footprint.formats.formats import (
    WHOLE,
    Format,
    Piece,
    awq,
    bitsandbytes_4bit,
    blocks,
    fp8,
    gptq,
    plain,
    scaled,
    scales,
)
from tfcalc.footprint.formats.gguf_files import ALSO, DEFAULTS
from tfcalc.footprint.formats.gguf_types import BRAIN, HALF, block_type
from tfcalc.footprint.formats.mixture import Mixture
from tfcalc.number_formats import FP8, FP32, INT8, LLAMA_CPP, MXFP4, MXFP8, NUMBERS, NVFP4, STORED
from tfcalc.printable import quoted

PLAIN = {each.name: each for each in map(plain, STORED)}
"""Every tensor in this format, whatever it is, with no scales."""

_PER_TENSOR = Piece("weight_scale_2", FP32.bits, WHOLE, WHOLE)
QUANTIZED = {
    one.name: one
    for one in (
        scaled("int8", INT8.bits, "bitsandbytes, Linear8bitLt; arXiv 2208.07339", Piece("SCB", FP32.bits, 1, WHOLE)),
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

ALIASES = {"llm.int8": "int8", "int8-channel": "w8a8", "gguf-f16": "f16", "qlora": "nf4-dq"}

_GROUPED = re.compile(r"(gptq|awq|int4)(?:-([2348])bit)?(?:-g(-1|\d{1,5}))?", re.ASCII)


def known_names() -> list[str]:
    """All that :func:`format_named` takes, but for ``gptq-3bit-g64`` and the like."""
    return [*PLAIN, *QUANTIZED, *sorted(DEFAULTS), HALF.name, BRAIN.name, *PURE]


def format_named(name: str) -> Format | Mixture:
    """The format that a name means. Raises UsageError with the nearest name for others.

    ``gptq-3bit-g64`` and ``awq-g32`` state bits and group. ``q4_k_m``, ``q8_0`` … are llama-quantize's file types,
    which mix block types (:mod:`tfcalc.footprint.formats.gguf_files`); ``q4_k-pure`` … are the block types themselves.

    >>> format_named("NF4").name, format_named("gptq-g32").name, format_named("q4_k").name
    ('nf4', 'gptq-g32', 'q4_k_m')
    """
    asked = name.strip().lower()
    file = asked.replace("-", "_").removeprefix("gguf_")
    file = ALSO.get(file, file)
    if file in DEFAULTS:
        return Mixture(file)
    return single(asked)


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
