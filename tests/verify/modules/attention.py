"""Attention from scratch: right, and with the mistakes that published code has."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    return scores.softmax(-1) @ v


class Attention(nn.Module):
    """Right: four linear maps, three of them read."""

    def __init__(self, embed: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(embed, embed) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.q(query), self.k(key), self.v(value)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = map(self.split, self.project(query, key, value))
        return self.out(attend(q, k, v, mask).transpose(1, 2).flatten(2))


class OneProjection(Attention):
    """Wrong: keys and values are made by the query's projection."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.q(query), self.q(key), self.q(value)


class OutputForgotten(nn.Module):
    """Wrong: w_o is made, and nothing is multiplied by it."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        width = d_model // n_heads
        self.w_q, self.w_k, self.w_v = (nn.Parameter(torch.empty(n_heads, d_model, width)) for _ in range(3))
        self.w_o = nn.Parameter(torch.empty(d_model, d_model))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (torch.einsum("blh,ahd->bald", x, w) for w in (self.w_q, self.w_k, self.w_v))
        return attend(q, k, v)


class NoOutput(nn.Module):
    """Incomplete: three linear maps, one head, no W_O."""

    def __init__(self, embed: int) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(embed, embed) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return attend(self.first(x), self.second(x), self.third(x))


class Packed(nn.Module):
    """Right: one matrix for query, key and value, cut afterwards, and PyTorch's kernel."""

    def __init__(self, d_model: int = 512, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(mixed.transpose(1, 2).flatten(2))


class LengthFirst(nn.Module):
    """Right: PyTorch's own, which reads (length, batch, h)."""

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(embed_dim, num_heads)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.inner(query, key, value, need_weights=False)[0]


class Frozen(Attention):
    """W_V is not to be trained."""

    def __init__(self, embed: int, heads: int) -> None:
        super().__init__(embed, heads)
        self.v.requires_grad_(False)
