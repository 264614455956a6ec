"""``tfcalc plot``: ``tfcalc sweep --parts attention,ffn --chart``, which follows parts of a model over one size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.answers.plot import QUANTITIES
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.sweep import OVER, PARTS, SHARES, parts_over_size, write_parts
from tfcalc.cli.options import CONVENTIONS, MODEL_ARGUMENT, MODEL_OPTIONS, RUN, SHOW, Option, spreading

if TYPE_CHECKING:
    from tfcalc.answers.plot import PartsOverSize
    from tfcalc.cli.settings import Settings

OF = Option(
    "of", ("--of",), "quantity; memory is that of the model at rest [default: flops]", tuple(QUANTITIES), front=True
)


def write(answer: PartsOverSize, settings: Settings) -> None:
    """A chart, where no other format is asked for."""
    drawn = settings.get("format", "table") == "table" and not settings.get("quiet")
    write_parts(answer, settings, always=drawn)


COMMAND = Command(
    parts_over_size,
    (MODEL_ARGUMENT, OF, OVER, PARTS, SHARES, *spreading((*MODEL_OPTIONS, *RUN)), *CONVENTIONS, *SHOW),
    (
        "tfcalc plot llama-3-8b --over seq=1k..1024k:x2 --parts attention,ffn",
        "tfcalc plot --kind encoder --seq 128..4096:x2 --format markdown",
        "tfcalc plot gpt2 --of params --over d_model=192..1536:x2 --json",
        "tfcalc plot mixtral-8x7b --over seq=1k..128k:x2 --shares",
    ),
    write=write,
)
