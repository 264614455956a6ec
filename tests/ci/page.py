"""The examples of docs/ci.md, which are run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def files(language: str) -> dict[str, str]:
    """Those blocks that begin with the name of their file."""
    named = [(re.match(r"# (\S+\.\w+)\n", block), block) for block in blocks(language)]
    return {name[1]: block for name, block in named if name}
