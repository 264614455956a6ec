"""PyTorch's own modules as they run: torch.nn.Transformer, and around it nn.Embedding, nn.Linear and F.cross_entropy.

Source: torch 2.13, torch.nn.functional.multi_head_attention_forward without weights as a result.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfcalc.backends.attention import KEPT_BY_EFFICIENT, KEPT_BY_FLASH, math
from tfcalc.backends.norms import fused_rms_norm
from tfcalc.backends.transformers import Transformers
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num, divide, total
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.ops.attention import fused_attention
from tfcalc.ops.products import linear
from tfcalc.ops.rows import layer_norm
from tfcalc.ops.shapes import contiguous, copied, permute, reshape, select, split, transpose
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.numerics import padded
from tfcalc.tape.tensor import Tensor
from tfcalc.tape.trace import Trace


class TorchNN(Transformers):
    """A backend; see :class:`tfcalc.nn.context.Backend`.

    Attention wants the batch as the second axis: with ``batch_first`` it is given the first, and copies what it reads.
    """

    def __init__(self, *, batch_first: bool = True) -> None:
        self.batch_first = batch_first

    def begin(self, ctx: Context, x: Tensor, attentions: list[Attention], masks: tuple[Num | None, ...]) -> Context:
        """Nothing: it is given no masks."""
        return ctx

    def norm(self, norm: Norm, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """nn.LayerNorm or nn.RMSNorm: a kernel each, which autocast runs in fp32."""
        x = x.trace.upper(x)
        return layer_norm(x, weight, bias) if norm.form.startswith("layernorm") else fused_rms_norm(x, weight)

    def multi_head(self, attention: Attention, x: Tensor, ctx: Context) -> Tensor:
        """Queries, keys and values by one matrix, whose parts are those of the three maps; then one kernel."""
        source = attention.source(x, ctx)
        rows = self._batch_second(x)
        q, k, v = _projected(attention, rows, rows if source is x else self._batch_second(source))
        del rows, source

        def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return _attended(attention, q, k, v, ctx)

        again = ctx.run.recompute == "selective"
        made = x.trace.checkpoint(attended, q, k, v) if again else attended(q, k, v)
        del q, k, v
        length, batch = made.shape[2], made.shape[0]
        made = contiguous(permute(made, (2, 0, 1, 3)))
        return self._batch_second(attention.output(reshape(made, length, batch, attention.heads * attention.value_dim)))

    def _batch_second(self, x: Tensor) -> Tensor:
        """A view with the first two axes in each other's place; as they lie in memory, where the batch is not first."""
        one, other, *rest = x.shape
        return transpose(x, 0, 1) if self.batch_first else reshape(x, other, one, *rest)


def _projected(attention: Attention, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Head by head, from one sequence by one product; or the queries from one, and keys and values from another.

    Autocast keeps its copies of parameters, not of parts of them.
    """
    trace, maps = x.trace, attention.inward
    packed = _packed(trace, maps)
    if x is source:
        q, k, v = _parts(linear(x, *packed), 3)
    else:
        widths = [maps[0].fan_out, maps[1].fan_out + maps[2].fan_out]
        split_ = [split(each, widths) for each in packed]
        of_q, of_kv = ([trace.lower(each[place]) for each in split_] for place in (0, 1))
        q = linear(x, *of_q)
        k, v = _parts(linear(source, *of_kv), 2)
    return _headed(attention, q), _headed(attention, k), _headed(attention, v)


def _packed(trace: Trace, maps: Sequence[Linear]) -> list[Tensor]:
    """``in_proj_weight`` and ``in_proj_bias``: those of the maps beside each other, trained if one of them is."""
    assert isinstance(trace, Interpreter)
    frozen = not any(trace.trained(f"{trace.tape.path}.{each.name}") for each in maps)
    kinds = zip(*(each.own_params().weights for each in maps), strict=True)
    found = []
    for name, tensors in zip(("weight", "bias"), kinds, strict=False):
        shape = (*tensors[0].shape[:-1], total(tensor.shape[-1] for tensor in tensors))
        found.append(trace.weight(Weight(f"in_proj_{name}", shape, frozen=frozen)))
    return found


def _parts(made: Tensor, number: int) -> list[Tensor]:
    """What a product made of several, copied so that they lie behind each other; their gradients are first as large."""
    shape = (number, *made.shape[:-1], divide(made.width, number))
    behind = copied(made, shape)
    return [select(behind, 0) for _ in range(number)]


def _headed(attention: Attention, x: Tensor) -> Tensor:
    """``l × b × a·d`` as ``b × a × l × d``: a view."""
    length, batch, width = x.shape
    return permute(reshape(x, length, batch, attention.heads, divide(width, attention.heads)), (1, 2, 0, 3))


def _attended(attention: Attention, q: Tensor, k: Tensor, v: Tensor, ctx: Context) -> Tensor:
    """scaled_dot_product_attention without a mask, by the kernel that was asked for; what is not fused is ``math``.

    Flash attention's result lies in memory as the queries do.
    """
    if ctx.run.kernel == "flash":
        return fused_attention(q, k, v, q.rows, KEPT_BY_FLASH, like_queries=True)
    if ctx.run.kernel == "efficient":
        return fused_attention(q, k, v, q.shape[0] * padded(q.shape[2]) * q.shape[1], KEPT_BY_EFFICIENT)
    return math(q, k, v, None, attention.replace(causal=False), ctx)
