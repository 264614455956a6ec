"""Kinds of inputs for the program: options with junk, configs, bytes, questions that make sense, settings."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import tfcalc
from tfcalc.cli.commands import COMMANDS, every
from tfcalc.model import asked_run, default_run
from tools.fuzz.checks import look, whole
from tools.fuzz.configs import TYPES, encoded, mutated
from tools.fuzz.findings import FOUND
from tools.fuzz.formats import across_formats, formulas
from tools.fuzz.material import FORMATS_OF_WEIGHTS, NUMBERS, TARGETS, WORDS
from tools.fuzz.program import WORK, call, guarded
from tools.fuzz.questions import OUTPUTS, WEIGHTED, model_argument, option_value, random_options, sensible


def junk(draw: random.Random) -> None:
    """Options with junk, in every command."""
    name = (
        draw.choice(WEIGHTED)
        if draw.random() < 0.97
        else draw.choice(["", "parms", "help", "-h", "--version", "-V", "--", "-q"])
    )
    if name not in COMMANDS:
        argv = [name] if name or draw.random() < 0.5 else []
        argv += draw.sample([*COMMANDS, *WORDS], draw.choice([0, 1, 2]))
        argv = [one for one in argv if one not in ("--install-completion", "--show-completion")]
        look(argv, call(argv))
        return
    given, stdin = model_argument(draw, name)
    options = random_options(draw, name, draw.choice([0, 1, 1, 1, 2, 2, 3, 4, 6]), draw.choice([0.0, 0.5, 1.0, 1.0]))
    for one in options:
        if one.startswith("--"):
            FOUND.options.add(one.split("=")[0])
    argv = [name, *given, *options]
    if draw.random() < 0.12:
        argv.insert(draw.randrange(1, len(argv) + 1), draw.choice(WORDS + NUMBERS))
    if draw.random() < 0.05:
        argv.insert(
            draw.randrange(1, len(argv) + 1), draw.choice(["--d-modell", "--zzz", "-z", "--json=1", "--layers="])
        )
    argv = _safe(argv)
    outcome = call(argv, stdin=stdin)
    look(argv, outcome, stdin=stdin)
    if outcome.ok and "--json" in argv and "-q" not in argv and "--quiet" not in argv and outcome.out.startswith(b"{"):
        whole(outcome.out.decode(), argv, stdin)


def _safe(argv: list[str]) -> list[str]:
    """No file may be written but those that are meant to be."""
    safe: list[str] = []
    for index, one in enumerate(argv):
        before = argv[index - 1] if index else ""
        if before in ("-o", "--output") and one not in OUTPUTS:
            one = "out.txt"
        if one.startswith("-o") and len(one) > 2 and not one.startswith("--"):
            one = "-q"
        if one.startswith("--output=") and one[9:] not in OUTPUTS:
            one = "--output=out.txt"
        if "completion" in one or one == "--update":
            one = "--json"
        if one.startswith("--base"):  # which runs git
            one = "--model"
        safe.append(one)
    if safe[-1] in ("-o", "--output"):
        safe.append("out.txt")
    return safe


def config(draw: random.Random) -> None:
    """A config.json with fields that are missing, of the wrong type, huge, negative, nested."""
    model_type = draw.choice(TYPES)
    FOUND.families.add(model_type)
    data = mutated(draw, model_type)
    stdin = encoded(data)
    name = draw.choice(["params", "params", "flops", "flops", "memory", "formula", "explain"])
    argv = [name]
    if name in ("formula", "explain"):
        argv += [draw.choice(TARGETS[:17]), "--model", "-", "--of", draw.choice(["params", "flops", "memory"])]
    else:
        argv.append("-")
    if draw.random() < 0.5 and name in ("flops", "memory"):
        argv += draw.choice(
            [
                ["--train"],
                ["--phase", "decode"] if name == "flops" else ["--serve"],
                ["--train", "--recompute", "full"],
                ["--train", "--seq", "3", "--batch", "2"],
                ["--attention", "causal"] if name == "flops" else ["--weights", draw.choice(FORMATS_OF_WEIGHTS)],
                ["--count", "all"] if name == "flops" else ["--dtype", "int4"],
            ]
        )
    if draw.random() < 0.1 and name != "models":
        argv += random_options(draw, name, 1, 0.3)
        argv = _safe(argv)
    if draw.random() < 0.06:
        argv += ["--as", draw.choice(TYPES)]
    argv.append("--json")
    outcome = call(argv, stdin=stdin)
    look(argv, outcome, stdin=stdin)
    if not (outcome.ok and outcome.out.startswith(b"{")) or "-q" in argv or "--quiet" in argv:
        return
    found = whole(outcome.out.decode(), argv, stdin)
    if found is None or draw.random() > 0.35:
        return
    again = call(argv, stdin=stdin)
    if again.out != outcome.out:
        FOUND.bug("deterministic", f"{name}", (argv, stdin[:500]))
    bare = [one for one in argv if one != "--json"]
    if "--format" not in " ".join(bare) and "--latex" not in bare and "--sympy" not in bare:
        if draw.random() < 0.35:
            across_formats(bare, stdin, found)
        else:
            look(bare, call(bare, stdin=stdin), stdin=stdin)
    if name in ("params", "flops") and "--as" not in argv:
        state, report = guarded(lambda: _report(name, data, argv))
        if state == "ok" and report is not None:
            formulas(report[0], *report[1:], shown=(argv, stdin[:500]))
        elif state == "crash":
            FOUND.bug("uncaught", str(report).strip().splitlines()[-1], (argv, stdin[:500], report))


def _report(name: str, data: dict[str, Any], argv: list[str]) -> Any:
    """The same question of the library, for its formulas."""
    model = tfcalc.from_config(json.loads(json.dumps(data)))
    run = default_run(model)
    if name == "params":
        return tfcalc.params(model), model, asked_run(model, run)
    if any(
        one.startswith("--") and one not in ("--train", "--json", "--phase", "--recompute", "--seq", "--batch")
        for one in argv
    ):
        return None
    changed: dict[str, Any] = {}
    for index, one in enumerate(argv):
        if one == "--train":
            changed["phase"] = "train"
        elif one == "--phase":
            changed["phase"] = argv[index + 1]
        elif one == "--recompute":
            changed["recompute"] = argv[index + 1]
        elif one == "--seq":
            changed["seq_len"] = int(argv[index + 1])
        elif one == "--batch":
            changed["batch_size"] = int(argv[index + 1])
    run = asked_run(model, run.replaced(**changed))
    return tfcalc.flops(model, run), model, run


def raw(draw: random.Random) -> None:
    """Bytes that are no config, nearly."""
    text = encoded(mutated(draw, draw.choice(TYPES)))
    pick = draw.randrange(12)
    if pick == 0:
        text = text[: draw.randrange(len(text) + 1)]
    elif pick == 1:
        place = draw.randrange(len(text))
        text = text[:place] + bytes([draw.randrange(256)]) + text[place + 1 :]
    elif pick == 2:
        text = b"\xef\xbb\xbf" + text
    elif pick == 3:
        text = text.decode().encode(draw.choice(["utf-16", "utf-16-le", "utf-32"]))
    elif pick == 4:
        depth = draw.choice([10, 100, 300, 480, 600, 900, 990, 2000, 100_000])
        inner = b"[" * depth + b"]" * depth if draw.random() < 0.5 else b'{"a":' * depth + b"1" + b"}" * depth
        text = (
            b'{"model_type": "'
            + draw.choice(TYPES).encode()
            + b'", "'
            + draw.choice(
                [b"x", b"hidden_size", b"layer_types", b"rope_scaling", b"architectures", b"quantization_config"]
            )
            + b'": '
            + inner
            + b"}"
        )
    elif pick == 5:
        text = (
            b'{"model_type": "gpt2", "n_layer": '
            + draw.choice(
                [
                    b"9" * 4300,
                    b"9" * 4301,
                    b"-" + b"9" * 4300,
                    b"1e400",
                    b"1E5",
                    b"NaN",
                    b"-Infinity",
                    b"1.0",
                    b"-0",
                    b"0.0",
                    b"01",
                    b"1_0",
                ]
            )
            + b"}"
        )
    elif pick == 6:
        text = b'{"model_type": "gpt2", "model_type": "llama"}'
    elif pick == 7:
        text = draw.choice(
            [b"", b" ", b"null", b"[]", b"7", b'"x"', b"{}", b"true", b"\x00", b"{", b"NaN", b"{}{}", b"//x\n{}"]
        )
    elif pick == 8:
        text = bytes(draw.randrange(256) for _ in range(draw.randrange(200)))
    elif pick == 9:
        text = text.replace(b":", b": ", 1) + b"\n\n"
    elif pick == 10:
        text = (
            b'{"model_type": "'
            + draw.choice(TYPES).encode()
            + b'", "layer_types": ['
            + b",".join([b'"full_attention"'] * draw.choice([1, 12, 1000, 10001]))
            + b"]}"
        )
    else:
        text = (
            b'{"model_type": "'
            + draw.choice(TYPES).encode()
            + b'", "num_hidden_layers": '
            + draw.choice([b"10000", b"10001", b"1000000000", b"9999", b"1000"])
            + b"}"
        )
    argv = draw.choice(
        [
            ["params", "-"],
            ["params", "-", "--json"],
            ["flops", "-", "--train"],
            ["memory", "-", "--train", "--json"],
            ["memory", "-", "--serve"],
            ["memory", "-"],
            ["explain", "layer", "--model", "-"],
        ]
    )
    outcome = call(argv, stdin=text)
    look(argv, outcome, stdin=text)
    if outcome.ok and "--json" in argv:
        whole(outcome.out.decode(), argv, text)


def valid(draw: random.Random) -> None:
    """Questions that make sense: every format says the same."""
    argv, stdin = sensible(draw)
    outcome = call([*argv, "--json"], stdin=stdin)
    look([*argv, "--json"], outcome, stdin=stdin)
    if outcome.code not in (0, 1) or not outcome.out.startswith(b"{"):
        return
    found = whole(outcome.out.decode(), argv, stdin)
    if found is not None and draw.random() < 0.4:
        across_formats(argv, stdin, found)


def settings(draw: random.Random) -> None:
    """Variables and settings files."""
    folder = WORK / "settings"
    env: dict[str, str] = {}
    known = [option for option in every() if option.flags and option.name != "output"]
    for option in draw.sample(known, draw.choice([0, 1, 1, 2])):
        value = option_value(draw, option, 0.6)
        env[f"TFCALC_{draw.choice(option.keys).upper()}"] = value.replace("\x00", "")
    if draw.random() < 0.1:
        env[draw.choice(["TFCALC_ZZZ", "TFCALC_", "TFCALC_d_model", "TFCALC_D_MODELL"])] = draw.choice(WORDS[:30])
    if draw.random() < 0.2:
        env["COLUMNS"] = draw.choice(
            ["0", "1", "2", "20", "40", "10000", "abc", "-5", "٣", "", "1e3", "9" * 30, "9" * 5000]
        )
    if draw.random() < 0.1:
        env[draw.choice(["NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TERM", "LC_ALL", "HF_HUB_OFFLINE"])] = (
            draw.choice(["", "0", "1", "dumb", "junk"])
        )
    env.pop("TFCALC_OUTPUT", None)
    env.pop("TFCALC_DEBUG", None)
    text = b""
    if draw.random() < 0.6:
        lines = []
        for option in draw.sample(known, draw.choice([1, 1, 2, 3])):
            key = draw.choice(option.keys)
            if draw.random() < 0.1:
                key = key.replace("_", "-")
            value = draw.choice(
                [
                    draw.choice(
                        [
                            "0",
                            "-1",
                            "1",
                            "512",
                            "8",
                            "1.5",
                            "nan",
                            "inf",
                            "true",
                            "false",
                            '""',
                            '"x"',
                            '"8"',
                            "[]",
                            "[1]",
                            "{}",
                            "{a=1}",
                            "1979-05-27",
                            "07:32:00",
                            "9" * 4299,
                            "9" * 4301,
                            "0x" + "f" * 5000,
                            "'''\n'''",
                            '"\\u001b[31m"',
                            '"\\u0000"',
                            "1_000",
                            "+1",
                        ]
                    ),
                    json.dumps(option_value(draw, option, 0.2)).replace("\\ud", "\\u0")
                    if draw.random() < 0.8
                    else "512",
                ]
            )
            lines.append(f"{key} = {value}")
        text = "\n".join(lines).encode("utf-8", "replace")
        odd = draw.random()
        if odd < 0.05:
            text += bytes([draw.randrange(256)])
        elif odd < 0.08:
            text = b"[[[" * draw.choice([1, 100, 5000]) + text
        elif odd < 0.1:
            text = b"a = " + b"[" * draw.choice([10, 500, 5000]) + b"]" * 5000
        elif odd < 0.12:
            text = b'"d_model\\u001b[31m\\n" = 5\n'
        elif odd < 0.14:
            text = b"a.b.c = 1\n"
        if draw.random() < 0.3:
            (folder / "pyproject.toml").write_bytes(b"[tool.tfcalc]\n" + text)
        else:
            (folder / "tfcalc.toml").write_bytes(text)
    here = os.getcwd()
    os.chdir(folder / "below")
    try:
        argv = draw.choice(
            [
                ["params"],
                ["flops"],
                ["memory"],
                ["params", "gpt2"],
                ["flops", "gpt2", "--train"],
                ["memory", "gpt2", "--train"],
                ["models", "--family", "llama"],
                ["formula", "mha"],
                ["explain", "attention"],
                ["memory", "gpt2", "--serve"],
                ["verify"],
            ]
        )
        outcome = call(argv, env=env)
        look(argv, outcome, env={**env, "toml": text.decode("utf-8", "replace")[:300]} if text else env)
    finally:
        os.chdir(here)
        for name in ("tfcalc.toml", "pyproject.toml"):
            (folder / name).unlink(missing_ok=True)
