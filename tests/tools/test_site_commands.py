"""The pages of the commands in the site."""

from __future__ import annotations

import pytest

from tfcalc.cli.commands import COMMANDS, GROUPS, command
from tools import site_commands


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_has_every_option_once_under_its_group(name: str) -> None:
    text = site_commands.page(name)
    rows = [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line.startswith("| ")]
    for option in command(name).options:
        called = option.name.upper() if option.argument else ", ".join(f"`{flag}`" for flag in option.flags)
        assert rows.count(called) == 1, called
        if not option.argument:
            under = text[: text.index(f"| {called} |")].rpartition("\n## ")[2].partition("\n")[0]
            assert under == GROUPS[option.group]
    assert all(example in text for example in command(name).examples)


def test_the_navigation_has_every_command() -> None:
    pages = [page for section in site_commands.nav().values() for entry in section for page in entry.values()]
    assert sorted(pages) == sorted(map(site_commands.place, COMMANDS))
