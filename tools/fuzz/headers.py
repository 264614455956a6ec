"""Headers of checkpoints, read directly: valid ones give their shapes, those with a flaw a refusal."""

from __future__ import annotations

import json
import random
import struct
from math import prod
from pathlib import Path

from tfcalc.verify import gguf, safetensors
from tools.fuzz.checkpoints import damaged_gguf, damaged_safetensors
from tools.fuzz.parsed import holds, parsed
from tools.fuzz.program import WORK

Shape = tuple[int, ...]
NAMES = [
    *("wte.weight", "model.layers.0.mlp.up_proj.weight", "lm_head.weight", "a", "", "ü", "a\nb", "x" * 300, "\x1b[31m"),
    *("blk.0.attn_q.weight", "token_embd.weight", "h.٣.x", "__metadata"),
]
SIDES = [0, 1, 2, 3, 64, 768, 50257, 2**31, 2**32 - 1]
PUT_IN = (b"\xff" * 8, b"\x00", b"9" * 30, b"[" * 2000, b'"', b"-1", b"1.5")
FILES = ("m.safetensors", "m.gguf", "model.safetensors.index.json")


def headers(draw: random.Random) -> None:
    """A header that is right, one with some bytes changed, or one put together wrongly."""
    folder = WORK / "checkpoints"
    name = draw.choice(FILES[:2])
    path, shapes = folder / name, _shapes(draw)
    kind = draw.random()
    if kind < 0.3:
        raw = _safetensors(draw, shapes) if name == FILES[0] else _gguf(draw, shapes)
        path.write_bytes(raw)
        found = parsed(f"header {path.suffix}", raw[:300], lambda: _read(path), exits=(3,))
        possible = all(prod(shape) <= 2**63 for shape in shapes.values())
        holds(f"shapes of {path.suffix}", found == (shapes if possible else None), raw[:300], found, shapes)
        return
    if kind < 0.75:
        raw = _edited(draw, _safetensors(draw, shapes) if name == FILES[0] else _gguf(draw, shapes))
    else:
        _, raw = damaged_safetensors(draw) if name == FILES[0] else damaged_gguf(draw)
    path.write_bytes(raw)
    found = parsed(f"header {path.suffix}", raw[:300], lambda: _read(path), exits=(3,))
    for each, shape in (found or {}).items():
        fits = type(each) is str and all(type(side) is int and side >= 0 for side in shape) and prod(shape) <= 2**63
        holds(f"bounded shapes of {path.suffix}", fits, raw[:300], each[:80], shape)


def _read(path: Path) -> dict[str, Shape]:
    return gguf.shapes(path) if path.suffix == ".gguf" else safetensors.shapes(path)


def _shapes(draw: random.Random) -> dict[str, Shape]:
    return {
        draw.choice(NAMES): tuple(draw.choice(SIDES) for _ in range(draw.choice((0, 1, 2, 2, 2, 4, 8))))
        for _ in range(draw.choice((0, 1, 1, 2, 5)))
    }


def _safetensors(draw: random.Random, shapes: dict[str, Shape]) -> bytes:
    """As the format's own description has it."""
    table: dict[str, object] = {} if draw.random() < 0.5 else {"__metadata__": {"format": "pt"}}
    for name, shape in shapes.items():
        table[name] = {"dtype": draw.choice(("F32", "BF16", "I8")), "shape": list(shape), "data_offsets": [0, 0]}
    text = json.dumps(table, ensure_ascii=draw.random() < 0.5).encode() + b" " * draw.choice((0, 0, 7))
    return struct.pack("<Q", len(text)) + text + bytes(draw.choice((0, 8)))


def _gguf(draw: random.Random, shapes: dict[str, Shape]) -> bytes:
    """As the format's own description has it."""

    def text(word: str) -> bytes:
        raw = word.encode()
        return struct.pack("<Q", len(raw)) + raw

    pairs = [
        text("general.name") + struct.pack("<I", 8) + text("x"),
        text("n") + struct.pack("<II", 4, 7),
        text("f") + struct.pack("<Id", 12, 0.5),
        text("words") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc"),
        text("numbers") + struct.pack("<IIQ", 9, 5, 3) + bytes(12),
        text("lists") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ", 0, 5) + bytes(5),
    ]
    pairs = draw.sample(pairs, draw.randrange(len(pairs) + 1))
    tensors = [
        text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + struct.pack("<IQ", 0, 0)
        for name, shape in shapes.items()
    ]
    start = b"GGUF" + struct.pack("<IQQ", draw.choice((2, 3)), len(tensors), len(pairs))
    return start + b"".join(pairs) + b"".join(tensors)


def _edited(draw: random.Random, raw: bytes) -> bytes:
    """The bytes after an edit or three."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        place = draw.randrange(len(raw) + 1)
        kind = draw.randrange(5)
        if kind == 0:
            raw = raw[:place]
        elif kind == 1:
            raw = raw[:place] + bytes((draw.randrange(256),)) + raw[place + 1 :]
        elif kind == 2:
            raw = (
                raw[:place]
                + draw.choice((b"\xff" * 8, b"\x00", b"9" * 30, b"[" * 2000, b'"', b"-1", b"1.5"))
                + raw[place:]
            )
        elif kind == 3:
            raw = raw[:place] + raw[place + draw.choice((1, 4, 8)) :]
        else:
            raw = raw[:place] + raw[max(0, place - 16) : place] * draw.choice((1, 20)) + raw[place:]
    return raw
