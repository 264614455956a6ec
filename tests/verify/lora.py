"""LoRA and DoRA beside the linear maps of a torch model, written as peft runs them.

Source: peft's tuners/lora/layer.py (Linear.forward), bnb.py (Linear4bit.forward), variants.py (DoraLinearVariant) and
dora.py (DoraLinearLayer), but for a Conv1D's transposed weight, of which the last makes a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


class Adapted(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """``W x + B A x · α/r``: x is brought to the adapters' format, and the sum back to that of the map's own result.

    ``quantized`` is how peft's Linear4bit does it: under autocast x stays as it is, and without it what the adapters
    make is brought back before the sum.
    """

    def __init__(
        self,
        base: Any,
        rank: int,
        dtype: torch.dtype,
        dropout: float = 0.0,
        *,
        quantized: bool = False,
        dora: bool = False,
    ) -> None:
        super().__init__()
        fan_in, fan_out = (base.in_features, base.out_features) if hasattr(base, "in_features") else base.weight.shape
        self.base = base
        self.lora_A = nn.Linear(fan_in, rank, bias=False, dtype=dtype, device=base.weight.device)
        self.lora_B = nn.Linear(rank, fan_out, bias=False, dtype=dtype, device=base.weight.device)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.quantized = quantized
        self.magnitude = nn.Parameter(torch.ones(fan_out, dtype=dtype)) if dora else None

    def by_magnitude(self, x: Any, result: Any) -> Any:
        """As DoraLinearVariant.forward, and DoraLinearLayer.forward in it."""
        base = self.base
        dropped = not isinstance(self.dropout, nn.Identity)
        eye = torch.eye(self.lora_A.weight.shape[1], dtype=self.lora_A.weight.dtype)
        x = self.dropout(x)
        low_rank = self.lora_B(self.lora_A(eye)).T.to(x.dtype)
        weight = base.weight if hasattr(base, "in_features") else base.weight.T
        weight = weight.to(x.dtype)
        norm = torch.linalg.norm(weight + 2.0 * low_rank.detach(), dim=1).to(weight.dtype).detach()
        ratio = (self.magnitude / norm).view(1, -1)
        update = self.lora_B(self.lora_A(x))
        if dropped:
            result = nn.functional.linear(x, weight)
        elif base.bias is not None:
            result = result - base.bias
        return (ratio - 1) * result + ratio * update * 2.0

    def forward(self, x: Any) -> Any:
        """As peft's."""
        result = self.base(x)
        dtype = result.dtype
        if self.quantized:
            result = result.clone()
            autocast = torch.is_autocast_enabled() or torch.is_autocast_enabled("cpu")
            if not autocast:
                x = x.to(self.lora_A.weight.dtype)
            if self.magnitude is not None:
                result = result + self.by_magnitude(x, result)
                return result if autocast else result.to(dtype)
            output = self.lora_B(self.lora_A(self.dropout(x))) * 2.0
            if not autocast:
                output = output.to(dtype)
            return result + output
        x = x.to(self.lora_A.weight.dtype)
        if self.magnitude is not None:
            return (result + self.by_magnitude(x, result)).to(dtype)
        result = result + self.lora_B(self.lora_A(self.dropout(x))) * 2.0
        return result.to(dtype)


def adapt(
    model: Any,
    rank: int,
    targets: Sequence[str] = (),
    dtype: torch.dtype = torch.float32,
    dropout: float = 0.0,
    *,
    quantized: bool = False,
    dora: bool = False,
) -> None:
    """Freeze a transformers model, and put adapters beside the maps that ``targets`` end; beside all but the head."""
    from transformers.pytorch_utils import Conv1D

    model.requires_grad_(requires_grad=False)
    head = model.get_output_embeddings()
    for path, module in list(model.named_modules()):
        named = any(path == target or path.endswith(f".{target}") for target in targets)
        if isinstance(module, nn.Linear | Conv1D) and (named or (not targets and module is not head)):
            parent, _, name = path.rpartition(".")
            adapted = Adapted(module, rank, dtype, dropout, quantized=quantized, dora=dora)
            setattr(model.get_submodule(parent), name, adapted)
