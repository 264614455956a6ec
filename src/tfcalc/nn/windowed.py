"""Attention within windows of an image, and what it adds for where two patches of a window lie to each other."""

from __future__ import annotations

from tfcalc.core.cost import Elementwise
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Stored
from tfcalc.nn.context import Context
from tfcalc.ops.select import index
from tfcalc.ops.shapes import copied
from tfcalc.tape.call import Call, Leaf, MatMul
from tfcalc.tape.tensor import Tensor


class WindowedAttention(Attention):
    """Patches see those of their own window alone: of so many ``patches``, and so many of them (``windows``) an image.

    Windows fill an image up at its edges; without a number of them, all patches see each other. A ``position_table``
    has a number for each head and each way in which two patches can lie to each other.

    Source: Liu et al. 2021 (Swin, arXiv 2103.14030), section 3.2.
    """

    causal: bool = False
    windows: Num | None = None
    patches: Num = 1
    position_table: Stored | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of all patches of an image, window by window."""
        if self.windows is None:
            return super().forward(x, ctx)
        stream = ctx.run.beside(self.patches)
        stream = stream._replace(batch=ctx.stream.batch * self.windows)
        made = super().forward(
            copied(x, (stream.batch, stream.length, x.width), "windows"), ctx._replace(stream=stream)
        )
        return copied(made, x.shape, "windows")


class AlongSides(WindowedAttention):
    """The same with vectors for distances along both ``sides`` of a window, which queries are multiplied by.

    Source: Kirillov et al. 2023 (SAM, arXiv 2304.02643); Li et al. 2022 (MViTv2, arXiv 2112.01526), eq. 4.
    """

    sides: tuple[Num, ...] = ()
    tables: tuple[Stored, ...] = ()

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        for table, side in zip(self.tables, self.sides, strict=True):
            _along(q, table, side, k.shape[2])
        return super()._attended(q, k, v, ctx, name)


def _along(q: Tensor, table: Stored, side: Num, keys: Num) -> Tensor:
    """``Q Rᵀ``: each head's query with a vector for each distance along a side, ``2·t·r·a·d`` FLOPs."""
    trace, (b, a, l, d) = q.trace, q.shape
    places = trace.new((side, side), "int64", "distances")
    vectors = index(table.weight(trace), places, (side, side, d))
    call = Call(
        "Q Rᵀ",
        (q, vectors),
        (b, a, l, side),
        q.dtype,
        products=(MatMul("Q Rᵀ", (2, b * l, side, a, d), (q, vectors)),),
        elementwise=(Elementwise("+ Q Rᵀ", a * b * l * keys, forward=1, backward=1),),
        saves=(q, vectors),
        leaf=Leaf(f"{table.name}.scores", "attend"),
    )
    return trace.call(call)
