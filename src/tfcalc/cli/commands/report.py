"""``tfcalc report``: what the other commands answer about a model, on one page.

A section of the page is a command line. What that answers is shown, drawn and opened; nothing is computed here.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from tfcalc import __version__
from tfcalc.cli.app import settings_of
from tfcalc.cli.commands import Command, command
from tfcalc.cli.commands.operands import IN_TRAINING, beside, own_settings
from tfcalc.cli.commands.overview import as_typed
from tfcalc.cli.commands.plans import TRAINING
from tfcalc.cli.options import MODEL_ARGUMENT, MODEL_OPTIONS, SHOW, UNITS, Option, of_fields
from tfcalc.cli.output import PAGES, show
from tfcalc.cli.pages import HTML, as_asked, as_option, assumptions, deliver_page, opened, section_of
from tfcalc.cli.settings import FLAG, Settings
from tfcalc.errors import TfcalcError, UsageError
from tfcalc.hardware import named, parse_gpu
from tfcalc.model import default_run
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.report.chart import Picture, side_by_side
from tfcalc.report.declared import Answer, Key, Record, Told, pictures_of, records, text
from tfcalc.report.number import Opened
from tfcalc.report.page import PageAnswer, PageSection, WholePage
from tfcalc.report.paths import numbers
from tfcalc.report.sheet import Column, Sheet
from tfcalc.units import short_tokens
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.answers.compare import Comparison
    from tfcalc.answers.overview import Overview
    from tfcalc.model import Model
    from tfcalc.report.answer import Answered
    from tfcalc.report.number import Openable

Keys = tuple[str, ...]

SHORTEST, LONGEST = 1_024, 131_072
"""Tokens of the contexts of a cache: of the first, and of the longest where a model reads any number."""
DOUBLINGS = 8
"""A cache is drawn from a part of the longest context at least so small."""
SEQUENCES = 8
"""Sequences of a planned step for each GPU, where no batch is given."""
ONE_GPU = "h100"
SEVERAL = 2
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


OF_STEP = tuple(dict.fromkeys(option.name for option in (*RUN, *IN_TRAINING, *TRAINING)))
"""Options of a training step."""


def whatever(_: Settings) -> bool:
    """Return True, whatever was typed."""
    return True


def never(_: Settings) -> bool:
    """Return False, likewise."""
    return False


class ReportPart(NamedTuple):
    """A section as it is asked: the ``words`` of its command line, in which braces stand for what was typed.

    ``otherwise`` are the words for a model of which these are refused, ``takes`` the report's options that go to it.
    It is there where it is ``asked`` for, and of models side by side where it is asked for ``beside`` others. What is
    wrong with one that is ``always`` there is raised.

    Of its answer, ``pictures`` draws what is seen at a glance, ``opens`` says of which numbers the origin is told, and
    ``laid_out`` is another sheet than its own, and ``of_each`` one of several answers, by the names of their models.
    """

    name: str
    title: str
    words: str
    about: str
    takes: Keys = ()
    pictures: Callable[[Any], Iterable[Picture]] = lambda _: ()
    opens: Callable[[Keys], bool] = lambda _: False
    laid_out: Callable[[Any], Sheet] = lambda answer: answer.sheet()
    of_each: Callable[[Mapping[str, Any]], Sheet] | None = None
    otherwise: str = ""
    asked: Callable[[Settings], bool] = whatever
    beside: Callable[[Settings], bool] = never
    always: bool = False


# --- what is drawn


def drawn(answer: Any) -> Iterable[Picture]:
    """Pictures of the answer's own."""
    return pictures_of(answer)


def beside_picture(answer: Any) -> Sheet:
    """The sheet without the column that draws in characters what the picture shows."""
    sheet: Sheet = answer.sheet()
    return sheet.without([place for place, column in enumerate(sheet.columns) if column.heading == "over the step"])


def holding(overview: Overview) -> dict[str, Sequence[str]]:
    """The GPUs that hold each of the uses of an overview, by the use; without uses that are not searched for."""
    uses = {"serving": "serving", "fine-tuning": "finetune_full", "LoRA": "finetune_lora", "QLoRA": "finetune_qlora"}
    said = overview.entries()
    return {use: said[f"{key}_gpus"] for use, key in uses.items() if said[f"{key}_gpus"] is not None}


def cards(overview: Overview) -> Sheet:
    """A row for each GPU that holds one of the uses of an overview, smallest first, with a mark for each use."""
    found = holding(overview)
    names = _smallest_first(found.values())
    return Sheet(
        title=f"{len(names)} of the common GPUs hold it" if names else "No common GPU holds it",
        subtitle=f"{overview.heading}: {', '.join(overview.sheet().assumes)}",
        columns=[Column("GPU", numeric=False), *(Column(use, numeric=False) for use in found)],
        rows=[[name, *("fits" if name in some else "–" for some in found.values())] for name in names],
        quiet=None,
        notes=FURTHER,
    )


def cards_of_each(overviews: Mapping[str, Overview]) -> Sheet:
    """A row for each GPU that holds one of the models, smallest first, with the uses that each model has there."""
    found = {name: holding(one) for name, one in overviews.items()}
    names = _smallest_first(some for uses in found.values() for some in uses.values())
    return Sheet(
        title=", ".join(f"{called}: {len(_smallest_first(uses.values()))} GPUs" for called, uses in found.items()),
        subtitle="; ".join(f"{called}: {', '.join(one.sheet().assumes)}" for called, one in overviews.items()),
        columns=[Column("GPU", numeric=False), *(Column(called, numeric=False, folds=True) for called in found)],
        rows=[
            [name, *(", ".join(use for use, some in uses.items() if name in some) or "–" for uses in found.values())]
            for name in names
        ],
        quiet=None,
        notes=FURTHER,
    )


FURTHER = ("with a change of options more may do: tfcalc fit MODEL says which",)


def _smallest_first(some: Iterable[Sequence[str]]) -> list[str]:
    """The names of GPUs in lists that have the smallest first, each once."""
    return list(dict.fromkeys(name for each in sorted(some, key=len, reverse=True) for name in each))


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
        beside=whatever,
        laid_out=cards,
        of_each=cards_of_each,
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
        beside=whatever,
        pictures=drawn,
        opens=lambda keys: keys[0] == "crossings",
    ),
    ReportPart(
        "memory",
        "Memory over a training step",
        "memory {model} --train --timeline",
        "Each phase at its highest moment, and what is live then.",
        takes=OF_STEP,
        beside=lambda settings: bool(settings.get("train")),
        pictures=drawn,
        opens=lambda keys: keys[-1].endswith("bytes"),
        laid_out=beside_picture,
    ),
    ReportPart(
        "cache",
        "Cache over context",
        "sweep {model} --of cache --context {shortest}..{longest}:x2",
        "What one request keeps of the tokens that it has read.",
        beside=whatever,
        pictures=drawn,
        opens=lambda _: True,
    ),
    ReportPart(
        "serve",
        "Serving",
        "serve {model} --gpu {gpu}{fewest} --curve",
        "Requests at once share the weights that a step reads, so more tokens are made while each user waits longer. "
        "In the band lay four of five measured runs, each estimated without those of its own system.",
        beside=lambda settings: "gpu" in settings.given,
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
OF_ONE_STEP = ("memory", "overview")
"""Those that need the same steps of training: first the one that runs a step with formulas, then whoever knows it."""


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


class ReportModel(NamedTuple):
    """A model of a report: its ``name`` among several, and what was typed of it and of all."""

    name: str
    settings: Settings
    model: Model
    more: str = ""
    """An option for its training step that the comparison implies."""

    def given(self, name: str) -> str:
        """Option of the report as it was typed; empty if it was not."""
        given = self.settings.given.get(name)
        return as_option(given) if given and given.source == FLAG else ""


class ModelReport(Answer):
    """Answers of commands about one model, or about ``models`` that are ``compared``, on one page."""

    command = "report"
    about = "What the other commands answer about a model, as its report shows it."

    answers = records(MadeKeys, "the answers, each once", lambda report: tuple(report.made.values()))

    def __init__(self, settings: Settings, models: Sequence[ReportModel], compared: Comparison | None = None) -> None:
        self.settings, self.models, self.compared = settings, models, compared

    @cached_property
    def parts(self) -> dict[ReportPart, tuple[ReportModel, ...]]:
        """The sections that are asked for, and of which models."""
        found = {}
        for part in PARTS:
            asked = part.beside if self.compared else part.asked
            if models := tuple(one for one in self.models if asked(one.settings)):
                found[part] = models
        return found

    @cached_property
    def made(self) -> dict[str, AnsweredLine]:
        """The answers by their command lines. Raises what those raise that every model has."""
        first = [AnsweredLine(self.asked, self.compared)] if self.compared else []
        return {
            made.line: made for made in (*first, *(made for each in self._by_part.values() for made in each.values()))
        }

    @cached_property
    def _by_part(self) -> dict[str, dict[str, AnsweredLine]]:
        """The answers of each section, by the models that they are of."""
        from tfcalc.training.peaks import peaks_shared  # its answers load the tape, too

        by_line: dict[str, AnsweredLine] = {}
        found = dict[str, dict[str, AnsweredLine]]()
        named = {part.name: (part, models) for part, models in self.parts.items()}
        with peaks_shared():
            for name in filter(named.__contains__, OF_ONE_STEP):
                found[name] = self._answered(*named[name], by_line)
        for name in [name for name in named if name not in found]:
            found[name] = self._answered(*named[name], by_line)
        return {name: found[name] for name in named}

    def _answered(
        self, part: ReportPart, models: Sequence[ReportModel], by_line: dict[str, AnsweredLine]
    ) -> dict[str, AnsweredLine]:
        found: dict[str, list[str]] = {}
        for one in models:
            for words in filter(None, (part.words, part.otherwise)):
                line = self.line(part, words, one)
                made = by_line[line] = by_line.get(line) or self._made(line, one.settings)
                if not made.error:
                    break
            if part.always and made.error:
                raise made.error
            found.setdefault(made.line, []).append(one.name)
        return {" and ".join(names): by_line[line] for line, names in found.items()}

    def _made(self, line: str, settings: Settings) -> AnsweredLine:
        name, *words = shlex.split(line)[1:]
        asked = command(name).meant(words)
        try:
            given = settings_of(words, asked.options)
            answer = asked.answer(Settings(given.given, settings.named, given.path))
            answer.to_dict()  # first what finds most: then nothing is found twice
            answer.sheet()  # what is wrong is found when the answer is read
        except TfcalcError as error:
            return AnsweredLine(line, None, error)
        return AnsweredLine(line, answer)

    def line(self, part: ReportPart, words: str, of: ReportModel) -> str:
        """The command line of a section."""
        longest = of.model.longest
        longest = longest if isinstance(longest, int) else LONGEST
        batch = of.settings.get("batch_size", SEQUENCES)
        words = words.format(
            model=as_typed(of.settings),
            gpu=shlex.quote(of.settings.get("gpu", ONE_GPU)),
            fewest="" if "gpu" in of.settings.given else " --for gpus",
            shortest=short_tokens(min(SHORTEST, -(-longest // DOUBLINGS))),
            longest=short_tokens(longest),
            sequences=batch * gpus_of(of.settings),
        )
        units = of.settings.given.get("units")
        more = [*(of.given(name) for name in part.takes), units.words if units and units.source == FLAG else ""]
        more += [of.more] * (part.takes == OF_STEP)
        return " ".join(dict.fromkeys(("tfcalc", words, *filter(None, more))))

    @property
    def heading(self) -> str:
        """The model, or the names of several."""
        return self.compared.heading if self.compared else self.models[0].model.summary

    @property
    def asked(self) -> str:
        """The command that makes it again."""
        if self.compared:
            return as_asked(self.compared.command, self.settings)
        one, target = self.models[0], self.settings.get("output", f"report{HTML}")
        options = (one.given(option.name) for option in (*RUN, GPU, *UNITS))
        words = ("tfcalc report", as_typed(self.settings), *options, "-o", shlex.quote(str(target)))
        return " ".join(filter(None, words))

    @cached_property
    def sections(self) -> tuple[PageSection, ...]:
        """The sections, with their pictures and with what is behind their numbers; the last has what all assume."""
        found = [self._section(part) for part in self.parts]
        if self.compared:
            found.insert(0, section_of(self.compared, self.asked))
        return (*found, *filter(None, (assumptions(found),)))

    def _section(self, part: ReportPart) -> PageSection:
        answered = self._by_part[part.name]
        there = {called: made.answer for called, made in answered.items() if not made.error}
        if part.of_each and len(there) >= SEVERAL:
            line = "; ".join(answered[called].line for called in there)
            shown = [PageAnswer(line, part.of_each(there))]
            shown += [self._page_answer(part, made, called) for called, made in answered.items() if made.error]
        else:
            shown = [self._page_answer(part, made, called) for called, made in answered.items()]
        pictures = together(part.title, {called: tuple(part.pictures(one)) for called, one in there.items()})
        return PageSection(part.name, part.title, part.about, tuple(shown), tuple(pictures))

    def _page_answer(self, part: ReportPart, made: AnsweredLine, called: str) -> PageAnswer:
        if made.error:
            return PageAnswer(made.line, missing=f"Left out: {made.error}", called=called)
        sheet, answer = part.laid_out(made.answer), made.answer
        path = f"answers.{list(self.made).index(made.line)}.answer" if self.compared else answer.command
        keys = dict.fromkeys((*sheet.numbers().values(), *filter(part.opens, numbers(answer.to_dict()))))
        return PageAnswer(made.line, sheet, path, tuple(opened(path, answer, keys)), called=called)

    def page(self) -> WholePage:
        """The report as a page."""
        name = self.heading if self.compared else getattr(self.models[0].model, "name", "") or "Model"
        subtitle = "" if self.compared else self.heading
        return WholePage(name, subtitle, self.asked, __version__, self.sections, self.to_dict())

    def sheet(self) -> Sheet:
        """A row for each section: what it answers in a line."""
        return Sheet(
            title=f"{len(self.sections)} sections; -o report.html writes them as one page",
            subtitle=self.heading,
            columns=[Column("section", numeric=False), Column("answer", numeric=False, folds=True)],
            rows=[
                [section.title, one.sheet.title if one.sheet else one.missing]
                for section in self.sections
                for one in section.answers
            ],
            quiet=self.asked,
            see_also=("-o report.html", "-o report.md", "--json"),
        )


def together(title: str, drawn: Mapping[str, tuple[Picture, ...]]) -> Iterator[Picture]:
    """The pictures of one answer; those of several models in one, where that can be."""
    if len(drawn) < SEVERAL:
        yield from (picture for pictures in drawn.values() for picture in pictures)
        return
    for pictures in zip(*drawn.values(), strict=False):
        one = side_by_side(f"{title}: {', '.join(drawn)}", dict(zip(drawn, pictures, strict=True)))
        yield from pictures if one is None else (one,)


def deliver_compared(found: Comparison, settings: Settings) -> None:
    """Write a comparison as a page: below its table the sections of a report, each about all of the models."""
    asked = [beside(settings, own_settings(text)) for text in settings.get("models")]
    models = [
        ReportModel(name, each, each.model(), _length(each, run))
        for name, each, run in zip(found.names, asked, found.workloads, strict=True)
    ]
    deliver_page(ModelReport(settings, models, found).page(), settings)


def _length(settings: Settings, run: Workload) -> str:
    """The option for the length that the comparison implies, where the model's own is another one."""
    implied = "seq_len" not in settings.given and run.seq_len != default_run(settings.model()).seq_len
    return f"--seq {run.seq_len}" if implied else ""


def answer(settings: Settings) -> ModelReport:
    """The report of the model."""
    gpu = settings.get("gpu")
    if gpu is not None and not named(parse_gpu(gpu)[1]):
        raise UsageError(f"--gpu {quoted(gpu)} is not known", "tfcalc gpus lists them")
    return ModelReport(settings, (ReportModel("", settings, settings.model()),))


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
