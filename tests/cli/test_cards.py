"""``tfcalc MODEL`` names cards that ``tfcalc memory --gpu`` accepts, too."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.conftest import Quick

LINES = ("serving", "finetune_full", "finetune_lora", "finetune_qlora")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "words",
    [
        "starcoder2-3b",  # 13.4 GiB: a T4 has 13.1 for serving
        "qwen3-8b",
        "llama-2-70b",
        "llama-3.3-70b-instruct",
        "bloom-560m --batch 1",
        "gpt2",
        "transformer-base",
        "llama-3-8b --layers 16 --seq 2k",
    ],
)
def test_the_command_of_a_line_accepts_the_smallest_card_that_is_named(words: str, quick: Quick) -> None:
    found = json.loads(quick(*words.split(), "--json").stdout)
    for line in LINES:
        command = found["commands"].get("serve" if line == "serving" else line)
        if not found[f"{line}_gpus"]:
            continue
        program, *asked = shlex.split(command)
        done = quick(*asked, "--gpu", found[f"{line}_gpus"][0], "-q")
        assert (program, done.returncode, done.stderr) == ("tfcalc", 0, ""), (command, done.stdout)


def test_what_is_assumed_of_cards_is_said_where_cards_are_named(quick: Quick) -> None:
    serving, training = "tokens in 90 % of a GPU's memory", "AdamW, 8 % of its peak to spare"
    said = {name: " ".join(quick(name).stdout.split()) for name in ("gpt2", "bert-base-uncased", "mamba2-780m")}
    assert {name: (serving in text, training in text) for name, text in said.items()} == {
        "gpt2": (True, True),
        "bert-base-uncased": (False, True),  # it generates no text
        "mamba2-780m": (True, True),  # its loops are not checkpointed
    }
