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
from tfcalc.nn.model import Decoder, ModelWithHead
from tfcalc.nn.module import Module, counted
from tfcalc.placed.layout import Layout
from tfcalc.placed.rules import on_device
from tfcalc.plans import Training
from tfcalc.training.peaks import training_step
from tfcalc.training.step_terms import bytes_in

RANKS = recorded("megatron/params_per_rank.jsonl")
NAMES = {"gpt-2": "gpt2"}


def published(row: dict[str, Any]) -> Module:
    """The preset; GPT-2 with rotary positions, and perhaps a head of its own, as the recorded one has them."""
    model = load(NAMES.get(row["model"], row["model"])).module()
    if row["model"] != "gpt-2":
        return model
    assert isinstance(model, ModelWithHead)
    assert isinstance(model.base, Decoder)
    model = model.replace(base=model.base.replace(added=()))
    return model.replace(head=model.output.replace(tied_to=None)) if row["untied"] else model


def held(module: Module, at: Layout) -> Component:
    (tree,) = on_device(module, at).components()
    return tree


@pytest.mark.parametrize("row", RANKS, ids=lambda row: "-".join(str(value) for value in row.values()))
def test_each_rank_holds_what_megatron_core_builds_there(row: dict[str, Any]) -> None:
    at = Layout(tp=row["tp"], pp=row["pp"], vpp=row.get("vpp", 1), stage=row["stage"])
    assert held(published(row), at).total(params) == row["params"]


@pytest.mark.parametrize("row", RANKS, ids=lambda row: "-".join(str(value) for value in row.values()))
def test_a_vocabulary_is_filled_up_as_megatron_fills_it_up(row: dict[str, Any]) -> None:
    module = published(row)
    assert isinstance(module, ModelWithHead)
    assert Layout(tp=row["tp"]).share_of_words(module.output.fan_out) * row["tp"] == row["padded_vocab"]


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
        ("mixtral-8x7b", r"mlp \(Mixture\)"),
        ("t5-small", r"T5ForConditionalGeneration \(Open\)"),
        ("mamba-1.4b", r"mixer \(Mamba\)"),
        ("albert-large-v2", r"albert \(Encoder\)"),
        ("gpt-j-6b", "h with 1 norms for 2 sub-layers"),
        ("gemma-2-9b", r"layers \(Sandwich\)"),
        ("bert-base-uncased", r"BertModel \(Encoder\)"),
        ("deepseek-v2-lite", r"self_attn \(LatentAttention\)"),
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
