"""The formats by the names that people write."""

from __future__ import annotations

import re

from tfcalc.errors import UsageError, nearest
from tfcalc.held.formats.formats import (
    LINEAR,
    WHOLE,
    Format,
    Piece,
    awq,
    bitsandbytes_4bit,
    fp8,
    gptq,
    plain,
    scaled,
)
from tfcalc.held.formats.gguf_files import ALSO, DEFAULTS
from tfcalc.held.formats.gguf_types import BLOCKS, BRAIN, HALF, block_type
from tfcalc.held.formats.mixture import Mixture
from tfcalc.printable import quoted

PLAIN = {
    one.name: one
    for one in (
        plain("fp64", 64, "IEEE 754"),
        plain("fp32", 32, "IEEE 754"),
        plain("bf16", 16, "torch.bfloat16"),
        plain("fp16", 16, "IEEE 754"),
        plain("fp8-e4m3", 8, "arXiv 2209.05433"),
        plain("fp8-e5m2", 8, "arXiv 2209.05433"),
        plain("int8-plain", 8, "accelerate estimate-memory: 1/4 of fp32"),
        plain("int4-plain", 4, "accelerate estimate-memory: 1/8 of fp32"),
    )
}
"""Every tensor in this format, whatever it is, with no scales."""

_PER_TENSOR = Piece("weight_scale_2", 32, WHOLE, WHOLE)
QUANTIZED = {
    one.name: one
    for one in (
        scaled("int8", 8, "bitsandbytes, Linear8bitLt; arXiv 2208.07339", Piece("SCB", 32, 1, WHOLE)),
        scaled("w8a8", 8, "vLLM, CompressedTensorsW8A8Int8", Piece("weight_scale", 32, 1, WHOLE)),
        awq(name="int4"),
        gptq(),
        awq(),
        *(bitsandbytes_4bit(kind, double=double) for kind in ("nf4", "fp4") for double in (False, True)),
        fp8(WHOLE, WHOLE),
        fp8(1, WHOLE),
        fp8(128, 128),
        Format("mxfp4", "OCP Microscaling v1.0, section 5.1", (Piece("blocks", 128, 1, 32), Piece("scales", 8, 1, 32))),
        scaled("mxfp8", 8, "OCP Microscaling v1.0, section 5.1", Piece("scales", 8, 1, 32)),
        Format(
            "nvfp4", "NVIDIA ModelOpt", (Piece("", 64, 1, 16), Piece("weight_scale", 8, 1, 16), _PER_TENSOR), LINEAR
        ),
    )
}
"""The linear maps in this format; embeddings, head, routers, norms, biases and convolutions as they were."""

PURE = {f"{name}-pure": block_type(name) for name in BLOCKS}
"""llama.cpp's block types, every matrix in the same (``llama-quantize --pure``)."""

SINGLE: dict[str, Format] = PLAIN | QUANTIZED | PURE | {HALF.name: HALF, BRAIN.name: BRAIN}

ALIASES = {
    "float64": "fp64",
    "float32": "fp32",
    "f32": "fp32",
    "float": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "e4m3": "fp8-e4m3",
    "float8-e4m3fn": "fp8-e4m3",
    "e5m2": "fp8-e5m2",
    "float8-e5m2": "fp8-e5m2",
    "llm.int8": "int8",
    "int8-channel": "w8a8",
    "gguf-f16": "f16",
    "qlora": "nf4-dq",
}

_GROUPED = re.compile(r"(gptq|awq|int4)(?:-([2348])bit)?(?:-g(-1|\d{1,5}))?", re.ASCII)


def known_names() -> list[str]:
    """All that :func:`format_named` takes, but for ``gptq-3bit-g64`` and the like."""
    return [*PLAIN, *QUANTIZED, *sorted(DEFAULTS), HALF.name, BRAIN.name, *PURE]


def format_named(name: str) -> Format | Mixture:
    """The format that a name means. Raises UsageError with the nearest name for others.

    ``gptq-3bit-g64`` and ``awq-g32`` state bits and group. ``q4_k_m``, ``q8_0`` … are llama-quantize's file types,
    which mix block types (see :mod:`tfcalc.held.formats.gguf_files`); ``q4_k-pure`` … are the block types themselves.

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
