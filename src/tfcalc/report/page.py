"""A page before it has a format: sections, each with an answer, its pictures, and where its numbers come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tfcalc.report.chart import Picture
from tfcalc.report.sheet import At, Sheet


class OpenedNumber(NamedTuple):
    """A number of an answer, by its ``path`` in the JSON, and the sheet that says where it comes from."""

    path: str
    sheet: Sheet


class PageSection(NamedTuple):
    """A section of a page.

    ``name`` is the word by which a link finds it. The ``command`` gives the same answer, of which ``sheet`` is the
    table. ``opened`` are the numbers whose origins the page tells. Of an answer that there is not, ``missing`` is the
    reason.
    """

    name: str
    title: str
    about: str
    command: str
    sheet: Sheet | None = None
    pictures: tuple[Picture, ...] = ()
    opened: tuple[OpenedNumber, ...] = ()
    missing: str = ""

    @property
    def links(self) -> dict[At, str]:
        """The cells of the table whose origins are told, by the paths of their numbers."""
        told = {one.path for one in self.opened}
        command = self.opened[0].path.partition(".")[0] if self.opened else ""
        paths = {at: ".".join((command, *keys)) for at, keys in (self.sheet.numbers() if self.sheet else {}).items()}
        return {at: path for at, path in paths.items() if path in told}


class WholePage(NamedTuple):
    """A page: ``made_by`` is the command that makes it again, ``data`` the JSON of all of its answers."""

    title: str
    subtitle: str
    made_by: str
    version: str
    sections: tuple[PageSection, ...]
    data: Mapping[str, object]
