"""Public measurements (tests/oracle) as questions that any calculator can be asked, with what was measured."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import tfcalc
from benchmarks.beside_aiconfigurator import question as question_of_aiconfigurator
from tests import planning_runs, real_runs, serving_runs
from tests.conftest import recorded
from tfcalc import Workload
from tfcalc.answers.flops import flops
from tfcalc.catalog import config_of
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import params
from tfcalc.errors import TfcalcError

PARAMS, FLOPS, MEMORY, TOKEN, FIRST, STEP = "params", "flops", "memory", "token", "first token", "step"
KINDS = {
    PARAMS: "parameters, as transformers builds the model",
    FLOPS: "FLOPs of a forward pass, as PyTorch counts them",
    MEMORY: "memory of a training step on one GPU",
    TOKEN: "time of a served token",
    FIRST: "time to the first served token",
    STEP: "time of a training step on several GPUs",
}
"""What is measured, in the order of the page."""
EVERY = {FLOPS: 3, TOKEN: 5, FIRST: 5}
"""Of that many rows one is asked, always the first of them; of other kinds all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A measurement: what was found (FLOPs, bytes, milliseconds, seconds), of which kind, and where it is from.

    ``row`` is the recorded row; ``card``, ``engine`` and ``version`` are empty where nothing ran on hardware.
    """

    id: str
    kind: str
    measured: float
    family: str
    card: str = ""
    engine: str = ""
    version: str = ""
    source: str
    row: Mapping[str, Any]


@cache
def points() -> Mapping[str, Point]:
    """All measurements by their names."""
    found = (*_params(), *_flops(), *_memory(), *_served(), *_steps())
    return {point.id: point for point in found}


def _params() -> Iterator[Point]:
    for row in recorded("params.public.jsonl"):
        yield Point(
            id=f"params:{row['model']}",
            kind=PARAMS,
            measured=row["total_params"],
            family=row["model_type"],
            source="transformers 5.23.0",
            row=row,
        )


@cache
def _zoo() -> Mapping[str, Mapping[str, Any]]:
    text = (real_runs.TOP / "tests" / "oracle" / "zoo.models.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def _flops() -> Iterator[Point]:
    for row in islice(recorded("zoo.public.jsonl"), 0, None, EVERY[FLOPS]):
        config = _zoo()[row["model"]]
        yield Point(
            id=f"flops:{row['model']}:{row['attention']}:{row['batch']}x{row['seq']}",
            kind=FLOPS,
            measured=row["forward_flops"],
            family=str(config["model_type"]),
            source="PyTorch 2.13.0, FlopCounterMode",
            row={**row, "config": config},
        )


def _memory() -> Iterator[Point]:
    for name in ("real-runs", "h100"):
        for place, row in enumerate(recorded(f"memory/{name}.jsonl")):
            if row.get("less") or not row.get("arguments"):
                continue  # a difference of two peaks; settings that the source does not tell
            run = real_runs.run_of(row)
            config = _config(run.arguments[1])
            yield Point(
                id=f"memory:{name}:{place}",
                kind=MEMORY,
                measured=run.bytes,
                family=str(config["model_type"]),
                card=run.card,
                engine=run.group,
                source=run.source,
                row={"asked": _options(run.arguments), "quantity": run.quantity, "config": config, "row": row},
            )


def _config(name: str) -> Mapping[str, Any]:
    """The fields of a config.json: a preset's, or those of a file of the tests."""
    if name.startswith("tests/"):
        return dict(json.loads((real_runs.TOP / name).read_text(encoding="utf-8")))
    return config_of(name)


def _options(words: tuple[str, ...]) -> dict[str, str]:
    """Return options with their values; of a switch the empty text.

    >>> _options(("memory", "gpt2", "--train", "--batch", "2"))
    {'train': '', 'batch': '2'}
    """
    found, name = dict[str, str](), ""
    for word in words[2:]:
        if word.startswith("--"):
            found[name := word.removeprefix("--")] = ""
        else:
            found[name] = word
    return found


def _served() -> Iterator[Point]:
    asked = [row for row in serving_runs.rows() if row["mode"] in serving_runs.SERVED and not row["suspect"]]
    for row in asked[:: EVERY[TOKEN]]:
        for kind, name in ((TOKEN, "tpot_ms"), (FIRST, "ttft_ms")):
            if not row[name]:
                continue
            yield Point(
                id=f"{row['id']}:{name}",
                kind=kind,
                measured=float(row[name]),
                family=str(_served_config(row["model"])["model_type"]),
                card=row["gpu"],
                engine=row["engine"],
                version=row["version"],
                source=row["source"],
                row=row,
            )


@cache
def _served_config(name: str) -> Mapping[str, Any]:
    return serving_runs.MINIMAX if name == "minimax-m2.5" else config_of(name)


def _steps() -> Iterator[Point]:
    for row in planning_runs.rows():
        if "micro_batch" not in row or "step_time_s" not in row:
            continue
        yield Point(
            id=f"step:{row['id']}",
            kind=STEP,
            measured=row["step_time_s"],
            family="mixture of experts" if row["arch"]["E"] else "dense",
            card=row["gpu"],
            engine=row["framework"],
            source=row["unit"],
            row=row,
        )


# --- questions

FEWER = {"aiconfigurator": 5}
"""Peers that take long: of so many runs they are asked about one, always the first of them."""


def asked_of(peer: str, kinds: Container[str]) -> list[Point]:
    """The measurements of these kinds that a peer is asked about: all, or, of those that take long, every few runs."""
    found = [point for point in points().values() if point.kind in kinds]
    if peer not in FEWER:
        return found
    runs = set([*dict.fromkeys(point.id.partition(":")[0] for point in found)][:: FEWER[peer]])
    return [point for point in found if point.id.partition(":")[0] in runs]


def question(point: Point, peer: str) -> Mapping[str, Any]:
    """What a peer is asked: the facts of the measurement, none of tfcalc's."""
    row = point.row
    common = {"id": point.id, "kind": point.kind}
    match point.kind:
        case "params":
            return {**common, "config": row["config"], "architecture": row["architecture"]}
        case "flops":
            sizes = {name: row[name] for name in ("batch", "seq", "target_seq", "attention") if name in row}
            return {**common, "config": row["config"], "architecture": row["config"]["architectures"][0], **sizes}
        case "memory":
            facts = {name: row[name] for name in ("asked", "quantity", "config")}
            return {
                **common,
                **facts,
                "card": point.card,
                "archive": point.engine,
                "params": _published(json.dumps(row["config"])),
            }
        case "step":
            return {**common, "row": row}
    if peer == "aiconfigurator":
        known = question_of_aiconfigurator(row)
        return {**common, "asked": known and known["asked"], "version": row["version"]}
    return {**common, "row": row, "config": _served_config(row["model"])}


@cache
def _published(config: str) -> int:
    """How many parameters the model's files have, which peers look up; these are equal to transformers' own."""
    return int(str(HFModel(json.loads(config)).tree(Workload()).total(params)))


# --- tfcalc's answers


def answer(point: Point) -> Any:
    """What tfcalc says, a number. Raises TfcalcError where it says nothing."""
    row = point.row
    match point.kind:
        case "params":
            return HFModel(row["config"]).tree(Workload()).total(params)
        case "flops":
            target = row.get("target_seq")
            source = row["seq"] if target else None
            kernel = next(iter(row["kernels_run"])) if row["kernels_run"] else str(row["attention"])
            run = Workload(
                batch_size=row["batch"],
                seq_len=target or row["seq"],
                source_len=source,
                kernel=kernel,
                convolutions="counter",
            )
            return flops(HFModel(row["config"]), run).totals["forward_flops"]
        case "memory":
            found = real_runs.compared(real_runs.run_of(row["row"]))
            if found.predicted is None:
                raise TfcalcError(found.why_not)
            return found.predicted
        case "step":
            return _step(row)
    run_of = serving_runs.run_of(row)
    if run_of is None:
        raise TfcalcError("no such GPU, engine or layout here")
    if not run_of.linked:
        raise TfcalcError("GPUs that are joined by PCIe alone are not estimated")
    return 1000 * run_of.guess(first=point.kind == FIRST).value


def _step(row: Mapping[str, Any]) -> float:
    if row["gpu"] not in planning_runs.CARDS:
        raise TfcalcError(f"{row['gpu']} is not modelled")
    if reason := planning_runs.impossible(row):
        raise TfcalcError(reason)
    return float(planning_runs.parts(row).seconds)


def version() -> str:
    """Of tfcalc."""
    return tfcalc.__version__
