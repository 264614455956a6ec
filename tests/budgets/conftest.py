"""The program in the process of the tests."""

from tests.cli.conftest import quick

__all__ = ["quick"]
