"""The table of accelerators: dense peaks alone, each with its source; and the names that people type."""

from __future__ import annotations

import pytest

from tfcalc.cli.commands.flops import MACHINES
from tfcalc.errors import UsageError
from tfcalc.hardware import APPLE, CONTEXT, STATUS, accelerators, looks_sparse, named, parse_gpu
from tfcalc.number_formats import MULTIPLIED
from tfcalc.units import parse_bytes

DATASHEETS = {
    "V100-SXM2-32": ("fp16", 125),
    "A100-SXM-80": ("bf16", 312),
    "H100-SXM": ("bf16", 989.4),
    "H200-SXM": ("fp8", 1978.9),
    "MI300X": ("bf16", 1307.4),
    "TPUv4": ("bf16", 275),
    "TPUv5p": ("bf16", 459),
    "L4": ("bf16", 121),
    "RTX-3080-10": ("bf16", 59.5),
    "RTX-4080": ("bf16", 97.5),
    "RTX-5080": ("fp8", 225.1),
    "M1-Max-32": ("fp32", 10.4),
    "M2-Ultra-64": ("fp32", 27.2),
}
"""TFLOP/s without sparsity, as vendors print them."""


@pytest.mark.parametrize("name", DATASHEETS)
def test_a_peak_is_the_dense_one(name: str) -> None:
    precision, teraflops = DATASHEETS[name]
    found = next(one for one in accelerators() if one.name == name)
    assert found.peak(precision) == pytest.approx(teraflops * 1e12, rel=2e-3)


def test_every_figure_has_its_source_and_its_status() -> None:
    for one in accelerators():
        assert one.sources
        assert one.memory_sources
        assert one.rates_sources
        assert {one.status, one.memory_status, one.rates_status} <= set(STATUS)
        assert one.peaks
        assert set(one.peaks) <= set(MULTIPLIED)


def test_no_peak_is_another_ones_with_sparsity() -> None:
    """Half the bits are at most twice the rate: a row with a sparse figure among dense ones would show.

    Gaudi 3 has units of their own for bf16, and its tf32 runs elsewhere.
    """
    for one in accelerators():
        for wide, narrow in (("bf16", "fp8"), ("fp16", "int8"), ("tf32", "bf16")):
            if wide in one.peaks and narrow in one.peaks and not one.name.startswith(("RTX-3090", "Gaudi3")):
                assert one.peaks[narrow] <= 2.1 * one.peaks[wide] or one.name.startswith("RTX"), one.name
        assert looks_sparse(one.peaks.get("bf16", 1.0), "bf16") is None


NAMES = {
    "h100": "H100-SXM",
    "H100 SXM5": "H100-SXM",
    "NVIDIA H100 80GB HBM3": "H100-SXM",
    "h100_pcie": "H100-PCIe",
    "a100": "A100-SXM-40",
    "NVIDIA A100-SXM4-80GB": "A100-SXM-80",
    "a100 40gb": "A100-SXM-40",
    "V100": "V100-SXM2-32",
    "GeForce RTX 4090": "RTX-4090",
    "3090": "RTX-3090",
    "tpu v5p": "TPUv5p",
    "AMD Instinct MI300X": "MI300X",
    "gb200": "GB200",
    "b200": "B200-HGX",
    "L4": "L4",
    "rtx-4090": "RTX-4090",
    "rtx4090": "RTX-4090",
    "4090": "RTX-4090",
    "RTX 5090 32GB": "RTX-5090",
    "a100-40gb": "A100-SXM-40",
    "a100-80gb": "A100-SXM-80",
    "h100-nvl": "H100-NVL",
    "h200": "H200-SXM",
    "l40s": "L40S",
    "l40": "L40",
    "a800": "A800-SXM-80",
    "a10": "A10",
    "a10g": "A10G",
    "NVIDIA A30": "A30",
    "h20": "H20",
    "gh200": "GH200-96",
    "gh200 141gb": "GH200-141",
    "B200 192GB": "B200-HGX",
    "mi250": "MI250",
    "mi325x": "MI325X",
    "mi355x": "MI355X",
    "trainium2": "Trainium2",
    "rtx-3060": "RTX-3060",
    "GeForce RTX 3060 Ti": "RTX-3060-Ti",
    "3080": "RTX-3080-10",
    "RTX 3080 12GB": "RTX-3080-12",
    "rtx-4060": "RTX-4060",
    "4060 ti": "RTX-4060-Ti-8",
    "rtx-4060-ti-16gb": "RTX-4060-Ti-16",
    "4070": "RTX-4070",
    "4070 ti super": "RTX-4070-Ti-Super",
    "rtx5080": "RTX-5080",
    "4090 laptop": "RTX-4090-Laptop",
    "a2": "A2",
    "m3-max-64": "M3-Max-64",
    "Apple M3 Max 128GB": "M3-Max-128",
    "m3-max": "M3-Max-36",
    "m4": "M4-16",
    "m4 pro": "M4-Pro-24",
    "M2 Ultra": "M2-Ultra-64",
}


@pytest.mark.parametrize("name", NAMES)
def test_names_are_matched_as_people_write_them(name: str) -> None:
    assert named(name)[0].name == NAMES[name]


def test_every_name_of_the_table_is_its_own() -> None:
    for one in accelerators():
        assert named(one.name)[0] == one
        assert named(one.name.lower().replace("-", " "))[0].name == one.name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("h1000", "did you mean H100?"),
        ("h202", "did you mean H20"),
        ("l41", "did you mean L4"),
        ("rtx4900", "did you mean RTX-4090?"),
        ("mi300", "did you mean MI300X?"),
        ("t40", "did you mean T4?"),
        ("", "known: V100, T4, A100"),
        ("40", "--peak"),
        ("toaster", "known: V100"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match="is not known") as caught:
        named(name, "--peak")
    assert hint in caught.value.hint
    assert "or give --peak" in caught.value.hint


def test_only_an_option_that_is_there_is_proposed() -> None:
    with pytest.raises(UsageError, match="is not known") as caught:
        named("h1000")
    assert caught.value.hint == "did you mean H100?"


def test_a_precision_that_a_card_lacks_is_answered_with_those_it_has() -> None:
    with pytest.raises(UsageError, match="no dense bf16 peak of V100-SXM2-32 is known; it has fp32, fp16, int8"):
        named("v100")[0].peak("bf16")


def test_the_option_knows_the_tables_precisions() -> None:
    assert next(option.known for option in MACHINES if option.name == "precision") == MULTIPLIED


REPORTED = {
    "A100-SXM-40": 39.38,
    "H200-SXM": 139.72,
    "RTX-3090": 23.58,
    "RTX-5090": 31.4,
    "L40S": 46068 / 1024,
    "GB200": 189471 / 1024,
}
"""GiB that a driver reported: torch's error messages in vLLM's issues 16570, 10702 and 10517; nvidia-smi."""


@pytest.mark.parametrize("name", REPORTED)
def test_a_process_can_use_what_is_reported_less_the_context(name: str) -> None:
    usable = next(one for one in accelerators() if one.name == name).usable()
    assert usable.bytes == pytest.approx((REPORTED[name] - 0.5) * 2**30, abs=2)
    assert "its driver reports" in usable.notes[0]
    assert "512 MiB for the driver's context (assumed)" in usable.notes[0]


METAL = {
    "M2-Max-32": 21845,  # github.com/ollama/ollama/issues/434
    "M3-Pro-18": 12288,  # 12884.92 MB, in decimal megabytes
    "M3-Max-36": 27648,
    "M1-Max-64": 49152,
    "M2-Max-96": 73728,  # github.com/ggml-org/llama.cpp/issues/3213
    "M2-Ultra-192": 147456,  # github.com/raullenchai/Rapid-MLX/pull/183: 144 GB
}
"""MiB of ``recommendedMaxWorkingSetSize``, as llama.cpp logs it."""


def test_of_unified_memory_a_process_can_use_what_metal_lets_it() -> None:
    known = {one.name: one for one in accelerators()}
    assert {name: known[name].usable().bytes // 2**20 for name in METAL} == METAL
    for one in known.values():
        if one.vendor == APPLE:
            (note,) = one.usable().notes
            assert "Metal lets a GPU take" in note
            assert "iogpu.wired_limit_mb" in note


def test_sizes_of_a_chip_are_machines_of_their_own() -> None:
    """Those with a part of the GPU's cores have a part of the bandwidth (support.apple.com/en-gb/117736)."""
    assert [one.name for one in named("m3-max")] == [f"M3-Max-{size}" for size in (36, 48, 64, 96, 128)]
    assert [one.bandwidth / 10**9 for one in named("m3-max")] == [300, 400, 400, 300, 400]
    assert [one.name for one in named("rtx 4060 ti")] == ["RTX-4060-Ti-8", "RTX-4060-Ti-16"]
    assert [one.name for one in named("rtx 4060")] == ["RTX-4060"]


def test_80_gb_are_neither_80_gb_nor_80_gib() -> None:
    for name in ("a100 80gb", "h100 sxm"):
        card = named(name)[0]
        assert card.memory == "80 GB"
        assert 79 * 2**30 < card.usable(context=0).bytes < 79.4 * 2**30


def test_what_is_not_reported_is_taken_by_the_vendors_unit_and_says_so() -> None:
    for card in accelerators():
        if not card.memory_reported and card.vendor != APPLE:
            usable = card.usable()
            assert usable.bytes == parse_bytes(card.memory) - CONTEXT
            assert "what its driver reports is unknown" in usable.notes[0]


def test_every_row_has_its_memory() -> None:
    for one in accelerators():
        assert one.memory_status in STATUS
        assert parse_bytes(one.memory) >= 8 * 10**9
        if one.memory_reported:  # a nominal amount in GB is at most what it says in powers of 1024
            nominal, reported = parse_bytes(one.memory), parse_bytes(one.memory_reported)
            assert 0.97 * nominal < reported < 1.08 * nominal, one.name


def test_doubtful_memory_says_so() -> None:
    assert any("unverified" in note for note in named("rtx-4090")[0].usable().notes)
    assert any("two devices" in note for note in named("mi250x")[0].usable().notes)


def test_a_name_with_its_memory_is_the_card_that_has_it() -> None:
    assert named("H100 94GB")[0].name == "H100-NVL"
    assert named("a100 80gb")[0].name == "A100-SXM-80"


@pytest.mark.parametrize("field", ["sources", "memory_sources", "rates_sources"])
def test_what_is_recalled_is_marked(field: str) -> None:
    """A figure that nobody saw on a page is unverified, and an encyclopedia written by a machine is no page."""
    status = {"sources": "status", "memory_sources": "memory_status", "rates_sources": "rates_status"}[field]
    for one in accelerators():
        source = getattr(one, field)
        assert "grokipedia" not in source
        assert not source.startswith("recalled") or getattr(one, status) == "U", one.name


def test_the_answer_says_that_a_peak_is_unverified() -> None:
    assert "the peak of H100-NVL is unverified" in list(named("h100-nvl")[0].doubts())


BANDWIDTHS = {
    "A100-SXM-80": 2039,
    "H100-SXM": 3350,
    "H200-SXM": 4800,
    "MI300X": 5300,
    "RTX-4090": 1008,
    "L4": 300,
    "RTX-3060": 360,
    "RTX-4060-Ti-16": 288,
    "RTX-5070": 672,
    "M1-Ultra-128": 800,
    "M4-Max-36": 410,
    "M4-Max-128": 546,
}
"""GB/s, as vendors print them."""


@pytest.mark.parametrize("name", BANDWIDTHS)
def test_a_memorys_bandwidth_is_the_vendors(name: str) -> None:
    card = next(one for one in accelerators() if one.name == name)
    assert card.bandwidth == BANDWIDTHS[name] * 10**9


def test_nvlink_is_stated_in_one_direction() -> None:
    """NVLink 3, 4 and 5 are sold as 600, 900 and 1,800 GB/s, in both directions together."""
    links = {one.name: (one.link, one.domain) for one in accelerators()}
    assert links["A100-SXM-80"] == (300e9, 8)
    assert links["H100-SXM"] == (450e9, 8)
    assert links["GB200"] == (900e9, 72)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("8xh100", (8, "h100")),
        ("8 x H100", (8, "H100")),
        ("8×H100", (8, "H100")),
        ("2*a100-80gb", (2, "a100-80gb")),
        ("16 x RTX 4090", (16, "RTX 4090")),
        ("4090", (1, "4090")),
        (" mi300x ", (1, "mi300x")),
        ("8x24GB", (8, "24GB")),
        ("h100x8", (8, "h100")),
        ("H100 x 8", (8, "H100")),
        ("8h100", (8, "h100")),
        ("24GBx2", (2, "24GB")),
        ("DGX-H100", (8, "H100")),
        ("NVIDIA HGX B200", (8, "B200")),
        ("b200-hgx", (1, "b200-hgx")),
        ("2 x DGX A100 40GB", (16, "A100 40GB")),
        ("nothing x8", (1, "nothing x8")),
    ],
)
def test_how_many_of_which(text: str, found: tuple[int, str]) -> None:
    assert parse_gpu(text) == found


@pytest.mark.parametrize("text", ["0xh100", "9999999x4090"])
def test_a_number_of_gpus_that_nobody_has_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write a number from 1"):
        parse_gpu(text)


def test_an_amount_of_memory_is_a_card_that_has_it() -> None:
    """24 GB are 24 x 10^9 bytes, of which the driver's context takes 2^29."""
    (card,) = named("24gb")
    assert (card.name, card.memory) == ("a card", "24 GB")
    assert card.usable().bytes == 24 * 10**9 - 2**29
    assert named("80 GiB")[0].usable().bytes == 80 * 2**30 - 2**29
    with pytest.raises(UsageError, match="no dense bf16 peak of a card is known; give --peak"):
        card.peak("bf16")


def test_a_name_with_memory_that_no_such_card_has_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no accelerator 'v100-16gb' is known; known: V100-SXM2-32 \(32 GB\)"):
        named("v100-16gb")
