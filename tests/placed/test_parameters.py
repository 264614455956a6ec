"""What a device holds and computes, against Megatron-core's own ranks, and against the whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import recorded
from tfcalc import InvalidModel, Workload, load
from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component
from tfcalc.core.measure import elementwise_flops, matmul_flops, params
from tfcalc.core.number import Num
from tfcalc.nn.model import Decoder, ModelWithHead
from tfcalc.nn.module import Module, counted
from tfcalc.placed.layout import Layout
from tfcalc.placed.rules import on_device
from tfcalc.plans import Training
from tfcalc.training.peaks import training_step
from tfcalc.training.step_terms import bytes_in

RANKS = recorded("planning/params_per_rank.jsonl")
ENDS = {
    "num_layers_in_first_pipeline_stage": "first_layers",
    "num_layers_in_last_pipeline_stage": "last_layers",
    "account_for_embedding_in_pipeline_split": "counts_embedding",
    "account_for_loss_in_pipeline_split": "counts_loss",
}
"""Megatron-core's names of what a layout says of the ends of a pipeline."""


def as_published(sizes: dict[str, Any], words: int, *, untied: bool) -> dict[str, Any]:
    """The config.json of a model of these sizes, which are fields of Megatron-core's TransformerConfig."""
    heads = sizes["num_attention_heads"]
    if "normalization" not in sizes:
        assert sizes["ffn_hidden_size"] == 4 * sizes["hidden_size"]
        stack = {"n_embd": sizes["hidden_size"], "n_layer": sizes["num_layers"], "n_head": heads}
        return {"model_type": "gpt2", "vocab_size": words, "tie_word_embeddings": not untied, **stack}
    common = {
        **({"head_dim": sizes["kv_channels"]} if "kv_channels" in sizes else {}),
        "hidden_size": sizes["hidden_size"],
        "num_hidden_layers": sizes["num_layers"],
        "num_attention_heads": heads,
        "num_key_value_heads": sizes.get("num_query_groups", heads),
        "intermediate_size": sizes["ffn_hidden_size"],
        "vocab_size": words,
        "tie_word_embeddings": not untied,
    }
    if sizes.get("multi_latent_attention"):
        return common | {
            "model_type": "deepseek_v3",
            "first_k_dense_replace": sizes["moe_layer_freq"].count(0),
            "n_routed_experts": sizes["num_moe_experts"],
            "num_experts_per_tok": sizes["moe_router_topk"],
            "moe_intermediate_size": sizes["moe_ffn_hidden_size"],
            "n_shared_experts": sizes["moe_shared_expert_intermediate_size"] // sizes["moe_ffn_hidden_size"],
            "q_lora_rank": sizes["q_lora_rank"],
            "kv_lora_rank": sizes["kv_lora_rank"],
            "qk_nope_head_dim": sizes["qk_head_dim"],
            "qk_rope_head_dim": sizes["qk_pos_emb_head_dim"],
            "v_head_dim": sizes["v_head_dim"],
        }
    if "num_moe_experts" not in sizes:
        return common | {"model_type": "qwen3" if sizes.get("qk_layernorm") else "llama"}
    experts = {"num_experts_per_tok": sizes["moe_router_topk"]}
    if not sizes.get("qk_layernorm"):
        return common | experts | {"model_type": "mixtral", "num_local_experts": sizes["num_moe_experts"]}
    return (
        common
        | experts
        | {
            "model_type": "qwen3_moe",
            "num_experts": sizes["num_moe_experts"],
            "moe_intermediate_size": sizes["moe_ffn_hidden_size"],
        }
    )


def published(row: dict[str, Any]) -> Module:
    """The model of a row; GPT-2 with rotary positions, as the recorded one has them."""
    asked = row["layout"]
    model = HFModel(as_published(row["config"], asked["vocab"], untied=asked.get("untied", True))).module()
    if row["model"] != "gpt-2":
        return model
    assert isinstance(model, ModelWithHead)
    assert isinstance(model.base, Decoder)
    return model.replace(base=model.base.replace(added=()))


def layout_of(row: dict[str, Any]) -> Layout:
    """The rank of a row, in the layers that Megatron-core builds without Transformer Engine."""
    asked = {ENDS.get(name, name): value for name, value in row["layout"].items() if name not in ("vocab", "untied")}
    return Layout(**asked, stage=row["stage"], shares_latents=True)


def held(module: Module, at: Layout) -> Component:
    (tree,) = on_device(module, at).components()
    return tree


def of_experts(tree: Component) -> Num:
    """The parameters of experts that a rank holds."""
    return sum(node.total(params) for node in tree.walk() if node.component.kind == "experts")


def test_each_rank_holds_what_megatron_core_builds_there() -> None:
    """All of it, what of it are experts, and the vocabulary filled up."""
    modules: dict[str, Module] = {}
    for row in RANKS:
        shape = str((row["config"], row["layout"]["vocab"], row["layout"].get("untied")))
        module = modules.setdefault(shape, published(row))
        assert isinstance(module, ModelWithHead)
        at = layout_of(row)
        tree = held(module, at)
        assert (tree.total(params), of_experts(tree)) == (row["params"], row["expert_params"]), row
        assert at.share_of_words(module.output.fan_out) * at.tp == row["padded_vocab"], row


def test_transformer_engines_maps_down_to_latent_vectors_are_whole() -> None:
    """By hand: h(q + kv + r)(1 - 1/t) = 7168 (1536 + 512 + 64)/2 parameters more in each layer of DeepSeek-V3."""
    for row in RANKS:
        if row["layout"].get("tp") == 2 and "q_lora_rank" in row["config"]:
            at = layout_of(row)
            more = 7_569_408 * len(at.places(row["config"]["num_layers"]))
            assert held(published(row), at._replace(shares_latents=False)).total(params) == row["params"] + more


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """Llamas and GPT-2s that 8 devices can share, of as many layers as 2 stages of 2 chunks can have."""
    few = st.integers(1, 3)
    groups, width, layers, words = 8 * draw(few), 2 * draw(few), 4 * draw(few), 1024 * draw(few)
    heads, tied = groups * draw(few), draw(st.booleans())
    if draw(st.booleans()):
        sizes = {"n_embd": heads * width, "n_head": heads, "n_layer": layers, "n_positions": 64}
        return {"model_type": "gpt2", "vocab_size": words, **sizes, "tie_word_embeddings": tied}
    return {
        "model_type": draw(st.sampled_from(["llama", "qwen2", "qwen3"])),
        "hidden_size": heads * width,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "head_dim": width,
        "intermediate_size": 8 * draw(st.integers(1, 9)),
        "num_hidden_layers": layers,
        "vocab_size": words,
        "tie_word_embeddings": tied,
    }


RUN = Workload(phase="train", batch_size=2, seq_len=16)


@given(configs())
def test_a_device_alone_has_the_whole_model(config: dict[str, Any]) -> None:
    whole, alone = HFModel(config).tree(RUN), counted(on_device(HFModel(config).module(), Layout()), RUN)
    for measure in (params, matmul_flops, elementwise_flops):
        assert alone.total(measure) == whole.total(measure)
    held, found = ({node.path: node.component.own.weights for node in tree.walk()} for tree in (whole, alone))
    assert {path: found[path] for path, weights in held.items() if weights} == {
        path: weights for path, weights in held.items() if weights
    }


@given(configs(), st.sampled_from([2, 4, 8]), st.booleans())
def test_devices_share_every_product(config: dict[str, Any], tp: int, sequence_parallel: bool) -> None:
    module = HFModel(config).module()
    share = counted(on_device(module, Layout(tp=tp, sequence_parallel=sequence_parallel)), RUN)
    assert tp * share.total(matmul_flops) == HFModel(config).tree(RUN).total(matmul_flops)


@given(configs(), st.sampled_from([1, 2]))
def test_stages_have_all_layers_once(config: dict[str, Any], vpp: int) -> None:
    module = HFModel(config).module()
    trees = [counted(on_device(module, Layout(pp=2, vpp=vpp, stage=stage)), RUN) for stage in (0, 1)]
    whole = HFModel(config).tree(RUN)
    assert sum(tree.total(matmul_flops) for tree in trees) == whole.total(matmul_flops)
    second = config["vocab_size"] * config.get("n_embd", config.get("hidden_size"))  # of a table that is the head, too
    more = second if config["tie_word_embeddings"] else 0
    assert sum(tree.total(params) for tree in trees) == whole.total(params) + more


@given(st.data())
def test_each_layer_is_on_one_stage(data: st.DataObject) -> None:
    """However many the ends have; Megatron-core numbers the chunks of each stage in the same order."""
    pp, vpp, each = (data.draw(st.integers(least, 4)) for least in (2, 1, 1))
    at = Layout(pp=pp, vpp=vpp)
    if data.draw(st.booleans()):
        first, last = (vpp * data.draw(st.integers(0, 3)) for _ in range(2))
        at, layers = at._replace(first_layers=first, last_layers=last), first + last + (pp - 2) * vpp * each
    else:
        ends = [data.draw(st.booleans()) for _ in range(2)]
        at, layers = at._replace(counts_embedding=ends[0], counts_loss=ends[1]), pp * vpp * each - sum(ends)
    stages = [at._replace(stage=stage) for stage in range(pp)]
    places = [stage.places(layers) for stage in stages]
    assert sorted(place for each in places for place in each) == list(range(layers))
    assert [len(each) for each in places] == [stage.layers_of_stage(layers) for stage in stages]
    assert places == [sorted(each) for each in places]


SPARSE = {
    "model_type": "mixtral",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 96,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 1024,
    "tie_word_embeddings": False,
}
"""A mixture of experts that 8 devices can share."""


@pytest.mark.parametrize(("tp", "ep", "etp", "dp"), [(2, 4, 1, 2), (4, 2, 2, 1), (2, 2, 4, 4), (1, 8, 1, 8)])
def test_all_ranks_together_have_the_model_and_the_copies_of_what_is_whole(tp: int, ep: int, etp: int, dp: int) -> None:
    """Norms and routers on each rank of tensor parallelism, all else but experts once, of each expert all shares."""
    module = HFModel(SPARSE).module()
    h, layers, experts = 64, 4, 8
    copied = layers * (2 * h + h * experts) + h
    found: Num = 0
    for stage in (0, 1):
        tree = held(module, Layout(tp, True, 2, 1, stage, ep=ep, etp=etp, dp=dp))
        found += tp * (tree.total(params) - of_experts(tree)) + ep * etp * of_experts(tree)
    (whole,) = module.components()
    assert found == whole.total(params) + (tp - 1) * copied


@pytest.mark.parametrize(("tp", "ep", "etp", "dp"), [(2, 4, 1, 2), (4, 2, 2, 1), (2, 2, 4, 4), (1, 8, 1, 8)])
def test_devices_share_every_product_of_experts(tp: int, ep: int, etp: int, dp: int) -> None:
    """With a balanced load each computes 1/t of a batch of its own; but for the router of its own tokens alone."""
    module = HFModel(SPARSE).module()
    share = counted(on_device(module, Layout(tp, True, ep=ep, etp=etp, dp=dp)), RUN)
    assert tp * share.total(matmul_flops) == HFModel(SPARSE).tree(RUN).total(matmul_flops)


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (
            Layout(2, ep=3),
            "expert 3 x expert tensor 2 = 6 GPUs do not divide a stage's tensor 2 x .* nearest: expert 1",
        ),
        (Layout(ep=3, dp=8), "do not divide a stage's .* data 8 = 8; nearest: expert 2, 4"),
        (Layout(etp=3, dp=8), "do not divide a stage's .* data 8 = 8; nearest: expert tensor 2, 4"),
        (Layout(ep=3, dp=3), "experts 8 not divisible by expert 3; nearest: 2, 4"),
        (
            Layout(1, ep=4, etp=5, dp=20),
            "feed-forward size of an expert 96 not divisible by expert tensor 5; nearest: 4, 6",
        ),
        (Layout(pp=3), "layers 4 not divisible by pipeline 3; nearest: 2, 4"),
        (Layout(pp=3, first_layers=1), "layers between 3 not .* by pipeline stages 2; nearest: 0 or 2 layers of that"),
        (
            Layout(pp=4, first_layers=1, last_layers=2),
            "layers between 1 not .*; nearest: 2 or 4 layers of the first and",
        ),
        (Layout(pp=2, first_layers=3, last_layers=3), "layers of all stages: 6, and there are 4"),
        (Layout(pp=2, first_layers=5), "layers 4 less those of the first"),
        (Layout(pp=2, counts_loss=True), "layers and the loss 5 not divisible by pipeline 2"),
        (Layout(first_layers=2), "a pipeline of one stage has no first and last"),
        (Layout(pp=2, first_layers=2, counts_loss=True), "leave one of them out"),
        (Layout(cp=0), "context 0"),
    ],
)
def test_what_cannot_be_shared_is_refused_with_what_can(at: Layout, words: str) -> None:
    with pytest.raises(InvalidModel, match=words):
        on_device(HFModel(SPARSE).module(), at)


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v2-lite"])
def test_what_nobody_measured_in_memory_is_refused_there(name: str) -> None:
    plan = Training(backend="megatron", tensor_parallel=2, sequence_parallel=True, precision="bf16")
    with pytest.raises(InvalidModel, match="saves on each of several devices is not known"):
        training_step(load(name), Workload(phase="train"), plan)


def test_chunks_of_a_stage_stand_apart() -> None:
    """Megatron-core: chunk j of rank r has layers j·n/v + r·n/(pv) and those behind it; SmolLM3's fourth are apart."""
    config = {"model_type": "smollm3", "num_hidden_layers": 16, "no_rope_layer_interval": 4}
    module = HFModel(config).module()
    assert isinstance(module, ModelWithHead)
    assert isinstance(module.base, Decoder)
    rotated = [layer.sublayers[0].rope is not None for layer in module.base.layers.layers]  # type: ignore[attr-defined]
    for stage in (0, 1):
        piece: Any = on_device(module, Layout(pp=2, vpp=4, stage=stage))
        chosen = [chunk * 4 + stage * 2 + place for chunk in range(4) for place in (0, 1)]
        found = [layer.sublayers[0].part.rope is not None for layer in piece.base.layers.layers]
        assert found == [rotated[place] for place in chosen]
        assert set(found) == ({True} if stage == 0 else {True, False})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("t5-small", r"T5ForConditionalGeneration \(Open\)"),
        ("mamba-1.4b", r"mixer \(Mamba\)"),
        ("albert-large-v2", r"albert \(Encoder\)"),
        ("gpt-j-6b", "h with 1 norms for 2 sub-layers"),
        ("gemma-2-9b", r"layers \(Sandwich\)"),
        ("bert-base-uncased", r"BertModel \(Encoder\)"),
        ("deepseek-v4-flash", r"model \(HyperDecoder\)"),
    ],
)
def test_what_has_no_rule_is_refused(name: str, words: str) -> None:
    with pytest.raises(InvalidModel, match=words) as refused:
        on_device(load(name).module(), Layout(tp=2))
    assert "\n" not in str(refused.value)


def test_adapters_are_shared_as_the_maps_beside_them_are() -> None:
    """LoRA of rank r beside a map of i × o: ``r(i + o/t)`` where columns are shared, ``r(i/t + o)`` where rows are."""
    h, f, keys, layers, rank, tp = 4096, 14336, 1024, 32, 16, 8
    plan = Training(backend="megatron", tensor_parallel=tp, lora=rank, precision="bf16")
    step = training_step(load("llama-3-8b"), Workload(phase="train"), plan)
    by_columns = [h, keys, keys, f, f]
    by_rows = [h, f]
    of_a_layer = sum(rank * (h + wide // tp) for wide in by_columns) + sum(rank * (wide // tp + h) for wide in by_rows)
    assert bytes_in(step.placed.device.gradients) == 2 * layers * of_a_layer
