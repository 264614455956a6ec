"""What the weights of whole models take, against logs, papers and the tools that quantize them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import recorded
from tfcalc import catalog, memory
from tfcalc.configs.published import HFModel
from tfcalc.core.component import Component
from tfcalc.core.measure import buffer_elements, bytes_held, params
from tfcalc.errors import InvalidModel
from tfcalc.model import with_symbols
from tfcalc.plans import Serving
from tfcalc.serving.quantization_config import stated_format
from tfcalc.serving.weight_formats import format_named, single
from tfcalc.serving.weights import hold, weights
from tfcalc.workload import Workload

GIB, MIB = 1 << 30, 1 << 20
ROPE_FREQS = 64
"""Numbers in fp32 that llama.cpp keeps for Llama 3.1's rotary scaling, which are no weights of the model."""


def _tree(name: str) -> Component:
    return catalog.load(name).tree(Workload())


def _bytes(name: str, format: str, dtype: str = "bf16") -> Any:
    return weights(_tree(name), format_named(format), dtype=dtype).total(bytes_held)


def _config(**quantization: Any) -> HFModel:
    """A small Llama: 4 layers, so that what a config quantizes can be counted by hand."""
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4}
    fields = {**sizes, "num_key_value_heads": 4, "vocab_size": 1000, "tie_word_embeddings": False}
    return HFModel({"model_type": "llama", **fields, "quantization_config": quantization})


def _stored(model: HFModel) -> Any:
    recipe = stated_format(model)
    assert recipe is not None
    return hold(model.tree(Workload()), recipe).total(bytes_held)


LAYER = 4 * 256 * 256 + 3 * 256 * 512
"""Numbers in the seven matrices of a layer of :func:`_config`."""

REST = 2 * (2 * 1000 * 256 + 9 * 256)
"""Bytes of its embedding, head and norms in bf16."""


@pytest.mark.parametrize("row", recorded("memory/llama-quantize.jsonl"), ids=lambda row: str(row["type"]))
def test_llama_quantizes_file_types_take_the_bits_it_prints(row: dict[str, Any]) -> None:
    tree = _tree("llama-3.1-8b")
    held = weights(tree, format_named(row["type"])).total(bytes_held) + 4 * ROPE_FREQS
    count = tree.total(params) + ROPE_FREQS
    assert round(8 * held / count, 4) == row["bits_per_weight"]  # type: ignore[operator]
    assert held / GIB == pytest.approx(row["GiB"], abs=0.0051)  # type: ignore[operator]


@pytest.mark.parametrize(
    "row", recorded("memory/llama-cpp-logs.jsonl"), ids=lambda row: f"{row['model']}-{row['type']}"
)
def test_llama_cpps_logs_print_these_sizes(row: dict[str, Any]) -> None:
    held = _bytes(row["model"], row["type"])
    if row["f16_routers"]:  # as convert_hf_to_gguf.py wrote them then (its log: 32 tensors in f16); in fp32 today
        held -= 2 * sum(node.total(params) for node in _tree(row["model"]).walk() if node.component.kind == "router")
    assert held / GIB == pytest.approx(row["GiB"], abs=0.0051)


def test_the_serving_log_of_llama_70b_in_w8a8_is_met() -> None:
    """vllm PR #12569: 67.7229 GiB, of which 131072 · 128 bf16 numbers are the table of rotary angles."""
    rotary = 131072 * 128 * 2
    assert (_bytes("llama-3.1-70b", "w8a8") + rotary) / GIB == pytest.approx(67.7229, abs=2e-4)


def test_the_serving_log_of_llama_8b_in_bf16_is_met() -> None:
    """vllm#10517: 14.9888 GiB with the table of rotary angles."""
    assert (_bytes("llama-3.1-8b", "bf16") + 131072 * 128 * 2) / GIB == pytest.approx(14.9888, abs=1e-4)


@pytest.mark.parametrize(
    ("format", "mebibytes"), [("fp32", 413.18), ("fp16", 206.59), ("int8-plain", 103.29), ("int4-plain", 51.65)]
)
def test_accelerate_estimates_as_much_for_the_body_of_bert(format: str, mebibytes: float) -> None:
    """Its table for bert-base-cased, whose 418.18 is a slip for 413.18: 108,310,272 · 4 bytes."""
    model = catalog.load("bert-base-cased")
    assert isinstance(model, HFModel)
    body = HFModel({**model.data, "architectures": ["BertModel"]}).tree(Workload())
    found = weights(body, format_named(format)).total(bytes_held)
    assert found / MIB == pytest.approx(mebibytes, abs=0.01)  # type: ignore[operator]


@pytest.mark.parametrize(("name", "gibibytes"), [("gpt-oss-20b", 12.8), ("gpt-oss-120b", 60.8)])
def test_gpt_oss_takes_the_checkpoint_size_of_its_model_card(name: str, gibibytes: float) -> None:
    """arXiv 2508.10925, table 1: mxfp4 in the experts alone."""
    recipe = stated_format(catalog.load("gpt-oss-120b"))
    assert recipe is not None
    assert round(hold(_tree(name), recipe).total(bytes_held) / GIB, 1) == gibibytes  # type: ignore[operator]


def test_the_serving_log_of_qwen_in_awq_is_met() -> None:
    """vllm#13882, Qwen2.5-7B-Instruct-AWQ: 5.20 GiB with the table of 32,768 positions' rotary angles."""
    assert round((_bytes("qwen2.5-7b", "awq", "fp16") + 32768 * 128 * 2) / GIB, 2) == 5.20


def test_a_mixture_says_which_matrix_has_which_type() -> None:
    """llama.cpp's use_more_bits: of 32 layers the first 4, every third and the last 4 have Q6_K for values and down."""
    held = weights(_tree("llama-3.1-8b"), format_named("q4_k_m"))
    types = [
        (one.name, node.copies)
        for node in held.walk()
        for one in node.component.own.held
        if node.component.name in ("v_proj", "q_proj", "embed_tokens", "lm_head", "norm")
    ]
    assert sorted(types, key=str) == [
        ("E q4_k", 1),
        ("W_Q q4_k", 16),
        ("W_Q q4_k", 16),
        ("W_V q4_k", 16),
        ("W_V q6_k", 16),
        ("W_vocab q6_k", 1),
        ("γ", 1),
    ]


@pytest.mark.parametrize("format", ["fp16", "int8", "nf4", "gptq", "awq", "fp8-block", "mxfp4", "q8_0-pure"])
@pytest.mark.parametrize("name", ["llama-3.1-8b", "transformer-base", "mixtral-8x7b"])
def test_symbols_take_what_numbers_take(name: str, format: str) -> None:
    model = catalog.load(name)
    symbolic = weights(with_symbols(model).tree(Workload()), format_named(format)).total(bytes_held)
    assert symbolic.at(model.values()) == _bytes(name, format)  # type: ignore[attr-defined]


def test_plain_formats_store_every_parameter_so() -> None:
    assert _bytes("llama-3.1-8b", "fp32") == 4 * _tree("llama-3.1-8b").total(params)


def test_a_tied_head_is_held_once() -> None:
    assert _bytes("gpt2", "bf16") == 2 * 124_439_808


def test_buffers_keep_sixteen_bits_and_are_counted_once() -> None:
    report = memory(catalog.load("deepseek-v3"), weights="int4-plain")
    assert report.answer == _tree("deepseek-v3").total(params) / 2 + 58 * 256 * 2  # type: ignore[operator]


def test_head_embedding_and_norms_are_not_quantized() -> None:
    assert _stored(_config(quant_method="fp8")) == REST + 4 * (LAYER + 7 * 4)


def test_a_router_is_not_quantized_and_experts_are() -> None:
    held = weights(_tree("mixtral-8x7b"), single("w8a8"))
    bits = {node.component.name: node.component.own.held[0].bits for node in held.walk() if node.component.own.held}
    assert bits["gate"] == 16
    assert bits["gate_up_proj"] == 8


def test_the_scales_stand_beside_their_matrix() -> None:
    held = weights(_tree("llama-3.1-8b"), single("nf4-dq"))
    node = next(node for node in held.walk() if node.component.name == "q_proj")
    assert [one.name for one in node.component.own.held] == [
        "W_Q",
        "W_Q absmax",
        "W_Q nested absmax",
        "W_Q offset",
        "W_Q code",
        "W_Q nested code",
    ]


QUANTIZED = [
    ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "nf4"),
    ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}, "nf4-dq"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "fp4"),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
    ({"quant_method": "gptq", "bits": 3, "group_size": 64, "desc_act": True}, "gptq-3bit-g64"),
    ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "awq"),
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block"),
    ({"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"}, "nvfp4"),
]


@pytest.mark.parametrize(("fields", "name"), QUANTIZED, ids=[name for _, name in QUANTIZED])
def test_a_config_says_which_format(fields: dict[str, Any], name: str) -> None:
    model = _config(**fields)
    assert _stored(model) == weights(model.tree(Workload()), format_named(name)).total(bytes_held)


@pytest.mark.parametrize(
    ("ignored", "matrices"),
    [
        (["lm_head"], 28),
        (["model.layers.*.self_attn", "lm_head"], 12),
        (["re:.*self_attn.*"], 12),
        ([r"re:.*mlp\.(gate|up)_proj"], 20),
        (["model.layers.0.mlp.gate_proj", "model.layers.3"], 20),
        ([r"re:model\.layers\.[0-9]+\.mlp.*"], 16),
    ],
)
def test_modules_that_a_config_leaves_out_stay(ignored: list[str], matrices: int) -> None:
    """Of 4 layers of 7 linear maps: each quantized one has one fp32 scale."""
    group = {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}}
    model = _config(quant_method="compressed-tensors", config_groups={"group_0": group}, ignore=ignored)
    recipe = stated_format(model)
    assert recipe is not None
    held = hold(model.tree(Workload()), recipe)
    scales = [(node.copies, one) for node in held.walk() for one in node.component.own.held if "scale" in one.name]
    assert sum(copies for copies, _ in scales) == matrices


def test_scales_that_are_powers_of_two_take_a_byte() -> None:
    """transformers 5.23.0, FP8Linear(256, 256, block_size=(128, 128), scale_fmt="ue8m0"): 2 × 2 of float8_e8m0fnu."""
    stored = _stored(_config(quant_method="fp8", weight_block_size=[128, 128], scale_fmt="ue8m0"))
    assert stored == REST + 4 * (LAYER + LAYER // 128**2)


def test_groups_of_a_config_have_a_format_each() -> None:
    attention = {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}
    others = {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}}
    model = _config(quant_method="compressed-tensors", config_groups={"a": attention, "b": others}, ignore=["lm_head"])
    assert _stored(model) == REST + 4 * (LAYER + 4 * 256 * 4 + 3 * 4)


def test_kimis_experts_alone_are_quantized() -> None:
    """Its 32-number groups with bf16 scales, of text alone: the vision tower stays, though no list names it."""
    model = catalog.load("kimi-k2.5")
    recipe = stated_format(model)
    assert recipe is not None
    held = hold(model.tree(Workload()), recipe)
    packed = {node.path for node in held.walk() for one in node.component.own.held if "weight_packed" in one.name}
    assert packed
    assert all("language_model" in path and ".mlp.experts." in path for path in packed)


def test_layers_that_a_list_numbers_are_told_apart_beside_a_tower_whose_number_is_a_letter() -> None:
    """Gemma 4 31B in NVFP4: 60 layers whose attention stays, and an image tower of ``n_vis`` layers."""
    model = catalog.load("gemma-4-31b-it-nvfp4")
    recipe = stated_format(model)
    assert recipe is not None
    buffers = model.tree(Workload()).total(buffer_elements)
    held = hold(model.tree(Workload()), recipe).total(bytes_held) + 2 * buffers
    assert memory(model, weights="").answer == held


def test_a_config_without_either_says_nothing() -> None:
    assert stated_format(HFModel({"model_type": "gpt2"})) is None
    assert stated_format(catalog.load("transformer-base")) is None


def test_a_dtype_alone_is_the_format_of_everything() -> None:
    recipe = stated_format(HFModel({"model_type": "gpt2", "torch_dtype": "float16"}))
    assert recipe is not None
    assert recipe.format.name == recipe.dtype == "fp16"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"quant_method": "gtpq"}, "did you mean gptq"),
        ({"quant_method": 7}, "known:"),
        ({"quant_method": "gptq", "bits": 5}, "bits 5"),
        ({"quant_method": "awq", "group_size": "128"}, "group_size '128'"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size"),
        ({"quant_method": "fp8", "modules_to_not_convert": "lm_head"}, "is not a list"),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "has no group"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": "yes"}, "load_in_4bit"),
    ],
)
def test_a_config_that_fits_no_library_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidModel, match=says):
        stated_format(_config(**fields))


@pytest.mark.parametrize(
    "pattern", ["re:(a+)+$", "re:(.*)*b", "re:((a|b)|c)", "re:a{1,999}", "re:[", "re:" + "(a|b)" * 9]
)
def test_a_regular_expression_that_could_blow_up_is_never_run(pattern: str) -> None:
    group = {"targets": ["Linear"], "weights": {"num_bits": 8}}
    model = _config(quant_method="compressed-tensors", config_groups={"a": group}, ignore=[pattern])
    with pytest.raises(InvalidModel, match="is not supported; write names of modules"):
        stated_format(model)


@pytest.mark.parametrize("format", ["q8_0", "q4_0", "q6_k"])
def test_a_mixture_that_asks_for_no_size_is_open_to_symbols(format: str) -> None:
    model = catalog.load("llama-3.1-8b")
    symbolic = weights(with_symbols(model).tree(Workload()), format_named(format)).total(bytes_held)
    assert symbolic.at(model.values()) == _bytes("llama-3.1-8b", format)  # type: ignore[attr-defined]


def test_a_mixture_needs_to_know_how_many_experts_there_are() -> None:
    """With 8 of them llama.cpp gives keys and values Q8_0."""
    with pytest.raises(InvalidModel, match="which are symbols here; give the sizes"):
        weights(with_symbols(catalog.load("mixtral-8x7b")).tree(Workload()), format_named("q4_0"))


def test_a_list_of_layers_needs_to_know_how_many_there_are() -> None:
    tree = with_symbols(catalog.load("llama-3.1-8b")).tree(Workload())
    with pytest.raises(InvalidModel, match="give the number of layers"):
        weights(tree, single("w8a8"), keep=["model.layers.0"])


def test_falcons_rules_of_its_own_are_not_guessed() -> None:
    with pytest.raises(InvalidModel, match="rules of its own"):
        weights(_tree("falcon-7b"), format_named("q4_k_m"))


def test_a_mixture_needs_to_know_how_many_layers_there_are() -> None:
    from tfcalc.core.polynomial import symbols

    (n,) = symbols("n")
    model = catalog.load("llama-3.1-8b")
    assert isinstance(model, HFModel)
    tree = HFModel(model.data, instead={"num_hidden_layers": n}).tree(Workload())
    with pytest.raises(InvalidModel, match="which are symbols here; give the sizes"):
        weights(tree, format_named("q4_k_m"))


def test_layers_named_by_a_quantized_config_are_told_apart_in_an_answer() -> None:
    """int8 by llm-int8, layer 0 left in 16 bits: a scale in fp32 for each of a quantized matrix's outputs.

    h 256, f 512: 4h² + 3hf = 655,360 numbers and 4h + 2f + h = 2,304 outputs in a layer; 2 · 1000 · 256 in the tables.
    """
    model = _config(quant_method="bitsandbytes", load_in_8bit=True, llm_int8_skip_modules=["lm_head", "model.layers.0"])
    matrices, outputs, norms, tables = 655_360, 2_304, (2 * 4 + 1) * 256, 2 * 1000 * 256
    stored = 3 * (matrices + 4 * outputs) + 2 * (matrices + norms + tables)
    assert memory(model, weights="").totals["weights_bytes"] == stored
    serving = memory(model, workload=Workload(seq_len=8), serving=Serving()).totals
    assert serving["weights_bytes"] == stored


def test_rows_that_a_block_does_not_divide_have_another_type_in_an_answer_too() -> None:
    """h 192 and f 288 are no multiples of 256: q5_0 instead of q4_k, 22 bytes for 32 numbers; norms in fp32."""
    sizes = {"hidden_size": 192, "intermediate_size": 288, "num_hidden_layers": 4, "num_attention_heads": 3}
    model = HFModel({"model_type": "llama", **sizes, "num_key_value_heads": 3, "vocab_size": 100})
    numbers = 4 * (4 * 192 * 192 + 3 * 192 * 288) + 2 * 100 * 192
    assert memory(model, weights="q4_k-pure").totals["weights_bytes"] == numbers * 22 // 32 + (2 * 4 + 1) * 192 * 4


@pytest.mark.parametrize(("weights_in", "said"), [("int8", True), ("nf4", True), ("bf16", False), ("int4", False)])
def test_loading_is_told_where_it_needs_more(weights_in: str, said: bool) -> None:
    """bitsandbytes quantizes on the GPU (its ``Params4bit`` and ``Int8Params`` in ``.to("cuda")``)."""
    found = memory(catalog.load("llama-3.2-1b"), serving=Serving(weights=weights_in, context=1024))
    assert any("loading, in which bitsandbytes quantizes" in note for note in found.notes) is said


def test_an_engine_has_unquantized_tensors_in_16_bits() -> None:
    """Of Gemma 2, stored in fp32, embedding and norms stay whole, and vLLM computes in bf16 (its --dtype auto).

    At rest, and in transformers' own cache, they are as the checkpoint has them.
    """
    model = catalog.load("gemma-2-9b")
    whole = 256_000 * 3584 + (4 * 42 + 1) * 3584
    by_engine, by_library = (
        memory(model, serving=Serving(weights="int8", cache=cache)) for cache in ("paged", "dynamic")
    )
    assert (by_engine.conventions["unquantized"], by_library.conventions["unquantized"]) == ("bf16", "fp32")
    assert by_library.weights_bytes - by_engine.weights_bytes == 2 * whole


@pytest.mark.parametrize("name", ["gemma-2-27b", "gemma-2-27b-q5_k_m", "gemma-2-27b-q8_0"])
def test_a_cache_has_16_bits_where_the_config_says_32(name: str) -> None:
    """Keys and values of 46 layers, 16 heads of 128 numbers, 2 bytes each: llama.cpp's and vLLM's default."""
    found = memory(catalog.load(name), serving=Serving(context=1024))
    assert found.totals["kv_cache_bytes"] == 1024 * 2 * 46 * 16 * 128 * 2
