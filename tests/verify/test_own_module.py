"""``verify --module``: people's own classes. Expected numbers are arithmetic; h is the width, l and b of the pass."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Program
from tfcalc.cli.commands import own_module as command
from tfcalc.cli.commands.verify import COMMAND
from tfcalc.cli.main import main
from tfcalc.errors import UsageError
from tfcalc.verify import data_flow, module_file
from tfcalc.verify.data_flow import INPUT, SOFTMAX, Flow, Origin
from tfcalc.verify.module_file import Arguments, BadModule, examined, read_arguments, read_inputs
from tfcalc.verify.module_sizes import sizes


@pytest.fixture
def tfcalc(process: Program) -> Program:
    """The program in a process of its own: that is what is asked about here."""
    return process


MODULES = Path(__file__).parent / "modules"
H, HEADS, B, L = 512, 8, command.BATCH, command.SEQ
MHA = 4 * H * H + 4 * H
FORWARD = 8 * L * B * H * H + 4 * L * L * B * H
"""FLOPs of attention: four products with h × h, and two of l × l by h."""


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON of ``tfcalc verify --module`` with these words."""
    code = main(["verify", "--module", *words, "--json"])
    out, err = capsys.readouterr()
    found: dict[str, Any] = json.loads(out or err)
    return code, found


def at(file: str, name: str) -> str:
    return f"{MODULES / file}:{name}"


def meanings(answer: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one["meaning"] for one in answer["module"]["tensors"]}


# --- with PyTorch


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a process for each question; the program's own test starts them."""
    from tfcalc.verify.module_worker import answered

    def asked(request: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(json.dumps(answered(request)))
        return found

    monkeypatch.setattr(module_file, "asked", asked)


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_a_right_attention_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = run(capsys, at("attention.py", "Attention"), "--args", "512,8", "--against", "mha")
    assert (code, answer["agrees"]) == (0, True)
    assert answer["total_params"] == answer["reference_params"] == MHA
    assert answer["module"]["forward_flops"] == answer["module"]["target_forward_flops"] == FORWARD
    assert meanings(answer) == {
        f"{name}.{kind}": f"{letter}_{role}"
        for name, role in (("q", "Q"), ("k", "K"), ("v", "V"), ("out", "O"))
        for kind, letter in (("weight", "W"), ("bias", "b"))
    }
    assert [one["shape"] for one in answer["module"]["inputs"]] == [[B, L, H]] * 3
    assert [one["shape"] for one in answer["module"]["outputs"]] == [[B, L, H]]


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_one_projection_for_query_key_and_value_leaves_half_untrained(capsys: pytest.CaptureFixture[str]) -> None:
    """The count and the FLOPs are right; W_K, W_V and their biases never learn: 2(h² + h)."""
    code, answer = run(capsys, at("attention.py", "OneProjection"), "--args", "512,8", "--against", "mha")
    assert (code, answer["total_params"], answer["reference_params"]) == (1, MHA, MHA)
    assert answer["module"]["params_without_gradient"] == 2 * (H * H + H) == 525_312
    assert answer["module"]["forward_flops"] == FORWARD
    assert "525,312 parameters get no gradient: k.weight, k.bias, v.weight, v.bias" in answer["verdict"]
    found = meanings(answer)
    assert found["q.weight"] == "W_Q, also used as W_K, W_V"
    assert found["k.weight"] == "W_K by its name, never used"


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_a_w_o_that_nothing_is_multiplied_by(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--args", "512,8", "--against", "mha", "--no-attention-bias")
    code, answer = run(capsys, at("attention.py", "OutputForgotten"), *words)
    assert (code, answer["total_params"], answer["reference_params"]) == (1, 4 * H * H, 4 * H * H)
    assert answer["module"]["params_without_gradient"] == H * H
    assert answer["module"]["forward_flops"] == FORWARD - 2 * L * B * H * H
    assert meanings(answer)["w_q"] == "W_Q"
    assert meanings(answer)["w_o"] == "W_O by its name, never used"


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_equal_blocks_share_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    """params and flops of a class: 8d² + 7d a block, 2 · 8d² FLOPs a token and block, and twice as many backward."""
    d, n, place = 16, 3, ("--module", at("layers.py", "Stack"), "--args", "16,3")
    assert main(["params", *place]) == 0
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if "blocks." in line}
    assert rows["blocks.[0-2].up.weight"][1:7] == ["3", "of", "64", "×", "16", f"{n * 4 * d * d:,}"]
    assert len(rows) == 6
    assert main(["flops", *place, "--train"]) == 0
    forward = B * L * (n * 2 * 8 * d * d + 2 * d * 10)
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{forward:,} FLOPs forward, {2 * forward:,} backward (matrix products)"
    assert sum(line.startswith("blocks.[0-2].") for line in out) == 2
    assert main(["params", *place, "-q"]) == 0
    assert capsys.readouterr().out.strip() == str(n * (8 * d * d + 7 * d) + 10 * d + 10)


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_memory_of_a_step_grows_by_what_a_block_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    """In fp32, where backward is the peak: parameters, two moments, a step counter for each of 6 tensors, and saved are
    the input of the norm, its result, its mean and 1/std, and the result of relu, which the next product shares."""
    found, d, tokens = dict[int, Any](), 64, 8 * 16
    for n in (6, 7):
        place = ("--module", at("layers.py", "Stack"), "--args", f"{d},{n}", "--inputs", f"8x16x{d}")
        assert main(["memory", "--train", *place, "--json"]) == 0
        found[n] = json.loads(capsys.readouterr().out)["module"]["step"]
        kinds = (size for key, size in found[n].items() if key.endswith("_bytes") and key != "peak_bytes")
        assert (found[n]["phase"], found[n]["peak_bytes"]) == ("backward", sum(kinds))
    params, saved = 8 * d * d + 7 * d, 4 * (tokens * (1 + 1 + 4) * d + 2 * tokens)
    assert found[7]["parameters_bytes"] - found[6]["parameters_bytes"] == 4 * params
    assert found[7]["optimizer_bytes"] - found[6]["optimizer_bytes"] == 8 * params + 4 * 6
    assert found[7]["activations_bytes"] - found[6]["activations_bytes"] == saved
    assert found[7]["peak_bytes"] - found[6]["peak_bytes"] == 12 * params + 4 * 6 + saved


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_a_step_that_looks_at_values_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "--module", at("layers.py", "Looks")]) == 3
    assert "its parameters and FLOPs can be asked for" in capsys.readouterr().err


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_three_maps_lack_w_o(capsys: pytest.CaptureFixture[str]) -> None:
    """3h² + 3h; the names (first, second, third) tell nothing, the products do."""
    code, answer = run(capsys, at("attention.py", "NoOutput"), "--args", "512", "--against", "mha")
    assert (code, answer["reference_params"]) == (1, 3 * H * H + 3 * H)
    assert "W_O and b_O are missing (262,656)" in answer["verdict"]  # h² + h
    assert list(meanings(answer).values()) == ["W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V"]
    rows = {row["path"]: row["difference"] for row in answer["components"]}
    assert rows == {"W_Q": 0, "W_K": 0, "W_V": 0, "b_Q": 0, "b_K": 0, "b_V": 0, "W_O": H * H, "b_O": H}


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_one_matrix_for_three_is_stacked(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = run(capsys, at("attention.py", "Packed"), "--against", "mha")
    assert (code, answer["module"]["forward_flops"]) == (0, FORWARD)
    assert meanings(answer)["qkv.weight"] == "W_Q, W_K, W_V stacked"
    assert meanings(answer)["proj.weight"] == "W_O"


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_the_length_may_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Then 2 is the length: 8lbh² is the same, 4l²bh is not."""
    code, answer = run(capsys, at("attention.py", "LengthFirst"), "--args", "512,8", "--against", "mha")
    assert code == 0
    assert answer["module"]["forward_flops"] == 8 * 2 * 5 * H * H + 4 * 2 * 2 * 5 * H
    assert answer["module"]["target_forward_flops"] == answer["module"]["forward_flops"]
    assert meanings(answer)["inner.in_proj_weight"] == "W_Q, W_K, W_V stacked"


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_what_is_frozen_needs_no_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = run(capsys, at("attention.py", "Frozen"), "--args", "512,8", "--against", "mha")
    assert code == 0
    frozen = [one["name"] for one in answer["module"]["tensors"] if not one["trained"]]
    assert frozen == ["v.weight", "v.bias"]


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_layers_and_networks(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = run(capsys, at("layers.py", "DecoderLayer"), "--against", "decoder-layer")
    assert (code, answer["total_params"]) == (0, 4_204_032)  # torch.nn.TransformerDecoderLayer(512, 8)
    code, answer = run(capsys, at("layers.py", "FFN"), "--args", "512,2048", "--against", "ffn")
    assert (code, answer["total_params"]) == (0, 8 * H * H + 5 * H)
    assert list(meanings(answer).values()) == ["W_1", "b_1", "W_2", "b_2"]
    code, answer = run(capsys, at("layers.py", "Norm"), "--args", "d_model=512", "--against", "ln")
    assert (code, answer["total_params"]) == (0, 2 * H)
    assert meanings(answer) == {"a": "γ", "b": "β"}
    code, answer = run(capsys, at("layers.py", "GatedFFN"), "--args", "16,40")
    assert (code, answer["module"]["params"]) == (0, 3 * 16 * 40 + 16)
    assert meanings(answer) == {"norm.weight": "γ", "gate.weight": "W_g", "up.weight": "W_1", "down.weight": "W_2"}
    assert "total_params" not in answer


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_a_whole_model(capsys: pytest.CaptureFixture[str]) -> None:
    """Vh + Th + n(12h² + 13h) + 2h."""
    sizes = ("--kind", "encoder", "--pre-norm", "--positions", "learned", "--max-len", "64", "--output-head", "tied")
    words = ("--args", "100,16,3", "--against", "complete", *sizes)
    code, answer = run(capsys, at("layers.py", "LanguageModel"), *words)
    assert code == 0, answer["verdict"]
    assert answer["module"]["params"] == 100 * 16 + 64 * 16 + 3 * (12 * 16**2 + 13 * 16) + 2 * 16
    found = meanings(answer)
    assert found["tokens.weight"] == "W_vocab, also used as E"
    assert found["places.weight"] == "P"
    assert answer["module"]["outputs"] == [{"name": "logits", "shape": [B, L, 100]}]
    code, answer = run(capsys, at("layers.py", "LanguageModel"), "--args", "50257,768,12,1024", "--against", "gpt2")
    assert (code, answer["total_params"]) == (0, 124_439_808)
    assert answer["module"]["device"] == "meta"


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_a_module_that_reads_its_data_is_run_with_data(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = run(capsys, at("layers.py", "WithData"))
    assert (code, answer["module"]["device"]) == (0, "cpu")
    assert meanings(answer) == {"positions": "P", "linear.weight": "W", "linear.bias": "b"}
    assert answer["module"]["buffers"] == [{"name": "causal", "shape": [100, 100]}]
    assert answer["module"]["inputs"][1] == {"name": "mask", "shape": [L, L], "kind": "mask"}


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_inputs_may_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    place = at("attention.py", "Attention")
    _, answer = run(capsys, place, "--args", "16,2", "--inputs", "3x4x16,3x7x16,3x7x16")
    # b = 3; q and the output of 4 tokens, k and v of 7; the scores are 4 × 7
    assert answer["module"]["forward_flops"] == 2 * 3 * 16 * 16 * (4 + 7 + 7 + 4) + 2 * 2 * 3 * 4 * 7 * 16
    _, answer = run(capsys, place, "--args", "16,2", "--batch", "1", "--seq", "9")
    assert answer["module"]["outputs"][0]["shape"] == [1, 9, 16]


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_the_options_that_would_agree_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    place = at("attention.py", "OutputForgotten")
    assert main(["verify", "--module", place, "--args", "512,8", "--against", "mha"]) == 1
    assert "The count agrees with --no-attention-bias" in capsys.readouterr().out


@pytest.mark.torch
@pytest.mark.usefixtures("here")
def test_a_forward_pass_that_raises_is_3(capsys: pytest.CaptureFixture[str]) -> None:
    code, error = run(capsys, at("layers.py", "Raises"), "--args", "16")
    assert code == 3
    assert "Raises.forward(x 2×5×16) raises RuntimeError: shape '[3, 3]' is invalid" in error["message"]
    code, error = run(capsys, at("layers.py", "Raises"))
    assert code == 3
    assert "missing 1 required positional argument: 'width'" in error["message"]


@pytest.mark.torch
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("form", ["table", "csv", "markdown", "latex", "plain"])
def test_every_format(capsys: pytest.CaptureFixture[str], form: str) -> None:
    place = at("attention.py", "OneProjection")
    assert main(["verify", "--module", place, "--args", "512,8", "--against", "mha", "--format", form]) == 1
    assert "262" in capsys.readouterr().out


@pytest.mark.torch
def test_the_program_and_its_example(tfcalc: Program, tmp_path: Path) -> None:
    shutil.copy(MODULES / "attention.py", tmp_path)
    example = next(line for line in COMMAND.examples if "--module" in line)
    result = tfcalc(*example.split()[1:], "-q")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{MHA}\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["attention.py"]


# --- without PyTorch


def test_arrays_of_a_class_without_torch(capsys: pytest.CaptureFixture[str]) -> None:
    """The four maps are also in a list, and the whole numbers are no parameters."""
    code, answer = run(capsys, at("plain.py", "Attention"), "--args", "512,8", "--against", "mha")
    assert (code, answer["reference_params"]) == (0, MHA)
    assert meanings(answer)["out.weight"] == "W_O by its name"
    assert answer["module"]["forward_flops"] is answer["module"]["params_without_gradient"] is None


def test_without_torch_it_is_4(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_file, "START", "import sys; sys.modules['torch'] = None\n" + module_file.START)
    code, error = run(capsys, at("attention.py", "Attention"), "--args", "512,8", "--against", "mha")
    assert (code, error["hint"]) == (4, "pip install 'tfcalc[verify]'")


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("Empty", (), "Empty is no torch.nn.Module, and its attributes hold no arrays"),
        ("Ends", (), "plain.py ended the process (exit code 7)"),
        ("Connects", (), "Connects() raises PermissionError: no network access"),
        ("Fails", (3,), "Fails(3) raises ValueError: no size 3"),
        ("Fails", (), "Fails() raises TypeError"),
        ("Atention", (), "plain.py has no class 'Atention'"),
        ("", (), "plain.py has the classes Linear, Attention"),
    ],
)
def test_what_cannot_be_loaded_is_3(name: str, arguments: Sequence[int], told: str) -> None:
    with pytest.raises(BadModule) as refused:
        examined(f"{MODULES / 'plain.py'}:{name}".rstrip(":"), Arguments(tuple(arguments)), None, batch=B, seq=L)
    assert refused.value.exit_code == 3
    assert told in refused.value.message
    assert "\n" not in str(refused.value)


def test_a_file_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_file, "SECONDS", 1)
    with pytest.raises(BadModule, match="did not end within 1 s"):
        examined(at("plain.py", "Endless"), Arguments(), None, batch=B, seq=L)


def test_a_file_that_does_not_import(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    with pytest.raises(BadModule, match=r"broken.py cannot be imported: SyntaxError"):
        examined(f"{tmp_path / 'broken.py'}:A", Arguments(), None, batch=B, seq=L)
    with pytest.raises(BadModule, match="does not exist"):
        examined(f"{tmp_path / 'nowhere.py'}:A", Arguments(), None, batch=B, seq=L)


def test_a_file_beside_its_neighbours_and_in_a_package(tmp_path: Path) -> None:
    """What it prints is no answer, and nothing is written beside it."""
    package = tmp_path / "outer" / "inner"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "base.py").write_text("class Array:\n    shape, dtype = (3, 4), 'float32'\n")
    (package / "own.py").write_text(
        "from .base import Array\nprint('{}')\nclass Own:\n    def __init__(self):\n        self.w_q = Array()\n"
    )
    (tmp_path / "flat.py").write_text(
        "from other import Array\nclass Flat:\n    def __init__(self):\n        self.x = Array()\n"
    )
    shutil.copy(package / "base.py", tmp_path / "other.py")
    before = sorted(tmp_path.rglob("*"))
    for place in (f"{package / 'own.py'}:Own", str(tmp_path / "flat.py")):
        found = examined(place, Arguments(), None, batch=B, seq=L)
        assert [one["shape"] for one in found["parameters"]] == [[3, 4]]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--module", "attention:Attention"), "names no Python file"),
        (("--module", "x.py", "--args", "512,,8"), "is not a list of values"),
        (("--module", "x.py", "--args", "heads=8,512"), "follows a named value"),
        (("--module", "x.py", "--inputs", "2x5x"), "is no input"),
        (("--module", "x.py", "--inputs", "2x5:bits"), "is no input"),
        (("--module", "x.py", "--inputs", "2x5", "--seq", "3"), "beside --inputs"),
        (("--module", "x.py", "--of", "flops", "--against", "mha"), "--of flops of a class is compared with nothing"),
        (("--module", "x.py", "--train"), "no effect with --module"),
        (("--module", "x.py", "--layers", "2"), "without --against"),
        (("--against", "mha"), "--against mha has no effect without --module"),
        (("--args", "512,8"), "without --module"),
    ],
)
def test_usage(capsys: pytest.CaptureFixture[str], words: Sequence[str], told: str) -> None:
    assert main(["verify", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err


def test_no_file_and_no_variable_makes_it_run_code(tfcalc: Program, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("raise SystemExit(5)\n")
    (tmp_path / "tfcalc.toml").write_text('module = "own.py:A"\n')
    result = tfcalc("verify")
    assert (result.returncode, result.stdout) == (3, "")
    assert "--module is taken from the command line alone" in result.stderr
    (tmp_path / "tfcalc.toml").unlink()
    assert tfcalc("verify", env={"TFCALC_MODULE": "own.py:A"}).returncode == 2


def test_arguments_and_inputs_are_read() -> None:
    assert read_arguments("512, 8, 0.1, bias=false, act=gelu, d=none") == (
        (512, 8, 0.1),
        {"bias": False, "act": "gelu", "d": None},
    )
    assert read_arguments("") == ((), {})
    assert read_inputs("2x5x512, 2×7:ids,5x5:mask,none") == [
        ([2, 5, 512], "float"),
        ([2, 7], "ids"),
        ([5, 5], "mask"),
        ([], "none"),
    ]
    with pytest.raises(UsageError):
        read_inputs("")


@pytest.mark.parametrize(
    ("arguments", "target", "found"),
    [
        ({"embed": 512, "h": 8, "dropout": 0.1}, "mha", {"d_model": 512, "n_heads": 8}),
        ({"h": 64}, "mha", {"d_model": 64}),
        ({"n_in": 512, "n_mid": 2048}, "ffn", {"d_model": 512, "d_ff": 2048}),
        ({"in": 20}, "mha", {"d_model": 20, "n_heads": 1}),
        ({"dim": 64, "hidden_dim": 96, "bias": False}, "ffn", {"d_ff": 96, "attention_bias": False}),
        ({"d_model": 64, "nhead": 2, "num_layers": True}, "encoder", {"d_model": 64, "n_heads": 2}),
    ],
)
def test_arguments_are_sizes(arguments: dict[str, object], target: str, found: dict[str, object]) -> None:
    assert found.items() <= sizes(arguments, target).items()
    assert sizes(arguments, target).get("d_model") == next(
        value for value in arguments.values() if isinstance(value, int)
    )


def test_roles_of_products_alone() -> None:
    """The flow of one head: q kᵀ, softmax, times v, times W_O; then the bias of W_O."""
    flow, x = Flow(), Origin(made={INPUT: frozenset()})
    q, k, v = (flow.multiply(x, Origin(weight=name)) for name in "abc")
    mixed = flow.multiply(flow.multiply(q, k).after(SOFTMAX), v)
    out = flow.multiply(mixed, Origin(weight="d"))
    flow.biases.append(("e", (), out.fresh))
    assert {name: [use.role for use in uses] for name, uses in flow.uses().items()} == {
        "a": ["W_Q"],
        "b": ["W_K"],
        "c": ["W_V"],
        "d": ["W_O"],
        "e": ["b_O"],
    }


def test_names_of_what_nothing_uses() -> None:
    named = {"attention.w_o": "W_O", "key.weight": "W_K", "k_proj.bias": "b_K", "b_v": "b_V", "linear1.weight": "W_1"}
    for name, role in named.items():
        assert data_flow.by_name(name, 1 if role.startswith("b") else 2) == role
    assert data_flow.by_name("scale", 1) == ""
