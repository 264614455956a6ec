"""A link is a question: the same words, there and back."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.schemas.questions import lines
from tfcalc.errors import UsageError
from tfcalc.page.links import CONFIG, config_of, in_full, link_of, parts, words_of

QUESTIONS = sorted({shlex.join(words) for words in lines()})


def test_words_become_a_link_and_the_link_these_words() -> None:
    """Of all questions that schemas are tested with: the words without a flag come first, the options as they stood."""
    assert len(QUESTIONS) > 300
    for line in QUESTIONS:
        words = shlex.split(line)
        found = words_of(link_of(words))
        before, after = parts(words), parts(found)
        assert (after.first, after.named) == (before.first, before.named), line
        assert [(one.flag, one.value) for one in after.typed] == [(one.flag, one.value) for one in before.typed], line
        assert link_of(found) == link_of(words), line


@pytest.mark.parametrize(
    ("line", "link"),
    [
        ("memory llama-3-8b --train --seq 8k", "memory/llama-3-8b?train&seq=8k"),
        ("memory --train llama-3-8b --lora --batch 2", "memory/llama-3-8b?train&lora&batch=2"),
        ("memory llama-3-8b --lora 8 --no-dora", "memory/llama-3-8b?lora=8&no-dora"),
        ("llama-3-8b", "llama-3-8b"),
        ("params meta-llama/Llama-3-8B -q", "params/meta-llama%2FLlama-3-8B?-q"),
        ("solve 'memory <= 80GB' gpt2 --for batch", "solve/memory%20%3C%3D%2080GB/gpt2?for=batch"),
        ("serve gpt2 --max-num-seqs 8", "serve/gpt2?max-num-seqs=8"),
    ],
)
def test_a_link_is_what_anyone_would_write(line: str, link: str) -> None:
    assert link_of(shlex.split(line)) == link
    assert link_of(words_of(link)) == link


def test_two_texts_of_an_option_are_one_value() -> None:
    words = shlex.split("plan gpt2 --gpu 8xh100 --why dp=8 'tp=2 pp=2'")
    assert words_of(link_of(words))[-2:] == ["--why", "dp=8 vs tp=2 pp=2"]


def test_the_command_is_put_before_a_model() -> None:
    assert in_full(["gpt2", "--gpu", "t4"]) == ["overview", "gpt2", "--gpu", "t4"]
    assert in_full(["finetune", "gpt2"]) == ["fit", "gpt2"]


def test_a_pasted_config_comes_with_its_link() -> None:
    config = json.dumps({"model_type": "gpt2", "n_layer": 3}).encode()
    link = link_of(["params", "config.json"], config)
    assert words_of(link) == ["params", "config.json"]
    assert config_of(link) == config
    assert CONFIG not in link_of(["params", "gpt2"], config)
    assert config_of("params/gpt2") is None


@pytest.mark.parametrize("packed", ["x", "eJw", "AAAA", "%F0%9F%8E%89"])
def test_a_config_that_a_link_has_lost_is_refused(packed: str) -> None:
    with pytest.raises(UsageError, match="the config in this link cannot be read"):
        config_of(f"params/config.json?{CONFIG}={packed}")


def test_a_small_link_does_not_become_a_large_config() -> None:
    link = link_of(["params", "config.json"], b" " * 50_000_000)
    assert len(link) < 100_000
    with pytest.raises(UsageError, match="cannot be read"):
        config_of(link)


def test_the_page_has_no_word_of_the_program() -> None:
    """Neither a flag, nor a command beside the first question, nor a number of an answer stands in its own code."""
    from tfcalc.cli.commands import COMMANDS

    folder = Path(__file__).parents[2] / "tools" / "page"
    for name in ("app.js", "worker.js", "sw.js"):
        code = (folder / name).read_text(encoding="utf-8").replace('const FIRST = "overview/llama-3-8b";', "")
        code = "\n".join(line.split("//")[0] for line in code.splitlines())
        assert "--" not in code, name
        assert not set(re.findall(r'"([^"]*)"', code)) & set(COMMANDS), name
