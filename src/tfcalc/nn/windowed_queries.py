"""Encoders that guess half-way what was said, and queries that read windows of what they made (Granite Speech)."""

from __future__ import annotations

from tfcalc.core.number import ceil_div
from tfcalc.nn.basic import Linear, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.encoder import through
from tfcalc.nn.module import Module
from tfcalc.nn.queries import QueryReader
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import add
from tfcalc.ops.rows import softmax
from tfcalc.ops.shapes import cat, copied, pad, reshape
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences


class GuessingEncoder(Module):
    """A map of each frame, and layers; half-way, what they made is mapped to letters, and the guess is fed back.

    The guess is made if half of the layers are one at least (``guesses``). Where in the stack it stands is of no
    consequence to what is counted: here it is behind the last layer. What some layers made (so many, ``beside``) may
    stand beside what leaves the stack; it is as wide.

    Source: Lee and Watanabe 2021 (arXiv 2102.03216); Nozaki and Komatsu 2021 (arXiv 2104.02724).
    """

    kind = "encoder"

    input: Linear
    layers: Stack
    letters: Linear
    back: Linear
    guesses: bool
    beside: int = 0

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of a clip for each sequence; ``x`` are the words beside it."""
        stream, trace = ctx.run.source, x.trace
        ctx = ctx.alone(stream)
        x = trace.given((stream.batch, stream.length, self.input.fan_in), trace.weights_format, "spectrogram")
        x = through(self.layers, self.input(x), ctx)
        if self.guesses:
            guess = self.letters(copied(x))
            x = add(x, self.back(softmax(guess) if trace.lowers else guess))
        return cat([x] * (self.beside + 1)) if self.beside else x


class WindowedQueries(Module):
    """Trained queries, the same for each window of so many frames, what reads a window with them, and a map.

    The last window is filled up. Source: transformers' GraniteSpeechEncoderProjector; see also arXiv 2505.08699.
    """

    kind = "projector"

    query: Stored
    reader: QueryReader
    map: Linear
    window: int

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × n × h."""
        b, n, h = x.shape
        count, (queries, width) = ceil_div(n, self.window), self.query.tensor.shape
        windows = b * count
        x = reshape(pad(x, 1, count * self.window) if x.trace.lowers else x, windows, self.window, h)
        run = ctx.run.replaced(batch_size=windows, seq_len=queries, source_len=self.window)
        ctx = ctx._replace(run=run, cache=None)
        ctx = ctx.asking(Sequences(windows, queries), x, Sequences(windows, self.window))
        asked = 0 if run.decoding else 1  # one for all; none where the frames were heard before
        made = self.reader(reshape(self.query.weight(x.trace), asked, queries, width), ctx)
        return self.map(reshape(made, b, count * queries, width))
