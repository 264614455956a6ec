"""The intermediate results of a part: shapes of the papers, work that adds up, letters that stand for the sizes."""

from __future__ import annotations

import json
from math import prod
from typing import Any

import pytest
from hypothesis import given

from tests.conftest import Program
from tests.examples import examples
from tests.laws.models import models_and_runs
from tfcalc import Conventions, Transformer, UsageError, Workload, flops, load, shapes
from tfcalc.analysis.common import run_tree
from tfcalc.analysis.targets import find
from tfcalc.answers.shapes import Shapes
from tfcalc.core.measure import matmul_flops
from tfcalc.report.style import Style


def sizes_by_name(answer: Shapes) -> dict[str, tuple[int, ...]]:
    return {made.name: made.sizes for made in answer.results}


def test_multi_head_attention_of_the_paper() -> None:
    """Vaswani et al. 2017, section 3.2.2: h = 8 heads, d_k = d_v = d_model/h = 64; scores are Q Kᵀ, 5 by 5."""
    made = sizes_by_name(shapes("mha", workload=Workload(batch_size=2, seq_len=5)))
    assert made["Q"] == made["K"] == made["V"] == (2, 5, 512)
    assert made["Q split into heads"] == (2, 5, 8, 64)
    assert made["Q of each head"] == made["K of each head"] == made["V of each head"] == (2, 8, 5, 64)
    assert made["scores"] == made["scaled scores"] == made["weights"] == (2, 8, 5, 5)
    assert made["heads"] == (2, 8, 5, 64)
    assert made["heads merged"] == made["output"] == (2, 5, 512)


def test_the_products_of_the_paper() -> None:
    """X W_Q: 10 × 512 by 512 × 512 takes 2·10·512·512 operations; Q Kᵀ 2·8 products of 5 × 64 by 64 × 5."""
    found = {made.name: made for made in shapes("mha", workload=Workload(batch_size=2, seq_len=5)).results}
    assert found["Q"].made_by == "X W_Q: (10 × 512)(512 × 512)"
    assert found["Q"].flops == 2 * 10 * 512 * 512 == 5_242_880
    assert found["scores"].made_by == "Q Kᵀ: 16 × (5 × 64)(64 × 5)"
    assert found["scores"].flops == 2 * 16 * 5 * 64 * 5
    assert found["heads"].made_by == "P V: 16 × (5 × 5)(5 × 64)"
    assert found["weights"].made_by == "softmax"


def test_scale_and_mask_are_steps_of_their_own() -> None:
    """Vaswani et al. 2017, figure 2: MatMul, Scale, Mask (opt.), SoftMax, MatMul; the mask is the decoder's."""
    decoder = shapes("mha", Transformer(kind="decoder"), Workload(batch_size=2, seq_len=5)).results
    steps = [made.name for made in decoder if "scores" in made.name or made.name == "weights"]
    assert steps == ["scores", "scaled scores", "masked scores", "weights"]
    found = {made.name: made for made in decoder}
    assert (found["scaled scores"].made_by, found["masked scores"].made_by) == ("scale", "mask: −∞ for later keys")
    assert found["masked scores"].sizes == (2, 8, 5, 5)
    encoder = shapes("mha", workload=Workload(batch_size=2, seq_len=5)).results
    assert "masked scores" not in {made.name for made in encoder}


def test_one_sequence_of_three_tokens() -> None:
    """The course's example: attention over (1, 3, 512) gives (1, 3, 512); by itself, of n × d_v for one head."""
    assert sizes_by_name(shapes("mha", workload=Workload(seq_len=3)))["output"] == (1, 3, 512)
    narrow = Transformer(d_model=2, n_heads=1)
    assert sizes_by_name(shapes("sdpa", narrow, Workload(seq_len=3)))["heads"] == (1, 1, 3, 2)


def test_axes_have_the_letters_of_every_notation() -> None:
    found = shapes("mha", workload=Workload(batch_size=2, seq_len=5))
    axes = {made.name: made.letters for made in found.results}
    written = {
        notation: Style(notation=notation).product(axes["Q of each head"]) for notation in ("lbhn", "bsld", "names")
    }
    assert written == {
        "lbhn": "b × a × l × d",
        "bsld": "bs × h × L × d_h",
        "names": "batch_size × n_heads × seq_len × head_dim",
    }


def test_grouped_queries_have_fewer_keys_and_values() -> None:
    """Llama 3 8B: 32 query heads share 8 key and value heads of width 128 (arXiv 2407.21783, table 3)."""
    found = shapes("layer", load("llama-3-8b"), Workload(batch_size=3, seq_len=7))
    made = sizes_by_name(found)
    assert made["Q of each head"] == made["Q rotated"] == (3, 32, 7, 128)
    assert made["K of each head"] == made["K rotated"] == made["V of each head"] == (3, 8, 7, 128)
    assert made["scores"] == (3, 32, 7, 7)
    assert made["gate_proj"] == made["up_proj"] == (3, 7, 14336)
    assert found.results[-1].sizes == (3, 7, 4096)
    letters = {one.name: Style().product(one.letters) for one in found.results}
    assert letters["K of each head"] == "b × g × l × d"


def test_a_decoded_token_reads_all_keys() -> None:
    found = shapes("attention", load("gpt2"), Workload(batch_size=2, phase="decode", cached=100))
    made = sizes_by_name(found)
    assert made["Q of each head"] == (2, 12, 1, 64)
    assert made["scores"] == (2, 12, 1, 100)
    assert made["output"] == (2, 1, 768)


def test_the_input_is_what_the_part_reads() -> None:
    read = shapes("complete", load("gpt2"), Workload(batch_size=2, seq_len=5)).input
    assert read is not None
    assert read.sizes == (2, 5)
    read = shapes("ffn", load("gpt2"), Workload(batch_size=2, seq_len=5)).input
    assert read is not None
    assert read.sizes == (2, 5, 768)


@pytest.mark.parametrize("count", ["matmul", "all"])
@pytest.mark.parametrize("phase", ["forward", "prefill", "decode"])
@pytest.mark.parametrize(
    "name", ["gpt2", "t5-small", "mixtral-8x7b", "deepseek-v2-lite", "gemma-3-270m", "gpt-oss-20b", "mamba2-780m"]
)
def test_the_work_adds_up_to_the_flops_of_the_model(name: str, phase: str, count: str) -> None:
    model, run = load(name), Workload(batch_size=2, seq_len=40, phase=phase, cached=40 if phase == "decode" else None)
    by = Conventions(count=count)
    found = shapes("complete", model, run, by)
    assert found.answer == sum(made.flops for made in found.results) == flops(model, run, by).answer


@given(models_and_runs)
@examples(40)
def test_the_work_of_every_part_adds_up_and_the_letters_are_the_sizes(case: tuple[Transformer, Workload]) -> None:
    model, run = case
    if run.training:
        return
    root = run_tree(model, run).root()
    for target in ("core", "mha", "sdpa", "ffn", "layer"):
        found = shapes(target, model, run)
        assert found.answer == find(root, target).component.each(matmul_flops)
        at = {"b": run.batch_size, "l": run.seq_len, "s": run.size("source_len"), "c": run.size("cached")}
        at |= {
            known.symbol: size
            for name, known in model.dimensions().items()
            if isinstance(size := model.described()[name], int)
        }
        for made in found.results:
            assert tuple(letter.at(at) for letter in made.letters) == made.sizes
            assert made.closed.at(at) == made.flops


@given(models_and_runs)
@examples(25)
def test_matrices_that_are_said_are_those_that_are_counted(case: tuple[Transformer, Workload]) -> None:
    model, run = case
    if run.training or run.attention != "full":
        return
    for made in shapes("core", model, run).results:
        said = [(each.copies, *each.left, each.right[1]) for each in made.products if each.known]
        if said and len(said) == len(made.products):
            assert made.flops == made.copies * sum(2 * prod(each) for each in said)


def test_a_training_step_is_refused() -> None:
    with pytest.raises(UsageError, match="forward pass"):
        shapes("mha", workload=Workload(phase="train"))


def test_the_command_answers_as_the_library(tfcalc: Program) -> None:
    said: dict[str, Any] = json.loads(tfcalc("shapes", "mha", "gpt2", "--batch", "2", "--seq", "5", "--json").stdout)
    assert said == json.loads(json.dumps(shapes("mha", load("gpt2"), Workload(batch_size=2, seq_len=5)).to_dict()))
    assert tfcalc("shapes", "mha", "gpt2", "--batch", "2", "--seq", "5", "-q").stdout == "2 × 5 × 768\n"
