"""Encoders that hear what is said, and by whom: each frame gets fixed vectors of those who speak (Nemotron 3.5)."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.frames import Convolution, SoundEncoder
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.listener import Listener
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import activation, add, pointwise
from tfcalc.ops.products import linear
from tfcalc.ops.shapes import reshape, transpose
from tfcalc.tape.tensor import Tensor


class SharedKeys(Attention):
    """Attention in which heads share keys, but not values."""

    @property
    def value_heads(self) -> Num:
        """All."""
        return self.heads


class StackedFrames(Linear):
    """As many frames of the spectrogram as are mapped to one vector, laid side by side."""

    def forward(self, x: Tensor, *given: object) -> Tensor:
        """Of a clip for each sequence, which is given beside ``x``."""
        (ctx,) = given
        assert isinstance(ctx, Context)
        shape = (ctx.stream.batch, ctx.stream.length, self.fan_in)
        return super().forward(x.trace.given(shape, x.trace.weights_format, "spectrogram"))


class UntrainedLayer(PreNorm):
    """A layer that no gradient reaches, and so none to recomputation."""

    kind = "unread"


class Upsampled(Module):
    """An encoder, a map of its frames, and a convolution that makes several finer ones of each (arXiv 1609.05158)."""

    kind = "encoder"

    encoder: SoundEncoder
    map: Linear
    convolution: Convolution
    finer: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A narrow vector for each fine frame, so many times as many as the encoder's."""
        x = transpose(self.map(self.encoder(x, ctx)), 1, 2)
        b, h, n = x.shape
        return reshape(transpose(self.convolution(x, ctx, n), 1, 2), b, n * self.finer, h)


class SpeakerClasses(Module):
    """Logits of each speaker, by two maps, each of which has a ReLU before it."""

    kind = "head"

    dense: Linear
    output: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of each frame."""
        for place, each in enumerate((self.dense, self.output), 1):
            x = each(_relu(x, f"relu{place}"))
        return x


def _relu(x: Tensor, name: str) -> Tensor:
    return activation("relu", x, lambda: pointwise("relu", x), name)


class Diarization(Module):
    """Who speaks in each frame; a trained vector of ``silence`` is held for longer clips than one."""

    kind = "encoder"

    model: Upsampled
    classifier: SpeakerClasses
    silence: Stored

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of a clip for each sequence."""
        return self.classifier(self.model(x, ctx), ctx)


class SpeakerVectors(Module):
    """The sum of fixed vectors of those who speak: a product with a table, and only the other factor has a gradient."""

    kind = "linear"

    speakers: Num
    width: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × n × speakers."""
        table = x.trace.given((self.speakers, self.width), x.dtype, "vectors of speakers")
        return linear(x, table, letter="S")


class WithSpeakers(Module):
    """An encoder, and to each of its frames, normed, the vectors of those who speak.

    Whoever speaks more than half of the time does so: that choice has no gradient.
    """

    kind = "encoder"

    encoder: SoundEncoder
    diarization: Diarization
    norm: Norm
    speaker_norm: Norm
    vectors: SpeakerVectors

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of a clip for each sequence."""
        heard = self.encoder(x, ctx)
        with x.trace.without_gradients():
            self.diarization(x, ctx)
        speak = x.trace.new((*heard.shape[:2], self.vectors.speakers), heard.dtype, "who speaks")
        return add(self.norm(heard, ctx), self.vectors(self.speaker_norm(speak, ctx), ctx))


class TimingListener(Listener):
    """A listener that also holds an encoder which tells when a word was said: it runs only where that is asked for."""

    times: Module | None = None


class TimingHead(WithHead):
    """Logits of words; what makes those of pieces of words for each fine frame is held, and asked for alone."""

    timing: Convolution | None = None
