"""What was promised to scripts is still true: no key is gone, has another type, or is there less often than it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest

from tfcalc import schemas
from tfcalc.report import SCHEMA_VERSION
from tools.promise import RECORD, broken, main, recorded, stated

Change = Callable[[dict[str, dict[str, str]]], object]


def test_every_promise_is_true() -> None:
    """Where one is broken, a script breaks: bring the key back, or raise SCHEMA_VERSION and begin a new record."""
    promised = recorded()
    assert RECORD.name == f"promise-{SCHEMA_VERSION}.json"
    assert not list(broken(promised, stated()))
    assert sum(map(len, promised.values())) >= 1074  # as many as release 0.2.0 had


def test_the_record_is_as_its_tool_writes_it() -> None:
    assert RECORD.read_text(encoding="utf-8") == json.dumps(recorded(), indent=1) + "\n"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda now: now["params"].pop("total_params"), "params: total_params is gone"),
        (lambda now: now["memory"].pop("timeline[].peak_bytes"), "memory: timeline[].peak_bytes is gone"),
        (lambda now: now.pop("explain"), "explain: schema_version is gone"),
        (
            lambda now: now["flops"].update(total_flops="number: always"),
            "flops: total_flops was integer, and is number",
        ),
        (
            lambda now: now["models"].update({"models[].total_params": "integer|null: always"}),
            "models: models[].total_params was integer, and is integer|null",
        ),
        (
            lambda now: now["overview"].update(serving_bytes="integer|null: "),
            "overview: serving_bytes was there always, and is there sometimes",
        ),
        (
            lambda now: now["memory"].update(fits="boolean: --train"),
            "memory: fits was there with fits, and is there --train",
        ),
    ],
)
def test_a_broken_promise_is_found(change: Change, told: str) -> None:
    now = deepcopy(stated())
    change(now)
    assert told in list(broken(recorded(), now))


def test_a_key_that_is_taken_out_of_a_schema_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    copy = shutil.copytree(schemas.FOLDER, tmp_path / "schemas")
    params, shared = copy / "params.json", copy / "shared.json"
    monkeypatch.setattr(schemas, "FOLDER", copy)
    assert not list(broken(recorded(), stated()))
    params.write_text(params.read_text(encoding="utf-8").replace('"total_params": {', '"all_params": {'))
    assert list(broken(recorded(), stated())) == ["params: total_params is gone"]
    shared.write_text(
        shared.read_text(encoding="utf-8").replace('"required": ["name", "path", ', '"required": ["name", ')
    )
    assert "flops: components[].path was there always, and is there sometimes" in list(broken(recorded(), stated()))


@pytest.mark.parametrize(
    "change",
    [
        lambda now: now["params"].update(unheard_of="integer: "),
        lambda now: now["params"].update(approx_params="integer: always"),
        lambda now: now.update(unheard_of={"schema_version": "integer: always"}),
    ],
)
def test_what_is_added_breaks_nothing(change: Change) -> None:
    now = deepcopy(stated())
    change(now)
    assert not list(broken(recorded(), now))


def test_the_tool_adds_and_does_not_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = tmp_path / RECORD.name
    monkeypatch.setattr("tools.promise.RECORD", record)
    now = stated()
    del now["params"]["buffer_elements"]
    record.write_text(json.dumps(now), encoding="utf-8")
    assert main() == 0
    assert json.loads(record.read_text(encoding="utf-8")) == stated()
    record.write_text(json.dumps({"params": {"forgotten": "integer: always"}}), encoding="utf-8")
    before = record.read_bytes()
    assert main() == 1
    assert record.read_bytes() == before
