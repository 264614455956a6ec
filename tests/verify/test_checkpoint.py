"""Headers of checkpoints: what they store against what tfcalc counts; damaged ones get one line. No torch needed."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.conftest import Program
from tfcalc.catalog import from_config
from tfcalc.verify.checkpoint import verify_checkpoint
from tfcalc.verify.safetensors import BadCheckpoint


@pytest.fixture
def tfcalc(process: Program) -> Program:
    """The program in a process of its own: that is what is asked about here."""
    return process


CONFIG = {
    "model_type": "llama",
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 10,
    "tie_word_embeddings": True,
}
LAYER = {
    "self_attn.q_proj": [8, 8],
    "self_attn.k_proj": [4, 8],
    "self_attn.v_proj": [4, 8],
    "self_attn.o_proj": [8, 8],
    "mlp.gate_proj": [12, 8],
    "mlp.up_proj": [12, 8],
    "mlp.down_proj": [8, 12],
    "input_layernorm": [8],
    "post_attention_layernorm": [8],
}
SHAPES = {"model.embed_tokens.weight": [10, 8], "model.norm.weight": [8]} | {
    f"model.layers.{layer}.{name}.weight": shape for layer in range(2) for name, shape in LAYER.items()
}
"""Written down from transformers' LlamaForCausalLM."""


def safetensors(path: Path, shapes: dict[str, list[int]]) -> Path:
    header = json.dumps(
        {"__metadata__": {"format": "pt"}} | {n: {"dtype": "F32", "shape": s} for n, s in shapes.items()}
    )
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode())
    return path


def gguf(path: Path, shapes: dict[str, list[int]]) -> Path:
    def text(word: str) -> bytes:
        return struct.pack("<Q", len(word)) + word.encode()

    keys = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    keys += text("tokenizer.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b")
    keys += text("llama.block_count") + struct.pack("<II", 4, 2)
    infos = b"".join(
        text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + struct.pack("<IQ", 0, 0)
        for name, shape in shapes.items()
    )
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, len(shapes), 3) + keys + infos)
    return path


def test_a_file_that_agrees(tmp_path: Path) -> None:
    found = verify_checkpoint(from_config(CONFIG), str(safetensors(tmp_path / "m.safetensors", SHAPES)))
    assert found.agrees
    assert found.rows[-1].reference == 80 + 8 + 2 * (8 * 8 * 2 + 4 * 8 * 2 + 3 * 96 + 16)


def test_a_tied_copy_and_a_buffer_are_left_aside(tmp_path: Path) -> None:
    more = SHAPES | {"lm_head.weight": [10, 8], "model.layers.0.self_attn.rotary_emb.inv_freq": [2]}
    found = verify_checkpoint(from_config(CONFIG), str(safetensors(tmp_path / "m.safetensors", more)))
    assert found.agrees
    assert any("lm_head" in note for note in found.notes)
    assert any("inv_freq" in note for note in found.notes)


def test_a_base_model_without_prefix_agrees(tmp_path: Path) -> None:
    bare = {name.removeprefix("model."): shape for name, shape in SHAPES.items()}
    assert verify_checkpoint(from_config(CONFIG), str(safetensors(tmp_path / "m.safetensors", bare))).agrees


def test_a_tensor_of_another_size_differs(tmp_path: Path) -> None:
    other = SHAPES | {"model.layers.1.mlp.up_proj.weight": [13, 8]}
    found = verify_checkpoint(from_config(CONFIG), str(safetensors(tmp_path / "m.safetensors", other)))
    assert not found.agrees
    assert [row.path for row in found.rows if row.difference] == ["model.layers.mlp.up_proj", "total"]


def test_the_verdict_says_what_was_compared(tmp_path: Path) -> None:
    found = verify_checkpoint(from_config(CONFIG), str(safetensors(tmp_path / "m.safetensors", SHAPES)))
    numbers = 80 + 8 + 2 * (8 * 8 * 2 + 4 * 8 * 2 + 3 * 96 + 16)
    assert found.verdict == f"agrees: {2 + 2 * 9} tensors by name, {numbers:,} parameters equal to m.safetensors"


def test_names_decide_and_not_the_sum(tmp_path: Path) -> None:
    others = {f"net.{place}.w": shape for place, shape in enumerate(SHAPES.values())}
    found = verify_checkpoint(from_config(CONFIG), str(safetensors(tmp_path / "m.safetensors", others)))
    assert found.rows[-1].difference == 0
    assert not found.agrees
    assert found.disagreements == (
        "no tensor matches by name: the model has model.embed_tokens, model.layers.self_attn.q_proj, "
        "model.layers.self_attn.k_proj; the file has net.w",
    )
    assert found.verdict.startswith("DIFFERS: ")
    assert "no tensor matches by name" in found.verdict


def test_tensors_under_other_names_are_counted_in_the_verdict(tmp_path: Path) -> None:
    renamed = {name.replace("mlp.up_proj", "mlp.w3"): shape for name, shape in SHAPES.items()}
    found = verify_checkpoint(from_config(CONFIG), str(safetensors(tmp_path / "m.safetensors", renamed)))
    assert found.verdict.startswith("agrees: 18 tensors by name and the sum of 2 others, ")


def test_the_same_number_in_other_shapes_differs(tmp_path: Path) -> None:
    uneven = SHAPES | {"model.layers.0.mlp.up_proj.weight": [13, 8], "model.layers.1.mlp.up_proj.weight": [11, 8]}
    reshaped = SHAPES | {"model.layers.0.self_attn.q_proj.weight": [16, 4]}
    for shapes in (uneven, reshaped):
        found = verify_checkpoint(from_config(CONFIG), str(safetensors(tmp_path / "m.safetensors", shapes)))
        assert not any(row.difference for row in found.rows)
        assert not found.agrees
        assert len(found.disagreements) == 1


def test_an_index_reads_its_files(tmp_path: Path) -> None:
    names = list(SHAPES)
    for part, chosen in (("a", names[:5]), ("b", names[5:])):
        safetensors(tmp_path / f"{part}.safetensors", {name: SHAPES[name] for name in chosen})
    table = {name: "a.safetensors" if name in names[:5] else "b.safetensors" for name in names}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": table}))
    assert verify_checkpoint(from_config(CONFIG), str(tmp_path / "model.safetensors.index.json")).agrees


def test_a_gguf_file_agrees(tmp_path: Path) -> None:
    words = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "model.layers": "blk",
    }
    named = {}
    for name, shape in SHAPES.items():
        for theirs, ours in words.items():
            name = name.replace(theirs, ours)
        named[name] = shape[::-1]
    found = verify_checkpoint(from_config(CONFIG), str(gguf(tmp_path / "m.gguf", named)))
    assert found.agrees
    assert "tensors under other names" not in [row.path for row in found.rows]


DAMAGED = {
    "empty.safetensors": b"",
    "cut.safetensors": struct.pack("<Q", 100) + b'{"a": ',
    "huge.safetensors": struct.pack("<Q", 2**60) + b"{}",
    "noise.safetensors": struct.pack("<Q", 6) + b"\xff\xfe{}[]",
    "list.safetensors": struct.pack("<Q", 2) + b"[]",
    "shapeless.safetensors": struct.pack("<Q", 15) + b'{"a": {"x": 1}}',
    "negative.safetensors": struct.pack("<Q", 21) + b'{"a": {"shape": [-1]}}'[:21] + b"}",
    "empty.gguf": b"",
    "other.gguf": b"GGML" + b"\0" * 60,
    "cut.gguf": b"GGUF" + struct.pack("<IQQ", 3, 1, 0),
    "huge.gguf": b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2**60),
    "longname.gguf": b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 2**60) + b"abc",
    "axes.gguf": b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"a" + struct.pack("<I", 2**31),
    "type.gguf": b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"a" + struct.pack("<I", 77) + b"\0" * 8,
    "nested.gguf": b"GGUF"
    + struct.pack("<IQQQ", 3, 0, 1, 1)
    + b"a"
    + struct.pack("<IIQ", 9, 9, 1)
    + struct.pack("<IQ", 9, 1) * 5000,
    "nomap.json": b"{}",
    "away.json": b'{"weight_map": {"a": "../../secret.safetensors"}}',
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_header_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(DAMAGED[name])
    with pytest.raises(BadCheckpoint) as refusal:
        verify_checkpoint(from_config(CONFIG), str(path))
    assert "\n" not in str(refusal.value)
    assert name in str(refusal.value)
    assert refusal.value.exit_code == 3


def test_the_program_says_that_it_differs_by_exit_1(tfcalc: Program, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    good, bad = safetensors(tmp_path / "m.safetensors", SHAPES), safetensors(tmp_path / "n.safetensors", {"a": [1]})
    assert tfcalc("verify", str(config), "--checkpoint", str(good)).returncode == 0
    assert tfcalc("verify", str(config), "--checkpoint", str(bad)).returncode == 1
    assert tfcalc("verify", str(config), "--checkpoint", "nothing.safetensors").returncode == 3
    assert tfcalc("verify", str(config), "--checkpoint", str(config.with_suffix(".txt"))).returncode == 3
