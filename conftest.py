"""Which files pytest searches for doctests: those that have one, as the search imports the file."""

from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leave modules to the search for tests alone where they have no example."""
    found = yield
    has_one = b">>>" in file_path.read_bytes()
    return [each for each in found if has_one or type(each) is pytest.Module]
