"""``tfcalc schema``."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.cli.commands import Command
from tfcalc.cli.options import SHOW, Option
from tfcalc.cli.output import show
from tfcalc.cli.settings import Settings
from tfcalc.errors import UsageError, nearest
from tfcalc.printable import quoted
from tfcalc.report.sheet import Column, Sheet
from tfcalc.schemas import Schema, any_of, names, schema
from tfcalc.schemas.keys import keys

NAME = Option("name", (), "a command, or error; without it one schema that any answer meets", argument=True)
FORMAT, *OTHERS = (option for option in SHOW if option.name in ("format", "json", "output", "ascii", "color", "debug"))
"""Of the options of an output those that change something here."""


class Described(NamedTuple):
    """The schema of one answer."""

    found: Schema

    def to_dict(self) -> dict[str, object]:
        """The schema itself."""
        return self.found

    def sheet(self) -> Sheet:
        """A row for each key."""
        rows = list(keys(self.found))
        return Sheet(
            title=f"{len(rows)} keys of {self.found['title']}",
            subtitle=self.found["description"],
            columns=[
                Column("key", numeric=False, folds=True),
                Column("type", numeric=False),
                Column("when", numeric=False, folds=True, spare=1),
                Column("meaning", numeric=False, folds=True),
            ],
            rows=[[key.path, " or ".join(key.types), ", ".join(key.when), key.meaning] for key in rows],
            quiet="\n".join(key.path for key in rows),
        )


class Listed(NamedTuple):
    """All schemas by name."""

    schemas: dict[str, Schema]

    def to_dict(self) -> dict[str, object]:
        """One document with all of them."""
        return any_of(self.schemas)

    def sheet(self) -> Sheet:
        """A row for each."""
        return Sheet(
            title=f"{len(self.schemas)} schemas",
            columns=[Column("name", numeric=False), Column("describes", numeric=False, folds=True)],
            rows=[[name, one["description"]] for name, one in self.schemas.items()],
            quiet="\n".join(self.schemas),
        )


def answer(settings: Settings) -> Described | Listed:
    """The schema that was asked for, or all of them."""
    name = settings.get("name")
    if name is None:
        return Listed({one: schema(one) for one in names()})
    if name not in names():
        raise UsageError(f"there is no schema {quoted(name)}", nearest(name, names()))
    return Described(schema(name))


def write(found: Described | Listed, settings: Settings) -> None:
    """As JSON, unless another format was asked for."""
    show(found, settings if settings.get("format") else settings.with_values(format="json"))


COMMAND = Command(
    answer,
    (NAME, FORMAT._replace(help="output format [default: json]"), *OTHERS),
    (
        "tfcalc schema params",
        "tfcalc schema memory --format table",
        "tfcalc schema",
    ),
    write=write,
)
