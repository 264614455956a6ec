"""Every answer meets its schema, and every key of a schema is in some answer."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, TypeChecker
from jsonschema.exceptions import best_match
from jsonschema.validators import extend

from tests.budgets.sample import sample
from tests.conftest import Program
from tests.schemas.questions import ELSEWHERE, ROOT, answer, asked
from tests.test_words import found as refused
from tfcalc import Training, Workload
from tfcalc.cli.commands import COMMANDS
from tfcalc.cli.main import main
from tfcalc.report import SCHEMA_VERSION
from tfcalc.schemas import HERE, any_of, definition, names, schema
from tfcalc.schemas.keys import keys

NO_ANSWER = {"schema", "web"}
"""Commands that print no answer of their own."""
SHARED = ("model.", "conventions.", "components[].")
"""What many answers have, none of them all of its keys."""
ONLY_WITH_PYTORCH = {"conventions.counted_by", "conventions.reference"}
ANSWERS = [name for name in names() if name != "error"]


def is_exact(_: TypeChecker, value: object) -> bool:
    """Whether a number is written without a point: JSON Schema takes 1.0 for an integer, tfcalc does not."""
    return isinstance(value, int) and not isinstance(value, bool)


TYPES = Draft202012Validator.TYPE_CHECKER.redefine("integer", is_exact)
Exact = extend(Draft202012Validator, type_checker=TYPES)  # type: ignore[no-untyped-call]  # jsonschema states no types


def wrong(value: dict[str, Any]) -> Iterator[str]:
    """What its schema says against an answer."""
    meant = schema(value.get("command", "error"))
    for error in Exact(meant).iter_errors(value):
        worst = best_match([error])
        yield f"{'.'.join(map(str, worst.absolute_path))}: {worst.message[:300]}"


def paths(value: object, within: str = "") -> Iterator[str]:
    """Every key in an answer, as ``keys`` writes them; what contains itself is entered once."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{within}{name}"
            if name != "parts" or not within.startswith("components"):
                yield from paths(inner, f"{within}{name}.")
    elif isinstance(value, list):
        for inner in value:
            yield from paths(inner, f"{within.removesuffix('.')}[].")


@pytest.mark.long
def test_every_answer_meets_its_schema_and_every_key_is_printed() -> None:
    seen: dict[str, set[str]] = {}
    failures = []
    for line, value in asked():
        failures += [f"{line}: {each}" for each in wrong(value)]
        name = value.get("command", "error")
        assert name == "error" or value["schema_version"] == SCHEMA_VERSION, line
        seen.setdefault(name, set()).update(paths(value))
    assert not failures, "\n".join(failures)
    assert seen.keys() == set(names()) - ELSEWHERE
    anywhere = set().union(*seen.values(), ONLY_WITH_PYTORCH)
    never = [
        f"{name}: no question prints {path}"
        for name, found in seen.items()
        for path in (key.path.removeprefix("models[].") for key in keys(schema(name)))
        if path not in (anywhere if path.startswith(SHARED) else found) and f"models[].{path}" not in found
    ]
    assert not never, "\n".join(never)


def test_the_answers_of_budgets_meet_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample(tmp_path)
    monkeypatch.chdir(tmp_path)
    found: set[str] = set()
    for line in ("budget --update", "budget", "budget --base HEAD~1"):
        value = answer(line.split())
        assert value["schema_version"] == SCHEMA_VERSION
        assert not list(wrong(value)), line
        found |= set(paths(value))
    assert found == {key.path for key in keys(schema("budget"))}


def test_the_answer_of_init_meets_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    value = answer(["init"])
    assert not list(wrong(value))
    assert set(paths(value)) == {key.path for key in keys(schema("init"))}


@pytest.mark.torch
@pytest.mark.parametrize(
    "line",
    [
        "verify bert-tiny",
        "verify --d-model 16 --heads 2 --layers 1 --of flops --train --seq 8",
        "verify --d-model 16 --heads 2 --layers 1 --of memory --train --seq 8",
        "params bert-tiny --via torch",
        "verify --module tests/verify/modules/layers.py:FFN --args 16,64",
        "verify --of flops --module tests/verify/modules/layers.py:Stack --args 16,2",
        "verify --of memory --module tests/verify/modules/layers.py:Stack --args 16,2",
        "verify --module tests/verify/modules/layers.py:WithData --against mha",
    ],
)
def test_what_needs_pytorch_meets_its_schema(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    value = answer(line.split())
    assert value["schema_version"] == SCHEMA_VERSION
    assert not list(wrong(value))


def test_every_command_has_a_schema() -> None:
    assert set(ANSWERS) == set(COMMANDS) - NO_ANSWER


@pytest.mark.parametrize("name", names())
def test_every_schema_is_one_of_2020_12_and_complete(name: str) -> None:
    found = schema(name)
    assert found["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(found)
    references = re.findall(r'"\$ref": "([^"]*)"', json.dumps(found))
    assert {each.removeprefix(HERE) for each in references} == found.get("$defs", {}).keys()


@pytest.mark.parametrize("name", names())
def test_every_key_is_described_and_none_but_these_may_stand(name: str) -> None:
    for key in keys(schema(name)):
        assert key.types, key.path
        assert key.meaning, key.path
        assert not refused(key.meaning), key.path
    for one in objects(schema(name)):
        assert "additionalProperties" in one or "patternProperties" in one, one


def objects(value: object) -> Iterator[dict[str, Any]]:
    """The objects that a schema describes by their keys."""
    if isinstance(value, dict):
        if value.get("type") == "object" and "properties" in value:
            yield value
        for inner in value.values():
            yield from objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner)


def test_schema_version_is_required_and_the_one_that_is_printed() -> None:
    for name in ANSWERS:
        assert {"schema_version", "command"} <= set(schema(name)["required"])
        assert schema(name)["properties"]["command"]["const"] == name
    assert definition("schema_version")["const"] == SCHEMA_VERSION


def test_one_document_takes_every_answer_and_no_other() -> None:
    whole = any_of({name: schema(name) for name in names()})
    Draft202012Validator.check_schema(whole)
    meets = Exact(whole).is_valid
    found = answer(["params", "gpt2"])
    assert meets(found)
    assert meets(answer(["params", "--d-model", "513"]))
    assert not meets(found | {"total_params": 1.0})
    assert not meets(found | {"unheard_of": 1})
    assert not meets({key: value for key, value in found.items() if key != "schema_version"})


def test_what_an_option_brings_is_asked_for() -> None:
    """A training step without its timeline, a verdict without its budget: not what was promised."""
    step = answer(["memory", "--train", "--budget", "1GB"])
    for key in ("timeline", "peak_bytes", "budget_bytes", "changes"):
        assert list(wrong({name: value for name, value in step.items() if name != key})), key


def test_every_field_of_a_plan_and_of_a_workload_has_its_words() -> None:
    """What ``conventions`` repeats of them, they and not the answers decide."""
    described = definition("conventions")["properties"]
    assert set(Training().described()) - {"beside"} <= described.keys()  # set by a method alone, and printed nowhere
    own = {"batch_size", "seq_len", "source_len", "cached", "phase", "logits", "attention"}
    assert own <= described.keys() & set(inspect.signature(Workload).parameters)


@pytest.mark.parametrize("flag", ["--sympy", "--latex"])
@pytest.mark.parametrize("of", ["mha", "encoder-layer --of flops", "complete --of time"])
def test_a_formula_in_another_language_is_a_key_of_the_object(flag: str, of: str) -> None:
    """As the same words without ``--json`` print it."""
    value, out = answer(["formula", *of.split(), flag]), io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["formula", *of.split(), flag]) == 0
    assert value[flag.strip("-")] == out.getvalue().rstrip("\n")
    assert not list(wrong(value))


@pytest.mark.parametrize("words", ["--sympy --latex", "--sympy --format csv", "--latex --format plain"])
def test_two_formats_of_a_formula_contradict_each_other(tfcalc: Program, words: str) -> None:
    done = tfcalc("formula", "mha", *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert "contradicts" in done.stderr


def test_the_terms_of_a_difference_are_told_from_those_of_a_sum() -> None:
    """Falcon-7B: its embeddings are taken away from all parameters."""
    value = answer(["explain", "params.non_embedding_params", "falcon-7b"])
    *added, less = (term["value"] for term in value["terms"])
    assert value["how"] == "difference"
    assert value["value"] == sum(added) - less
    other = answer(["explain", "memory.total_bytes", "gpt2"])
    assert other["how"] == "sum"
    assert other["value"] == sum(term["value"] for term in other["terms"])


def test_the_schema_of_the_file_is_printed_too() -> None:
    found = printed("schema", "file")
    Draft202012Validator.check_schema(found)
    meets = Draft202012Validator(found).is_valid
    assert meets({"d_model": 768, "budget": [{"model": "chat*", "metric": "memory.peak_bytes", "max": "24GiB"}]})
    assert not meets({"budget": [{"model": "chat*", "metric": "memory.peak_bytes", "mx": "24GiB"}]})


def test_the_program_prints_them() -> None:
    assert printed("schema", "params") == schema("params")
    assert printed("schema") == any_of({name: schema(name) for name in names()})


def test_a_schema_is_a_table_too(tfcalc: Program) -> None:
    table = tfcalc("schema", "params", "--format", "csv").stdout.splitlines()
    assert table[0] == "key,type,when,meaning"
    assert "total_params,integer,always," in "\n".join(table)
    assert [line.partition(",")[0] for line in table[1:]] == [key.path for key in keys(schema("params"))]
    assert "models.*.config,string" in tfcalc("schema", "file", "--format", "csv").stdout
    assert "file" in tfcalc("schema", "--format", "csv").stdout


def test_a_name_that_has_no_schema_is_answered_with_the_nearest(tfcalc: Program) -> None:
    result = tfcalc("schema", "parms")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "tfcalc: there is no schema 'parms'; did you mean params?\n"


def printed(*words: str) -> dict[str, Any]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(words) == 0
    found: dict[str, Any] = json.loads(out.getvalue())
    return found
