"""JSON Schemas of the answers: what ``--json`` prints, by declared keys or in a file; shared.json has what they share.

These refer to definitions in shared.json. Who asks for a schema gets it with these definitions inside.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfcalc.report.declared import Answer

FOLDER = Path(__file__).parent
DIALECT = "https://json-schema.org/draft/2020-12/schema"
SHARED = "shared"
HERE, THERE = "#/$defs/", f"{SHARED}.json#/$defs/"
"""How a definition is referred to: within its own file, and from another."""

Schema = dict[str, Any]
DECLARED = {
    "params": ("answers.params:CountOfParams", "answers.params:Params", "answers.params:CountedElsewhere"),
    "flops": (
        "answers.flops:Flops",
        "answers.flops_of_run:FlopsOfRun",
        "answers.utilisation:Utilisation",
        "answers.flops_by_convention:FlopsByConvention",
    ),
    "memory": (
        "answers.memory:Memory",
        "answers.memory:AtRest",
        "answers.training_memory:TrainingMemory",
        "answers.method_memory:MethodMemory",
        "answers.layout_memory:LayoutMemory",
        "answers.serving_memory:ServingMemory",
    ),
    "plan": (
        "answers.plan_keys:PlanAnswer",
        "answers.plan:Plan",
        "answers.plan_why:LayoutsCompared",
        "answers.plan_why:WhyNot",
        "answers.plan_why:CannotBe",
    ),
    "fit": ("answers.fit:FitTable",),
    "gpus": ("answers.gpus:ListOfGpus",),
    "train": ("answers.train:Train",),
    "calibrate": ("answers.calibrate:Calibrated",),
    "serve": (
        "answers.serve_base:ServedAnswer",
        "answers.serve:Serve",
        "answers.served_side_by_side:ServedSideBySide",
        "answers.serve_reading:ServedReading",
    ),
    "overview": ("answers.overview:Overview",),
    "budget": ("budgets.checks:BudgetAnswer", "budgets.checks:BudgetReport", "budgets.update:Updated"),
    "init": ("cli.commands.init:NewFile",),
    "models": (
        "cli.commands.models:ListOfModels",
        "cli.commands.models:Presets",
        "cli.commands.models:Supported",
        "cli.commands.models:Trainable",
    ),
    "plot": ("answers.plot:PartsOverSize",),
    "quiz": ("exercises:Quiz",),
    "ranks": ("answers.ranks:RanksAnswer",),
    "report": ("cli.commands.report:ModelReport",),
    "shapes": ("answers.shapes:Shapes",),
    "explain": (
        "report.explanation:Explained",
        "report.derivation:Derivation",
        "report.explanation:Explanation",
    ),
    "compare": ("answers.compare:Comparison",),
    "diff": ("answers.diff:Diff",),
    "why": ("analysis.why.answer:Why",),
    "formula": (
        "analysis.closed_form:ClosedForm",
        "analysis.closed_form:Formula",
        "analysis.formulas:Formulas",
    ),
    "design": (
        "analysis.design.answer:Design",
        "analysis.design.answer:Designed",
        "analysis.design.optimum:Optimum",
    ),
    "solve": ("solving.answer:Solved",),
    "check": ("analysis.check:FormulaCheck",),
    "sweep": ("answers.sweep:Swept",),
    "verify": (
        "verify.verification:CountedTwice",
        "verify.verification:VerifiedParams",
        "verify.verification:VerifiedFlops",
        "verify.verification:VerifiedBytes",
        "verify.module_answer:ModuleCheck",
    ),
}
"""Answers whose keys are declared: the class of what all forms have, and those of the forms."""
DECLARED_ELSEWHERE = {
    "classic_model": "zoo.transformer:Transformer",
    "conventions": "answers.plan_keys:PlanAnswer",
    "component": "answers.params:Params",
}
"""What declares the keys of a definition of shared.json that have no meaning there."""


def names() -> list[str]:
    """The answers that have a schema: the commands, and ``error``."""
    return sorted({*(path.stem for path in FOLDER.glob("*.json") if path.stem != SHARED), *DECLARED})


def schema(name: str) -> Schema:
    """The schema of one answer, with all that it refers to under its ``$defs``.

    >>> schema("params")["properties"]["total_params"]["type"]
    'integer'
    """
    return complete(name, _inside(_declared(name) if name in DECLARED else _read(name)))


def definition(name: str) -> Schema:
    """The schema of what answers share: ``model``, ``conventions``, ``component``."""
    return complete(name, _shared()[name])


def complete(name: str, found: Schema) -> Schema:
    """A schema with its dialect and its name, and with the definitions of shared.json that it refers to."""
    head = {"$schema": DIALECT, "$id": f"urn:tfcalc:schema:{name}"}
    own = found.get("$defs", {})
    needed = {one: _shared()[one] for one in _reached(found) if one not in own}
    return head | found | ({"$defs": own | needed} if own or needed else {})


def any_of(schemas: Mapping[str, Schema]) -> Schema:
    """One document with all of these in its ``$defs``, of which a value has to meet at least one."""
    parts: Schema = {}
    for name, one in schemas.items():
        parts |= one.get("$defs", {})
        parts[name] = {key: value for key, value in one.items() if key not in ("$schema", "$id", "$defs")}
    return {
        "$schema": DIALECT,
        "$id": "urn:tfcalc:schema",
        "title": "tfcalc COMMAND --json",
        "description": "Any answer of any command, or an error.",
        "anyOf": [{"$ref": HERE + name} for name in schemas],
        "$defs": parts,
    }


def _declared(name: str) -> Schema:
    """The schema that follows from the keys of an answer's classes."""
    from tfcalc.schemas.declared import answer_schema

    base, *forms = classes(name)
    return answer_schema(base, forms)


def classes(name: str) -> list[type[Answer]]:
    """The classes of a declared answer: of what all of its forms have, then those of the forms."""
    return list(map(_class, DECLARED[name]))


def _read(name: str) -> Schema:
    found: Schema = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _shared() -> Schema:
    """The definitions of shared.json, those of numbers with the meanings that are declared elsewhere."""
    found: Schema = _read(SHARED)["$defs"]
    for name, place in DECLARED_ELSEWHERE.items():
        for key, stated in found[name]["properties"].items():
            if not {"description", "$ref"} & stated.keys():
                stated["description"] = _meaning(_class(place), key)
    return found


def _meaning(of: Any, key: str) -> str:
    """The meaning of a key of an answer, or of a field of a model."""
    if hasattr(of, "keys"):
        return str(of.keys[key].schema["description"])
    return str(of.__dataclass_fields__[key].metadata["facet"].meaning)


def _class(place: str) -> Any:
    module, _, kind = place.partition(":")
    return getattr(import_module(f"tfcalc.{module}"), kind)


def _inside(value: Any) -> Any:
    """Return a copy with references to definitions of its own in the place of those to shared.json."""
    if isinstance(value, dict):
        return {key: inner.replace(THERE, HERE) if key == "$ref" else _inside(inner) for key, inner in value.items()}
    return [_inside(inner) for inner in value] if isinstance(value, list) else value


def _reached(found: Schema) -> list[str]:
    """The definitions of shared.json that a schema refers to, and those that these do, in the file's order."""
    shared = _shared()
    seen: set[str] = set()
    waiting: list[Any] = [found]
    while waiting:
        new = {name for name in _references(waiting.pop()) if name in shared} - seen
        seen |= new
        waiting += [shared[name] for name in new]
    return [name for name in shared if name in seen]


def _references(value: Any) -> Iterator[str]:
    inner: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and isinstance(value.get("$ref"), str):
        yield value["$ref"].removeprefix(HERE)
    for each in inner:
        yield from _references(each)
