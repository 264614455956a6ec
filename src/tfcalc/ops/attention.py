"""Attention, and the rotation of queries and keys by their positions."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.component import Cached, Elementwise
from tfcalc.core.number import Num, Pairs
from tfcalc.ops.work import SCALE, SOFTMAX
from tfcalc.tape.tensor import Call, Leaf, MatMul, Shape, Strides, Tensor, Within, dense, preserved


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pairs: Pairs,
    code: Callable[[], Tensor],
    *,
    cached: tuple[Cached, ...] = (),
    name: str = "attend",
    masked: bool = False,
) -> Tensor:
    """``softmax(Q Kᵀ / √d_k) V``: q of b × a × l × d, keys and values of b × g × s × d and d_v; of b × a × l × d_v.

    ====================  =======================================================================
    parameters            none
    forward FLOPs         ``2·b·a·l·s·d_k`` for Q Kᵀ and ``2·b·a·l·s·d_v`` for the values
    backward FLOPs        twice that; with a fused kernel, which recomputes Q Kᵀ, 2.5 times
    elementwise FLOPs     6 per score (scale 1, softmax 5); backward 5
    ====================  =======================================================================

    ``pairs`` are counted by the convention in use (:meth:`tfcalc.workload.Workload.pairs`); ``code`` is the kernel that
    runs. Where later keys are ``masked``, that is a step between the scale and the softmax, without FLOPs. All heads
    together have width a·d; with a·d = h the products take 4·b·l·s·h FLOPs for any number of heads.

    Source: Vaswani et al. 2017, eq. 1; torch.utils.flop_counter (sdpa_flop_count, sdpa_backward_flop_count).
    """
    heads, keys = q.shape[1], pairs.keys
    scores = q if q.needs_gradient else k
    rows = (*q.shape[:-1], keys) if keys is not None else (heads, pairs.scores)
    queries, batch = q.shape[2], q.shape[0] * heads
    call = Call(
        name,
        (q, k, v),
        (*q.shape[:-1], v.width),
        q.dtype,
        products=(
            MatMul(
                "Q Kᵀ",
                (*pairs.twice, heads, q.width),
                (q, k),
                again=pairs.fused,
                matrices=None if keys is None else (batch, queries, q.width, keys),
            ),
            MatMul(
                "P V",
                (*pairs.twice, heads, v.width),
                (scores, v),
                matrices=None if keys is None else (batch, queries, keys, v.width),
            ),
        ),
        elementwise=(
            Elementwise("scale", heads * pairs.scores, *SCALE),
            Elementwise("softmax", heads * pairs.scores, *SOFTMAX),
        ),
        cached=cached,
        limit=pairs.limit,
        leaf=Leaf(name, "attend"),
        saves_result=True,
        result="heads",
        within=(
            Within("scores", rows, ("Q Kᵀ",)),
            Within("scaled scores", rows, ("scale",)),
            *[Within("masked scores", rows, (), "mask: −∞ for later keys")] * masked,
            Within("weights", rows, ("softmax",)),
        ),
    )
    return q.trace.composite(call, code)


def rotary(
    q: Tensor, k: Tensor, width: Num, code: Callable[[], tuple[Tensor, Tensor]], behind: Num = 0
) -> tuple[Tensor, Tensor]:
    """Apply rotary embeddings to queries and keys, ``x·cos + rotate_half(x)·sin``: 3 operations per rotated element.

    ``width`` elements of each head's query or key are rotated, but none of the first ``behind`` tokens. The angles are
    computed once for all layers.

    Source: Su et al. 2021 (RoFormer, arXiv 2104.09864), eq. 34.
    """
    rows = q.rows + k.rows - behind * (q.shape[0] * q.shape[1] + k.shape[0] * k.shape[1])
    q.trace.count(_rotating((q, k), rows, width))
    return code() if q.trace.emits_kernels else (q, k)


def rotary_alone(q: Tensor, width: Num, code: Callable[[], Tensor]) -> Tensor:
    """Apply rotary embeddings to queries alone, whose keys are rotated already."""
    q.trace.count(_rotating((q,), q.rows, width))
    return code() if q.trace.emits_kernels else q


def _rotating(rotated: tuple[Tensor, ...], rows: Num, width: Num) -> Call:
    work = Elementwise("rotate", rows * width, forward=3, backward=3)
    *others, last = rotated
    return Call(
        "rotary",
        rotated,
        last.shape,
        last.dtype,
        elementwise=(work,),
        leaf=Leaf("rotary", "rotary"),
        saves_result=True,
        result="K rotated" if others else "Q rotated",
        within=tuple(Within("Q rotated", q.shape, ()) for q in others),
    )


def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, rows: Num, state: int, mask: Tensor | None = None, *, like_queries: bool = False
) -> Tensor:
    """Run attention as one kernel, which saves q, k, v, mask, result, log-sum-exp of ``rows``, and the random state.

    ``state`` is the number of elements of the latter. The result's layout is b × l × a × d, or ``like_queries``.
    """
    trace = q.trace
    q, k, v = trace.lower(q), trace.lower(k), trace.lower(v)
    sums = trace.new((rows,), "float32", "log-sum-exp")
    random_state = trace.new((state,), "int64", "random state")
    saves = (q, k, v, *([mask] if mask is not None else []), sums, random_state)
    shape = (*q.shape[:-1], v.width)
    strides = preserved(q) if like_queries else by_token(shape)
    call = Call("fused_attention", (q, k, v, mask), shape, q.dtype, saves=saves, saves_result=True, strides=strides)
    return trace.call(call)


def by_token(shape: Shape) -> Strides:
    """Return the strides of b × a × l × d whose layout in memory is b × l × a × d."""
    b, a, l, d = shape
    strides = dense((b, l, a, d))
    return None if strides is None else (strides[0], strides[2], strides[1], strides[3])
