"""Gemma 3n: several residual streams, a table of tokens for each layer, and late layers that reuse keys and values."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import FULL, SLIDING, Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, total
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Embedding, Linear, Norm, Parameter, parameter
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.module import Context, Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.nn.stack import Stack, each_turn, turns_to_run
from tfcalc.ops.elementwise import add, added_in_place, mul, pointwise, power, quotient, residual, scaled, shifted
from tfcalc.ops.products import linear
from tfcalc.ops.rows import mean
from tfcalc.ops.shapes import contiguous, copied, permute, reshape, select, stack, transpose, unsqueeze
from tfcalc.ops.streams import added_to_others, mixed_streams
from tfcalc.tape.tensor import Call, Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.decoders import SANDWICH, head_dim, kv_heads
from tfcalc.zoo.blocks.gemma import CAPPED, LayerInput, LayerVectors, SharingAttention, SharingDecoder
from tfcalc.zoo.blocks.layers import LAYERS, LLAMA_NAMES, full_and_sliding, window


class AltUp(Module):
    """Alternating updates: the active one of ``streams`` vectors routes how all are mixed before and after the layer.

    The router runs twice: for the prediction (s · s weights of the mixture) and for the correction (s weights). The
    prediction is a product with each token's own matrix; the correction adds to each stream what it is weighted by.
    In training the weights of the correction may be clipped (``clips``), which makes a copy of them; what a layer reads
    of the corrected stream may be multiplied by a trained ``scale`` (``scales``).

    Source: Baykal et al. 2023 (arXiv 2301.13310), algorithm 1; transformers' Gemma3nTextAltUp.
    """

    kind = "altup"

    scale: Parameter
    norm: Norm
    router: Linear
    prediction: Linear
    correction: Linear
    streams: Num
    clips: bool = False
    scales: bool = True

    def predict(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the prediction of the layer's output for all streams, of s × b × l × h."""
        with x.trace.inside(self):
            first = select(x, 0)
            # the router is counted once for prediction and correction
            routed = self._routed(first, ctx) if x.trace.emits_kernels else self._both_routed(first, ctx)
            matrices = reshape(self.prediction(routed), *first.shape[:-1], self.streams, self.streams)
            made = mixed_streams(permute(x, (1, 2, 3, 0)), transpose(matrices, 2, 3), "predict")
            made = added_in_place(permute(made, (3, 0, 1, 2)), x)
            return x.trace.to(contiguous(made), x.dtype)

    def correct(self, predicted: Tensor, activated: Tensor, innovation: Tensor, ctx: Context) -> Tensor:
        """Return all streams with the ``innovation`` added.

        It is how far what the layer has ``activated`` of one of them is from the prediction; the router, which reads
        ``activated``, weights it for each stream.
        """
        trace = activated.trace
        with trace.inside(self):
            rows = (*activated.shape[:-1], self.streams)
            # its half is counted with the prediction
            routed = self._routed(activated, ctx) if trace.emits_kernels else trace.view(activated, rows, None)
            innovation = copied(innovation, predicted.shape, "repeat")
            weights = unsqueeze(permute(shifted(self._weighted(routed, ctx), "+ 1"), (2, 0, 1)), -1)
            return trace.to(added_in_place(mul(innovation, weights), predicted), activated.dtype)

    def scaled(self, x: Tensor) -> Tensor:
        """Return the part of the corrected stream that a layer reads."""
        x = copied(x, name="clone")
        if not self.scales:
            return x
        with x.trace.inside(self):
            return mul(x, self.scale.weight(x.trace))

    def _routed(self, x: Tensor, ctx: Context) -> Tensor:
        made = self.router(scaled(self.norm(x, ctx)))
        return x.trace.to(pointwise("tanh", x.trace.to(made, "float32")), x.dtype)

    def _both_routed(self, x: Tensor, ctx: Context) -> Tensor:
        """Route for prediction and correction at once, where operations are only counted."""
        twice = x.trace.view(x, (2, *x.shape), None)
        return x.trace.view(self.router(self.norm(twice, ctx)), (*x.shape[:-1], self.streams), None)

    def _weighted(self, x: Tensor, ctx: Context) -> Tensor:
        # a clamp of the weights themselves, which moves no product
        if not (self.clips and x.trace.emits_kernels and ctx.run.training):
            return self.correction(x)
        with x.trace.inside(self.correction):
            (weight,) = self.correction.weights(x.trace)
            return linear(x, pointwise("clamp", weight))


class Laurel(Module):
    """``x + norm(x W_l W_r)``: a map of low rank beside the attention (LAuReL, arXiv 2411.07501)."""

    kind = "laurel"

    left: Linear
    right: Linear
    norm: Norm

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the sum for ``x``, of b × l × h."""
        return add(x, self.norm(self.right(self.left(x)), ctx))


class SparseFeedForward(GatedFeedForward):
    """A gated network whose gate, if it ``cuts``, is 0 unless some standard deviations above its row's mean."""

    cuts: bool = False

    def activated(self, x: Tensor, ctx: Context) -> Tensor:
        """The activation of what is left."""
        if self.cuts:
            trace, middle = x.trace, mean(x)
            std = trace.call(Call("std", (x,), middle.shape, x.dtype, saves=(x,), saves_result=True))
            cut = add(middle, mul(std, trace.new((), x.dtype, "deviations")))
            x = pointwise("relu", add(x, cut))
        return super().activated(x, ctx)


class AltUpLayer(Module):
    """A layer of several streams: attention and a map of low rank beside it, a network, and the layer's own vector.

    The norms come before and behind attention and network; that of the layer's own vector is the last.
    Source: transformers' Gemma3nTextDecoderLayer.
    """

    kind = "layer"

    altup: AltUp
    mixer: Attention
    laurel: Laurel
    network: GatedFeedForward
    input: LayerInput
    norms: tuple[Norm, ...]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the layer's output for the streams ``x``, of s × b × l × h."""
        predicted = self.altup.predict(x, ctx)
        active = select(predicted, 0)
        before, behind, before_network, behind_network, last = self.norms
        normed = before(active, ctx)
        beside = self.laurel(normed, ctx)
        made = residual(active, behind(self.mixer(normed, ctx), ctx), self.mixer.name)
        made = scaled(residual(made, beside, self.laurel.name))
        made = residual(made, behind_network(self.network(before_network(made, ctx), ctx), ctx), self.network.name)
        innovation = residual(made, select(predicted, 0), self.altup.name)
        corrected = self.altup.correct(predicted, made, innovation, ctx)
        own = last(self.input(self.altup.scaled(select(corrected, 0)), ctx), ctx)
        if x.trace.emits_kernels:  # counted as one sum; a program adds to the other streams in place
            return added_to_others(corrected, own)
        residual(select(corrected, 0), own, self.input.name)
        return corrected


class EachStream(Linear):
    """A matrix for each stream but the first."""

    streams: Num = 2

    @property
    def copies(self) -> Num:
        """Number of matrices."""
        return self.streams - 1

    def of(self, place: int) -> Linear:
        """Return the map of a stream."""
        return Linear(f"{self.name}.{place}", self.fan_in, self.fan_out)


class AltUpDecoder(SharingDecoder):
    """A decoder of several streams: each but the first is a map of the embedding, and is mapped back at the end.

    Mapped vectors are brought to the length of those of the first stream. The result is the mean of all.
    """

    up: EachStream | None = None
    down: EachStream | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """Parts of the decoder, and the maps."""
        yield from super().parts
        yield from (each for each in (self.up, self.down) if each is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the decoder's output for token ids ``x``."""
        assert self.up is not None
        assert self.down is not None
        assert self.norm is not None
        words = self.embed_tokens(x, ctx)
        ctx = self.sharing(x, words, ctx)
        ctx = self.begun(words, ctx)
        shape = (self.up.streams, *words.shape)
        x = self.layers.run([stack([words, *_mapped(self.up, [words])], shape)], ctx)
        streams = [select(x, 0) for _ in turns_to_run(x.trace, self.up.streams, "streams")]
        made = stack([streams[0], *_mapped(self.down, streams)], shape)
        del x, streams
        return self.norm(made.trace.call(Call("mean", (made,), words.shape, made.dtype)), ctx)


def _mapped(maps: EachStream, streams: list[Tensor]) -> list[Tensor]:
    """Map each stream's vectors (or the first's), and scale the results to the length of those of the first."""
    first, trace = streams[0], streams[0].trace
    if not trace.emits_kernels:  # counted as the maps of all streams at once
        return [maps(first)]
    wanted = power(mean(power(first)))
    others = streams[1:] or [first for _ in each_turn(maps.streams - 1, "streams")]
    made: list[Tensor] = []
    for place, x in enumerate(others):
        mapped = trace.to(maps.of(place)(x), first.dtype)
        length = pointwise("sqrt", pointwise("clamp", mean(power(mapped))))
        made.append(quotient(mul(mapped, wanted), length))
    return made


CODE = "gemma4"
"""Norms in fp32, whose 1/rms is a power."""


def reusing(c: Config, layer_types: list[str]) -> list[bool]:
    """Return whether each layer reads the keys and values of an earlier one: the last ``num_kv_shared_layers`` do.

    Each reads those of the last layer of its own type that makes any, so that there must be one.
    """
    count = len(layer_types)
    shared = c.number("num_kv_shared_layers", least=0)
    if shared and set(layer_types[: max(count - shared, 0)]) != set(layer_types):
        raise InvalidModel(
            f"{c.path('num_kv_shared_layers')} {shared} of {count} layers leaves one type without keys and values",
            "let at least one layer of each type have its own",
        )
    return [place >= count - shared for place in range(count)]


def layer_types(c: Config, every: int) -> list[str]:
    """The kind of each layer; where none is given, all see a window but one in ``every``."""
    count = c.number(LAYERS)
    if c.get("layer_types") is not None:
        return c.words("layer_types", count)
    return [SLIDING if (place + 1) % every else FULL for place in range(count)]


def attention(c: Config, made: str, width: Num, groups: Num, *, full: bool, causal: bool = True) -> SharingAttention:
    """Norms of each head's query, key and value (that of the value without weights).

    It makes queries and what the letters of ``made`` say, keys and values, for ``groups`` of heads of this ``width``.
    """
    h, a, bias = c.size("hidden_size"), c.size("num_attention_heads"), c.flag("attention_bias")
    sizes = {"Q": a * width, "K": groups * width, "V": groups * width}
    names = dict(zip(sizes, LLAMA_NAMES, strict=False))
    normed = ("q_norm", "k_norm") if made else ("q_norm",)
    return SharingAttention(
        "self_attn",
        a,
        groups,
        width,
        width,
        tuple(Linear(names[letter], h, sizes[letter], letter, bias) for letter in f"Q{made}"),
        tuple(Norm(name, "rmsnorm", width, CODE) for name in normed),
        Linear(LLAMA_NAMES[-1], a * width, h, "O", bias),
        rope=Rope(width, RopeCode(by_window=True)),
        window=None if full else window(c),
        causal=causal,
        dropout=bool(c.get("attention_dropout")),
        value_norm=Norm("v_norm", "rmsnorm-plain", width, CODE) if made else None,
        shares="" if not c.number("num_kv_shared_layers", least=0) else FULL if full else SLIDING,
    )


def layer_input(c: Config) -> LayerInput:
    """Return the module that adds a layer's own vector of the token, gated by the stream, to it."""
    h, p = c.size("hidden_size"), c.size("hidden_size_per_layer_input")
    gate, back = Linear("per_layer_input_gate", h, p), Linear("per_layer_projection", p, h)
    return LayerInput("(per_layer_input)", gate, back, c.word("hidden_activation"))


def layer_vectors(c: Config, layers: Stack, **more: bool) -> LayerVectors:
    """A vector for each of the ``layers``, from a table of its own and from the token's embedding."""
    h, p, n = c.size("hidden_size"), c.size("hidden_size_per_layer_input"), total(each.copies for each in layers.groups)
    return LayerVectors(
        "",
        Embedding("embed_tokens_per_layer", c.size("vocab_size_per_layer_input"), n * p, scales=True),
        Linear("per_layer_model_projection", h, n * p),
        Norm("per_layer_projection_norm", "rmsnorm", p, CODE),
        **more,
    )


def norms(c: Config, *names: str) -> tuple[Norm, ...]:
    """Return norms of the hidden size, by these names."""
    return tuple(Norm(name, "rmsnorm", c.size("hidden_size"), CODE) for name in names)


class Kind(NamedTuple):
    """Traits in which layers differ: one may reuse keys and values, or have a width of its own (0: the usual)."""

    full: bool
    reuses: bool
    width: int
    cuts: bool


def kinds(c: Config) -> list[Kind]:
    """One for each layer."""
    types, count = layer_types(c, 5), c.number(LAYERS)
    listed = isinstance(c.get("intermediate_size"), list | tuple)
    widths = c.numbers("intermediate_size", count, least=1) if listed else [0] * count
    each = zip(types, reusing(c, types), widths, sparse(c, count), strict=True)
    return [Kind(kind == FULL, reads, width, cuts) for kind, reads, width, cuts in each]


def sparse(c: Config, count: int) -> list[bool]:
    """Return whether each layer's gate is cut off: those of the first ten, where nothing is said and there are more."""
    given = c.get("activation_sparsity_pattern")
    if given is None:
        return [count > 10 and place < 10 for place in range(count)]
    each = given if isinstance(given, list | tuple) else [given] * count
    return [place < len(each) and each[place] != 0 for place in range(count)]


def altup(c: Config) -> AltUp:
    """Streams and what mixes them."""
    h, s = c.size("hidden_size"), c.size("altup_num_inputs")
    return AltUp(
        "altup",
        parameter("correct_output_scale", h, minor=True),
        Norm("router_norm", "rmsnorm", h, CODE),
        Linear("modality_router", h, s),
        Linear("prediction_coefs", s, s * s),
        Linear("correction_coefs", s, s),
        s,
        clips=c.get("altup_coef_clip") is not None,
        scales=c.flag("altup_correct_scale"),
    )


def laurel(c: Config) -> Laurel:
    """Learned augmented residual layer: a map of low rank beside the attention."""
    h, r = c.size("hidden_size"), c.size("laurel_rank")
    return Laurel("laurel", Linear("linear_left", h, r), Linear("linear_right", r, h), *norms(c, "post_laurel_norm"))


@family("gemma3n_text", heads=CAPPED)
def gemma3n_text(c: Config) -> Module:
    """Gemma 3n (Google 2025; MatFormer, arXiv 2310.07707; AltUp, arXiv 2301.13310; LAuReL, arXiv 2411.07501)."""
    h, s = c.size("hidden_size"), c.size("altup_num_inputs")

    def one(kind: Kind) -> Module:
        network = decoders.gated(c, width=kind.width or None, act="hidden_activation")
        return AltUpLayer(
            "layers",
            altup(c),
            attention(c, "" if kind.reuses else "KV", head_dim(c), kv_heads(c), full=kind.full),
            laurel(c),
            network.as_type(SparseFeedForward, cuts=kind.cuts),
            layer_input(c),
            norms(c, *SANDWICH, "post_per_layer_input_norm"),
        )

    made = decoders.decoder(c, one, kinds(c), code=CODE, masks=full_and_sliding(c)).replace(scales=True)
    return made.as_type(
        AltUpDecoder,
        vectors=layer_vectors(c, made.layers, replaces=True),
        up=EachStream("altup_projections", h, h, streams=s),
        down=EachStream("altup_unembed_projections", h, h, streams=s),
    )
