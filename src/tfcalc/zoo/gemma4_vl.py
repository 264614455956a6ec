"""Gemma 4 with images and sounds, where a config has a part for them.

A square of patches becomes their mean in the tower for images. Sound runs through light convolutions (arXiv 2005.08100)
and attention in chunks with trained keys for relative positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.core.number import Num, Pairs, ceil_div, floor_div
from tfcalc.core.traced import known
from tfcalc.nn.basic import Buffer, Linear, Norm, Parameter, PositionVectors, buffer, parameter
from tfcalc.nn.encoder import through
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.layers import Sandwich
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Context, Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.nn.stack import Stack, around
from tfcalc.ops.attention import attend
from tfcalc.ops.elementwise import activation, add, added_in_place, filled, mul, pointwise, residual, scaled, shifted
from tfcalc.ops.frames import gated_halves
from tfcalc.ops.products import matmul
from tfcalc.ops.relative import relative_scores
from tfcalc.ops.rows import looked_up, position, softmax
from tfcalc.ops.select import index
from tfcalc.ops.shapes import contiguous, copied, expand, narrow, pad, part, permute, reshape, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import vision_tower
from tfcalc.zoo.blocks.decoders import SANDWICH, kv_heads
from tfcalc.zoo.blocks.gemma import Beside, SharingAttention
from tfcalc.zoo.blocks.layers import GATED, LLAMA_NAMES, stack
from tfcalc.zoo.blocks.sound import Convolution
from tfcalc.zoo.blocks.vision_language import Multimodal, heads


class ChunkedAttention(Module):
    """Attention of each chunk of ``chunk`` tokens to itself, ``before`` tokens before and ``behind`` tokens behind it.

    A score has a part for the key and a part for its distance, whose keys a matrix makes of fixed sines. Each of a
    head's dimensions has a trained scale. All is in fp32, and scores are capped by a tanh. It may hold ``limits`` of
    its maps.

    Source: Dai et al. 2019 (arXiv 1901.02860), section 3.3; transformers' Gemma4AudioAttention.
    """

    kind = "attention"

    heads: Num
    head_dim: Num
    maps: tuple[Linear, Linear, Linear]
    scale: Parameter
    distances: Linear
    output: Linear
    chunk: int
    before: int
    behind: int
    limits: tuple[Buffer, ...] = ()

    @property
    def context(self) -> int:
        """Number of tokens that a chunk sees."""
        return self.chunk + self.before + self.behind

    def sines(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the sines of each distance, for all layers; none in decoding, when the sound has been heard."""
        distances = 0 if ctx.run.decoding else self.context // 2 + 1
        made = x.trace.new((1, distances, self.distances.fan_in), x.dtype, "sines")
        x.trace.belongs(made)
        return made

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for ``x``, of b × l × h; the last chunk of each sequence is padded."""
        trace, (b, l, _) = x.trace, x.shape
        a, d = self.heads, self.head_dim
        q, k, v = (reshape(trace.to(each(x), "float32"), b, l, a, d) for each in self.maps)
        per_dim = self.scale.weight(trace)
        per_dim = activation("softplus", per_dim, lambda: pointwise("softplus", per_dim), "scale")
        q, k = mul(scaled(q), per_dim), scaled(k)
        assert ctx.places is not None
        r = self.distances(ctx.places)
        count = ceil_div(l, self.chunk)
        queries = b * count * self.chunk
        if not trace.emits_kernels:  # counted by the pairs of a chunk; a program pads and copies chunks
            whole = (b, a, count * self.chunk, d)
            flat = trace.view(q, (queries, 1, a, d), None)
            relative_scores("relative", flat, reshape(r, r.shape[1], 1, a, d), queries * self.context)
            q, k, v = (trace.view(each, whole, None) for each in (q, k, v))
            pairs = Pairs((2, queries, self.context), queries * self.context, ctx.run.fused)
            made = attend(q, k, v, pairs, lambda: q)
            return self.output(trace.view(made, (b, l, a * d), None))
        made = self.attend([q, k, v], reshape(trace.to(r, "float32"), r.shape[1], a, d), ctx)
        made = reshape(permute(made, (0, 2, 3, 1, 4)), b, count * self.chunk, a * d)
        return self.output(trace.to(contiguous(part(made, 1, l)), x.dtype))

    def attend(self, given: list[Tensor], r: Tensor, ctx: Context) -> Tensor:
        """Chunk by chunk: b × a × chunks × tokens × width."""
        q, k, v = given
        given.clear()
        trace, (b, l, a, d) = q.trace, q.shape
        count = ceil_div(l, self.chunk)
        q = permute(reshape(pad(q, 1, count * self.chunk), b, count, self.chunk, a, d), (0, 3, 1, 2, 4))
        k, v = self._seen(k, count), self._seen(v, count)
        shape = (b, a, count, self.chunk, self.context)
        p = matmul(q, permute(k, (0, 3, 1, 4, 2)))
        flat = reshape(q, b, a, count * self.chunk, d)
        place = matmul(flat, expand(permute(r, (1, 2, 0)), b, a, d, r.shape[0]))
        place = reshape(place, *shape[:-1], r.shape[0])
        place = pad(place, 4, self.context + 1)
        p = add(p, narrow(place, self.context, 4))
        p = scaled(pointwise("tanh", scaled(p)))
        p = filled(p, trace.new((b, 1, *shape[2:]), "bool", "not seen"))
        return matmul(softmax(p, "float32"), permute(v, (0, 3, 1, 2, 4)))

    def _seen(self, x: Tensor, count: Num) -> Tensor:
        """A copy of what each chunk sees: b × chunks × tokens × a × d."""
        b, l, a, d = x.shape
        filled_up = pad(x, 1, l + self.before + self.behind + self.chunk - 1)
        return copied(filled_up, (b, count, self.context, a, d))


class SubsampledSpectrogram(Module):
    """Two convolutions that halve time and pitch, each with a norm and an activation, and a map to the layers' width.

    A spectrogram has ``bands`` bands. Source: transformers' Gemma4AudioSubSampleConvProjection.
    """

    kind = "embedding"

    first: Convolution
    first_norm: Norm
    second: Convolution
    second_norm: Norm
    map: Linear
    bands: int

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return vectors of the source's frames, given beside ``x``, which is not read."""
        trace, heard, quarter = x.trace, ctx.run.source, self.bands // 4
        x = trace.given((heard.batch, 1, heard.length, self.bands), trace.weights_format, "spectrogram")
        length = ceil_div(heard.length, 4)
        x = self._halved(self.first, self.first_norm, x, (ceil_div(heard.length, 2), 2 * quarter), ctx)
        x = self._halved(self.second, self.second_norm, x, (length, quarter), ctx)
        x = contiguous(permute(x, (0, 2, 3, 1)))
        return self.map(reshape(x, heard.batch, length, quarter * self.second.width))

    def _halved(self, one: Convolution, norm: Norm, x: Tensor, places: tuple[Num, Num], ctx: Context) -> Tensor:
        made = norm(permute(one(x, ctx, *places), (0, 2, 3, 1)), ctx)
        made, name = contiguous(permute(made, (0, 3, 1, 2))), f"{one.name.partition('.')[0]}.act"
        return activation("relu", made, lambda: pointwise("relu", made), name)


def added(x: Tensor, made: Tensor, name: str) -> Tensor:
    """``made + x``, where a program adds to what was made in place."""
    # added in place, which the mathematics does not know
    return added_in_place(made, x) if x.trace.emits_kernels else residual(x, made, name)


class HalfNetwork(Module):
    """Half of a feed-forward network: norms before and behind, and the result times a number. It may hold limits."""

    kind = "ffn"

    before: Norm
    up: Linear
    down: Linear
    behind: Norm
    activation: str
    limits: tuple[Buffer, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the term that is added to ``x``."""
        inner = self.up(self.before(pointwise("clamp", x), ctx))
        inner = ctx.activation(self.activation, inner)
        return scaled(self.behind(pointwise("clamp", self.down(inner)), ctx))


class LightConvolution(Module):
    """A gate, a convolution of each channel over the last tokens, and a norm, between two maps."""

    kind = "convolution"

    before: Norm
    start: Linear
    convolution: Convolution
    norm: Norm
    end: Linear
    activation: str
    limits: tuple[Buffer, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the term that is added to ``x``, of b × l × h."""
        x = gated_halves(self.start(self.before(x, ctx)), "gate")
        x = transpose(self.convolution(transpose(x, 1, 2), ctx, x.shape[1]), 1, 2)
        x = self.norm(pointwise("clamp", x), ctx)
        made = ctx.activation(self.activation, x)
        return self.end(made)


class LightConformerLayer(Module):
    """Half a network, attention, a convolution, half a network, and a norm; the stream is cut off between them.

    Its program does not checkpoint it. Source: transformers' Gemma4AudioLayer.
    """

    kind = "conformer"

    first: HalfNetwork
    mixer: ChunkedAttention
    convolution: LightConvolution
    last: HalfNetwork
    norms: tuple[Norm, Norm, Norm]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the layer's output for ``x``, of b × l × h."""
        before, behind, out = self.norms
        x = added(x, self.first(x, ctx), self.first.name)
        made = self.mixer(before(pointwise("clamp", x), ctx), ctx)
        x = added(x, behind(pointwise("clamp", made), ctx), self.mixer.name)
        x = added(x, self.convolution(x, ctx), self.convolution.name)
        x = added(x, self.last(x, ctx), self.last.name)
        return out(pointwise("clamp", x), ctx)


class Conformer(Module):
    """A spectrogram with a quarter of its frames, layers, and a map."""

    kind = "encoder"

    spectrogram: SubsampledSpectrogram
    layers: Stack
    output: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the encoder's output for one clip per sequence, given beside ``x``, which is not read."""
        x = self.spectrogram(x, ctx)
        source = ctx.run.source
        stream = source._replace(length=ceil_div(source.length, 4))
        ctx = ctx._replace(stream=stream, run=ctx.run.replaced(recompute="none", early_stop=False))
        first = self.layers.layers[0]
        assert isinstance(first, LightConformerLayer)
        ctx = ctx._replace(places=first.mixer.sines(x, ctx))
        return self.output(self.layers(x, ctx))


class Clipped(Linear):
    """A map that may be ``clipped``: its input is cut off before, and its output behind it, which keeps both."""

    clipped: bool = False

    def forward(self, x: Tensor, *given: object) -> Tensor:
        """Map each row, with input and output clipped if it is ``clipped``."""
        if not self.clipped:
            return super().forward(x)
        return pointwise("clip", super().forward(pointwise("clip", x)))


class FeedForwardWithLimits(GatedFeedForward):
    """A gated network of such maps, which holds their limits."""

    limits: tuple[Buffer, ...] = ()


class NormedAttention(SharingAttention):
    """Attention with norms of each head's query, key and value; it may hold ``limits`` of its maps."""

    limits: tuple[Buffer, ...] = ()


class RowsAndColumns(PositionVectors):
    """A trained vector for each row of patches, and one for each column: ``rows`` rows of a table in all."""

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Return the position vectors of the patches of ``x``, of b × s × h."""
        (table,) = self.weights(x.trace)
        trace, shape = x.trace, x.shape[:2]
        if not trace.emits_kernels:  # one look-up for both; a program makes two
            return position(table, trace.new(shape, "int64", "places"), 2 * x.rows)
        places = trace.view(trace.new((*shape, 2), "int64", "places"), shape, None)
        return add(looked_up(table, places), looked_up(table, places))


class Pool(Module):
    """Mean of ``together`` patches that lie in a square: a product with a matrix that says which do."""

    kind = "pool"

    together: Num

    def forward(self, x: Tensor, *given: object) -> Tensor:
        """Return the means of ``x``, of b × s × h."""
        b, s, _ = x.shape
        fewer = floor_div(s, self.together)
        means = x.trace.new((b, fewer, s), "float32", "which lie together")
        return x.trace.to(matmul(means, x.trace.to(x, "float32"), "P X"), x.dtype)


class GemmaTower(Module):
    """Patches, their places, layers, and means; as many patches for each sequence as a source is long.

    There may be no means of one patch. What comes out may be shifted and multiplied by vectors (``spread``).
    """

    kind = "encoder"

    patches: Linear
    places: RowsAndColumns
    layers: Stack
    pool: Pool | None
    spread: tuple[Buffer, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the tower's output for images that are given beside ``x``, which is not read."""
        trace, images = x.trace, ctx.run.source
        ctx = ctx._replace(stream=images)
        pixels = trace.given((images.batch, images.length, self.patches.fan_in), "float32", "pixels")
        x = self.patches(trace.to(scaled(shifted(pixels, "less a half")), trace.weights_format))
        padding = trace.new((images.batch, images.length, 1), "bool", "padding")
        x = filled(through(self.layers, add(x, filled(self.places(x), padding)), ctx), padding)
        x = x if self.pool is None else self.pool(x)
        return self._as_rows(x, trace.weights_format)

    def _as_rows(self, x: Tensor, wanted: str) -> Tensor:
        """Return the rows that are not padding, spread in fp32, in the format that is ``wanted``."""
        trace = x.trace
        x = scaled(trace.to(x, "float32"))
        x = index(x, trace.new(x.shape[:2], "bool", "not padding"), (x.rows, x.width))
        for place, each in enumerate(self.spread):
            spread = trace.to(trace.given(each.tensor.shape, wanted, each.name), "float32")
            x = mul(x, spread) if place else add(x, spread)
        return trace.to(x, wanted)


class Embedder(Module):
    """A norm without weights, and a map to the text's width, of what a tower gives.

    There is a vector for every ``step`` places of a source, or as many as come (0). Without a tower it embeds data
    (``of_data``), a vector for each place.
    """

    kind = "projector"

    norm: Norm
    map: Linear
    step: Num = 0
    of_data: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Rows for a text."""
        source, width = ctx.run.source, self.map.fan_in
        if self.of_data:
            x = x.trace.given((source.tokens, width), "float32", "data")
        elif known(self.step):
            x = reshape(x, source.batch * ceil_div(source.length, self.step), width)
        return self.map(self.norm(x, ctx))


class PatchEmbedder(Module):
    """Pixels of patches as vectors, with norms before the map, behind it and behind the places; then for the text."""

    kind = "embedding"

    before: Norm
    patches: Linear
    behind: Norm
    places: RowsAndColumns
    norm: Norm
    embedder: Embedder

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the vectors of images that are given beside ``x``, which is not read."""
        source = ctx.run.source
        x = x.trace.given((source.batch, source.length, self.patches.fan_in), "float32", "pixels")
        x = self.behind(self.patches(self.before(x, ctx)), ctx)
        return self.embedder(self.norm(add(x, self.places(x)), ctx), ctx)


COLOURS = 3
LIMITS = ("input_min", "input_max", "output_min", "output_max")


def clipped(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of matrices whose input and output may be clipped, each in a module of its own."""
    return tuple(f"{name}.linear" for name in names)


def maps(
    c: Config, names: Sequence[str], sizes: Sequence[tuple[Num, Num]], letters: Sequence[str]
) -> tuple[Clipped, ...]:
    """Matrices whose input and output may be clipped."""
    clips = c.flag("use_clipped_linears")
    made = zip(clipped(tuple(names)), sizes, letters, strict=True)
    return tuple(Clipped(name, *size, letter, clipped=clips) for name, size, letter in made)


def held_limits(c: Config, names: Sequence[str]) -> tuple[Buffer, ...]:
    """Return four numbers for each matrix, stored with it, if ``use_clipped_linears`` is set."""
    made = (f"{name}.{limit}" for name in names for limit in LIMITS) if c.flag("use_clipped_linears") else ()
    return tuple(buffer(name, 1) for name in made)


@family("gemma4_vision", heads={"Model": tops.bare})
def gemma4_vision(c: Config) -> Module:
    """A tower built as the text is; a table of positions for rows and one for columns."""
    h, patch, together = c.size("hidden_size"), c.size("patch_size"), c.number("pooling_kernel_size") ** 2
    layer = Sandwich("encoder.layers", (vision_attention(c), vision_network(c)), tuple(_norms(SANDWICH, h)))
    spread = ("std_bias", "std_scale") if c.flag("standardize") else ()
    return GemmaTower(
        "vision_tower",
        Linear("patch_embedder.input_proj", COLOURS * patch * patch, h),
        RowsAndColumns("patch_embedder.position_embedding_table", 2 * c.size("position_embedding_size"), h),
        stack(c, layer),
        Pool("pooler", together) if together > 1 else None,
        tuple(buffer(name, h) for name in spread),
    )


def _norms(names: Sequence[str], width: Num, form: str = "rmsnorm") -> Iterator[Norm]:
    return (Norm(name, form, width, "gemma4") for name in names)


def vision_attention(c: Config) -> NormedAttention:
    """Norms of each head's query, key and value; angles in two parts, one for rows and one for columns."""
    h, a, g, d = c.size("hidden_size"), c.size("num_attention_heads"), kv_heads(c), c.size("head_dim")
    *inward, outward = maps(c, LLAMA_NAMES, [(h, a * d), (h, g * d), (h, g * d), (a * d, h)], "QKVO")
    (value_norm,) = _norms(("v_norm",), d, "rmsnorm-plain")
    return NormedAttention(
        "self_attn",
        a,
        g,
        d,
        d,
        tuple(inward),
        tuple(_norms(("q_norm", "k_norm"), d)),
        outward,
        rope=Rope(d, RopeCode(by_sequence=True, copies=True)),
        causal=False,
        dropout=bool(c.get("attention_dropout")),
        value_norm=value_norm,
        limits=held_limits(c, LLAMA_NAMES),
    )


def vision_network(c: Config) -> FeedForwardWithLimits:
    """Three maps."""
    h, f = c.size("hidden_size"), c.size("intermediate_size")
    gate, up, down = maps(c, GATED, [(h, f), (h, f), (f, h)], "g12")
    return FeedForwardWithLimits("mlp", gate, up, down, c.word("hidden_activation"), limits=held_limits(c, GATED))


@family("gemma4_audio", heads={"Model": tops.bare})
def gemma4_audio(c: Config) -> Module:
    """A Conformer (arXiv 2005.08100) over chunks: attention and a convolution between two feed-forward networks."""
    h = c.size("hidden_size")
    before, behind, out = _norms(("norm_pre_attn", "norm_post_attn", "norm_out"), h)
    first, last = half(c, "feed_forward1"), half(c, "feed_forward2")
    one = LightConformerLayer("layers", first, hearing(c), light_convolution(c), last, (before, behind, out))
    return Conformer(
        "audio_tower",
        subsampling(c),
        stack(c, one),
        Linear("output_proj", h, c.size("output_proj_dims"), "", True),
    )


def subsampling(c: Config) -> SubsampledSpectrogram:
    """Two convolutions that halve time and pitch, of as many pitches as the first has channels (in fours)."""
    first, second = c.numbers("subsampling_conv_channels", 2, least=1)
    return SubsampledSpectrogram(
        "subsample_conv_projection",
        Convolution("layer0.conv", 1, first, (3, 3), bias=False),
        Norm("layer0.norm", "layernorm-no-bias", first),
        Convolution("layer1.conv", first, second, (3, 3), bias=False),
        Norm("layer1.norm", "layernorm-no-bias", second),
        Linear("input_proj_linear", first // 4 * second, c.size("hidden_size")),
        first // 4 * 4,
    )


def half(c: Config, name: str) -> HalfNetwork:
    """A network four times as wide as the stream."""
    h, names = c.size("hidden_size"), ("ffw_layer_1", "ffw_layer_2")
    before, behind = _norms(("pre_layer_norm", "post_layer_norm"), h)
    up, down = maps(c, names, [(h, 4 * h), (4 * h, h)], ("", ""))
    return HalfNetwork(name, before, up, down, behind, c.word("hidden_act"), held_limits(c, names))


def hearing(c: Config) -> ChunkedAttention:
    """Return the attention of the audio tower: what a chunk sees of the past counts its own token."""
    h, a, names = c.size("hidden_size"), c.size("num_attention_heads"), ("q_proj", "k_proj", "v_proj", "post")
    d = c.quotient("hidden_size", "num_attention_heads")
    q, k, v, output = maps(c, names, [(h, a * d)] * 3 + [(a * d, h)], "QKVO")
    return ChunkedAttention(
        "self_attn",
        a,
        d,
        (q, k, v),
        parameter("per_dim_scale", d, minor=True),
        Linear("relative_k_proj", h, a * d, "R"),
        output,
        c.number("attention_chunk_size"),
        c.number("attention_context_left") - 1,
        c.number("attention_context_right", least=0),
        held_limits(c, names),
    )


def light_convolution(c: Config) -> LightConvolution:
    """Over as many tokens as the kernel is long."""
    h, k, names = c.size("hidden_size"), c.size("conv_kernel_size"), ("linear_start", "linear_end")
    before, norm = _norms(("pre_layer_norm", "conv_norm"), h)
    start, end = maps(c, names, [(h, 2 * h), (h, h)], ("", ""))
    channels = Convolution("depthwise_conv1d", h, h, (k,), bias=False, groups=h, before=k - 1)
    return LightConvolution("lconv1d", before, start, channels, norm, end, c.word("hidden_act"), held_limits(c, names))


def text(c: Config) -> Config:
    """The text of the family's own."""
    return subconfig(c, "text_config", f"{c.model_type}_text")


HEADS = heads(text, cap="final_logit_softcapping")


def embedder(name: str, fan_in: Num, width: Num, **more: Any) -> Embedder:
    """Return the map of a tower's output, or of data, normalised without weights, to vectors of the text's width."""
    (norm,) = _norms(("embedding_pre_projection_norm",), fan_in, "rmsnorm-plain")
    return Embedder(name, norm, Linear("embedding_projection", fan_in, width), **more)


@family("gemma4", heads=HEADS)
def gemma4(c: Config) -> Module:
    """Gemma 4 (Google 2026): a tower for images, one for sounds, both or none."""
    chains: list[tuple[Module, ...]] = []
    width = text(c).size("hidden_size")
    if c.get("vision_config") is not None:
        vision = subconfig(c, "vision_config", "gemma4_vision")
        embed = embedder("embed_vision", vision.size("hidden_size"), width)
        chains.append((vision_tower.nested(vision, "vision_tower"), embed))
    if c.get("audio_config") is not None:
        audio = subconfig(c, "audio_config", "gemma4_audio")
        embed = embedder("embed_audio", audio.size("output_proj_dims"), width, step=4)
        chains.append((vision_tower.nested(audio, "audio_tower"), embed))
    return Multimodal("model", vision_tower.nested(text(c), "language_model"), tuple(chains), copies_ids=True)


@family("gemma4_unified", heads=HEADS)
def gemma4_unified(c: Config) -> Module:
    """Gemma 4 without towers: pixels and samples of sound are projected at once."""
    chains: list[tuple[Module, ...]] = []
    width = text(c).size("hidden_size")
    if c.get("vision_config") is not None:
        chains.append((vision_embedder(c.within("vision_config", "gemma4_unified_vision"), width),))
    if c.get("audio_config") is not None:
        audio = c.within("audio_config", "gemma4_unified_audio")
        chains.append((embedder("embed_audio", audio.size("audio_embed_dim"), width, of_data=True),))
    return Multimodal("model", masked(text(c)), tuple(chains), copies_ids=True)


def masked(text: Config) -> Module:
    """The text; where images see all of themselves, its masks are made whether there are images or not."""
    made = vision_tower.nested(text, "language_model")
    if text.get("use_bidirectional_attention") != "vision":
        return made
    assert isinstance(made, Decoder)
    stack = made.layers
    return made.replace(layers=stack.replace(layers=tuple(around(_always_masked, stack.layers))))


def _always_masked(layer: Module) -> Module:
    assert isinstance(layer, Beside)
    mixer, network = layer.sublayers
    assert isinstance(mixer, SharingAttention)
    return layer.replace(sublayers=(mixer.replace(always_masked=True), network))


def vision_embedder(c: Config, width: Num) -> PatchEmbedder:
    """Patches of patches' pixels, with positions of row and column, normalised before, between and after."""
    side, m = c.size("patch_size") * c.size("pooling_kernel_size"), c.size("mm_embed_dim")
    pixels = COLOURS * side * side
    return PatchEmbedder(
        "embed_vision",
        Norm("patch_ln1", "layernorm", pixels),
        Linear("patch_dense", pixels, m, "", True),
        Norm("patch_ln2", "layernorm", m),
        RowsAndColumns("pos_embedding", 2 * c.size("mm_posemb_size"), m),
        Norm("pos_norm", "layernorm", m),
        embedder("multimodal_embedder", c.size("output_proj_dims"), width),
    )
