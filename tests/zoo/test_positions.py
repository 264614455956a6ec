"""Positions of the classic Transformer against arithmetic by hand, and what all of them have in common."""

from __future__ import annotations

from typing import Any

import pytest

from tfcalc import Transformer, Workload, formula, memory, params
from tfcalc.core.component import Measure
from tfcalc.core.measure import buffer_elements, elementwise_flops, matmul_backward_flops, matmul_flops
from tfcalc.errors import InvalidModel
from tfcalc.zoo.transformer import INSIDE_ATTENTION, POSITIONS

H, A, N, V, D, B, T = 24, 4, 3, 50, 5, 6, 40
WIDTH = H // A
NEEDED: dict[str, dict[str, int]] = {
    **{kind: {"max_len": T} for kind in ("sinusoidal", "learned")},
    **{kind: {"max_distance": D} for kind in ("multiplicative", "relative", "deberta")},
    "t5": {"buckets": B},
}
BY_HAND = {
    "none": (0, 0, 0),
    "sinusoidal": (0, 0, 0),
    "learned": (0, 0, T * H),
    "recurrent": (0, 3 * (H * H + H * H) + 6 * H, 0),
    "rotary": (0, 0, 0),
    "alibi": (0, 0, 0),
    "t5": (0, B * A, 0),
    "multiplicative": ((2 * D + 1) * A, 0, 0),
    "relative": (2 * (2 * D + 1) * WIDTH, 0, 0),
    "transformer-xl": (H * H + 2 * H, 0, 0),
    "deberta": (2 * (H * H + H), 2 * D * H, 0),
}
"""Parameters of each layer with self-attention, of each stack, and of the model."""


def by_hand(kind: str, stacks: int) -> int:
    layer, stack, whole = BY_HAND[kind]
    return stacks * N * layer + stacks * stack + whole


def model(kind: str, stack: str = "encoder", **more: Any) -> Transformer:
    sizes = {"d_model": H, "n_heads": A, "n_layers": N, "vocab_size": V, **NEEDED.get(kind, {}), **more}
    return Transformer(kind=stack, positions=kind, **sizes)


@pytest.mark.parametrize("stack", ["encoder", "decoder", "encoder-decoder"])
@pytest.mark.parametrize("kind", POSITIONS)
def test_parameters(kind: str, stack: str) -> None:
    stacks = 2 if stack == "encoder-decoder" else 1
    added = params(model(kind, stack)).answer - params(model("none", stack)).answer
    assert added == by_hand(kind, stacks)


def added(kind: str, measure: Any, run: Workload, stack: str = "encoder", **more: Any) -> Any:
    return model(kind, stack, **more).tree(run).total(measure) - model("none", stack).tree(run).total(measure)


def test_a_recurrent_network_is_run_over_the_sequence() -> None:
    run = Workload(batch_size=2, seq_len=9, phase="train")
    assert added("recurrent", matmul_flops, run) == 12 * 2 * 9 * H * H
    assert added("recurrent", matmul_backward_flops, run) == 24 * 2 * 9 * H * H - 6 * 2 * H * H
    one_more = Workload(batch_size=2, phase="decode", cached=9)
    assert added("recurrent", matmul_flops, one_more, "decoder") == 12 * 2 * H * H
    assert added("recurrent", matmul_flops, one_more, "encoder-decoder") == 12 * 2 * H * H


def test_positions_inside_attention_when_a_token_is_decoded() -> None:
    """2·d for each head and cached key, or distance; the encoder has run."""
    b, cached = 2, 9
    run = Workload(batch_size=b, phase="decode", cached=cached)
    for stack in ("decoder", "encoder-decoder"):
        assert added("relative", matmul_flops, run, stack) == N * 2 * (2 * b * cached * H)
        assert added("transformer-xl", matmul_flops, run, stack) == N * (2 * cached * H * H + 2 * b * cached * H)
        assert added("deberta", matmul_flops, run, stack) == N * 2 * (2 * 2 * D * H * H + 2 * b * 2 * D * H)
        for kind in ("rotary", "alibi", "t5", "multiplicative"):
            assert added(kind, matmul_flops, run, stack) == 0


def test_elementwise_work() -> None:
    b, l = 2, 7
    run, scores = Workload(batch_size=b, seq_len=l), 2 * A * 7 * 7
    work = {
        "rotary": N * 3 * 2 * b * l * H,  # queries and keys
        "alibi": N * scores,
        "t5": N * scores,
        "multiplicative": N * scores,
        "relative": N * (scores + b * l * H),
        "transformer-xl": N * (scores + 2 * b * l * H),
        "deberta": N * (2 * scores + 2 * 2 * D * H),  # its maps have biases
    }
    assert work.keys() == set(INSIDE_ATTENTION)
    for kind, expected in work.items():
        assert added(kind, elementwise_flops, run) == expected, kind


def test_buffers() -> None:
    run = Workload()
    assert added("alibi", buffer_elements, run, "encoder-decoder") == 2 * A
    assert added("sinusoidal", buffer_elements, run) == T * H
    assert memory(model("rotary")).answer == memory(model("none")).answer


@pytest.mark.parametrize("kind", INSIDE_ATTENTION)
def test_they_need_no_vocabulary_and_leave_the_attention_to_a_source_alone(kind: str) -> None:
    core = model(kind, "encoder-decoder", vocab_size=None)
    plain = Transformer(d_model=H, n_heads=A, n_layers=N)
    across = [
        next(node for node in one.tree(Workload()).walk() if node.component.name == "cross_attention").component
        for one in (core, plain)
    ]
    assert across[0] == across[1]
    assert params(core).answer - params(plain).answer == by_hand(kind, 2)


def test_what_runs_over_pairs_runs_over_those_that_a_pattern_leaves() -> None:
    """3l - 2 of l²; Transformer-XL and DeBERTa compare queries with all distances."""
    run, l = Workload(seq_len=64), 64
    assert added("relative", matmul_flops, run, pattern="local:1") - local() == N * 4 * (3 * l - 2) * H
    assert added("transformer-xl", matmul_flops, run, pattern="local:1") - local() == added(
        "transformer-xl", matmul_flops, run
    )
    for kind in ("alibi", "t5", "multiplicative"):
        assert added(kind, elementwise_flops, run, pattern="local:1") - local(elementwise_flops) == N * A * (3 * l - 2)


def local(measure: Measure = matmul_flops) -> Any:
    """What a model without positions has more by its pattern (less)."""
    return added("none", measure, Workload(seq_len=64), pattern="local:1")


def test_embedding_params_have_the_tables_of_positions_in_them() -> None:
    for kind in ("learned", "t5", "multiplicative", "relative"):
        totals: dict[str, Any] = params(model(kind)).to_dict()
        assert totals["embedding_params"] - V * H == by_hand(kind, 1)


def test_relative_vectors_of_values_that_are_wider() -> None:
    wide = params(model("relative", head_dim=8, value_dim=10)).answer
    plain = params(model("none", head_dim=8, value_dim=10)).answer
    assert wide - plain == N * (2 * D + 1) * (8 + 10)


def test_a_named_part() -> None:
    assert str(formula("position", "params", Transformer(positions="t5"))) == "aB"
    assert (
        str(formula("position", "params", Transformer(positions="recurrent", vocab_size=9, kind="encoder")))
        == "6h² + 6h"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"positions": "relative"},
        {"positions": "rotary", "max_distance": 4},
        {"positions": "alibi", "buckets": 4},
        {"positions": "rotary", "head_dim": 5},
        {"positions": "rotary", "vocab_size": 9, "max_len": 9},
        {"positions": "recurrent"},
        {"pattern": "local"},
        {"pattern": "local:4", "reach": 5},
        {"reach": 5},
    ],
    ids=str,
)
def test_contradictions_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidModel) as caught:
        params(Transformer(**wrong))
    assert caught.value.hint
