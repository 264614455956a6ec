"""What must hold between blocks, whatever model they are in."""

from __future__ import annotations

import pytest

from tests.conftest import recorded
from tfcalc.configs.config import FIELDS
from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component, Measure
from tfcalc.core.measure import active_params, matmul_flops, params
from tfcalc.core.number import Num
from tfcalc.workload import Workload

RUN = Workload(batch_size=2, seq_len=8)
TOKENS = 2 * 8
SIZES = {"hidden_size": 16, "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 50}
SIZES |= {"num_key_value_heads": 2}
DENSE = HFModel({"model_type": "mistral", "sliding_window": None, **SIZES})


def mixture(experts: int, chosen: int) -> Component:
    config = {"model_type": "mixtral", "num_local_experts": experts, "num_experts_per_tok": chosen}
    return HFModel(config | SIZES).tree(RUN)


def network(measure: Measure) -> Num:
    """What the feed-forward network of the dense model has."""
    (found,) = (node for node in DENSE.tree(RUN).root().walk() if node.component.name == "mlp")
    return found.total(measure)


def test_one_expert_is_the_feed_forward_network_and_a_router() -> None:
    alone, moe = DENSE.tree(RUN), mixture(1, 1)
    assert moe.total(params) == alone.total(params) + 16
    assert moe.total(matmul_flops) == alone.total(matmul_flops) + 2 * TOKENS * 16


def test_experts_are_stored_all_and_run_by_the_active_ones() -> None:
    alone, moe = DENSE.tree(RUN), mixture(8, 3)
    router = 16 * 8
    assert moe.total(params) == alone.total(params) + 7 * network(params) + router
    assert moe.total(active_params) == alone.total(params) + 2 * network(params) + router
    flops = alone.total(matmul_flops) + 2 * network(matmul_flops) + 2 * TOKENS * router
    assert moe.total(matmul_flops) == flops


def test_passes_multiply_the_work_and_not_the_weights() -> None:
    once = DENSE.tree(RUN)
    shared = once._replace(passes=12)
    assert shared.total(params) == shared.total(active_params) == once.total(params)
    assert shared.total(matmul_flops) == 12 * once.total(matmul_flops)


def test_latent_attention_with_full_ranks_keeps_its_heads() -> None:
    ranks = {"q_lora_rank": None, "kv_lora_rank": 8, "qk_nope_head_dim": 6, "qk_rope_head_dim": 2, "v_head_dim": 8}
    sizes = SIZES | {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 4, "first_k_dense_replace": 1}
    small = HFModel({"model_type": "deepseek_v2", **sizes, **ranks}).tree(RUN)
    (attention,) = (node for node in small.root().walk() if node.component.name == "self_attn")
    by_hand = 32 * 4 * 8 + 32 * (8 + 2) + 8 + 8 * 4 * (6 + 8) + 4 * 8 * 32  # DeepSeek-V2, section 2.1
    assert attention.total(params) == by_hand


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
