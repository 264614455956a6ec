"""VibeVoice-ASR: raw sound through two encoders of convolutions that shorten the time in stages, and a Qwen2."""

from __future__ import annotations

from math import prod

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.configs.tops import bare
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.nn.basic import Linear, Norm, Parameter, parameter
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack, in_a_row
from tfcalc.ops.elementwise import mul, residual
from tfcalc.ops.shapes import reshape, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks.layers import network
from tfcalc.zoo.blocks.sound import HEADS, Convolution, SoundProjector, Summing, TwoEars, language
from tfcalc.zoo.blocks.vision_tower import nested


class ConvNextLayer(Module):
    """A convolution of each channel over time, and a network; what each adds is scaled (arXiv 2201.03545)."""

    norm: Norm
    mixer: Convolution
    gamma: Parameter
    ffn_norm: Norm
    ffn: FeedForward
    ffn_gamma: Parameter
    kind: str = "layer"

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the layer's output, for ``x`` of b × c × n."""
        made = transpose(self.norm(transpose(x, 1, 2), ctx), 1, 2)
        x = residual(x, self._scaled(self.mixer(made, ctx, x.width), self.gamma), "mixer")
        made = transpose(self.ffn(self.ffn_norm(transpose(x, 1, 2), ctx), ctx), 1, 2)
        return residual(x, self._scaled(made, self.ffn_gamma), "ffn")

    def _scaled(self, x: Tensor, by: Parameter) -> Tensor:
        return mul(x, reshape(by.weight(x.trace), x.shape[1], 1))


class CodecStage(Module):
    """A convolution that makes the time ``ratio`` times shorter, and layers."""

    kind = "stage"

    conv: Convolution
    layers: Stack | None
    ratio: int

    def forward(self, x: Tensor, ctx: Context, length: Num) -> Tensor:
        """Return the stage's output, of ``length`` places, for ``x`` of b × c × n."""
        x = self.conv(x, ctx, length)
        return x if self.layers is None else self.layers(x, ctx)


class Codec(Module):
    """Stages, and a convolution that makes vectors of what the last one has made.

    The source is as long as what comes out: a frame of it is as many samples as all ratios make together.
    """

    kind = "encoder"

    stages: tuple[CodecStage, ...]
    head: Convolution
    channels: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each frame; ``x`` are the words beside it."""
        stream, ratios = ctx.run.source, [each.ratio for each in self.stages]
        shape = (stream.batch, self.channels, stream.length * prod(ratios))
        ctx = ctx.alone(stream)
        made = x.trace.given(shape, x.trace.weights_format, "samples")
        for place, each in enumerate(self.stages, 1):
            made = each(made, ctx, stream.length * prod(ratios[place:]))
        return transpose(self.head(made, ctx, stream.length), 1, 2)


CODEC = "vibevoice_acoustic_tokenizer_encoder"

LAYER, UNREAD = "layer", "unread"
"""Kinds of layers: those of a model by itself, and those of which nothing reads what they make."""


@family(CODEC, heads={"Model": bare})
def vibevoice_acoustic_tokenizer_encoder(c: Config) -> Module:
    """The encoder of VibeVoice's codec (arXiv 2508.19205): each stage doubles the channels and shortens the time."""
    return _codec(c, LAYER)


def _codec(c: Config, kind: str) -> Codec:
    ratios, depths, stages = c.numbers("downsampling_ratios", least=1), c.numbers("depths"), []
    if len(depths) <= len(ratios):
        raise InvalidModel(f"{c.path('depths')} has {len(depths)} entries", f"give {len(ratios) + 1}: one for a stage")
    kernel, reads = c.size("kernel_size"), c.size("channels")
    for place, (ratio, depth) in enumerate(zip([0, *ratios], depths, strict=False)):
        name, width = f"conv_layers[{place - 1}]" if place else "stem", c.size("num_filters") * 2**place
        taps, before = (2 * ratio, ratio) if place else (kernel, kernel - 1)
        first = Convolution("conv.conv", reads, width, (taps,), before=before)
        layers = Stack("stage", (_layer(c, width, kind),) * in_a_row(depth), depth) if depth else None
        stages.append(CodecStage(name, first, layers, ratio or 1))
        reads = width
    head = Convolution("head.conv", reads, c.size("hidden_size"), (kernel,), before=kernel - 1)
    return Codec("encoder", tuple(stages), head, c.size("channels"))


def _layer(c: Config, width: Num, kind: str) -> ConvNextLayer:
    kernel, wide = c.size("kernel_size"), c.size("ffn_expansion") * width
    return ConvNextLayer(
        "stage",
        kind=kind,
        norm=Norm("norm", "rmsnorm", width),
        mixer=Convolution("mixer.conv", width, width, (kernel,), groups=width, before=kernel - 1),
        gamma=parameter("gamma", width, minor=True),
        ffn_norm=Norm("ffn_norm", "rmsnorm", width),
        ffn=network("ffn", ("linear1", "linear2"), width, wide, c.word("hidden_act")),
        ffn_gamma=parameter("ffn_gamma", width, minor=True),
    )


@family("vibevoice_asr", heads=HEADS)
def vibevoice_asr(c: Config) -> Module:
    """VibeVoice-ASR (arXiv 2601.18184): a frame's sound and its meaning, encoded apart, are added to one vector.

    The encoders are not trained with it: they run under ``torch.no_grad``.
    """
    tokenizers = {"acoustic": {}, "semantic": {"hidden_size": 128}}
    encoders = {
        name: subconfig(c, f"{name}_tokenizer_encoder_config", CODEC, over=over, free=True)
        for name, over in tokenizers.items()
    }
    hop = prod(encoders["acoustic"].numbers("downsampling_ratios", least=1))
    chunk = c.number("acoustic_tokenizer_chunk_size")
    if chunk % hop:
        raise InvalidModel(f"acoustic_tokenizer_chunk_size {chunk} is no multiple of {hop}", "give whole frames")
    ears = tuple(_codec(of, UNREAD).replace(name=f"{name}_tokenizer_encoder") for name, of in encoders.items())
    maps = tuple(_projector(name, c, encoder) for name, encoder in encoders.items())
    return TwoEars("model", ears, Summing("multi_modal_projector", maps), nested(language(c), "language_model"))


def _projector(name: str, c: Config, encoder: Config) -> SoundProjector:
    h = language(c).size("hidden_size")
    first = Linear(f"{name}_linear_1", encoder.size("hidden_size"), h, "", True)
    last = Linear(f"{name}_linear_2", h, h, "", True)
    return SoundProjector("", (first, last), between=Norm(f"{name}_norm", "rmsnorm", h))
