"""Phi-4-multimodal: a Phi-3 that sees with SigLIP and hears with a Conformer."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.configs.tops import bare, lm_head
from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num, ceil_div
from tfcalc.errors import InvalidModel
from tfcalc.nn.basic import Buffer, Linear, Parameter, buffer, parameter
from tfcalc.nn.encoder import through
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import mul, shifted
from tfcalc.ops.rows import embedding
from tfcalc.ops.shapes import permute, reshape, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders, vision_tower
from tfcalc.zoo.blocks.layers import FUSED, LLAMA_NAMES, stack
from tfcalc.zoo.blocks.sound import ConformerLayer, Convolution, GatedByHalf, NormedNetwork
from tfcalc.zoo.blocks.vision_language import tower
from tfcalc.zoo.blocks.vision_tower import grid
from tfcalc.zoo.clip import pooling, siglip_vision
from tfcalc.zoo.decoders import phi3


class Sense(Module):
    """Reader of an image or a clip, and two maps of its vectors to those of words, a GELU between them.

    Copies of the maps are stored for clips that come with an image (``unread``).
    """

    kind = "embeddings"

    reads: Module
    up: Linear
    down: Linear
    unread: tuple[Linear, ...] = ()

    @property
    def beside_text(self) -> Iterator[Module]:
        """Reader itself, as a whole."""
        return iter((self,))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return vectors as wide as those of words, for the input of each sequence; ``x`` are its words."""
        made = self.up(self.rows(self.reads(x, self.beside(ctx)), ctx))
        return self.down(ctx.activation("gelu", made, "act"))

    def beside(self, ctx: Context) -> Context:
        """The run of what is read."""
        return ctx

    def rows(self, made: Tensor, ctx: Context) -> Tensor:
        """The vectors that are mapped: as many frames as the first map is wide are one."""
        return reshape(made, ctx.run.source.tokens, self.up.fan_in)


class Crops(Sense):
    """Reader of an image that is cut into ``crops``, each of which a tower reads as an image.

    The tower's output becomes ``vectors`` vectors: those of neighbours become one, and trained ones (``ends``) are at
    the ends of rows and between crops.
    """

    ends: tuple[Parameter, ...] = ()
    crops: int = 1
    vectors: Num = 1

    @property
    def parts(self) -> Iterator[Module]:
        """Parts, the trained vectors first."""
        return iter((*self.ends, self.reads, self.up, self.down))

    def beside(self, ctx: Context) -> Context:
        """A run with all crops."""
        return ctx._replace(run=ctx.run.replaced(batch_size=ctx.run.batch_size * self.crops))

    def rows(self, made: Tensor, ctx: Context) -> Tensor:
        """Return the vectors that are mapped, of all images one after another."""
        return reshape(made, ctx.run.beside(self.vectors).tokens, self.up.fan_in)


class Senses(Module):
    """Readers of all inputs beside words."""

    kind = "embeddings"

    senses: tuple[Sense, ...]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the readers: their output takes the place of some of the words' vectors, which is not counted."""
        for each in self.senses:
            each(x, ctx)
        return x


class WithSenses(Module):
    """A decoder with the readers of other inputs beside its parts; in a program that trains, there are words alone."""

    kind = "decoder"

    base: Decoder
    senses: Senses

    @property
    def parts(self) -> Iterator[Module]:
        """The table of words first."""
        table, *others = self.base.parts
        return iter((table, self.senses, *others))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the decoder's output for token ids."""
        x.trace.beside(lambda: self.senses(x, ctx))
        return self.base.forward(x, ctx)


class Standardized(Module):
    """Bins less their means, over their deviations: those of all sound that was trained on, which are data."""

    kind = "norm"

    mean: Buffer
    inverse: Buffer

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the standardized bins, for ``x`` of b × n × bins."""
        by = x.trace.given((self.inverse.tensor.shape[0],), x.dtype, "1/deviation")
        return mul(shifted(x, "less the mean"), by)


class Halvings(Module):
    """Convolutions over time and bins, and a ``map`` of all channels and bins of each frame that is left.

    Those whose kernel is wider than one halve both. Where one has an activation, this comes behind it under the number
    that it has among them.
    """

    kind = "stem"

    convolutions: tuple[Convolution, ...]
    map: Linear
    bins: Num

    @property
    def halvings(self) -> int:
        """Number of times that time and bins are halved."""
        return sum(map(_halves, self.convolutions))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each frame that is heard, of b × n × bins."""
        length, left, place = ctx.stream.length, self.halvings, 0
        x = reshape(x, x.shape[0], 1, *x.shape[1:])
        for each in self.convolutions:
            left -= _halves(each)
            x = each(x, ctx, 2**left * length, ceil_div(self.bins, 2 ** (self.halvings - left)))
            place += 1
            if each.activation:
                x = ctx.activation(each.activation, x, f"conv.{place}")
                place += 1
        x = transpose(x, 1, 2)
        return self.map(reshape(x, x.shape[0], length, self.map.fan_in))


def _halves(convolution: Convolution) -> bool:
    return any(tap != 1 for tap in convolution.taps)


class DistanceTable(Module):
    """A number for each head and each of ``rows`` distances, looked up once for all layers: l² rows."""

    kind = "embedding"

    rows: Num
    heads: Num

    def own_params(self) -> Cost:
        """E."""
        return Cost(weights=(Weight("E", (self.rows, self.heads)),))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the numbers to add to the scores, of 1 × a × l × l."""
        (table,) = self.weights(x.trace)
        length = ctx.stream.length
        made = embedding(table, x.trace.new((length, length), "int64", "distances"))
        return reshape(permute(made, (2, 0, 1)), 1, self.heads, length, length)


class SpectrogramEncoder(Module):
    """A spectrogram, standardized; what a stem makes of it; and layers that add numbers of a table to their scores.

    As many frames are heard as the source is long; where tokens are decoded, they have been.
    """

    kind = "encoder"

    first: Standardized
    stem: Halvings
    table: DistanceTable
    layers: Stack

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the vectors of a clip for each sequence; ``x`` are the words beside it."""
        stream, trace = ctx.run.source, x.trace
        ctx = ctx.alone(stream)
        shape = (stream.batch, stream.length * 2**self.stem.halvings, self.stem.bins)
        x = self.stem(self.first(trace.given(shape, trace.weights_format, "spectrogram"), ctx), ctx)
        return through(self.layers, x, ctx._replace(bias=self.table(x, ctx)))


CROPS, LATE = 2, 1
"""Of the smallest image: the whole, and a crop; and the layers after the one that is read."""


@family("phi4_multimodal_vision", architecture="Phi4MultimodalVisionModel", heads={"Model": bare})
def phi4_multimodal_vision(c: Config) -> Module:
    """SigLIP with its head, though the text reads an earlier layer."""
    return siglip_vision(c).replace(pooler=pooling(c))


@family("phi4_multimodal_audio", architecture="Phi4MultimodalAudioModel", heads={"Model": bare})
def phi4_multimodal_audio(c: Config) -> Module:
    """A Conformer (arXiv 2005.08100); a trained number for each distance and head is added to the scores."""
    held = (buffer(f"global_{name}", c.size("input_size")) for name in ("mean", "invstd"))
    distances = c.size("bias_max_distance") * (1 if c.flag("bias_symmetric") else 2)
    return SpectrogramEncoder(
        "encoder",
        Standardized("encoder_embedding", *held),
        _stem(c),
        DistanceTable("relative_attention_bias_layer.bias_values", distances, c.size("num_attention_heads")),
        stack(c, _layer(c), "num_blocks"),
    )


def _layer(c: Config) -> ConformerLayer:
    mixer = vision_tower.attention(c, names=LLAMA_NAMES, width=c.optional("head_dim"), dropout="")
    sublayers = (_network(c, "feed_forward_in"), mixer, _convolutions(c), _network(c, "feed_forward_out"))
    att, last = vision_tower.norms(c, "layer_norm_att", "layer_norm")
    return ConformerLayer("encoders", sublayers, (None, att, None, None), last=last)


def _network(c: Config, name: str) -> NormedNetwork:
    (norm,) = vision_tower.norms(c, "layer_norm")
    return NormedNetwork(name, norm, decoders.gated(c, bias=True, names=FUSED, act="activation"))


def _stem(c: Config) -> Halvings:
    """Convolutions that each halve the time and the bins; all but the first are of each channel by itself."""
    channels, bins, reduction = c.size("nemo_conv_channels"), c.size("input_size"), c.number("time_reduction")
    if reduction % 2:
        raise InvalidModel(f"{c.path('time_reduction')} {reduction} is odd", f"nearest: {reduction + 1}")
    halvings, given = reduction.bit_length() - 1, c.optional("nemo_final_size")
    left = ceil_div(bins, 2**halvings) if given is None else given
    out = Linear("out", channels * left, c.size("hidden_size"), "", True)
    return Halvings("embed", tuple(_halvings(c, channels, halvings)), out, bins)


def _halvings(c: Config, channels: Num, count: int) -> Iterator[Convolution]:
    act = c.word("nemo_activation")
    yield Convolution("conv.0", 1, channels, (3, 3), activation=act)
    for place in range(1, count):
        yield Convolution(f"conv.{3 * place - 1}", channels, channels, (3, 3), groups=channels)
        yield Convolution(f"conv.{3 * place}", channels, channels, (1, 1), activation=act)


def _convolutions(c: Config) -> GatedByHalf:
    width, inner, made = c.size("hidden_size"), c.size("ext_pw_out_channel"), c.size("depthwise_separable_out_channel")
    several = width * c.size("depthwise_multiplier")
    (norm,) = vision_tower.norms(c, "layer_norm")
    return GatedByHalf(
        "conv",
        norm,
        Convolution("glu.ext_pw_conv_1d", width, 2 * inner, (1,)),
        (parameter("glu.b1", inner, minor=True), parameter("glu.b2", inner, minor=True)),
        c.word("conv_glu_type"),
        Convolution("dw_sep_conv_1d.dw_conv", width, several, (c.size("kernel_size"),), groups=width),
        Convolution("dw_sep_conv_1d.pw_conv", several, made, (1,)),
        c.word("conv_activation"),
        Convolution("ext_pw_conv_1d", width, inner, (1,)),
    )


@family("phi4_multimodal", heads={"Model": bare, "ForCausalLM": lm_head()})
def phi4_multimodal(c: Config) -> Module:
    """Phi-4-Mini and Phi-4-multimodal (arXiv 2503.01743): Phi-3, and what makes vectors of images and of sound.

    Its adapters (LoRA) are no part of transformers' model.
    """
    base = phi3(c)
    assert isinstance(base, Decoder)
    return WithSenses(base.name, base, Senses("embed_tokens_extend", (_images(c), _sound(c))))


def _images(c: Config) -> Crops:
    """Four neighbouring patches become one vector; trained ones are at the ends of rows and between crops.

    An image is seen twice: as a whole, and as a crop, which at its smallest is the whole again.
    """
    vision, h = subconfig(c, "vision_config", "phi4_multimodal_vision"), c.size("hidden_size")
    rows, columns = (ceil_div(side, 2) for side in grid(vision))
    width = vision.size("hidden_size")
    names = ("global_img_feature_extensor", "sub_img_feature_extensor")  # as it is spelt
    return Crops(
        "image_embed",
        tower(vision, "img_processor", LATE),
        Linear("img_projection_up", width, h, "", True),
        Linear("img_projection_down", h, h, "", True),
        ends=tuple(parameter(name, width) for name in names),
        crops=CROPS,
        vectors=CROPS * rows * (columns + 1) + 1,
    )


def _sound(c: Config) -> Sense:
    """Frames go through the maps of speech by itself; those of speech beside an image are stored unused."""
    audio, h = subconfig(c, "audio_config", "phi4_multimodal_audio"), c.size("hidden_size")
    wide = audio.size("hidden_size") * audio.size("downsample_rate")
    up, down = Linear("up_proj_for_speech", wide, h, "", True), Linear("down_proj_for_speech", h, h, "", True)
    unread = (
        up.replace(name="up_proj_for_vision_speech"),
        down.replace(name="down_proj_for_vision_speech"),
    )
    return Sense("audio_embed", vision_tower.nested(audio, "encoder"), up, down, unread)
