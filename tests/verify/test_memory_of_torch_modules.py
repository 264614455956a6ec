"""Live: what PyTorch's modules keep for backward, put together to a Transformer with tables, positions, head, loss."""

from __future__ import annotations

from typing import Any

import pytest

from tfcalc import Transformer, Workload
from tfcalc.backends.program import ModuleProgram
from tfcalc.backends.torch_nn import TorchNN
from tfcalc.core.number import total
from tfcalc.tape.interpreter import Numerics

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

from torch import nn  # noqa: E402  # after the skip, like what follows

from tfcalc.verify.saved import saved  # noqa: E402
from tfcalc.verify.step import without_data  # noqa: E402

MODELS: dict[str, dict[str, Any]] = {
    "encoder-decoder": {},
    "pre-norm": {"pre_norm": True},
    "tied": {"output_head": "tied", "output_bias": True},
    "two vocabularies": {"target_vocab_size": 70},
    "learned positions": {"positions": "learned", "max_len": 40},
    "no positions": {"positions": "none"},
    "gelu, encoder": {"kind": "encoder", "activation": "gelu"},
    "decoder": {"kind": "decoder", "pre_norm": True},
    "no biases": {"attention_bias": False, "ffn_bias": False},
}
RUNS = (("fp32", "efficient"), ("bf16", "flash"), ("autocast", "math"))
NUMERICS = {
    "fp32": Numerics("float32"),
    "bf16": Numerics("bfloat16"),
    "autocast": Numerics("float32", autocast="bfloat16"),
}


class Whole(nn.Module):  # type: ignore[misc]
    """Tables, sinusoids in a buffer or a table of positions, the Transformer, and an output head."""

    def __init__(self, model: Transformer, batch_first: bool, drop: float) -> None:
        super().__init__()
        h, vocabulary = model.d_model, model.vocab_size
        self.source = nn.Embedding(vocabulary, h)
        self.target = nn.Embedding(model.target_vocab_size, h) if model.target_vocab_size else self.source
        self.batch_first = batch_first
        self.learned = nn.Embedding(model.max_len, h) if model.positions == "learned" else None
        self.register_buffer("sinusoids", torch.zeros(40, h) if model.positions == "sinusoidal" else None)
        self.dropout = nn.Dropout(drop)
        how: dict[str, Any] = {
            "dropout": drop,
            "activation": model.activation,
            "batch_first": batch_first,
            "norm_first": model.pre_norm,
        }
        layers, bias = model.n_layers, model.attention_bias
        if model.kind == "encoder-decoder":
            self.core = nn.Transformer(h, model.n_heads, layers, layers, model.size("d_ff"), **how)
        else:
            layer = nn.TransformerEncoderLayer(h, model.n_heads, model.size("d_ff"), **how)
            self.core = nn.TransformerEncoder(layer, layers, nn.LayerNorm(h), enable_nested_tensor=False)
        if not bias:
            _without_biases(self.core)
        self.head = nn.Linear(h, self.target.num_embeddings, bias=model.output_bias)
        if model.output_head == "tied":
            self.head.weight = self.target.weight

    def forward(self, source: Any, target: Any, labels: Any) -> Any:
        if isinstance(self.core, nn.Transformer):
            made = self.core(self.embedded(self.source, source), self.embedded(self.target, target))
        else:
            made = self.core(self.embedded(self.target, target))
        return nn.functional.cross_entropy(self.head(made).flatten(0, 1), labels)

    def embedded(self, table: Any, ids: Any) -> Any:
        x = table(ids)
        length = ids.shape[1 if self.batch_first else 0]
        positions = None
        if self.learned is not None:
            positions = self.learned(torch.arange(length))
        if self.sinusoids is not None:
            positions = self.sinusoids[:length]
        if positions is not None:
            x = x + (positions if self.batch_first else positions.unsqueeze(1))
        return self.dropout(x)


def without_numbers(module: Any, fake: Any) -> None:
    """Its tensors hold no data from now on. nn.Transformer copies its layers, for which they have to hold some."""
    known: dict[int, Any] = {}
    for part in module.modules():
        for name, weight in part._parameters.items():
            if weight is not None:
                known.setdefault(id(weight), nn.Parameter(fake.from_tensor(weight.detach())))
                part._parameters[name] = known[id(weight)]
        for name, buffer in part._buffers.items():
            part._buffers[name] = buffer if buffer is None else fake.from_tensor(buffer)


def _without_biases(module: Any) -> None:
    for part in module.modules():
        if isinstance(part, nn.MultiheadAttention):
            part.in_proj_bias = None
        if isinstance(part, nn.Linear):
            part.bias = None


@pytest.mark.parametrize(("batch", "batch_first", "dropout"), [(2, False, True), (1, True, False)])
@pytest.mark.parametrize(("recipe", "kernel"), RUNS)
@pytest.mark.parametrize("sizes", MODELS.values(), ids=MODELS)
def test_what_is_kept_is_what_torch_keeps(
    sizes: dict[str, Any], recipe: str, kernel: str, dropout: bool, batch_first: bool, batch: int
) -> None:
    model = Transformer(d_model=64, n_heads=4, n_layers=2, d_ff=96, vocab_size=50, **sizes)
    source_len = 24 if model.kind == "encoder-decoder" else None
    run = Workload(phase="train", batch_size=batch, seq_len=17, source_len=source_len, kernel=kernel, dropout=dropout)
    numerics = NUMERICS[recipe]
    module = Whole(model, batch_first, 0.1 if dropout else 0.0).train()
    module = module.bfloat16() if recipe == "bf16" else module
    with without_data() as fake:
        without_numbers(module, fake)
        source, target = (
            torch.zeros((batch, length) if batch_first else (length, batch), dtype=torch.int64)
            for length in (source_len or 1, 17)
        )
        labels = torch.zeros(batch * 17, dtype=torch.int64)
        inputs = {"source": source, "target": target, "labels": labels}
        found = saved(module, inputs, recipe=recipe, kernel=kernel, loss=lambda out: out)
    assert kernel in found.kernels
    code = TorchNN(batch_first=batch_first)
    m = ModuleProgram(model.module(), run, numerics, code)
    loss = m(model.tree(run))
    assert loss.node is not None
    assert m.tape.tracker.saved == found.total
    once = ModuleProgram(model.module(), run, numerics, code, every_layer=False)
    once(model.tree(run))
    assert total(kept.copies * kept.storage.size for kept in once.tape.kept.values()) == found.total
