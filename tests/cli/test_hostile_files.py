"""What lies in a file, or is called one: bounded, refused in one line, and never an internal error."""

from __future__ import annotations

import ast
import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

import tfcalc as library
from tests.conftest import Quick
from tfcalc.errors import InvalidModel, TfcalcError
from tfcalc.files import content

DIGITS = "9" * 5_000
NESTED = [60, 300, 480, 600, 900, 990, 2_000, 100_000]
COMMANDS = [["params"], ["memory", "--train"], ["params", "--json"]]


def refused(result: Any, *codes: int) -> None:
    assert result.returncode in codes, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith(("tfcalc: ", "{"))
    assert result.stderr.count("\n") == 1
    assert len(result.stderr) <= 600


@pytest.mark.parametrize("field", ["x", "layer_types", "rope_parameters", "quantization_config", "architectures"])
@pytest.mark.parametrize("depth", NESTED)
def test_a_config_is_nested_a_few_levels(quick: Quick, field: str, depth: int) -> None:
    text = '{"model_type": "llama", "' + field + '": ' + '{"a":' * depth + "1" + "}" * depth + "}"
    result = quick("params", "-", input=text)
    refused(result, 3)
    assert "nested too deeply" in result.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("number", [DIGITS, f"-{DIGITS}", "9" * 4_300, "9" * 1_001])
@pytest.mark.parametrize("config", ['{"model_type": "gpt2", "n_layer": N}', '{"model_type": "gpt2", "x": [{"y": N}]}'])
def test_numbers_in_a_config_have_an_end(quick: Quick, command: list[str], number: str, config: str) -> None:
    result = quick(*command, "--model", "-", input=config.replace("N", number))
    refused(result, 2, 3)
    assert "digits" in result.stderr


@pytest.mark.parametrize(
    "value", [DIGITS, f"[{DIGITS}]", "0x" + "f" * 5_000, f"[[0x{'f' * 5_000}]]", "[" * 500 + "]" * 500]
)
@pytest.mark.parametrize("key", ["d_model", "norm", "tied", "quiet", "budget"])
def test_numbers_in_a_settings_file_have_an_end(quick: Quick, tmp_path: Path, key: str, value: str) -> None:
    (tmp_path / "tfcalc.toml").write_text(f"{key} = {value}\n")
    refused(quick("params"), 3)


@pytest.mark.parametrize("number", [DIGITS, "1e" + DIGITS, "0x" + "f" * 5_000, f"-{DIGITS}", "٣" * 5_000])
def test_numbers_that_are_typed_have_an_end(quick: Quick, number: str) -> None:
    refused(quick("params", "--layers", number), 2)
    refused(quick("params", env={"TFCALC_LAYERS": number}), 2)
    refused(quick("formula", "mha", "--substitute", f"h={number}"), 2)
    assert quick("params", "-q", env={"COLUMNS": number}).stdout == "44140544\n"
    assert quick("params", env={"COLUMNS": number}).returncode == 0


def safetensors(folder: Path, header: str) -> str:
    raw = header.encode()
    (folder / "m.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw)
    return "m.safetensors"


SHAPES = [
    f"[{DIGITS}]",
    f"[{'9' * 4_299}, {'9' * 4_299}]",
    f"[{2**62}, 4]",
    "[" + "2," * 2_000 + "2]",
    "[true]",
    "[-1]",
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", [[], ["--json"], ["-q"]], ids=["table", "json", "quiet"])
def test_a_tensor_has_an_end(quick: Quick, tmp_path: Path, shape: str, form: list[str]) -> None:
    place = safetensors(tmp_path, '{"wte.weight": {"dtype": "F32", "shape": ' + shape + "}}")
    refused(quick("verify", "gpt2", "--checkpoint", place, *form), 3)


def test_a_tensor_of_gguf_has_an_end(quick: Quick, tmp_path: Path) -> None:
    name, sides = b"token_embd.weight", struct.pack("<8Q", *[2**63] * 8)
    tensor = struct.pack("<Q", len(name)) + name + struct.pack("<I", 8) + sides + bytes(12)
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + tensor)
    refused(quick("verify", "gpt2", "--checkpoint", "m.gguf"), 3)


@pytest.mark.parametrize("name", ["\0", "m\0.safetensors", "\ud800", "\x1b[31m", "a" * 300, "😀" * 90])
def test_an_index_names_files_that_can_be(quick: Quick, tmp_path: Path, name: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    refused(quick("verify", "gpt2", "--checkpoint", "model.safetensors.index.json"), 3)


NAMES = ["\0", "a\0.json", "./\0", "\ud800", "./\ud800", "/\ud800.json", "😀" * 90, "/" + "a" * 300, "./" + "😀" * 90]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_path_that_cannot_be_is_refused(name: str, tmp_path: Path, quick: Quick) -> None:
    for arguments in (
        ["params", name],
        ["params", "-o", name],
        ["diff", "gpt2", name],
        ["budget", "--file", name],
        ["verify", "gpt2", "--checkpoint", name],
    ):
        refused(quick(*arguments), 2, 3, 4)
    with pytest.raises(TfcalcError):
        library.load(name)
    (tmp_path / "tfcalc.toml").write_text('output = "a\\u0000b"\n')
    refused(quick("params"), 2, 3)


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="homes are POSIX's")
def test_nobody_needs_a_home(tmp_path: Path) -> None:
    """Without HOME and without an entry in the list of users, as in a container: ``~`` is a name like any other."""
    program = (
        "import pwd, sys\n"
        "def unknown(*_): raise KeyError\n"
        "pwd.getpwuid = pwd.getpwnam = unknown\n"
        "from tfcalc.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    import subprocess

    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HOME", "HF_", "XDG_"))}
    for arguments, code in (
        (["params", "~/config.json"], 3),
        (["params", "~nobody/config.json"], 3),
        (["params", "--offline", "owner/name"], 4),
        (["params", "-q"], 0),
    ):
        command = [sys.executable, "-c", program, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert done.stderr.count("\n") == (code > 0)


def test_a_folder_that_is_gone_has_no_settings(tmp_path: Path) -> None:
    import subprocess

    gone = tmp_path / "gone"
    gone.mkdir()
    program = (
        "import os, sys\nfrom tfcalc.cli.main import main\nos.rmdir(os.getcwd())\nsys.exit(main(['params', '-q']))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=gone, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "44140544\n", "")


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), -float("inf"), -1, 0, "half", True, [0.5], 10**400])
@pytest.mark.parametrize("place", ["partial_rotary_factor", "rope_parameters"])
@pytest.mark.parametrize("model_type", ["llama", "nemotron", "gpt_neox", "cohere2"])
def test_a_factor_is_a_number_above_0(model_type: str, place: str, factor: object) -> None:
    fields = {place: factor if place != "rope_parameters" else {"partial_rotary_factor": factor}}
    with pytest.raises(InvalidModel, match="partial_rotary_factor"):
        library.params(library.from_config({"model_type": model_type, **fields}))


@pytest.mark.parametrize("ratios", [[0, 2, 4, 5, 5, 8], [2, 2, 4, 5, 5, 0], [-1] * 6, [1.5] * 6, ["2"] * 6, 0, None])
def test_what_divides_is_not_0(ratios: object) -> None:
    encoder = {"downsampling_ratios": ratios}
    for kind in ("acoustic", "semantic"):
        config = {"model_type": "vibevoice_asr", f"{kind}_tokenizer_encoder_config": encoder}
        with pytest.raises(InvalidModel, match="downsampling_ratios"):
            library.params(library.from_config(config))


@pytest.mark.parametrize("layer", [{"a": 1}, "last", 1.5, True, [None], float("nan"), 10**30])
@pytest.mark.parametrize("model_type", ["llava", "mistral3"])
def test_a_layer_of_a_tower_is_a_whole_number(model_type: str, layer: object) -> None:
    with pytest.raises(InvalidModel, match="vision_feature_layer"):
        library.params(library.from_config({"model_type": model_type, "vision_feature_layer": layer}))


class Odd:
    """No JSON has it."""


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    "value",
    [
        Odd(),
        {1, 2},
        b"x",
        {Odd(): 1},
        {(1, 2): 1},
        {None: Odd()},
        {1.5: {2}},
        ITSELF,
        10**5_000,
        [{"a": Odd()}],
        complex(1),
    ],
    ids=type,
)
def test_a_config_of_the_library_holds_what_json_can_hold(value: Any) -> None:
    with pytest.raises(InvalidModel, match=r"^(the name )?x"):
        library.from_config({"model_type": "gpt2", "x": value})


def test_a_config_of_the_library_may_count_its_labels() -> None:
    """``PretrainedConfig.to_dict()`` numbers its labels, and holds tuples."""
    fields = {"id2label": {0: "no", 1: "yes"}, "x": (1, 2), "architectures": ["GPT2ForSequenceClassification"]}
    plain, labelled = (library.from_config({"model_type": "gpt2", **more}) for more in ({}, fields))
    report = library.params(labelled)
    assert report.answer == library.params(plain).answer + 2 * 768
    assert json.loads(report.to_json())["model"]["config"]["x"] == [1, 2]


FIFOS = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name are POSIX's")
NEVER = Path("/proc/kmsg")
"""A regular file by its mode, of which reading waits for what the kernel says next."""


def odd(folder: Path, name: str, kind: str) -> None:
    """A file of this name that is none to be read."""
    place = folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(place)
        case "link to a pipe":
            os.mkfifo(place.with_suffix(".pipe"))
            place.symlink_to(place.with_suffix(".pipe"))
        case "device":
            place.symlink_to("/dev/zero")
        case "terminal":
            place.symlink_to("/dev/tty")
        case "kernel's":
            place.symlink_to(NEVER)
        case "folder":
            place.mkdir()


KINDS = ["pipe", "link to a pipe", "device", "terminal", "kernel's", "folder"]
BUDGETS = '[models.a]\npreset = "gpt2"\n[[budget]]\nmodel = "a"\nmetric = "total_params"\nmax = "1B"\n'
READ = {
    "x.safetensors": ["verify gpt2 --checkpoint x.safetensors", "verify gpt2 --checkpoint m.index.json"],
    "x.gguf": ["verify gpt2 --checkpoint x.gguf"],
    "x.index.json": ["verify gpt2 --checkpoint x.index.json"],
    "c.json": ["params c.json", "diff c.json gpt2", "compare gpt2 c.json", "budget -f b.toml"],
    "folder/config.json": ["params folder"],
    "hub/models--a--b/refs/main": ["params a/b --offline"],
    "hub/models--a--b/snapshots/x/config.json": ["params a/b --offline"],
    "x.toml": ["budget -f x.toml"],
    "tfcalc.lock.json": ["budget -f own.toml", "budget -f own.toml --update"],
    "x.lock": ["budget -f own.toml --baseline x.lock"],
    "m.py": ["verify --module m.py:C"],
}
"""Files that are typed or named by others, and what reads them."""


@FIFOS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_a_regular_file(quick: Quick, tmp_path: Path, name: str, kind: str) -> None:
    """Anything else is refused at once: a pipe that nobody writes to would be waited for without end."""
    if kind in ("terminal", "kernel's") and not Path("/dev/tty" if kind == "terminal" else NEVER).exists():
        pytest.skip("there is none here")
    odd(tmp_path, name, kind)
    (tmp_path / "m.index.json").write_text('{"weight_map": {"a": "x.safetensors"}}')
    (tmp_path / "own.toml").write_text(BUDGETS)
    (tmp_path / "b.toml").write_text(BUDGETS.replace('preset = "gpt2"', 'config = "c.json"'))
    for line in READ[name]:
        refused(quick(*line.split(), env={"HF_HUB_CACHE": str(tmp_path / "hub")}), 2, 3, 4)


@FIFOS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["tfcalc.toml", "pyproject.toml"])
def test_settings_are_looked_for_in_regular_files(quick: Quick, tmp_path: Path, name: str, kind: str) -> None:
    if kind == "kernel's" and not os.access(NEVER, os.R_OK):
        pytest.skip("it may not be read, which is told")
    odd(tmp_path, name, kind)
    assert quick("params", "gpt2", "-q").stdout == "124439808\n"


@FIFOS
def test_configs_are_looked_for_in_regular_files(quick: Quick, tmp_path: Path) -> None:
    for kind in KINDS:
        odd(tmp_path, f"models/{kind.replace(' ', '-')}.json", kind)
    (tmp_path / "models" / "own.json").write_text('{"model_type": "gpt2"}')
    assert quick("init").returncode == 0
    assert 'config = "models/own.json"' in (tmp_path / "tfcalc.toml").read_text()


@FIFOS
def test_a_file_is_looked_at_again_once_it_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was exchanged for a pipe in between is refused, and not waited for."""
    (tmp_path / "c.json").write_text("{}")
    regular = os.stat(tmp_path / "c.json")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(os, "stat", lambda _: regular)
    with pytest.raises(OSError, match="not a regular file"):
        content(tmp_path / "pipe", 100)


OWN = {"schemas/__init__.py", "catalog.py", "configs/config.py", "configs/family.py", "hardware.py", "timing/rates.py"}
OWN |= {
    "training/measured.py",
    "plans.py",
    "analysis/why/given.py",
    "serving/engine_rules.py",
    "report/concepts.py",
    "timing/serving.py",
    "render/page.py",
    "page/ask.py",
    "cli/local_server.py",
}
"""What reads the data that the program brings with it; and, in and for a browser, files of the page that was built."""


def test_one_function_opens_what_others_wrote() -> None:
    """Whatever else is read goes through tfcalc.files, where it is seen to be a regular file."""
    source = Path(library.__file__).parent
    found = set()
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _reads(node):
                found.add(str(path.relative_to(source)))
    assert found == OWN | {"files.py"}


def _reads(call: ast.Call) -> bool:
    """Whether a file is opened for reading by this call, if not by the one function that may."""
    if isinstance(call.func, ast.Attribute):
        on_path = call.func.attr == "open" and {each.arg for each in call.keywords} & {"encoding", "newline"}
        modes = [each.value for each in call.args if isinstance(each, ast.Constant)]
        return call.func.attr in ("read_text", "read_bytes") or bool(on_path) or modes == ["rb"]
    writes = any(isinstance(each, ast.Constant) and each.value in ("w", "wb", "xb", "a") for each in call.args)
    return isinstance(call.func, ast.Name) and call.func.id == "open" and not writes
