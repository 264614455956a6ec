"""What the commands of the transcripts print, byte for byte: a change of the house changes none of it.

``pytest tests/corpus --overwrite`` records the transcripts anew; a new command is a line ``$ tfcalc …`` in one of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus.transcript import HERE, commands, transcript
from tfcalc.cli.commands import COMMANDS

TRANSCRIPTS = sorted(path.stem for path in HERE.glob("*.txt"))
ELSEWHERE = frozenset({"verify", "check-budget", "calibrate", "web"})
"""Commands that need PyTorch, the second name of one, and a server."""


def recorded(name: str) -> Path:
    """The file of a transcript."""
    return HERE / f"{name}.txt"


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_commands_print_what_they_printed(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    before = recorded(name).read_text(encoding="utf-8")
    found = transcript(commands(before), tmp_path)
    if request.config.getoption("--overwrite"):
        recorded(name).write_text(found, encoding="utf-8")
    else:
        assert found == before, "if this is meant: pytest tests/corpus --overwrite"


def test_every_command_is_asked() -> None:
    lines = [line for name in TRANSCRIPTS for line in commands(recorded(name).read_text(encoding="utf-8"))]
    assert len(set(lines)) == len(lines) > 250
    assert set(COMMANDS) - ELSEWHERE <= {line.split()[0] for line in lines}
