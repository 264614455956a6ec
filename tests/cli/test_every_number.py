"""Every number of every answer has a path that ``explain`` opens, and what it opens makes the number."""

from __future__ import annotations

import random
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import isclose
from typing import Any, cast

import pytest

from tests.analysis.test_opened_numbers import check as check_one_model
from tfcalc.cli.app import settings_of, with_values
from tfcalc.cli.commands import command
from tfcalc.cli.commands.opened import asked_about
from tfcalc.errors import InvalidModel
from tfcalc.report.derivation import Derivation
from tfcalc.report.explanation import Explanation
from tfcalc.report.opened import Opened
from tfcalc.report.paths import COMMANDS as ABOUT_ONE_MODEL
from tfcalc.report.paths import locate
from tfcalc.workload import Workload
from tools.fuzz.questions import classic

Path = tuple[str, ...]
FLOOR = re.compile(r"⌊(.*) / ([^⌊⌋]*)⌋")


def paths(value: object, passed: Path = ()) -> Iterator[Path]:
    """The paths of all numbers, by keys and places."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield passed
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from paths(inner, (*passed, str(key)))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from paths(inner, (*passed, str(place)))


def evaluated(text: str) -> float:
    """The numbers of a formula put together: only digits, signs, and the least and the most are left to Python."""
    written = FLOOR.sub(r"((\1) // (\2))", text).replace("·", "*").replace(" mod ", " % ")
    assert re.fullmatch(r"[-+*/%(), .\de]+", re.sub(r"\b(min|max|round)\b", "", written)), text
    return cast("float", eval(written))


def check(words: list[str]) -> Counter[str]:
    """Open every number of the answer to these words; how many were opened in which way."""
    name, *rest = words
    asked = command(name).meant(rest)
    settings = settings_of(with_values(rest, asked.options), asked.options)
    if name in ABOUT_ONE_MODEL:
        return Counter(check_one_model(asked_about(name, settings)).values())
    answer = Opened(cast("Any", asked.answer(settings)))
    return Counter(
        check_path(answer.open, f"{name}.", keys, locate(answer.said, keys).value) for keys in paths(answer.said)
    )


def check_path(opened: Callable[[Path], object], command: str, keys: Path, value: object) -> str:
    """One number opens, and what it opens adds up to it; each term has a path that opens with the same value."""
    found = opened(keys)
    if isinstance(found, Explanation):
        assert found.answer == value == sum(line.value for line in found.lines), keys
        return "items"
    assert isinstance(found, Derivation)
    assert found.value == value, keys
    if not found.terms:
        assert found.note, keys
        return found.how
    if found.how != "answer":
        assert isclose(evaluated(found.substituted), found.value, rel_tol=1e-12), (keys, found.substituted)
    for term in found.terms:
        if not term.path:
            assert term.what, keys
            continue
        assert term.path.startswith(command), term
        behind = opened(tuple(term.path.removeprefix(command).split(".")))
        assert (behind.answer if isinstance(behind, Explanation) else cast("Derivation", behind).value) == term.value
    return found.how


RANDOM = random.Random(15)


@pytest.mark.parametrize(
    "line",
    [
        "compare gpt2 gpt2-medium",
        "compare llama-3-8b mixtral-8x7b t5-small mamba2-780m bert-base-uncased --serve --context 128",
        "compare gpt2 'gpt2 --layers 6' --only-differences --train --seq 64 --lora 4",
        "compare deepseek-v2-lite gpt-oss-20b gemma-3-270m clip-vit-base-patch16",
        "diff gpt2 gpt2-medium --seq 64",
        "diff gpt2 llama-3-8b --seq 64",
        "diff t5-small 't5-small --layers 2'",
        "diff gpt2 'gpt2 --heads 8 --layers 3' --seq 16 --checkpointing full",
    ],
)
def test_every_number_is_opened(line: str) -> None:
    assert check(shlex.split(line))


def sizes(draw: random.Random) -> list[str]:
    """Sizes of a classic Transformer that there is."""
    while True:
        found = classic(draw)
        try:
            settings_of(found, command("params").options).model().tree(Workload())
        except InvalidModel:
            continue
        return found


def drawn(count: int) -> Iterator[list[str]]:
    """Questions about classic Transformers of random sizes."""
    for _ in range(count):
        models = [" ".join(["transformer-base", *sizes(RANDOM)]) for _ in range(2)]
        seq = ["--seq", str(RANDOM.choice([1, 7, 64]))]
        yield ["compare", *models, *seq]
        yield ["diff", *models, *seq]


@pytest.mark.parametrize("words", list(drawn(2)), ids=shlex.join)
def test_every_number_of_random_models_is_opened(words: list[str]) -> None:
    assert check(words)
