"""A page before it has a format: sections, each with an answer, its pictures, and where its numbers come from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tfcalc.report.chart import Picture
from tfcalc.report.sheet import Sheet

At = tuple[int, int]
"""Row and column of a cell."""


class OpenedNumber(NamedTuple):
    """A number of an answer, by its ``path`` in the JSON, and the sheet that says where it comes from."""

    path: str
    sheet: Sheet


class PageSection(NamedTuple):
    """A section of a page.

    ``name`` is the word by which a link finds it. The ``command`` gives the same answer, of which ``sheet`` is the
    table, and ``links`` are the cells of it that are numbers of the answer, by their paths. ``opened`` are the numbers
    whose origins the page tells. Of an answer that there is not, ``missing`` is the reason.
    """

    name: str
    title: str
    about: str
    command: str
    sheet: Sheet | None = None
    pictures: tuple[Picture, ...] = ()
    links: Mapping[At, str] = MappingProxyType({})
    opened: tuple[OpenedNumber, ...] = ()
    missing: str = ""


class WholePage(NamedTuple):
    """A page: ``made_by`` is the command that makes it again, ``data`` the JSON of all of its answers."""

    title: str
    subtitle: str
    made_by: str
    version: str
    sections: tuple[PageSection, ...]
    data: Mapping[str, object]
