"""Runs of a server that somebody measured, read from rows of JSON, and what they say of an engine's rates.

Two constants are fitted: what the seconds of a token are to be multiplied with, and those of reading prompts. They
minimize the squares of log(estimate / measured), as those of a training step do (timing/calibration.py). A row is data:
what it names is looked up among the presets and the known GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tfcalc.errors import BadFile, InvalidModel, UsageError
from tfcalc.hardware import named
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import Serving
from tfcalc.printable import quoted
from tfcalc.timing.calibration import CLOSE, ONE_ALONE, ROUNDS, STEP, Fitted, best_step, parts
from tfcalc.timing.measured_runs import LeftOut, ModelOf, Row, RowKey, check_row
from tfcalc.timing.served import OWN, WIDENED, Load, ServedModel
from tfcalc.timing.serving import ServingBand, Sharing, operators_of

if TYPE_CHECKING:
    from tfcalc.timing.serving import EngineRates

MODES = ("served", "static")
KEYS = {
    "model": RowKey("text", "a preset [the model that is asked about]"),
    "config": RowKey("object", "the model as its config.json"),
    "gpu": RowKey("text", "the GPU, such as H100-SXM [the one that is asked about]"),
    "engine": RowKey("text", "the engine [the one that is asked about]"),
    "engine_version": RowKey("text", "its version"),
    "tp": RowKey("count", "tensor parallelism [1]"),
    "pp": RowKey("count", "pipeline stages [1]"),
    "dp": RowKey("count", "groups with requests of their own that share experts [1]"),
    "ep": RowKey("count", "groups of GPUs that share the experts [1]"),
    "weights": RowKey("text", "number format of the weights [the checkpoint's]"),
    "kv": RowKey("text", "number format of the cache [by the engine]"),
    "mode": RowKey("text", f"{' or '.join(MODES)}, which is one batch [served]"),
    "isl": RowKey("count", "tokens of a prompt"),
    "osl": RowKey("count", "tokens of an answer"),
    "concurrency": RowKey("count", "requests at once"),
    "tpot_ms": RowKey("number", "milliseconds of a token after the first"),
    "ttft_ms": RowKey("number", "milliseconds to the first token"),
}
"""What is read of a row, with the default in brackets."""
REMARKS = {"id", "unit", "source", "ref", "date", "name", "note", "n_gpus"}
"""Further keys, about what is not fitted."""
NEEDED = ("isl", "osl", "concurrency")
CONSTANTS = ("tokens", "prompts")


class ServedRun(NamedTuple):
    """A run: the served model, requests at once, seconds of a token and to the first one, where they were measured."""

    name: str
    of: ServedModel
    requests: int
    token: float | None
    first: float | None

    @property
    def measured(self) -> list[tuple[bool, float]]:
        """Seconds that were measured, each with whether it is of the first token."""
        both = ((False, self.token), (True, self.first))
        return [(first, seconds) for first, seconds in both if seconds is not None]

    @property
    def impossible(self) -> str:
        """Say why it cannot be, or cannot be estimated; nothing where it can."""
        if self.of.reads_source:
            return "a run of an encoder with a decoder"
        for first, seconds in self.measured:
            if seconds < (least := self.floor(first=first)):
                name = "ttft_ms" if first else "tpot_ms"
                return f"faster than is possible ({name} {1000 * seconds:.3g}, at least {1000 * least:.3g})"
        return ""

    def floor(self, *, first: bool) -> float:
        """Seconds that a token, or the first one, is never below."""
        of = self.of
        return float((of.floor_of_prompt(self.requests) if first else of.floor_of_token(self.requests)).seconds)

    def seconds(self, by: EngineRates, *, first: bool) -> float:
        """Seconds by these rates, and never below the floor."""
        of = self.of
        found = of.first_token(self.requests, by) if first else of.parts(self.requests, by).seconds
        return float(max(found, self.floor(first=first)))


class ServedRuns(NamedTuple):
    """Runs of an engine, and the rows that are none."""

    runs: Sequence[ServedRun]
    unused: Sequence[LeftOut] = ()

    def changing(self, by: EngineRates) -> OwnRates:
        """Return the engine's rates with what these runs say."""
        return OwnRates(self, by)


def read_served(rows: Iterable[tuple[str, Row]], model_of: ModelOf, *, gpu: str, engine: str) -> ServedRuns:
    """Return the runs of an engine, and what is left out and why. Raises BadFile for what no row can say."""
    found: list[ServedRun] = []
    left_out: list[LeftOut] = []
    for place, row in rows:
        check_row(row, place, KEYS)
        other = row.get("engine") or engine
        if other.lower().partition("@")[0] != engine.lower().partition("@")[0]:
            left_out.append(LeftOut(place, f"a run of {quoted(other)}"))
        elif row.get("tpot_ms") is None and row.get("ttft_ms") is None:
            left_out.append(LeftOut(place, "neither tpot_ms nor ttft_ms"))
        else:
            run = _run(row, place, model_of, gpu, engine)
            if why := run.impossible:
                left_out.append(LeftOut(place, why))
            else:
                found.append(run)
    return ServedRuns(found, left_out)


def _run(row: Row, place: str, model_of: ModelOf, gpu: str, engine: str) -> ServedRun:
    for name in NEEDED:
        if row.get(name) is None:
            raise BadFile(f"{place} has no {name}", f"say {KEYS[name].meaning}")
    mode = row.get("mode") or MODES[0]
    if mode not in MODES:
        raise BadFile(f"{place}: mode {quoted(mode)} is not known", f"it is {KEYS['mode'].meaning}")
    sharing = Sharing(*(int(row.get(name) or 1) for name in Sharing._fields))
    load = Load(int(row["isl"]), int(row["osl"]), int(row["concurrency"]), static=mode == MODES[1])
    version = row.get("engine_version")
    asked = f"{engine.partition('@')[0]}@{version}" if version else engine
    try:
        plan = Serving(weights=row.get("weights") or "", kv=row.get("kv") or "auto")
        card = named(row.get("gpu") or gpu)[0]
        of = ServedModel(model_of(row, place), plan, sharing, card, load, asked)
        holds = of.holds
    except (InvalidModel, UsageError) as error:
        raise BadFile(f"{place}: {error.message}", error.hint) from None
    if not holds or operators_of(card) is None:
        why = "does not fit on" if not holds else "ran on a GPU of which no operators were measured:"
        raise BadFile(f"{place} {why} {card.name}", "leave it out")
    times = (None if row.get(name) is None else row[name] / 1000 for name in ("tpot_ms", "ttft_ms"))
    return ServedRun(place, of, load.concurrency, *times)


class OwnRates:
    """Rates of an engine, with the constants that runs say, and how far runs are off that were left out."""

    def __init__(self, measured: ServedRuns, by: EngineRates) -> None:
        self.runs, self.unused, self.by = measured.runs, measured.unused, by
        self.names = [name for name, first in zip(CONSTANTS, (False, True), strict=True) if self._says(first=first)]

    def _says(self, *, first: bool) -> bool:
        return any(kind is first for run in self.runs for kind, _ in run.measured)

    def with_factors(self, factors: dict[str, float]) -> EngineRates:
        """Return the rates with these logarithms of constants."""
        tokens, prompts = (math.exp(factors.get(name, 0.0)) for name in CONSTANTS)
        return self.by._replace(of_tokens=tokens, of_prompts=prompts)

    def _residuals(self, factors: dict[str, float], places: Iterable[int]) -> list[float]:
        by = self.with_factors(factors)
        return [
            math.log(self.runs[place].seconds(by, first=first) / seconds)
            for place in places
            for first, seconds in self.runs[place].measured
        ]

    def _linear(self, factors: dict[str, float], places: Sequence[int]) -> Fitted:
        at = {name: factors.get(name, 0.0) for name in self.names}
        here = self._residuals(at, places)
        moved = [self._residuals({**at, name: at[name] + STEP}, places) for name in self.names]
        slopes = [[(there[row] - one) / STEP for there in moved] for row, one in enumerate(here)]
        return Fitted(at, here, slopes)

    def fitted(self, places: Sequence[int]) -> dict[str, float]:
        """Return the logarithms of the constants, by some of the runs."""
        found = self._linear({}, places)
        for _ in range(ROUNDS):
            step = best_step(found, self.names, range(len(found.residuals)))
            found = self._linear(
                {name: found.factors[name] + change for name, change in zip(self.names, step, strict=True)}, places
            )
            if max(map(abs, step), default=0.0) < CLOSE:
                break
        return found.factors

    @cached_property
    def factors(self) -> dict[str, float]:
        """The constants, by all runs."""
        return {name: math.exp(value) for name, value in self.fitted(range(len(self.runs))).items()}

    @cached_property
    def rates(self) -> EngineRates:
        """The engine's rates with them."""
        return self.with_factors({name: math.log(value) for name, value in self.factors.items()})

    @cached_property
    def left_out(self) -> dict[bool, list[float]]:
        """Measured over estimated of a token, and of the first one: each run by constants of the others."""
        every = range(len(self.runs))
        found: dict[bool, list[float]] = {False: [], True: []}
        for part in parts(len(self.runs)):
            others = [place for place in every if place not in part]
            by = self.with_factors(self.fitted(others) if others else {})
            for place in part:
                for first, seconds in self.runs[place].measured:
                    found[first].append(seconds / self.runs[place].seconds(by, first=first))
        return found

    def band(self, known: ServingBand, *, first: bool) -> ServingBand:
        """Return the band by runs left out; with fewer than four of them, the one that is known, widened by them."""
        ratios = sorted(self.left_out[first])
        if not ratios:
            return known
        low, high = ratios[len(ratios) // 10], ratios[9 * len(ratios) // 10]
        kind = OWN
        if len(ratios) < ONE_ALONE:
            kind, low, high = WIDENED, min(low, known.low), max(high, known.high)
        return ServingBand(kind, min(low, 1.0), max(high, 1.0), len(ratios), 1)

    def errors(self, estimate: Callable[[ServedRun, bool], float]) -> list[float]:
        """Return |estimate / measured - 1| of all that was measured."""
        return [abs(estimate(run, first) / seconds - 1) for run in self.runs for first, seconds in run.measured]
