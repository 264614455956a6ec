"""What ``formula`` prints is right for ``check``, of every part and quantity; so is the number that it stands for."""

from __future__ import annotations

from typing import Any

import pytest

from tfcalc import Serving, Training, Transformer, Workload, formula, load
from tfcalc.analysis.check import check
from tfcalc.analysis.targets import TARGETS
from tfcalc.answers.explain import terms_of
from tfcalc.errors import TfcalcError
from tfcalc.workload import Conventions

TRAIN, STORED = Workload(phase="train"), Workload(phase="train", recompute="none")
OF_PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "params": ("params", {}),
    "flops": ("flops", {}),
    "flops --train": ("flops", {"workload": TRAIN}),
    "flops --phase decode": ("flops", {"workload": Workload(phase="decode", cached=100)}),
    "memory": ("memory", {}),
    "time": ("time", {}),
}
OF_TERMS: dict[str, dict[str, Any]] = {
    "--serve": {"serving": Serving()},
    "--serve --cache dynamic": {"serving": Serving(cache="dynamic")},
    "--train": {"training": Training(), "workload": STORED},
    "--train --lora": {"training": Training(lora=16), "workload": TRAIN},
    "--train --zero 3": {"training": Training(zero="3", gpus=8), "workload": TRAIN},
}
MODELS = ("gpt2", "llama-3-8b", "deepseek-v3", "granite-4.0-h-micro", "t5-small", "mixtral-8x7b")


def model_of(name: str) -> Any:
    return load(name) if name else Transformer()


def parts_agree(name: str, what: str) -> int:
    """Check every part that the model has; return how many these are."""
    model, (of, asked), found = model_of(name), OF_PARTS[what], 0
    for target in TARGETS:
        try:
            printed = formula(target, of, model, **asked)
        except TfcalcError:  # it has no such part, or does not decode
            continue
        found += 1
        assert check(target, str(printed), of, model, **asked).correct, (target, str(printed))
    return found


def terms_agree(name: str, plan: str) -> int:
    """Check every term, whole, in letters and as a number; return how many these are."""
    model, asked = model_of(name), OF_TERMS[plan]
    plans = {key: asked.get(key) for key in ("training", "serving")}
    tree = terms_of(model, asked.get("workload"), Conventions(), **plans)
    terms = ["complete", *dict.fromkeys(node.component.name for node in tree.twin.below())]
    for term in terms:
        printed = formula(term, "memory", model, **asked)
        for text in (str(printed), str(printed.value)):
            assert check(term, text, "memory", model, **asked).correct, (term, text)
    return len(terms)


@pytest.mark.parametrize("what", ["params", "flops --train", "time"])
def test_parts_of_small_models(what: str) -> None:
    assert parts_agree("t5-small", what) > 5


def test_caches_and_activations() -> None:
    assert terms_agree("gpt2", "--serve --cache dynamic") == 4
    assert terms_agree("gpt2", "--train") > 4


@pytest.mark.long(3)
@pytest.mark.parametrize("what", OF_PARTS)
@pytest.mark.parametrize("name", ["", *MODELS])
def test_parts_of_every_kind_of_model(name: str, what: str) -> None:
    assert parts_agree(name, what) > 2 or what.endswith("decode")


@pytest.mark.long(3)
@pytest.mark.parametrize("plan", OF_TERMS)
@pytest.mark.parametrize("name", MODELS)
def test_terms_of_every_kind_of_model(name: str, plan: str) -> None:
    if plan.endswith("dynamic") and name in ("granite-4.0-h-micro", "t5-small"):
        pytest.skip("it caches more than keys and values")
    assert terms_agree(name, plan) > 3
