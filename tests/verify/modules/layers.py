"""Layers and a whole model, as people write them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class GatedFFN(nn.Module):
    """SwiGLU behind an RMSNorm, with a residual connection."""

    def __init__(self, d: int, f: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(d)
        self.gate, self.up, self.down = (
            nn.Linear(d, f, bias=False),
            nn.Linear(d, f, bias=False),
            nn.Linear(f, d, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class FFN(nn.Module):
    """Two linear maps under names that say nothing."""

    def __init__(self, n_in: int, n_mid: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, n_mid), nn.ReLU(), nn.Linear(n_mid, n_in))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class Norm(nn.Module):
    """Layer normalization by hand."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return self.a * centred / x.std(-1, keepdim=True) + self.b


class DecoderLayer(nn.Module):
    """PyTorch's, which reads an encoder's output, too."""

    def __init__(self, d_model: int = 512, nhead: int = 8) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(d_model, nhead, batch_first=True)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        return self.layer(x, memory)


class LanguageModel(nn.Module):
    """A causal language model with tied embeddings and learned positions."""

    def __init__(self, vocab_size: int, d_model: int, n_layers: int, block_size: int = 64) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(block_size, d_model)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d_model, 2, 4 * d_model, batch_first=True, norm_first=True)
            for _ in range(n_layers)
        )
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> dict[str, Tensor]:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return {"logits": self.head(self.norm(x))}


class WithData(nn.Module):
    """Looks at its data, wants a mask, and has a table of positions and a buffer: it cannot run on meta."""

    def __init__(self, d_model: int = 8) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(1, 100, d_model))
        self.linear = nn.Linear(d_model, d_model)
        self.register_buffer("causal", torch.ones(100, 100).tril())

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.positions[:, : x.shape[1]]
        if x.sum().item() > 0:
            x = x * 1
        return self.linear(x) + 0 * mask.sum()


class Raises(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).view(3, 3)


class Block(nn.Module):
    """A feed-forward network of 4 times the width behind its norm, with a residual connection."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Stack(nn.Module):
    """Equal blocks, and a head."""

    def __init__(self, d: int, n: int) -> None:
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block(d) for _ in range(n)), nn.Linear(d, 10)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Looks(nn.Module):
    """What it computes depends on the values that it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.map(x if x.sum() > 0 else -x)
