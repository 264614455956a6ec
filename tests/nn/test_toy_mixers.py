"""Two mixers that nothing else in tfcalc knows of, each beside a torch module of the same mathematics.

One is attention whose keys and values are made in every other layer and read in two, with a gate; it has a cache. The
other is a recurrence with a matrix as its state. Of each everything that tfcalc answers is held against PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tfcalc import HFModel, Serving, Workload, flops, formula, memory, params
from tfcalc.backends.program import program
from tfcalc.configs.config import Config
from tfcalc.configs.family import FAMILIES, family
from tfcalc.core.component import Cached, Elementwise
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import add, mul
from tfcalc.ops.loops import State, loop
from tfcalc.ops.products import matmul
from tfcalc.ops.shapes import merge_heads, reshape, select, stack, transpose, unsqueeze
from tfcalc.ops.work import FP32, STATE, by_sequence
from tfcalc.tape.interpreter import Numerics
from tfcalc.tape.tensor import Call, Leaf, MatMul, Tensor
from tfcalc.workload import EITHER
from tfcalc.zoo.blocks import decoders as kit

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402  # after the skip
from torch.nn.functional import cross_entropy, pad, scaled_dot_product_attention, silu  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from tfcalc.verify.saved import saved  # noqa: E402
from tfcalc.verify.step import without_data  # noqa: E402

H, A, G, D, F, N, V = 64, 4, 2, 16, 96, 3, 101
SIZES: dict[str, Any] = {
    "hidden_size": H,
    "num_attention_heads": A,
    "num_key_value_heads": G,
    "num_hidden_layers": N,
    "intermediate_size": F,
    "vocab_size": V,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "dtype": "bfloat16",
}


# --- attention to keys that two layers share, as tfcalc has it


class Gated(Attention):
    """Attention whose result is multiplied by a gate of its own input; the keys and values are given."""

    gate: Linear = ...  # type: ignore[assignment]  # a field without a default

    def forward(self, x: Tensor, k: Tensor, v: Tensor, ctx: Context) -> Tensor:  # type: ignore[override]
        """Of queries of ``x``."""
        q = transpose(reshape(self.inward[0](x), *x.shape[:2], self.heads, self.key_dim), 1, 2)
        made = merge_heads(self.attend(q, k, v, ctx), self.heads * self.value_dim)
        gate = self.gate(x)
        gate = ctx.activation("sigmoid", gate, "gate")
        return self.output(mul(made, gate))


class Reading(Gated):
    """The same, with keys and values that are in the cache for another."""

    def cached(self, ctx: Context) -> tuple[Cached, ...]:  # noqa: ARG002
        return ()


class Pair(PreNorm):
    """Two layers with one set of keys and values; each has attention and a feed-forward network."""

    keys: Linear = ...  # type: ignore[assignment]
    values: Linear = ...  # type: ignore[assignment]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after the other."""
        norms = [norm for norm in self.norms if norm is not None]
        normed = norms[0](x, ctx)
        shape = (*x.shape[:2], G, D)
        k, v = (transpose(reshape(each(normed), *shape), 1, 2) for each in (self.keys, self.values))
        for place, sub in enumerate(self.sublayers):
            normed = normed if place == 0 else norms[place](x, ctx)
            x = add(x, sub(normed, k, v, ctx) if isinstance(sub, Gated) else sub(normed, ctx))
        return x


@family("toy_pairs", architecture="ToyForCausalLM")
def pairs(c: Config) -> Module:
    """Pairs of layers."""
    h, a, g, d = c.size("hidden_size"), c.size("num_attention_heads"), kit.kv_heads(c), kit.head_dim(c)

    def reader(name: str, kind: type[Gated]) -> Gated:
        maps = (Linear(f"{name}_q", h, a * d, "Q"),)
        return kind(name, a, g, d, d, maps, (), Linear(f"{name}_o", a * d, h, "O"), gate=Linear(f"{name}_g", h, a * d))

    sublayers = (reader("first", Gated), kit.gated(c), reader("second", Reading), kit.gated(c).replace(name="mlp_2"))
    norms = tuple(Norm(f"norm_{place}", "rmsnorm", h) for place in range(4))
    keys, values = Linear("keys", h, g * d, "K"), Linear("values", h, g * d, "V")
    return kit.decoder(c, Pair("layers", sublayers, norms, keys=keys, values=values))


# --- a recurrence whose state is a matrix, as tfcalc has it


class Memory(Module):
    """``S ← a·S + k vᵀ``, read as ``q S``, for each head; a is the sigmoid of a number for each head and token."""

    kind = "ssm"

    queries: Linear
    keys: Linear
    values: Linear
    decays: Linear
    output: Linear
    heads: Any
    width: Any

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of all tokens, one after another."""
        shape = (*x.shape[:2], self.heads, self.width)
        q, k, v = (reshape(each(x), *shape) for each in (self.queries, self.keys, self.values))
        decay = self.decays(x)
        decay = ctx.activation("sigmoid", decay, "decay")
        d, each_state = self.width, x.rows * self.heads * self.width * self.width
        call = Call(
            "memory",
            (q, k, v, decay),
            q.shape,
            q.dtype,
            products=(MatMul("q S", (2, x.rows * self.heads, 1, d, d), (q, k)),),
            elementwise=(Elementwise("a·S + k vᵀ", each_state, forward=3, backward=6),),
            cached=by_sequence(ctx.stream, STATE, self.heads, d * d, FP32),
            leaf=Leaf("memory", "scan"),
            saves_result=True,
        )
        made = x.trace.composite(call, lambda: self._read(q, k, v, decay))
        return self.output(reshape(made, *x.shape[:2], self.heads * d))

    def _read(self, q: Tensor, k: Tensor, v: Tensor, decay: Tensor) -> Tensor:
        trace, (batch, length, heads, width) = q.trace, q.shape

        def turn(state: Tensor) -> tuple[State, Tensor]:
            stays = mul(state, unsqueeze(unsqueeze(select(decay, 1), -1), -1))
            state = add(stays, mul(unsqueeze(select(k, 1), -1), unsqueeze(select(v, 1), -2)))
            return (state,), matmul(unsqueeze(select(q, 1), -2), trace.to(state, q.dtype))

        state = trace.new((batch, heads, width, width), "float32", "state")
        return stack(loop(length, turn, state), (batch, length, heads, 1, width))


@family("toy_memory", architecture="ToyForCausalLM")
def remembering(c: Config) -> Module:
    """Layers with such a memory."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), kit.head_dim(c)
    maps = {name: Linear(name, h, a * d) for name in ("queries", "keys", "values")}
    mixer = Memory("memory", **maps, decays=Linear("decays", h, a), output=Linear("output", a * d, h), heads=a, width=d)
    return kit.decoder(c, kit.layer(c, mixer, kit.gated(c)))


# --- the same mathematics in PyTorch


class TorchNorm(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        wide = x.to(torch.float32)
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class TorchNetwork(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(*sizes, bias=False) for sizes in ((H, F), (H, F), (F, H)))

    def forward(self, x: Any) -> Any:
        return self.down(silu(self.gate(x)) * self.up(x))


class TorchGated(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.q, self.g, self.o = (nn.Linear(*sizes, bias=False) for sizes in ((H, A * D), (H, A * D), (A * D, H)))

    def forward(self, x: Any, k: Any, v: Any, mask: Any) -> Any:
        b, length, _ = x.shape
        q = self.q(x).view(b, length, A, D).transpose(1, 2)
        if mask is None:
            made = scaled_dot_product_attention(q, k, v, is_causal=length > 1, enable_gqa=True)
        else:
            k, v = (each.repeat_interleave(A // G, 1) for each in (k, v))
            scores = torch.matmul(q, k.transpose(2, 3)) * D**-0.5 + mask
            made = torch.matmul(torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype), v)
        made = made.transpose(1, 2).contiguous().view(b, length, A * D)
        return self.o(made * torch.sigmoid(self.g(x)))


class TorchPair(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.keys, self.values = nn.Linear(H, G * D, bias=False), nn.Linear(H, G * D, bias=False)
        self.norms = nn.ModuleList(TorchNorm(H) for _ in range(4))
        self.first, self.second = TorchGated(), TorchGated()
        self.mlp, self.mlp_2 = TorchNetwork(), TorchNetwork()

    def forward(self, x: Any, mask: Any, before: Any = None) -> Any:
        b, length, _ = x.shape
        normed = self.norms[0](x)
        k, v = (each(normed).view(b, length, G, D).transpose(1, 2) for each in (self.keys, self.values))
        if before is not None:
            k, v = (torch.cat(both, 2) for both in zip(before, (k, v), strict=True))
            self.cached = k, v
        x = x + self.first(normed, k, v, mask)
        x = x + self.mlp(self.norms[1](x))
        x = x + self.second(self.norms[2](x), k, v, mask)
        return x + self.mlp_2(self.norms[3](x))


class TorchMemory(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(TorchNorm(H) for _ in range(2))
        self.queries, self.keys, self.values = (nn.Linear(H, A * D, bias=False) for _ in range(3))
        self.decays, self.output = nn.Linear(H, A, bias=False), nn.Linear(A * D, H, bias=False)
        self.mlp = TorchNetwork()

    def forward(self, x: Any, mask: Any, before: Any = None) -> Any:  # noqa: ARG002  # it has no scores
        x = self.mixed(x, before)
        return x + self.mlp(self.norms[1](x))

    def mixed(self, x: Any, before: Any) -> Any:
        b, length, _ = x.shape
        normed = self.norms[0](x)
        q, k, v = (each(normed).view(b, length, A, D) for each in (self.queries, self.keys, self.values))
        decay = torch.sigmoid(self.decays(normed))
        state = torch.zeros(b, A, D, D, dtype=torch.float32) if before is None else before
        made = []
        for place in range(length):
            stays = state * decay[:, place][:, :, None, None]
            state = stays + k[:, place][..., None] * v[:, place][..., None, :]
            made.append(torch.matmul(q[:, place][..., None, :], state.to(q.dtype)))
        self.state = state
        return x + self.output(torch.stack(made, 1).view(b, length, A * D))


class TorchToy(nn.Module):  # type: ignore[misc]
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.table, self.norm, self.head = nn.Embedding(V, H), TorchNorm(H), nn.Linear(H, V, bias=False)
        self.layers = nn.ModuleList(kind() for _ in range(N))

    def forward(self, ids: Any, mask: Any = None, before: Any = None) -> Any:
        x = self.table(ids)
        for place, layer in enumerate(self.layers):
            x = layer(x, mask, None if before is None else before[place])
        logits = self.head(self.norm(x))
        if before is not None:
            return logits
        labels = pad(ids, (0, 1), value=-100)[..., 1:].contiguous()
        return cross_entropy(logits.float().view(-1, V), labels.view(-1))


TOYS = {"toy_pairs": TorchPair, "toy_memory": TorchMemory}
each_toy = pytest.mark.parametrize("name", TOYS)


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    """Their families are registered here alone."""
    yield
    assert {"toy_pairs", "toy_memory"} <= FAMILIES.keys()


def toy(name: str) -> HFModel:
    return HFModel({"model_type": name, **SIZES})


@each_toy
def test_parameters_and_their_closed_form(name: str) -> None:
    counted = sum(weight.numel() for weight in TorchToy(TOYS[name]).parameters())
    assert params(toy(name)).answer == counted
    closed = formula("complete", "params", toy(name))
    sizes = {"h": H, "a": A, "g": G, "f": F, "n": N, "V": V}
    assert closed.at(**{letter: sizes[letter] for letter in map(str, closed.closed.free_symbols)}) == counted


@each_toy
@pytest.mark.parametrize("phase", ["forward", "train"])
def test_flops(name: str, phase: str) -> None:
    ids = torch.zeros(2, 7, dtype=torch.int64)
    model = TorchToy(TOYS[name])
    mask = torch.zeros(7, 7)
    with FlopCounterMode(display=False) as counter:
        loss = model(ids, mask)
        if phase == "train":
            loss.backward()
    run = Workload(batch_size=2, seq_len=7, phase=phase, kernel="eager")
    assert flops(toy(name), run).answer == counter.get_total_flops()


@each_toy
def test_a_decoded_token_and_what_is_cached(name: str) -> None:
    model, batch, seen = TorchToy(TOYS[name]).to(torch.bfloat16), 3, 11
    dtype = torch.bfloat16
    keys = [tuple(torch.zeros(batch, G, seen - 1, D, dtype=dtype) for _ in range(2)) for _ in range(N)]
    states = [torch.zeros(batch, A, D, D) for _ in range(N)]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        before = keys if name == "toy_pairs" else states
        model(torch.zeros(batch, 1, dtype=torch.int64), torch.zeros(1, seen, dtype=dtype), before)
    run = Workload(batch_size=batch, phase="decode", cached=seen)
    assert flops(toy(name), run).answer == counter.get_total_flops()
    held = [tensor for layer in model.layers for tensor in (layer.cached if name == "toy_pairs" else (layer.state,))]
    served = memory(toy(name), serving=Serving(context=seen, concurrency=batch, cache="dynamic")).totals
    assert served["kv_cache_bytes"] == sum(tensor.numel() * tensor.element_size() for tensor in held)


FORMATS = {"fp32": Numerics("float32"), "bf16": Numerics("bfloat16")}


@each_toy
@pytest.mark.parametrize("precision", FORMATS)
@pytest.mark.parametrize("kernel", ["eager", "efficient"])
def test_saved_bytes(name: str, precision: str, kernel: str) -> None:
    batch, length = 2, 9
    run = Workload(batch_size=batch, seq_len=length, phase="train", kernel=EITHER if kernel == "efficient" else kernel)
    ours = program(toy(name), run, FORMATS[precision], "auto")
    loss = ours(toy(name).tree(run))
    with without_data():
        dtype = torch.float32 if precision == "fp32" else torch.bfloat16
        torch.set_default_dtype(dtype)
        try:
            model = TorchToy(TOYS[name])
        finally:
            torch.set_default_dtype(torch.float32)
        mask = torch.zeros(batch, 1, length, length, dtype=dtype) if kernel == "eager" else None
        given = {"ids": torch.zeros(batch, length, dtype=torch.int64), "mask": mask}
        theirs = saved(model, given, recipe=precision, kernel="auto" if kernel == "eager" else kernel, loss=lambda x: x)
    assert ours.tape.tracker.saved == theirs.total
    del loss
