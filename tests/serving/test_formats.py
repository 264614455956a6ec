"""The bytes of a matrix in each format, against the libraries that make such matrices."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc.core.measure import bytes_of
from tfcalc.core.number import total
from tfcalc.core.polynomial import symbols
from tfcalc.errors import UsageError
from tfcalc.number_formats import LLAMA_CPP
from tfcalc.serving.weight_formats import (
    SINGLE,
    Format,
    awq,
    fitting,
    format_named,
    gptq,
    grouped_integers,
    known_names,
    single,
)

MATRICES = recorded("memory/quantized-matrices.jsonl")
NOT_TENSORS = ("rows", "columns", "bits", "group", "symmetric")


def _called(row: dict[str, object]) -> Format:
    if "format" in row:
        return single(str(row["format"]))
    return grouped_integers(int(str(row["bits"])), int(str(row["group"])), zeros=not row["symmetric"])


@pytest.mark.parametrize("row", MATRICES, ids=lambda row: f"{row['call']}-{row['rows']}x{row['columns']}")
def test_a_quantized_matrix_takes_what_the_library_holds(row: dict[str, object]) -> None:
    tensors = {name: size for name, size in row.items() if isinstance(size, int) and name not in NOT_TENSORS}
    assert _called(row).bytes(row["rows"], row["columns"]) == sum(tensors.values())  # type: ignore[arg-type]


@pytest.mark.parametrize("row", MATRICES, ids=lambda row: f"{row['call']}-{row['rows']}x{row['columns']}")
def test_each_tensor_of_it_takes_as_much(row: dict[str, object]) -> None:
    found = _called(row).held("", row["rows"], row["columns"])  # type: ignore[arg-type]
    theirs = sorted(size for name, size in row.items() if isinstance(size, int) and name not in NOT_TENSORS)
    assert sorted(bytes_of(held.size, held.bits) for held in found) == theirs  # type: ignore[type-var]


def test_every_block_type_is_that_of_gguf_py() -> None:
    theirs: Any = recorded("memory/gguf-types.json")
    assert {name: tuple(theirs[name]) for name in LLAMA_CPP} == {
        name: (block.numbers, block.bits // 8) for name, block in LLAMA_CPP.items()
    }


@pytest.mark.parametrize(
    ("name", "bits"),
    [("nf4", 4 + 0.5), ("nf4-dq", 4 + 8 / 64 + 32 / (64 * 256)), ("mxfp4", 4.25), ("nvfp4", 4.5), ("mxfp8", 8.25)],
)
def test_bits_per_weight_are_those_of_the_papers(name: str, bits: float) -> None:
    """QLoRA, arXiv 2305.14314, p. 5 (0.5 and 0.127 bits); OCP Microscaling v1.0; NVIDIA's NVFP4: a large matrix."""
    assert float(single(name).bits_per_weight(1 << 14, 1 << 14)) == pytest.approx(bits, rel=2e-5)


def test_double_quantization_saves_what_qlora_says() -> None:
    """0.373 bits per parameter, arXiv 2305.14314, p. 5."""
    size = 1 << 14
    saved = single("nf4").bits_per_weight(size, size) - single("nf4-dq").bits_per_weight(size, size)
    assert float(saved) == pytest.approx(0.373, abs=5e-4)


def test_gptq_of_one_linear_map_has_the_shapes_of_its_quant_linear() -> None:
    """4096 × 11008 of Llama-7B: qweight [512, 11008], qzeros [32, 1376], scales [32, 11008], g_idx [4096]."""
    sizes = {held.name: bytes_of(held.size, held.bits) for held in gptq().held("", 11008, 4096)}
    assert sizes == {
        " qweight": 512 * 11008 * 4,
        " qzeros": 32 * 1376 * 4,
        " scales": 32 * 11008 * 2,
        " g_idx": 4096 * 4,
    }


def test_awq_is_gptq_without_the_indices() -> None:
    assert gptq().bytes(4096, 4096) - awq().bytes(4096, 4096) == 4 * 4096


def test_gptq_packs_three_bits_in_triples_of_words() -> None:
    """GPTQModel: 32 numbers of 3 bits in 3 words."""
    first = gptq(3).held("", 64, 256)[0]
    assert bytes_of(first.size, first.bits) == 256 // 32 * 3 * 64 * 4


def test_a_groups_last_part_is_filled_up() -> None:
    """130 inputs are two groups of 128: two scales for each of 8 rows."""
    scales = awq().held("", 8, 130)[1]
    assert bytes_of(scales.size, scales.bits) == 8 * 2 * 2


def test_one_group_spans_a_row_where_the_size_is_minus_one() -> None:
    scales = gptq(4, None).held("", 8, 4096)[1]
    assert bytes_of(scales.size, scales.bits) == 8 * 2


def test_deepseeks_scales_are_one_for_each_begun_square_of_128() -> None:
    """kv_a_proj_with_mqa of DeepSeek-V3, 576 × 7168, has 5 × 56 scales (arXiv 2412.19437, section 3.3.2)."""
    assert single("fp8-block").bytes(576, 7168) == 576 * 7168 + 5 * 56 * 4


@pytest.mark.parametrize(
    ("name", "columns", "instead"),
    [("q4_k", 896, "q5_0-pure"), ("q6_k", 896, "q8_0-pure"), ("iq4_xs", 896, "iq4_nl-pure"), ("q4_k", 33, "f16")],
)
def test_rows_that_no_block_divides_fall_back_as_llama_cpps_do(name: str, columns: int, instead: str) -> None:
    """tensor_type_fallback; 896 is Qwen2.5-0.5B's width."""
    assert fitting(name, columns).name == instead


@pytest.mark.parametrize("name", sorted(SINGLE))
def test_symbols_count_what_numbers_count(name: str) -> None:
    o, i = symbols("o i")
    values = {"o": 1000, "i": 2560}
    symbolic = total(bytes_of(held.size, held.bits) for held in SINGLE[name].held("", o, i))
    assert symbolic.at(values) == SINGLE[name].bytes(1000, 2560)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", known_names())
def test_every_known_name_is_taken_in_capitals_too(name: str) -> None:
    assert format_named(name.upper()) == format_named(name)


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("NF4", "nf4"),
        ("float16", "fp16"),
        ("Q4_K", "q4_k_m"),
        ("q4-k-m", "q4_k_m"),
        ("q8_0_pure", "q8_0-pure"),
        ("gptq-3bit-g64", "gptq-3bit-g64"),
        ("awq-g32", "awq-g32"),
        ("gptq-g-1", "gptq-g-1"),
        ("nf4_dq", "nf4-dq"),
    ],
)
def test_names_that_people_write_are_understood(name: str, means: str) -> None:
    assert format_named(name).name == means


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("nf5", "nf4"), ("q4_km", "q4_k_m"), ("mxpf4", "mxfp4"), ("tf32", "write fp32"), ("gptq-g0", "gptq")],
)
def test_a_slip_is_answered_by_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=nearest):
        format_named(name)


def test_bits_per_weight_are_exact() -> None:
    assert single("q4_k-pure").bits_per_weight(4096, 4096) == Fraction(9, 2)
