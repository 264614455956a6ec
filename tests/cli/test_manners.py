"""The manners of the command line, on the real program. The numbers are those of the list in CONTRIBUTING.md."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.budgets.sample import sample
from tests.conftest import Program
from tests.page.sample import ended_at_once, sample_page
from tfcalc.cli.commands import COMMANDS, command

ESCAPE = "\x1b"
NEGATIVE = ("tfcalc check mha '3*d**2 + 4*d' --notation bsld",)
"""Examples that show an answer of no: exit 1."""

EXAMPLES = [line for name in COMMANDS for line in command(name).examples]
NEEDS_TORCH = pytest.mark.torch


def example_params() -> list[Any]:
    return [pytest.param(line, marks=NEEDS_TORCH if line.startswith("tfcalc verify") else ()) for line in EXAMPLES]


def patched(code: str, *arguments: str) -> list[str]:
    """The program, in a process that first runs ``code``."""
    return [
        sys.executable,
        "-c",
        f"{code}\nimport sys\nfrom tfcalc.cli.main import main\nsys.exit(main(sys.argv[1:]))",
        *arguments,
    ]


def one_line(text: str) -> bool:
    return text.endswith("\n") and text.count("\n") == 1 and "Traceback" not in text


# --- 1 to 3: exit codes


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["params"], 0),
        (["params", "--d-model", "x"], 2),
        (["params", "--d-model"], 2),
        (["nonsense"], 2),
        (["params", "no-such-model"], 3),
        (["params", "transformer-base", "--heads", "7"], 2),  # 7 was typed
    ],
)
def test_01_exit_codes(tfcalc: Program, arguments: list[str], code: int) -> None:
    result = tfcalc(*arguments)
    assert result.returncode == code
    assert (result.stdout != "") == (code == 0)
    assert code == 0 or one_line(result.stderr)


def test_01_exit_codes_stand_in_help(tfcalc: Program) -> None:
    text, short = tfcalc("--help", "all").stdout, tfcalc("--help").stdout.partition("Exit codes")[2]
    for code in (0, 1, 2, 3, 4, 70, 130):
        assert re.search(rf"^ +{code} ", text, re.MULTILINE), code
        assert re.search(rf"\b{code}\s", short), code


def test_01_a_reference_that_cannot_be_reached_is_4(tmp_path: Path) -> None:
    result = subprocess.run(
        patched("import sys; sys.modules['torch'] = None", "verify"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 4
    assert result.stdout == ""
    assert one_line(result.stderr)
    assert "pip install 'tfcalc[verify]'" in result.stderr


BREAK = "import tfcalc.catalog as c\ndef names(): raise {}\nc.names = names"


@pytest.mark.parametrize(("error", "code"), [("RuntimeError('two\\nlines')", 70), ("KeyboardInterrupt", 130)])
def test_02_bugs_and_interrupts(tmp_path: Path, error: str, code: int) -> None:
    result = subprocess.run(
        patched(BREAK.format(error), "models"), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == code
    assert "Traceback" not in result.stderr
    assert code == 130 or (one_line(result.stderr) and "report" in result.stderr)


def test_02_debug_shows_the_traceback(tmp_path: Path) -> None:
    command_line = patched(BREAK.format("RuntimeError('why')"), "models", "--debug")
    result = subprocess.run(command_line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" in result.stderr
    assert "RuntimeError: why" in result.stderr


@pytest.mark.parametrize("arguments", [["models"], ["params", "--json"], ["--help"]])
def test_03_a_closed_pipe_is_quiet(tmp_path: Path, arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    result = subprocess.run(
        [sys.executable, "-m", "tfcalc", *arguments],
        cwd=tmp_path,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert result.stderr == ""
    assert result.returncode == 0


# --- 4 to 9: streams and formats


@pytest.mark.parametrize("arguments", [["params", "--layers", "0"], ["flops", "--bogus"], ["formula", "nope"]])
def test_04_errors_leave_stdout_empty(process: Program, arguments: list[str]) -> None:
    result = process(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr


@pytest.mark.parametrize("form", ["table", "csv", "markdown", "latex", "plain"])
@pytest.mark.parametrize(
    ("arguments", "key", "number"),
    [
        (["params"], "params", 44_140_544),  # torch.nn.Transformer()
        (["flops", "--batch", "32", "--seq", "20", "--source-seq", "10"], "flops", 42_553_835_520),
    ],
)
def test_05_every_format_has_the_same_numbers(
    tfcalc: Program, arguments: list[str], key: str, number: int, form: str
) -> None:
    answer = json.loads(tfcalc(*arguments, "--json").stdout)
    text = tfcalc(*arguments, "--format", form).stdout.replace(",", "" if form != "csv" else ",")
    values = [number] + [part[key] for part in every(answer["components"])]
    found = [int(digits) for digits in re.findall(r"(?<![\d.])\d{3,}(?![\d.])", text)]
    assert set(values) <= set(found)
    assert answer[f"total_{key}"] == number


@pytest.mark.parametrize("form", ["table", "csv", "json", "markdown", "latex", "plain"])
def test_05_memory_too(tfcalc: Program, form: str) -> None:
    """Bytes for programs, three figures for people: 176,562,176 / 2^20 = 168.38."""
    shown = "176562176" if form in ("csv", "json") else "168 MiB"
    assert shown in tfcalc("memory", "--format", form).stdout


def every(components: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for component in components for part in [component, *every(component["parts"])]]


def test_05_a_place_that_cannot_be_written(process: Program, tmp_path: Path) -> None:
    for path in ("/dev/full", str(tmp_path)):
        result = process("params", "-o", path)
        assert (result.returncode, result.stdout) == (2, "")
        assert one_line(result.stderr)
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = process("params", "-q", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 2
    assert one_line(result.stderr)


def test_05_every_way_to_say_it_goes_to_the_file(tfcalc: Program, tmp_path: Path) -> None:
    for flags, text in ((["--latex"], "4 h^{2} + 4 h\n"), (["--sympy"], "4*h**2 + 4*h\n"), (["-q"], "4h² + 4h\n")):
        assert tfcalc("formula", "mha", *flags, "-o", "out.txt").stdout == ""
        assert (tmp_path / "out.txt").read_text(encoding="utf-8") == text
        assert tfcalc("formula", "mha", *flags, "-o", "-").stdout == text


def test_05_to_a_file(tfcalc: Program, tmp_path: Path) -> None:
    result = tfcalc("params", "--json", "-o", "answer.json")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert json.loads((tmp_path / "answer.json").read_text(encoding="utf-8"))["total_params"] == 44_140_544
    refused = tfcalc("params", "-o", "no/such/folder/answer.json")
    assert refused.returncode == 2
    assert one_line(refused.stderr)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["params", "--d-model", "512", "--layers", "6", "-q"], "44140544"),
        (["flops", "--batch", "32", "--seq", "20", "--source-seq", "10", "-q"], "42553835520"),
        (["memory", "-q"], "176562176"),
        (["formula", "mha", "-q"], "4h² + 4h"),
        (["explain", "attention", "--d-model", "768", "--heads", "12", "-q"], "2362368"),
    ],
)
def test_06_quiet_prints_the_answer_alone(tfcalc: Program, arguments: list[str], line: str) -> None:
    assert tfcalc(*arguments).stdout == f"{line}\n"


def test_07_the_same_bytes_for_the_same_question(tfcalc: Program) -> None:
    for arguments in (["flops", "--json"], ["params"], ["explain", "core"], ["formula", "--model", "gemma-3-27b-it"]):
        outputs = {tfcalc(*arguments, env={"PYTHONHASHSEED": seed}).stdout for seed in "0123"}
        assert len(outputs) == 1


@pytest.mark.one_in(7)
@pytest.mark.parametrize("columns", ["40", "80", "200", None])
@pytest.mark.parametrize(
    "arguments",
    [
        ["params"],
        ["params", "llama-3-8b"],
        ["flops"],
        ["explain", "core", "--of", "flops"],
        ["explain", "core"],
        ["models", "--family", "mamba"],
        ["memory", "llama-3-8b", "--serve", "--weights", "int4"],
    ],
)
def test_08_nothing_is_cut(tfcalc: Program, arguments: list[str], columns: str | None) -> None:
    """Columns are left out in their order, texts wrap between words, large numbers are rounded: no word is broken."""
    result = tfcalc(*arguments, env={"COLUMNS": columns} if columns else {})
    assert result.returncode == 0
    assert "…" not in result.stdout
    if columns:
        too_wide = [line for line in result.stdout.splitlines() if len(line) > int(columns)]
        assert not too_wide or columns == "40"
        assert all("  " in line.strip() for line in too_wide), "but for a table that has a longer name"
    wide = tfcalc(*arguments).stdout
    assert result.stdout.split()[:4] == wide.split()[:4], "the answer itself"
    broken = words(result.stdout) - words(wide)
    assert not {word for word in broken if not re.fullmatch(r"[\d.,]+[kMGTPEB]?", word)}, broken


def words(text: str) -> set[str]:
    """All that stands between blanks; bars and rules come and go with the width, formulas are broken at their signs."""
    return set(re.sub(r"[█─()+]|(?<!\S)-(?!\S)", " ", text).split())


def test_08_a_pipe_is_as_wide_as_it_takes(tfcalc: Program) -> None:
    wide = tfcalc("models", "--family", "gpt2", "--sources").stdout
    rows = [line for line in wide.splitlines() if "gpt2" in line]
    assert max(map(len, rows)) > 100  # a source is long, and stands on one line
    assert all(len(row.split()) > 5 for row in rows)


def test_09_ascii_where_the_encoding_has_no_more(process: Program) -> None:
    for encoding in ("ascii", "latin-1"):
        for arguments in (
            ["params"],
            ["formula", "mha"],
            ["explain", "mha", "--of", "flops"],
            ["flops", "--format", "plain"],
        ):
            result = process(*arguments, env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}, encoding=encoding)
            assert result.returncode == 0
            assert result.stdout.isascii(), result.stdout
            assert "\\u" not in result.stdout
    assert "4h^2 + 4h" in process("formula", "mha", "--ascii").stdout


def test_09_json_stays_json_in_any_encoding(process: Program) -> None:
    result = process("formula", "mha", "--json", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}, encoding="ascii")
    assert json.loads(result.stdout)["formula"] == "4h² + 4h"


# --- 10 and 11: colour


def test_10_no_colour_without_a_terminal(process: Program, tfcalc: Program) -> None:
    for arguments in (["params"], ["params", "--help"], ["--help"], ["params", "--bogus"]):
        for env in ({}, {"GITHUB_ACTIONS": "true"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}):
            result = tfcalc(*arguments, env=env)
            assert ESCAPE not in result.stdout + result.stderr
    piped = process("--help", env={"GITHUB_ACTIONS": "true"})  # typer asks for colours there
    assert ESCAPE not in piped.stdout + piped.stderr


def test_10_colour_where_it_is_asked_for(tfcalc: Program) -> None:
    assert ESCAPE in tfcalc("params", "--color", "always").stdout
    assert ESCAPE in tfcalc("params", env={"FORCE_COLOR": "1"}).stdout
    assert ESCAPE in tfcalc("params", "--color", "always", env={"NO_COLOR": "1"}).stdout
    assert ESCAPE not in tfcalc("params", "--color", "never", env={"FORCE_COLOR": "1"}).stdout


def test_11_colour_carries_no_meaning(tfcalc: Program) -> None:
    coloured = tfcalc("params", "--color", "always").stdout
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured).split() == tfcalc("params").stdout.split()


# --- 12 to 17: help and errors


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", COMMANDS)
def test_12_help_can_be_asked_for_in_three_ways(tfcalc: Program, name: str) -> None:
    texts = {tfcalc(name, "-h").stdout, tfcalc(name, "--help").stdout, tfcalc("help", name).stdout}
    assert len(texts) == 1
    assert "Usage: tfcalc" in texts.pop()


def test_12_help_and_version(process: Program) -> None:
    assert process("help").stdout == process("--help").stdout
    assert process("--version").stdout == process("-V").stdout == process("-V", "init").stdout  # and no file is written
    assert re.fullmatch(r"tfcalc \d+\.\d+\.\d+\S*\n", process("-V").stdout)
    nothing = process()
    assert (nothing.returncode, nothing.stderr) == (0, "")
    assert nothing.stdout == process("--help").stdout
    assert all(name in nothing.stdout for name in COMMANDS)


def test_12_version_imports_no_typer() -> None:
    code = "import sys; from tfcalc.cli.main import main; main(['--version']); print('typer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.endswith(
        "False\n"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_13_help_begins_with_examples_and_swallows_nothing(tfcalc: Program, name: str) -> None:
    assert re.match(r"Usage: .*\n\n  Examples:\n    tfcalc ", tfcalc(name, "--help").stdout)
    text = tfcalc(name, "--help", "all").stdout
    for option in command(name).options:
        for flag in option.flags:
            assert flag in text
        for words in option.help.split(" [default"):  # many choices stand before the default
            assert "".join(words.split()) in "".join(text.split())  # wherever it was wrapped


@pytest.mark.one_in(8)
@pytest.mark.parametrize("line", example_params())
def test_13_every_example_runs(tfcalc: Program, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if line.startswith("tfcalc budget"):
        sample(tmp_path)
        tfcalc("budget", "--update")
    if "--module" in line:
        shutil.copy(Path(__file__).parents[1] / "verify" / "modules" / "attention.py", tmp_path)
    if line.startswith("tfcalc calibrate"):
        oracle = Path(__file__).parents[1] / "oracle" / "planning" / "runs.jsonl"
        rows = oracle.read_text(encoding="utf-8").splitlines()[:3]
        (tmp_path / "runs.jsonl").write_text("\n".join(rows), encoding="utf-8")
        shutil.copy(Path(__file__).parents[1] / "timing" / "logs" / "megatron.log", tmp_path / "train.log")
    if line.startswith("tfcalc web"):
        sample_page(tmp_path / "site" / "calculator")
        monkeypatch.setattr("tfcalc.cli.commands.web.local_server", ended_at_once)
    result = tfcalc(*shlex.split(line)[1:])
    assert result.returncode == (line in NEGATIVE), result.stderr
    assert result.stdout or (tmp_path / shlex.split(line)[-1]).stat().st_size  # of -o FILE


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["parms"], "the command params"),
        (["params", "--d-modle", "5"], "--d-model"),
        (["params", "--laers", "5"], "--layers"),
        (["params", "transformer-bse"], "transformer-base or transformer-big"),
        (["params", "--norm", "rmsnrom"], "rmsnorm"),
        (["params", "--kind", "encodr"], "encoder"),
        (["params", "--format", "jsn"], "json"),
        (["memory", "--dtype", "fp31"], "fp32"),
        (["flops", "--attention", "casual"], "causal"),
        (["formula", "encoder-layr"], "encoder-layer"),
        (["formula", "mha", "--of", "flos"], "flops"),
        (["formula", "mha", "--substitute", "d_modl=5"], "d_model"),
    ],
)
def test_14_typos_are_answered_with_the_nearest(tfcalc: Program, typed: list[str], meant: str) -> None:
    result = tfcalc(*typed)
    assert result.returncode in (2, 3)
    assert f"did you mean {meant}?" in result.stderr
    assert one_line(result.stderr)


def test_15_an_error_says_what_would_do(tfcalc: Program) -> None:
    result = tfcalc("params", "--d-model", "513")
    assert result.stderr.startswith("tfcalc: d_model 513 is not divisible by heads 8; nearest: 512, 520")
    for nearest in ("512", "520"):
        assert tfcalc("params", "--d-model", nearest).returncode == 0


def test_15_errors_are_json_where_the_answer_would_be(tfcalc: Program) -> None:
    for flags in (["--json"], ["--format", "json"], ["--format=json"]):
        result = tfcalc("params", "--d-model", "513", *flags)
        assert json.loads(result.stderr) == {
            "code": "usage",
            "message": "d_model 513 is not divisible by heads 8",
            "hint": "nearest: 512, 520; or give head_dim",
        }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1_024", 1024),
        ("1,024", 1024),
        ("1k", 1024),
        ("1K", 1024),
        ("1Ki", 1024),
        ("1e3", 1000),
        ("0.5k", 512),
        ("1024", 1024),
    ],
)
def test_16_numbers_as_people_write_them(tfcalc: Program, written: str, meant: int) -> None:
    answer = json.loads(tfcalc("flops", "--seq", written, "--json").stdout)
    assert answer["conventions"]["seq_len"] == meant


@pytest.mark.parametrize("written", ["--context", "--max-model-len", "--max-num-batched-tokens", "--seq", "--cached"])
def test_16_a_length_in_tokens_counts_k_as_1024(tfcalc: Program, written: str) -> None:
    ask: tuple[str, ...] = (
        ("memory", "gpt2", "--serve", "-q") if written.startswith(("--c", "--m")) else ("flops", "gpt2", "-q")
    )
    if written == "--cached":
        ask = ("flops", "gpt2", "--phase", "decode", "-q")
    small, long = tfcalc(*ask, written, "1k"), tfcalc(*ask, written, "1024")
    assert (small.returncode, long.returncode) == (0, 0), small.stderr
    assert small.stdout == long.stdout


def test_16_all_else_counts_k_as_1000(tfcalc: Program) -> None:
    """Tokens of a run, and a vocabulary, are no lengths: 44,140,544 and 2 matrices of 1,000 x 512."""
    assert tfcalc("params", "--vocab-size", "1k", "-q").stdout == f"{44_140_544 + 2 * 1000 * 512}\n"
    short, long = (tfcalc("flops", "--train", "--tokens", tokens, "-q").stdout for tokens in ("300k", "300000"))
    assert short == long


@pytest.mark.parametrize(
    "written", ["2.5", "0.0001k", "1,5", "1.2.3", "k", "", "nan", "inf", "-inf", "0x10", "１２", "1e-3"]
)
def test_16_what_is_no_whole_number_is_refused(tfcalc: Program, written: str) -> None:
    result = tfcalc("params", "--layers", written)
    assert result.returncode == 2
    assert one_line(result.stderr)
    assert repr(written) in result.stderr


def test_17_no_stdin_is_needed(tmp_path: Path) -> None:
    shell = f"cd {tmp_path} && {sys.executable} -m tfcalc params -q <&-"
    assert subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True).stdout == "44140544\n"


# --- 18 to 20: environment


def test_18_nothing_is_asked_of_the_network(tmp_path: Path) -> None:
    block = (
        "import socket\ndef no(*a, **k): raise AssertionError('network')\nsocket.socket = socket.create_connection = no"
    )
    for name in ("params", "flops", "memory", "models"):
        result = subprocess.run(patched(block, name, "-q"), cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0


def test_19_flag_then_variable_then_file_then_default(tfcalc: Program, tmp_path: Path) -> None:
    def width(*flags: str, **env: str) -> int:
        return int(json.loads(tfcalc("params", "--json", *flags, env=env).stdout)["model"]["d_model"])

    assert width() == 512
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n[tool.tfcalc]\nd-model = 96\n', encoding="utf-8")
    assert width() == 96
    (tmp_path / "tfcalc.toml").write_text("d_model = 64\n", encoding="utf-8")
    assert width() == 64
    assert width(TFCALC_D_MODEL="128") == 128
    assert width("--d-model", "256", TFCALC_D_MODEL="128") == 256


@pytest.mark.parametrize("key", ["d_model", "hidden_size"])
def test_19_every_name_of_an_option_is_a_variable_and_a_key(tfcalc: Program, tmp_path: Path, key: str) -> None:
    assert (
        tfcalc("params", "-q", env={f"TFCALC_{key.upper()}": "64"}).stdout
        == tfcalc("params", "--d-model", "64", "-q").stdout
    )
    (tmp_path / "tfcalc.toml").write_text(f"{key.replace('_', '-')} = 64\n", encoding="utf-8")
    assert tfcalc("params", "-q").stdout == tfcalc("params", "--d-model", "64", "-q").stdout


def test_19_a_variable_that_means_nothing_is_refused(tfcalc: Program) -> None:
    result = tfcalc("params", env={"TFCALC_DMODEL": "64"})
    assert result.returncode == 2
    assert "did you mean TFCALC_D_MODEL?" in result.stderr


def test_19_a_flag_overrides_the_long_and_the_short_of_a_file(tfcalc: Program, tmp_path: Path) -> None:
    (tmp_path / "tfcalc.toml").write_text('train = true\njson = true\nmodel = "transformer-big"\n', encoding="utf-8")
    answer = json.loads(tfcalc("flops").stdout)
    assert (answer["conventions"]["phase"], answer["model"]["d_model"]) == ("train", 1024)
    assert json.loads(tfcalc("flops", "--phase", "forward").stdout)["conventions"]["phase"] == "forward"
    assert json.loads(tfcalc("flops", "transformer-base").stdout)["model"]["d_model"] == 512
    assert tfcalc("flops", "--format", "csv").stdout.startswith("component,")


def test_19_a_file_that_says_nothing_of_sizes_changes_no_exit_code(tfcalc: Program, tmp_path: Path) -> None:
    (tmp_path / "tfcalc.toml").write_text('units = "si"\n', encoding="utf-8")
    assert tfcalc("memory", "--d-model", "513").returncode == 2
    (tmp_path / "tfcalc.toml").write_text("d_model = 513\n", encoding="utf-8")
    assert tfcalc("memory").returncode == 3


def test_19_a_settings_file_is_found_from_below(tfcalc: Program, tmp_path: Path) -> None:
    (tmp_path / "tfcalc.toml").write_text("json = true\n", encoding="utf-8")
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert json.loads(tfcalc("params", cwd=tmp_path / "a" / "b").stdout)["total_params"] == 44_140_544


@pytest.mark.parametrize(
    "text",
    [
        "d_modle = 5",
        "d_model = 5.5",
        "d_model = 'x'",
        "d_model = true",
        "d_model",
        "norm = 3",
        "json = 'perhaps'",
        "d_model = nan",
        "heads = -1",
        "d_model = [1, 2]",
        "heads = 1979-05-27",
        "format = ['json']",
    ],
)
def test_19_a_bad_settings_file_is_3(tfcalc: Program, tmp_path: Path, text: str) -> None:
    (tmp_path / "tfcalc.toml").write_text(text, encoding="utf-8")
    result = tfcalc("params")
    assert (result.returncode, result.stdout) == (3, "")
    assert one_line(result.stderr)
    assert "tfcalc.toml" in result.stderr


def test_20_python_m_is_the_same_program(tfcalc: Program, tmp_path: Path) -> None:
    program = shutil.which("tfcalc", path=str(Path(sys.executable).parent))
    assert program, "the console script is installed beside the interpreter"
    script = subprocess.run([program, "params", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert script.stdout == tfcalc("params", "--json").stdout
