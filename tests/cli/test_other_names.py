"""Flags of engines and trainers: each stands for an option that there is, and gives the same answer as it."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Program
from tfcalc.cli.app import settings_of
from tfcalc.cli.commands import COMMANDS, command
from tfcalc.cli.options import Option
from tfcalc.cli.other_names import BY_FLAG, INSTEAD, PACKED, TAKEN

ORDER = ("memory", "serve", "train", "plan", "ranks")
"""Commands that are asked first which of them has an option."""


def having(flag: str) -> tuple[str, Option]:
    """A command with this option, and the option."""
    for name in (*ORDER, *COMMANDS):
        for option in command(name).options:
            if any(flag in names.split("/") for names in option.flags):
                return name, option
    raise AssertionError(f"no command has {flag}")


@pytest.mark.parametrize("program", TAKEN)
def test_each_flag_stands_for_an_option_that_there_is(program: str) -> None:
    for flag, meaning in TAKEN[program].items():
        for one in filter(None, (*meaning.options, meaning.served)):
            having(one)
        name, option = having(meaning.served or meaning.options[0])
        options = command(name).options
        assert not any(flag in names.split("/") for one in options for names in one.flags), flag
        value = meaning.value_of(meaning.served or meaning.options[0]) or (
            "" if option.switch else [word for word in option.known if ":" not in word][-1] if option.known else "2"
        )
        plain = [meaning.served or meaning.options[0], *filter(None, [value])]
        typed = [flag, *([] if meaning.value or option.switch else [value])]
        expected = settings_of(plain, options).given
        assert expected
        assert settings_of(typed, options).given == expected, flag
        if flag.startswith("--"):
            assert settings_of([flag.replace("-", "_").replace("__", "--", 1), *typed[1:]], options).given == expected
        if len(typed) == 2 and flag.startswith("--"):
            assert settings_of(["=".join(typed)], options).given == expected
        for theirs, ours in meaning.words.items():
            assert settings_of([flag, theirs], options).given == settings_of([plain[0], ours], options).given


SAME = {
    "memory llama-3-8b --serve --kv_cache_dtype fp8_e4m3 --max-model-len 8k --max-num-seqs 4": (
        "memory llama-3-8b --serve --kv fp8 --context 8k --concurrency 4"
    ),
    "memory gpt2 --train --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --max_seq_length 512": (
        "memory gpt2 --train --batch 2 --grad-accum 4 --seq 512"
    ),
    "memory llama-3-8b --load_in_4bit True --lora_r 8 --optim paged_adamw_8bit --gradient_checkpointing True": (
        "memory llama-3-8b --lora 8 --base-weights nf4 --optimizer paged-adamw-8bit-trainer --checkpointing full"
    ),
    "memory llama-3-8b --load-in-4bit": "memory llama-3-8b --weights nf4",
    "memory gpt2 --train --bf16": "memory gpt2 --train --precision bf16-mixed",  # a checkpoint in fp32
    "memory llama-3-8b --train --bf16": "memory llama-3-8b --train --precision bf16-autocast",  # and one in bf16
    "memory llama-3-8b --train --use_liger_kernel": ("memory llama-3-8b --train --backend fused"),
    "memory gpt2 --train --dropout False": "memory gpt2 --train --no-dropout",
    "memory llama-3-8b --train --lora 16 --weights nf4": "memory llama-3-8b --train --lora 16 --base-weights nf4",
    "memory llama-3-8b --serve --seq 8k --batch 4": "memory llama-3-8b --serve --context 8k --concurrency 4",
    "memory gpt2 --train --dtype bfloat16": "memory gpt2 --train --precision bf16",
    "train gpt2 --tokens 1B --gpu h100 --bf16 False": "train gpt2 --tokens 1B --gpu h100",
    "serve llama-3-8b --gpu 2xh100 --tensor-parallel-size 2 --quantization fp8": (
        "serve llama-3-8b --gpu 2xh100 --tp 2 --weights fp8"
    ),
    "memory llama-3-8b --fp16": "memory llama-3-8b --dtype fp16",
    "serve llama-3-8b --gpu h100 --fp16": "serve llama-3-8b --gpu h100 --weights fp16",
    "memory llama-3-8b --per_device_train_batch_size 2 --bf16": (
        "memory llama-3-8b --train --batch 2 --precision bf16-autocast"
    ),
    "serve llama-3-8b --gpu h100 --batch 32 --seq 4k": "serve llama-3-8b --gpu h100 --concurrency 32 --context 4k",
    "serve llama-3-8b --gpu h100 --isl 1000 --osl 200": "serve llama-3-8b --gpu h100 --input 1000 --output 200",
    "train llama-3-8b --weights nf4 --tokens 1M --gpu h100": (
        "train llama-3-8b --lora --base-weights nf4 --tokens 1M --gpu h100"
    ),
    "memory llama-3-8b --grpo": "memory llama-3-8b --method grpo",
    "memory gpt2 --train --method grpo --group-size 4 --max_response_length 128": (
        "memory gpt2 --train --method grpo --num-generations 4 --max-completion-length 128"
    ),
    "memory gpt2 --train --checkpointing": "memory gpt2 --train --checkpointing full",
    "memory gpt2 --qlora --checkpointing --seq 512": "memory gpt2 --qlora 16 --checkpointing full --seq 512",
    "memory gpt2 --train --recompute_granularity selective": "memory gpt2 --train --checkpointing selective",
    "compare gpt2 'gpt2 --lora_r 8' --train": "compare gpt2 'gpt2 --lora 8' --train",
}


@pytest.mark.parametrize("line", SAME)
def test_a_line_in_their_words_has_the_answer_of_ours(tfcalc: Program, line: str) -> None:
    import shlex

    theirs, ours = (json.loads(tfcalc(*shlex.split(one), "--json").stdout) for one in (line, SAME[line]))
    for answer in (theirs, ours):
        for one in answer.get("models", ()):
            one.pop("name", None)
    assert json.dumps(theirs).replace("--lora_r 8", "--lora 8") == json.dumps(ours)


def test_what_means_something_else_is_refused_with_what_to_type(tfcalc: Program) -> None:
    for flag in sorted(set(INSTEAD) - set(PACKED) - {"--vs", "--price", "--cost", "--days", "--cp", "--ep", "--dp"}):
        assert flag not in BY_FLAG
        for typed in (flag, "--" + flag[2:].replace("-", "_")):
            found = tfcalc("memory", "gpt2", typed, "1")
            assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1)
            assert INSTEAD[flag] in found.stderr


def test_an_option_that_another_command_has_is_named_with_it(tfcalc: Program) -> None:
    said = tfcalc("params", "gpt2", "--kv-cache-dtype", "fp8").stderr
    assert "it stands for --kv; it is an option of memory, fit, serve" in said


def test_megatrons_bf16_is_not_the_trainers(tfcalc: Program) -> None:
    found = tfcalc("memory", "llama-3-8b", "--train", "--backend", "megatron", "--bf16")
    assert found.returncode == 2
    assert "Megatron-LM's --bf16 is bf16-master-fp32-grads" in found.stderr
