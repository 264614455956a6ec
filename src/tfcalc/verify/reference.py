"""The classic Transformer built out of PyTorch's own modules, without a number taken from tfcalc.

A plain model has exactly the modules that torch.nn.Transformer makes (a test says so). What its layers cannot express
is exchanged for the nearest torch module: RMSNorm, a norm without bias, a projection without bias, heads of another
width, shared key and value heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from tfcalc.core.traced import value_of

if TYPE_CHECKING:
    from tfcalc.zoo.transformer import Transformer


class HeadsOfAnyWidth(nn.Module):
    """Attention whose heads are wider, narrower or fewer than torch.nn.MultiheadAttention allows: four linear maps."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        h, a, bias = value_of(model.d_model), value_of(model.n_heads), model.attention_bias
        self.heads, self.groups = a, value_of(model.n_kv_heads or a)
        key_dim = model.head_dim or h // a
        value_dim = model.value_dim or key_dim
        self.q_proj = nn.Linear(h, a * key_dim, bias=bias)
        self.k_proj = nn.Linear(h, self.groups * key_dim, bias=bias)
        self.v_proj = nn.Linear(h, self.groups * value_dim, bias=bias)
        self.out_proj = nn.Linear(a * value_dim, h, bias=bias)
        self.batch_first = False  # the layer asks

    def forward(self, query: Tensor, key: Tensor, value: Tensor, **_: object) -> tuple[Tensor, None]:
        """(length, batch, h) in and out, as torch.nn.MultiheadAttention's."""

        def split(projected: Tensor, heads: int) -> Tensor:  # (length, batch, heads·d) -> (batch, heads, length, d)
            shared = projected.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
            return shared.repeat_interleave(self.heads // heads, dim=1)

        q, k, v = (
            split(self.q_proj(query), self.heads),
            split(self.k_proj(key), self.groups),
            split(self.v_proj(value), self.groups),
        )
        mixed = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        return self.out_proj(mixed.permute(2, 0, 1, 3).flatten(2)), None


class Reference(nn.Module):
    """Embeddings, core and head, on whatever device is current (``torch.device("meta")`` holds no data).

    ``exchanged`` lists what torch.nn.Transformer could not express.
    """

    def __init__(self, model: Transformer, *, dropout: float = 0.0, batch_first: bool = False) -> None:
        super().__init__()
        self.exchanged: list[str] = []
        self._add_tables(model)
        how = {"dropout": dropout, "batch_first": batch_first}
        for name in ("encoder", "decoder"):
            if name in model.kind:
                setattr(self, name, _stack(model, name, self.exchanged, how))
        self.exchanged = list(dict.fromkeys(self.exchanged))
        if model.vocab_size is not None and model.output_head != "none":
            table = self.target_embedding if model.target_vocab_size else self.embedding
            self.output = nn.Linear(model.d_model, table.num_embeddings, bias=model.output_bias)
            if model.output_head == "tied":
                self.output.weight = table.weight

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Token ids or, for a core alone, vectors, of shape (length, batch[, h]); the only stack reads ``target``."""
        if hasattr(self, "embedding"):
            source = self.embedding(source)
            target = getattr(self, "target_embedding", self.embedding)(target)
        if hasattr(self, "source_position"):
            source, target = self.source_position(source)[0], self.target_position(target)[0]
        elif isinstance(getattr(self, "position", None), nn.GRU):
            target = self.position(target)[0]
        return self.behind_tables(source, target)

    def behind_tables(self, source: Tensor | None, target: Tensor) -> Tensor:
        """Run vectors through stacks and head."""
        if not hasattr(self, "decoder"):
            out = self.encoder(target)
        elif not hasattr(self, "encoder"):
            out = self.decoder(target)
        else:
            out = self.decoder(target, self.encoder(source))
        return self.output(out) if hasattr(self, "output") else out

    def _add_tables(self, model: Transformer) -> None:
        if model.vocab_size is None:
            return
        self.embedding = nn.Embedding(model.vocab_size, model.d_model)
        if model.target_vocab_size is not None:
            self.target_embedding = nn.Embedding(model.target_vocab_size, model.d_model)
        if model.positions == "learned":
            self.position = nn.Embedding(model.max_len, model.d_model)
        if model.positions == "recurrent":
            for name in ("source_", "target_") if model.kind == "encoder-decoder" else ("",):
                setattr(self, f"{name}position", nn.GRU(model.d_model, model.d_model))


def _stack(model: Transformer, name: str, exchanged: list[str], how: Mapping[str, float]) -> nn.Module:
    """torch.nn.TransformerEncoder, or TransformerDecoder where there is an encoder to read."""
    reads_memory = model.kind == "encoder-decoder" and name == "decoder"
    make_layer = nn.TransformerDecoderLayer if reads_memory else nn.TransformerEncoderLayer
    layer = make_layer(
        model.d_model,
        model.n_heads if value_of(model.d_model) % value_of(model.n_heads) == 0 else 1,
        dim_feedforward=model.d_ff or 4 * model.d_model,
        activation=model.activation,
        norm_first=model.pre_norm,
        **how,
    )
    _exchange_attention(layer, model, exchanged, how)
    _exchange_linears(layer, model, exchanged)
    _exchange_norms(layer, model, exchanged)
    final = model.final_norm == "always" or (model.final_norm == "pre-norm" and model.pre_norm)
    if not final:
        exchanged.append("no final norm")
    layers = getattr(model, f"{name}_layers") or model.n_layers
    norm = _norm(model) if final else None
    if reads_memory:
        return nn.TransformerDecoder(layer, layers, norm)
    return nn.TransformerEncoder(layer, layers, norm, enable_nested_tensor=False)


def _exchange_attention(layer: nn.Module, model: Transformer, exchanged: list[str], how: Mapping[str, float]) -> None:
    other_heads = model.head_dim or model.value_dim or model.n_kv_heads
    if not other_heads and model.attention_bias:
        return
    exchanged.append("linear maps for attention" if other_heads else "attention without biases")
    for name in ("self_attn", "multihead_attn"):
        if hasattr(layer, name):
            attention = (
                HeadsOfAnyWidth(model)
                if other_heads
                else nn.MultiheadAttention(model.d_model, model.n_heads, bias=False, **how)
            )
            setattr(layer, name, attention)


def _exchange_linears(layer: nn.Module, model: Transformer, exchanged: list[str]) -> None:
    if not model.ffn_bias:
        exchanged.append("feed-forward without biases")
        for name in ("linear1", "linear2"):
            old = getattr(layer, name)
            setattr(layer, name, nn.Linear(old.in_features, old.out_features, bias=False))


def _exchange_norms(layer: nn.Module, model: Transformer, exchanged: list[str]) -> None:
    if model.norm != "layernorm":
        exchanged.append(f"norm {model.norm}")
        for name in ("norm1", "norm2", "norm3"):
            if hasattr(layer, name):
                setattr(layer, name, _norm(model))


def _norm(model: Transformer) -> nn.Module:
    if model.norm == "rmsnorm":
        return nn.RMSNorm(model.d_model)
    plain = model.norm == "layernorm-plain"
    return nn.LayerNorm(model.d_model, elementwise_affine=not plain, bias=model.norm == "layernorm")


def build(model: Transformer) -> Reference:
    """The reference without data, on the meta device."""
    with torch.device("meta"):
        return Reference(model)
