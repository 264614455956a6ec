"""Where an option comes from: every option of every command, and the keys of the file that are no options."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Quick
from tfcalc.cli.commands import COMMANDS, command
from tfcalc.cli.options import Option
from tfcalc.cli.settings import FILE, FLAG, VARIABLE, settle
from tfcalc.errors import BadFile, UsageError

PRESETS = ("torchtune/full-single-device", "torchtune/lora-single-device")
EVERY = [
    pytest.param(name, option, id=f"{name} {option.flags[0]}")
    for name in COMMANDS
    for option in command(name).options
    if option.flags
]


def two_values(option: Option) -> tuple[str, str]:
    """Two values that an option can have, as text; the same twice where there is one only."""
    if option.switch:
        return "false", "true"
    if option.known:
        return option.known[0].replace(":N", ":2"), option.known[-1].replace(":N", ":2")
    if option.number:
        return str(max(option.least, 2)), str(max(option.least, 3))
    if option.amount:
        return "0.5", "0.25"
    return PRESETS if option.name == "preset" else ("one", "two")


def test_there_are_options_in_every_command() -> None:
    assert {param.values[0] for param in EVERY} == set(COMMANDS)
    assert len(EVERY) > 400


@pytest.mark.parametrize("name", COMMANDS)
def test_a_key_means_one_option_of_a_command(name: str) -> None:
    keys = [key for option in command(name).options if option.flags for key in option.keys]
    assert len(keys) == len(set(keys))


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("name", "option"), EVERY)
def test_every_option_has_its_variable_and_its_key(
    name: str, option: Option, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its keys; typed it wins over the variable, which wins over the file. Both words of --x/--no-x."""
    monkeypatch.chdir(tmp_path)
    options, (low, high) = command(name).options, two_values(option)
    for text, other in ((low, high), (high, low)):
        typed = settle(options, {option.name: text}, {}).given[option.name]
        assert typed.source == FLAG
        for key in option.keys:
            variable = f"TFCALC_{key.upper()}"
            (tmp_path / "tfcalc.toml").unlink(missing_ok=True)
            if not option.variable:
                with pytest.raises(UsageError, match=f"{variable} has no effect"):
                    settle(options, {}, {variable: text})
                continue
            found = settle(options, {}, {variable: text}).given[option.name]
            assert found[:3] == (typed.value, VARIABLE, variable)
            if option.typed:  # see test_found_settings
                continue
            for value in [json.dumps(text)] + [text] * (option.switch or option.number or option.amount):
                (tmp_path / "tfcalc.toml").write_text(f"{key.replace('_', '-')} = {value}\n", encoding="utf-8")
                assert settle(options, {}, {}).given[option.name][:2] == (typed.value, FILE)
            assert settle(options, {}, {variable: other}).given[option.name].source == VARIABLE
            assert settle(options, {option.name: other}, {variable: text}).given[option.name].source == FLAG


def test_a_switch_is_short_for_others_wherever_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tfcalc.toml").write_text("fsdp = true\nqlora = 8\n", encoding="utf-8")
    options = command("memory").options
    found = settle(options, {}, {})
    assert (found.get("zero"), found.get("layout"), found.get("lora")) == ("3", "fsdp2", 8)
    assert settle(options, {"zero": "1"}, {}).get("zero") == "1"
    assert settle(options, {}, {"TFCALC_ZERO": "2", "TFCALC_FSDP": "false"}).get("layout") is None


@pytest.mark.parametrize("flag", ["--attention-bias", "--no-attention-bias"])
def test_both_words_of_a_switch_win(quick: Quick, tmp_path: Path, flag: str) -> None:
    alone = quick("params", flag, "-q")
    for value in ("true", "false"):
        (tmp_path / "tfcalc.toml").write_text(f"attention_bias = {value}\n", encoding="utf-8")
        assert quick("params", flag, "-q") == alone
        assert quick("params", flag, "-q", env={"TFCALC_ATTENTION_BIAS": value}) == alone
    assert quick("params", "-q") == quick("params", "--no-attention-bias", "-q"), "the file says false"


def test_a_command_passes_over_what_others_read(quick: Quick, tmp_path: Path) -> None:
    """Even values that cannot be: they are read by the command that has the option."""
    (tmp_path / "tfcalc.toml").write_text('budget = "soon"\nonly-differences = 7\n', encoding="utf-8")
    assert quick("params", "-q").stdout == "44140544\n"
    assert quick("params", "-q", env={"TFCALC_MARGIN": "junk"}).stdout == "44140544\n"
    refused = quick("memory")
    assert refused.returncode == 3
    path = tmp_path / "tfcalc.toml"
    assert refused.stderr == f"tfcalc: {path}: budget: 'soon' is not a number; write 80GB, 79.2GiB, 512MB or 24GiB\n"
    assert quick("compare", "gpt2", "gpt2-medium").returncode == 3


@pytest.mark.parametrize(
    ("key", "value", "asked"),
    [
        ("precision", "bf16-mixed", "flops gpt2 -q"),
        ("precision", "int4", "memory gpt2 --train --seq 64 -q"),
        ("format", "github", "params -q"),
        ("of", "time", "why 163M gpt2 -q"),
    ],
)
def test_a_word_that_only_another_command_takes_is_passed_over(
    quick: Quick, tmp_path: Path, key: str, value: str, asked: str
) -> None:
    """The precision of training is not that of products, github is a format of budgets."""
    alone = quick(*asked.split())
    assert alone.returncode == 0
    assert quick(*asked.split(), env={f"TFCALC_{key.upper()}": value}) == alone
    (tmp_path / "tfcalc.toml").write_text(f'{key} = "{value}"\n', encoding="utf-8")
    assert quick(*asked.split()) == alone
    assert quick(asked.split()[0], "gpt2", f"--{key.replace('_', '-')}", value).returncode == 2, "typed it is refused"


def test_a_word_that_no_command_takes_is_refused_with_the_nearest_of_all(quick: Quick, tmp_path: Path) -> None:
    refused = quick("flops", env={"TFCALC_PRECISION": "bf16-mixd"})
    assert refused == (2, "", "tfcalc: TFCALC_PRECISION 'bf16-mixd' is not known; did you mean bf16-mixed?\n")
    path = tmp_path / "tfcalc.toml"
    path.write_text('precision = "bf16-mixd"\n', encoding="utf-8")
    for command_ in ("flops", "memory"):
        refused = quick(command_)
        assert refused == (3, "", f"tfcalc: {path}: precision 'bf16-mixd' is not known; did you mean bf16-mixed?\n")
    for size in ("-3", "[1, 2]", '"64,32"'):  # the last two are for a sweep, but no model has two widths
        path.write_text(f"d_model = {size}\n", encoding="utf-8")
        assert quick("params").returncode == 3


@pytest.mark.parametrize(
    ("text", "asked", "said"),
    [
        ('gpu = "h1000"', "memory gpt2", "gpu: accelerator 'h1000' is not known; did you mean H100? or give --budget"),
        ("margin = 200", "memory gpt2 --budget 80GB", "margin 200 is not from 0 to 100 per cent; leave it out for 5"),
        ('letters = "nope"', "formula mha", "letters 'nope' is not a list of symbol=letter; write h=d,l=n"),
        ('lora-dropout = "x"', "memory gpt2 --train --lora 8", "lora-dropout 'x' is no probability; give one below 1"),
        ('model = "nope"', "params", "model: model 'nope' is not known"),
        ('as = "nope"', "params gpt2", "as: model_type 'nope' is not known"),
    ],
)
def test_a_wrong_text_of_a_file_is_told_with_its_file_and_key(
    quick: Quick, tmp_path: Path, text: str, asked: str, said: str
) -> None:
    (tmp_path / "tfcalc.toml").write_text(text + "\n", encoding="utf-8")
    refused = quick(*asked.split())
    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr.startswith(f"tfcalc: {tmp_path / 'tfcalc.toml'}: {said}")


def test_a_wrong_text_that_is_typed_is_not_the_fault_of_the_file(quick: Quick, tmp_path: Path) -> None:
    for text in ("soon", "later"):
        (tmp_path / "tfcalc.toml").write_text(f'budget = "{text}"\n', encoding="utf-8")
        refused = quick("memory", "gpt2", "--budget", "soon")
        assert (refused.returncode, refused.stderr.startswith("tfcalc: 'soon' is not a number")) == (2, True)


BROKEN = {
    "a size below 1": '{"model_type": "gpt2", "n_embd": -5}',
    "heads that do not divide": '{"model_type": "gpt2", "n_embd": 10, "n_head": 3}',
    "a size that is text": '{"model_type": "llama", "num_attention_heads": "x"}',
    "no JSON": "nope",
}


@pytest.mark.parametrize("config", BROKEN)
def test_a_broken_config_is_3_whatever_is_typed_beside_it(quick: Quick, tmp_path: Path, config: str) -> None:
    (tmp_path / "bad.json").write_text(BROKEN[config], encoding="utf-8")
    for asked in (
        "memory bad.json",
        "memory bad.json --train",
        "memory bad.json --serve",
        "memory bad.json --train --gpu h100",
        "memory bad.json --train --layers 2",
        "flops bad.json --train --seq 8",
        "params bad.json --lora 8",
        "params bad.json --dora",
        "sweep bad.json --batch 1,2",
        "plot bad.json --seq 1k..4k:x2",
        "compare bad.json gpt2 --train",
        "explain mha --model bad.json --seq 8",
        "bad.json --seq 8",
    ):
        assert (asked, quick(*asked.split()).returncode) == (asked, 3)
    assert quick("memory", "-", "--train", input=BROKEN[config]).returncode == 3
    # what is typed for a good config is still a matter of usage
    assert quick("memory", "gpt2", "--train", "--heads", "7").returncode == 2


@pytest.mark.parametrize(
    ("variables", "imports_more"), [({"TFCALC_D_MODEL": "64"}, False), ({}, False), ({"TFCALC_FAMILY": "x"}, True)]
)
def test_only_keys_of_others_open_other_doors(tmp_path: Path, variables: dict[str, str], imports_more: bool) -> None:
    code = "import sys; from tfcalc.cli.main import main; main(['params', '-q']); print(' '.join(sys.modules))"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TFCALC_")}
    (tmp_path / "tfcalc.toml").write_text("heads = 8\n[models]\n[[budget]]\nmax = 1\n", encoding="utf-8")
    run: dict[str, Any] = {"cwd": tmp_path, "env": clean | variables, "capture_output": True, "text": True}
    modules = subprocess.run([sys.executable, "-c", code], check=True, **run).stdout.split()
    assert ("tfcalc.cli.commands.flops" in modules) == imports_more


# --- the keys that are no options


BUDGETS = """
version = 1
units = "si"
[conventions]
count = "all"
units = "SI"
[models.chat]
preset = "gpt2"
[scenarios.tune]
train = true
[[budget]]
model = "chat"
metric = "params.total_params"
max = "1B"
"""


def test_budgets_set_no_option_and_conventions_all(quick: Quick, tmp_path: Path) -> None:
    plain = quick("flops", "gpt2", "--count", "all", "-q"), quick("memory", "gpt2", "--units", "si")
    assert quick("flops", "gpt2", "-q") != plain[0]
    (tmp_path / "tfcalc.toml").write_text(BUDGETS, encoding="utf-8")
    assert (quick("flops", "gpt2", "-q"), quick("memory", "gpt2")) == plain
    assert quick("flops", "gpt2", "--count", "matmul", "-q") != plain[0]
    assert quick("memory", "gpt2", "--units", "iec") != plain[1]
    assert quick("memory", "gpt2", env={"TFCALC_UNITS": "iec"}) == quick("memory", "gpt2", "--units", "iec")


def test_a_model_for_other_commands_selects_no_budgets(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "tfcalc.toml").write_text(BUDGETS, encoding="utf-8")
    plain = quick("budget")
    assert plain.returncode == 0
    assert quick("budget", env={"TFCALC_MODEL": "gpt2"}) == plain
    (tmp_path / "tfcalc.toml").write_text(f'model = "gpt2-medium"{BUDGETS}', encoding="utf-8")
    assert quick("budget").returncode == 0
    assert quick("params", "-q") == quick("params", "gpt2-medium", "-q")
    assert quick("budget", "--model", "gpt2").returncode == 2


def test_a_budget_is_an_option_where_it_is_an_amount(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "tfcalc.toml").write_text('budget = "400MiB"\n', encoding="utf-8")
    assert quick("memory", "gpt2").stdout.startswith("DOES NOT FIT: ")
    assert quick("params", "gpt2", "-q").returncode == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version = 2", "version 2 is not known; write version = 1"),
        ("version = true", "version True is not known"),
        ("version = 1.0", "version 1.0 is not known"),
        ('version = "1"', "version '1' is not known"),
        ("conventions = 3", "conventions is no table"),
        ('[conventions]\nunit = "si"', "conventions: key 'unit' is not known; did you mean units?"),
        ('[conventions]\nd_model = "si"', "conventions: key 'd_model' is not known"),
        ('units = "iec"\n[conventions]\nunits = "si"', "units 'iec' contradicts conventions.units 'si'; leave one"),
        ("d_model = 64\nhidden_size = 65", "hidden_size 65 contradicts d_model 64; leave one of them out"),
        ('conventoins = "x"', "key 'conventoins' is not known; did you mean conventions?"),
        ("bugdet = 3", "key 'bugdet' is not known; did you mean budget?"),
        ("only_diferences = true", "key 'only_diferences' is not known; did you mean only_differences?"),
    ],
)
@pytest.mark.parametrize("own", [True, False], ids=["tfcalc.toml", "pyproject.toml"])
def test_a_file_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str, own: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    if own:
        (tmp_path / "tfcalc.toml").write_text(text, encoding="utf-8")
    else:
        nested = text.replace("[conventions]", "[tool.tfcalc.conventions]")
        (tmp_path / "pyproject.toml").write_text(f"[tool.tfcalc]\n{nested}", encoding="utf-8")
    with pytest.raises(BadFile) as refused:
        settle(command("params").options, {}, {})
    assert said in str(refused.value)


def test_variables_that_contradict_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = command("params").options
    with pytest.raises(UsageError, match="TFCALC_HIDDEN_SIZE '65' contradicts TFCALC_D_MODEL '64'"):
        settle(options, {}, {"TFCALC_D_MODEL": "64", "TFCALC_HIDDEN_SIZE": "65"})
    assert settle(options, {}, {"TFCALC_D_MODEL": "64", "TFCALC_HIDDEN_SIZE": "64"}).get("d_model") == 64


# --- what is typed ends what a file says instead


@pytest.mark.parametrize(
    ("text", "asked", "same_as"),
    [
        ('gpu = "h100"', "memory gpt2 --budget 1GiB", None),
        ('budget = "1GiB"', "memory gpt2 --gpu h100", None),
        ("serve = true", "memory gpt2 --train -q", None),
        ("train = true", "memory gpt2 --serve -q", None),
        ("gradient_checkpointing = true\ntrain = true\nbatch = 4", "memory gpt2 --serve -q", None),
        ("timeline = true", "memory gpt2", None),
        ("timeline = true", "memory gpt2 --gpu h100 --train", "memory gpt2 --gpu h100 --train --timeline"),
        ('[conventions]\ndtype = "bf16"', "memory gpt2 --train -q", None),
        ('attention = "causal"\nlogits = "last"', "memory gpt2 --train -q", None),
        ("compare_conventions = true", "flops gpt2 --train --tokens 1B -q", None),
        ("mfu = true", "flops gpt2 --compare-conventions", None),
        ("tokens = 1000000", "flops gpt2 -q", None),
        ('checkpointing = "full"\ncached = 8', "flops gpt2 -q", None),
        ("latex = true", "formula mha --format markdown", None),
        ("json = true", "formula mha --latex", None),
        ('family = "llama"', "models --supported", None),
        ("supported = true", "models --trainable", None),
        ("train = true", "memory gpt2", "memory gpt2 --train"),
        ("serve = true\ncontext = 256", "memory gpt2", "memory gpt2 --serve --context 256"),
        ('max = "1B"', "params gpt2", "params gpt2 --max 1B"),
    ],
)
def test_what_is_typed_ends_what_a_file_says_instead(
    quick: Quick, tmp_path: Path, text: str, asked: str, same_as: str | None
) -> None:
    alone = quick(*(same_as or asked).split())
    assert alone.returncode in (0, 1)
    (tmp_path / "tfcalc.toml").write_text(text, encoding="utf-8")
    assert quick(*asked.split()) == alone


def test_what_is_typed_twice_is_still_refused(quick: Quick) -> None:
    for words in ("memory gpt2 --train --serve", "memory --budget 1GB --gpu h100", "models --supported --trainable"):
        assert quick(*words.split()).returncode == 2
