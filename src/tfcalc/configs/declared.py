"""families.jsonl: for each model type the module of zoo/ that builds it, and what transformers declares for it.

That is the class that its Auto classes make, the other names of fields (``attribute_map``), and the defaults.

``python -m tools.defaults --write`` writes it, one line a model type, and a test compares it with transformers. Lines
are found by their beginning, and only those that are asked for are parsed.

>>> module_of("granite")
'llama'
>>> declared("llama")["intermediate_size"]
11008
>>> class_of("llama"), other_names("gpt2")["hidden_size"]
('LlamaForCausalLM', 'n_embd')
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TypedDict

FILE = Path(__file__).with_name("families.jsonl")
BEGINNING = '{"model_type": '


class DeclaredFamily(TypedDict, total=False):
    """Declaration of a model type in the file; one that no family builds has no ``module``."""

    model_type: str
    module: str
    architecture: str
    aliases: Mapping[str, str]
    defaults: Mapping[str, object]


def model_types() -> list[str]:
    """All model types that a family builds, in the order of the alphabet."""
    lines = (json.loads(line) for line in _text().splitlines())
    return [line["model_type"] for line in lines if "module" in line]


def module_of(model_type: str) -> str | None:
    """The module of families/ that builds this model type; None where no family does."""
    return _line(model_type).get("module")


def declared(model_type: str) -> Mapping[str, object]:
    """The fields that a config may leave out, with the values that transformers' config class declares for them.

    Those alone that are read; none where transformers has no such model type.
    """
    return _line(model_type).get("defaults", {})


def class_of(model_type: str) -> str:
    """The class that transformers' Auto classes make of this model type; empty where they know none."""
    return _line(model_type).get("architecture", "")


def other_names(model_type: str) -> Mapping[str, str]:
    """The other names of the fields that are read: ``n_embd`` for ``hidden_size``."""
    return _line(model_type).get("aliases", {})


@cache
def _line(model_type: str) -> DeclaredFamily:
    text = _text()
    start = text.find(f"{BEGINNING}{json.dumps(model_type)},")
    if start < 0:
        return {}
    found: DeclaredFamily = json.loads(text[start : text.index("\n", start)])
    return found


@cache
def _text() -> str:
    return FILE.read_text(encoding="utf-8")
