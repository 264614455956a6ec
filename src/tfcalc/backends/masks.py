"""Causal masks that transformers makes once for all layers: additive for eager attention, else boolean.

Modelled on transformers' ``masking_utils``: sdpa gets none if its own causal mask is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfcalc.backends.cache import Cache, CacheLayer
from tfcalc.core.number import Num
from tfcalc.core.traced import value_of
from tfcalc.nn.attention import Attention
from tfcalc.nn.context import Context
from tfcalc.ops.shapes import copied, expand
from tfcalc.tape.call import Call
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.tensor import Tensor

Readers = Mapping[Num | None, Sequence[Attention]]
EAGER = (*("arange", "arange"), *("arange", "add") * 2, "le", "zeros", "scalar_tensor", "where")
"""Kernels of an eager mask: indices of sequences, heads, queries and keys; comparison; and conversion to numbers."""
WINDOWED = ("new_ones", "sub", "gt", "bitwise_and", "bitwise_and")
"""Further kernels for a window."""


def masks(readers: Readers, x: Tensor, ctx: Context) -> Mapping[Num | None, Tensor]:
    """Return the masks that are needed, by window; ``readers`` are the attentions that read each."""
    trace = x.trace
    assert isinstance(trace, Interpreter)
    if ctx.cache is None:
        by_window = {window: _of_sequence(window, reading, trace, ctx) for window, reading in readers.items()}
    else:
        assert isinstance(ctx.cache, Cache)
        by_window = {window: _of_cached(layer, trace, ctx) for window, layer in ctx.cache.kinds.items()}
    return {window: mask for window, mask in by_window.items() if mask is not None}


def _of_sequence(window: Num | None, readers: Sequence[Attention], trace: Interpreter, ctx: Context) -> Tensor | None:
    """Return the mask of a sequence: additive in eager attention, boolean in sdpa; None if sdpa needs none.

    With ALiBi it is additive with an axis for heads. Code that calls ``masked_fill`` needs a boolean one.
    """
    batch, length = ctx.stream.batch, ctx.stream.length
    shape: tuple[Num, ...] = (batch, 1, length, length)
    sloped = [reader.heads for reader in readers if reader.alibi is not None and reader.alibi.in_mask]
    if ctx.run.kernel == "eager" or sloped:
        kernels = EAGER if window is None else (*EAGER, *WINDOWED)
        kind = "bool" if any(reader.eager.mask == "filled" for reader in readers) else trace.numerics.weights
        shape = (batch, sloped[0] if sloped else 1, length, length)
        mask = trace.call(Call("mask", (), shape, kind, kernels=kernels))
        mask.storage.home = trace.module  # one mask for all layers, listed under the model
        return mask
    if window is None and trace.numerics.traced and any(reader.given_ones for reader in readers if reader.causal):
        return trace.new(shape, "bool", "mask")  # a traced run cannot see that the given mask is all ones
    ends_before = window is not None and value_of(length) >= value_of(window)
    if not ends_before and not any(reader.always_masked for reader in readers):
        return None
    seen = _seen(window, length, length, trace)
    seen.storage.home = trace.module
    return expand(seen, *shape)


def _of_cached(layer: CacheLayer, trace: Interpreter, ctx: Context) -> Tensor | None:
    """Return the mask of new queries and all cached keys; None if sdpa needs none."""
    new = ctx.stream.length
    assert isinstance(new, int)
    shape = (ctx.stream.batch, 1, new, layer.read(new))
    seen = _seen(layer.kind.window, *shape[2:], trace)
    if ctx.run.kernel == "eager":
        return trace.call(Call("where", (seen,), shape, trace.numerics.weights))
    return expand(seen, *shape) if layer.masked(new) else None


def _seen(window: Num | None, queries: Num, keys: Num, trace: Interpreter) -> Tensor:
    """Return the boolean mask of keys at or before a query, and in its window (and_masks copies it each time)."""
    seen = trace.new((1, 1, queries, keys), "bool", "mask")
    if window is None:
        return seen
    later = copied(seen, name="mask")
    return copied(later, name="mask")
