"""Whatever is opened up adds up to the number that it explains."""

from __future__ import annotations

from hypothesis import assume, given

from tests.examples import examples
from tests.laws.models import models_and_runs
from tfcalc import Conventions, Transformer, UsageError, Workload, explain, flops, memory, params
from tfcalc.symbols import values


@given(models_and_runs)
@examples(25)
def test_the_lines_of_the_whole_add_up_to_the_answer(case: tuple[Transformer, Workload]) -> None:
    model, run = case
    root = model.tree(run).name
    assert explain(root, model).answer == params(model).answer
    assert explain(root, model, "flops", run).answer == flops(model, run).answer
    everything = Conventions(count="all", dtype="int4")
    assert explain(root, model, "flops", run, everything).answer == flops(model, run, everything).answer
    assert explain(root, model, "memory", None, everything).answer == memory(model, everything).answer


@given(models_and_runs)
@examples(25)
def test_each_line_is_its_formula_at_the_sizes(case: tuple[Transformer, Workload]) -> None:
    model, run = case
    at = values(model, run)
    for of in ("params", "flops"):
        try:
            explained = explain("core", model, of, run)
        except UsageError:
            assume(False)
        for line in explained.lines:
            assert line.formula.at(at) == line.value
        assert explained.formula.at(at) == explained.answer
