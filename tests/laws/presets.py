"""Published models for laws that are held on the whole program: of every family a first and a last one, or all."""

from __future__ import annotations

import pytest

from tfcalc.catalog import index
from tfcalc.cli.commands import command
from tfcalc.cli.settings import FLAG, Given, Settings, completed


def _ends() -> frozenset[str]:
    by_family: dict[str, list[str]] = {}
    for name, listed in index().items():
        by_family.setdefault(listed.family, []).append(name)
    return frozenset(name for names in by_family.values() for name in (names[0], names[-1]))


ENDS = _ends()
ALL = [pytest.param(name, marks=[] if name in ENDS else pytest.mark.long) for name in index()]
"""All presets, of which those at the ends of their family are asked in every run of the tests."""


def settings(called: str, model: str, **typed: object) -> Settings:
    """A command's settings as if these options had been typed behind a model's name."""
    options = {option.name: option for option in command(called).options}
    given = {name: Given(value, FLAG, (*options[name].flags, name)[0]) for name, value in typed.items()}  # type: ignore[arg-type]  # as read
    return completed({"model": Given(model, FLAG, "model"), **given}, options.values())
