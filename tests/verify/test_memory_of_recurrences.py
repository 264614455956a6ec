"""Live: loops over time keep what PyTorch keeps, at lengths that end a chunk or begin one, and at the shortest."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.verify.compare_memory import counted

pytestmark = pytest.mark.torch

MAMBA2 = {
    "model_type": "mamba2",
    "architectures": ["Mamba2ForCausalLM"],
    "hidden_size": 16,
    "expand": 2,
    "num_heads": 4,
    "head_dim": 8,
    "n_groups": 2,
    "state_size": 3,
    "chunk_size": 8,
    "num_hidden_layers": 1,
    "vocab_size": 50,
    "pad_token_id": 0,
}
QWEN = {
    "model_type": "qwen3_5_text",
    "architectures": ["Qwen3_5ForCausalLM"],
    "hidden_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "intermediate_size": 40,
    "vocab_size": 50,
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 4,
    "linear_value_head_dim": 10,
    "num_hidden_layers": 4,
    "pad_token_id": 0,
}
MAMBA = {
    "model_type": "mamba",
    "architectures": ["MambaForCausalLM"],
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "vocab_size": 50,
    "pad_token_id": 0,
}
RWKV = {"model_type": "rwkv", "architectures": ["RwkvForCausalLM"]} | {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "vocab_size": 50,
}
XLSTM = {
    "model_type": "xlstm",
    "architectures": ["xLSTMForCausalLM"],
    "hidden_size": 128,
    "num_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 50,
    "pad_token_id": 0,
}
CASES = [
    *((MAMBA2, length) for length in (5, 16)),
    *((QWEN, length) for length in (128, 200)),
    *((config, length) for config in (MAMBA, RWKV) for length in (2, 40)),
    *((XLSTM, length) for length in (2, 40)),  # shorter than a chunk
]


@pytest.mark.parametrize("recipe", ["fp32", "bf16"])
@pytest.mark.parametrize(("config", "length"), CASES, ids=lambda it: it if isinstance(it, int) else it["model_type"])
def test_a_loop_over_time_keeps_what_pytorch_keeps(config: dict[str, object], length: int, recipe: str) -> None:
    from tests.verify.saved import run_step
    from tfcalc.verify.step import without_data

    asked = {"batch": 2, "seq": length, "target": None, "attention": "eager", "recipe": recipe}
    with without_data():
        theirs = run_step(config, asked)
    ours = counted(theirs, "eager", recipe)
    assert (ours.total, ours.once) == (theirs.total, theirs.total)


@pytest.mark.parametrize("recipe", ["fp32", "autocast"])
@pytest.mark.parametrize("length", [8, 12, 19])
def test_a_matrix_lstm_keeps_what_pytorch_keeps_of_chunks_and_of_the_tokens_behind_them(
    length: int, recipe: str
) -> None:
    """Only where weights are in fp32: transformers multiplies states in fp32 by keys in the format of the weights."""
    from tests.verify.saved import run_step
    from tfcalc.verify.step import without_data

    asked = {"batch": 2, "seq": length, "target": None, "attention": "eager", "recipe": recipe}
    with without_data():
        theirs = run_step(XLSTM | {"chunk_size": 4}, asked)
    ours = counted(theirs, "eager", recipe)
    assert (ours.total, ours.once) == (theirs.total, theirs.total)
