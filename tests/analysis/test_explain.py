"""Whatever is opened up adds up to the number that it explains."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from hypothesis import assume, given

from tests.examples import examples
from tests.laws.models import models_and_runs
from tfcalc import Conventions, Transformer, UsageError, Workload, catalog, flops, memory, params
from tfcalc.answers.explain import explain_part as explain
from tfcalc.model import values
from tfcalc.report.explanation import Explanation
from tfcalc.report.sheet import for_people
from tfcalc.report.style import Style
from tfcalc.workload import DTYPES


@given(models_and_runs)
@examples(25)
def test_the_lines_of_the_whole_add_up_to_the_answer(case: tuple[Transformer, Workload]) -> None:
    model, run = case
    root = model.tree(run).name
    assert explain(root, model).answer == params(model).answer
    assert explain(root, model, "flops", run).answer == flops(model, run).answer
    everything = Conventions(count="all", dtype="int4")
    assert explain(root, model, "flops", run, everything).answer == flops(model, run, everything).answer
    assert explain(root, model, "memory", None, everything).answer == memory(model, None, everything).answer


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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["gpt2", "mixtral-8x7b", "transformer-base"])
def test_a_line_of_memory_at_rest_is_the_product_of_its_factors(name: str, dtype: str) -> None:
    model = catalog.load(name)
    found = explain(model.tree(Workload()).name, model, "memory", conventions=Conventions(dtype=dtype))
    told: dict[str, Any] = found.to_dict()
    for line in told["items"]:
        assert line["bytes"] == line["copies"] * len(line["names"]) * prod(line["factors"])


def test_the_bytes_of_a_number_stand_in_front_of_its_sizes() -> None:
    told: dict[str, Any] = explain("attention", catalog.load("gpt2"), "memory").to_dict()
    (line, *_) = told["items"]
    assert (line["factors"], line["bytes"]) == ([4, 768, 3 * 768], 4 * 768 * 3 * 768)


@pytest.mark.parametrize(
    ("target", "formula", "squares", "vectors"),
    [
        ("mha", "4h²", 4, 4),
        ("ffn", "8h²", 8, 5),
        ("encoder-layer", "12h²", 12, 4 + 5 + 2 * 2),
        ("decoder-layer", "16h²", 16, 2 * 4 + 5 + 3 * 2),
        ("encoder", "12nh²", 6 * 12, 6 * 13),
    ],
)
def test_what_texts_approximate_and_by_how_much_that_is_off(
    target: str, formula: str, squares: int, vectors: int
) -> None:
    """Matrices are multiples of h², biases and norms of h (mha 4, ffn 4 + 1, a norm 2): at h = 512 one in h + 1."""
    found = explain(target, Transformer(), approx=True)
    assert isinstance(found, Explanation)
    assert found.answer == sum(line.value for line in found.lines) == squares * 512**2
    assert found.exact == squares * 512**2 + vectors * 512
    assert for_people(found.formula, Style()) == formula
    share = f"{100 * vectors / (squares * 512 + vectors):.2f} % less than the exact {found.exact:,}"
    assert any(note.startswith(share) for note in found.notes)
    assert "without biases and norms" in str(found)
    told = found.to_dict()
    assert (told["total_params"], told["approx_params"]) == (found.exact, found.answer)


def test_norms_alone_are_nothing_without_norms() -> None:
    assert "0: it has but biases or norms" in str(explain("ln", approx=True))


def test_approximations_are_of_parameters() -> None:
    with pytest.raises(UsageError, match="approx works for parameters only, not for flops"):
        explain("ffn", of="flops", approx=True)
