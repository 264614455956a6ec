"""``tfcalc schema``."""

from __future__ import annotations

from tfcalc.cli.budget_options import file_schema
from tfcalc.cli.commands import Command
from tfcalc.cli.options import SHOW, Option
from tfcalc.cli.output import show
from tfcalc.cli.settings import Settings
from tfcalc.errors import UsageError, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.report.sheet import Column, Sheet
from tfcalc.schemas import Schema, any_of, complete, names, schema
from tfcalc.schemas.keys import keys

FILE = "file"
"""What the schema of tfcalc.toml is called."""
NAME = Option(
    "name", (), "a command, error, or file (of tfcalc.toml); without it one schema that any answer meets", argument=True
)
FORMAT, *OTHERS = (option for option in SHOW if option.name in ("format", "json", "output", "ascii", "color", "debug"))
"""Of the options of an output those that change something here."""


class AnswerSchema(NamedTuple):
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
    """Schemas by name, all of them: those of answers, and ``others``."""

    schemas: dict[str, Schema]
    others: dict[str, Schema]

    def to_dict(self) -> dict[str, object]:
        """One document with all of the answers'."""
        return any_of(self.schemas)

    def sheet(self) -> Sheet:
        """A row for each."""
        every = self.schemas | self.others
        return Sheet(
            title=f"{len(every)} schemas",
            columns=[Column("name", numeric=False), Column("describes", numeric=False, folds=True)],
            rows=[[name, one["description"]] for name, one in every.items()],
            quiet="\n".join(every),
        )


def answer(settings: Settings) -> AnswerSchema | Listed:
    """The schema that was asked for, or all of them."""
    name = settings.get("name")
    if name is None:
        return Listed({one: schema(one) for one in names()}, {FILE: _of_file()})
    if name == FILE:
        return AnswerSchema(_of_file())
    if name not in names():
        raise UsageError(f"there is no schema {quoted(name)}", nearest(name, [*names(), FILE]))
    return AnswerSchema(schema(name))


def _of_file() -> Schema:
    return complete(FILE, file_schema())


def write(found: AnswerSchema | Listed, settings: Settings) -> None:
    """Write a schema as JSON, unless another format was asked for."""
    show(found, settings if settings.get("format") else settings.with_values(format="json"))


COMMAND = Command(
    answer,
    (NAME, FORMAT._replace(help="output format [default: json]"), *OTHERS),
    (
        "tfcalc schema params",
        "tfcalc schema memory --format table",
        "tfcalc schema file",
        "tfcalc schema",
    ),
    write=write,
)
