"""A Llama of torchtune's modules, in the same few lines of PyTorch, for what they keep (torchtune/modules)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

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
H, F, HEADS, GROUPS, D, WORDS = 64, 96, 4, 2, 16, 50
CHUNKS, RANK, TOKENS = 8, 4, 256


class Norm(nn.Module):  # type: ignore[misc]
    """RMSNorm."""

    def __init__(self, width: int = H) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x) * self.scale


class LoRALinear(nn.Linear):  # type: ignore[misc]
    """A map that is not trained, and the two beside it that are."""

    def __init__(self, i: int, o: int, bias: bool = False) -> None:
        super().__init__(i, o, bias=bias)
        self.requires_grad_(False)
        self.lora_a, self.lora_b = nn.Linear(i, RANK, bias=False), nn.Linear(RANK, o, bias=False)

    def forward(self, x: Any) -> Any:
        return super().forward(x) + 2.0 * self.lora_b(self.lora_a(x))


def turned(x: Any, cache: Any) -> Any:
    """RotaryPositionalEmbeddings."""
    pairs = x.float().reshape(*x.shape[:-1], -1, 2)
    cache = cache.view(-1, pairs.size(1), 1, pairs.size(3), 2)
    one, other, cos, sin = pairs[..., 0], pairs[..., 1], cache[..., 0], cache[..., 1]
    return torch.stack([one * cos - other * sin, other * cos + one * sin], -1).flatten(3).type_as(x)


def flash(q: Any, k: Any, v: Any) -> Any:
    """The kernel by its name: no partitioner lets it run on a CPU."""
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True)[0]


def sdpa(q: Any, k: Any, v: Any) -> Any:
    """The kernel that is chosen."""
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Layer(nn.Module):  # type: ignore[misc]
    """TransformerSelfAttentionLayer; maps whose letters stand in ``lora`` have LoRA's beside them.

    With ``heads_normed`` it is transformers' Qwen3DecoderLayer: keys are shared, and heads of queries and keys normed.
    """

    def __init__(self, lora: str = "", bias: bool = False, attend: Any = sdpa, heads_normed: bool = False) -> None:
        super().__init__()
        self.attend = attend
        self.of_heads = nn.ModuleList([Norm(D), Norm(D)] if heads_normed else [])
        self.norms = nn.ModuleList([Norm(), Norm()])
        sizes = {"q": (H, H), "k": (H, GROUPS * D), "v": (H, GROUPS * D), "o": (H, H)}
        sizes |= {"g": (H, F), "u": (H, F), "d": (F, H)}
        self.maps = nn.ModuleDict(
            {
                name: (LoRALinear if name in lora else nn.Linear)(*size, bias=bias and name in "qkv")
                for name, size in sizes.items()
            }
        )

    def forward(self, x: Any, cache: Any) -> Any:
        b, l, _ = x.shape
        normed = self.norms[0](x)
        q, k = self.maps["q"](normed).view(b, l, HEADS, D), self.maps["k"](normed).view(b, l, GROUPS, D)
        v = self.maps["v"](normed)
        if self.of_heads:
            q, k = self.of_heads[0](q), self.of_heads[1](k)
        q = turned(q, cache).transpose(1, 2)
        k, v = (self.shared(each, b, l) for each in (turned(k, cache), v))
        made = self.attend(q, k, v).transpose(1, 2).contiguous().view(b, l, -1)
        mixed = self.maps["o"](made)
        x = mixed + x
        return x + self.network(self.norms[1](x))

    def shared(self, x: Any, b: int, l: int) -> Any:
        if self.of_heads:
            return x.view(b, l, GROUPS, D).transpose(1, 2)
        x = x.view(b, l, GROUPS, 1, D).expand(b, l, GROUPS, HEADS // GROUPS, D)
        return x.reshape(b, l, -1, D).transpose(1, 2)

    def network(self, x: Any) -> Any:
        return self.maps["d"](functional.silu(self.maps["g"](x)) * self.maps["u"](x))


class Llama(nn.Module):  # type: ignore[misc]
    """TransformerDecoder and a loss: of its logits, of chunks of these, or of chunks of what they are made of."""

    def __init__(self, loss: str, **layer: Any) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, H)
        self.layers = nn.ModuleList([Layer(**layer) for _ in range(2)])
        self.norm = Norm()
        self.output = nn.Linear(H, WORDS, bias=False)
        self.loss = getattr(self, loss)
        self.register_buffer("cache", torch.zeros((64, D // 2, 2), dtype=torch.float32))

    def forward(self, ids: Any) -> Any:
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, self.cache[: ids.shape[1]])
        x = self.norm(x)  # the caller of the loss holds it
        return self.loss(x, ids)

    def logits(self, x: Any, ids: Any) -> Any:
        """CrossEntropyLoss."""
        made = self.output(x).float()
        return functional.cross_entropy(made.reshape(-1, WORDS), ids.reshape(-1))

    def chunked(self, x: Any, ids: Any) -> Any:
        """CEWithChunkedOutputLoss."""
        made = [self.output(each) for each in x.tensor_split(CHUNKS, dim=1)]
        targets = [each.reshape(-1) for each in ids.tensor_split(CHUNKS, dim=1)]
        return sum(map(one_loss, (each.reshape(-1, WORDS) for each in made), targets))

    def linear(self, x: Any, ids: Any) -> Any:
        """LinearCrossEntropyLoss."""
        places = torch.arange(ids.numel())
        x, ids = x.reshape(-1, H).index_select(0, places), ids.reshape(-1).index_select(0, places)
        chunks = zip(x.tensor_split(CHUNKS), ids.tensor_split(CHUNKS), strict=True)
        return sum(one_loss(self.output(each), target) for each, target in chunks)

    def checkpointed(self, x: Any, ids: Any) -> Any:
        """TRL's _chunked_cross_entropy_loss, without entropy and accuracy."""
        order = torch.arange(ids.numel())
        x, ids = x.reshape(-1, H)[order], ids.reshape(-1)[order]
        return sum(
            checkpoint(self.one_chunk, x[start : start + TOKENS], ids[start : start + TOKENS], use_reentrant=False)
            for start in range(0, len(ids), TOKENS)
        )

    def one_chunk(self, x: Any, ids: Any) -> Any:
        return functional.cross_entropy(x.float() @ self.output.weight.float().t(), ids, reduction="sum")


def one_loss(logits: Any, targets: Any) -> Any:
    """compute_cross_entropy."""
    return functional.cross_entropy(logits.float(), targets, reduction="sum")
