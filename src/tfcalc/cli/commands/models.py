"""``tfcalc models``."""

from __future__ import annotations

from collections.abc import Sequence

from tfcalc import catalog
from tfcalc.answers.question import Question
from tfcalc.catalog import alike, listed, spelled
from tfcalc.cli.commands import Command
from tfcalc.cli.options import SHOW, Option
from tfcalc.cli.settings import Settings
from tfcalc.configs.config import model_types
from tfcalc.configs.family import wanted
from tfcalc.errors import UsageError, nearest
from tfcalc.printable import quoted
from tfcalc.report.declared import Answer, Record, Told, by_name, integer, optional, records, text, texts
from tfcalc.report.opening import count, given
from tfcalc.report.sheet import Cell, Column, Sheet, Short, Tokens, of
from tfcalc.training.measured import trainable

COLUMNS = "size in parameters, ctx (the longest sequence) in tokens with k = 1,024, dtype of the checkpoint's weights"
WORD = Option("word", (), "only the presets with this in their names", argument=True)
LISTS = ("supported", "trainable")
"""What lists model types, and not presets."""


class ListOfModels(Answer):
    """A list of models, or of model types."""

    command = "models"
    about = (
        "The presets (the default), the model types that are read (--supported), or those with training memory "
        "(--trainable)."
    )
    exclusive = True


class ListedModel(Record):
    """A preset with its sizes, and their sources."""

    name = text("the name to ask for", lambda row: row.name)
    family = text("model_type", lambda row: row.family)
    total_params = integer(
        "parameters",
        lambda row: row.total_params,
        Told(lambda one: Question("params", catalog.load(one.name), called=one.name).number()),
    )
    context = optional(
        "longest context, in tokens; null where it has none",
        lambda row: row.context,
        Told(lambda one: given(f"the longest sequence, by the config of {one.name}")),
    )
    dtype = text("number format of the checkpoint", lambda row: row.dtype)
    repository = text("its id on the Hub; empty where it has none", lambda row: row.repository)
    source_ = text("where its sizes are from", lambda row: catalog.preset(row.name).source)
    sources = by_name(
        "string", "where its other figures are from, by figure", lambda row: dict(catalog.preset(row.name).sources)
    )


class Presets(ListOfModels):
    """The presets with their sizes, or with their sources."""

    form = "presets"

    models = records(ListedModel, "the presets", lambda answer: answer.rows)

    def __init__(self, rows: list[catalog.ListedPreset], *, with_sources: bool = False) -> None:
        self.rows, self.with_sources = rows, with_sources

    @property
    def heading(self) -> str:
        """Number of models, as the heading of the list."""
        return f"{len(self.rows)} models"

    def sheet(self) -> Sheet:
        """A row per model."""
        columns, rows = self._sources() if self.with_sources else self._sizes()
        return Sheet(
            title=f"{len(self.rows)} model{'s' * (len(self.rows) != 1)}",
            columns=columns,
            rows=rows,
            quiet="\n".join(row.name for row in self.rows),
            notes=[] if self.with_sources else [COLUMNS],
            see_also=[] if self.with_sources else ["tfcalc models --sources"],
        )

    def _sizes(self) -> tuple[list[Column], list[list[Cell]]]:
        columns = [
            Column("model", numeric=False),
            Column("family", numeric=False, spare=4),
            Column("size", spare=1),
            Column("ctx", spare=2),
            Column("dtype", numeric=False, spare=3),
        ]
        return columns, [
            [
                row.name,
                row.family,
                of(Short(row.total_params, "B"), Presets.models, row.name, ListedModel.total_params),
                of(row.context and Tokens(row.context), Presets.models, row.name, ListedModel.context),
                row.dtype,
            ]
            for row in self.rows
        ]

    def _sources(self) -> tuple[list[Column], list[list[Cell]]]:
        columns = [
            Column("model", numeric=False),
            Column("repository", numeric=False, spare=1),
            Column("sources", numeric=False, folds=True),
        ]
        return columns, [
            [
                one.name,
                one.repository,
                "; ".join([one.source_, *(f"{name}: {where}" for name, where in one.sources.items())]),
            ]
            for one in self.models
        ]


class Supported(ListOfModels):
    """The model types that a config.json may have, and those of transformers' text models that are missing."""

    form = "--supported"
    heading = "model types"

    supported_count = integer(
        "how many model types there are",
        lambda answer: len(answer.supported),
        count("the model types that are listed"),
    )
    supported = texts("the model types of a config.json that are read", lambda answer: answer.known)
    missing = texts(
        "text model types of transformers that are not",
        lambda answer: [name for name in answer.wanted if name not in answer.known],
    )

    def __init__(self, known: Sequence[str], wanted: Sequence[str]) -> None:
        self.known, self.wanted = known, wanted

    def sheet(self) -> Sheet:
        """A row per model type."""
        lacking = (
            f"text model types of transformers that are not supported ({len(self.missing)}): {', '.join(self.missing)}"
        )
        return Sheet(
            title=f"{self.supported_count} model types",
            columns=[Column("model_type", numeric=False)],
            rows=[[name] for name in self.supported],
            quiet="\n".join(self.supported),
            notes=[lacking if self.missing else "all text model types of transformers are supported"],
        )


class Trainable(ListOfModels):
    """The model types whose training memory is answered."""

    form = "--trainable"
    heading = "training memory"

    trainable_count = integer(
        "how many of them there are", lambda answer: len(answer.trainable), count("the model types that are listed")
    )
    trainable = texts("the model types with training memory", lambda answer: answer.known)

    def __init__(self, known: Sequence[str]) -> None:
        self.known = known

    def sheet(self) -> Sheet:
        """A row per model type."""
        return Sheet(
            title=f"training memory is supported for {self.trainable_count} model types",
            columns=[Column("model_type", numeric=False)],
            rows=[[name] for name in self.trainable],
            quiet="\n".join(self.trainable),
        )


def answer(settings: Settings) -> ListOfModels:
    """The list that was asked for."""
    types, presets = settings.choose(*LISTS), [name for name in ("family", "sources") if settings.get(name)]
    if types:
        settings.refuse(("word",), "on model types", {})
    if types and presets:
        chosen = settings.choose(*types, *presets)
        types, presets = ([name for name in names if name in chosen] for names in (types, presets))
    family = settings.get("family")
    if len(types) > 1 or (types and presets):
        fact = f"--{types[0]} lists model types, and --{[*types[1:], *presets][0]} " + (
            "others" if types[1:] else "presets"
        )
        raise UsageError(fact, "leave one of them out")
    if settings.get("supported"):
        return Supported(model_types(), wanted())
    if settings.get("trainable"):
        return Trainable(trainable())
    return _models(
        family.lower() if family else None, settings.get("word", ""), with_sources=bool(settings.get("sources"))
    )


def _models(family: str | None, word: str, *, with_sources: bool) -> Presets:
    rows = [catalog.index()[name] for name in catalog.names()]
    known = {row.family for row in rows}
    if family is not None and family not in known:
        raise UsageError(f"no preset is of family {quoted(family)}", nearest(family, sorted(known)))
    found = [row for row in rows if family in (None, row.family) and spelled(word) in row.name]
    if not found:
        near = alike(word, catalog.names())
        remedy = f"did you mean {listed(near)}?" if near else "tfcalc models lists all"
        of_family = f" of family {quoted(family)}" if family else ""
        raise UsageError(f"no preset{of_family} has {quoted(word)} in its name", remedy)
    return Presets(found, with_sources=with_sources)


COMMAND = Command(
    answer,
    (
        WORD,
        Option("family", ("--family",), "only those of this model_type", front=True, offers="types"),
        Option("supported", ("--supported",), "list the supported model types of config.json", switch=True, front=True),
        Option("trainable", ("--trainable",), "list the model types with training memory", switch=True, front=True),
        Option(
            "sources",
            ("--sources",),
            "each preset's repository and the sources of its figures",
            switch=True,
            front=True,
        ),
        *SHOW,
    ),
    (
        "tfcalc models",
        "tfcalc models bert-base",
        "tfcalc models --family llama",
        "tfcalc models --sources --family gpt_oss",
        "tfcalc models --supported",
        "tfcalc models --trainable",
        "tfcalc models --json",
    ),
)
