"""Completion of values in bash, zsh and fish: by the shells that are installed, and as each asks the program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_manners import patched
from tests.conftest import Program
from tfcalc.cli.commands import COMMANDS, command
from tfcalc.cli.completion import OFFERED, words

OFFERS = {
    "tfcalc memory llama-3.1-8b --gpu rtx-409": ["rtx-4090", "rtx-4090-laptop"],
    "tfcalc memory llama-3.1-8b --gpu 8xh200": ["8xh200-sxm"],
    "tfcalc memory gpt2 --train --optimizer paged-adamw-3": ["paged-adamw-32bit"],
    "tfcalc memory gpt2 --weights nf": ["nf4", "nf4-dq"],
    "tfcalc memory gpt2 --serve --kv bf": ["bf16"],
    "tfcalc memory gpt2-x": ["gpt2-xl"],
    "tfcalc params --model gpt2-x": ["gpt2-xl"],
    "tfcalc compare gpt2 gpt2-x": ["gpt2-xl"],
    "tfcalc formula enc": ["encoder", "encoder-layer"],
    "tfcalc explain ffn --of fl": ["flops"],
    "tfcalc memory gpt2 --serve --engine ll": ["llama.cpp"],
    "tfcalc memory gpt2 --max-num-b": ["--max-num-batched-tokens"],
    "tfcalc gpt2-x": ["gpt2-xl"],
    "tfcalc gpt2 --batch-s": ["--batch-size"],
    "tfcalc mem": ["memory"],
}
"""A line as far as it is typed, and the words that finish it."""
SHELLS = ("bash", "zsh", "fish")
TYPED = "tfcalc memory gpt2 --gpu rtx-409"


def of_shell(shell: str, line: str) -> dict[str, str]:
    """What a shell puts into the environment of the program that it asks."""
    words = line.split()
    asked = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }
    return {"_TFCALC_COMPLETE": f"complete_{shell}", **asked[shell]}


@pytest.mark.parametrize("line", OFFERS)
def test_values_are_completed_as_bash_asks(tfcalc: Program, line: str) -> None:
    found = tfcalc(env=of_shell("bash", line))
    assert (sorted(found.stdout.split()), found.stderr) == (OFFERS[line], "")


def test_values_are_completed_as_zsh_and_fish_ask(tfcalc: Program) -> None:
    for line in (TYPED, "tfcalc gpt2-x", "tfcalc memory gpt2 --weights nf"):
        offered = {"tfcalc gpt2-x": ["gpt2-xl"], TYPED: ["rtx-4090", "rtx-4090-laptop"]}.get(line, ["nf4", "nf4-dq"])
        assert sorted(tfcalc(env=of_shell("fish", line)).stdout.split()) == offered
        quoted = "\n".join(f'"{word}"' for word in offered)
        assert tfcalc(env=of_shell("zsh", line)).stdout.strip() == f"_arguments '*: :(({quoted}))'"


def test_only_the_command_that_is_typed_is_imported() -> None:
    code = "import sys; from tfcalc.cli.main import main; main(['']); print(*sys.modules)"
    env = {**os.environ, **of_shell("bash", TYPED)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    imported = {name for name in COMMANDS if f" tfcalc.cli.commands.{name} " in f" {done.stdout} "}
    assert "memory" in imported
    assert not imported & {"design", "sweep", "verify", "solve", "plan"}
    assert "sympy" not in done.stdout
    assert "numpy" not in done.stdout


def test_every_option_with_words_offers_some() -> None:
    options = [option for name in COMMANDS for option in command(name).options]
    assert {option.offers for option in options if option.offers} == set(OFFERED)
    for option in {one.offers: one for one in options if one.offers}.values():
        assert len(list(words(option))) > 3
    free = {option.name for option in options if option.name in ("gpu", "model", "model_name", "models", "target")}
    assert free == {"gpu", "model", "model_name", "models", "target"}
    assert all(option.offers for option in options if option.name in free)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """PATH on which tfcalc is the program under test."""
    program = tmp_path / "bin" / "tfcalc"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tfcalc "$@"\n')
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


IN_SHELL = {
    "bash": (
        'eval "$(tfcalc --show-completion bash)"; COMP_WORDS=({line}); COMP_CWORD=4; '
        '_tfcalc_completion tfcalc; printf "%s\\n" "${{COMPREPLY[@]}}"'
    ),
    # outside of its line editor zsh has no _arguments, which gets what it would show
    "zsh": (
        'compdef() {{ :; }}; _arguments() {{ print -r -- "$@"; }}; eval "$(tfcalc --show-completion zsh)"; '
        "words=({line}); CURRENT=5; _tfcalc_completion"
    ),
    "fish": "tfcalc --show-completion fish | source; complete -C '{line}'",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_itself_completes_a_value(path: str, tmp_path: Path, shell: str) -> None:
    """The script that the program prints, in the shell that it is for."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    env = {**os.environ, "PATH": path, "HOME": str(tmp_path)}
    code = IN_SHELL[shell].format(line=TYPED)
    done = subprocess.run([found, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert {"rtx-4090", "rtx-4090-laptop"} <= set(done.stdout.replace('"', " ").replace("(", " ").split()), done.stderr


def test_without_a_shell_among_the_parents_it_is_to_be_named(tmp_path: Path) -> None:
    gone = "import shellingham as s\ndef none(): raise s.ShellDetectionFailure\ns.detect_shell = none"
    for typed, fact in (
        (["--show-completion"], "no shell is among the parent processes"),
        (["--install-completion"], "no shell is among the parent processes"),
        (["--show-completion", "tcsh"], "'tcsh' is not a shell that is known"),
    ):
        found = subprocess.run(
            patched(gone, *typed),
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (found.returncode, found.stdout) == (2, "")
        assert found.stderr == f"tfcalc: {fact}; name one: tfcalc {typed[0]} bash, zsh or fish\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_that_of_the_shell_that_is_named(tfcalc: Program, shell: str) -> None:
    found = tfcalc("--show-completion", shell)
    assert found.returncode == 0
    assert f"complete_{shell}" in found.stdout
