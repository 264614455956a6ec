"""How many examples of a property are tried: the same ones in every run, or many new ones to explore."""

from __future__ import annotations

from hypothesis import settings

MORE = 20
"""How many times as many are tried under ``--hypothesis-profile=explore`` (``make explore``)."""

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", derandomize=False, deadline=None, database=None, print_blob=True)


def examples(count: int) -> settings:
    """So many examples, or ``MORE`` times as many where new ones are drawn in each run."""
    return settings(max_examples=count if settings().derandomize else MORE * count)
