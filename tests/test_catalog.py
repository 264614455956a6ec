"""How a model is named: a preset, a path, a pipe, an id of the Hub."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Program
from tfcalc import Workload, catalog, memory, params
from tfcalc.catalog import spelled
from tfcalc.core.measure import buffer_elements, bytes_held
from tfcalc.errors import Unavailable, UnknownModel
from tfcalc.serving.quantization_config import stated_format
from tfcalc.serving.weights import hold
from tfcalc.units import parse_bytes
from tools import presets

TINY = {"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2}
TINY |= {"num_attention_heads": 2, "vocab_size": 10}
TOTAL = 2 * 80 + 8 + 2 * (4 * 64 + 3 * 96 + 16)  # two tables, a norm, two layers by hand

PUBLISHED = {
    "llama-3-8b": 8_030_261_248,
    "gpt2": 124_439_808,
    "mixtral-8x7b": 46_702_792_704,
    "deepseek-v3": 671_026_404_352,
    "gpt2-large": 774_030_080,
    "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320,
    "llama-30b": 32_528_943_616,
    "llama-3-70b": 70_553_706_496,
    "llama-3.2-3b": 3_212_749_824,
    "qwen2.5-32b": 32_763_876_352,
    "qwen3-0.6b": 596_049_920,
    "gemma-7b": 8_537_680_896,
    "gemma-2-27b": 27_227_128_320,
    "phi-4": 14_659_507_200,
    "gpt-neox-20b": 20_554_567_680,
    "bloom": 176_247_271_424,
    "gpt-oss-20b": 20_914_757_184,
    "whisper-tiny": 37_760_640,
    "whisper-large-v2": 1_543_304_960,
    "gemma-3-27b-it": 27_432_406_640,
    "olmo-2-1124-13b": 13_716_198_400,
    "qwen3-coder-480b-a35b-instruct": 480_154_875_392,
    "qwen2.5-coder-7b": 7_615_616_512,
    "codellama-7b-hf": 6_738_546_688,
    "mistral-small-24b-instruct-2501": 47_144_806_400 // 2,
}
"""Totals that the models' cards, papers or checkpoints state (GPT-NeoX without the norms that its shards repeat); of
Mistral Small the bytes in its index, two for each parameter."""

ON_META = {
    "qwen3-coder-30b-a3b-instruct": 30_532_122_624,
    "qwen3-next-80b-a3b-thinking": 79_674_391_296,
    "qwen3.5-9b": 9_409_813_744,
    "qwen3-embedding-0.6b": 595_776_512,
    "devstral-small-2-24b-instruct": 24_011_361_280,
    "glm-4.5": 352_797_814_784,
    "glm-4.7-flash": 29_943_390_976,
    "smollm3-3b": 3_075_098_624,
    "all-minilm-l6-v2": 22_713_216,
    "all-mpnet-base-v2": 109_486_464,
    "bge-small-en-v1.5": 33_360_000,
    "bge-reranker-v2-m3": 567_755_777,
    "embeddinggemma-300m": 302_863_104,
    "zephyr-7b-beta": 7_241_732_096,
}
"""Parameters of the class that a preset's config names, built by transformers 5.23 on PyTorch's meta device."""


@pytest.mark.parametrize("name", ON_META)
def test_a_preset_has_the_size_that_transformers_builds(name: str) -> None:
    assert params(catalog.load(name)).answer == ON_META[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_preset_has_its_published_size(name: str) -> None:
    assert params(catalog.load(name)).answer == PUBLISHED[name]


def test_the_list_says_of_each_preset_what_its_file_makes() -> None:
    assert presets.text() == catalog.INDEX.read_text(encoding="utf-8"), "run make presets"


def test_there_are_many_presets_and_each_can_be_counted() -> None:
    names = catalog.names()
    assert len(names) >= 150
    for name in names:
        preset = catalog.preset(name)
        assert preset.source
        assert preset.name == spelled(name)
        assert preset.model().summary


NUMBER_FORMATS = {"float32", "float16", "bfloat16"}
UNPUBLISHED = ("gpt-3", "opt-175b", "transformer-")
"""Beginnings of the names of models that no checkpoint was published of."""


def test_every_preset_states_its_checkpoint_and_the_number_format_of_it() -> None:
    for preset in map(catalog.preset, catalog.names()):
        unpublished = preset.name.startswith(UNPUBLISHED)
        assert bool(preset.repository) is not unpublished, preset.name
        assert preset.config.get("dtype") in NUMBER_FORMATS or preset.family == "transformer", preset.name
        assert preset.sources["dtype"], preset.name
        assert preset.dtype_note or not unpublished, preset.name


@pytest.mark.parametrize("flags", [(), ("--train", "--seq", "128", "--layers", "1"), ("--serve", "--context", "128")])
def test_an_assumed_number_format_is_named_in_the_answer(tfcalc: Program, flags: tuple[str, ...]) -> None:
    answer = " ".join(tfcalc("memory", "gpt-3-small", *flags).stdout.split())
    assert "dtype float16 assumed: no checkpoint was published" in answer


def test_a_number_format_that_is_known_or_given_is_not_assumed(tfcalc: Program) -> None:
    assert "assumed" not in tfcalc("memory", "gpt2").stdout
    assert "assumed" not in tfcalc("memory", "gpt-3-small", "--dtype", "bf16").stdout


PUBLISHED_FILES = {
    "gpt-oss-20b": ("12.8 GiB", "gpt-oss model card, arXiv 2508.10925, table 1: checkpoint size"),
    "gpt-oss-120b": ("60.8 GiB", "gpt-oss model card, arXiv 2508.10925, table 1: checkpoint size"),
    "starcoder2-7b": ("14.35 GB", "its repository's three files, 4.89 + 4.95 + 4.51 GB"),
    "olmo-7b": ("27.55 GB", "its repository's six files, 4.94 + 4.99 + 4.92 + 2 x 4.86 + 2.98 GB"),
    "rwkv-4-430m-pile": ("1.721 GB", "its repository's file of 1,721,730,218 bytes"),
    "gpt-bigcode-santacoder": ("2.25 GB", "its repository's file"),
    "deberta-large": ("1.63 GB", "its repository's file"),
    "deberta-xlarge": ("1.52 GB", "its repository's file"),
    "switch-base-8": ("1.24 GB", "its repository's file"),
}
"""What a checkpoint's files take, as its card or its repository states."""


@pytest.mark.parametrize("name", PUBLISHED_FILES)
def test_a_checkpoint_in_its_own_format_is_as_large_as_its_files(name: str) -> None:
    stated = parse_bytes(PUBLISHED_FILES[name][0])
    assert _in_its_own_format(name) == pytest.approx(stated, rel=0.006)  # three digits are stated


def test_deepseek_v3_is_as_large_as_its_files_without_the_layer_that_predicts_more_tokens() -> None:
    """688,586,727,753 bytes by its model.safetensors.index.json (641.3 GiB), of which layer 61 is by hand:

    257 experts of 3 x 7168 x 2048, its attention's 187,105,280 numbers, each a byte; in bf16 a projection of
    2 x 7168 to 7168, the router's 256 x 7168, and the embedding and the head once more, 129,280 x 7168 each.
    """
    quantized = 257 * 3 * 7168 * 2048 + 187_105_280
    layer = quantized + 4 * quantized // 128**2 + 2 * (2 * 7168**2 + 256 * 7168 + 2 * 129_280 * 7168)
    assert _in_its_own_format("deepseek-v3") == pytest.approx(688_586_727_753 - layer, rel=1e-4)
    assert _in_its_own_format("deepseek-r1") == _in_its_own_format("deepseek-v3")


def test_nemotron_3_super_holds_its_experts_and_mambas_projections_in_a_byte() -> None:
    """By NVIDIA's table of precisions; all else in bf16, and two fp32 scales for each quantized matrix."""
    experts = 40 * (512 * 2 * 1024 * 2688 + 2 * 4096 * 5376)
    mamba = 40 * (4096 * (2 * 128 * 64 + 2 * 8 * 128 + 128) + 128 * 64 * 4096)
    scales = 2 * 4 * 40 * (512 * 2 + 2 + 2)
    rest = 2 * (120_668_687_360 - experts - mamba)
    assert _in_its_own_format("nvidia-nemotron-3-super-120b-a12b-fp8") == experts + mamba + scales + rest


def test_a_model_at_rest_is_answered_in_its_checkpoints_quantization() -> None:
    """One scale for a whole matrix is fp8 as well, but not 8 bits for everything."""
    model = catalog.load("nvidia-nemotron-3-super-120b-a12b-fp8")
    buffers = model.tree(Workload()).total(buffer_elements)
    assert memory(model).answer == _in_its_own_format("nvidia-nemotron-3-super-120b-a12b-fp8") + 2 * buffers


def _in_its_own_format(name: str) -> int:
    """Bytes of a preset's weights, by its config's dtype and quantization_config."""
    model = catalog.load(name)
    recipe = stated_format(model)
    assert recipe is not None
    bytes_of_all = hold(model.tree(Workload()), recipe).total(bytes_held)
    assert isinstance(bytes_of_all, int)
    return bytes_of_all


@pytest.mark.parametrize("name", ["GPT2", "Llama-3-8B", "llama 3 8b", "mixtral_8x7b"])
def test_a_name_may_be_spelled_as_people_do(name: str) -> None:
    assert params(catalog.load(name)).answer in PUBLISHED.values()


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownModel, match="did you mean llama-3-8b"):
        catalog.load("lama-3-8b")


def test_a_file_a_folder_and_a_pipe_are_one(tmp_path: Path, tfcalc: Program) -> None:
    text = json.dumps(TINY)
    (tmp_path / "config.json").write_text(text)
    for place in (tmp_path, tmp_path / "config.json"):
        assert tfcalc("params", str(place), "-q").stdout == f"{TOTAL}\n"
    assert tfcalc("params", "-", "-q", input=text).stdout == f"{TOTAL}\n"
    assert tfcalc("params", "--model", str(tmp_path), "-q").stdout == f"{TOTAL}\n"


def test_sizes_override_a_config(tmp_path: Path, tfcalc: Program) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    answer = tfcalc("params", str(tmp_path), "--layers", "3", "--vocab-size", "11", "-q")
    assert answer.stdout == f"{TOTAL + 16 + 4 * 64 + 3 * 96 + 16}\n"
    refused = tfcalc("params", str(tmp_path), "--norm", "rmsnorm")
    assert refused.returncode == 2
    assert "norm" in refused.stderr


def test_types_of_layers_follow_their_number(tfcalc: Program) -> None:
    two = tfcalc("params", "lfm2-350m", "--layers", "2", "--json")
    assert json.loads(two.stdout)["model"]["config"]["layer_types"] == ["conv", "conv"]


def test_a_slip_of_the_keyboard_is_named(tmp_path: Path, tfcalc: Program) -> None:
    nested = {"model_type": "qwen2_vl", "text_config": {"hiden_size": 64}}
    slip = {key: value for key, value in TINY.items() if key != "intermediate_size"} | {"intermediate_sise": 12}
    for config, name in ((slip, "intermediate_sise"), (nested, "text_config.hiden_size")):
        (tmp_path / "config.json").write_text(json.dumps(config))
        assert f"{name} is not a field" in tfcalc("params", str(tmp_path), "-q").stderr


def cached(folder: Path, name: str) -> Path:
    """A Hub cache that holds one config."""
    repository = folder / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / "abc123"
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc123")
    (snapshot / "config.json").write_text(json.dumps(TINY))
    return repository


def test_a_hub_id_is_read_from_the_cache(tmp_path: Path, tfcalc: Program) -> None:
    repository = cached(tmp_path, "someone/tiny")
    env = {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    assert tfcalc("params", "someone/tiny", "-q", env=env).stdout == f"{TOTAL}\n"
    assert tfcalc("params", "someone/tiny", "--offline", "-q", env=env).stdout == f"{TOTAL}\n"
    assert tfcalc("params", str(repository), "-q").stdout == f"{TOTAL}\n"


@pytest.mark.parametrize("more", [{"HF_HUB_OFFLINE": "1"}, {}])
def test_offline_an_id_that_is_not_cached_is_exit_4(tmp_path: Path, tfcalc: Program, more: dict[str, str]) -> None:
    flags = [] if more else ["--offline"]
    outcome = tfcalc("params", "openai/gpt2", *flags, env={"HF_HUB_CACHE": str(tmp_path), **more})
    assert outcome.returncode == 4
    assert "gpt2 is a preset" in outcome.stderr


def test_without_the_hub_library_an_id_is_exit_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with pytest.raises(Unavailable, match="tfcalc\\[hub\\]"):
        catalog.load("someone/something")


def test_a_config_can_be_read_as_another_family(tmp_path: Path, tfcalc: Program) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps(TINY | {"model_type": "lama", "architectures": ["LamaForCausalLM"]})
    )
    unknown = tfcalc("params", str(tmp_path))
    assert unknown.returncode == 3
    assert "did you mean llama?" in unknown.stderr
    assert "--as" in unknown.stderr
    assert "--via torch" in unknown.stderr
    answered = tfcalc("params", str(tmp_path), "--as", "llama")
    assert f"parameters ({TOTAL:,})" in answered.stdout
    assert "treated as llama" in answered.stdout
    assert answered.stderr == ""


def test_what_another_family_leaves_unread_is_said(tmp_path: Path, tfcalc: Program) -> None:
    """Snowflake Arctic's dense network beside the experts has no field in Mixtral's config."""
    beside = {"parallel_attn_mlp_res": True, "moe_layer_frequency": 1, "bos_token_id": 1, "router_aux_loss_coef": 0.1}
    (tmp_path / "config.json").write_text(json.dumps(TINY | beside | {"model_type": "arctic"}), encoding="utf-8")
    answered = tfcalc("params", str(tmp_path), "--as", "llama")
    unread = "moe_layer_frequency, parallel_attn_mlp_res"
    assert answered.stderr == f"tfcalc: not read as llama: {unread}; what they stand for is not counted\n"
    sized = beside | {"output_dim": 512, "time_steps": 4, "output_scores": True, "rms_norm_eps": 1e-5}
    (tmp_path / "config.json").write_text(json.dumps(TINY | sized | {"model_type": "arctic"}), encoding="utf-8")
    said = tfcalc("params", str(tmp_path), "--as", "llama").stderr
    assert said.startswith(
        "tfcalc: not read as llama: moe_layer_frequency, output_dim, parallel_attn_mlp_res, time_steps; "
    )
    many = beside | {f"field{place}": place + 1 for place in range(9)} | {"a\nb" * 50: 1}
    (tmp_path / "config.json").write_text(json.dumps(TINY | many | {"model_type": "arctic"}), encoding="utf-8")
    said = tfcalc("params", str(tmp_path), "--as", "llama").stderr
    assert said.count("\n") == 1
    assert " and 4 more; " in said


def test_supported_types_and_those_that_are_missing(tfcalc: Program) -> None:
    answer = json.loads(tfcalc("models", "--supported", "--json").stdout)
    assert answer["supported_count"] == len(answer["supported"]) > 200
    assert not set(answer["supported"]) & set(answer["missing"])
    table = tfcalc("models", "--supported").stdout
    assert f"{answer['supported_count']} model types" in table
    assert all(name in table for name in answer["missing"])


def test_every_type_that_must_be_there_is() -> None:
    from tfcalc.configs.config import model_types

    lines = (Path(__file__).parent / "oracle" / "model_types.txt").read_text(encoding="utf-8").splitlines()
    must = {line.split("\t")[1] for line in lines if line.startswith("must")}
    assert must <= set(model_types())


def _table(tfcalc: Program, width: int, *flags: str) -> list[str]:
    return tfcalc("models", *flags, env={"COLUMNS": str(width)}).stdout.splitlines()


def test_at_80_columns_a_preset_is_a_line_with_all_its_columns(tfcalc: Program) -> None:
    lines = _table(tfcalc, 80)
    assert max(map(len, lines)) <= 80
    assert lines[2].split() == ["model", "family", "size", "ctx", "dtype"]
    rows = {cells[0]: cells[1:] for line in lines[4:] if (cells := line.split())}
    assert set(catalog.names()) <= set(rows)
    assert rows["llama-3-8b"] == ["llama", "8.03B", "8k", "bf16"]
    assert rows["gpt-oss-20b"] == ["gpt_oss", "20.9B", "128k", "mxfp4"]
    assert rows["deepseek-v3"] == ["deepseek_v3", "671B", "160k", "fp8"]


def test_at_40_columns_each_name_is_a_line_and_whole(tfcalc: Program) -> None:
    lines = _table(tfcalc, 40)
    assert max(map(len, lines)) <= 40
    assert set(catalog.names()) <= set(lines)


@pytest.mark.parametrize("width", [40, 80])
def test_sources_are_never_cut(tfcalc: Program, width: int) -> None:
    text = " ".join(" ".join(_table(tfcalc, width, "--sources", "--family", "gpt_oss")).split())
    assert "pkg/hfutil/modelconfig/testdata/gpt_oss_20b.json" in text
    assert "…" not in text


def test_json_has_repository_context_and_sources(tfcalc: Program) -> None:
    models = {one["name"]: one for one in json.loads(tfcalc("models", "--json").stdout)["models"]}
    assert models["llama-3-8b"]["repository"] == "meta-llama/Meta-Llama-3-8B"
    assert models["llama-3-8b"]["context"] == 8192
    assert models["falcon-7b"]["context"] == 2048
    assert models["mpt-7b"]["context"] == 2048  # max_seq_len
    assert models["gpt-3"]["repository"] == ""
    assert models["gpt-3"]["sources"]["dtype"] == "assumed: no checkpoint was published"


def test_the_types_whose_training_memory_is_answered(tfcalc: Program) -> None:
    """Each that is listed is answered; one that is not is refused with the number of those that are."""
    listed = tfcalc("models", "--trainable", "-q").stdout.split()
    answer = json.loads(tfcalc("models", "--trainable", "--json").stdout)
    assert answer["trainable_count"] == len(answer["trainable"]) == len(listed)
    assert {"llama", "gpt2", "bert", "t5", "mixtral"} <= set(listed)
    assert {"mamba", "rwkv", "bamba", "zamba", "xlstm", "longformer"} <= set(listed)
    assert not {"dbrx", "chatglm"} & set(listed)
    refused = tfcalc("memory", "chatglm3-6b", "--train")
    expected = "training memory is not supported for chatglm; tfcalc models --trainable lists the"
    assert refused.returncode == 2
    assert f"{expected} {len(listed)} families that are" in refused.stderr


@pytest.mark.parametrize("flags", [("--supported", "--trainable"), ("--trainable", "--family", "llama")])
def test_one_list_at_a_time(tfcalc: Program, flags: tuple[str, ...]) -> None:
    assert tfcalc("models", *flags).returncode == 2
