"""Inputs that are large: long texts for options, long lists in configs, many tensors in headers, many points."""

from __future__ import annotations

import json
import random
import struct

from tfcalc.cli.commands import every
from tfcalc.cli.settings import settle
from tools.fuzz.checks import look
from tools.fuzz.configs import TYPES, base_of, encoded
from tools.fuzz.parsed import parsed
from tools.fuzz.program import WORK, call

PIECES = (
    " ",
    "a",
    "1",
    ",",
    ":",
    ".",
    "x",
    "-",
    "*",
    "(",
    "[",
    "a ",
    "1,",
    "a:",
    "*a",
    "()",
    "9",
    "_",
    "=1,",
    "..",
    "\t",
    "é",
)
ENDS = ("", "b", "!", " ", ")", "\n", ":", "1")
STARTS = ("", "1x a", "a", "1", "h=1", "bf16", "re:", "(", "llama-3-8b", "every:", "local:")
TIMES = (100, 1000, 10_000, 60_000, 120_000)


def _long(draw: random.Random) -> str:
    """One piece many times, with something before it and something that does not match behind."""
    return draw.choice(STARTS) + draw.choice(PIECES) * draw.choice(TIMES) + draw.choice(ENDS)


def long_values(draw: random.Random) -> None:
    """A long text as the value of any option."""
    options = [option for option in every() if option.flags and not option.several]
    option, text = draw.choice(options), _long(draw)
    parsed("long value", (option.name, text[:40], len(text)), lambda: settle([option], {option.name: text}, {}))


def long_words(draw: random.Random) -> None:
    """A long text at the place of any word that commands parse further."""
    text = _long(draw)
    argv = draw.choice(
        (
            ["memory", "gpt2", "--train", "--gpu", text],
            ["memory", "gpt2", "--budget", text],
            ["memory", "gpt2", "--weights", text],
            ["memory", "gpt2", "--train", "--lora", "8", "--lora-targets", text],
            ["memory", "gpt2", "--train", "--freeze", text],
            ["formula", "layer", "--substitute", text],
            ["formula", text],
            ["explain", text, "gpt2"],
            ["explain", f"params.{text}", "gpt2"],
            ["check", "mha", text],
            ["solve", text, "--for", "layers"],
            ["solve", "params <= 1B", "--for", text],
            ["sweep", "gpt2", "--layers", text],
            ["plot", "gpt2", "--over", text],
            ["why", text],
            ["compare", text, "gpt2"],
            ["diff", "gpt2", text],
            ["models", text],
            ["budget", "--model", text],
            [text],
            ["params", text],
            ["params", "gpt2", "--max", text],
            ["params", "--as", text, "gpt2"],
            ["shapes", text],
            ["design", "--params", text],
            ["quiz", text],
            [text, text],
            ["params", f"--{text}"],
        )
    )
    if "\x00" in text:
        return
    outcome = call(argv)
    look(argv, outcome)


def large(draw: random.Random) -> None:
    """A config, header or sweep with very many of something."""
    LARGE[draw.randrange(len(LARGE))](draw)


def _config(draw: random.Random) -> None:
    many = draw.choice((1000, 20_000, 100_000, 250_000))
    data = base_of(draw.choice((*TYPES, "llama", "gpt2", "bert")))
    name = draw.choice(("id2label", "keys", "globs", "long globs", "factors", "layer_types", "architectures", "nested"))
    if name == "id2label":
        data["id2label"] = {str(place): f"LABEL_{place}" for place in range(many)}
    elif name == "keys":
        data |= {f"key_{place}": {} for place in range(many)}
    elif name == "globs":
        data["quantization_config"] = {"quant_method": "gptq", "bits": 4, "modules_to_not_convert": ["*a"] * many}
    elif name == "long globs":
        globs = ["*a" * draw.choice((10, 100, 140))] * (many // 20)
        data["quantization_config"] = {"quant_method": "awq", "bits": 4, "modules_to_not_convert": globs}
    elif name == "factors":
        factors = [1.0] * many
        data["rope_scaling"] = {"rope_type": "longrope", "short_factor": factors, "long_factor": factors}
    elif name == "layer_types":
        data["layer_types"] = ["full_attention", "sliding_attention"] * (many // 2)
    elif name == "architectures":
        data["architectures"] = ["XModel"] * many
    else:
        data["x"] = [[{"a": 1}] * 10] * (many // 20)
    argv = draw.choice((["params", "-"], ["memory", "-", "--train"], ["memory", "-", "--serve"], ["flops", "-"], ["-"]))
    stdin = encoded(data)
    look(argv, call(argv, stdin=stdin), stdin=stdin[:200])


def _header(draw: random.Random) -> None:
    many = draw.choice((1000, 50_000, 200_000))
    kind = draw.choice(("tensors", "shape", "index", "digits", "gguf"))
    path = WORK / "checkpoints" / f"large.{'gguf' if kind == 'gguf' else 'safetensors'}"
    if kind == "gguf":
        one = struct.pack("<Q", 1) + b"a" + struct.pack("<IQIQ", 1, 1, 0, 0)
        path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, many, 0) + one * many)
    elif kind == "index":
        path = WORK / "checkpoints" / "large.index.json"
        names = {
            f"model.layers.{place}.mlp.experts.{place}.down_proj.weight": "none.safetensors" for place in range(many)
        }
        path.write_text(json.dumps({"weight_map": names}), encoding="utf-8")
    else:
        shape = [1] * 2000 if kind == "shape" else [10 ** draw.choice((20, 1000))] * 2000 if kind == "digits" else [1]
        table = {
            f"t{place}": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
            for place in range(many if kind == "tensors" else 3)
        }
        raw = json.dumps(table).encode()
        path.write_bytes(struct.pack("<Q", len(raw)) + raw)
    argv = ["verify", "gpt2", "--checkpoint", str(path), *draw.choice(([], ["-q"], ["--json"]))]
    look(argv, call(argv))
    path.unlink()


def _sweep(draw: random.Random) -> None:
    first, second = (draw.choice((10, 100, 300, 1000, 3000, 10_000)) for _ in range(2))
    over = draw.choice((("--seq", "--batch"), ("--layers", "--d-ff"), ("--seq", "--layers")))
    argv = [
        "sweep",
        draw.choice(("gpt2", "llama-3-8b", "mixtral-8x7b", "t5-small")),
        over[0],
        f"1..{first}",
        over[1],
        f"1..{second}",
    ]
    argv += [
        "--of",
        draw.choice(("params", "flops", "memory", "cache")),
        "--format",
        draw.choice(("csv", "json", "table", "plain")),
    ]
    look(argv, call(argv))


LARGE = (_config, _config, _header, _header, _sweep)
