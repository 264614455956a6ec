"""LoRA beside modules of torch and transformers, as peft runs it: parameters and FLOPs as PyTorch counts them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # torch's and transformers' own

import torch  # noqa: E402  # after the skip, like what follows

from tests.verify.lora import adapt  # noqa: E402
from tfcalc import Training, Workload, flops, params  # noqa: E402
from tfcalc.configs.published import HFModel  # noqa: E402
from tfcalc.verify.hugging_face import build  # noqa: E402

SMALL = {"hidden_size": 48, "num_attention_heads": 4, "num_hidden_layers": 3, "vocab_size": 300}
LLAMA = SMALL | {"model_type": "llama", "intermediate_size": 112, "num_key_value_heads": 2}
CONFIGS: dict[str, dict[str, Any]] = {
    "linear": LLAMA | {"architectures": ["LlamaForCausalLM"]},
    "tied": LLAMA | {"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True},
    "biases": SMALL | {"model_type": "gpt_neox", "intermediate_size": 96, "architectures": ["GPTNeoXForCausalLM"]},
    "Conv1D": {"model_type": "gpt2", "n_embd": 48, "n_head": 4, "n_layer": 3, "vocab_size": 300}
    | {"architectures": ["GPT2LMHeadModel"]},
    "experts": LLAMA
    | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}
    | {"architectures": ["MixtralForCausalLM"]},
    "latent": SMALL
    | {"model_type": "deepseek_v3", "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 16}
    | {"qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 8, "n_group": 2, "first_k_dense_replace": 3}
    | {"intermediate_size": 112, "num_key_value_heads": 4, "architectures": ["DeepseekV3ForCausalLM"]},
}
TARGETS = {"Conv1D": ["c_attn", "lm_head"], "biases": ["query_key_value"], "latent": ["q_b_proj", "o_proj"]}
USUAL = ["q_proj", "v_proj"]


def built(name: str, targets: list[str], *, device: str = "meta") -> Any:
    config = CONFIGS[name]
    model = build(config | {"_attn_implementation": "eager"}, config["architectures"][0], device=device)
    model.tie_weights()
    adapt(model.train(), 4, targets)
    return model


def listed(targets: list[str]) -> str:
    return ",".join(targets) or "all-linear"


@pytest.mark.parametrize("all_of_them", [False, True], ids=["some", "all-linear"])
@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_trained_is_what_torch_modules_train(name: str, all_of_them: bool) -> None:
    targets = [] if all_of_them else TARGETS.get(name, USUAL)
    model = built(name, targets)
    trained = sum(each.numel() for each in model.parameters() if each.requires_grad)
    counted = params(HFModel(CONFIGS[name]), training=Training(lora=4, lora_targets=listed(targets)))
    assert counted.answer == counted.totals["trainable_params"] == trained
    assert counted.totals["total_params"] == sum(each.numel() for each in model.parameters())


@pytest.mark.parametrize("checkpointing", ["none", "full", "early stop"])
@pytest.mark.parametrize("all_of_them", [False, True], ids=["some", "all-linear"])
@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "experts"])
def test_flops_of_a_step_are_what_the_counter_has(name: str, all_of_them: bool, checkpointing: str) -> None:
    """With the gradient of the embedding's output, which checkpoints need (enable_input_require_grads)."""
    from torch.utils.flop_counter import FlopCounterMode

    targets = [] if all_of_them else TARGETS.get(name, USUAL)
    model = built(name, targets)
    model.get_input_embeddings().register_forward_hook(lambda *given: given[-1].requires_grad_(True))
    if checkpointing != "none":
        model.gradient_checkpointing_enable({"use_reentrant": checkpointing == "full"})
    ids = torch.zeros(2, 16, dtype=torch.long, device="meta")
    forward, both = FlopCounterMode(display=False), FlopCounterMode(display=False)
    mask = torch.zeros(2, 1, 16, 16, device="meta")
    with both:
        with forward:
            logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        logits.sum().backward()
    run = Workload(phase="train", convolutions="counter", batch_size=2, seq_len=16, kernel="eager")
    if checkpointing != "none":
        run = run.replaced(recompute="full", early_stop=checkpointing == "early stop")
    counted = flops(HFModel(CONFIGS[name]), run, training=Training(lora=4, lora_targets=listed(targets)))
    assert counted.totals["forward_flops"] == forward.get_total_flops()
    assert counted.answer == both.get_total_flops()
