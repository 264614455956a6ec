"""The ranks of a served model: each tensor against transformers' own plans, and sums over ranks against the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from math import prod
from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import Serving, Workload, load
from tfcalc.catalog import names
from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component, Node
from tfcalc.core.measure import params
from tfcalc.core.traced import formula_of, value_of
from tfcalc.errors import InvalidModel, TfcalcError
from tfcalc.model import Model
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear
from tfcalc.placed.served import ServedLayout, on_rank
from tfcalc.serving.ranks import ServingRank, ServingRanks

GIB = 2**30
PLANS = {row["model_type"]: row["plan"] for row in recorded("serving/tp_plans.jsonl")}
COLUMNS, ROWS = ("colwise", "packed_colwise", "colwise_gather_output"), ("rowwise", "rowwise_split_input")


def ranks(model: Model, **layout: Any) -> tuple[ServingRank, ...]:
    return ServingRanks(model, ServedLayout(**layout), Workload(), Serving()).each


def fields(model: Model) -> Mapping[str, Any]:
    """The config of the part that reads text."""
    data: Mapping[str, Any] = model.data if isinstance(model, HFModel) else {}
    return data.get("text_config") or data


def tensors(tree: Component) -> Iterator[tuple[Node, str, tuple[Any, ...], int]]:
    """Each stored tensor, with its shape and how many there are."""
    for node in tree.walk():
        for weight in node.component.own.weights:
            if weight.tied_to is None:
                yield node, weight.name, weight.shape, node.copies  # type: ignore[misc]


def sampled() -> list[str]:
    """Every 9th preset, and some of each kind of attention, mixture and mixer."""
    always = {"gpt-oss-120b", "deepseek-v3", "qwen3.5-35b-a3b", "granite-4.0-h-micro", "gemma-3-12b-it"}
    return sorted({*names()[::9], *always})


def test_each_tensor_is_shared_out_as_transformers_plans_it() -> None:
    """Columns of what is column-wise there, rows of what is row-wise; heads of keys are whole where there is one."""
    compared = 0
    for name in sampled():
        model = load(name)
        plan = PLANS.get(fields(model).get("model_type", ""), {})
        try:
            (rank,) = ranks(model, tp=2)
        except InvalidModel:
            continue
        whole = ServingRanks(model, ServedLayout(), Workload(), Serving()).each[0].tree
        for (node, weight, shape, _), (_, _, here, _) in zip(tensors(whole), tensors(rank.tree), strict=True):
            how = next((way for key, way in plan.items() if fnmatch(node.path, f"*layers*.{key}")), None)
            if how is None or len(shape) != 2 or "linear_attn.out_proj" in node.path:
                continue  # the latter's columns are gathered there; engines split its rows, as heads are
            compared += 1
            wanted = (shape[0], shape[1] // 2) if how in COLUMNS else (shape[0] // 2, shape[1])
            of_one_head = fields(model).get("num_key_value_heads") == 1 and node.path.endswith(("k_proj", "v_proj"))
            whole_too = here == shape and (of_one_head or shape[1] == 1)
            assert here == wanted or whole_too, (name, node.path, weight, shape, here)
    assert compared > 150


@pytest.mark.parametrize("gpus", [2, 16])
def test_ranks_add_up_to_the_model_and_stated_copies(gpus: int) -> None:
    """A tensor is shared out, or whole on each GPU; of fewer heads than GPUs each is repeated; tables are filled up."""
    found = 0
    for name in sampled():
        model = load(name)
        try:
            (rank,) = ranks(model, tp=gpus)
            (alone,) = ranks(model)
        except TfcalcError:
            continue
        found += 1
        mixing = tuple(each.path for each in alone.tree.walk() if each.component.kind in ("attention", "ssm"))
        for (node, weight, shape, copies), (_, _, here, there) in zip(
            tensors(alone.tree), tensors(rank.tree), strict=True
        ):
            assert copies == there
            axes = [(whole, part) for whole, part in zip(shape, here, strict=True) if whole != part]
            assert len(axes) < 2, (name, node.path, weight)
            for whole, part in axes:
                shared = whole == part * gpus
                filled = node.component.kind in ("embedding", "output") and -(-whole // 64) * 64 == part * gpus
                repeated = node.path.startswith(mixing)
                assert shared or filled or (repeated and whole < part * gpus), (name, node.path, weight, whole, part)
    assert found > 20


def test_heads_of_keys_are_repeated_and_latent_vectors_are_everywhere() -> None:
    eight = [ranks(load("llama-3.1-8b"), tp=tp)[0].cache_bytes_per_token for tp in (1, 2, 4, 8, 16)]
    assert eight == [131072, 65536, 32768, 16384, 16384]  # 32 layers of 8 heads of 128 keys and values in bf16
    latent = [ranks(load("deepseek-v3"), **how)[0].cache_bytes_per_token for how in ({"tp": 8}, {"dp": 8, "ep": 8})]
    assert latent == [61 * 576 * 2] * 2
    (falcon,) = ranks(load("falcon-180b"))
    assert falcon.cache_bytes_per_token == 80 * 8 * 64 * 2 * 2  # the heads that are distinct


def test_weights_of_ranks_as_vllm_logs_them() -> None:
    """Loading model weights took so much, with the angles of all positions in bf16: 128 numbers each.

    vLLM's PR 10511; genlm/genlm-backend#10; mlcommons/inference#2267.
    """
    logged = [("llama-3-8b", 2, 8192, 7.48), ("llama-3-8b", 4, 8192, 3.7418), ("llama-3.1-8b", 8, 131072, 1.9028)]
    for name, tp, positions, gib in logged:
        (rank,) = ranks(load(name), tp=tp)
        assert value_of(rank.weight_bytes + positions * 128 * 2) / GIB == pytest.approx(gib, rel=1e-3)


def test_stages_have_their_layers_and_what_stands_at_the_ends() -> None:
    model = load("llama-3-8b")
    stages = ranks(model, tp=2, pp=3)
    layer, table = 218_112_000, 128_256 * 4096  # of which the norms of a layer are 2 · 4,096
    assert [rank.layers for rank in stages] == [
        11,
        11,
        10,
    ]  # vLLM's get_pp_indices: what is left over is not the last's
    inside = [layers * (layer - 8192) // 2 + layers * 8192 for layers in (11, 11, 10)]
    assert [rank.params for rank in stages] == [inside[0] + table // 2, inside[1], inside[2] + table // 2 + 4096]
    tied = ranks(load("llama-3.2-1b"), pp=2)
    assert sum(rank.params for rank in tied) == 1_235_814_400 + 128_256 * 2048  # a table is on both ends
    hybrid = ranks(load("qwen3.5-35b-a3b"), pp=2)
    assert [rank.cache_bytes_per_token for rank in hybrid] == [5 * 2 * 256 * 2 * 2] * 2  # every fourth layer attends


def test_experts_are_shared_out_and_those_left_over_are_on_the_first() -> None:
    model = load("deepseek-v3")
    expert = 3 * 7168 * 2048
    (tensor,), (expert_parallel,), (data,) = (
        ranks(model, **how) for how in ({"tp": 8}, {"tp": 8, "ep": 8}, {"dp": 8, "ep": 8})
    )
    for each in (tensor, expert_parallel, data):
        sizes = [n * s[0] * s[1] for node, _, s, n in tensors(each.tree) if ".experts." in node.path]
        assert sum(sizes) == 58 * 256 * expert // 8
    assert data.alike == 8
    (whole,) = ranks(model)
    assert whole.params - data.params == 58 * 256 * expert * 7 // 8  # all else is on each
    more, fewer = ranks(load("qwen3-30b-a3b"), dp=12, ep=12)
    assert (more.alike, fewer.alike) == (8, 4)  # 128 = 8 · 11 + 4 · 10
    assert more.params - fewer.params == 48 * 3 * 2048 * 768


def test_layouts_that_divide_nothing_are_refused() -> None:
    refusals = {
        ("llama-3-8b", "tp", 3): "heads 32 not divisible by tensor 3",
        ("llama-3-8b", "ep", 2): "expert parallelism has no effect",
        ("rwkv-4-1b5-pile", "tp", 2): "no rule of an engine splits",
        ("flan-t5-small", "pp", 2): "a pipeline cuts the one stack",
        ("llama-3-8b", "pp", 64): "layers 32",
    }
    for (name, what, size), fact in refusals.items():
        with pytest.raises(InvalidModel, match=fact):
            ranks(load(name), **{what: size})


def test_a_mixer_whose_maps_are_not_those_of_heads_is_refused() -> None:
    """As in tensor product attention (arXiv 2501.06425): what extends Attention may split otherwise."""

    class Factors(Attention):
        """Attention whose queries, keys and values are made of factors."""

    maps = tuple(Linear(name, 64, rank * 16) for name, rank in (("q", 3), ("k", 1), ("v", 1)))
    mixer = Factors("attention", 4, 4, 16, 16, maps, (), Linear("o", 64, 64))
    with pytest.raises(InvalidModel, match=r"no rule of an engine splits attention \(Factors\)"):
        on_rank(mixer, ServedLayout(tp=2))
    whole = tuple(each.replace(fan_out=64) for each in maps)
    split = on_rank(mixer.replace(inward=whole), ServedLayout(tp=2))
    assert isinstance(split, Factors)
    assert [each.fan_out for each in split.inward] == [32, 32, 32]


def test_sizes_remember_what_they_are() -> None:
    found = ServingRanks(load("llama-3-8b"), ServedLayout(tp=2), Workload(), Serving(), formulas=True).each[0]
    layers, norms = "2*a*d*h*n*t^-1 + 2*d*g*h*n*t^-1 + 3*f*h*n*t^-1", "2*h*n + h"
    assert repr(formula_of(found.params)).endswith(f"{layers} + {norms}")
    assert found.params == ranks(load("llama-3-8b"), tp=2)[0].params


def test_a_rank_of_one_is_the_model_but_for_its_filled_vocabulary() -> None:
    for name in sampled():
        model = load(name)
        try:
            (rank,) = ranks(model)
        except TfcalcError:
            continue
        if "falcon" in name:
            continue  # whose copies of keys an engine does not make
        rows = [
            (prod(here) - prod(shape)) * copies
            for (_, _, shape, copies), (_, _, here, _) in zip(
                tensors(model.tree(Workload(phase="decode", batch_size=1, cached=512))), tensors(rank.tree), strict=True
            )
            if shape != here and any(size % 64 for size in shape)
        ]
        assert rank.params == model.tree(Workload(phase="decode", batch_size=1, cached=512)).total(params) + sum(rows)


def test_blocks_with_a_scale_are_not_cut() -> None:
    """Qwen3-235B-A22B-FP8 on 8 GPUs: 1,536/8 = 192 are no whole blocks of 128, which vLLM refuses.

    Qwen2.5-72B's 29,568 inner numbers are 231 groups of 128, which 4 GPUs cannot share.
    """

    def stored(name: str, weights: str, **layout: Any) -> tuple[ServingRank, ...]:
        return ServingRanks(load(name), ServedLayout(**layout), Workload(), Serving(weights=weights)).each

    for layout in ({"tp": 4}, {"tp": 8, "ep": 8}):
        assert stored("qwen3-235b-a22b", "fp8-block", **layout)
    assert stored("qwen2.5-72b", "fp8-channel", tp=4)
    for name, weights, gpus in (("qwen3-235b-a22b", "fp8-block", 8), ("qwen2.5-72b", "gptq", 4)):
        with pytest.raises(InvalidModel, match=f"no whole number of blocks of {weights}"):
            stored(name, weights, tp=gpus)
