"""torchtune's modules, which its Llama, Mistral and Qwen2 are made of.

Source: torchtune/modules (attention.py, position_embeddings.py, transformer.py, rms_norm.py, feed_forward.py). Norms
and gates run the operations of transformers' Llama.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.backends import SAVED, WITH_COMPILE, attention
from tfcalc.backends.transformers import Transformers
from tfcalc.configs.published import HFModel
from tfcalc.core.number import Num, divide, same
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Context
from tfcalc.ops.attention import by_token
from tfcalc.ops.elementwise import add, mul
from tfcalc.ops.shapes import copied, reshape, select, stack, transpose
from tfcalc.tape.tensor import Tensor

if TYPE_CHECKING:
    from tfcalc.model import Model


class Torchtune(Transformers):
    """torchtune, for families whose layers are its plain TransformerSelfAttentionLayer.

    Their registration names it among their ``libraries``. See :class:`tfcalc.nn.module.Backend`.
    """

    name, label = "torchtune", "torchtune's code"
    compared = frozenset({SAVED, WITH_COMPILE})
    stack = "fsdp"
    casts_logits = True
    by_bitsandbytes = False
    adapters_as_model = True
    dora_computes_again = False  # torchtune/modules/peft/dora.py

    @classmethod
    def refuse(cls, model: Model) -> None:
        """Raise InvalidModel for a family that is not registered with torchtune."""
        assert isinstance(model, HFModel)
        if cls.name not in model.family.libraries:
            what = f"torchtune's code of model_type {model.family.model_type!r} is not supported"
            raise InvalidModel(what, "that of llama, mistral and qwen2 is; take --backend transformers")

    def begin(self, ctx: Context, x: Tensor, attentions: list[Attention], masks: tuple[Num | None, ...]) -> Context:
        """Prepare nothing: attention is causal without a mask, and cosines and sines are a buffer of the model."""
        return ctx

    def multi_head(self, attention: Attention, x: Tensor, ctx: Context) -> Tensor:
        """Run attention by its maps; a local variable of the layer keeps the result live."""
        result = attention.by_maps(x, ctx)
        result.trace.until_layer_ends(result)
        return result

    def rotate(self, q: Tensor, k: Tensor, attention: Attention, ctx: Context) -> tuple[Tensor, Tensor]:
        """Apply RotaryPositionalEmbeddings to both."""
        return _rotated(q), _rotated(k)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, block: Attention, ctx: Context) -> Tensor:
        """Copy keys and values for each head that reads them, then run the kernel."""
        k, v = _for_heads(k, q.shape[1]), _for_heads(v, q.shape[1])
        return attention.attended(q, k, v, block, ctx)

    def logits(self, model: ModelWithHead, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits in fp32: the model itself casts them (``self.output(h).float()``)."""
        return x.trace.to(super().logits(model, x, ctx), "float32")

    def labels(self, model: ModelWithHead, ids: Tensor) -> Tensor:
        """Return the labels that come with the batch."""
        return ids


def _rotated(x: Tensor) -> Tensor:
    """Rotate pairs of neighbours in fp32, stack them, and cast back; tokens come before heads in memory."""
    trace, given = x.trace, transpose(x, 1, 2)
    length, half = given.shape[1], divide(given.width, 2)
    pairs = reshape(trace.to(given, "float32"), *given.shape[:-1], half, 2)
    cos, sin = (trace.given((length, 1, half), "float32", name) for name in ("cos", "sin"))
    even, odd = select(pairs, -1), select(pairs, -1)
    rotated = [add(mul(even, cos), mul(odd, sin)), add(mul(odd, cos), mul(even, sin))]
    stacked = reshape(stack(rotated, pairs.shape), *given.shape)
    return transpose(trace.to(stacked, given.dtype), 1, 2)


def _for_heads(x: Tensor, heads: Num) -> Tensor:
    batch, own, length, width = x.shape
    shape = (batch, heads, length, width)
    return x if same(own, heads) else copied(x, shape, "expand", by_token(shape))
