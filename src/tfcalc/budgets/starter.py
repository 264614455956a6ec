"""First file of budgets: the models of a folder, and limits a little above today's values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from tfcalc.answers.metrics import HEADLINES
from tfcalc.budgets.keys import VERSION
from tfcalc.named_tuple import NamedTuple
from tfcalc.units import grouped, short_bytes

if TYPE_CHECKING:
    from tfcalc.budgets.file import ModelEntry

COUNTS = (("", 1), ("k", 10**3), ("M", 10**6), ("B", 10**9), ("T", 10**12), ("P", 10**15))
BYTES = (("B", 1), ("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30), ("TiB", 2**40), ("PiB", 2**50))
HEAD = """\
# Capacity budgets: "tfcalc budget" holds them against the models as they are, and exits with 1 over budget.
# Each max is a round number above today's value. Set it to what you can afford, and write why.
# Other limits: min, equals, max_increase = "10%"; beside one limit, warn. See tfcalc schema file.
"""


class Started(NamedTuple):
    """Scenario of the first file: its ``options``, their meaning, and further options as comments."""

    options: dict[str, object]
    comes_to: str
    more: tuple[str, ...]


SCENARIOS = {
    "train": Started(
        {"train": True},
        "a step on one sequence of 512 tokens, in the checkpoint's number format, with AdamW",
        ("batch = 8", 'seq = "4k"', 'precision = "bf16-mixed"', 'gpu = "h100"'),
    ),
    "serve": Started(
        {"serve": True},
        "one request as long as the config says the model reads, else 512 tokens, in the checkpoint's number format",
        ('context = "8k"', "concurrency = 16", 'weights = "int4"'),
    ),
}
METRICS = (
    (HEADLINES["params"].path, None),
    (HEADLINES["peak"].path, "train"),
    (HEADLINES["cache"].path, "serve"),
)
"""Metrics that get a limit, with their scenario."""
FEW_MODELS = '# No config.json was found here: this is a preset. Write config = "PATH" for a model of your own.'


class StarterValue(NamedTuple):
    """Value of a metric today; in bytes where its key says so."""

    metric: str
    scenario: str | None
    value: int

    @property
    def limit(self) -> str:
        """Round number above the value."""
        return above(self.value, BYTES if self.in_bytes else COUNTS)

    @property
    def in_bytes(self) -> bool:
        """Return whether the metric counts bytes, by its key."""
        return self.metric.endswith("_bytes")

    @property
    def today(self) -> str:
        """Value as people read it, and in all digits."""
        exact = grouped(self.value)
        return f"{short_bytes(self.value)} ({exact} bytes)" if self.in_bytes else exact


class Modelled(NamedTuple):
    """A model of the file, and what it takes today."""

    entry: ModelEntry
    values: tuple[StarterValue, ...]


def starter(models: Sequence[Modelled], left_out: Iterable[str] = ()) -> str:
    """The text of the file; what was ``left_out`` is told in comments."""
    used = {value.scenario for model in models for value in model.values}
    parts = [
        f"{HEAD}version = {VERSION}\n",
        *(_model(model.entry) for model in models),
        "".join(f"# {line}\n" for line in left_out),
        *(_scenario(name, one) for name, one in SCENARIOS.items() if name in used),
        *(_budget(model.entry.name, value) for model in models for value in model.values),
    ]
    return "\n".join(part for part in parts if part)


def _model(entry: ModelEntry) -> str:
    if entry.config is None:
        return f'{FEW_MODELS}\n[models.{entry.name}]\npreset = "{entry.preset}"\n'
    return f"[models.{entry.name}]\nconfig = {json.dumps(entry.config, ensure_ascii=False)}\n"


def _scenario(name: str, one: Started) -> str:
    given = [f"{key} = {json.dumps(value)}" for key, value in one.options.items()]
    return "\n".join(
        [f"[scenarios.{name}]", f"{given[0]} # {one.comes_to}", *given[1:], *(f"# {line}" for line in one.more), ""]
    )


def _budget(name: str, value: StarterValue) -> str:
    return "\n".join(_lines(name, value)) + "\n"


def _lines(name: str, value: StarterValue) -> Iterator[str]:
    yield "[[budget]]"
    yield f'model = "{name}"'
    if value.scenario:
        yield f'scenario = "{value.scenario}"'
    yield f'metric = "{value.metric}"'
    yield f'max = "{value.limit}" # today {value.today}'
    yield 'why = ""'


def above(value: int, scales: Sequence[tuple[str, int]]) -> str:
    """The next number of two figures that is not below ``value``, with its unit.

    >>> above(124_439_808, COUNTS), above(8_030_261_248, COUNTS), above(1020 * 2**20, BYTES), above(7, COUNTS)
    ('130M', '8.1B', '1GiB', '7')
    """
    for unit, scale in reversed(scales):
        steps = ceil(Fraction(value * 100, scale))
        if steps < 100 and scale > 1:
            continue
        step = next(10**power for power in range(40) if ceil(Fraction(steps, 10**power)) < 100 or power == 39)
        rounded = Fraction(-(-steps // step) * step, 100)
        return f"{int(rounded)}{unit}" if rounded.denominator == 1 else f"{float(rounded):g}{unit}"
    return str(value)
