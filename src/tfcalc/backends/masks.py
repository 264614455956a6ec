"""The masks of causal attention that transformers makes once for all layers: numbers if it is eager, else booleans.

After transformers' ``masking_utils``: sdpa needs none where it can find out by itself what a query sees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfcalc.backends.cache import Cache, Layer
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
"""Places of sequences, heads, queries and keys; what is not later; and a number for each."""
WINDOWED = ("new_ones", "sub", "gt", "bitwise_and", "bitwise_and")
"""And what is not before the window."""


def masks(readers: Readers, x: Tensor, ctx: Context) -> Mapping[Num | None, Tensor]:
    """By window: those that are needed; ``readers`` are the blocks that read them."""
    trace = x.trace
    assert isinstance(trace, Interpreter)
    if ctx.cache is None:
        made = {window: _of_sequence(window, reading, trace, ctx) for window, reading in readers.items()}
    else:
        assert isinstance(ctx.cache, Cache)
        made = {window: _of_cached(layer, trace, ctx) for window, layer in ctx.cache.kinds.items()}
    return {window: mask for window, mask in made.items() if mask is not None}


def _of_sequence(window: Num | None, readers: Sequence[Attention], trace: Interpreter, ctx: Context) -> Tensor | None:
    """Numbers in eager attention, booleans in sdpa, where they say more than that the future is masked.

    ALiBi's are numbers for each head. What is filled where it is masked needs booleans.
    """
    batch, length = ctx.stream.batch, ctx.stream.length
    shape: tuple[Num, ...] = (batch, 1, length, length)
    sloped = [each.heads for each in readers if each.alibi is not None and each.alibi.in_mask]
    if ctx.run.kernel == "eager" or sloped:
        kernels = EAGER if window is None else (*EAGER, *WINDOWED)
        kind = "bool" if any(each.eager.mask == "filled" for each in readers) else trace.numerics.weights
        shape = (batch, sloped[0] if sloped else 1, length, length)
        mask = trace.call(Call("mask", (), shape, kind, kernels=kernels))
        mask.storage.home = trace.module  # one for all layers, if any keeps it
        return mask
    if window is None and trace.numerics.traced and any(each.given_ones for each in readers if each.causal):
        return trace.new(shape, "bool", "mask")  # nobody can see that they are ones
    ends_before = window is not None and value_of(length) >= value_of(window)
    if not ends_before and not any(each.always_masked for each in readers):
        return None
    seen = _seen(window, length, length, trace)
    seen.storage.home = trace.module
    return expand(seen, *shape)


def _of_cached(layer: Layer, trace: Interpreter, ctx: Context) -> Tensor | None:
    """That of new queries and all keys that they find."""
    new = ctx.stream.length
    assert isinstance(new, int)
    shape = (ctx.stream.batch, 1, new, layer.read(new))
    seen = _seen(layer.kind.window, *shape[2:], trace)
    if ctx.run.kernel == "eager":
        return trace.call(Call("where", (seen,), shape, trace.numerics.weights))
    return expand(seen, *shape) if layer.masked(new) else None


def _seen(window: Num | None, queries: Num, keys: Num, trace: Interpreter) -> Tensor:
    """Which keys a query sees: those at or before it, and those in its window (and_masks makes a copy each time)."""
    seen = trace.new((1, 1, queries, keys), "bool", "mask")
    if window is None:
        return seen
    later = copied(seen, name="mask")
    return copied(later, name="mask")
