"""``tfcalc report``: what the other commands answer about a model, on one page.

A section of the page is a command line. What that answers is shown, drawn and opened; nothing is computed here.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tfcalc import __version__
from tfcalc.cli.app import settings_of
from tfcalc.cli.commands import Command, command
from tfcalc.cli.commands.overview import as_typed
from tfcalc.cli.options import MODEL_ARGUMENT, MODEL_OPTIONS, SHOW, UNITS, Option, of_fields
from tfcalc.cli.output import PAGES, show
from tfcalc.cli.pages import HTML, assumptions, deliver_page, opened
from tfcalc.cli.settings import FLAG, Settings
from tfcalc.errors import TfcalcError, UsageError
from tfcalc.hardware import named, parse_gpu
from tfcalc.printable import quoted
from tfcalc.report.chart import Picture
from tfcalc.report.declared import Answer, Key, Record, Told, pictures_of, records, text
from tfcalc.report.number import Opened
from tfcalc.report.page import PageSection, WholePage
from tfcalc.report.paths import numbers
from tfcalc.report.sheet import Column, Sheet
from tfcalc.units import short_tokens
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.answers.overview import Overview
    from tfcalc.model import Model
    from tfcalc.report.answer import Answered
    from tfcalc.report.number import Openable

Keys = tuple[str, ...]

SHORTEST, LONGEST = 1_024, 131_072
"""Tokens of the contexts of a cache: of the first, and of the longest where a model reads any number."""
SEQUENCES = 8
"""Sequences of a planned step for each GPU, where no batch is given."""
ONE_GPU = "h100"
DEEPEST = "--depth 9"
"""Down to the matrices."""

GPU = Option(
    "gpu",
    ("--gpu",),
    "the GPU, or several, that serve it and train it: h100, 8xh100 [default: h100, and common GPUs]",
    group="gpus",
    front=True,
    offers="gpus",
)
RUN = tuple(of_fields(Workload, "batch_size", "seq_len", "recompute"))


class ReportPart(NamedTuple):
    """A section as it is asked: the ``words`` of its command line, in which braces stand for what was typed.

    ``otherwise`` are the words for a model of which these are refused, ``takes`` the report's options that go to it.
    It is there where it is ``asked`` for. What is wrong with one that is ``always`` there is raised.

    Of its answer, ``pictures`` draws what is seen at a glance, ``opens`` says of which numbers the origin is told, and
    ``laid_out`` is another sheet than its own.
    """

    name: str
    title: str
    words: str
    about: str
    takes: Keys = ()
    pictures: Callable[[Any], Iterable[Picture]] = lambda _: ()
    opens: Callable[[Keys], bool] = lambda _: False
    laid_out: Callable[[Any], Sheet] = lambda answer: answer.sheet()
    otherwise: str = ""
    asked: Callable[[Settings], bool] = lambda _: True
    always: bool = False


# --- what is drawn


def drawn(answer: Any) -> Iterable[Picture]:
    """Pictures of the answer's own."""
    return pictures_of(answer)


def beside_picture(answer: Any) -> Sheet:
    """The sheet without the column that draws in characters what the picture shows."""
    sheet: Sheet = answer.sheet()
    return sheet.without([place for place, column in enumerate(sheet.columns) if column.heading == "over the step"])


def cards(overview: Overview) -> Sheet:
    """A row for each GPU that holds one of the uses of an overview, smallest first, with a mark for each use."""
    uses = {"serving": "serving", "fine-tuning": "finetune_full", "LoRA": "finetune_lora", "QLoRA": "finetune_qlora"}
    said = overview.entries()
    holding = {use: said[f"{key}_gpus"] for use, key in uses.items() if said[f"{key}_gpus"] is not None}
    names = dict.fromkeys(name for found in sorted(holding.values(), key=len, reverse=True) for name in found)
    return Sheet(
        title=f"{len(names)} of the common GPUs hold it" if names else "No common GPU holds it",
        subtitle=f"{overview.heading}: {', '.join(overview.sheet().assumes)}",
        columns=[Column("GPU", numeric=False), *(Column(use, numeric=False) for use in holding)],
        rows=[[name, *("fits" if name in found else "–" for found in holding.values())] for name in names],
        quiet=None,
        notes=("with a change of options more may do: tfcalc fit MODEL says which",),
    )


def on_one_gpu(settings: Settings) -> bool:
    """Return whether a GPU was named, and one alone."""
    return "gpu" in settings.given and gpus_of(settings) == 1


def on_several_gpus(settings: Settings) -> bool:
    """Return whether several GPUs were named."""
    return "gpu" in settings.given and gpus_of(settings) > 1


def gpus_of(settings: Settings) -> int:
    """Number of GPUs that --gpu names; 1 where it was not given."""
    return parse_gpu(str(settings.get("gpu", ONE_GPU)))[0]


# --- the sections

PARTS = (
    ReportPart(
        "overview",
        "At a glance",
        "overview {model}",
        "What the model takes to store, run, serve and fine-tune.",
        always=True,
        takes=("batch_size", "seq_len", "recompute"),
        opens=lambda _: True,
    ),
    ReportPart(
        "cards",
        "Which GPUs hold it",
        "overview {model}",
        "One GPU alone, for one request of the whole context and for each way to fine-tune.",
        takes=("batch_size", "seq_len", "recompute"),
        laid_out=cards,
    ),
    ReportPart(
        "fit",
        "Can it be trained on this GPU",
        "fit {model} --gpu {gpu}",
        "What a training step takes of the GPU that was named, and what would fit if it does not.",
        takes=("batch_size", "seq_len", "recompute"),
        asked=on_one_gpu,
    ),
    ReportPart(
        "plan",
        "Training over these GPUs",
        "plan {model} --gpu {gpu} --global-batch-size {sequences}",
        "Layouts of a training step over the GPUs that were named, the fastest first.",
        pictures=drawn,
        takes=("seq_len",),
        asked=on_several_gpus,
    ),
    ReportPart(
        "params",
        "Parameters",
        f"params {{model}} {DEEPEST}",
        "Where they are: each row of the picture divides the one above, from the whole model down to its matrices.",
        always=True,
        pictures=drawn,
        opens=lambda keys: keys[-1].endswith("params"),
    ),
    ReportPart(
        "flops",
        "FLOPs",
        f"flops {{model}} {DEEPEST}",
        "What a forward pass multiplies and adds, part by part.",
        always=True,
        takes=("batch_size", "seq_len"),
        pictures=drawn,
        opens=lambda keys: keys[-1].endswith("flops"),
    ),
    ReportPart(
        "growth",
        "FLOPs over sequence length",
        "plot {model} --over seq=1k..256k:x2",
        "Feed-forward networks grow with the length, attention with its square: where they cross is marked.",
        otherwise="plot {model}",
        takes=("batch_size",),
        pictures=drawn,
        opens=lambda _: True,
    ),
    ReportPart(
        "memory",
        "Memory over a training step",
        "memory {model} --train --timeline",
        "Each phase at its highest moment, and what is live then.",
        takes=("batch_size", "seq_len", "recompute"),
        pictures=drawn,
        opens=lambda keys: keys[-1].endswith("bytes"),
        laid_out=beside_picture,
    ),
    ReportPart(
        "cache",
        "Cache over context",
        "sweep {model} --of cache --context {shortest}..{longest}:x2",
        "What one request keeps of the tokens that it has read.",
        pictures=drawn,
        opens=lambda _: True,
    ),
    ReportPart(
        "serve",
        "Serving",
        "serve {model} --gpu {gpu}{fewest} --curve",
        "Requests at once share the weights that a step reads, so more tokens are made while each user waits longer. "
        "In the band lay four of five measured runs, each estimated without those of its own system.",
        pictures=drawn,
        opens=lambda _: True,
        otherwise="serve {model} --gpu {gpu} --concurrency 16",
    ),
    ReportPart(
        "formulas",
        "Formulas",
        "formula --model {model}",
        "The same in letters: each number above is such a formula with the model's sizes in it.",
    ),
)
"""The sections of a report, in their order."""


class AnsweredLine(NamedTuple):
    """Answer of a command line, or why it did not."""

    line: str
    answer: Any
    error: TfcalcError | None = None


class Behind(NamedTuple):
    """A number of the answer to one of the command lines of a report."""

    answer: Openable
    keys: Keys

    def opened(self, _: str, further: Keys) -> Any:
        """Open the number in its own answer."""
        return Opened(self.answer).open((*self.keys, *further))


class MadeKeys(Record):
    """An answer of a report."""

    asked = text("the command line that gives the same answer", lambda made: made.line)
    answer: Key[dict[str, object] | None] = Key(
        {
            "type": ["object", "null"],
            "description": "its JSON, by the schema of that command; null where there is none",
        },
        lambda made: None if made.error else made.answer.to_dict(),
        Told(lambda record, *steps: Behind(record.source.answer, tuple(map(str, steps)))),
    )
    reason = text("why there is none; empty where there is one", lambda made: str(made.error or ""))


class ModelReport(Answer):
    """Answers of commands about one model, on one page."""

    command = "report"
    about = "What the other commands answer about a model, as its report shows it."

    answers = records(MadeKeys, "the answers, each once", lambda report: tuple(report.made.values()))

    def __init__(self, settings: Settings, model: Model) -> None:
        self.settings, self.model = settings, model
        self.typed = as_typed(settings)

    @property
    def parts(self) -> tuple[ReportPart, ...]:
        """The sections that are asked for."""
        return tuple(part for part in PARTS if part.asked(self.settings))

    @cached_property
    def made(self) -> dict[str, AnsweredLine]:
        """The answers by their command lines. Raises what those raise that every model has."""
        return {made.line: made for made in self._by_part.values()}

    @cached_property
    def _by_part(self) -> dict[str, AnsweredLine]:
        """The answers by the names of the sections."""
        found: dict[str, AnsweredLine] = {}
        by_line: dict[str, AnsweredLine] = {}
        for part in self.parts:
            for words in filter(None, (part.words, part.otherwise)):
                line = self.line(part, words)
                made = by_line[line] = by_line.get(line) or self._made(line)
                if not made.error:
                    break
            if part.always and made.error:
                raise made.error
            found[part.name] = made
        return found

    def _made(self, line: str) -> AnsweredLine:
        name, *words = shlex.split(line)[1:]
        asked = command(name).meant(words)
        try:
            given = settings_of(words, asked.options)
            answer = asked.answer(Settings(given.given, self.settings.named, given.path))
            answer.to_dict()  # first what finds most: then nothing is found twice
            answer.sheet()  # what is wrong is found when the answer is read
        except TfcalcError as error:
            return AnsweredLine(line, None, error)
        return AnsweredLine(line, answer)

    def line(self, part: ReportPart, words: str) -> str:
        """The command line of a section."""
        longest = self.model.longest
        longest = longest if isinstance(longest, int) else LONGEST
        batch = self.settings.get("batch_size", SEQUENCES)
        words = words.format(
            model=self.typed,
            gpu=shlex.quote(self.settings.get("gpu", ONE_GPU)),
            fewest="" if "gpu" in self.settings.given else " --for gpus",
            shortest=short_tokens(min(SHORTEST, longest)),
            longest=short_tokens(longest),
            sequences=batch * gpus_of(self.settings),
        )
        units = self.settings.given.get("units")
        more = [*(self.given(name) for name in part.takes), units.words if units and units.source == FLAG else ""]
        return " ".join(("tfcalc", words, *filter(None, more)))

    def given(self, name: str) -> str:
        """Option of the report as it was typed; empty if it was not."""
        given = self.settings.given.get(name)
        return f"{given.called} {given.value}" if given and given.source == FLAG else ""

    @property
    def heading(self) -> str:
        """The model."""
        return self.model.summary

    @property
    def asked(self) -> str:
        """The command that makes it again."""
        target = self.settings.get("output", f"report{HTML}")
        options = (self.given(option.name) for option in (*RUN, GPU, *UNITS))
        return " ".join(filter(None, ("tfcalc report", self.typed, *options, "-o", shlex.quote(str(target)))))

    @cached_property
    def sections(self) -> tuple[PageSection, ...]:
        """The sections, with their pictures and with what is behind their numbers; the last has what all assume."""
        found = tuple(self._section(part) for part in self.parts)
        return (*found, assumptions(found))

    def _section(self, part: ReportPart) -> PageSection:
        made = self._by_part[part.name]
        section = PageSection(part.name, part.title, part.about, made.line)
        if made.error:
            return section._replace(missing=f"Left out: {made.error}")
        sheet, answer = part.laid_out(made.answer), made.answer
        told = opened(answer.command, answer, filter(part.opens, numbers(answer.to_dict())))
        return section._replace(sheet=sheet, pictures=tuple(part.pictures(answer)), opened=tuple(told))

    def page(self) -> WholePage:
        """The report as a page."""
        name = getattr(self.model, "name", "") or "Model"
        subtitle = self.model.summary
        return WholePage(name, subtitle, self.asked, __version__, self.sections, self.to_dict())

    def sheet(self) -> Sheet:
        """A row for each section: what it answers in a line."""
        return Sheet(
            title=f"{len(self.sections)} sections; -o report.html writes them as one page",
            subtitle=self.heading,
            columns=[Column("section", numeric=False), Column("answer", numeric=False, folds=True)],
            rows=[[one.title, one.sheet.title if one.sheet else one.missing] for one in self.sections],
            quiet=self.asked,
            see_also=("-o report.html", "-o report.md", "--json"),
        )


def answer(settings: Settings) -> ModelReport:
    """The report of the model."""
    gpu = settings.get("gpu")
    if gpu is not None and not named(parse_gpu(gpu)[1]):
        raise UsageError(f"--gpu {quoted(gpu)} is not known", "tfcalc gpus lists them")
    return ModelReport(settings, settings.model())


def write(found: ModelReport, settings: Settings) -> None:
    """Write the page that the name of the file asks for, or the answers as any other answer."""
    if str(settings.get("output", "")).endswith(PAGES):
        deliver_page(found.page(), settings)
    else:
        show(cast("Answered", found), settings)


COMMAND = Command(
    answer,
    (MODEL_ARGUMENT, *MODEL_OPTIONS, *RUN, GPU, *UNITS, *SHOW),
    (
        "tfcalc report llama-3-8b -o report.html",
        "tfcalc report gpt2 --seq 1k --gpu l4 -o report.html",
        "tfcalc report llama-3-8b --json",
    ),
    write=write,
    most=700_000,  # each of its sections is an answer
)
