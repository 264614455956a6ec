"""``tfcalc sweep``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, cast

from tfcalc.analysis.targets import TARGETS
from tfcalc.answers.plot import QUANTITIES as OF_PARTS
from tfcalc.answers.plot import PartsOverSize, plot
from tfcalc.answers.sweep import LARGEST_CHART, LARGEST_FILE, LARGEST_TABLE, LARGEST_TEXT, Swept
from tfcalc.arrays import WITHOUT_NUMPY
from tfcalc.arrays.parquet import parquet
from tfcalc.arrays.questions import SweepQuestion
from tfcalc.arrays.sweep import answered, asked
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.charts import CHART, deliver_chart
from tfcalc.cli.commands.plans import PLANS, Plans, plans_for
from tfcalc.cli.idle import refuse_idle_in_flops
from tfcalc.cli.options import (
    CONVENTIONS,
    COUNT,
    DTYPE,
    EDITS,
    MODEL_ARGUMENT,
    MODEL_FIELDS,
    MODEL_OPTIONS,
    RUN,
    SHOW,
    Option,
    keyed,
    spreading,
)
from tfcalc.cli.output import ascii_only, deliver, show
from tfcalc.cli.ranges import FORMS
from tfcalc.cli.settings import Settings, read
from tfcalc.errors import InvalidModel, Unavailable, UsageError, nearest
from tfcalc.printable import quoted
from tfcalc.render.as_json import pieces
from tfcalc.render.progress import progress_bar
from tfcalc.report.style import PICTURES

if TYPE_CHECKING:
    from tfcalc.arrays.table import Table
    from tfcalc.model import Model

QUANTITIES = {
    "params": "parameters",
    "trainable": "trainable parameters",
    "flops": "FLOPs",
    "memory": "bytes at rest, with --train at the peak of a step, with --serve in serving",
    "cache": "bytes of the caches in serving",
}
OF = Option(
    "of",
    ("--of",),
    "quantity; memory with --train or --serve is that [default: params; flops where a length or the batch is swept]",
    tuple(QUANTITIES),
    front=True,
)
OVER = Option(
    "over",
    ("--over",),
    "the size that grows, and its values: seq=1k..128k:x2, d_model=256,512,1024; the same as --seq 1k..128k:x2",
    front=True,
)
PARTS = Option(
    "parts",
    ("--parts",),
    f"comma-separated parts: {', '.join(TARGETS)}, or paths of the tree [default: attention and ffn or moe]",
    front=True,
)
SHARES = Option(
    "shares", ("--shares",), "the shares of the whole: in the chart, the table and JSON", switch=True, front=True
)
SIZES = (*MODEL_OPTIONS, *RUN, *PLANS)
PARQUET = ".parquet"
LONG = 50_000
"""Points from which on a progress bar is shown."""


SHORTEST, LONGEST = 128, 8192
"""Ends of the lengths that are charted where no size has several values; the model may say how long it reads."""


def answer(settings: Settings) -> Swept | PartsOverSize:
    """The quantity at each combination of the values; of parts of the model where these are asked for."""
    if settings.choose("parts", "shares"):
        settings.refuse((option.name for option in PLANS), "on parts of a model", {})
        return parts_over_size(settings)
    return _swept(settings)


def _swept(settings: Settings) -> Swept:
    if over := settings.get("over"):
        name, values = _over(settings, over)
        settings = without(settings, {"over": over}).with_values(**{name: tuple(values)})
    elif settings.get("chart") and not _several(settings) and settings.get("of", "flops") == "flops":
        settings = settings.with_values(seq_len=_lengths(settings, "no option has several values"))
    try:
        from tfcalc.arrays.points import grid
    except ImportError:
        raise Unavailable(*WITHOUT_NUMPY) from None
    one, spread = first_values(settings)
    count = prod(map(len, spread.values()))
    most, where = _most(settings)
    if count > most:
        remedy = f"at most {most:,}: give fewer sizes, or a step, as 1..3000:10{_larger(most, count)}"
        if most < count <= LARGEST_FILE:
            raise UsageError(f"{where} of {count:,} points is too {'long to read' if most < LONG else 'large'}", remedy)
        raise UsageError(f"{count:,} points are too many", remedy)
    of = one.get("of", "flops" if any(option.name in spread for option in RUN) else "params")
    if of == "cache":
        one = one.with_values(serve=True)
    model = without(settings, spread).model()
    plans, weights = _plans(one, of, model)
    run = one.workload(model) if of == "flops" else plans.workload
    question = asked(model, of, run, one.conventions(), plans.training, plans.serving, weights, one.workload)
    with progress_bar(count if count >= LONG else 0) as progress:
        table = answered(question, grid(spread), progress)
    conventions = {name: value for name, value in _conventions(question, table).items() if name not in spread}
    heading = f"{model.summary}; swept: {', '.join(spread)}"
    return Swept(table, model.described(), conventions, heading, settings.get("units", "iec"), question)


def parts_over_size(settings: Settings) -> PartsOverSize:
    """Parts of the model at each value of one size."""
    of = settings.get("of", "flops")
    if of not in OF_PARTS:
        raise UsageError(f"--of {of} is not counted by parts", f"add --of {', '.join(OF_PARTS)}")
    name, values = _one_size(settings)
    one = settings.with_values(**{name: values[0]})
    if of != "flops":
        settings.refuse((option.name for option in (*RUN, *COUNT)), f"on {of}", {}, "add --of flops, or leave it out")
    if of != "memory":
        settings.refuse((option.name for option in DTYPE), f"on {of}", {}, "add --of memory, or leave it out")
    if of == "flops":
        refuse_idle_in_flops(one, one.model(), everything=one.get("count") == "all")
    one.model()
    bare = without(one, {name: values})
    model = bare.model()
    parts = [part.strip() for part in settings.get("parts", "").split(",") if part.strip()]
    shares, run = settings.get("shares", False), bare.workload(model)
    try:
        return plot(model, name, values, parts, of, run, settings.conventions(), shares=shares, runs=bare.workload)
    except InvalidModel as error:
        raise UsageError(error.message, error.hint) from None


def _one_size(settings: Settings) -> tuple[str, Sequence[int]]:
    """The field of the one size that has several values, and these; of FLOPs the usual lengths where none has."""
    several, over = _several(settings), settings.get("over")
    called = [settings.given[name].called for name in several] + ["--over"] * bool(over)
    if len(called) > 1:
        raise UsageError(f"{' and '.join(called)} have several values", "a plot is over one size: leave the others out")
    if over:
        return _over(settings, over)
    if several:
        return next(iter(several.items()))
    if settings.get("of", "flops") != "flops":
        raise UsageError(NO_SIZE, "write --seq 1k..128k:x2, or --d-model 256..1024:256")
    return "seq_len", _lengths(settings, NO_SIZE)


NO_SIZE = "no size to plot over"


def _several(settings: Settings) -> dict[str, Sequence[int]]:
    """The values of each option that has several, by its field."""
    given = {name: one.value for name, one in settings.given.items() if isinstance(one.value, tuple | range)}
    return {name: cast("Sequence[int]", values) for name, values in given.items()}


def _over(settings: Settings, text: str) -> tuple[str, Sequence[int]]:
    """The size that --over names, and its values."""
    key, equals, spread = text.partition("=")
    known = keyed(option for option in (*MODEL_FIELDS, *EDITS, *RUN) if option.number)
    key = key.strip().removeprefix("--").replace("-", "_")
    if key not in known:
        raise UsageError(f"--over {quoted(key)} is not a size", nearest(key, known))
    if not (equals and spread):
        raise UsageError(f"--over {quoted(text)} has no values", "write --over seq=1k..128k:x2")
    if (given := settings.given.get(known[key].name)) is not None:
        raise UsageError(f"{given.called} and --over both give {key}", "leave one of them out")
    values = read(known[key]._replace(spreads=True), spread, f"--over {key}")
    return known[key].name, (values,) if isinstance(values, int) else cast("Sequence[int]", values)


def _lengths(settings: Settings, otherwise: str) -> tuple[int, ...]:
    """Doubled from SHORTEST to the longest that the model reads. Raises UsageError where a length was given."""
    if "seq_len" in settings.given:
        raise UsageError(otherwise, "write --seq 1k..128k:x2, or --d-model 256..1024:256")
    longest = settings.model().longest
    last = longest if isinstance(longest, int) else LONGEST
    values = [min(SHORTEST, last)]
    while values[-1] * 2 <= last:
        values.append(values[-1] * 2)
    return tuple(values)


def _conventions(question: SweepQuestion, table: Table) -> dict[str, object]:
    """Definitions that all points share: the workload need not be the same, where a model's context is swept."""
    ends = [int(place) for place in table.valid.nonzero()[0][[0, -1]]]
    at = [{name: int(column[end]) for name, column in table.columns.items() if name != table.key} for end in ends]
    first, last = (question.placed_at(sizes) for sizes in at)
    differ = {name for name, value in vars(first.workload).items() if vars(last.workload)[name] != value}
    return {name: value for name, value in first.question().report().conventions.items() if name not in differ}


def _most(settings: Settings) -> tuple[int, str]:
    """Return how many points the output can take, and which output takes no more; counted before any is computed."""
    target, form = str(settings.get("output", "")), settings.get("format", "table")
    if settings.get("chart") or target.endswith(PICTURES):
        return LARGEST_CHART, "a chart"
    if target.endswith(PARQUET):
        return LARGEST_FILE, f"a file of {PARQUET}"
    if form in ("csv", "json") and not settings.get("quiet"):
        return LARGEST_TEXT, f"a text of {form}"
    return LARGEST_TABLE, "a table"


def _larger(most: int, count: int) -> str:
    """Name a format that takes ``count`` points, where this one takes at most ``most`` and they are more."""
    if most < count <= LARGEST_TEXT:
        return "; or add --format csv, --json, or -o FILE.parquet"
    return "; or -o FILE.parquet" if count <= LARGEST_FILE else ""


def _plans(one: Settings, of: str, model: Model) -> tuple[Plans, str | None]:
    """The plan of training or serving that is asked for, and the format of the weights of a model at rest."""
    if of in ("memory", "cache"):
        asked = plans_for(one, "memory", model, one.workload(model))
        if of == "cache":
            one.refuse(("weights", "batched"), "on the cache", {}, "add --of memory, or leave it out")
        return asked, one.get("weights") if asked.at_rest else None
    return plans_for(one, of, model, one.workload(model)), None


def first_values(settings: Settings) -> tuple[Settings, dict[str, Sequence[int]]]:
    """The settings with the first value of each size that has several, and all values by the field's name.

    Raises UsageError where none has.
    """
    several = {
        option.name: settings.given[option.name].value
        for option in spreading(SIZES)
        if option.spreads and isinstance(settings.get(option.name), tuple | range)
    }
    if not several:
        raise UsageError("no option has several values", FORMS.replace("write ", "write --seq "))
    spread = {name: cast("Sequence[int]", values) for name, values in several.items()}
    given = {
        name: one._replace(value=spread[name][0]) if name in spread else one for name, one in settings.given.items()
    }
    short = {option.name for option in SIZES if option.short_for}
    return Settings(given, settings.named), {name: values for name, values in spread.items() if name not in short}


def without(settings: Settings, spread: Mapping[str, object]) -> Settings:
    """The settings without the sizes that are spread: each of those is a column."""
    kept = {name: given for name, given in settings.given.items() if name not in spread}
    return Settings(kept, settings.named)


def write_parts(answer: PartsOverSize, settings: Settings, *, always: bool) -> None:
    """Write the answer as a chart where one is asked for, or ``always``; else as any other answer."""
    if not deliver_chart(answer.chart, settings, always=always):
        if settings.get("quiet"):
            settings.refuse(("shares",), "with -q, which prints where parts cross", {})
        show(answer, settings)


def write(answer: Swept | PartsOverSize, settings: Settings) -> None:
    """Write the answer as a chart, as a file of columns, or as any other answer."""
    if isinstance(answer, PartsOverSize):
        write_parts(answer, settings, always=False)
        return
    if deliver_chart(answer.chart, settings):
        return
    target = str(settings.get("output", ""))
    if target.endswith(PARQUET):
        deliver(_alone(lambda: parquet(answer.table), settings, target), settings)
    elif settings.get("format") == "csv" and not settings.get("quiet"):
        deliver(answer.csv(), settings)
    elif settings.wants_json and not settings.get("quiet"):
        deliver(pieces(answer.to_dict(), ascii_only=ascii_only(settings)), settings)
    else:
        show(answer, settings)


def _alone(made: Callable[[], bytes], settings: Settings, target: str) -> bytes:
    settings.refuse(("format", "quiet"), f"with -o {target}", {})
    return made()


COMMAND = Command(
    answer,
    (MODEL_ARGUMENT, OF, OVER, PARTS, SHARES, CHART, *spreading((*MODEL_OPTIONS, *RUN, *PLANS)), *CONVENTIONS, *SHOW),
    (
        "tfcalc sweep llama-3-8b --of memory --train --seq 1k..128k:x2 --batch 1,2,4",
        "tfcalc sweep --d-model 256..1024:256 --layers 6,12",
        "tfcalc sweep gpt2 --of flops --seq 128..1024:128 --format csv",
        "tfcalc sweep llama-3-8b --of cache --context 8k,32k,128k --concurrency 1..4",
        "tfcalc sweep llama-3-8b --of params --lora 8,16,32 --json",
        "tfcalc sweep llama-3-8b --seq 1k..128k:x2 --parts attention,ffn",
    ),
    write=write,
)
