"""``tfcalc sweep``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, cast

from tfcalc.cli.commands import Command
from tfcalc.cli.commands.charts import CHART, deliver_chart
from tfcalc.cli.commands.plans import PLANS, Plans, memory_plans, plans_for
from tfcalc.cli.options import CONVENTIONS, MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW, Option, spreading
from tfcalc.cli.output import deliver, show
from tfcalc.cli.ranges import FORMS, MOST
from tfcalc.cli.settings import Settings
from tfcalc.errors import Unavailable, UsageError
from tfcalc.render.progress import progress_bar

if TYPE_CHECKING:
    from tfcalc.arrays.swept import Swept
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
)
SIZES = (*MODEL_OPTIONS, *RUN, *PLANS)
LONG = 50_000
"""Points from which on a progress bar is shown."""


def answer(settings: Settings) -> Swept:
    """The quantity at each combination of the values."""
    try:
        import tfcalc.arrays.swept as answers
    except ImportError:
        raise Unavailable("numpy is not installed", "pip install 'tfcalc[sweep]'") from None
    from tfcalc.arrays.sweep import answered, asked

    one, spread = first_values(settings)
    count = prod(map(len, spread.values()))
    if count > MOST:
        raise UsageError(f"{count:,} points are too many", f"sweep at most {MOST:,} at once")
    of = one.get("of", "flops" if any(option.name in spread for option in RUN) else "params")
    if of == "cache":
        one = one.with_values(serve=True)
    model = one.model()
    plans, weights = _plans(one, of, model)
    run = one.workload(model) if of == "flops" else plans.workload
    question = asked(model, of, run, one.conventions(), plans.training, plans.serving, weights)
    with progress_bar(count if count >= LONG else 0) as progress:
        table = answered(question, answers.grid(spread), progress)
    at = {name: int(column[table.valid.argmax()]) for name, column in table.columns.items() if name != table.key}
    conventions = {name: value for name, value in question.report_at(at).conventions.items() if name not in spread}
    bare = without(settings, spread).model()
    heading = f"{bare.summary}; swept: {', '.join(spread)}"
    return answers.Swept(table, bare.described(), conventions, heading, settings.get("units", "iec"), question)


def _plans(one: Settings, of: str, model: Model) -> tuple[Plans, str | None]:
    """What of training and serving is asked for, and the format of the weights of a model at rest."""
    if of in ("memory", "cache"):
        asked = memory_plans(one, model, one.workload(model))
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


def write(answer: Swept, settings: Settings) -> None:
    """As a chart, as a file of columns, or as any other answer."""
    if deliver_chart(answer.chart, settings):
        return
    target = str(settings.get("output", ""))
    if target.endswith(".parquet"):
        from tfcalc.arrays.parquet import parquet

        deliver(_alone(lambda: parquet(answer.table), settings, target), settings)
    elif settings.get("format") == "csv" and not settings.get("quiet"):
        deliver(answer.csv(), settings)
    else:
        show(answer, settings)


def _alone(made: Callable[[], bytes], settings: Settings, target: str) -> bytes:
    settings.refuse(("format", "quiet"), f"with -o {target}", {})
    return made()


COMMAND = Command(
    answer,
    (MODEL_ARGUMENT, OF, CHART, *spreading((*MODEL_OPTIONS, *RUN, *PLANS)), *CONVENTIONS, *SHOW),
    (
        "tfcalc sweep llama-3-8b --of memory --train --seq 1k..128k:x2 --batch 1,2,4",
        "tfcalc sweep --d-model 256..1024:256 --layers 6,12",
        "tfcalc sweep gpt2 --of flops --seq 128..1024:128 --format csv",
        "tfcalc sweep llama-3-8b --of cache --context 8k,32k,128k --concurrency 1..4",
        "tfcalc sweep llama-3-8b --of params --lora 8,16,32 --json",
    ),
    write=write,
)
