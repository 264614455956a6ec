"""A page before it has a format: sections, each with its answers, their pictures, and where their numbers come from."""

from __future__ import annotations

from collections.abc import Mapping

from tfcalc.named_tuple import NamedTuple
from tfcalc.report.chart import Picture
from tfcalc.report.sheet import At, Sheet


class OpenedNumber(NamedTuple):
    """A number of an answer, by its ``path`` in the JSON, and the sheet that says where it comes from."""

    path: str
    sheet: Sheet


class PageAnswer(NamedTuple):
    """An answer in a section of a page: the ``command`` that gives it, of which ``sheet`` is the table.

    Paths of its numbers begin with ``path``. ``opened`` are those whose origins the page tells. Of an answer that there
    is not, ``missing`` is the reason. Where a section has several, ``called`` is the heading of each.
    """

    command: str
    sheet: Sheet | None = None
    path: str = ""
    opened: tuple[OpenedNumber, ...] = ()
    missing: str = ""
    called: str = ""

    @property
    def links(self) -> dict[At, str]:
        """The cells of the table whose origins are told, by the paths of their numbers."""
        told = {one.path for one in self.opened}
        paths = {at: ".".join((self.path, *keys)) for at, keys in (self.sheet.numbers() if self.sheet else {}).items()}
        return {at: path for at, path in paths.items() if path in told}


class PageSection(NamedTuple):
    """A section of a page: ``answers`` of one model or of several, and pictures that show all of them.

    ``name`` is the word by which a link finds it.
    """

    name: str
    title: str
    about: str
    answers: tuple[PageAnswer, ...]
    pictures: tuple[Picture, ...] = ()


class WholePage(NamedTuple):
    """A page: ``made_by`` is the command that makes it again, ``data`` the JSON of all of its answers."""

    title: str
    subtitle: str
    made_by: str
    version: str
    sections: tuple[PageSection, ...]
    data: Mapping[str, object]
