"""PyTorch's own modules: torch.nn.Transformer, with nn.Embedding, nn.Linear and F.cross_entropy around it.

Source: torch 2.13, torch.nn.functional.multi_head_attention_forward with ``need_weights=False``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfcalc.backends import SAVED
from tfcalc.backends.attention import EFFICIENT_STATE, FLASH_STATE, math
from tfcalc.backends.elementwise import fused_rms_norm
from tfcalc.backends.transformers import Transformers
from tfcalc.core.component import Weight
from tfcalc.core.number import Num, divide, total
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.module import Context
from tfcalc.ops.attention import fused_attention
from tfcalc.ops.products import linear
from tfcalc.ops.rows import layer_norm
from tfcalc.ops.shapes import contiguous, copied, permute, reshape, select, split, transpose
from tfcalc.tape.interpreter import Interpreter, padded
from tfcalc.tape.tensor import Tensor, Trace
from tfcalc.zoo.transformer import Transformer

if TYPE_CHECKING:
    from tfcalc.model import Model

DROPPED = 0.1
"""nn.Transformer's default dropout probability, in all places."""
POSITIONS = ("none", "sinusoidal", "learned")
"""Positions outside of the layers, which are an addition: all others are no part of nn.Transformer."""


class TorchNN(Transformers):
    """torch.nn; see :class:`tfcalc.nn.module.Backend`.

    Its attention runs with the batch as the second axis: with ``batch_first`` its linear maps copy transposed inputs.
    """

    name, label = "torch", "torch.nn"
    compared = frozenset({SAVED})

    def __init__(self, *, batch_first: bool = True) -> None:
        self.batch_first = batch_first

    @classmethod
    def runs(cls, model: Model) -> bool:
        """Return whether it runs a model: the classic Transformer."""
        return isinstance(model, Transformer)

    @classmethod
    def refuse(cls, model: Model) -> None:
        """Raise InvalidModel for a model that torch.nn.Transformer cannot be."""
        assert isinstance(model, Transformer)
        heads, head_dim = model.n_heads, model.size("head_dim")
        for name, same in {"n_kv_heads": heads, "value_dim": head_dim}.items():
            if model.size(name) != same:
                fact = f"{name} {model.size(name)} in torch.nn.Transformer, which has one head width"
                raise InvalidModel(fact, f"use {same}")
        if head_dim * heads != model.d_model:
            fact = f"head_dim {head_dim} in torch.nn.Transformer with d_model {model.d_model} and {heads} heads"
            raise InvalidModel(fact, "leave head_dim out: it is d_model / heads")
        if model.positions not in POSITIONS:
            run = f"a run with positions {model.positions!r}"
            fact = f"memory of {run} is not counted: torch.nn.Transformer has none of them"
            raise InvalidModel(fact, f"choose {', '.join(POSITIONS)}")
        if model.pattern != "dense":
            run = f"a run with pattern {model.pattern!r}"
            fact = f"memory of {run} is not counted: torch.nn.Transformer has no such attention"
            raise InvalidModel(fact, "choose dense; tfcalc explain sdpa --of flops --pattern … counts its scores")

    def begin(self, ctx: Context, x: Tensor, attentions: list[Attention], masks: tuple[Num | None, ...]) -> Context:
        """Prepare nothing: it gets no masks."""
        return ctx

    def norm(self, norm: Norm, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Run nn.LayerNorm or nn.RMSNorm: one kernel each, in fp32 under autocast."""
        x = x.trace.upper(x)
        return layer_norm(x, weight, bias) if norm.form.startswith("layernorm") else fused_rms_norm(x, weight)

    def multi_head(self, attention: Attention, x: Tensor, ctx: Context) -> Tensor:
        """Project queries, keys and values by one matrix, which has the three maps' columns; attend by one kernel."""
        source = attention.source(x, ctx)
        rows = self._batch_second(x)
        q, k, v = _projected(attention, rows, rows if source is x else self._batch_second(source))
        del rows, source  # views of the input: from here on only the projections' nodes save it

        def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return _attended(attention, q, k, v, ctx)

        again = ctx.run.recompute == "selective"
        heads = x.trace.checkpoint(attended, q, k, v) if again else attended(q, k, v)
        del q, k, v  # not live during the output projection, unless the kernel saved them
        length, batch = heads.shape[2], heads.shape[0]
        heads = contiguous(permute(heads, (2, 0, 1, 3)))
        width = attention.heads * attention.value_dim
        return self._batch_second(attention.output(reshape(heads, length, batch, width)))

    def _batch_second(self, x: Tensor) -> Tensor:
        """Return a view with the first two axes swapped; without ``batch_first`` memory is laid out so anyway."""
        first, second, *rest = x.shape
        return transpose(x, 0, 1) if self.batch_first else reshape(x, second, first, *rest)


def _projected(attention: Attention, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Project to heads: self-attention by one product; cross-attention by two, for queries, and for keys and values.

    Autocast caches its copies of parameters, but not of views of them.
    """
    trace, maps = x.trace, attention.inward
    packed = _packed(trace, maps)
    if x is source:
        q, k, v = _parts(linear(x, *packed), 3)
    else:
        widths = [maps[0].fan_out, maps[1].fan_out + maps[2].fan_out]
        split_ = [split(tensor, widths) for tensor in packed]
        of_q, of_kv = ([trace.lower(parts[place]) for parts in split_] for place in (0, 1))
        q = linear(x, *of_q)
        k, v = _parts(linear(source, *of_kv), 2)
    return _headed(attention, q), _headed(attention, k), _headed(attention, v)


def _packed(trace: Trace, maps: Sequence[Linear]) -> list[Tensor]:
    """Return ``in_proj_weight`` and ``in_proj_bias``: the maps' columns side by side, trained if one of them is."""
    assert isinstance(trace, Interpreter)
    frozen = not any(trace.trained(f"{trace.tape.path}.{linear.name}") for linear in maps)
    kinds = zip(*(linear.own_params().weights for linear in maps), strict=True)
    packed = []
    for name, tensors in zip(("weight", "bias"), kinds, strict=False):
        shape = (*tensors[0].shape[:-1], total(tensor.shape[-1] for tensor in tensors))
        packed.append(trace.weight(Weight(f"in_proj_{name}", shape, frozen=frozen)))
    return packed


def _parts(made: Tensor, number: int) -> list[Tensor]:
    """Copy a product's columns to ``number`` contiguous tensors; each gradient is first as large as all of them."""
    shape = (number, *made.shape[:-1], divide(made.width, number))
    behind = copied(made, shape)
    return [select(behind, 0) for _ in range(number)]


def _headed(attention: Attention, x: Tensor) -> Tensor:
    """View ``l × b × a·d`` as ``b × a × l × d``."""
    length, batch, width = x.shape
    return permute(reshape(x, length, batch, attention.heads, divide(width, attention.heads)), (1, 2, 0, 3))


def _attended(attention: Attention, q: Tensor, k: Tensor, v: Tensor, ctx: Context) -> Tensor:
    """Run sdpa without a mask by the requested kernel; without a fused one by ``math``.

    Flash attention's result has the queries' layout.
    """
    if ctx.run.kernel == "flash":
        return fused_attention(q, k, v, q.rows, FLASH_STATE, like_queries=True)
    if ctx.run.kernel == "efficient":
        return fused_attention(q, k, v, q.shape[0] * padded(q.shape[2]) * q.shape[1], EFFICIENT_STATE)
    return math(q, k, v, None, attention.replace(causal=False), ctx)
