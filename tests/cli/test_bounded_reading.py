"""Files and arguments that would take minutes or gigabytes: read in bounded time and memory, or refused before."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import tfcalc as library
from tests.cli.limited import Ran, answered, linux, refused, run
from tests.conftest import Quick
from tfcalc.errors import UsageError
from tfcalc.hardware import named, parse_gpu

pytestmark = linux

# --- headers of checkpoints


def tensor(name: str, shape: str = "[1]") -> str:
    return f'"{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[0,4]}}'


def safetensors(path: Path, entries: Iterable[str]) -> None:
    raw = ("{" + ",".join(entries) + "}").encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw)


def verify(folder: Path, name: str) -> Ran:
    return run(folder, "verify", "gpt2", "--checkpoint", name)


def test_a_header_of_a_million_tensors_is_refused_before_it_is_read(tmp_path: Path) -> None:
    safetensors(tmp_path / "m.safetensors", (tensor(f"t{i}") for i in range(1_200_000)))
    refused(verify(tmp_path, "m.safetensors"), 3, "70,888,891 bytes", "50,000,000")


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("name", "count"),
    [("h.{}.mlp.experts.{}.up_proj.weight_scale", 280_000), ("p{}.wte", 100_000), ("p{}.inv_freq", 100_000)],
)
def test_as_many_tensors_as_the_largest_mixtures_have_are_read(tmp_path: Path, name: str, count: int) -> None:
    """280,000: 60 layers of 384 experts, three matrices each, with three scales."""
    safetensors(tmp_path / "m.safetensors", (tensor(name.format(i, i)) for i in range(count)))
    answered(verify(tmp_path, "m.safetensors"), 1)


HEADERS: dict[str, tuple[Callable[[], str], str]] = {
    "axes": (lambda: tensor("a", "[" + ",".join(["9" * 1_000] * 2_000) + "]"), "2,000 axes"),
    "lists": (lambda: '"a":{"shape":[' + ",".join(["[]"] * 900_000) + "]}", "tensors"),
    "numbers": (lambda: '"a":{"shape":[' + ",".join(["1000"] * 4_000_000) + "]}", "tensors"),
    "texts": (lambda: '"a":{"shape":[' + ",".join(['"😀"'] * 3_000_000) + "]}", "no shape"),
    "objects": (lambda: ",".join(f'"{i}":{{}}' for i in range(500_000)), "tensors"),
    "sides": (lambda: tensor("a", f"[{'9' * 4_000},{'9' * 4_000}]"), "2^63"),
    "brackets": (lambda: '"' + "[" * 700_000 + '":{"shape":[1]}', "characters"),
    "a long name": (lambda: '"' + "a.1" * 1_000_000 + '":{"shape":[1]}', "characters"),
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", HEADERS)
def test_what_a_header_holds_is_bounded(tmp_path: Path, kind: str) -> None:
    entry, said = HEADERS[kind]
    safetensors(tmp_path / "m.safetensors", [entry()])
    refused(verify(tmp_path, "m.safetensors"), 3, said)


def test_all_files_of_an_index_are_bounded_together(tmp_path: Path) -> None:
    safetensors(tmp_path / "s0.safetensors", (tensor(f"t{i}") for i in range(150_000)))
    for i in range(1, 2_000):
        (tmp_path / f"s{i}.safetensors").symlink_to("s0.safetensors")
    index = {"weight_map": {f"t{i}": f"s{i}.safetensors" for i in range(2_000)}}
    (tmp_path / "m.index.json").write_text(json.dumps(index))
    refused(verify(tmp_path, "m.index.json"), 3, "tensors")


def test_an_index_of_more_than_10_mb_is_read(tmp_path: Path) -> None:
    """DeepSeek-V3's has about 9 MB; this one 120,000 tensors in 2 files, of which none is gpt2's but one."""
    names = [f"model.layers.{i // 2_000}.mlp.experts.{i % 256}.gate_proj.weight_scale_inv.{i}" for i in range(120_000)]
    weight_map = dict.fromkeys(names, "model-00002-of-000002.safetensors")
    weight_map["transformer.wte.weight"] = "model-00001-of-000002.safetensors"
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}, indent=2))
    assert path.stat().st_size > 10_000_000
    safetensors(tmp_path / "model-00001-of-000002.safetensors", [tensor("transformer.wte.weight", "[50257,768]")])
    safetensors(tmp_path / "model-00002-of-000002.safetensors", (tensor(name) for name in names[:10]))
    ran = verify(tmp_path, path.name)
    answered(ran, 1)
    assert f"{50_257 * 768 + 10:,} by {path.name} (1 of 2 rows)" in " ".join(ran.out.split())


def gguf_text(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def gguf(path: Path, pairs: list[bytes], tensors: Iterable[bytes], count: int) -> None:
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, count, len(pairs)) + b"".join(pairs) + b"".join(tensors))


def gguf_tensor(name: str, *shape: int) -> bytes:
    return gguf_text(name.encode()) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + bytes(12)


def test_a_gguf_of_a_million_tensors_is_refused_before_it_is_read(tmp_path: Path) -> None:
    gguf(tmp_path / "m.gguf", [], (gguf_tensor(f"t{i}", 1) for i in range(100_001)), 1_000_000)
    refused(verify(tmp_path, "m.gguf"), 3, "1,000,000 tensors")


def test_vocabularies_of_a_gguf_are_read_past(tmp_path: Path) -> None:
    """Gemma's has 256,000 words; scores are a number each, and longer than what is read at once."""
    words = b"".join(gguf_text(b"word%d" % i) for i in range(256_000))
    pairs = [
        gguf_text(b"tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 256_000) + words,
        gguf_text(b"tokenizer.ggml.merges") + struct.pack("<IIQ", 9, 8, 256_000) + words,
        gguf_text(b"tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, 600_000) + bytes(4 * 600_000),
        gguf_text(b"general.name") + struct.pack("<I", 8) + gguf_text(b"x" * 3_000_000),
    ]
    gguf(tmp_path / "m.gguf", pairs, [gguf_tensor("token_embd.weight", 768, 50_257)], 1)
    ran = verify(tmp_path, "m.gguf")
    answered(ran, 1)
    assert f"{768 * 50_257:,}" in ran.out


ARRAYS = {
    "empty texts": struct.pack("<IIQ", 9, 8, 2_500_000) + bytes(8 * 2_500_000),
    "empty arrays": struct.pack("<IIQ", 9, 9, 2_500_000) + struct.pack("<IQ", 0, 0) * 2_500_000,
    "a length beyond the file": struct.pack("<IIQ", 9, 8, 2) + struct.pack("<Q", 2**63),
    "more numbers than any file has": struct.pack("<IIQ", 9, 10, 2**63),
    "arrays in arrays": struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ", 9, 1) * 50,
    "an unknown type": struct.pack("<I", 99),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_of_a_gguf_are_bounded(tmp_path: Path, kind: str) -> None:
    gguf(tmp_path / "m.gguf", [gguf_text(b"x") + ARRAYS[kind]], [gguf_tensor("token_embd.weight", 1)], 1)
    refused(verify(tmp_path, "m.gguf"), 3)


# --- configs


def config(folder: Path, **fields: Any) -> str:
    (folder / "c.json").write_text(json.dumps({"model_type": "llama", **fields}, separators=(",", ":")))
    return "c.json"


MANY: dict[str, dict[str, Any]] = {
    "labels": {"id2label": {str(i): "L" for i in range(250_000)}},
    "unknown objects": {f"k{i}": {} for i in range(150_000)},
    "unknown names like those of fields": {f"hidden_siz{i}": 1 for i in range(150_000)},
    "factors": {
        "rope_scaling": {"rope_type": "longrope", **dict.fromkeys(("short_factor", "long_factor"), [1.0] * 200_000)}
    },
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", MANY)
def test_many_fields_are_read_in_one_pass(tmp_path: Path, kind: str) -> None:
    bare = library.params(library.from_config({"model_type": "llama"})).answer
    ran = run(tmp_path, "params", config(tmp_path, **MANY[kind]), "-q")
    assert (ran.code, ran.out) == (0, f"{bare}\n")
    answered(ran, 0)


def test_fields_are_counted_before_anything_looks_at_them(tmp_path: Path) -> None:
    refused(run(tmp_path, "params", config(tmp_path, x=[0] * 1_500_000)), 3, "500,000 values")
    longrope = {"rope_type": "longrope", "short_factor": [1.0] * 400_000, "long_factor": [1.0] * 400_000}
    refused(run(tmp_path, "params", config(tmp_path, rope_scaling=longrope)), 3, "500,000 values")


def test_a_slip_among_many_labels_is_still_told(quick: Quick, tmp_path: Path) -> None:
    """Labels are no fields; those beside them are."""
    name = config(tmp_path, id2label={str(i): "L" for i in range(1_000)}, hiden_size=4096)
    assert "did you mean hidden_size?" in quick("params", name).stderr


def quantized(names: list[str]) -> dict[str, Any]:
    return {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": names}}


PATTERNS = {
    "many": ([f"a*{i}" for i in range(120_000)], "2,000"),
    "long": ([f"{'a*b' * 90}{i}" for i in range(1_900)], "100,000 characters"),
    "choices": ([f"re:{'(a|b)' * 6}{i}" for i in range(1_000)], "2,000"),
    "long choices": ([f"re:{'(a|b)' * 6}{'x' * 200}{i}" for i in range(1_900)], "100,000 characters"),
}


@pytest.mark.parametrize("kind", PATTERNS)
def test_patterns_are_counted_before_they_are_compiled(tmp_path: Path, kind: str) -> None:
    names, said = PATTERNS[kind]
    refused(run(tmp_path, "memory", config(tmp_path, **quantized(names))), 3, said)


def test_patterns_are_tried_at_so_many_layers(tmp_path: Path) -> None:
    names = [f"model.layers.{i}.self_attn*" for i in range(1_900)]
    refused(run(tmp_path, "memory", config(tmp_path, num_hidden_layers=10_000, **quantized(names))), 3, "10,000 layers")


def test_a_pattern_for_each_of_many_layers_names_it(quick: Quick, tmp_path: Path) -> None:
    """Of 200 layers those of the first 100 keep 16 bits in attention: patterns and names say the same."""
    sizes = {"num_hidden_layers": 200, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 2}
    answers = [
        quick(
            "memory",
            config(tmp_path, **sizes, **quantized([f"model.layers.{i}.self_attn{end}" for i in range(100)])),
            "-q",
        )
        for end in ("", "*")
    ]
    assert answers[0].returncode == 0
    assert answers[0] == answers[1]


def test_layers_of_a_stage_are_counted_before_they_are_made(tmp_path: Path) -> None:
    """Stages of a codec have depths of their own; a row of 10¹² layers, equal as they are, asked for 8 TB."""
    encoder = {"downsampling_ratios": [], "depths": [10**12]}
    data = {"model_type": "vibevoice_asr", "acoustic_tokenizer_encoder_config": encoder}
    (tmp_path / "config.json").write_text(json.dumps(data))
    refused(run(tmp_path, "memory", "config.json"), 3, "1,000,000,000,000 layers")


# --- what is typed


def test_a_long_word_is_looked_at_once(tmp_path: Path) -> None:
    """Whether a target is a formula was tried from each of its signs on, to its end."""
    refused(run(tmp_path, "explain", "*" * 130_000 + "\n", "gpt2"), 2, "130,001 characters")


@pytest.mark.parametrize("target", ["params.re:", "re:", "a"])
def test_a_target_of_many_words_is_no_question(tmp_path: Path, target: str) -> None:
    """Whether words with commas between them name a model was tried of each of 60,000."""
    for words in (["explain", target + "1," * 60_000], ["explain", target + "1," * 60_000, "gpt2"]):
        ran = run(tmp_path, *words)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("count", [90, 1_000, 60_000])
def test_words_of_a_question_are_bounded(tmp_path: Path, count: int) -> None:
    """Words with commas between them are read as models, cards and concepts, in up to four pieces each."""
    ran = run(tmp_path, f"a{'1,' * count}b")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("first", ["re:", "how much "])
def test_a_question_is_no_pasted_text(tmp_path: Path, first: str) -> None:
    """How amounts are spelled was looked for from each of 120,000 words on, to the end."""
    text = first + "1," * 60_000 + "1"
    refused(run(tmp_path, text, text), 2, "letters, a question at most 400")


@pytest.mark.parametrize(
    "text", ["\t" * 7_000, "6 " + " " * 7_000, " " * 3_000 + "*" + " " * 3_000], ids=["tabs", "6", "*"]
)
def test_space_in_a_formula_is_read_in_one_pass(tmp_path: Path, text: str) -> None:
    """Where each blank might end one of three runs of blanks, 5,000 tabs took three minutes."""
    assert run(tmp_path, "check", "mha", text).code in (1, 2)  # answered within the seconds that it has


@pytest.mark.parametrize(
    "text",
    [
        "1x a" + " " * 1_000_000 + "b",
        "1x" + " " * 1_000_000,
        "h100 hbm" + "1" * 1_000_000,
        "1" * 1_000_000 + "gb",
        "h100" + "-80gb" * 200_000,
        "8x" * 500_000,
        "\t\n" * 500_000,
    ],
    ids=lambda text: f"{text[:12]!r}",
)
def test_the_name_of_an_accelerator_is_read_in_one_pass(text: str) -> None:
    """Where each character were the start of another search, a million of them would take hours."""
    if text.startswith("h100"):
        assert named(parse_gpu(text)[1])[0].name == "H100-SXM"
        return
    with pytest.raises(UsageError) as refusal:
        named(parse_gpu(text)[1])
    assert len(str(refusal.value)) <= 600


def test_what_is_typed_has_a_length(quick: Quick, tmp_path: Path) -> None:
    long = "a" * 10_001
    for arguments in (
        ["memory", "gpt2", "--gpu", long],
        ["params", long],
        ["memory", "gpt2", "--train", "--freeze", long],
    ):
        done = quick(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert "10,001 characters" in done.stderr
    assert "10,001 characters" in quick("memory", "gpt2", env={"TFCALC_GPU": long}).stderr
    (tmp_path / "tfcalc.toml").write_text(f'gpu = "{long}"\n')
    assert "10,001 characters" in quick("memory", "gpt2", "--train").stderr


def test_a_long_list_of_sizes_is_read(quick: Quick) -> None:
    sizes = ",".join(map(str, range(1, 5_001)))
    assert len(sizes) > 10_000
    done = quick("sweep", "gpt2", "--seq", sizes, "--format", "csv")
    assert done.stdout.count("\n") == 5_001
