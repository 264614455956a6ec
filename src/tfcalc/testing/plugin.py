"""The fixture of pytest: ``pytest_plugins = ["tfcalc.testing.plugin"]`` in a conftest.py.

No entry point announces it: where tfcalc is installed, the tests of projects that do not ask for it load nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tfcalc.budgets.file import find
from tfcalc.testing.of_a_file import assert_budgets


@pytest.fixture
def tfcalc_budgets(request: pytest.FixtureRequest) -> Callable[..., None]:
    """``assert_budgets``, with files from pytest's root folder on, whichever folder pytest runs in."""
    root = request.config.rootpath

    def budgets(file: str | os.PathLike[str] | None = None, base: str | None = None) -> None:
        __tracebackhide__ = True
        if file is None:
            file = find(root)
        assert_budgets(file and root / file, base)

    return budgets
