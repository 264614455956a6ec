"""Published measurements of serving (tests/oracle/serving/runs.csv), as models on GPUs and loads."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path

import tfcalc
from tfcalc.answers.serve_case import ServeCase
from tfcalc.answers.serve_question import ServeQuestion
from tfcalc.errors import TfcalcError
from tfcalc.hardware import Accelerator, accelerators
from tfcalc.model import Model
from tfcalc.plans import Serving
from tfcalc.timing.served import Guess, Load, ServedModel
from tfcalc.timing.serving import EngineRates, Sharing, engine_of

FILE = Path(__file__).parent / "oracle" / "serving" / "runs.csv"
OFFLINE = FILE.with_name("offline.csv")
CARDS = {
    "GH200-144": "GH200-141",
    "RTX-3080": "RTX-3080-10",
    "RTX-3080Ti": "RTX-3080-Ti",
    "RTX-3090Ti": "RTX-3090-Ti",
    "RTX-4070Ti": "RTX-4070-Ti",
}
"""Names in hardware.csv, where they differ."""
WEIGHTS = {"fp8_block": "fp8-block", "mxfp4-experts": "", "int4-experts": ""}
"""Names of formats; the checkpoint's own is empty."""
KV = {"unknown": "auto"}
"""Formats of the cache; where it is unknown, what the engine does by itself."""
OWN = {("deepseek-r1", "fp8"), ("minimax-m2.5", "fp8")}
MINIMAX = {
    "model_type": "minimax_m2",
    "hidden_size": 3072,
    "num_hidden_layers": 62,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_local_experts": 256,
    "num_experts_per_tok": 8,
    "intermediate_size": 1536,
    "vocab_size": 200064,
    "max_position_embeddings": 196608,
    "rotary_dim": 64,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
}
"""Fields of the published config.json of MiniMax-M2.5."""
SERVED = ("served", "static", "llama-bench-tg")
OFFLINE_ENGINE = "tensorrt-llm@1.1"
"""Engine of offline runs: their logs name TensorRT alone, of 2025."""
ALL_AT_ONCE = 100_000
"""Requests of an offline run, all of which are there from the beginning: any number of more than run says the same."""
FEWEST = 8
"""Requests that a group of GPUs is to hold, so that it is one that somebody would serve with."""


class Run:
    """A measurement: seconds of a token and to the first one, where they were measured."""

    def __init__(self, row: Mapping[str, str], model: ServedModel, token: float | None, first: float | None) -> None:
        self.row, self.model, self.token, self.first = row, model, token, first
        self.requests = max(1, round(float(row["requests"])))
        """Requests at once."""

    @cached_property
    def floor_of_token(self) -> float:
        """Seconds that no token is below."""
        return float(self.model.floor_of_token(self.requests).seconds)

    @cached_property
    def floor_of_first(self) -> float:
        """Seconds that no first token is below."""
        return float(self.model.floor_of_prompt(self.requests).seconds)

    @property
    def engine(self) -> str:
        """Engine, with its version."""
        return engine_of_row(self.row)

    @property
    def by(self) -> EngineRates:
        """Rates of its engine."""
        found = engine_of(self.engine, self.model.card)
        assert found is not None
        return found

    @property
    def runs_known(self) -> bool:
        """Return whether it is known how many of its requests ran at once.

        It is not where more were there than the cache holds, and nobody says in which format it was: what quantizes
        weights may quantize the cache. Of weights in 16 bits it is that of the engine's default, which follows them.
        """
        return self.row["kv"] != "unknown" or self.requests <= self.model.running(self.requests)

    @property
    def linked(self) -> bool:
        """Return whether its GPUs are one, or joined by more than PCIe."""
        return self.model.machine.joins(self.model.talking)

    def guess(self, *, first: bool) -> Guess:
        """Estimate of a token, or of the first one, with its band."""
        return self.model.guess(self.requests, self.by, self.model.band(first=first), first=first)

    @cached_property
    def kind(self) -> str:
        """Class of runs whose band is learned together."""
        return self.model.band(first=False).kind


def engine_of_row(row: Mapping[str, str]) -> str:
    """Engine of a row, with its version."""
    return f"{row['engine']}@{row['version']}" if row["version"] else row["engine"]


@cache
def rows() -> tuple[Mapping[str, str], ...]:
    """The measurements, one after another."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


@cache
def model(name: str) -> Model:
    """The model of a row."""
    return tfcalc.from_config(MINIMAX) if name == "minimax-m2.5" else tfcalc.load(name)


@cache
def cards() -> Mapping[str, Accelerator]:
    """GPUs by their names."""
    return {card.name: card for card in accelerators()}


def run_of(row: Mapping[str, str]) -> Run | None:
    """The measurement as a model on GPUs; None where the GPU, the engine or the layout is not known here."""
    card = cards().get(CARDS.get(row["gpu"], row["gpu"]))
    if card is None or engine_of(row["engine"], card) is None or row["mode"] not in SERVED:
        return None
    weights = "" if (row["model"], row["weights"]) in OWN else WEIGHTS.get(row["weights"], row["weights"])
    sharing = Sharing(*(int(row[name]) for name in Sharing._fields))
    prompt, answer = max(1, int(row["input"])), int(row["output"]) or 1024
    static = row["mode"] == "static"
    load = Load(prompt, answer, max(1, round(float(row["requests"]))), static=static)
    try:
        plan, engine = Serving(weights=weights, kv=KV.get(row["kv"], row["kv"])), engine_of_row(row)
        found = ServedModel(model(row["model"]), plan, sharing, card, load, engine)
        if found.machine.operators is None:
            return None
        assert found.weights
    except TfcalcError:
        return None
    times = (float(row[name]) / 1000 if row[name] else None for name in ("tpot_ms", "ttft_ms"))
    return Run(row, found, *times)


class Offline:
    """Tokens per second of a whole system that has all requests from the beginning, so that it is always full.

    Logs do not say formats and layout: they are 4 bits on Blackwell and fp8 else, and groups of the fewest GPUs that
    hold a few requests. Nothing was fitted to these runs.
    """

    def __init__(self, row: Mapping[str, str]) -> None:
        self.row, self.card = row, cards()[row["gpu"]]
        self.measured = float(row["tokens_per_second"])

    def _on(self, tp: int) -> ServeCase:
        weights = "nvfp4" if "fp4" in self.card.peaks else "fp8"
        load = Load(int(self.row["input"]), int(self.row["output"]), ALL_AT_ONCE)
        plan, gpus = Serving(weights=weights, kv="fp8"), int(self.row["gpus"])
        of = model(self.row["model"])
        return ServeCase(ServeQuestion(of, plan, self.card, gpus, Sharing(tp), load, OFFLINE_ENGINE))

    @property
    def estimate(self) -> float:
        """Tokens per second that ``serve`` prints where all requests are there."""
        found = map(self._on, (1, 2, 4, 8))
        return float(next(one for one in found if one.of.holds and one.of.at_work >= FEWEST).at.rate.value)


@cache
def offline() -> tuple[Offline, ...]:
    """Systems that were measured so."""
    with OFFLINE.open(encoding="utf-8", newline="") as file:
        return tuple(map(Offline, csv.DictReader(file)))
