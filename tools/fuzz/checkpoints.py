"""Headers of .safetensors and .gguf files that are cut off, huge, negative, wrong."""

from __future__ import annotations

import random
import struct

from tools.fuzz.checks import look
from tools.fuzz.configs import encoded
from tools.fuzz.program import WORK, call


def checkpoint(draw: random.Random) -> None:
    """Headers of .safetensors and .gguf that are cut off, huge, negative, wrong."""
    folder = WORK / "checkpoints"
    name, data = damaged_safetensors(draw) if draw.random() < 0.5 else damaged_gguf(draw)
    path = folder / name
    path.write_bytes(data)
    index = None
    if name.endswith("safetensors") and draw.random() < 0.3:
        index = folder / "model.safetensors.index.json"
        index.write_bytes(
            encoded(
                draw.choice(
                    [
                        {"weight_map": {"a": name}},
                        {"weight_map": {"a": "../x"}},
                        {"weight_map": {"a": "/etc/passwd"}},
                        {"weight_map": {"a": ".."}},
                        {"weight_map": {"a": ""}},
                        {"weight_map": {"a": "."}},
                        {"weight_map": {"a": "\x00"}},
                        {"weight_map": {"a": name + "\x00"}},
                        {"weight_map": {"a": "a" * 300}},
                        {"weight_map": {"a": 7}},
                        {"weight_map": []},
                        {"weight_map": None},
                        {},
                        {"weight_map": {}},
                        {"weight_map": {"a": "\ud800"}},
                        {"weight_map": {str(i): f"{i}" for i in range(3000)}},
                        {"weight_map": {"a": "C:\\x"}},
                        {"weight_map": {"a": index.name}},
                        {"weight_map": {"a": "\x1b[31m"}},
                    ]
                )
            )
        )
    argv = ["verify", draw.choice(["gpt2", "bert-tiny", "llama-3-8b"]), "--checkpoint", str(index or path)]
    argv += draw.choice([[], ["--json"], ["-q"], ["--format", "csv"]])
    look(argv, call(argv), stdin=data[:300])
    path.unlink()
    if index:
        index.unlink()


def damaged_safetensors(draw: random.Random) -> tuple[str, bytes]:
    """A name, and a header whose shapes, offsets or length are junk."""
    shapes = [
        [2, 3],
        [0],
        [],
        [768, 2304],
        [-1],
        [1.5],
        [True],
        ["2"],
        None,
        7,
        [10**30],
        [10**400, 10**400],
        [10**4299, 10**4299],
        [[2]],
        [1] * 2000,
        [2**63, 2**63],
    ]
    names = [
        "transformer.h.0.attn.c_attn.weight",
        "wte.weight",
        "transformer.h.0.attn.bias",
        "\x1b[31mX",
        "a\nb",
        "",
        "x" * 5000,
        "model.layers.0.mlp.up_proj.weight",
        "\ud800",
        "=1+1",
        "lm_head.weight",
        "|",
        "h.٣.x",
    ]
    table: object = {
        draw.choice(names): {
            "dtype": draw.choice(["F32", "ZZ", 7, None]),
            "shape": draw.choice(shapes),
            "data_offsets": draw.choice([[0, 24], [24, 0], [-1, 5], [0, 10**30], None]),
        }
        for _ in range(draw.choice([0, 1, 3, 8]))
    }
    if draw.random() < 0.2:
        table = draw.choice([[], None, 7, {"__metadata__": 7}, {"a": None}, {"a": []}, {"a": {}}])
    header = encoded(table)
    length = len(header)
    pick = draw.random()
    if pick < 0.1:
        length = draw.choice([0, 1, 2**63, 2**64 - 1, 10**9, len(header) + 1, len(header) - 1])
    data = struct.pack("<Q", max(length, 0)) + header + bytes(draw.choice([0, 8]))
    if 0.1 < pick < 0.2:
        data = data[: draw.randrange(len(data))]
    return draw.choice(["m.safetensors", "m.safetensors", "m.bin"]), data


def damaged_gguf(draw: random.Random) -> tuple[str, bytes]:
    """A name, and a header with values, axes and counts that are junk."""

    def text(word: bytes) -> bytes:
        return struct.pack("<Q", len(word)) + word

    def value(depth: int = 0) -> bytes:
        kind = draw.choice([0, 4, 5, 6, 7, 8, 9, 10, 12, 13, 255])
        if kind == 8:
            return struct.pack("<I", 8) + text(b"x" * draw.choice([0, 1, 50]))
        if kind == 9 and depth < 8:
            inner = value(depth + 1)
            return struct.pack("<I", 9) + inner[:4] + struct.pack("<Q", draw.choice([0, 1, 1, 2, 2**63])) + inner[4:]
        return struct.pack("<I", kind) + bytes({0: 1, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 12: 8}.get(kind, 4))

    pairs, count = draw.choice([0, 1, 3]), draw.choice([0, 1, 3])
    data = draw.choice([b"GGUF"] * 9 + [b"GGML"]) + struct.pack("<I", draw.choice([1, 2, 3, 3, 3, 4]))
    data += struct.pack("<QQ", draw.choice([count] * 8 + [2**63, 10**6]), draw.choice([pairs] * 8 + [2**63, 10**6]))
    for _ in range(pairs):
        data += text(draw.choice([b"k", b"\xff\xff", b"general.name"])) + value()
    for _ in range(count):
        axes = draw.choice([0, 1, 2, 2, 4, 8, 9, 2**31])
        data += text(
            draw.choice([b"blk.0.attn_q.weight", b"token_embd.weight", b"\x1b[31m", b"\xff", b""])
        ) + struct.pack("<I", axes)
        data += b"".join(
            struct.pack("<Q", draw.choice([0, 1, 768, 2**63, 2**64 - 1])) for _ in range(min(axes, 16))
        ) + bytes(12)
    if draw.random() < 0.3:
        data = data[: draw.randrange(len(data) + 1)]
    return "m.gguf", data
