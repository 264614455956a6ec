"""What must hold between blocks, whatever model they are in."""

from __future__ import annotations

import pytest

from tests.conftest import recorded
from tfcalc.blocks import GATED, FeedForward
from tfcalc.blocks.experts import MixtureOfExperts
from tfcalc.configs.fields import FIELDS
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import active_params, matmul_flops, params
from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.latent import LatentAttention
from tfcalc.nn.rope import Rope
from tfcalc.workload import Sequences, Workload

RUN = Workload(batch_size=2, seq_len=8)
STREAM = Sequences(2, 8)
FFN = FeedForward(16, 40, "silu", names=GATED, gated=True)


def test_one_expert_is_the_feed_forward_network_and_a_router() -> None:
    alone, moe = FFN("mlp", STREAM, RUN), MixtureOfExperts(16, 1, 1, FFN)("moe", STREAM, RUN)
    assert moe.total(params) == alone.total(params) + 16
    assert moe.total(matmul_flops) == alone.total(matmul_flops) + 2 * STREAM.tokens * 16


def test_experts_are_stored_all_and_run_by_the_active_ones() -> None:
    alone, moe = FFN("mlp", STREAM, RUN), MixtureOfExperts(16, 8, 3, FFN)("moe", STREAM, RUN)
    router = 16 * 8
    assert moe.total(params) == 8 * alone.total(params) + router
    assert moe.total(active_params) == 3 * alone.total(params) + router
    assert moe.total(matmul_flops) == 3 * alone.total(matmul_flops) + 2 * STREAM.tokens * router


def test_passes_multiply_the_work_and_not_the_weights() -> None:
    once = FFN("mlp", STREAM, RUN)
    shared = once._replace(passes=12)
    assert shared.total(params) == shared.total(active_params) == once.total(params)
    assert shared.total(matmul_flops) == 12 * once.total(matmul_flops)


def test_latent_attention_with_full_ranks_keeps_its_heads() -> None:
    maps = Linear("q_proj", 32, 4 * 8), Linear("kv_a_proj", 32, 8 + 2), Linear("kv_b_proj", 8, 4 * (6 + 8))
    norm, output = Norm("kv_a_layernorm", "rmsnorm", 8), Linear("o_proj", 4 * 8, 32)
    block = LatentAttention("self_attn", 4, 4, 8, 8, maps, (norm,), output, rope=Rope(2), kv_rank=8, nope_dim=6)
    (small,) = block.components()
    by_hand = 32 * 4 * 8 + 32 * (8 + 2) + 8 + 8 * 4 * (6 + 8) + 4 * 8 * 32  # DeepSeek-V2, section 2.1
    assert small.total(params) == by_hand


@pytest.mark.parametrize("model", ["llama-3-8b", "gpt2", "mixtral-8x7b", "deepseek-v3", "bert-base-cased", "t5-small"])
def test_sympy_gives_the_same_number(model: str) -> None:
    sympy = pytest.importorskip("sympy")
    from tfcalc.catalog import load
    from tfcalc.symbolic import tree

    chosen = load(model)
    closed = sympy.sympify(tree(chosen).total(params))
    values = chosen.values()
    assert closed.subs({symbol: values[str(symbol)] for symbol in closed.free_symbols}) == chosen.tree(RUN).total(
        params
    )


@pytest.mark.parametrize("row", recorded("params.public.jsonl")[::12], ids=lambda row: str(row["model"]))
def test_flops_are_linear_in_the_batch(row: dict[str, object]) -> None:
    model = HFModel(row["config"])  # type: ignore[arg-type]  # it is a mapping

    def flops(batch: int) -> Num:
        """But those of a comparison of all with all, which is a square."""
        root = model.tree(Workload(batch_size=batch, seq_len=16)).root()
        squares = sum(node.total(matmul_flops) for node in root.walk() if node.component.kind == "similarity")
        return root.total(matmul_flops) - squares

    assert flops(6) - flops(4) == 2 * (flops(2) - flops(1))


def test_no_field_of_a_config_has_a_letter_of_the_workload() -> None:
    letters = {size.symbol for size in Workload().dimensions().values()}
    assert letters.isdisjoint(field.letter for field in FIELDS.values())
