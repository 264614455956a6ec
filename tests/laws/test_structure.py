"""What must hold of any model, whatever its sizes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given

from tests.examples import examples
from tests.laws.models import models, models_and_runs
from tfcalc import Transformer, Workload, flops, memory, params
from tfcalc.core.component import Component
from tfcalc.core.measure import matmul_flops
from tfcalc.core.measure import params as count
from tfcalc.report import exact


def leaves(component: Component, copies: int = 1) -> list[tuple[Component, int]]:
    copies *= exact(component.copies)
    below = [leaf for part in component.parts for leaf in leaves(part, copies)]
    return below or [(component, copies)]


@given(models_and_runs)
@examples(30)
def test_the_total_is_the_sum_of_the_leaves(case: tuple[Transformer, Workload]) -> None:
    root = case[0].tree(case[1])
    for measure in (count, matmul_flops):
        assert root.total(measure) == sum(copies * measure(leaf.own) for leaf, copies in leaves(root))


@given(models_and_runs)
@examples(30)
def test_only_leaves_cost_anything(case: tuple[Transformer, Workload]) -> None:
    for node in case[0].tree(case[1]).walk():
        if node.component.parts:
            assert node.component.own == Component("", "").own


@given(models_and_runs)
@examples(20)
def test_every_breakdown_adds_up_at_every_depth(case: tuple[Transformer, Workload]) -> None:
    model, run = case
    for depth in (None, 0, 1, 2, 3, 9):
        for report in (params(model, run, depth=depth), flops(model, run, depth=depth), memory(model, depth=depth)):
            for entry in report.walk():
                assert not entry.parts or sum(part.value for part in entry.parts) == entry.value
            assert report.root.value == report.answer == sum(report.by_kind().values())


@given(models_and_runs)
@examples(20)
def test_flops_are_linear_in_the_batch_and_params_do_not_see_it(case: tuple[Transformer, Workload]) -> None:
    model, run = case
    assume(model.positions not in ("transformer-xl", "deberta"))  # a map of distances is run once for all sequences
    larger = replace(run, batch_size=3 * run.batch_size)
    assert flops(model, larger).answer == 3 * flops(model, run).answer
    assert params(model, larger).answer == params(model, run).answer


@given(models())
@examples(20)
def test_grouped_query_attention_with_a_group_per_head_is_multi_head(model: Transformer) -> None:
    assert params(replace(model, n_kv_heads=model.n_heads)).answer == params(replace(model, n_kv_heads=None)).answer


@given(models())
@examples(20)
def test_leaving_out_what_follows_changes_nothing(model: Transformer) -> None:
    spelt = replace(model, d_ff=model.d_ff or 4 * model.d_model, n_kv_heads=model.n_kv_heads or model.n_heads)
    ours, theirs = params(spelt).to_dict(), params(model).to_dict()
    assert (ours["model"], ours["total_params"]) == (theirs["model"], theirs["total_params"])


@given(models())
@examples(20)
def test_a_tied_head_stores_nothing_and_runs_all_the_same(model: Transformer) -> None:
    assume(model.vocab_size is not None and not model.output_bias)
    tied, untied = replace(model, output_head="tied"), replace(model, output_head="untied")
    assert flops(tied).answer == flops(untied).answer
    vocabulary = model.vocab_size if model.target_vocab_size is None else model.target_vocab_size
    assert params(untied).answer - params(tied).answer == vocabulary * model.d_model


@given(models_and_runs)
@examples(20)
def test_a_training_step_with_plain_kernels_is_three_forward_passes(case: tuple[Transformer, Workload]) -> None:
    model, run = (
        case[0],
        replace(case[1], phase="forward", kernel="math", recompute="none", early_stop=False, cached=None),
    )
    assume(model.positions not in ("transformer-xl", "recurrent"))  # they read data: sinusoids, a first state
    step = replace(run, phase="train", input_gradient=True)
    assert flops(model, step).answer == 3 * flops(model, run).answer


@given(models())
@examples(20)
def test_exact_causal_pairs_lie_between_half_and_all(model: Transformer) -> None:
    assume(model.kind != "encoder")
    half, exact, full = (
        flops(model, Workload(seq_len=64, attention=a)).answer for a in ("causal-half", "causal", "full")
    )
    kind, _, reach = model.pattern.partition(":")
    own_keys_alone = (kind == "atrous" and int(reach) >= 64) or model.pattern in ("sliding:1", "chunked:1")
    assert half < exact <= full
    assert (exact == full) == own_keys_alone  # a mask that goes back only takes nothing off then
