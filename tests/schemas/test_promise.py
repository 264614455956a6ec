"""What was promised to scripts is still true: no key and no option is gone, or has changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest

from tfcalc import schemas
from tfcalc.answers.params import CountedElsewhere, CountOfParams, Params
from tfcalc.report import SCHEMA_VERSION
from tools import promise
from tools.promise import KEYS, OPTIONS, Record, Stated, main

Change = Callable[[Stated], object]


@pytest.mark.parametrize(("record", "count"), [(KEYS, 1074), (OPTIONS, 996)])
def test_every_promise_is_true(record: Record, count: int) -> None:
    """Where one is broken, a script breaks: bring it back, or raise SCHEMA_VERSION and begin a new record."""
    assert sum(map(len, record.promised().values())) >= count  # as many as release 0.2.0 had
    assert not list(record.broken(record.stated()))


@pytest.mark.parametrize("record", [KEYS, OPTIONS])
def test_a_record_is_as_its_tool_writes_it(record: Record) -> None:
    assert record.path.read_text(encoding="utf-8") == json.dumps(record.promised(), indent=1) + "\n"


def test_the_record_of_keys_is_that_of_the_schema_version() -> None:
    assert KEYS.file == f"promise-{SCHEMA_VERSION}.json"


@pytest.mark.parametrize(
    ("record", "change", "told"),
    [
        (KEYS, lambda now: now["params"].pop("total_params"), "params: total_params is gone"),
        (KEYS, lambda now: now["memory"].pop("timeline[].peak_bytes"), "memory: timeline[].peak_bytes is gone"),
        (KEYS, lambda now: now.pop("explain"), "explain: schema_version is gone"),
        (
            KEYS,
            lambda now: now["flops"].update(total_flops="number: always"),
            "flops: total_flops was integer, and is number",
        ),
        (
            KEYS,
            lambda now: now["models"].update({"models[].total_params": "integer|null: always"}),
            "models: models[].total_params was integer, and is integer|null",
        ),
        (
            KEYS,
            lambda now: now["overview"].update(serving_bytes="integer|null: "),
            "overview: serving_bytes was there always, and is there sometimes",
        ),
        (
            KEYS,
            lambda now: now["memory"].update(fits="boolean: --train"),
            "memory: fits was there with fits, and is there --train",
        ),
        (OPTIONS, lambda now: now["flops"].pop("--tokens"), "flops: --tokens is gone"),
        (OPTIONS, lambda now: now["tfcalc.toml"].pop("d_model"), "tfcalc.toml: d_model is gone"),
        (
            OPTIONS,
            lambda now: now["flops"].update({"--count": "word: all"}),
            "flops: --count no longer takes matmul",
        ),
        (
            OPTIONS,
            lambda now: now["memory"].update({"--batch": "switch: "}),
            "memory: --batch was a number, and is a switch",
        ),
    ],
)
def test_a_broken_promise_is_found(record: Record, change: Change, told: str) -> None:
    now = deepcopy(record.stated())
    change(now)
    assert told in list(record.broken(now))


def test_a_key_that_is_taken_out_of_a_schema_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    copy = shutil.copytree(schemas.FOLDER, tmp_path / "schemas")
    shared = copy / "shared.json"
    monkeypatch.setattr(schemas, "FOLDER", copy)
    assert not list(KEYS.broken(KEYS.stated()))
    for form in (CountOfParams, Params, CountedElsewhere):
        monkeypatch.setattr(form, "keys", {name: key for name, key in form.keys.items() if name != "total_params"})
    assert list(KEYS.broken(KEYS.stated())) == ["params: total_params is gone"]
    shared.write_text(
        shared.read_text(encoding="utf-8").replace('"required": ["name", "path", ', '"required": ["name", ')
    )
    told = "flops: components[].path was there always, and is there sometimes"
    assert told in list(KEYS.broken(KEYS.stated()))


@pytest.mark.parametrize(
    ("record", "change"),
    [
        (KEYS, lambda now: now["params"].update(unheard_of="integer: ")),
        (KEYS, lambda now: now["params"].update(approx_params="integer: always")),
        (KEYS, lambda now: now.update(unheard_of={"schema_version": "integer: always"})),
        (OPTIONS, lambda now: now["params"].update({"--unheard-of": "switch: "})),
        (OPTIONS, lambda now: now["flops"].update({"--count": "word: all|none|matmul"})),
    ],
)
def test_what_is_added_breaks_nothing(record: Record, change: Change) -> None:
    now = deepcopy(record.stated())
    change(now)
    assert not list(record.broken(now))


def test_the_tool_adds_and_does_not_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(promise, "FOLDER", tmp_path)
    now = KEYS.stated()
    del now["params"]["buffer_elements"]
    KEYS.path.write_text(json.dumps(now), encoding="utf-8")
    assert main() == 0
    assert KEYS.promised() == KEYS.stated()
    assert OPTIONS.promised() == OPTIONS.stated()
    KEYS.path.write_text(json.dumps({"params": {"forgotten": "integer: always"}}), encoding="utf-8")
    before = KEYS.path.read_bytes()
    assert main() == 1
    assert KEYS.path.read_bytes() == before
