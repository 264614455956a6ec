"""A norm and a family that nothing else in tfcalc knows of, beside PyTorch's run of the same mathematics.

The norm is RMSNorm of groups of a vector, times 1 + weight, plus a bias. The family reads fields of Llama's kind; it
has this norm behind its sub-layers, and a window in every third layer. The referee is transformers' Ministral with that
norm in that place.
"""

from __future__ import annotations

from typing import Any

import pytest

from tfcalc import HFModel, Serving, Workload, flops, formula, memory, params
from tfcalc.backends.program import program
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.component import Cost, Elementwise, Weight
from tfcalc.core.measure import tensors
from tfcalc.core.number import Num
from tfcalc.nn.layers import NormAfterSublayer
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import add, mul, shifted
from tfcalc.ops.rows import inverse_rms
from tfcalc.ops.shapes import reshape
from tfcalc.tape.interpreter import Numerics
from tfcalc.tape.tensor import Call, Tensor
from tfcalc.workload import EITHER
from tfcalc.zoo.blocks import decoders as kit
from tfcalc.zoo.blocks.layers import full_and_sliding, windows

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402  # after the skip
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402
from transformers.models.ministral.modeling_ministral import MinistralDecoderLayer  # noqa: E402

from tfcalc.verify.hugging_face import parameters  # noqa: E402
from tfcalc.verify.saved import saved  # noqa: E402
from tfcalc.verify.step import step, without_data  # noqa: E402

H, A, G, F, N, V, GROUPS, WINDOW = 64, 4, 2, 96, 6, 101, 4, 5
CONFIG: dict[str, Any] = {
    "model_type": "toy_grouped",
    "hidden_size": H,
    "num_attention_heads": A,
    "num_key_value_heads": G,
    "num_hidden_layers": N,
    "intermediate_size": F,
    "vocab_size": V,
    "hidden_act": "gelu_pytorch_tanh",
    "sliding_window": WINDOW,
    "norm_groups": GROUPS,
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}


# --- the norm, as tfcalc has it


class GroupedNorm(Module):
    """``x / rms(x) · (1 + γ) + β``, with an rms for each group of ``width`` numbers."""

    kind = "norm"

    groups: Num
    width: Num

    def own_params(self) -> Cost:
        """γ and β."""
        shape = (self.groups * self.width,)
        return Cost(weights=(Weight("γ", shape, minor=True), Weight("β", shape, minor=True, key="bias")))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:  # noqa: ARG002  # all libraries run the same kernels
        """On each row."""
        weight, bias = (x.trace.weight(each) for each in self.own_params().weights)
        # square, sum, times 1/rms, times 1 + γ, plus β; backward: g·(1 + γ), x̂, its mean (2), dx (3), dγ (2), dβ
        work = (Elementwise("grouped rmsnorm", x.elements, forward=5, backward=10),)
        call = Call("grouped rmsnorm", (x, weight, bias), x.shape, x.dtype, elementwise=work, saves_result=True)
        return x.trace.composite(call, lambda: self._kernels(x, weight, bias))

    def _kernels(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        trace, shape, dtype = x.trace, x.shape, x.dtype
        x = reshape(trace.to(x, "float32"), *shape[:-1], self.groups, self.width)
        x = reshape(mul(x, inverse_rms(x)), *shape)
        x = mul(x, shifted(trace.to(weight, "float32"), "1 + weight"))
        return trace.to(add(x, trace.to(bias, "float32")), dtype)


# --- the family


@family("toy_grouped", architecture="ToyForCausalLM")
def toy_grouped(c: Config) -> Module:
    """Llama with such norms behind its sub-layers, and a window in every third layer."""

    def norm(name: str) -> GroupedNorm:
        return GroupedNorm(name, c.size("norm_groups"), c.quotient("hidden_size", "norm_groups"))

    def layer(window: int | None) -> Module:
        norms = norm("post_attention_layernorm"), norm("post_feedforward_layernorm")
        return NormAfterSublayer("layers", (kit.attention(c, window=window), kit.gated(c)), norms)

    every_third = windows(c, lambda place: place % 3 == 2)
    return kit.decoder(c, layer, every_third, masks=full_and_sliding(c)).replace(norm=norm("norm"))


# --- the same mathematics in PyTorch


class TorchGroupedNorm(nn.Module):  # type: ignore[misc]
    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.weight, self.bias = (nn.Parameter(torch.zeros(H, dtype=dtype)) for _ in range(2))

    def forward(self, x: Any) -> Any:
        y = x.float().view(*x.shape[:-1], GROUPS, H // GROUPS)
        y = (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).view(x.shape)
        return (y * (1 + self.weight.float()) + self.bias.float()).to(x.dtype)


class TorchLayer(MinistralDecoderLayer):  # type: ignore[misc]
    def forward(self, x: Any, **given: Any) -> Any:
        x = x + self.post_attention_layernorm(self.self_attn(hidden_states=x, **given)[0])
        return x + self.post_feedforward_layernorm(self.mlp(x))


def referee(batch: int, length: int, attention: str = "eager", recipe: str = "fp32") -> Any:
    """Ministral with other norms, and what it is given."""
    types = ["sliding_attention" if place % 3 == 2 else "full_attention" for place in range(N)]
    config = {**CONFIG, "model_type": "ministral", "layer_types": types, "head_dim": H // A}
    model, given = step(config, batch=batch, seq=length, attention=attention, recipe=recipe)
    for layer in model.model.layers:
        layer.__class__ = TorchLayer
        del layer.input_layernorm
        layer.post_attention_layernorm = TorchGroupedNorm(model.dtype)
        layer.post_feedforward_layernorm = TorchGroupedNorm(model.dtype)
    model.model.norm = TorchGroupedNorm(model.dtype)
    return model, given


def toy() -> HFModel:
    return HFModel(CONFIG)


def test_parameters_by_name_and_their_closed_form() -> None:
    model, _ = referee(1, 1)
    theirs = parameters(model)
    assert tensors(toy().tree(Workload())) == theirs
    assert params(toy()).answer == sum(theirs.values())
    closed = formula("complete", "params", toy())
    sizes = {"h": H, "a": A, "g": G, "f": F, "n": N, "V": V}
    assert closed.at(**sizes) == sum(theirs.values())


@pytest.mark.parametrize("phase", ["forward", "train"])
def test_flops(phase: str) -> None:
    with without_data():
        model, given = referee(2, 7)
        with FlopCounterMode(display=False) as counter:
            loss = model(**given).loss
            if phase == "train":
                loss.backward()
    run = Workload(batch_size=2, seq_len=7, phase=phase, kernel="eager")
    assert flops(toy(), run).answer == counter.get_total_flops()


def test_operations_per_element_of_the_norms() -> None:
    root, norms = toy().tree(Workload(batch_size=2, seq_len=7, phase="train")), (2 * N + 1) * 2 * 7 * H
    work = [
        (node.copies, each)
        for node in root.walk()
        if node.component.kind == "norm"
        for each in node.component.own.elementwise
    ]
    assert sum(copies * each.forward * each.elements for copies, each in work) == 5 * norms
    assert sum(copies * each.backward * each.elements for copies, each in work) == 10 * norms


NUMERICS = {
    "fp32": Numerics("float32"),
    "bf16": Numerics("bfloat16"),
    "autocast": Numerics("float32", autocast="bfloat16"),
}


@pytest.mark.parametrize("recipe", NUMERICS)
@pytest.mark.parametrize("kernel", ["eager", "efficient"])
def test_saved_bytes(kernel: str, recipe: str) -> None:
    batch, length = 2, 9
    run = Workload(batch_size=batch, seq_len=length, phase="train", kernel=EITHER if kernel == "efficient" else kernel)
    ours = program(toy(), run, NUMERICS[recipe], "auto")
    loss = ours(toy().tree(run))
    with without_data():
        model, given = referee(batch, length, "eager" if kernel == "eager" else "sdpa", recipe)
        theirs = saved(model, given, recipe=recipe, kernel="auto" if kernel == "eager" else kernel)
    assert ours.tape.tracker.saved == theirs.total
    del loss


def test_cached_bytes() -> None:
    length = 12
    with without_data(), torch.no_grad():
        model, given = referee(1, length, recipe="bf16")
        cache = model(given["input_ids"], use_cache=True).past_key_values
    kept = [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]
    served = memory(toy(), serving=Serving(context=length, concurrency=1, cache="dynamic")).totals
    assert served["kv_cache_bytes"] == sum(tensor.numel() * tensor.element_size() for tensor in kept)
