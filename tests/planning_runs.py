"""Published training runs (tests/oracle/planning/runs.jsonl), as models, layouts and machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import tfcalc
from tfcalc.hardware import Accelerator, named
from tfcalc.timing.measured_runs import Unusable, config_of, layout_of, stack_of
from tfcalc.timing.rates import Machine, machine_of, rates_of
from tfcalc.timing.step import Layouts, StepParts, StepTime
from tfcalc.timing.work import ModelWork, work_of

Row = Mapping[str, Any]
FILE = Path(__file__).parent / "oracle" / "planning" / "runs.jsonl"
CARDS = {
    "A100-80": "A100-SXM-80",
    "A100-40": "A100-SXM-40",
    "H100-SXM": "H100-SXM",
    "B200": "B200-HGX",
    "GB200": "GB200",
    "B300": "B300-HGX",
    "GB300": "GB300",
}
"""Names in hardware.csv; TPUs are not modelled."""


@cache
def rows() -> tuple[Row, ...]:
    """All of them."""
    return tuple(json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines())


def timed() -> list[Row]:
    """Those with a layout that can be and a time, on a GPU whose rates are known."""
    rates = (row for row in rows() if row["gpu"] in CARDS and "micro_batch" in row and "step_time_s" in row)
    return [row for row in rates if not impossible(row)]


def impossible(row: Row) -> str:
    """Say why no GPUs can have run this layout, as ``calibrate`` does; nothing where they can."""
    try:
        layout(row)
    except Unusable as reason:
        return str(reason)
    return ""


def stack(row: Row) -> str:
    """The software stack."""
    return stack_of(row)


def config(row: Row) -> dict[str, Any]:
    """A config.json of the row's shape."""
    return config_of(row["arch"], row.get("layers"), row["seq"])


@cache
def _work(text: str, length: int) -> ModelWork:
    return work_of(tfcalc.from_config(json.loads(text)), length)


def work(row: Row) -> ModelWork:
    """What the row's model does."""
    return _work(json.dumps(config(row)), row["seq"])


@cache
def _card(name: str) -> Accelerator:
    return named(name)[0]


def machine(row: Row) -> Machine:
    """The row's GPUs among others."""
    nic = row["nic_gbps_node"] * 1e9 / 8 / row["gpus_per_node"] if "nic_gbps_node" in row else None
    found = machine_of(_card(CARDS[row["gpu"]]), row.get("nvlink_domain") or row["gpus_per_node"], nic)
    assert found is not None
    return found


def layout(row: Row) -> Layouts:
    """The row's layout. Where interleaving is not told, as much as Llama 3 had."""
    return layout_of({**row, "vpp": row.get("vpp") or (8 if row["pp"] > 1 else 1)}, stack(row))


def parts(row: Row, known: Mapping[str, Any] | None = None) -> StepParts:
    """Seconds of the row's step, by these rates."""
    by = machine(row)
    rates = rates_of(by.generation, stack(row), known)
    return StepTime(work(row), by, rates, precision=row["precision"].split("-")[0]).parts(layout(row))


def error(row: Row, known: Mapping[str, Any] | None = None) -> float:
    """Estimate over what was published, less one."""
    return float(parts(row, known).seconds) / float(row["step_time_s"]) - 1
