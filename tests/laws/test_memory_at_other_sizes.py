"""What memory's closed forms say at other sizes is what is held there: model states, saved tensors, caches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.laws.other_sizes import OtherStructure, Squared, at, fixed, letters_of, models, that_run
from tfcalc import InvalidModel, Workload
from tfcalc.backends.program import Code
from tfcalc.configs.config import model_types
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import bytes_held
from tfcalc.core.number import Num
from tfcalc.core.traced import formula_of
from tfcalc.model import remembering
from tfcalc.plans import Training
from tfcalc.serving.caches import ALLOCATIONS, cache
from tfcalc.tape.memory_tracker import Kept
from tfcalc.training.measured import known, trainable
from tfcalc.training.optimizers import OPTIMIZERS
from tfcalc.training.plan_checks import numerics, trained
from tfcalc.training.precisions import precision
from tfcalc.training.step import kept
from tfcalc.training.step_terms import buffers_of, states_of

TYPES = model_types()
TRAINABLE = trainable()
BY_SIZE = ("8bit", "4bit", "paged")
"""Optimizers that keep small tensors in another way, and say so."""
STATES = {each.state: name for name, each in OPTIMIZERS.items() if not any(word in name for word in BY_SIZE)}.values()
"""An optimizer for each kind of state that does not depend on how large a tensor is."""
IN_TURNS = (
    *("kimi_linear", "olmo_hybrid", "qwen3_5", "qwen3_5_moe"),
    *("dots3_note_vision_encoder", "glm4v_vision", "kimi_k25_vision", "qwen2_5_vl_vision", "qwen2_vl_vision"),
    *("qwen3_5_moe_vision", "qwen3_5_vision", "qwen3_vl_moe_vision", "qwen3_vl_vision"),
    "gemma3n_text",
)
"""Loops over chunks of a sequence, over images or streams: where there are more of them, there are more tensors."""
AS_WIDE_AS_THE_STREAM = ("inkling2_text",)
"""Attention over depth has one head of the hidden size, for which another kernel runs where that is above 256."""
LENGTHS = {"longt5": 300}
"""Where a sequence of 24 tokens is one block of 128, and so another structure than several are."""
STEP = Workload(batch_size=2, seq_len=24, phase="train")
TOKEN = Workload(batch_size=2, seq_len=24, phase="decode", cached=24)
Held = Callable[[HFModel, Workload], dict[tuple[object, ...], Num]]
"""Everything that is held, by what it is: the same things at all sizes."""


def caches(model: HFModel, run: Workload) -> dict[tuple[object, ...], Num]:
    tree = model.tree(run)
    return {(how,): cache(tree, how=how, longest=run.size("cached")).total(bytes_held) for how in ALLOCATIONS}


def states(model: HFModel, run: Workload) -> dict[tuple[object, ...], Num]:
    """Weights, gradients, master weights and what each optimizer keeps."""
    tree = model.tree(run)
    held: dict[tuple[object, ...], Num] = {}
    for name in STATES:
        plan = Training(precision="bf16-master", optimizer=name, zero="0")
        parts = [*states_of(tree, tree, plan).device, buffers_of(tree, run, precision(plan.precision))]
        held |= {(name, part.name): part.total(bytes_held) for part in parts}
    return held


def saved(form: str) -> Held:
    """The tensors that autograd keeps."""

    def tensors(model: HFModel, run: Workload) -> dict[tuple[object, ...], Num]:
        plan = Training(precision=form, zero="0")
        tree = trained(model.tree(run), plan)
        found = kept(tree, model, run, numerics(precision(form), plan), Code())
        return {(*_which(one), place): one.copies * one.storage.size for place, one in enumerate(found)}

    return tensors


def _which(one: Kept) -> tuple[object, ...]:
    """What it is; how many random numbers a kernel notes tells which kernel runs."""
    path, storage = re.sub(r"\[[^]]*\]", "[]", one.path), one.storage
    return path, one.operation, storage.label, storage.dtype, storage.label == "random state" and storage.elements


@pytest.mark.one_in(8)
@pytest.mark.parametrize("model_type", TYPES)
def test_caches(model_type: str) -> None:
    drawn = list(that_run(models(model_type), TOKEN))
    assert not drawn or _first(drawn, TOKEN, caches) == []


@pytest.mark.one_in(24)
@pytest.mark.parametrize("model_type", TYPES)
def test_model_states(model_type: str) -> None:
    assert _first(models(model_type), STEP, states) == []


def trained_ones(model_type: str) -> list[HFModel]:
    """The drawn models as a class that was compared with PyTorch."""
    architecture = next(iter(known(model_type)))
    return [HFModel({**model.data, "architectures": [architecture]}) for model in models(model_type)]


@pytest.mark.one_in(48)
@pytest.mark.parametrize("model_type", TRAINABLE)
@pytest.mark.parametrize(("kernel", "form"), [("eager", "fp32"), ("math", "bf16-mixed")])
def test_tensors_saved_by_products_one_by_one(kernel: str, form: str, model_type: str) -> None:
    found = _first(trained_ones(model_type), _step(model_type, kernel), saved(form))
    assert found == [] or (found is None and model_type in (*IN_TURNS, *AS_WIDE_AS_THE_STREAM))


@pytest.mark.one_in(48)
@pytest.mark.parametrize("model_type", TRAINABLE)
@pytest.mark.parametrize(("kernel", "form"), [("efficient", "bf16"), ("flash", "bf16-mixed")])
def test_tensors_saved_by_fused_kernels(kernel: str, form: str, model_type: str) -> None:
    """Which kernel runs depends on the width of a head: multiples of 8, up to 256. A few families have no two such."""
    assert not _first(trained_ones(model_type), _step(model_type, kernel), saved(form))


def _step(model_type: str, kernel: str) -> Workload:
    return STEP.replaced(kernel=kernel, seq_len=LENGTHS.get(model_type, STEP.seq_len))


def _first(drawn: list[HFModel] | tuple[HFModel, ...], run: Workload, held: Held) -> list[str] | None:
    """What is wrong with the first model whose squares are of the same structure; None where there is none."""
    for model in drawn:
        try:
            return list(_wrong(model, run, held))
        except (InvalidModel, OtherStructure):
            continue
    return None


def _wrong(model: HFModel, run: Workload, held: Held) -> Iterator[str]:
    forms = {which: formula_of(size) for which, size in held(remembering(model), remembering(run)).items()}
    letters = frozenset[str]().union(*map(letters_of, forms.values()))
    squared = Squared(model, run, fixed(model, letters))
    counted = held(squared.model, squared.run)
    if counted.keys() != forms.keys():
        raise OtherStructure
    for which, size in counted.items():
        if at(forms[which], squared.sizes) != size:
            yield f"{which}: {forms[which]}"
