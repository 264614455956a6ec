"""A layer that does as an equal one did (``tape.memory_tracker.LayerScript``) does what it would by itself.

Each step runs twice: as it does, and with every layer for itself. All that is told of it is compared: each allocation
and free in order, the peaks of all phases with and without gradients, what is live at the peak, and the effort.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.laws.test_modules import configs
from tfcalc import Training, Workload, from_config
from tfcalc.configs.config import model_types
from tfcalc.core.traced import EFFORT
from tfcalc.errors import TfcalcError
from tfcalc.model import Model
from tfcalc.serving.inference import forward
from tfcalc.tape.interpreter import Interpreter, Numerics
from tfcalc.tape.memory_tracker import LayerScript, MemorySnapshot
from tfcalc.tape.moments import StepRecorder
from tfcalc.training.peaks import Peaks, step_of
from tfcalc.training.plan_checks import piece_of

LAYERS = 14
"""So many that equal ones stand for each other."""
PLANS: dict[str, dict[str, Any]] = {
    "as usual": {},
    "adapters": {"lora": 8},
    "adapters under autocast": {"lora": 8, "base_weights": "nf4-dq"},
    "master weights": {"precision": "bf16-mixed"},
    "sharded": {"zero": "3", "gpus": 8, "layout": "fsdp2"},
    "the optimizer in backward": {"optimizer_in_backward": True, "offload_activations": True},
}
SHARING = ("llama", "gemma3_text", "deberta", "hrm_text", "falcon_mamba", "mixtral", "t5")
"""Plain layers, periods, gradients that pass through, layers that run again, loops over time, experts, two stacks."""


def deep(model_type: str) -> Model:
    """A small model of the type with many layers, where these are a number of the config."""
    first, *drawn = configs(model_type)
    small = {key: value for key, value in (drawn or [first])[0].items() if key != "architectures"}
    try:
        return from_config(small | {"num_hidden_layers": LAYERS})
    except TfcalcError:
        return from_config(small)


def told(one: MemorySnapshot) -> tuple[int, ...]:
    return one.total, one.saved, one.gradients, one.gathered


def step(model: Model, plan: Training) -> list[object]:
    """All that a step tells."""
    peaks, recorder = Peaks(model), StepRecorder()
    run, plan = peaks.resolved(Workload(batch_size=2, seq_len=16, phase="train", recompute="full"), plan)
    tree, piece, begun = peaks.tree(run, plan), piece_of(model, run, plan), EFFORT.spent
    ran = step_of(tree, piece, run, plan, recorder)
    phases = {name: told(one) for name, one in ran.phases.items()}
    apart = None if ran.apart is None else {name: told(one) for name, one in ran.apart.items()}
    noted, live = recorder.noted, (recorder.passing("backward"), recorder.gradients_at("backward"))
    return [phases, apart, ran.saved, ran.returned, noted.events, noted.spans, live, EFFORT.spent - begun]


def compared(model: Model, plan: Training, monkeypatch: pytest.MonkeyPatch) -> int:
    """Fail where the two differ; return how many layers did as others."""
    did: list[object] = []
    with monkeypatch.context() as patched:
        patched.setattr(Interpreter, "alike", lambda *_: None)
        alone = step(model, plan)
    does = LayerScript.run

    def noted(script: LayerScript, *given: Any) -> object:
        did.append(script)
        return does(script, *given)

    with monkeypatch.context() as patched:
        patched.setattr(LayerScript, "run", noted)
        assert step(model, plan) == alone
    return len(did)


@pytest.mark.parametrize("plan", PLANS.values(), ids=list(PLANS))
@pytest.mark.parametrize("model_type", SHARING)
def test_layers_that_do_as_others_do_what_they_would(
    model_type: str, plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        assert compared(deep(model_type), Training(**plan), monkeypatch) > 0
    except TfcalcError as refused:
        pytest.skip(str(refused))


@pytest.mark.one_in(25, 4)
@pytest.mark.parametrize("model_type", model_types())
def test_those_of_every_model_type(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for plan in PLANS.values():
        try:
            compared(deep(model_type), Training(**plan), monkeypatch)
        except TfcalcError:
            continue


@pytest.mark.parametrize("model_type", ["llama", "gemma3_text", "mixtral"])
def test_a_pass_without_gradients(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, run = deep(model_type), Workload(batch_size=2, seq_len=16, phase="prefill", kernel="flash")
    peak = forward.__wrapped__
    with monkeypatch.context() as patched:
        patched.setattr(Interpreter, "alike", lambda *_: None)
        alone = peak(model, run, Numerics("bfloat16"))
    assert peak(model, run, Numerics("bfloat16")) == alone
