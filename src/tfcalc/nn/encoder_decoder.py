"""Encoder-decoders: two stacks, the second of which reads what the first has made in all its layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

from tfcalc.nn.attention import CrossAttention
from tfcalc.nn.basic import Buffer, Embedding, Linear
from tfcalc.nn.model import Decoder, ModelWithHead
from tfcalc.nn.module import Context, Encoded, Module
from tfcalc.ops.elementwise import add, scaled
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences


class EncoderStack(Decoder):
    """Tables, layers and norms of the stack that reads the source."""

    kind = "encoder"


class Alone(Module):
    """A decoder by itself, in the module that it has in the whole."""

    kind = "decoder"

    decoder: Module

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the decoder's output for token ids."""
        return self.decoder(x, ctx)


class EncoderOnly(Alone):
    """An encoder by itself, likewise."""

    kind = "encoder"


class EncoderDecoder(Module):
    """An encoder of the source, and a decoder of the target that reads what it made; they may share a table of words.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.1.
    """

    kind = "encoder-decoder"

    shared: Embedding | None
    encoder: Module
    decoder: Module

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the decoder's output for the token ids of the target; those of the source are given beside them."""
        memory, source = self.read(x, ctx)
        x.trace.forget("embedding")  # heads are tied to the decoder's table
        x.trace.belongs(memory)  # to no layer of the decoder, though one keeps it first
        x.trace.until_loss_ends(memory)
        return self.decoder(x, ctx._replace(memory=Encoded(memory, source)))

    def read(self, x: Tensor, ctx: Context) -> tuple[Tensor, Sequences]:
        """Return the encoder's output for the source, and the sequences that it belongs to."""
        source = ctx.run.source
        ids = x.trace.given((source.batch, source.length), "int64", "source ids")
        return self.encoder(ids, ctx.alone(source)), source


class Pair(Module):
    """Two published models as one: the decoder reads what the encoder makes, through a ``bridge`` if widths differ.

    What the encoder makes is a result of the whole, too; but the loss is no reason to train it that a decoder without
    attention to it has, nor the bridge.

    Source: Rothe et al. 2019 (arXiv 1907.12461).
    """

    kind = "encoder-decoder"

    encoder: Module
    decoder: Module
    bridge: Linear | None = None

    @property
    def reads(self) -> bool:
        """True if the decoder attends to the encoder's output."""
        return any(isinstance(each, CrossAttention) and each.reads for each in self.decoder.all_of())

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the decoder's output for the token ids of the target; those of the source are given beside them."""
        source = ctx.run.source
        ids = x.trace.given((source.batch, source.length), "int64", "source ids")
        counts = not x.trace.emits_kernels  # its gradients are counted even where the decoder reads nothing of it
        with nullcontext() if self.reads or counts else x.trace.without_gradients():
            memory = self.encoder(ids, ctx.alone(source))
        if self.bridge is not None:
            with nullcontext() if self.reads else x.trace.without_gradients():
                memory = self._bridged(memory, self.bridge, source)
        x.trace.forget("embedding")  # the decoder's head is tied to its own table
        x.trace.belongs(memory)  # to no layer of the decoder, though one keeps it first
        x.trace.until_loss_ends(memory)
        return self.decoder(x, ctx._replace(memory=Encoded(memory, source)))

    def _bridged(self, memory: Tensor, bridge: Linear, source: Sequences) -> Tensor:
        """Apply the bridge, whose output is not cached, so that it runs again for each token that is decoded."""
        if source.cached is None:
            return bridge(memory)
        bridge(memory.trace.new((source.batch, source.seen, bridge.fan_in), memory.dtype, "encoded"))
        return memory


class EncoderAlone(Module):
    """An encoder by itself, which reads the sequences that run, beside the table of words that it would share."""

    kind = "encoder-decoder"

    shared: Embedding
    encoder: Module

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the encoder's output for token ids; there are none where tokens are decoded."""
        source = ctx.run.by_itself.source
        ids = x.trace.given((source.batch, source.length), "int64", "token ids")
        return self.encoder(ids, ctx.alone(source))


class Open(ModelWithHead):
    """A model whose head is among the parts of the base; it may read a multiple of the base's output (``scaled``)."""

    scaled: bool = False

    @property
    def parts(self) -> Iterator[Module]:
        """The base's, and the head."""
        return iter((*self.base.parts, self.head))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the head's output for token ids."""
        made = self.base.forward(x, ctx)
        return self.read(scaled(made) if self.scaled else made, x, ctx)


class InlineDecoder(Open):
    """A decoder that holds what makes logits."""

    kind = "decoder"


class WithBias(ModelWithHead):
    """A model whose logits have a bias that is not trained."""

    bias: Buffer | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The base, the bias, and the head: the bias comes before the matrix."""
        return iter(each for each in (self.base, self.bias, self.head) if each is not None)

    def logits(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits of the base model's output, with their bias."""
        made = super().logits(x, ctx)
        return add(made, made.trace.given((made.width,), made.trace.weights_format, "bias of logits"))
