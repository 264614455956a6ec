"""Questions: a command, a model, and options that make sense or do not."""

from __future__ import annotations

import random

from tfcalc.cli.commands import command
from tfcalc.cli.options import Option
from tools.fuzz.configs import PRESETS, TYPES, base_of, encoded, fields_of, mutated, put
from tools.fuzz.formulas import TEXTS as FORMULAS
from tools.fuzz.material import FORMATS_OF_WEIGHTS, GPUS, NUMBERS, SIZES, TARGETS, TEXTS, WORDS, number_near
from tools.fuzz.mutations import edited

RANGES = ["1,2,4", "1..8", "64..512:64", "1k..8k:x2", "8..1", "1..", "1,024", "1..8:x1", "0..3", ",", "1..2..3", "7,7"]
OUTPUTS = ["-", "out.txt", ".", "", "nowhere/x", "/dev/null"]


def option_value(draw: random.Random, option: Option, junk: float) -> str:
    """A value for an option, that makes sense or does not."""
    if option.name == "output":
        return draw.choice(OUTPUTS)
    if draw.random() < junk:
        return draw.choice(NUMBERS) if draw.random() < 0.55 else draw.choice(WORDS)
    if option.name in TEXTS:
        return draw.choice(TEXTS[option.name])
    if option.known:
        word: str = draw.choice(option.known)
        return word.replace(":N", f":{draw.choice([1, 2, 3, 7, 64, 999999])}")
    if option.name == "over":
        return f"{draw.choice(['seq', 'batch', 'd_model', 'layers', 'x'])}={draw.choice(RANGES)}"
    if option.spreads and draw.random() < 0.3:
        return draw.choice(RANGES)
    if option.number:
        return draw.choice(SIZES[:20] if draw.random() < 0.85 else SIZES)
    if option.amount:
        return draw.choice(["3.5k", "9500", "1e3", "989T", "1.5", "312e12", "0.001", "1e29", "1e-5"])
    if option.name in ("model", "model_name"):
        return draw.choice(PRESETS)
    return draw.choice(WORDS)


def random_options(draw: random.Random, name: str, count: int, junk: float) -> list[str]:
    """So many options of the command, by any of their names."""
    argv: list[str] = []
    options = [option for option in command(name).options if option.flags]
    for option in draw.sample(options, min(count, len(options))):
        flag = draw.choice([spelled for flags in option.flags for spelled in flags.split("/")])
        if option.switch:
            argv.append(flag)
            continue
        value = option_value(draw, option, junk)
        if flag.startswith("--") and draw.random() < 0.3:
            argv.append(f"{flag}={value}")
        else:
            argv += [flag, value]
    return argv


WEIGHTED = ["params", "flops", "flops", "memory", "memory", "formula", "explain", "verify"] * 5
WEIGHTED += ["models", "schema", "budget", "diff", "diff", "compare", "compare", "check", "check", "overview"]
WEIGHTED += ["shapes", "shapes", "sweep", "sweep", "plot", "why", "why", "design", "quiz"]


def model_argument(draw: random.Random, name: str) -> tuple[list[str], bytes]:
    """The model: named, from a config on stdin, or the classic one."""
    if name in ("models", "budget"):
        return [], b""
    if name == "quiz":
        return draw.choice([[], [draw.choice(NUMBERS)], ["3", edited(draw, draw.choice(FORMULAS), FORMULAS)]]), b""
    if name == "schema":
        return draw.choice([[], [draw.choice([*WEIGHTED, *WORDS])]]), b""
    if name in ("compare", "diff"):
        stdin = encoded(mutated(draw, draw.choice(TYPES)))
        sides = [draw.choice([draw.choice(PRESETS), "-", " ".join(["gpt2", *classic(draw)])]) for _ in range(2)]
        sides = [edited(draw, side, sides) if draw.random() < 0.3 else side for side in sides]
        return sides[: draw.choice([0, 1, 2, 2, 2, 2])], stdin
    kind = draw.random()
    given: list[str] = []
    stdin = b""
    if kind < 0.4:
        given = [draw.choice(PRESETS)]
    elif kind < 0.6:
        given, stdin = ["-"], encoded(mutated(draw, draw.choice(TYPES)))
    if name == "why":
        number = draw.choice(
            [*NUMBERS, "117M", "163,037,184", "6.61B", "14GB", "12.6 GiB", "3.14e23", "512KB", "31.5T"]
        )
        return [edited(draw, number, NUMBERS) if draw.random() < 0.3 else number, *given], stdin
    if name in ("formula", "explain", "check", "shapes"):
        given = ["--model", *given] if given else []
        formula = [edited(draw, draw.choice(FORMULAS), FORMULAS)] if name == "check" else []
        given = [draw.choice(TARGETS), *formula, *given] if draw.random() < 0.95 else given
    return given, stdin


def classic(draw: random.Random) -> list[str]:
    """Sizes of a classic Transformer that mostly fit."""
    heads = draw.choice([1, 2, 4, 8, 12])
    width = heads * draw.choice([2, 8, 16, 64])
    argv = ["--d-model", str(width), "--heads", str(heads), "--layers", str(draw.choice([1, 2, 3, 6, 12]))]
    if draw.random() < 0.5:
        argv += ["--kind", draw.choice(["encoder", "decoder", "encoder-decoder"])]
    if draw.random() < 0.5:
        argv += ["--vocab-size", str(draw.choice([7, 100, 1000, 50257]))]
        if draw.random() < 0.4:
            argv += ["--output-head", draw.choice(["tied", "untied", "none"])]
    if draw.random() < 0.3:
        argv += ["--kv-heads", str(draw.choice([g for g in range(1, heads + 1) if heads % g == 0]))]
    if draw.random() < 0.3:
        argv += ["--d-ff", str(draw.choice([1, 7, 100, 4 * width]))]
    if draw.random() < 0.3:
        argv += ["--positions", draw.choice(["none", "sinusoidal", "rotary", "alibi", "t5", "multiplicative"])]
    if draw.random() < 0.2:
        argv += ["--pattern", draw.choice(["dense", "local:4", "atrous:3", "sparse:5", "sliding:7", "chunked:16"])]
    if draw.random() < 0.2:
        argv += ["--norm", draw.choice(["layernorm", "rmsnorm", "layernorm-no-bias"])]
    if draw.random() < 0.2:
        argv += [draw.choice(["--pre-norm", "--post-norm", "--no-attention-bias", "--no-ffn-bias"])]
    return argv


def sensible(draw: random.Random) -> tuple[list[str], bytes]:
    """A question that mostly has an answer: command, model, workload."""
    name = draw.choice(["params", "flops", "flops", "memory", "memory", "memory", "formula", "explain"])
    stdin = b""
    kind = draw.random()
    if kind < 0.3:
        model = classic(draw)
    elif kind < 0.65:
        model = ["--model", draw.choice(PRESETS)]
    else:
        data = base_of(draw.choice(TYPES))
        if draw.random() < 0.4:
            put(data, draw.choice(fields_of(data["model_type"])), number_near(draw))
        model, stdin = ["--model", "-"], encoded(data)
    argv = [name]
    if name in ("formula", "explain"):
        argv.append(draw.choice(TARGETS))
        argv += ["--of", draw.choice(["params", "flops", "memory"])]
    argv += model
    lengths = ["--seq", str(draw.choice([1, 2, 7, 64, 128, 512, 1000]))] if draw.random() < 0.6 else []
    batch = ["--batch", str(draw.choice([1, 2, 3, 8]))] if draw.random() < 0.5 else []
    if name == "params":
        argv += draw.choice([[], ["--depth", str(draw.choice([0, 1, 2, 3, 9]))], ["--approx"]])
    elif name in ("flops", "explain", "formula") and "memory" not in argv:
        phase = draw.choice(["forward", "train", "prefill", "decode"])
        argv += [*lengths, *batch, "--phase", phase]
        if phase == "decode" and draw.random() < 0.5:
            argv += ["--cached", str(draw.choice([1, 2, 100, 4096]))]
        if phase == "train" and draw.random() < 0.5:
            argv += ["--recompute", draw.choice(["none", "selective", "full", "every:2", "every:3"])]
        for flag, words in (
            ("--attention", ["full", "causal", "causal-half"]),
            ("--count", ["matmul", "all"]),
            ("--attention-kernel", ["eager", "math", "flash", "efficient"]),
            ("--logits", ["all", "last"]),
            ("--mla", ["expanded", "absorbed"]),
            ("--experts", ["chosen", "all"]),
            ("--grouped-convolutions", ["counter", "run"]),
        ):
            if draw.random() < 0.2:
                argv += [flag, draw.choice(words)]
        if name == "flops" and phase == "train" and draw.random() < 0.15:
            argv += draw.choice(
                [
                    ["--tokens", draw.choice(TEXTS["tokens"])],
                    ["--compare-conventions"],
                    ["--mfu", "--tokens-per-second", "1000", "--gpu", draw.choice(GPUS)],
                ]
            )
    else:
        what = draw.random()
        if what < 0.3:
            argv += (
                draw.choice(
                    [
                        [],
                        ["--dtype", draw.choice(["fp32", "bf16", "int8", "int4", "fp8"])],
                        ["--weights", draw.choice(FORMATS_OF_WEIGHTS)],
                    ]
                )
                if name == "memory"
                else []
            )
        elif what < 0.7:
            argv += [*lengths, *batch, "--train"]
            for flag, words in (
                ("--precision", ["fp32", "bf16", "fp16", "bf16-mixed", "bf16-master", "fp16-master-fp32-grads"]),
                (
                    "--optimizer",
                    [
                        "none",
                        "sgd",
                        "momentum",
                        "adam",
                        "adamw",
                        "adamw-fused",
                        "adamw-8bit",
                        "adafactor",
                        "lion",
                        "muon",
                    ],
                ),
                ("--recompute", ["none", "selective", "full", "every:2"]),
                ("--lora", ["1", "8", "64"]),
                ("--attention-kernel", ["eager", "math", "flash", "efficient"]),
                ("--grad-accum", ["1", "2", "8"]),
                ("--offload", ["none", "optimizer", "all"]),
                ("--device", ["recorded", "cuda"]),
                ("--backend", ["auto", "transformers", "torch", "fused", "megatron"]),
            ):
                if draw.random() < 0.25:
                    argv += [flag, draw.choice(words)]
            if draw.random() < 0.25:
                argv += [
                    "--zero",
                    draw.choice("0123"),
                    "--gpus",
                    draw.choice(["1", "2", "8", "7", "1000"]),
                    "--layout",
                    draw.choice(["flat", "zero", "fsdp1", "fsdp2"]),
                ]
            if "megatron" in argv and draw.random() < 0.7:
                argv += ["--tp", draw.choice(["1", "2", "8"]), "--pp", draw.choice(["1", "2", "4"])]
        else:
            argv += [
                "--serve",
                "--context",
                draw.choice(["1", "17", "2048", "32k"]),
                "--concurrency",
                draw.choice(["1", "3", "64"]),
            ]
            for flag, words in (
                ("--weights", FORMATS_OF_WEIGHTS),
                ("--kv", ["fp32", "bf16", "fp8", "int8", "int4"]),
                ("--cache", ["dynamic", "static", "paged"]),
            ):
                if draw.random() < 0.5:
                    argv += [flag, draw.choice(words)]
        if name == "memory" and draw.random() < 0.06:
            argv += draw.choice(
                [["--budget", draw.choice(["1GB", "24GB", "80GB", "1TB"])], ["--gpu", draw.choice(GPUS)]]
            )
        elif name == "memory" and "--train" in argv and draw.random() < 0.1:
            argv += ["--timeline"]
        if name == "memory" and draw.random() < 0.2 and "--timeline" not in argv:
            argv += ["--depth", str(draw.choice([0, 1, 2, 5]))]
    return argv, stdin
