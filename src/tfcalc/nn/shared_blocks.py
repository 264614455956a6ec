"""Transformer blocks that several layers share, beside a mixer that each of them has of its own (Zamba)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention, attentions
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import residual
from tfcalc.ops.shapes import beside, cat, copied
from tfcalc.tape.tensor import Tensor

WORDS = "vectors of words"


class Block(Module):
    """A norm before attention and another before the network, without sums; attention reads wider vectors."""

    kind = "layer"

    attention: Attention
    network: Module
    norms: tuple[Norm, Norm]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of the stream beside the words' vectors."""
        for norm, sub in zip(self.norms, (self.attention, self.network), strict=True):
            x = sub(norm(x, ctx), ctx)
        return x


class Shared(Module):
    """So many blocks that are ``stored``, each of which so many layers use (``users``); none of them owns it."""

    kind = "layer"

    block: Block
    stored: Num
    users: Num

    @property
    def copies(self) -> Num:
        """The blocks."""
        return self.stored

    @property
    def passes(self) -> Num:
        """How often each runs."""
        return self.users

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Once for all layers."""
        return self.block(x, ctx)


class AfterBlock(PreNorm):
    """``x + f(norm(x + y))``: y is what a block has made."""

    def forward(self, x: Tensor, *given: Tensor | Context) -> Tensor:
        """Of the stream and y."""
        made, ctx = given
        assert isinstance(made, Tensor)
        assert isinstance(ctx, Context)
        ((norm, sub),) = self.running(ctx)
        return residual(x, sub(norm(residual(x, made, "block"), ctx), ctx), sub.name)


class Hybrid(Module):
    """A ``block`` that reads the words' vectors again, a map of what it makes, and a mixer that reads both sums.

    The block is held by the model. Layers with one ``key`` have the same weights in it; without any they are its own.

    Source: Glorioso et al. 2024 (arXiv 2405.16712), section 2.
    """

    kind = "layer"

    mamba_decoder: AfterBlock
    linear: Linear
    block: Block
    key: str = ""

    @property
    def parts(self) -> Iterator[Module]:
        """Without the block."""
        return iter((self.mamba_decoder, self.linear))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Where operations are counted, the block runs once for all layers, and not here."""
        made = x
        if x.trace.lowers:
            with x.trace.shares(self.key):
                made = self.block(cat([x, ctx.given[WORDS]]), ctx)
        return self.mamba_decoder(x, self.linear(made), ctx)


class BlockSharingDecoder(Decoder):
    """A decoder that holds the blocks which its layers share, and what adapts them, and gives them the words' vectors.

    Those together with the stream have the ``width`` that blocks read.
    """

    shared: tuple[Module, ...] = ()
    width: Num = 0

    @property
    def parts(self) -> Iterator[Module]:
        """The decoder's, and the blocks."""
        return iter((*super().parts, *self.shared))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        words = self._words(x, ctx)
        if words.trace.lowers:
            readers = [each for shared in self.shared for each in attentions(shared)]
            ctx = ctx.backend.begin(ctx, words, readers, self.masks)
            ctx = ctx._replace(given={WORDS: copied(words, name="clone")})
        made = self.layers.run([words], ctx)
        if not words.trace.lowers:
            for each in self.shared:
                each(beside([made, words], (*made.shape[:-1], self.width)), ctx)
        return made if self.norm is None else self.norm(made, ctx)
