"""The header of a .gguf file: names and shapes of its tensors, never a tensor."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

from tfcalc.printable import quoted
from tfcalc.reader import reading
from tfcalc.verify.safetensors import BadCheckpoint, Shape, checked

LARGEST = 256 << 20
"""Bytes that are read at most; vocabularies of a million words take a tenth of it."""

MOST_TENSORS, MOST_AXES = 1_000_000, 8
DEEPEST = 4
SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9

NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "blk.attn_norm": "model.layers.input_layernorm",
    "blk.ffn_norm": "model.layers.post_attention_layernorm",
    "blk.attn_q": "model.layers.self_attn.q_proj",
    "blk.attn_k": "model.layers.self_attn.k_proj",
    "blk.attn_v": "model.layers.self_attn.v_proj",
    "blk.attn_output": "model.layers.self_attn.o_proj",
    "blk.attn_q_norm": "model.layers.self_attn.q_norm",
    "blk.attn_k_norm": "model.layers.self_attn.k_norm",
    "blk.ffn_gate": "model.layers.mlp.gate_proj",
    "blk.ffn_up": "model.layers.mlp.up_proj",
    "blk.ffn_down": "model.layers.mlp.down_proj",
    "rope_freqs": "rotary.inv_freq",
}
"""What the format calls the tensors of the most common kinship."""


def shapes(path: Path) -> dict[str, Shape]:
    """The shape of each tensor of a .gguf file, whatever the format of its numbers.

    Raises BadCheckpoint for a header that is cut off or claims what cannot be.

    Source: the format's description in ggml, docs/gguf.md.
    """
    with reading(path, BadCheckpoint), path.open("rb") as file:
        return _Reader(file, path).tensors()


class _Reader:
    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file, self.path, self.left = file, path, min(LARGEST, path.stat().st_size)

    def tensors(self) -> dict[str, Shape]:
        if self.take(4) != b"GGUF" or self.number("I") not in (2, 3):
            raise BadCheckpoint(f"{self.path} is not a .gguf file of version 2 or 3")
        count, pairs = self.number("Q"), self.number("Q")
        if count > MOST_TENSORS or pairs > MOST_TENSORS:
            raise BadCheckpoint(f"{self.path} claims {count} tensors and {pairs} keys", "the file is damaged")
        for _ in range(pairs):
            self.skip_string()
            self.skip_value(self.number("I"))
        return dict(self.tensor() for _ in range(count))

    def tensor(self) -> tuple[str, Shape]:
        name, axes = self.take(self.number("Q")).decode("utf-8", "replace"), self.number("I")
        if axes > MOST_AXES:
            raise BadCheckpoint(f"{self.path}: tensor {quoted(name)} claims {axes} axes", "the file is damaged")
        shape = tuple(self.number("Q") for _ in range(axes))
        self.take(12)  # its format and where it lies
        return name, checked(self.path, name, shape)

    def skip_value(self, kind: int, depth: int = 0) -> None:
        if kind == STRING:
            self.skip_string()
        elif kind == ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if inner in SCALARS:
                self.take(SCALARS[inner] * count)
            elif depth > DEEPEST:
                raise BadCheckpoint(f"{self.path} nests its arrays too deeply", "the file is damaged")
            else:
                for _ in range(count):
                    self.skip_value(inner, depth + 1)
        elif kind in SCALARS:
            self.take(SCALARS[kind])
        else:
            raise BadCheckpoint(f"{self.path} has a value of unknown type {kind}", "the file is damaged")

    def skip_string(self) -> None:
        self.take(self.number("Q"))

    def number(self, form: str) -> int:
        size = struct.calcsize(form)
        (value,) = struct.unpack("<" + form, self.take(size))
        return int(value)

    def take(self, size: int) -> bytes:
        self.left -= size
        if self.left < 0:
            raise BadCheckpoint(f"{self.path} is truncated, or claims more than it contains", "the file is damaged")
        return self.file.read(size)
