"""What is made of sound: convolutions over its samples or its spectrogram, where its frames stand, and encoders."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num, divide
from tfcalc.nn.basic import Norm
from tfcalc.nn.context import Context
from tfcalc.nn.embeddings import Sines, numbered
from tfcalc.nn.encoder import through
from tfcalc.nn.encoder_decoder import EncoderDecoder
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import add, dropout
from tfcalc.ops.frames import convolution, group_norm, means
from tfcalc.ops.shapes import pad, transpose
from tfcalc.ops.tables import sines
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences


class Convolution(Module):
    """Each place of ``width`` channels is a linear map of those of the ``channels`` under the kernel's ``taps``.

    So many ``groups`` of channels are mapped by themselves. An ``activation`` stands behind it. A program may put so
    many zeros ``before`` what it reads, in new memory.
    """

    kind = "convolution"

    channels: Num
    width: Num
    taps: tuple[Num, ...]
    bias: bool = True
    groups: Num = 1
    activation: str = ""
    before: Num = 0

    def held(self) -> Cost:
        """W and b."""
        weight = Weight("w", (self.width, divide(self.channels, self.groups), *self.taps))
        return Cost(weights=(weight, *([Weight("b", (self.width,), minor=True, key="bias")] if self.bias else [])))

    def forward(self, x: Tensor, ctx: Context, *places: Num) -> Tensor:
        """At so many places of each axis behind the channels."""
        weight, bias, *_ = *self.weights(x.trace), None
        assert weight is not None
        if x.trace.lowers and self.before:
            x = pad(x, 2, x.shape[2] + self.before)
        return convolution(x, weight, bias, *places)

    def activated(self, x: Tensor, ctx: Context, *places: Num) -> Tensor:
        """The same and the activation, which stands beside it."""
        made, kind = self(x, ctx, *places), self.activation
        name = f"{self.name}_activation"
        return ctx.activation(kind, made, name) if kind else made


class FramePlaces(Sines):
    """Sines and cosines of where a frame stands."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of all places of b × n × h."""
        return sines(numbered(x, (x.shape[1],)), self.width, x.rows, x.trace.weights_format)


class Stem(Module):
    """Two convolutions over a spectrogram, the second of which halves the time (Whisper)."""

    kind = "stem"

    first: Convolution
    second: Convolution

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each frame that is heard, of a spectrogram of twice as many."""
        stream, kind = ctx.stream, x.trace.weights_format
        x = x.trace.given((stream.batch, self.first.channels, 2 * stream.length), kind, "spectrogram")
        x = self.first.activated(x, ctx, 2 * stream.length)
        return transpose(self.second.activated(x, ctx, stream.length), 1, 2)


class GroupNorm(Norm):
    """A norm of all channels of all places of a sequence at once (arXiv 1803.08494, with one group)."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × c × n."""
        weight, bias = self.weights(x.trace)
        return group_norm(x, weight, bias)


class WaveStem(Module):
    """Three convolutions over samples, each of which shortens the time, and a norm behind the first (Moonshine)."""

    kind = "stem"

    first: Convolution
    norm: GroupNorm
    second: Convolution
    third: Convolution
    strides: tuple[int, int, int]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each frame that is heard, of as few samples as make so many."""
        places = [ctx.stream.length]
        for each, stride in zip((self.third, self.second, self.first), reversed(self.strides), strict=True):
            places.append(reads(places[-1], each.taps[0], stride))
        third, second, first, samples = places
        x = x.trace.given((ctx.stream.batch, self.first.channels, samples), x.trace.weights_format, "samples")
        x = self.norm(self.first.activated(x, ctx, first), ctx)
        x = self.third.activated(self.second.activated(x, ctx, second), ctx, third)
        return transpose(x, 1, 2)


def reads(made: Num, taps: Num, stride: int) -> Num:
    """How many places a convolution reads, at the least, to make so many: ``stride·(n − 1) + k``, or none for none."""
    places: Num = stride * (made - 1) + taps
    return 0 if isinstance(made, int) and made == 0 else places


class SoundEncoder(Module):
    """What a ``stem`` makes of sound, through layers that look both ways, and a norm (Whisper).

    A clip is filled up to so many ``frames``, or as long as the source, or has so many frames ``per_word``. The stem's
    parts stand in the encoder itself, unless it has a name. A norm may stand ``first``, before the layers. Neighbours
    may be ``halved``: their mean is what the last norm reads.

    Source: Radford et al. 2022 (arXiv 2212.04356), section 2.2.
    """

    kind = "encoder"

    stem: Module
    places: FramePlaces | None
    layers: Stack
    norm: Norm
    frames: Num | None = None
    dropped: bool = False
    halved: bool = False
    per_word: Num | None = None
    first: Norm | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The stem's, and the others."""
        stem = (self.stem,) if self.stem.name else self.stem.parts
        return (part for part in (*stem, self.places, self.first, self.layers, self.norm) if part is not None)

    def heard(self, ctx: Context) -> Sequences:
        """The frames that it makes vectors of; where tokens are decoded it has made them."""
        if self.per_word is not None:
            return ctx.run.beside(ctx.run.seq_len * self.per_word)
        return ctx.run.source if self.frames is None else ctx.run.beside(self.frames)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of a clip for each sequence; ``x`` are the words beside it."""
        ctx = ctx.alone(self.heard(ctx))
        made = self.stem(x, ctx) if self.stem.name else self.stem.forward(x, ctx)
        x = made if self.places is None else add(made, self.places(made, ctx))
        x = dropout(x, "embedding_dropout") if self.dropped and ctx.drops else x
        x = through(self.layers, x if self.first is None else self.first(x, ctx), ctx)
        if self.halved:
            x = transpose(means(transpose(x, 1, 2), divide(ctx.stream.length, 2)), 1, 2)
        return self.norm(x, ctx)


class Transcriber(EncoderDecoder):
    """An encoder of sound, and a decoder that writes what it has heard."""

    def read(self, x: Tensor, ctx: Context) -> tuple[Tensor, Sequences]:
        """What the encoder makes of the clips, and of how many frames."""
        assert isinstance(self.encoder, SoundEncoder)
        return self.encoder(x, ctx), self.encoder.heard(ctx)
