"""Live: a Llama of fused kernels, built of PyTorch's own and of functions that keep what Liger-Kernel's keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.training.test_training_rows import NUMERICS
from tfcalc import Workload
from tfcalc.backends.program import program
from tfcalc.configs.published import HFModel

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

from torch import nn  # noqa: E402  # after the skip, like what follows
from torch.autograd import Function  # noqa: E402
from torch.nn import functional  # noqa: E402

from tfcalc.verify.saved import saved  # noqa: E402
from tfcalc.verify.step import without_data  # noqa: E402

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 50,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
}
HEADS, GROUPS, WIDTH = 4, 2, 16
RECIPES = {"fp32": "fp32", "bf16": "bf16 (pure)", "autocast": "fp32 weights, CUDA bf16 autocast"}


class Norm(Function):  # type: ignore[misc]
    """LigerRMSNormFunction: X, W, and RSTD in fp32."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        flat = x.view(-1, x.shape[-1])
        deviation = torch.empty(flat.shape[0], dtype=torch.float32)
        ctx.save_for_backward(flat, weight, deviation)
        return torch.empty_like(x)


class Turn(Function):  # type: ignore[misc]
    """LigerRopeFunction: it writes over what it reads, and keeps cos and sin."""

    @staticmethod
    def forward(ctx: Any, x: Any, cos: Any, sin: Any) -> Any:
        ctx.save_for_backward(cos, sin)
        return x.view_as(x)


class Gate(Function):  # type: ignore[misc]
    """LigerSiLUMulFunction: a and b."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return torch.empty_like(a)


class Loss(Function):  # type: ignore[misc]
    """LigerFusedLinearCrossEntropyFunction: the gradients of input and weight."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        ctx.save_for_backward(torch.zeros_like(x), torch.zeros_like(weight))
        return torch.empty((), dtype=torch.float32)


class Block(nn.Module):  # type: ignore[misc]
    """A Llama block."""

    def __init__(self) -> None:
        super().__init__()
        h, f, kv = 64, 96, GROUPS * WIDTH
        self.norms = nn.ParameterList([nn.Parameter(torch.ones(h)) for _ in range(2)])
        self.q, self.k, self.v, self.o = (nn.Linear(h, width, bias=False) for width in (h, kv, kv, h))
        self.gate, self.up, self.down = (nn.Linear(*sizes, bias=False) for sizes in ((h, f), (h, f), (f, h)))

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        normed = Norm.apply(x, self.norms[0])
        q, k, v = (
            made.unflatten(-1, (heads, WIDTH)).transpose(1, 2)
            for made, heads in ((self.q(normed), HEADS), (self.k(normed), GROUPS), (self.v(normed), GROUPS))
        )
        q, k = Turn.apply(q, cos, sin), Turn.apply(k, cos, sin)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(mixed.transpose(1, 2).flatten(2))
        normed = Norm.apply(x, self.norms[1])
        return x + self.down(Gate.apply(self.gate(normed), self.up(normed)))


class Llama(nn.Module):  # type: ignore[misc]
    """Words, blocks, the last norm, and the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 64)
        self.layers = nn.ModuleList([Block() for _ in range(2)])
        self.norm = nn.Parameter(torch.ones(64))
        self.head = nn.Linear(64, 50, bias=False)

    def forward(self, ids: Any) -> Any:
        x = self.words(ids)
        cos, sin = (torch.zeros((1, ids.shape[1], WIDTH), dtype=self.words.weight.dtype) for _ in range(2))
        for layer in self.layers:
            x = layer(x, cos, sin)
        return Loss.apply(Norm.apply(x, self.norm), self.head.weight)


@contextmanager
def weights_of(kind: Any) -> Iterator[None]:
    """What is made now has this type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(kind)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("recipe", ["bf16", "autocast"])
def test_a_fused_llama_keeps_what_torch_keeps(recipe: str, batch: int) -> None:
    with without_data():
        with weights_of(torch.bfloat16 if recipe == "bf16" else torch.float32):
            module = Llama()
        inputs = {"ids": torch.zeros((batch, 32), dtype=torch.int64)}
        found = saved(module, inputs, recipe=recipe, kernel="flash", loss=lambda out: out)
    run = Workload(phase="train", recompute="none", batch_size=batch, seq_len=32)
    whole = HFModel(CONFIG)
    m = program(whole, run, NUMERICS[RECIPES[recipe]], "fused")
    loss = m(whole.tree(run))
    assert loss.node is not None
    assert m.tape.tracker.saved == found.total


def beside(*given: Any, run: Callable[[], Any]) -> int:
    """The bytes that an operation keeps beside what it is given and what it makes, on the meta device."""
    kept: dict[int, Any] = {}

    def keep(one: Any) -> Any:
        return kept.setdefault(one.untyped_storage()._cdata, one)

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one):
        made = run()
    known = {one.untyped_storage()._cdata for one in (*given, made)}
    assert {one.untyped_storage()._cdata for one in given} <= set(kept)
    return sum(one.untyped_storage().nbytes() for storage, one in kept.items() if storage not in known)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_torchs_layer_norm_keeps_its_input_and_8_bytes_for_a_row(dtype: Any) -> None:
    x, weight = (torch.empty(shape, dtype=dtype, device="meta", requires_grad=True) for shape in ((6, 64), (64,)))
    assert beside(x, weight, run=lambda: functional.layer_norm(x, [64], weight, weight)) == 6 * 8


def test_torchs_flash_attention_keeps_4_bytes_for_a_row_and_24_for_its_random_numbers() -> None:
    q, k, v = (torch.empty((2, 4, 9, 16), dtype=torch.bfloat16, device="meta", requires_grad=True) for _ in range(3))
    flash = torch.ops.aten._scaled_dot_product_flash_attention
    assert beside(q, k, v, run=lambda: flash(q, k, v, 0.1, True)[0]) == 4 * 2 * 4 * 9 + 24
