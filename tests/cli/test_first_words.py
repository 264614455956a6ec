"""First words that stand for a command: each does what the command does, byte for byte."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Quick
from tfcalc.cli.commands import ALIASES, COMMANDS, as_meant, command

SAME = {
    "finetune gpt2 --layers 1 --seq 64 --gpu t4": "memory gpt2 --layers 1 --train --seq 64 --gpu t4",
    "train gpt2 --layers 1 --lora 8 --seq 9 --gpu t4 -q": "memory gpt2 --layers 1 --train --lora 8 --seq 9 --gpu t4 -q",
    "lora gpt2 --layers 1 --seq 64 --gpu t4": "memory gpt2 --layers 1 --train --lora 16 --seq 64 --gpu t4",
    "cost gpt2 --seq 64 --tokens 1m --gpu h100": "train gpt2 --seq 64 --tokens 1M --gpu h100",
    "flops gpt2 --seq 64 --tokens 1M --gpu h100 --mfu 40%": "train gpt2 --seq 64 --tokens 1M --gpu h100 --mfu 0.4",
    "run gpt2 --gpu t4": "memory gpt2 --serve --gpu t4",
    "throughput gpt2 --gpu h100": "serve gpt2 --gpu h100",
    "vram gpt2": "memory gpt2",
    "info gpt2": "gpt2",
    "model gpt2": "overview gpt2",
    "Param gpt2": "params gpt2",
    "kvcache gpt2": "explain cache gpt2",
    "search bert-base": "models bert-base",
    "models --gpus": "gpus",
    "card": "gpus",
    "gpu h100": "gpus h100",
    "chinchilla 1e21": "design --compute 1e21",
    "design 65M": "design --params 65M",
    "check 4h^2+4h mha": "check mha 4h^2+4h",
    "check model.embed_tokens Vh llama-3-8b": "check embedding Vh llama-3-8b",
    "check encoder.block.layer.0.layer_norm h t5-large": "check encoder.block.layer.0.layer_norm 1*h t5-large",
    "gpt2 gpt2-medium --seq 64": "compare gpt2 gpt2-medium --seq 64",
    "gpt2 vs gpt2-medium": "compare gpt2 gpt2-medium",
    "version": "--version",
    "tutorial": "--help",
    "help finetune": "help fit",
}


def test_a_word_does_what_its_command_does(quick: Quick) -> None:
    for typed, same in SAME.items():
        found, wanted = quick(*typed.split()), quick(*same.split())
        assert (found.returncode, found.stdout, found.stderr) == (wanted.returncode, wanted.stdout, wanted.stderr), (
            typed
        )
        assert found.stdout, typed


def test_each_stands_for_a_command_and_options_that_there_are() -> None:
    """No word is a command's own name, and none is there twice."""
    assert not ALIASES.keys() & COMMANDS.keys()
    for line in set(ALIASES.values()) - {"--help", "--version"}:
        name, *words = line.split()
        flags = {flag for option in command(name).options for flag in option.flags}
        assert name in COMMANDS
        assert {word for word in words if word.startswith("-")} <= flags


def test_a_file_of_that_name_is_a_model(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "lora").mkdir()
    (tmp_path / "lora" / "config.json").write_text('{"model_type": "gpt2"}')
    assert quick("lora", "-q", cwd=tmp_path).stdout == "124439808\n"


def test_what_is_meant_by_other_words_stays_as_it_is() -> None:
    for line in ("flops --mfu gpt2 --tokens-per-second 9k", "memory gpt2 --gpu h100", "gpt2 --gpu h100", "check mha"):
        assert as_meant(line.split()) == line.split()


def test_slips_are_answered_with_the_nearest_word(quick: Quick) -> None:
    for typed, says in {
        "finetun gpt2": "did you mean the command finetune?",
        "gpt2 finetune": "the command comes first: tfcalc finetune gpt2",
        "gpt2 d_model": "the command comes first: tfcalc explain d_model gpt2",
        "gpt2 hidden": "the command comes first: tfcalc hidden gpt2",
        "it": "neither a command nor a model",
        "flops gpt2 --mfu 0.4": "add --tokens 100M",
        "fit gpt2 --gpu t4,zzz": "accelerator 'zzz' is not known",
    }.items():
        found = quick(*typed.split())
        assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1), typed
        assert says in found.stderr
