"""``tfcalc plot``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tfcalc.analysis.plot import QUANTITIES, PartsOverSize, plot
from tfcalc.analysis.targets import TARGETS
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.charts import deliver_chart
from tfcalc.cli.commands.sweep import without
from tfcalc.cli.idle import refuse_idle_in_flops
from tfcalc.cli.options import (
    CONVENTIONS,
    COUNT,
    DTYPE,
    MODEL_ARGUMENT,
    MODEL_FIELDS,
    MODEL_OPTIONS,
    RUN,
    SHOW,
    Option,
    keyed,
    spreading,
)
from tfcalc.cli.output import show
from tfcalc.cli.settings import Settings
from tfcalc.cli.values import read
from tfcalc.errors import InvalidModel, UsageError, nearest
from tfcalc.printable import quoted

OF = Option("of", ("--of",), "quantity; memory is that of the model at rest [default: flops]", tuple(QUANTITIES))
OVER = Option(
    "over",
    ("--over",),
    "the size that grows, and its values: seq=1k..128k:x2, d_model=256,512,1024; the same as --seq 1k..128k:x2",
)
PARTS = Option(
    "parts",
    ("--parts",),
    f"comma-separated parts: {', '.join(TARGETS)}, or paths of the tree [default: attention and ffn or moe]",
)
SHARES = Option("shares", ("--shares",), "the shares of the whole: in the chart, the table and JSON", switch=True)
FORM = "write --over seq=1k..128k:x2"


def answer(settings: Settings) -> PartsOverSize:
    """The parts at each value of one size."""
    name, values = _size(settings)
    one = settings.with_values(**{name: values[0]})
    of = settings.get("of", "flops")
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
    try:
        shares = settings.get("shares", False)
        return plot(model, name, values, parts, of, bare.workload(model), settings.conventions(), shares=shares)
    except InvalidModel as error:
        raise UsageError(error.message, error.hint) from None


def _size(settings: Settings) -> tuple[str, Sequence[int]]:
    """The field of the one size that has several values, and these."""
    several = [(name, given.value) for name, given in settings.given.items() if isinstance(given.value, tuple | range)]
    over = settings.get("over")
    called = [settings.given[name].called for name, _ in several] + ["--over"] * bool(over)
    if not called:
        raise UsageError("no size to plot over", "write --seq 1k..128k:x2, or --d-model 256..1024:256")
    if len(called) > 1:
        raise UsageError(f"{' and '.join(called)} have several values", "a plot is over one size: leave the others out")
    if not several:
        return _over(settings, over)
    [(name, values)] = several
    return name, cast("Sequence[int]", values)


def _over(settings: Settings, text: str) -> tuple[str, Sequence[int]]:
    """The size that --over names, and its values."""
    key, equals, spread = text.partition("=")
    known = keyed(option for option in (*MODEL_FIELDS, *RUN) if option.number)
    key = key.strip().removeprefix("--").replace("-", "_")
    if key not in known:
        raise UsageError(f"--over {quoted(key)} is not a size", nearest(key, known))
    if not (equals and spread):
        raise UsageError(f"--over {quoted(text)} has no values", FORM)
    if (given := settings.given.get(known[key].name)) is not None:
        raise UsageError(f"{given.called} and --over both give {key}", "leave one of them out")
    values = read(known[key]._replace(spreads=True), spread, f"--over {key}")
    return known[key].name, (values,) if isinstance(values, int) else cast("Sequence[int]", values)


def write(answer: PartsOverSize, settings: Settings) -> None:
    """A chart, where no other format is asked for."""
    drawn = settings.get("format", "table") == "table" and not settings.get("quiet")
    if not deliver_chart(answer.chart, settings, always=drawn):
        if settings.get("quiet"):
            settings.refuse(("shares",), "with -q, which prints where parts cross", {})
        show(answer, settings)


COMMAND = Command(
    answer,
    (MODEL_ARGUMENT, OF, OVER, PARTS, SHARES, *spreading((*MODEL_OPTIONS, *RUN)), *CONVENTIONS, *SHOW),
    (
        "tfcalc plot llama-3-8b --over seq=1k..1024k:x2 --parts attention,ffn",
        "tfcalc plot --kind encoder --seq 128..4096:x2 --format markdown",
        "tfcalc plot gpt2 --of params --over d_model=192..1536:x2 --json",
        "tfcalc plot mixtral-8x7b --over seq=1k..128k:x2 --shares",
    ),
    write=write,
)
