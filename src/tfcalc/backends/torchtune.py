"""torchtune's modules: those of its Llama, Mistral and Qwen2.

Source: torchtune/modules (attention.py, position_embeddings.py, transformer.py, rms_norm.py, feed_forward.py). Norms
and gates are the operations of transformers' Llama.
"""

from __future__ import annotations

from tfcalc.backends import attention
from tfcalc.backends.transformers import Transformers
from tfcalc.core.number import Num, divide, same
from tfcalc.nn.attention import Attention
from tfcalc.nn.context import Context
from tfcalc.nn.model import ModelWithHead
from tfcalc.ops.attention import by_token
from tfcalc.ops.elementwise import add, mul
from tfcalc.ops.shapes import copied, reshape, select, stack, transpose
from tfcalc.tape.tensor import Tensor


class Torchtune(Transformers):
    """A backend for families whose layers are torchtune's TransformerSelfAttentionLayer, without more.

    Their registration names it among their ``libraries``. See :class:`tfcalc.nn.context.Backend`.
    """

    def begin(self, ctx: Context, x: Tensor, attentions: list[Attention], masks: tuple[Num | None, ...]) -> Context:
        """Nothing: attention is causal without a mask, and cosines and sines are a buffer of the model."""
        return ctx

    def multi_head(self, attention: Attention, x: Tensor, ctx: Context) -> Tensor:
        """By maps; a variable of the layer holds what it has made."""
        made = attention.by_maps(x, ctx)
        made.trace.until_layer_ends(made)
        return made

    def rotate(self, q: Tensor, k: Tensor, attention: Attention, ctx: Context) -> tuple[Tensor, Tensor]:
        """RotaryPositionalEmbeddings of each."""
        return _rotated(q), _rotated(k)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, block: Attention, ctx: Context) -> Tensor:
        """Keys and values are copied for each head that reads them, and then go to the kernel."""
        k, v = (_for_heads(each, q.shape[1]) for each in (k, v))
        return attention.attended(q, k, v, block, ctx)

    def logits(self, model: ModelWithHead, x: Tensor, ctx: Context) -> Tensor:
        """In fp32: the model itself brings them there (``self.output(h).float()``)."""
        return x.trace.to(super().logits(model, x, ctx), "float32")

    def labels(self, model: ModelWithHead, ids: Tensor) -> Tensor:
        """They come with the batch."""
        return ids


def _rotated(x: Tensor) -> Tensor:
    """Pairs of neighbours turned in fp32, put together again, and brought back to their format, token by token."""
    trace, given = x.trace, transpose(x, 1, 2)
    length, half = given.shape[1], divide(given.width, 2)
    pairs = reshape(trace.to(given, "float32"), *given.shape[:-1], half, 2)
    cos, sin = (trace.given((length, 1, half), "float32", name) for name in ("cos", "sin"))
    one, other = (select(pairs, -1) for _ in "12")
    turned = [add(mul(one, cos), mul(other, sin)), add(mul(other, cos), mul(one, sin))]
    made = reshape(stack(turned, pairs.shape), *given.shape)
    return transpose(trace.to(made, given.dtype), 1, 2)


def _for_heads(x: Tensor, heads: Num) -> Tensor:
    batch, own, length, width = x.shape
    shape = (batch, heads, length, width)
    return x if same(own, heads) else copied(x, shape, "expand", by_token(shape))
