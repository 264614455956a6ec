"""Inkling and Inkling 2: learned distances, short convolutions everywhere, shared experts that a router weighs.

Inkling 2 keeps queries and keys under a length, has a sink for each token, and attention over depth: a layer reads a
mixture of the sums of the blocks of layers before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.component import Weight
from tfcalc.core.number import Num, Pairs, ceil_div
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm, Parameter, parameter
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import CappedExperts, Mixture, Router, RouterCode
from tfcalc.nn.model import Decoder, ModelWithHead
from tfcalc.nn.module import Context, Module
from tfcalc.ops.attention import attend
from tfcalc.ops.elementwise import activation, add, filled, mul, pointwise, residual, scaled, shifted
from tfcalc.ops.products import matmul
from tfcalc.ops.recurrences import gated_sum
from tfcalc.ops.rows import mean, row_norm
from tfcalc.ops.scan import recurrence
from tfcalc.ops.select import gathered
from tfcalc.ops.shapes import cat, contiguous, expand, pad, part, reshape, split, stack, transpose, unsqueeze
from tfcalc.ops.work import CONVOLUTION, FP32, by_sequence
from tfcalc.tape.tensor import Call, Tensor
from tfcalc.zoo.blocks import decoders, experts
from tfcalc.zoo.blocks.experts import routed
from tfcalc.zoo.blocks.layers import LLAMA_NAMES, layer_types, multi_head
from tfcalc.zoo.blocks.state_space import ShortConvolution


class AddedConvolution(ShortConvolution):
    """``x + conv(x)`` of each channel over its last tokens, in fp32; the sum may be divided by a number (``scales``).

    Source: transformers' InklingShortConvolution, Inkling2ShortConvolution.
    """

    scales: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the sum for ``x``, of b × l × c."""
        trace, given = x.trace, x.dtype
        x = trace.to(x, "float32")
        made = super().forward(trace.to(transpose(x, 1, 2), trace.weights_format), ctx)
        made = add(transpose(trace.to(made, "float32"), 1, 2), x)
        return trace.to(scaled(made, "div") if self.scales else made, given)


class ConvolvedLayer(PreNorm):
    """``x + conv(f(norm(x)))`` for each sub-layer f (Inkling)."""

    convolutions: tuple[AddedConvolution, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        for (norm, sub), convolution in zip(self.running(ctx), self.convolutions, strict=True):
            x = residual(x, convolution(sub(norm(x, ctx), ctx), ctx), sub.name)
        return x


class DistanceAttention(Attention):
    """Keys and values pass short ``convolutions``; each head mixes ``profiles`` of numbers for each distance.

    A map of the token makes how (``mixes``), and another numbers for as many distances as there are profiles' columns,
    which are added to its scores. Queries and these numbers may have a factor for each place (``by_place``), in fp32.

    Source: transformers' InklingAttention.
    """

    convolutions: tuple[AddedConvolution, ...] = ()
    mixes: Linear | None = None
    profiles: Linear | None = None
    by_place: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for the tokens of ``x``, of b × l × h."""
        q, k, v = self.project(x, x, ctx)
        bias = self._distances(x, ctx)
        if self.by_place:
            places = x.trace.new((ctx.stream.length, 1), "float32", "temperatures")
            q, bias = (x.trace.to(mul(x.trace.to(each, "float32"), places), each.dtype) for each in (q, bias))
        return self.output(self.mixed([q, k, v], ctx._replace(bias=bias)))

    def project(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Convolve keys and values."""
        a, g = self.heads, self.kv_heads
        q, *others = (each(x) for each in self.inward)
        k, v = (convolution(each, ctx) for convolution, each in zip(self.convolutions, others, strict=True))
        q, k = self.norm_heads(q, 0, a, ctx), self.norm_heads(k, 1, g, ctx)
        return transpose(q, 1, 2), transpose(k, 1, 2), transpose(reshape(v, *x.shape[:2], g, self.value_dim), 1, 2)

    def mix(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the weights by which each head mixes the profiles."""
        assert self.mixes is not None
        assert self.profiles is not None
        return reshape(self.mixes(x), *x.shape[:2], self.heads, self.profiles.fan_in)

    def _distances(self, x: Tensor, ctx: Context) -> Tensor:
        """A number for each pair of a query and a key: those of its distance, or 0 where the profiles end."""
        assert self.profiles is not None
        made = transpose(self.profiles(self.mix(x, ctx)), 1, 2)
        seen: Num = ctx.stream.seen
        pairs = 1, 1, made.shape[2], seen
        return filled(gathered(made, seen, pairs), made.trace.new(pairs, "bool", "beyond the profiles"))


class Unpadded(ModelWithHead):
    """A language model that looks at the logits of the first ``words`` alone, where there are more.

    What the head reads may be divided by a number first (``divides``).
    """

    words: Num | None = None
    divides: bool = False

    def logits(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits of the base model's output."""
        made = super().logits(scaled(x, "div") if self.divides else x, ctx)
        return made if self.words is None else part(made, 2, self.words)


class TimesTrained(GatedFeedForward):
    """A gated network, whose output is multiplied by a trained number."""

    scale: Parameter | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the network's output for each token."""
        assert self.scale is not None
        return mul(super().forward(x, ctx), self.scale.weight(x.trace))


class RouterOfShared(Router):
    """A number for each expert; the last ``shared`` are those of experts that every token goes through.

    The weights of those that are chosen and of the shared ones add up to 1: they are the softmax of the logarithms of
    their scores.
    """

    shared: Num = 0


class SharedExperts(GatedFeedForward):
    """Group of ``count`` networks side by side, each of which is weighted before its last map."""

    count: Num = 1

    @property
    def copies(self) -> Num:
        """Number of stored networks."""
        return self.count

    def weighed(self, x: Tensor, weights: Tensor, ctx: Context) -> Tensor:
        """Their sum: of tokens × h, with a weight for each token and expert."""
        with x.trace.inside(self):
            # one batched product in a program
            return self._summed(x, weights, ctx) if x.trace.emits_kernels else self.forward(x, ctx)

    def _summed(self, x: Tensor, weights: Tensor, ctx: Context) -> Tensor:
        trace, maps = x.trace, (self.gate, self.up, self.down)
        matrices: list[Tensor] = []
        for each in maps:
            assert each is not None
            with trace.inside(each):
                matrices += (trace.lower_weight(trace.weight(one, self.count)) for one in each.own_params().weights)
        rows = expand(reshape(x, 1, *x.shape), self.count, *x.shape)
        weights = transpose(reshape(weights, x.rows, self.count, 1), 0, 1)
        gate, up = matmul(rows, matrices[0]), matmul(rows, matrices[1])
        made = matmul(mul(mul(self.activated(gate, ctx), up), weights), matrices[2])
        made = trace.to(made, "float32")
        return trace.to(trace.call(Call("sum", (made,), x.shape, "float32")), x.dtype)


class WeighedShared(Mixture):
    """The experts' sum and that of shared ones, all weighed by one router, times a trained number.

    Source: transformers' InklingMoE.
    """

    beside: SharedExperts | None = None
    scale: Parameter | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the weighted sum for each token."""
        assert isinstance(self.router, RouterOfShared)
        assert self.beside is not None
        assert self.scale is not None
        trace, rows = x.trace, reshape(x, x.rows, x.width)
        sent = self.router.route(rows, ctx)
        weights = mul(scaled(sent.weights), trace.to(self.scale.weight(trace), "float32"))
        weights = trace.to(weights, x.dtype)
        shared = contiguous(part(weights, 1, self.router.shared))
        chosen = contiguous(part(weights, 1, self.router.chosen))
        made = reshape(self.experts.routed(rows, sent._replace(weights=chosen), ctx), *x.shape)
        return add(made, reshape(self.beside.weighed(rows, shared, ctx), *x.shape))


class ClippedAttention(DistanceAttention):
    """Queries (times a trained ``scale``), keys, and how profiles are mixed are clipped to a length; values are normed.

    A map makes the ``sink`` of each token and head. What the heads made is multiplied by the sigmoid of a ``gate``.

    Source: transformers' Inkling2SlidingAttention.
    """

    scale: Parameter | None = None
    mix_scale: Parameter | None = None
    sink: Linear | None = None

    def forward(self, x: Tensor, ctx: Context, keys: Tensor | None = None, values: Tensor | None = None) -> Tensor:
        """Return the attention output for ``x``, of b × l × h.

        Keys and values are made of ``keys`` and ``values``, if these are given, else of ``x``.
        """
        assert self.sink is not None
        assert self.gate is not None
        trace, rows, given = x.trace, x.shape[:2], [x, keys or x, values or x]
        q, *others = (each(one) for each, one in zip(self.inward, given, strict=True))
        k, v = (self.nearby(place, each, given[place + 1], ctx) for place, each in enumerate(others))
        gate, sinks = self.gate(x), self.sink(x)
        places = trace.new((1, rows[1], 1, 1), "float32", "temperatures") if self.by_place else None
        q = self._placed(clipped(reshape(q, *rows, self.heads, self.key_dim), self.scale), places)
        k = clipped(reshape(k, *rows, self.kv_heads, self.key_dim), None)
        v = _normed(reshape(v, *rows, self.kv_heads, self.value_dim))
        bias = self._distances(x, ctx._replace(places=places))
        sinks = unsqueeze(transpose(sinks, 1, 2), -1)
        ctx = ctx._replace(bias=bias, sinks=sinks)
        made = self.replace(gate=None).mixed([transpose(each, 1, 2) for each in (q, k, v)], ctx)
        gate = trace.to(gate, "float32")
        gate = activation("sigmoid", gate, lambda: pointwise("sigmoid", gate), "gate")
        return self.output(trace.to(mul(trace.to(made, "float32"), gate), made.dtype))

    def mix(self, x: Tensor, ctx: Context) -> Tensor:
        """Clip how each head mixes the profiles, and apply the positions' factors."""
        return self._placed(clipped(super().mix(x, ctx), self.mix_scale), ctx.places)

    def _placed(self, x: Tensor, places: Tensor | None) -> Tensor:
        return x if places is None else x.trace.to(mul(x.trace.to(x, "float32"), places), x.dtype)

    def nearby(self, place: int, made: Tensor, source: Tensor, ctx: Context) -> Tensor:
        """Keys (0) or values (1) together with those of the tokens before."""
        return self.convolutions[place](made, ctx)


class TokenConvolved(ClippedAttention):
    """Clipped attention with convolutions to whose ``static`` weights each token adds its own, one a head (``taps``).

    Source: transformers' Inkling2FullAttention.
    """

    taps: tuple[Linear, ...] = ()
    static: tuple[Parameter, ...] = ()
    reach: Num = 1

    def nearby(self, place: int, made: Tensor, source: Tensor, ctx: Context) -> Tensor:
        """Convolve with weights that each token adds to."""
        name, width = self.static[place].name.rpartition(".")[0], made.width
        added = self.taps[place](source)
        formula = gated_sum(f"{name}.sum", "Σ (w + w(x))·x", made.elements * self.reach)
        cached = by_sequence(ctx.stream, CONVOLUTION, width, self.reach, FP32)
        return recurrence(formula, made, made.shape, lambda: self._summed(made, added, place), cached=cached)

    def _summed(self, x: Tensor, added: Tensor, place: int) -> Tensor:
        """Windows of the last tokens, in memory of their own, times weights for each token."""
        trace, given, (b, l, c), g, n = x.trace, x.dtype, x.shape, self.kv_heads, self.reach
        static = transpose(trace.to(self.static[place].weight(trace), "float32"), 0, 1)
        weights = reshape(trace.to(added, "float32"), b, l, g, 1, n)
        weights = add(reshape(static, g, self.key_dim, n), weights)
        x = trace.to(x, "float32")
        before = pad(transpose(x, 1, 2), 2, l + n - 1)
        windows = trace.call(Call("flip", (before,), (b, c, l, n), "float32"))
        made = mul(reshape(transpose(windows, 1, 2), b, l, g, self.key_dim, n), weights)
        made = trace.call(Call("sum", (made,), (b, l, c), "float32"))
        return trace.to(scaled(add(made, x), "div"), given)


def clipped(x: Tensor, scale: Parameter | None) -> Tensor:
    """Clip ``x`` in fp32: times a ``scale``, if there is one, and a number that limits its length to a threshold."""
    trace, given = x.trace, x.dtype
    x = trace.to(x, "float32")
    x = x if scale is None else mul(x, trace.to(scale.weight(trace), "float32"))
    times = scaled(pointwise("reciprocal", trace.upper(shifted(row_norm(x), "+ ε"))))
    return trace.to(mul(x, pointwise("clamp", times)), given)


def _normed(x: Tensor) -> Tensor:
    """Over its root mean square, in fp32."""
    trace, given = x.trace, x.dtype
    x = trace.to(x, "float32")
    root = mean(trace.call(Call("square", (x,), x.shape, x.dtype, saves=(x,))))
    return trace.to(mul(x, pointwise("rsqrt", trace.upper(shifted(root, "+ ε")))), given)


class DepthAttention(Module):
    """Trained ``queries`` of one head, for every token over its own few ``vectors``, normed: both keys and values.

    Source: transformers' Inkling2BlockAttentionResidual.
    """

    kind = "norm"

    query: Parameter
    norm: Norm
    vectors: int
    queries: int = 1

    def read(self, x: Tensor, blocks: Tensor | None, ctx: Context) -> list[Tensor]:
        """A vector of each token for each query; of the ``blocks`` that are closed, and the stream."""
        trace, (*rows, h) = x.trace, x.shape
        with trace.inside(self):
            query = self.query.weight(trace)
            if not trace.emits_kernels:  # counted as attention of one query; a program runs it in fp32
                seen = self.norm(stack([x], (*rows, self.vectors, h)), ctx)
                q = trace.view(query, (x.rows, 1, self.queries, h), None)
                pairs = Pairs((2, x.rows, self.queries, self.vectors), x.rows * self.queries * self.vectors)
                made = attend(q, seen, seen, pairs, lambda: q)
                return [trace.view(made, x.shape, None)] * self.queries
            seen = self.norm(trace.to(closed(blocks, x), "float32"), ctx)
            q = expand(reshape(trace.to(query, "float32"), 1, 1, self.queries, h), *rows, self.queries, h)
            made = ctx.backend.attend_all(q, seen, seen)
            return [reshape(each, *x.shape) for each in split(made, [1] * self.queries, 2)]


def closed(blocks: Tensor | None, x: Tensor) -> Tensor:
    """Blocks, and another one."""
    return cat([*([] if blocks is None else [blocks]), unsqueeze(x, 2)], 2)


class DepthLayer(Module):
    """Attention and a mixture, each of what is read of the blocks, and a convolution behind each of them.

    The first layer of a block closes the block before it (``closes``), which the stream is then left without. It is
    the ``block``-th, from 0. Queries, keys and values may each have what they read, and a norm of it (``norms``).
    """

    kind = "layer"

    before: DepthAttention | None
    norms: tuple[Norm, ...]
    attention: ClippedAttention
    behind_attention: AddedConvolution
    between: DepthAttention
    norm: Norm
    mixture: Module
    behind_mixture: AddedConvolution
    block: int
    closes: bool

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run attention and the mixture, one after another."""
        trace, kind, carried = x.trace, x.dtype, ctx.carried
        assert carried is not None
        blocks = carried.get(named(self.block if self.closes else self.block + 1))
        read = [x] * len(self.norms) if self.before is None else self.before.read(x, blocks, ctx)
        normed = [trace.to(norm(each, ctx), kind) for norm, each in zip(self.norms, read, strict=True)]
        made = self.behind_attention(self.attention(normed[0], ctx, *normed[1:]), ctx)
        stream = trace.to(made, "float32")
        if not self.closes:
            stream = residual(trace.to(x, "float32"), stream, self.attention.name)
        else:
            carried[named(self.block + 1)] = closed(blocks, x)
            blocks = closed(blocks, x)
        (made,) = self.between.read(stream, blocks, ctx)
        made = self.behind_mixture(self.mixture(trace.to(self.norm(made, ctx), kind), ctx), ctx)
        return trace.to(residual(stream, made, self.mixture.name), kind)


class DepthDecoder(Decoder):
    """A decoder of such layers; the last norm reads the blocks, too."""

    last: DepthAttention | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """Parts of the decoder, and the attention that reads the blocks at the end."""
        yield from super().parts
        if self.last is not None:
            yield self.last

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the decoder's output for token ids ``x``."""
        made = super().forward(x, ctx._replace(carried={}))
        return made.trace.to(made, made.trace.weights_format)

    def after_layers(self, x: Tensor, ctx: Context) -> Tensor:
        """Read the blocks beside the stream."""
        assert self.last is not None
        assert ctx.carried is not None
        blocks = ctx.carried.get(named(self.last.vectors - 1))
        return self.last.read(x, blocks, ctx)[0]


def named(blocks: Num) -> str:
    """Return the name of this number of blocks."""
    return f"{blocks} blocks"


WINDOW, FULL = "hybrid_sliding", "hybrid"


def convolution(c: Config, name: str, channels: Num, **how: bool) -> AddedConvolution:
    """Over the last few tokens, in fp32."""
    return AddedConvolution(name, channels, c.size("conv_kernel_size"), bias=False, bits=FP32, **how)


def heads(c: Config, kind: str) -> tuple[Num, Num, Num]:
    """Return the numbers of heads of queries and of keys, and their width: windows have sizes of their own."""
    prefix = "" if kind == FULL else "swa_"
    c.quotient(f"{prefix}num_attention_heads", f"{prefix}num_key_value_heads")  # heads share keys evenly
    return c.size(f"{prefix}num_attention_heads"), c.size(f"{prefix}num_key_value_heads"), c.size(f"{prefix}head_dim")


def attention(c: Config, kind: str) -> DistanceAttention:
    """Return attention whose heads mix profiles of bias over distance."""
    h, (a, g, d), full = c.size("hidden_size"), heads(c, kind), kind == FULL
    return multi_head(
        DistanceAttention,
        "self_attn",
        LLAMA_NAMES,
        *(h, a, d),
        groups=g,
        norms=(Norm("q_norm", "rmsnorm", d), Norm("k_norm", "rmsnorm", d)),
        window=None if full else c.size("sliding_window_size"),
        dropout=bool(c.get("attention_dropout")),
        convolutions=tuple(convolution(c, f"{letter}_sconv.conv1d", g * d) for letter in "kv"),
        mixes=Linear("r_proj", h, a * c.size("d_rel")),
        profiles=Linear(
            "rel_logits_proj.proj", c.size("d_rel"), c.size("rel_extent" if full else "sliding_window_size")
        ),
        by_place=full and c.get("log_scaling_n_floor") is not None,
    )


def feed_forward(c: Config, kind: str) -> Module:
    """A dense network or experts, each scaled by one number. The router has a say over the shared experts too."""
    # Older files call the experts' width intermediate_size, and the dense layers' dense_intermediate_size.
    older = c.get("dense_intermediate_size") is not None
    wide, narrow = (
        ("dense_intermediate_size", "intermediate_size") if older else ("intermediate_size", "moe_intermediate_size")
    )
    if kind == "dense":
        scale = parameter("global_scale", 1, minor=True)
        return decoders.gated(c, width=c.size(wide)).as_type(TimesTrained, scale=scale)
    many, common = c.size("n_routed_experts"), c.size("n_shared_experts", least=0)
    made = experts.mixture(c, experts="n_routed_experts", width=narrow)
    shared = decoders.gated(c, name="shared_experts", width=c.size(narrow))
    h, chosen = c.size("hidden_size"), made.experts.chosen
    return WeighedShared(
        "mlp",
        RouterOfShared("gate", h, many + common, chosen=chosen, shared=common, code=RouterCode(logits="copies")),
        made.experts,
        stored=(experts.correction(c),),
        beside=shared.as_type(SharedExperts, count=common),
        scale=Parameter("gate.global_scale", Weight("global_scale", (1,), minor=True, key="")),
    )


def kinds(c: Config) -> list[str]:
    """Return the kind of each layer: those listed see a window, or all but every sixth."""
    local = None if c.get("local_layer_ids") is None else c.numbers("local_layer_ids")

    def otherwise(place: int) -> str:
        return WINDOW if ((place + 1) % 6 if local is None else place in local) else FULL

    return layer_types(c, otherwise, (WINDOW, FULL))


def unpadded(c: Config) -> Num | None:
    """Return the number of words that the logits are of, where the table has rows for more."""
    if c.get("unpadded_vocab_size") is None or c.number("unpadded_vocab_size") >= c.number("vocab_size"):
        return None
    return c.size("unpadded_vocab_size")


def language_model(c: Config, base: Module) -> Module:
    """Logits by a matrix of its own; what it reads is divided first."""
    return tops.never_tied(c, base).as_type(Unpadded, words=unpadded(c), divides=True)


def embedded(c: Config, made: Decoder) -> Decoder:
    """Return the decoder with a norm of the words' vectors; the program makes both masks."""
    masks = (None, c.size("sliding_window_size"))
    return made.replace(normed=Norm("embed_tokens.embed_norm", "rmsnorm", c.size("hidden_size")), masks=masks)


@family(
    "inkling_text",
    heads=tops.CAUSAL_LM | {"ForCausalLM": language_model},
    dense_mlp_idx=0,  # by __post_init__, for older configs
)
def inkling_text(c: Config) -> Module:
    """Inkling (transformers' InklingTextModel): a short convolution of every key, value and sub-layer's output."""
    h = c.size("hidden_size")

    def one(kind: tuple[str, str]) -> Module:
        made = decoders.layer(c, attention(c, kind[0]), feed_forward(c, kind[1]), of=ConvolvedLayer)
        behind = tuple(convolution(c, f"{name}_sconv.conv1d", h) for name in ("attn", "mlp"))
        return made.replace(convolutions=behind)

    sparse = experts.sparse_after(c, c.number("dense_mlp_idx", least=0))
    return embedded(c, decoders.decoder(c, one, list(zip(kinds(c), experts.mlp_types(c, sparse), strict=True))))


CODE = "olmo"
"""Norms are multiplied by their weights in fp32."""


def clipped_attention(c: Config, kind: str) -> ClippedAttention:
    """Return attention whose heads mix profiles of bias over distance, with a gated output and a sink by token.

    Where attention sees everything, the weights of its convolutions depend on the token too.
    """
    h, kernel, made = c.size("hidden_size"), c.size("conv_kernel_size"), attention(c, kind)
    a, g, d = made.heads, made.kv_heads, made.key_dim
    clipped = made.as_type(
        ClippedAttention,
        norms=(),
        gate=Linear("gate_proj", h, a * d),
        sink=Linear("sink_proj", h, a),
        scale=parameter("q_l2_clip.scale", a, d, minor=True),
        mix_scale=parameter("rel_l2_clip.scale", a, c.size("d_rel"), minor=True),
    )
    if kind == WINDOW:
        return clipped.replace(convolutions=tuple(each.replace(scales=True) for each in made.convolutions))
    return clipped.as_type(
        TokenConvolved,
        convolutions=(),
        taps=tuple(Linear(f"{letter}_sconv.weight_proj", h, g * kernel) for letter in "kv"),
        static=tuple(parameter(f"{letter}_sconv.static", kernel, g * d) for letter in "kv"),
        reach=kernel,
        by_place=True,
    )


def mixture(c: Config) -> Mixture:
    """Routed experts, none shared."""
    made = routed(c, normalized=True, code=RouterCode(logits="copies", in_place=False))
    return made.replace(experts=made.experts.as_type(CappedExperts))


def capped_language_model(c: Config, base: Module) -> Module:
    """Logits by a matrix of its own; in fp32 a tanh caps them."""
    capped = c.get("final_logit_softcapping") is not None
    return tops.never_tied(c, base).as_type(Unpadded, words=unpadded(c), capped=capped, in_float32=True)


@family("inkling2_text", heads=tops.CAUSAL_LM | {"ForCausalLM": capped_language_model})
def inkling2_text(c: Config) -> Module:
    """Its layers read the stream through a query over blocks of layers before them; full ones with three queries."""
    h, every, count = c.size("hidden_size"), c.number("n_layers_per_attn_res_block"), c.number("num_hidden_layers")

    def read(name: str, vectors: int, queries: int = 1) -> DepthAttention:
        query = parameter("query", queries, h)
        return DepthAttention(name, query, Norm("norm", "rmsnorm-plain", h), vectors, queries)

    def one(kind: tuple[str, int, bool, bool]) -> Module:
        mixer, block, closes, lowest = kind
        inputs = [f"{letter}_input_layernorm" for letter in "qkv"] if mixer == FULL else ["input_layernorm"]
        return DepthLayer(
            "layers",
            None if lowest else read("attention_input", block + 2 - closes, len(inputs)),
            tuple(Norm(name, "rmsnorm", h, CODE) for name in inputs),
            clipped_attention(c, mixer),
            convolution(c, "post_attention_convolution.conv1d", h, scales=True),
            read("mlp_input", block + 2),
            Norm("post_attention_layernorm", "rmsnorm", h, CODE),
            mixture(c),
            convolution(c, "post_mlp_convolution.conv1d", h, scales=True),
            block,
            closes,
        )

    types = layer_types(c, lambda place: WINDOW if (place + 1) % 6 else FULL, (WINDOW, FULL))
    kinds = [(kind, place // every, place % every == 0, place == 0) for place, kind in enumerate(types)]
    made = embedded(c, decoders.decoder(c, one, kinds, code=CODE))
    assert made.normed is not None
    last = read("final_input", ceil_div(count, every) + 1)
    return made.as_type(DepthDecoder, normed=made.normed.replace(code=CODE), last=last)
