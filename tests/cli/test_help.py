"""Help on one screen, by task and by group; where an option stands is said where it is declared."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.conftest import Program
from tfcalc.cli.commands import COMMANDS, GROUPS, SECTIONS, command

AT_80 = {"COLUMNS": "80"}


def test_the_first_screen_has_tasks_first_and_then_all_commands(tfcalc: Program) -> None:
    screen = tfcalc(env=AT_80)
    lines = screen.stdout.splitlines()
    assert (screen.returncode, screen.stderr) == (0, "")
    assert screen.stdout == tfcalc("-h", env=AT_80).stdout == tfcalc("help", env=AT_80).stdout
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    tasks = ("What does it need?", "Does it fit?", "How long", "Where does it come from?", "What differs?", "Guard it")
    places = [screen.stdout.index(words) for words in (*tasks, *SECTIONS)]
    assert places == sorted(places)
    assert all(re.search(rf"\b{name}\b", screen.stdout.partition(next(iter(SECTIONS)))[2]) for name in COMMANDS)


def test_what_the_first_screen_types_runs(tfcalc: Program) -> None:
    typed = re.findall(r"(?:\? +|^ +)tfcalc (.*)", tfcalc(env=AT_80).stdout.partition("Guard")[0], re.MULTILINE)
    lines = [line for line in typed if "[" not in line]
    assert len(lines) == 8
    for line in lines:
        found = tfcalc(*line.split())
        assert (found.returncode in (0, 1), found.stderr) == (True, ""), line


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_fits_a_screen(tfcalc: Program, name: str) -> None:
    lines = tfcalc(name, "-h", env=AT_80).stdout.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80


FIRST_SCREEN = {
    "memory": "--train --lora --seq --batch --gpu --serve --context --kv --weights --checkpointing --json",
    "train": "--tokens --gpu --lora --qlora --seq --batch --checkpointing --price",
    "serve": "--gpu --input --output --concurrency --weights --kv --tp",
    "plan": "--gpus --gpu --global-batch --tp --pp --tokens --seq",
    "params": "--d-model --layers --heads --lora --json --max",
    "flops": "--train --seq --batch --tokens --gpu --mfu --attention",
    "design": "--params --memory --compute --layers --seq --train",
    "sweep": "--of --over --seq --batch --train --format",
    "budget": "--file --base --update --reason --model --format",
    "explain": "--of --train --serve --seq --batch --json",
    "compare": "--train --serve --seq --batch --only-differences --format",
}
"""What people type most of each, by findings on first guesses."""
BEHIND = (
    "--buckets --max-distance --experts --grouped-convolutions --early-stop --device --layout --input-gradient --mla"
)


def test_what_is_typed_most_is_in_front_and_rare_parts_are_not(tfcalc: Program) -> None:
    for name, flags in FIRST_SCREEN.items():
        text = tfcalc(name, "-h", env=AT_80).stdout
        shown = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE))
        assert set(flags.split()) <= shown, name
        assert not set(BEHIND.split()) & shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_one_group_of_the_help(tfcalc: Program, name: str) -> None:
    options = [option for option in command(name).options if not option.argument]
    assert {option.group for option in options} <= set(GROUPS)
    parts = {group: tfcalc(name, "-h", group).stdout for group in {option.group for option in options}}
    for option in options:
        has = [
            group
            for group, text in parts.items()
            if re.search(rf"^  {re.escape(option.flags[0])}(?![\w-])", text, re.M)
        ]
        assert has == [option.group], option.name


def test_of_an_option_all_commands_say_the_same_group() -> None:
    """But for those that are the answer's own subject in one of them: seconds of a plan, a GPU's peak."""
    places: dict[str, set[str]] = {}
    for name in COMMANDS:
        for option in command(name).options:
            places.setdefault(option.name, set()).add(option.group)
    more = {name for name, groups in places.items() if len(groups - {"question"}) > 1}
    assert not more, more


def test_a_group_that_there_is_not_is_answered_with_those_that_are(tfcalc: Program) -> None:
    for words in (["memory", "-h", "trainig"], ["help", "memory", "trainig"]):
        found = tfcalc(*words)
        assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1)
        assert "-h question, workload, training, serving, gpus, model, output or all" in found.stderr
    assert tfcalc("-h", "memroy").stderr.startswith("tfcalc: there is no help on 'memroy'; did you mean memory?")
    assert tfcalc("-h", "memory").stdout == tfcalc("memory", "-h").stdout
    assert tfcalc("llama-3-8b", "-h").stdout == tfcalc("overview", "-h").stdout


def test_help_needs_neither_typer_nor_a_command_that_is_not_asked() -> None:

    code = "import sys; from tfcalc.cli.main import main; main(sys.argv[1:]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, "-h"], capture_output=True, text=True, check=True)
    modules = done.stdout.splitlines()[-1].split()
    assert "typer" not in modules
    assert "tfcalc.cli.commands.memory" not in modules
