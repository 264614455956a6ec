"""docs/budgets.md names every format, and its examples for CI systems can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tfcalc.budgets.formats import FORMATS

PAGE = (Path(__file__).parents[3] / "docs" / "budgets.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_in_the_table(form: str) -> None:
    assert f"\n| `{form}` | " in PAGE


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[0])
def test_examples_are_yaml_and_ask_for_formats_that_there_are(block: str) -> None:
    assert isinstance(yaml.safe_load(block), list | dict)
    assert set(re.findall(r"--format (\S+)", block)) <= set(FORMATS)


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 3
