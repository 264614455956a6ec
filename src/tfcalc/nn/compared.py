"""Towers of texts and of images, and how alike what they make of them is."""

from __future__ import annotations

from contextlib import nullcontext

from tfcalc.nn.attention import OWN_SOFTMAX, EagerCode
from tfcalc.nn.basic import Linear, Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.cross_attention import CrossAttention
from tfcalc.nn.embeddings import Embeddings
from tfcalc.nn.encoder import Layers
from tfcalc.nn.module import Module
from tfcalc.nn.tower import Tower
from tfcalc.ops.elementwise import add, mul, pointwise, power, quotient, residual
from tfcalc.ops.products import similarity
from tfcalc.ops.rows import row_norm
from tfcalc.ops.select import index, row_sums
from tfcalc.ops.shapes import copied, first, narrow, reshape
from tfcalc.tape.tensor import Tensor


class Words(Embeddings):
    """Tables of words and positions under another name."""

    kind = "embedding"


class TextTower(Module):
    """Words with positions, layers, a norm: a vector for each token, and one for the text.

    That is the vector of the token that ends it; or the last one's, through a ``head``. A program's loss reads the
    vectors of all tokens.
    """

    kind = "encoder"

    table: Words
    layers: Layers
    norm: Norm
    head: Linear | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        return self._read(x, ctx, reads=not x.trace.lowers)[0]

    def pooled(self, x: Tensor, ctx: Context) -> Tensor:
        """One vector for each text."""
        with x.trace.inside(self):
            return self._read(x, ctx, reads=True)[1]

    def _read(self, ids: Tensor, ctx: Context, *, reads: bool) -> tuple[Tensor, Tensor]:
        x = self.norm(self.layers(self.table(ids, ctx), ctx), ctx)
        with nullcontext() if reads else x.trace.without_gradients():
            return x, self._whole(x)

    def _whole(self, x: Tensor) -> Tensor:
        if self.head is not None:
            return self.head(reshape(narrow(x, 1), x.shape[0], x.width))
        b = x.shape[0]
        return index(x, x.trace.new((2, b), "int64", "sequences and places of their ends"), (b, x.width))


class WithWeights(CrossAttention):
    """torch.nn.MultiheadAttention, which makes its scores whatever kernel is asked for, to give them back."""

    eager: EagerCode = OWN_SOFTMAX

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the queries make of the memory."""
        return super().forward(x, ctx._replace(run=ctx.run.replaced(kernel="eager")))


class Probe(Module):
    """A trained query that attends to all patches, and a feed-forward network behind it.

    Source: Zhai et al. 2022 (arXiv 2106.04560), section 3.3 (MAP head).
    """

    kind = "pooler"

    probe: Stored
    attention: CrossAttention
    norm: Norm
    network: Module

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of the vectors of all patches."""
        b, _, h = x.shape
        one = ctx.run.beside(1)
        query = copied(self.probe.weight(x.trace), (b, one.length, h), "repeat")
        ctx = ctx.asking(one, x, ctx.stream)
        made = self.attention(query, ctx)
        made = residual(self.network(self.norm(made, ctx), ctx), made, self.network.name)
        return first(made)


class Projected(Module):
    """A tower, and a map of what it makes of the whole."""

    kind = "model"

    tower: Tower | TextTower
    map: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each sequence or image."""
        return self.map(self.tower.pooled(x, ctx))


class Compared(Module):
    """A text and an image tower, maps into a common space, and how alike each text and each image are.

    Cosines are multiplied by the exponential of a trained ``scale``, and may have a trained ``bias``. A program makes
    lengths by hand: squares, their sum, its root (``by_hand``).

    Source: Radford et al. 2021 (CLIP, arXiv 2103.00020), figure 3; Zhai et al. 2023 (SigLIP, arXiv 2303.15343).
    """

    kind = "model"

    text: TextTower
    vision: Tower
    maps: tuple[Linear, ...]
    scale: Stored
    bias: Stored | None = None
    by_hand: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Texts × images."""
        seen, read = self.vision.pooled(x, ctx), self.text.pooled(x, ctx)
        if self.maps:
            of_images, of_texts = self.maps
            seen, read = of_images(seen), of_texts(read)
        seen, read = self._unit(seen), self._unit(read)
        made = similarity(read, seen, "logits")
        made = mul(made, pointwise("exp", self.scale.weight(x.trace)))
        return made if self.bias is None else add(made, self.bias.weight(x.trace))

    def _unit(self, x: Tensor) -> Tensor:
        """Of length 1."""
        if not x.trace.lowers:
            return x
        return quotient(x, power(row_sums(power(x))) if self.by_hand else row_norm(x))
