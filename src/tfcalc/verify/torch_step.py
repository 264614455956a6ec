"""A training step of the classic model, of PyTorch's own modules, on tensors without data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from tfcalc.backends.torch_nn import DROPPED
from tfcalc.core.traced import value_of
from tfcalc.verify.reference import Reference
from tfcalc.verify.step import RECIPES, CountedStep

if TYPE_CHECKING:
    from tfcalc.workload import Workload
    from tfcalc.zoo.transformer import Transformer


class Trained(Reference):
    """The reference, and what training adds: positions, dropout, a loss. The first axis is that of sequences.

    Without a vocabulary it reads vectors, and its loss is the sum of what it makes.
    """

    def __init__(self, model: Transformer, dropout: float, longest: int) -> None:
        super().__init__(model, dropout=dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        sinusoids = model.vocab_size is not None and model.positions == "sinusoidal"
        self.register_buffer("sinusoids", torch.zeros(longest, model.d_model) if sinusoids else None)

    def forward(self, source: Tensor, target: Tensor, labels: Tensor | None = None) -> Tensor:
        """The loss; of ``labels``, where there is an output head."""
        if not hasattr(self, "embedding"):
            return self.behind_tables(source, target).float().sum()
        target = self.embedded(getattr(self, "target_embedding", self.embedding), target)
        made = self.behind_tables(self.embedded(self.embedding, source) if hasattr(self, "encoder") else None, target)
        if not hasattr(self, "output"):
            return made.sum()
        return nn.functional.cross_entropy(made.flatten(0, 1), labels)

    def embedded(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        """Words and positions."""
        x = table(ids)
        if hasattr(self, "position"):
            x = x + self.position(torch.arange(ids.shape[1]))
        if self.sinusoids is not None:
            x = x + self.sinusoids[: ids.shape[1]]
        return self.dropout(x)


def torch_step(model: Transformer, run: Workload, recipe: str) -> CountedStep:
    """The model in training mode, and its arguments: vectors or ids, and labels. Within ``without_data()``."""
    batch, source, target = (value_of(size) for size in (run.batch_size, run.source.length, run.target.length))
    with torch.device("meta"):  # nn.Transformer copies its layers
        module = Trained(model, DROPPED if run.drops else 0.0, max(source, target))
    _on_cpu(module.train(), RECIPES[recipe])
    if model.vocab_size is None:
        kind, needs = RECIPES[recipe], run.input_gradient
        read = [
            torch.zeros(batch, length, model.d_model, dtype=kind, requires_grad=needs) for length in (source, target)
        ]
    else:
        read = [torch.zeros(batch, length, dtype=torch.long) for length in (source, target)]
    labels = torch.zeros(batch * target, dtype=torch.long)
    return CountedStep(module, {"source": read[0], "target": read[1], "labels": labels})


def _on_cpu(module: nn.Module, kind: torch.dtype) -> None:
    """Its tensors are CPU tensors of this kind from now on, a tied one the same in both places."""
    made: dict[int, nn.Parameter] = {}
    for part in module.modules():
        for name, weight in part._parameters.items():
            if weight is not None and id(weight) not in made:
                made[id(weight)] = nn.Parameter(torch.empty(weight.shape, dtype=kind))
            part._parameters[name] = made.get(id(weight))
        for name, buffer in part._buffers.items():
            part._buffers[name] = None if buffer is None else torch.empty(buffer.shape, dtype=kind)
