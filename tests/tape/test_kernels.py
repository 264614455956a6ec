"""The kernels that a forward pass launches, beside those that PyTorch's dispatcher is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from tfcalc import Workload, kernels, load
from tfcalc.configs.published import HFModel

LLAMA = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "vocab_size": 60,
    "architectures": ["LlamaForCausalLM"],
}


GPT2 = {"n_embd": 32, "n_head": 4, "n_layer": 2, "vocab_size": 60, "architectures": ["GPT2LMHeadModel"]}
CONFIGS = [
    LLAMA,
    LLAMA | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]},
    LLAMA | {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 16},
    LLAMA | {"model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "sliding_window": None, "pad_token_id": 0},
    LLAMA | {"model_type": "olmo2", "architectures": ["Olmo2ForCausalLM"]},
    {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_embd": 32,
        "n_head": 4,
        "n_layer": 2,
        "vocab_size": 60,
    },
    LLAMA | {"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "head_dim": 8, "sliding_window": 64},
]


@pytest.mark.torch
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config["model_type"])
def test_an_eager_forward_pass_launches_what_pytorch_does(config: dict[str, Any], precision: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from torch.utils._python_dispatch import TorchDispatchMode

    from tfcalc.verify.step import step, without_data

    class Asked(TorchDispatchMode):  # type: ignore[misc]  # PyTorch has no types here
        """Notes the name of every operation that makes new memory, in order."""

        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = operation(*args, **(kwargs or {}))
            first = made[0] if isinstance(made, tuple) else made
            if isinstance(first, torch.Tensor) and all(memory(first) != memory(x) for x in args if hasattr(x, "shape")):
                names.append(operation.overloadpacket.__name__)
            return made

    def memory(tensor: Any) -> int:
        found: int = tensor.untyped_storage()._cdata
        return found

    names: list[str] = []
    with without_data():
        model, inputs = step(config, batch=2, seq=9, target=None, attention="eager", recipe=precision)
        with torch.no_grad(), Asked():
            model.eval()(input_ids=inputs["input_ids"], use_cache=False)
    run = Workload(batch_size=2, seq_len=9, kernel="eager")
    ours = [kernel.name for kernel in kernels(HFModel(config), run, precision=precision)]
    if precision != "fp32" and config["model_type"] != "gpt2":  # whose softmax stays in its format
        # a CPU's softmax reads a copy in fp32; CUDA's has a flag for that (half_to_float)
        ours += ["_to_copy"] * ours.count("_softmax")
    assert sorted(ours) == sorted(names)


def test_decoding_reads_all_weights_and_the_whole_cache_once() -> None:
    """Llama-3-8B: h = 4,096, f = 14,336, 8 heads of keys and values of 128 numbers, 32 layers, bf16.

    The maps read every weight but the table's and the norms' (65 of h), and a row of each of their inputs: of h for
    Q, K, V, O, gate and input, of f for the way down, of h for the logits. Attention reads keys and values of all
    tokens, one query of each head, and a mask.
    """
    h, f, layers, batch, tokens = 4096, 14336, 32, 4, 8192
    found = kernels(load("llama-3-8b"), Workload(phase="decode", batch_size=batch, cached=tokens))
    weights = 2 * (8_030_261_248 - 128_256 * h - 65 * h)
    assert sum(each.reads for each in found if each.name == "mm") == weights + 2 * batch * (layers * (6 * h + f) + h)
    cache = 2 * 2 * layers * batch * tokens * 8 * 128
    attention = [each for each in found if each.name == "fused_attention"]
    assert len(attention) == layers
    assert sum(each.reads for each in attention) == cache + 2 * layers * batch * (h + tokens)
    everything = sum(each.reads + each.writes for each in found)
    assert weights + cache < everything < 1.01 * (weights + cache)
