"""Names as people type them: each finds its preset, or is answered with the names that may be meant."""

from __future__ import annotations

import pytest

from tests.conftest import Program
from tfcalc import catalog
from tfcalc.errors import UnknownModel

FOUND = {
    "gemma3:27b": "gemma-3-27b-it",
    "zephyr-7b": "zephyr-7b-beta",
    "qwen3-next-80b": "qwen3-next-80b-a3b-thinking",
    "glm-4.5": "glm-4.5",
    "qwen3-coder:30b": "qwen3-coder-30b-a3b-instruct",
    "mistral-small:24b": "mistral-small-24b-instruct-2501",
    "sentence-transformers/all-MiniLM-L6-v2": "all-minilm-l6-v2",
    "HuggingFaceTB/SmolLM3-3B": "smollm3-3b",
    "gemma-3-1b": "gemma-3-1b-it",
    "qwen3:30b": "qwen3-30b-a3b",
    "qwen3-coder:480b": "qwen3-coder-480b-a35b-instruct",
    "Qwen/Qwen2.5-Coder-7B-Instruct": "qwen2.5-coder-7b",
    "phi4:14b": "phi-4",
    "mistral-nemo": "mistral-nemo-instruct-2407",
    "mixtral:8x22b": "mixtral-8x22b-v0.1",
    "command-r:35b": "c4ai-command-r-v01",
    "llama4:scout": "llama-4-scout-17b-16e-instruct",
    "llama-3.2-11b-vision": "llama-3.2-11b-vision-instruct",
    "olmo-2-7b": "olmo-2-1124-7b",
    "deepseek-v3.1:671b": "deepseek-v3",
    "deepseek-r1:32b": "qwen2.5-32b",
    "llama3.1:8b:latest": "llama-3.1-8b",
    "llama3-8b": "llama-3-8b",
    "Llama 3 8B": "llama-3-8b",
    "llama3:8b": "llama-3-8b",
    "meta-llama-3-8b": "llama-3-8b",
    "Meta-Llama/meta-llama-3-8b": "llama-3-8b",
    "meta-llama/Meta-Llama-3-8B-Instruct": "llama-3-8b",
    "llama-3-70b-instruct": "llama-3-70b",
    "Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "llama-2-7b-chat-hf": "llama-2-7b",
    "llama2-7b": "llama-2-7b",
    "llama-3.3-70b": "llama-3.3-70b-instruct",
    "mistral-7b": "mistral-7b",
    "mistral-7b-instruct-v0.3": "mistral-7b-v0.3",
    "mistralai/Mixtral-8x7B-Instruct-v0.1": "mixtral-8x7b",
    "mixtral-8x7b-v0.1": "mixtral-8x7b",
    "gpt-2": "gpt2",
    "gpt2-xl": "gpt2-xl",
    "gpt-2-xl": "gpt2-xl",
    "openai-community/GPT2": "gpt2",
    "gpt3": "gpt-3",
    "gptj-6b": "gpt-j-6b",
    "gptoss-20b": "gpt-oss-20b",
    "qwen2.5-7b-instruct": "qwen2.5-7b",
    "Qwen/Qwen2.5-7B-Instruct": "qwen2.5-7b",
    "qwen-2.5-7b": "qwen2.5-7b",
    "qwen3-8b-base": "qwen3-8b",
    "gemma2-9b-it": "gemma-2-9b",
    "gemma-3-4b": "gemma-3-4b-it",
    "phi3-mini": "phi-3-mini",
    "deepseekv3": "deepseek-v3",
    "deepseek-ai/deepseek-v3": "deepseek-v3",
    "deepseek-r1-distill-qwen-7b": "qwen2.5-7b",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": "llama-3.1-8b",
    "falcon-40b-instruct": "falcon-40b",
    "yi-34b-chat": "yi-34b",
    "internlm2-chat-7b": "internlm2-7b",
    "command-r-plus": "c4ai-command-r-plus",
    "Google-BERT/BERT-Base-Uncased": "bert-base-uncased",
    "debertav3-base": "deberta-v3-base",
    "nemotron-nano-9b-v2": "nvidia-nemotron-nano-9b-v2",
}


@pytest.mark.parametrize(("typed", "name"), FOUND.items())
def test_a_name_finds_its_preset(typed: str, name: str) -> None:
    assert catalog.preset(typed).name == name


SEVERAL = {
    "llama3": ["llama-3-8b", "llama-3-70b", "llama-3.1-8b"],
    "llama-2": ["llama-2-7b", "llama-2-13b", "llama-2-70b"],
    "gemma3": ["gemma-3-270m", "gemma-3-4b-it", "gemma-3-12b-it", "gemma-3-27b-it"],
    "llama4": ["llama-4-maverick-17b-128e-instruct", "llama-4-scout-17b-16e-instruct"],
    "bert-base": ["bert-base-cased", "bert-base-uncased"],
    "phi-3": ["phi-3-mini", "phi-3-medium-4k-instruct"],
    "gpt-oss": ["gpt-oss-20b", "gpt-oss-120b"],
    "whisper-large": ["whisper-large-v2", "whisper-large-v3"],
    "qwen2.5": ["qwen2.5-0.5b", "qwen2.5-7b"],
    "mixtral": ["mixtral-8x7b", "mixtral-8x22b-v0.1"],
    "deepseek-r1-distill": ["deepseek-r1-distill-qwen-7b", "deepseek-r1-distill-llama-8b"],
}


@pytest.mark.parametrize(("typed", "names"), SEVERAL.items())
def test_the_name_of_a_family_is_answered_with_its_presets(typed: str, names: list[str]) -> None:
    with pytest.raises(UnknownModel, match=f"{typed!r} is ambiguous: ") as refused:
        catalog.preset(typed)
    listed = refused.value.message.partition(": ")[2].split(", ")
    assert set(names) <= {name.partition(" and ")[0] for name in listed}


NEAREST = {
    "lama-3-8b": "did you mean llama-3-8b?",
    "llama-3-30b": "did you mean llama-3-8b or llama-3-70b?",
    "mistal-7b": "did you mean mistral-7b or ",
    "qwne2.5-7b": "nearest: qwen2.5-7b, ",
    "gpt-oss-20": "did you mean gpt-oss-20b or gpt-oss-120b?",
    "gemma-3-13b": "nearest: gemma-3-270m, gemma-3-1b-it, gemma-3-4b-it, gemma-3-12b-it, gemma-3-27b-it",
    "minimax-m2.5": "did you mean minimax-m2.7?",
    "kimi-k3": "did you mean kimi-k2-instruct or kimi-k2.5?",
    "jamba": "did you mean ai21-jamba-1.5-large?",
    "qwen3-next": "give a qwen3_next config.json or its Hub id",
    "deepseek-r1-distill-qwen-1.5b": "did you mean deepseek-r1?",
    "xyzzy": "tfcalc models lists the presets",
}


@pytest.mark.parametrize(("typed", "hint"), NEAREST.items())
def test_any_other_name_is_answered_with_the_nearest(typed: str, hint: str) -> None:
    with pytest.raises(UnknownModel) as refused:
        catalog.preset(typed)
    assert hint in refused.value.hint
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("name", ["phi-14b", "qwen-32b", "llama-8b", "gemma-27b", "phi-4-mini-9b", "minimax-m2"])
def test_a_name_that_leaves_out_what_decides_is_no_preset(name: str) -> None:
    """There are several Qwen with 32B."""
    with pytest.raises(UnknownModel):
        catalog.preset(name)


def test_a_tag_of_a_file_is_the_model_in_its_format(tfcalc: Program) -> None:
    """Llama 3.1 8B in Q4_K_M is a file of 4.92 GB; in fp16 it has 2 bytes a parameter."""
    for tag in ("llama3.1:8b-instruct-q4_K_M", "Llama-3.1-8B-Instruct-Q4_K_M.gguf", "llama-3.1-8b-gguf:q4_k_m"):
        assert int(tfcalc("memory", tag, "-q").stdout) == pytest.approx(4.92e9, rel=0.005)
        assert tfcalc("params", tag, "-q").stdout == "8030261248\n"
    assert int(tfcalc("memory", "llama3.1:8b-fp16", "-q").stdout) == pytest.approx(2 * 8_030_261_248, rel=1e-3)
    assert "weights in q8_0" in tfcalc("memory", "llama3.2:3b-q8_0", "--serve", "--context", "1k").stdout
    refused = tfcalc("memory", "llama3.1:8b-q4_K_XL")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (3, "", 1)
    assert "write q4_k_m or q8_0" in refused.stderr


@pytest.mark.parametrize("size", ["llama-3-8b", "llama-30b", "llama-2-7b", "gemma-2b"])
def test_a_version_is_never_read_as_a_size(size: str) -> None:
    """``llama3`` is a Llama 3, and not the Llama of 30 billion parameters."""
    from tfcalc.catalog import meant

    assert (size in meant("llama3", catalog.names())) is (size == "llama-3-8b")


@pytest.mark.parametrize("id", ["TheBloke/Llama-2-7B", "Qwen/Qwen2.5-7B-Instruct-AWQ", "someone/gpt2"])
def test_another_owners_repository_or_another_format_is_no_preset(id: str) -> None:
    from tfcalc.catalog import resolve

    assert resolve(id, catalog.repositories()) is None


def test_the_heading_says_which_config_was_used(tfcalc: Program) -> None:
    answer = tfcalc("params", "meta-llama/Llama-3.1-8B-Instruct", "--offline")
    assert answer.returncode == 0
    assert "llama-3.1-8b: LlamaForCausalLM" in answer.stdout


@pytest.mark.parametrize("name", ["", "/", "a/b/c", "-", "\0", "x" * 5000, "llama\n3", "é" * 120, "../llama-3-8b", "3"])
def test_no_name_breaks_the_search(name: str) -> None:
    with pytest.raises(UnknownModel):
        catalog.preset(name)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://huggingface.co/Qwen/Qwen3-8B", "qwen3-8b"),
        ("https://huggingface.co/Qwen/Qwen3-8B/blob/main/config.json", "qwen3-8b"),
        ("huggingface.co/meta-llama/Meta-Llama-3-8B/tree/main", "llama-3-8b"),
        ("https://hf.co/gpt2?library=transformers", "gpt2"),
    ],
)
def test_the_address_of_a_page_names_its_model(address: str, name: str) -> None:
    from tfcalc.catalog import load

    assert load(address, offline=True).summary == load(name).summary


@pytest.mark.parametrize("address", ["https://github.com/a/b", "https://huggingface.co/datasets/a/b"])
def test_the_address_of_anything_else_is_no_model(address: str) -> None:
    from tfcalc.catalog import load
    from tfcalc.errors import TfcalcError

    with pytest.raises(TfcalcError, match="is not known"):
        load(address, offline=True)
