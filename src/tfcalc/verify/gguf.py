"""The header of a .gguf file: names and shapes of its tensors, never a tensor."""

from __future__ import annotations

import struct
from os import SEEK_CUR, SEEK_END
from pathlib import Path
from typing import BinaryIO

from tfcalc.files import opened
from tfcalc.printable import quoted
from tfcalc.reader import reading
from tfcalc.verify.safetensors import LONGEST_NAME, MOST_AXES, BadCheckpoint, Shape, checked

LARGEST = 256 << 20
"""Bytes of a header; vocabularies of a million words take a tenth of it."""

MOST_TENSORS, MOST_PAIRS, MOST_TEXTS = 100_000, 100_000, 2_000_000
"""Tensors (those of all experts are one), keys, and texts and arrays in all arrays together: vocabularies have 300,000
words, and twice as many merges."""
MOST_AT_ONCE = 1 << 20
"""Bytes that are read at once."""
DEEPEST = 4
SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
TEXT, ARRAY = 8, 9
WORD, LONG = struct.Struct("<I"), struct.Struct("<Q")

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
"""Names of the tensors of the most common architectures in the format."""


def shapes(path: Path) -> dict[str, Shape]:
    """The shape of each tensor of a .gguf file, whatever the format of its numbers.

    Raises BadCheckpoint for a header that is cut off or claims what cannot be.

    Source: the format's description in ggml, docs/gguf.md.
    """
    with reading(path, BadCheckpoint), opened(path) as file:
        return _Reader(file, path).tensors()


class _Reader:
    """The header of a file, a piece of which is ``here`` at a time, read up to ``place``."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file, self.path = file, path
        self.left = min(LARGEST, file.seek(0, SEEK_END))
        file.seek(0)
        self.here, self.place = b"", 0
        self.texts = 0

    def tensors(self) -> dict[str, Shape]:
        if self.take(4) != b"GGUF" or self.number(WORD) not in (2, 3):
            raise BadCheckpoint(f"{self.path} is not a .gguf file of version 2 or 3")
        count, pairs = self.number(LONG), self.number(LONG)
        if count > MOST_TENSORS or pairs > MOST_PAIRS:
            raise BadCheckpoint(
                f"{self.path} claims {count:,} tensors and {pairs:,} keys",
                f"at most {MOST_TENSORS:,} and {MOST_PAIRS:,} are read",
            )
        for _ in range(pairs):
            self.skip(self.number(LONG))
            self.skip_value(self.number(WORD))
        return dict(self.tensor() for _ in range(count))

    def tensor(self) -> tuple[str, Shape]:
        length = self.number(LONG)
        if length > LONGEST_NAME:
            raise BadCheckpoint(f"{self.path}: a tensor's name has {length:,} characters", "the file is damaged")
        name, axes = self.take(length).decode("utf-8", "replace"), self.number(WORD)
        if axes > MOST_AXES:
            raise BadCheckpoint(f"{self.path}: tensor {quoted(name)} claims {axes} axes", "the file is damaged")
        shape = struct.unpack(f"<{axes}Q", self.take(8 * axes))
        self.skip(12)  # its format and where it lies
        return name, checked(self.path, name, shape)

    def skip_value(self, kind: int, depth: int = 0) -> None:
        if kind == TEXT:
            self.skip(self.number(LONG))
        elif kind == ARRAY:
            inner, count = self.number(WORD), self.number(LONG)
            if inner in SCALARS:
                self.skip(SCALARS[inner] * count)
                return
            self.texts += count
            if self.texts > MOST_TEXTS:
                raise BadCheckpoint(f"{self.path} claims over {MOST_TEXTS:,} texts", "the file is damaged")
            if depth > DEEPEST:
                raise BadCheckpoint(f"{self.path} nests its arrays too deeply", "the file is damaged")
            for _ in range(count):
                self.skip_value(inner, depth + 1)
        elif kind in SCALARS:
            self.skip(SCALARS[kind])
        else:
            raise BadCheckpoint(f"{self.path} has a value of unknown type {kind}", "the file is damaged")

    def number(self, form: struct.Struct) -> int:
        if self.place + form.size > len(self.here):
            self.more(form.size)
        (value,) = form.unpack_from(self.here, self.place)
        self.place += form.size
        return int(value)

    def take(self, size: int) -> bytes:
        if self.place + size > len(self.here):
            self.more(size)
        self.place += size
        return self.here[self.place - size : self.place]

    def skip(self, size: int) -> None:
        self.place += size
        ahead = self.place - len(self.here)
        if ahead > 0:
            self.here, self.place = b"", 0
            self.left -= ahead
            self.file.seek(ahead if self.left > 0 else 0, SEEK_CUR)
            self.more(0)

    def more(self, size: int) -> None:
        """Read on until ``size`` bytes are there. Raises BadCheckpoint where the file is shorter."""
        read = self.file.read(max(min(MOST_AT_ONCE, self.left), 0))
        self.here, self.place = self.here[self.place :] + read, 0
        if self.left < 0 or len(self.here) < size:
            raise BadCheckpoint(f"{self.path} is truncated, or claims more than it contains", "the file is damaged")
        self.left -= len(read)
