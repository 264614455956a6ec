"""``python -m tests.verify.compare llama qwen2``: each type at its default and at random configs, by parameter name.

Without arguments, all types that have a family. It prints what differs; the same comparison is a test
(test_against_transformers.py).
"""

from __future__ import annotations

import json
import sys
from random import Random
from typing import Any

from tests.verify.random_configs import load
from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component
from tfcalc.core.measure import active_params, frozen_params, params, tensors
from tfcalc.core.polynomial import symbol
from tfcalc.errors import TfcalcError, Unavailable
from tfcalc.report import polynomial
from tfcalc.verify.hugging_face import buffers, build, parameters
from tfcalc.workload import Workload

DRAWS = 20


def differences(config: dict[str, Any]) -> dict[str, tuple[object, object]]:
    """Names whose numel differs: tfcalc's and transformers'."""
    model = HFModel(config)
    built = build(config, model.architecture)
    root = model.tree(Workload())
    # transformers allocates maps for LongCat-Flash's experts that do nothing, which the published weights lack
    ours, theirs = tensors(root, unpublished=True), parameters(built)
    held, kept = tensors(root, buffers=True), buffers(built)
    found = _unequal(ours, theirs) | {f"buffer {name}": both for name, both in _unequal(held, kept).items()}
    frozen = sum(one.numel() for one in built.parameters() if not one.requires_grad)
    if root.total(frozen_params) != frozen:
        found["(frozen)"] = (root.total(frozen_params), frozen)
    for measure in (params, active_params):
        closed = polynomial(_in_symbols(model).total(measure)).at(model.values())
        if closed != root.total(measure):
            found["the closed form"] = (closed, root.total(measure))
    return found


def _unequal(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, tuple[object, object]]:
    names = dict.fromkeys([*ours, *theirs])
    return {name: (ours.get(name), theirs.get(name)) for name in names if ours.get(name) != theirs.get(name)}


def _in_symbols(model: HFModel) -> Component:
    letters = {path: symbol(field.letter) for path, field in model.reading.fields.items()}
    return HFModel(model.data, instead=letters).tree(Workload())


def configs(model_type: str, draws: int = DRAWS) -> list[dict[str, Any]]:
    """The default config of a type, and random ones; the same in every run."""
    draw = load().get(model_type)
    random = Random(model_type)
    drawn = [draw(random) for _ in range(draws)] if draw else []
    return [{"model_type": model_type, **fields} for fields in [{}, *drawn]]


def main(model_types: list[str]) -> int:
    """Print every difference; 1 if there is any."""
    wrong = 0
    for model_type in model_types:
        if model_type not in load():
            print(f"{model_type}: no space of random configs")
        for config in configs(model_type):
            try:
                found = differences(config)
            except Unavailable as error:
                print(f"{model_type}: SKIPPED {error} {json.dumps(config)}")
                continue
            except TfcalcError as error:
                found = {str(error): (None, None)}
            if found:
                wrong += 1
                print(f"{model_type}: {json.dumps(config)}")
                for name, (ours, theirs) in found.items():
                    print(f"    {name}: tfcalc {ours}, transformers {theirs}")
                break
        else:
            print(f"{model_type}: {len(configs(model_type))} configs equal")
    return 1 if wrong else 0


if __name__ == "__main__":
    from tfcalc.configs.config import model_types

    sys.exit(main(sys.argv[1:] or model_types()))
