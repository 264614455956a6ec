"""FLOPs of a training step product by product, growth step by step, and the matrices of each head."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from tests.conftest import Program
from tests.examples import examples
from tests.laws.models import models_and_runs
from tfcalc import Conventions, Transformer, UsageError, Workload, flops, formula, load
from tfcalc.answers.explain import explain_part as explain
from tfcalc.report.explanation import Explanation
from tfcalc.report.style import Style

TRAIN = Workload(phase="train", batch_size=2, seq_len=5)


def values(found: Explanation) -> dict[str, int]:
    return {line.names[0]: line.value for line in found.lines}


def test_a_linear_map_takes_three_products_of_one_size() -> None:
    """X W_1 is (10 × 512)(512 × 2048), dX = dY W_1ᵀ (10 × 2048)(2048 × 512), dW_1 = Xᵀ dY (512 × 10)(10 × 2048)."""
    found = values(explain("ffn", None, "flops", TRAIN, steps=True))
    assert found["X W_1"] == 2 * 10 * 512 * 2048
    assert found["dX = dY W_1ᵀ"] == 2 * 10 * 2048 * 512
    assert found["dW_1 = Xᵀ dY"] == 2 * 512 * 10 * 2048


def test_attention_has_a_gradient_for_each_factor() -> None:
    """With dS the scores' gradient dQ = dS K and dK = dSᵀ Q; dP = dY Vᵀ and dV = Pᵀ dY. Flash makes Q Kᵀ again."""
    pairs = 2 * 2 * 5 * 5 * 768
    math = values(explain("sdpa", load("gpt2"), "flops", TRAIN, steps=True))
    names = ["Q Kᵀ", "dQ = dY K", "dK = dYᵀ Q", "P V", "dP = dY Vᵀ", "dV = Pᵀ dY"]
    assert math == dict.fromkeys(names, pairs)
    flash = values(explain("sdpa", load("gpt2"), "flops", TRAIN.replaced(kernel="flash"), steps=True))
    assert flash == {**math, "Q Kᵀ, again in a fused kernel": pairs}


def test_data_needs_no_gradient() -> None:
    """The first layer of a core reads data: no dX for its queries, keys and values."""
    first = explain("core.encoder.layer[first].self_attention", None, "flops", TRAIN, steps=True)
    names = [name for line in first.lines for name in line.names]
    assert "dX = dY W_Qᵀ" not in names
    assert "dW_Q = Xᵀ dY" in names
    assert "dX = dY W_Oᵀ" in names


def test_frozen_weights_need_none_of_theirs() -> None:
    from tfcalc import Training

    found = explain("mlp.c_fc", load("gpt2"), "flops", TRAIN, training=Training(lora=4), steps=True)
    names = [name for line in found.lines for name in line.names]
    assert "dX = dY W_1ᵀ" in names
    assert "dW_1 = Xᵀ dY" not in names


@given(models_and_runs)
@examples(25)
def test_the_steps_add_up_to_the_flops_of_a_training_step(case: tuple[Transformer, Workload]) -> None:
    model, run = case
    assume(run.training)
    root = model.tree(run).name
    for by in (Conventions(), Conventions(count="all")):
        assert explain(root, model, "flops", run, by, steps=True).answer == flops(model, run, by).answer


@pytest.mark.parametrize("name", ["llama-3-8b", "mixtral-8x7b", "bert-base-uncased", "t5-small", "mamba2-780m"])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_the_steps_of_presets_add_up(name: str, recompute: str) -> None:
    model, run = load(name), TRAIN.replaced(recompute=recompute)
    root = model.tree(run).name
    assert explain(root, model, "flops", run, steps=True).answer == flops(model, run).answer


def orders(found: Explanation) -> dict[str, str]:
    return {name: Style().formula(line.order, factored=False) for line in found.lines for name in line.names}  # type: ignore[arg-type]


def test_growth_of_attention_step_by_step() -> None:
    """Projections O(lh²), scores and values O(l²h), softmax O(al²); together O(lh² + l²h)."""
    found = explain("mha", of="time")
    steps = orders(found)
    assert steps["X W_Q"] == steps["X W_O"] == "lh²"
    assert steps["Q Kᵀ"] == steps["P V"] == "l²h"
    assert steps["softmax"] == "l²a"
    assert steps["+ b_Q"] == "lh"
    assert found.order == formula("mha", "time").closed


def test_attention_by_itself_has_no_projections() -> None:
    """Scores and values alone take O(l²h)."""
    assert str(formula("sdpa", "time")) == "O(l²h)"
    assert str(formula("sdpa", "flops")) == "4l²bh"


def test_growth_may_keep_the_batch() -> None:
    assert str(formula("mha", "time", with_batch=True)) == "O(lbh² + l²bh)"
    found = explain("mha", of="time", with_batch=True)
    assert orders(found)["softmax"] == "l²·b·a"
    assert found.order == formula("mha", "time", with_batch=True).closed


@pytest.mark.parametrize(("heads", "many"), [(1, 4), (2, 7), (8, 25)])
def test_each_head_with_its_own_matrices_makes_3h_plus_1(heads: int, many: int) -> None:
    """Vaswani et al. 2017, section 3.2.2: W_i^Q, W_i^K, W_i^V for each head, and W^O: 3h + 1."""
    notes = explain("mha", Transformer(n_heads=heads)).notes
    assert any(f"3·{heads} + 1 = {many} matrices" in note for note in notes)


def test_grouped_heads_share_keys_and_values() -> None:
    """Llama 3 8B: 32 of W_Q, 8 each of W_K and W_V, and W_O: 49."""
    notes = explain("attention", load("llama-3-8b")).notes
    assert any("32 + 2·8 + 1 = 49 matrices" in note for note in notes)


def test_what_has_no_effect_is_refused(tfcalc: Program) -> None:
    with pytest.raises(UsageError, match="training step"):
        explain("mha", of="flops", steps=True)
    with pytest.raises(UsageError, match="time only"):
        explain("mha", with_batch=True)
    assert tfcalc("explain", "mha", "--of", "time", "-q").stdout == "O(lh² + l²h)\n"
