"""Patterns of models: what they stand for, and that none is compiled or tried twice."""

from __future__ import annotations

from datetime import date
from fnmatch import fnmatchcase, translate
from pathlib import Path

import pytest

from tfcalc.budgets.baseline import NO_BASELINE, NoBaseline
from tfcalc.budgets.numbers import Numbers
from tfcalc.budgets.patterns import NamePatterns
from tfcalc.budgets.read import read_budgets
from tfcalc.budgets.run import BudgetRun
from tfcalc.budgets.sources import Fields, Source

NAMES = ["base", "chat", "chat-8b", "chat-70b", "Chat", "a.b", "[a]", "a", "ab*", "über", "übers", "chat\u00e9"]
PATTERNS = [
    *NAMES,
    *(
        "*",
        "**",
        "chat*",
        "chat-*",
        "*b",
        "*-?b",
        "?",
        "??",
        "[ac]*",
        "[!c]*",
        "[a]",
        "[",
        "a[",
        "ch*t*",
        "",
        "ü*",
        "C*",
    ),
    *("C*", "*8*", "chat-[0-9]*b", "chat[!-]", "x*", "*chat*", "a.b", "a?b", "chat-8b*"),
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_stands_for_what_the_shell_takes_it_for_and_for_itself(pattern: str) -> None:
    expected = sorted(name for name in NAMES if name == pattern or fnmatchcase(name, pattern))
    assert list(NamePatterns(NAMES).of(pattern)) == expected


def test_models_of_several_patterns_are_in_the_order_of_the_file() -> None:
    assert NamePatterns(NAMES).of_any(["chat-*", "base", "chat*", "nothing"]) == [
        *("base", "chat", "chat-8b", "chat-70b", "chat\u00e9")
    ]


def test_a_pattern_is_compiled_once_and_tried_where_it_may_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def counted(pattern: str) -> str:
        compiled.append(pattern)
        return translate(pattern)

    monkeypatch.setattr("tfcalc.budgets.patterns.translate", counted)
    models = "".join(f'[models.m{number:03d}]\npreset = "gpt2"\n' for number in range(500))
    patterns = [f"m{number:02d}[0-9]" for number in range(20)]
    limits = "".join(f'[[budget]]\nmodel = {patterns}\nmetric = "total_params"\nmax = {n + 1}\n' for n in range(500))
    file = read_budgets(models + limits, "tfcalc.toml")
    assert sum(len(budget.models) for budget in file.budgets) == 500 * 20
    names = NamePatterns(file.models)
    for budget in file.budgets:
        assert names.of_any(budget.models) == [f"m{number:03d}" for number in range(200)]
    assert compiled == patterns


def test_an_answer_is_asked_once_for_all_its_budgets() -> None:
    asked: list[tuple[str, str]] = []

    def ask(command: str, source: Source, *_: Fields) -> dict[str, object]:
        asked.append((command, source.entry.preset or ""))
        return {"conventions": {}, "model": {}, "total_params": 7, "active_params": 5}

    models = '[models.a]\npreset = "gpt2"\n[models.b]\npreset = "llama-3-8b"\n[models.c]\npreset = "gpt2"\n'
    limits = "".join(
        f'[[budget]]\nmodel = "*"\nmetric = "params.{metric}"\nmax = {number + 7}\n'
        for metric in ("total_params", "active_params")
        for number in range(50)
    )
    file = read_budgets(models + limits, "tfcalc.toml")
    run = BudgetRun(file, Path(), Numbers(ask, file.scenarios), NoBaseline("", NO_BASELINE))
    assert len(run.checked(date(2026, 1, 1)).checks) == 3 * 100
    # a and c are the same model by two names
    assert asked == [("params", "gpt2"), ("params", "llama-3-8b")]
