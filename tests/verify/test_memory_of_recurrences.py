"""Live: loops over time keep what PyTorch keeps, at lengths that end a chunk or begin one, and at the shortest.

Peaks of training steps are compared, too, with and without checkpointing.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.verify.compare_memory import counted
from tfcalc import Training, Workload, memory
from tfcalc.backends.transformers import Transformers
from tfcalc.configs.published import HFModel

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


KIMI = {
    "model_type": "kimi_linear",
    "architectures": ["KimiLinearForCausalLM"],
    **{"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2},
    **{"num_hidden_layers": 4, "vocab_size": 50, "pad_token_id": 0, "head_dim": 16, "kv_lora_rank": 16},
    **{"qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "num_experts": 4},
    **{"num_experts_per_token": 2, "moe_intermediate_size": 16},
    "linear_attn_config": {
        **{"short_conv_kernel_size": 4, "head_dim": 16, "num_heads": 2},
        **{"kda_layers": [1, 2, 3], "full_attn_layers": [4]},
    },
}
MINIMAX = {
    "model_type": "minimax",
    "architectures": ["MiniMaxForCausalLM"],
    **{"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8},
    **{"num_hidden_layers": 2, "vocab_size": 50, "pad_token_id": 0, "block_size": 32},
    **{"num_local_experts": 2, "num_experts_per_tok": 1},
}
WIDE = {"hidden_size": 64, "num_hidden_layers": 3}
"""As wide as the vocabulary is large, so that the peak is in a layer."""
DELTA = QWEN | WIDE | {"linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16}
PEAKS = [
    *((DELTA, length) for length in (64, 128, 330)),  # 1, 2 and 6 chunks
    *((config | WIDE, length) for config in (MAMBA, RWKV) for length in (3, 12)),
    *((MAMBA2 | WIDE | {"num_heads": 16}, length) for length in (8, 40)),
    (KIMI, 70),
    (MINIMAX, 200),
]


@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize(("config", "length"), PEAKS, ids=lambda it: it if isinstance(it, int) else it["model_type"])
def test_the_peak_of_a_step_is_pytorchs(
    config: dict[str, object], length: int, recompute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its bounds, which are said; the iteration before a loop's last is where most is live in backward."""
    from tests.verify.peaks import peaks
    from tfcalc.verify.step import step, without_data

    monkeypatch.setattr(Transformers, "experts_by", "batched_mm")  # as the referee runs them: other code needs data
    again = "nonreentrant" if recompute == "full" else None
    with without_data():
        built = step(config, batch=2, seq=length, target=None, attention="eager", recipe="bf16", recompute=again)
        tracked = peaks(*built, recipe="bf16", as_recorded=True)
    run = Workload(phase="train", batch_size=2, seq_len=length, kernel="eager", recompute=recompute)
    model = HFModel(config)
    ours = memory(model, run, training=Training(precision="bf16", optimizer="adamw", device="recorded"))
    within = max(each.off for each in model.module().time_loops())
    assert max(phase["peak_bytes"] for phase in ours.more["timeline"]) == pytest.approx(tracked.most, rel=within)
