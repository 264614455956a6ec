"""Models that hear: convolutions over samples or a spectrogram, encoders (Whisper's, Conformers), and a language model.

A projector makes vectors of the decoder's width of the encoder's frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from types import MappingProxyType

from tfcalc.configs.config import Config
from tfcalc.configs.family import subconfig
from tfcalc.configs.tops import Top, bare, logits
from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num, ceil_div, divide
from tfcalc.core.traced import known
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm, Parameter
from tfcalc.nn.embeddings import Sines, numbered
from tfcalc.nn.encoder import through
from tfcalc.nn.encoder_decoder import EncoderDecoder
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.einsum import einsum
from tfcalc.ops.elementwise import activation, add, dropout, mul, scaled
from tfcalc.ops.frames import batch_norm, convolution, gated_by_half, group_norm, mean, means
from tfcalc.ops.relative import relative_scores
from tfcalc.ops.rows import looked_up, sines
from tfcalc.ops.shapes import copied, merge_heads, narrow, pad, part, permute, reshape, split, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences
from tfcalc.zoo.blocks.vision_tower import nested


class Convolution(Module):
    """A convolution: each place of ``width`` channels is a linear map of the ``channels`` under the kernel's ``taps``.

    Channels are mapped in ``groups`` groups, each by itself. An ``activation`` follows. A program may put ``before``
    zeros in front of what it reads, in new memory.
    """

    kind = "convolution"

    channels: Num
    width: Num
    taps: tuple[Num, ...]
    bias: bool = True
    groups: Num = 1
    activation: str = ""
    before: Num = 0

    def own_params(self) -> Cost:
        """W and b."""
        weight = Weight("w", (self.width, divide(self.channels, self.groups), *self.taps))
        return Cost(weights=(weight, *([Weight("b", (self.width,), minor=True, key="bias")] if self.bias else [])))

    def forward(self, x: Tensor, ctx: Context, *places: Num) -> Tensor:
        """Return the convolution at this number of ``places`` of each axis behind the channels."""
        weight, bias, *_ = *self.weights(x.trace), None
        assert weight is not None
        if x.trace.emits_kernels and self.before:  # a number there, and maybe an array where zeros count for nothing
            x = pad(x, 2, x.shape[2] + self.before)
        return convolution(x, weight, bias, *places)

    def activated(self, x: Tensor, ctx: Context, *places: Num) -> Tensor:
        """Return the convolution after its activation, which is a component beside it."""
        made, kind = self(x, ctx, *places), self.activation
        name = f"{self.name}_activation"
        return ctx.activation(kind, made, name) if kind else made


class FramePlaces(Sines):
    """Sines and cosines of where a frame stands."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the sines and cosines of all places of ``x``, of b × n × h."""
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
        """Return the norm of ``x``, of b × c × n."""
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
        """Return a vector for each frame that is heard, from the fewest samples that make this many."""
        places = [ctx.stream.length]
        for each, stride in zip((self.third, self.second, self.first), reversed(self.strides), strict=True):
            places.append(reads(places[-1], each.taps[0], stride))
        third, second, first, samples = places
        x = x.trace.given((ctx.stream.batch, self.first.channels, samples), x.trace.weights_format, "samples")
        x = self.norm(self.first.activated(x, ctx, first), ctx)
        x = self.third.activated(self.second.activated(x, ctx, second), ctx, third)
        return transpose(x, 1, 2)


def reads(made: Num, taps: Num, stride: int) -> Num:
    """Least number of places that a convolution reads to make n, ``made``: ``stride·(n − 1) + k``, or none for none."""
    places: Num = stride * (made - 1) + taps
    return 0 if isinstance(made, int) and made == 0 else places


class SoundEncoder(Module):
    """An encoder of sound: a ``stem``, layers that look both ways, and a norm (Whisper).

    A clip is filled up to ``frames`` frames, or as long as the source, or has ``per_word`` frames for each word. The
    stem's parts are parts of the encoder itself, unless it has a name. A norm may come ``first``, before the layers.
    Neighbours may be ``halved``: their mean is what the last norm reads.

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
        """Return the encoder's output for a clip for each sequence; ``x`` are the words beside it."""
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
        """Return the encoder's output for the clips, and the sequences of frames that it is of."""
        assert isinstance(self.encoder, SoundEncoder)
        return self.encoder(x, ctx), self.encoder.heard(ctx)


class SoundProjector(Module):
    """Maps, one after another with an activation or a norm ``between`` them, of as many frames as the first is wide."""

    kind = "projector"

    maps: tuple[Linear, ...]
    activation: str = ""
    norm: Norm | None = None
    between: Norm | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the projection of ``x``, of b × n × h.

        Raises InvalidModel where the first map cannot read all of it.
        """
        fan_in = self.maps[0].fan_in
        numbers, reads = known(x.elements), known(fan_in)
        if numbers is not None and reads is not None and numbers % reads:
            fact = f"{numbers:,} numbers of sound, in frames of {x.width}, are read {reads:,} at once"
            raise InvalidModel(fact, "give a number that divides them")
        x = reshape(x, divide(x.elements, fan_in), fan_in)
        x = self.maps[0](x)
        for each in self.maps[1:]:
            x = each(ctx.activation(self.activation, x, "act") if self.between is None else self.between(x, ctx))
        return x if self.norm is None else self.norm(x, ctx)


class AudioLanguageModel(Module):
    """A language model that reads vectors of sound in the places of some of its words.

    Where it is counted, a clip goes with each sequence. What is trained on a tape is text alone, of which the encoder
    and the projector make nothing. Where the word that sound stands for has no row in the table, a program makes a copy
    of the words without it (``copies_ids``).
    """

    kind = "listener"

    ears: Module
    projector: Module
    language: Module
    copies_ids: bool = False

    @property
    def beside_text(self) -> Iterator[Module]:
        """The encoder and the projector."""
        return iter((self.ears, self.projector))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the language model's output for token ids."""
        x.trace.beside(lambda: self.projector(self.ears(x, ctx), ctx))
        return self.language(copied(x) if self.copies_ids else x, ctx)


class Summing(Module):
    """Projectors of what several encoders have made, and the sum of what they make; their maps are its own parts."""

    kind = "projector"

    projectors: tuple[SoundProjector, ...]

    @property
    def parts(self) -> Iterator[Module]:
        """Parts of all projectors."""
        return (part for each in self.projectors for part in each.parts)

    def forward(self, x: Tensor, ctx: Context, *others: Tensor) -> Tensor:
        """Return the sum of the projections of each encoder's output."""
        made = [each.forward(one, ctx) for each, one in zip(self.projectors, (x, *others), strict=True)]
        return reduce(add, made)


class TwoEars(Module):
    """A language model that hears with several encoders, which are not trained; see :class:`AudioLanguageModel`."""

    kind = "listener"

    ears: tuple[Module, ...]
    projector: Summing
    language: Module

    @property
    def beside_text(self) -> Iterator[Module]:
        """The encoders and the projector."""
        return iter((*self.ears, self.projector))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the language model's output for token ids."""
        x.trace.beside(lambda: self._hear(x, ctx))
        return self.language(x, ctx)

    def _hear(self, x: Tensor, ctx: Context) -> None:
        with x.trace.without_gradients():
            first, *others = (each(x, ctx) for each in self.ears)
        self.projector(first, ctx, *others)


class ClipClassifier(Module):
    """An encoder, a map of its frames, and a map of their mean that makes classes; a ``mix`` of layers may be trained.

    Source: Yang et al. 2021 (SUPERB, arXiv 2105.01051).
    """

    kind = "model"

    encoder: SoundEncoder
    mix: Parameter | None
    projector: Linear
    classifier: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the class logits of a clip for each sequence."""
        return self.classifier(mean(self.projector(self.encoder(x, ctx))))


class ConformerLayer(PreNorm):
    """A network, attention, convolutions, and a network, each added to the stream, and a ``last`` norm.

    Of what a network makes, half is added.

    Source: Gulati et al. 2020 (arXiv 2005.08100), section 2.4.
    """

    last: Norm | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another, then the last norm."""
        x = super().forward(x, ctx)
        return x if self.last is None else self.last(x, ctx)

    def dropping(self, sub: Module, made: Tensor, ctx: Context) -> Tensor:
        """Half of what a network made."""
        made = super().dropping(sub, made, ctx)
        return scaled(made) if sub.kind == "ffn" else made


class NormedNetwork(Module):
    """A feed-forward network with a norm before it; the parts of the ``network`` are beside the norm."""

    kind = "ffn"

    norm: Norm
    network: FeedForward | GatedFeedForward

    @property
    def parts(self) -> Iterator[Module]:
        """The norm, and the network's."""
        return iter((self.norm, *self.network.parts))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the network's output for each frame."""
        return self.network.forward(self.norm(x, ctx), ctx)


class GatedByHalf(Module):
    """A norm, a gate, a convolution over time of each channel by itself, and maps of each frame around it.

    The ``gate`` makes twice as many channels, of which one half, with a trained number for each channel, is multiplied
    by the activation of the other. The convolution is filled up on both sides, and what is too much is cut off behind
    the map that follows.
    """

    kind = "convolutions"

    norm: Norm
    gate: Convolution
    biases: tuple[Parameter, Parameter]
    opens: str
    over_time: Convolution
    across: Convolution
    activation: str
    last: Convolution

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the module's output for ``x``, of b × n × h."""
        x = transpose(self.norm(x, ctx), 1, 2)
        length = x.shape[2]
        x = self._gated(self.gate(x, ctx, length), ctx)
        longer = 0 if known(length) == 0 else length + self.over_time.taps[0] - 1
        x = self.over_time(_channels(x, self.over_time.channels), ctx, longer)
        x = part(self.across(x, ctx, longer), 2, length)
        x = _channels(ctx.activation(self.activation, x, "act"), self.last.channels)
        return transpose(self.last(x, ctx, length), 1, 2)

    def _gated(self, x: Tensor, ctx: Context) -> Tensor:
        half = self.biases[0].tensor.shape[0]
        up, gate = split(x, [half, half], 1)
        up, gate = (add(each, self._bias(x, place)) for place, each in enumerate((up, gate)))
        return mul(up, ctx.activation(self.opens, gate, "glu.act"))

    def _bias(self, x: Tensor, place: int) -> Tensor:
        bias = self.biases[place].weight(x.trace)
        return reshape(bias, 1, bias.shape[0], 1)


class BatchNorm(Module):
    """A norm of each channel over all batches that were seen."""

    kind = "norm"

    channels: Num

    def own_params(self) -> Cost:
        """γ and β; and means, variances, and how many batches they are of."""
        buffers = {"mean": "running_mean", "variance": "running_var"}
        return Cost(
            weights=tuple(
                Weight(letter, (self.channels,), minor=True, key=key)
                for letter, key in (("γ", "weight"), ("β", "bias"))
            ),
            buffers=(
                *(Weight(name, (self.channels,), key=key) for name, key in buffers.items()),
                Weight("batches", (), key="num_batches_tracked"),
            ),
        )

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the norm of ``x``, of b × c × n."""
        weight, bias = self.weights(x.trace)
        seen = (x.trace.given((self.channels,), "float32", name) for name in ("means", "variances"))
        return batch_norm(x, weight, bias, *seen)


class BatchNormed(Module):
    """A norm, a map to twice as many channels, half of which gate the others, a convolution of each channel over time.

    A batch norm, SiLU and a map back follow.
    """

    kind = "convolutions"

    norm: Norm
    up: Convolution
    over_time: Convolution
    batch_norm: BatchNorm
    down: Convolution

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the module's output for ``x``, of b × n × h."""
        length = x.shape[1]
        both = self.up(transpose(self.norm(x, ctx), 1, 2), ctx, length)
        x = activation("sigmoid", narrow(both, self.over_time.channels), lambda: gated_by_half(both), "glu")
        x = self.batch_norm(self.over_time(x, ctx, length), ctx)
        return transpose(self.down(ctx.activation("silu", x, "silu"), ctx, length), 1, 2)


class InBlocks(Attention):
    """Attention of frames within blocks of ``context`` frames, with vectors for distances (arXiv 1803.02155).

    A norm precedes it. The last block is filled up; what was filled in is cut off behind it. A program makes its scores
    whatever kernel is asked for.
    """

    context: int = 1
    pre_norm: Norm | None = None
    distances: Parameter | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for ``x``, of b × n × h."""
        assert self.pre_norm is not None
        b, n, h = x.shape
        count = ceil_div(n, self.context)
        x = self.pre_norm(x, ctx)
        x = reshape(pad(x, 1, count * self.context), b * count, self.context, h)
        ctx = ctx._replace(stream=Sequences(b * count, self.context), run=ctx.run.replaced(kernel="math"))
        q, k, v = self.project(x, x, ctx)
        bias = self._distances(q)
        made = merge_heads(self.attend(q, k, v, ctx._replace(bias=bias)), self.heads * self.value_dim)
        made = reshape(made, b, count * self.context, made.width)
        return self.output(part(made, 1, n))

    def _distances(self, q: Tensor) -> Tensor:
        """Return the products of each query with the vectors of its distances to the keys."""
        assert self.distances is not None
        places = q.trace.given((self.context, self.context), "int64", "distances")
        vectors = looked_up(self.distances.weight(q.trace), places)
        b, a, n = q.shape[:3]
        relative_scores("relative", permute(q, (2, 0, 1, 3)), vectors, b * n * n)
        if not q.trace.emits_kernels:  # counted as relative_scores
            return q.trace.new((b, a, n, n), q.dtype, "scores")
        return scaled(einsum("bhcd,crd->bhcr", q, vectors))


def _channels(x: Tensor, channels: Num) -> Tensor:
    """Return ``x`` with as many channels as a convolution takes.

    A program can be built with others, but does not run.
    """
    return reshape(x, x.shape[0], channels, x.shape[2])


ALIASES = {
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
    "intermediate_size": "encoder_ffn_dim",
}
"""The names that other encoders have for Whisper's fields."""


def stem(width: Num, channels: Num, name: str = "") -> Stem:
    """Two convolutions over time, of which the second halves it."""
    first = Convolution("conv1", channels, width, (3,), activation="gelu")
    return Stem(name, first, Convolution("conv2", width, width, (3,), activation="gelu"))


class Nested(NamedTuple):
    """The language model that a model has: its type, and defaults that are not those of its family."""

    model_type: str
    own: Mapping[str, object] = MappingProxyType({})
    whole: bool = False
    """Whether its own defaults hold only where no config is nested: one that is given is not filled up with them."""


TEXT = {
    "voxtral": Nested(
        "llama",
        {
            "vocab_size": 131072,
            "hidden_size": 3072,
            "intermediate_size": 8192,
            "num_hidden_layers": 30,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
    ),
    "voxtral_realtime": Nested(
        "voxtral_realtime_text",
        {
            "vocab_size": 131072,
            "hidden_size": 3072,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
    ),
    "glmasr": Nested(
        "llama",
        {
            "vocab_size": 59264,
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 4,
        },
    ),
    "granite_speech": Nested("granite"),
    "granite_speech_plus": Nested("granite"),
    "moss_transcribe_diarize": Nested(
        "qwen3",
        {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
        },
        whole=True,
    ),
    "nemo_speechlm": Nested(
        "nemotron_h",
        {
            "hidden_size": 2688,
            "intermediate_size": 1856,
            "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
            "mamba_num_heads": 64,
            "moe_intermediate_size": 1856,
            "moe_shared_expert_intermediate_size": 3712,
            "n_routed_experts": 128,
            "num_experts_per_tok": 6,
            "num_key_value_heads": 2,
        },
        whole=True,
    ),
    "qwen3_asr": Nested(
        "qwen3",
        {
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
        },
        whole=True,
    ),
    "vibevoice_asr": Nested("qwen2"),
    "qwen2_audio": Nested("qwen2"),
    "audioflamingo3": Nested("qwen2"),
    "musicflamingo": Nested("qwen2"),
}
"""Which language model each has."""


def language(c: Config) -> Config:
    """The nested config of the language model."""
    nested = TEXT[c.model_type]
    if nested.whole:
        return subconfig(c, "text_config", nested.model_type, over=nested.own, free=True)
    return c.sub("text_config", nested.model_type, over=nested.own)


def two_maps(
    c: Config, fan_in: Num, width: Num, *, between: Num | None = None, bias: bool, act: str = "projector_hidden_act"
) -> SoundProjector:
    """Two linear maps with an activation between them, where vectors may be wider than behind them."""
    wide = width if between is None else between
    maps = Linear("linear_1", fan_in, wide, "", bias), Linear("linear_2", wide, width, "", bias)
    return SoundProjector("multi_modal_projector", maps, c.word(act))


def listener(c: Config, audio: Config, projector: SoundProjector) -> AudioLanguageModel:
    """An encoder of sound, a projector of its frames, and the language model that reads them among its words."""
    return AudioLanguageModel("model", nested(audio, "audio_tower"), projector, nested(language(c), "language_model"))


def writes(*, tied: bool = False, **loss: bool) -> Callable[[Config, Module], ModelWithHead]:
    """Logits of the language model's vectors; ``tie_word_embeddings`` of the whole may not be heeded.

    ``loss`` says of what copies of the logits it is made.
    """

    def top(c: Config, base: Module) -> ModelWithHead:
        text, shared = language(c), tied and c.flag("tie_word_embeddings")
        head = logits("lm_head", text.size("hidden_size"), text.size("vocab_size"), tied=shared)
        return ModelWithHead("", base, head, **loss)

    return top


HEADS: dict[str, Top] = {"Model": bare, "ForConditionalGeneration": writes()}
ALONE: dict[str, Top] = {"Encoder": bare}
