"""ZAYA1: compressed convolutional attention, and a router that is a network of its own."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.component import Cached
from tfcalc.core.number import Num, floor_div
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Buffer, Linear, Norm, Parameter, parameter
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Experts
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Context, Module, Routing
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.ops.elementwise import add, filled, mul, pointwise, residual, scaled
from tfcalc.ops.rows import row_norm, softmax
from tfcalc.ops.select import gather
from tfcalc.ops.shapes import cat, copied, pad, part, reshape, split, transpose
from tfcalc.ops.work import CONVOLUTION, TOKEN_BEFORE, by_sequence
from tfcalc.tape.tensor import Call, Tensor
from tfcalc.zoo.blocks import decoders, experts
from tfcalc.zoo.blocks.experts import Borrowed
from tfcalc.zoo.blocks.layers import layer_types
from tfcalc.zoo.blocks.state_space import GroupedConvolution

STATE = "router states"


class RouterNetwork(Module):
    """A map to a narrower width, to which what the router below made is added (times ``scale``), and three maps more.

    One choice more than there are experts is to do nothing: then a weight is 0.

    Source: ZAYA1 (arXiv 2511.17127), section 2; transformers' ZayaRouter.
    """

    kind = "router"

    down: Linear
    scale: Parameter | None
    norm: Norm
    maps: tuple[Linear, ...]
    biases: Buffer

    def route(self, x: Tensor, experts: Experts, ctx: Context) -> Routing:
        """Route each token of b × l × h to its experts."""
        trace, carried = x.trace, ctx.carried
        assert carried is not None
        with trace.inside(self):
            made = self.down(x)
            if self.scale is not None:
                made = add(made, mul(carried[STATE], self.scale.weight(trace)))
            carried[STATE] = copied(made, name="clone")
            made = self.norm(made, ctx)
            *before, last = self.maps
            for place, each in enumerate(before, start=1):
                made = ctx.activation("gelu", each(made), f"activation_{place}")
            logits = last(made)
            weights, _ = gather(softmax(logits), experts.chosen)
            weights = filled(weights, trace.new(weights.shape, "bool", "nothing is done"))
            rows = x.rows, experts.chosen
            return Routing(reshape(weights, *rows), trace.new(rows, "int64", "experts chosen"), logits)


class CarriedMixture(Module):
    """Experts, and the network that sends tokens to them."""

    kind = "moe"

    router: RouterNetwork
    experts: Experts

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the experts' output for each token."""
        sent = self.router.route(x, self.experts, ctx)
        return reshape(self.experts.routed(reshape(x, x.rows, x.width), sent, ctx), *x.shape)


class InWeightsFormat(Norm):
    """A norm that reads a copy in the format of the weights, where the stream has another."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Norm each row."""
        return super().forward(x.trace.to(x, x.trace.weights_format), ctx)


class ScaledSums(PreNorm):
    """``(x + c)·d + (f(norm(x)) + a)·b``, with trained vectors for each sub-layer f: four ``vectors`` in a row.

    These are b, a, d and c.
    """

    vectors: tuple[Parameter, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        for place, (norm, sub) in enumerate(self.running(ctx)):
            b, a, d, c = self.vectors[4 * place : 4 * place + 4]
            made = shifted_and_scaled(sub(norm(x, ctx), ctx), a, b)
            x = residual(shifted_and_scaled(x, c, d), made, sub.name)
        return x


class ScaledInput(Decoder):
    """A decoder whose layers read ``(x + a)·b`` in fp32, with trained vectors; they hand something on beside it."""

    vectors: tuple[Parameter, ...] = ()

    @property
    def parts(self) -> Iterator[Module]:
        """Parts, the vectors last."""
        yield from super().parts
        yield from self.vectors

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the decoder's output for token ids."""
        return super().forward(x, ctx._replace(carried={}))

    def sum_embeddings(self, tables: list[Tensor], ctx: Context) -> Tensor:
        """Add up the tables' vectors, shifted and scaled in fp32."""
        b, a = self.vectors
        made = shifted_and_scaled(super().sum_embeddings(tables, ctx), a, b)
        return made.trace.to(made, "float32")


def shifted_and_scaled(x: Tensor, a: Parameter, b: Parameter) -> Tensor:
    """``(x + a)·b``."""
    return mul(add(x, a.weight(x.trace)), b.weight(x.trace))


class ConvolvedKeys(Attention):
    """Queries and keys pass a convolution of each channel (``depthwise``), then one of each head (``by_head``).

    Beside it each query head is added to its key head's, and their mean to the keys. Half of each value is made of the
    token before (``delayed``). Keys have a ``temperature`` for each head; queries and keys are brought to one length.

    Source: Figliolia et al. 2025 (CCA, arXiv 2510.04476), section 3; transformers' ZayaAttention.
    """

    delayed: Linear | None = None
    depthwise: GroupedConvolution | None = None
    by_head: GroupedConvolution | None = None
    temperature: Parameter | None = None

    def project(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, head by head."""
        rows, d = x.shape[:2], self.key_dim
        maps = [each(x) for each in self.inward]
        q, k = self._mixed_over_time(maps[0], maps[1], ctx)
        v = reshape(cat([maps[2], self._of_the_token_before(x, ctx)]), *rows, self.kv_heads, d)
        q, k = _of_one_length(q), _of_one_length(k)
        assert self.temperature is not None
        k = mul(k, reshape(self.temperature.weight(x.trace), self.kv_heads, 1))
        return transpose(q, 1, 2), transpose(k, 1, 2), transpose(v, 1, 2)

    def _mixed_over_time(self, q: Tensor, k: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """Run two convolutions over both, which look back alone, and add what :meth:`_beside` returns."""
        assert self.depthwise is not None
        assert self.by_head is not None
        (*rows, wide), each, grouped = q.shape, self.depthwise.kernel, self.by_head.kernel
        length, narrow_ = rows[1], k.width
        both = transpose(cat([q, k]), 1, 2)
        both = pad(both, 2, length + each + grouped - 2)
        both = self.by_head(self.depthwise(both, length + grouped - 1), length)
        mixed_q, mixed_k = split(transpose(both, 1, 2), [wide, narrow_])
        q, k = self._beside(q, k)
        return add(reshape(mixed_q, *q.shape), q), add(reshape(mixed_k, *k.shape), k)

    def _beside(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Half the sum of each query head and its key head, and the mean of these sums for each key head."""
        rows, a, g, d = q.shape[:2], self.heads, self.kv_heads, self.key_dim
        q, k = reshape(q, *rows, a, d), transpose(reshape(k, *rows, g, d), 1, 2)
        if not k.trace.same_size(g, a):
            k = copied(k, (rows[0], a, rows[1], d), "repeat_kv")
        q = scaled(add(q, transpose(k, 1, 2)))
        return q, q.trace.call(Call("mean", (q,), (*rows, g, d), q.dtype))

    def _of_the_token_before(self, x: Tensor, ctx: Context) -> Tensor:
        """Half of each value; the first has none before it: zeros are mapped in its place, unless one is cached."""
        assert self.delayed is not None
        made, (batch, length, width) = self.delayed(x), x.shape
        if ctx.stream.cached is not None:
            return made
        zeros = x.trace.new((batch, 1, width), x.dtype, "zeros")
        if not x.trace.emits_kernels:  # the product of zeros is counted by itself
            delayed = self.delayed
            Borrowed(f"{delayed.name}[zeros]", delayed.fan_in, delayed.fan_out, delayed.name)(zeros)
            return made
        return cat([self.delayed(zeros), part(made, 1, length - 1)], 1)

    def cached(self, ctx: Context) -> tuple[Cached, ...]:
        """Keys and values of tokens, the convolutions' last inputs, and what the last token makes for the next."""
        assert self.depthwise is not None
        assert self.by_head is not None
        stream, each, grouped = ctx.stream, self.depthwise.kernel, self.by_head.kernel
        half: Num = floor_div(self.kv_heads * self.key_dim, 2)
        return (
            *super().cached(ctx),
            *by_sequence(stream, CONVOLUTION, self.depthwise.channels, each + grouped - 2),
            *by_sequence(stream, TOKEN_BEFORE, half, 1),
        )


def _of_one_length(x: Tensor) -> Tensor:
    """Multiply ``x`` by √d over its length, which is no smaller than a least number."""
    length = pointwise("clamp", row_norm(x))
    return mul(x, scaled(pointwise("reciprocal", x.trace.upper(length))))


WINDOW, FULL = "hybrid_sliding", "hybrid"


def attention(c: Config, window: int | None) -> ConvolvedKeys:
    """Half of each value comes from the token before, so their width is even."""
    h, a, g, d, bias = (
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        decoders.kv_heads(c),
        c.size("head_dim"),
        c.flag("attention_bias"),
    )
    if c.number("num_key_value_heads") * c.number("head_dim") % 2:
        raise InvalidModel(f"head_dim {c.number('head_dim')} leaves values of odd width", "give an even one")
    half = floor_div(g * d, 2)
    maps = {"q_proj": (a * d, "Q"), "k_proj": (g * d, "K"), "v_proj_current": (half, "V")}
    return ConvolvedKeys(
        "self_attn",
        a,
        g,
        d,
        d,
        tuple(Linear(f"qkv_proj.{name}", h, width, letter, bias) for name, (width, letter) in maps.items()),
        (),
        Linear("o_proj", a * d, h, "O", bias),
        rope=Rope(floor_div(d, 2), RopeCode(by_window=True), partial=True),
        window=window,
        dropout=bool(c.get("attention_dropout")),
        delayed=Linear("qkv_proj.v_proj_delayed", h, half, "V'", bias),
        depthwise=GroupedConvolution("qkv_proj.conv_qk_depthwise", (a + g) * d, 1, c.size("cca_time0")),
        by_head=GroupedConvolution("qkv_proj.conv_qk_grouped", a + g, d, c.size("cca_time1")),
        temperature=parameter("qk_norm.temp", g, minor=True),
    )


def mixture(c: Config, first: bool) -> CarriedMixture:
    """The router is three layers deep; all but the first add what the router before them saw."""
    inner, choices = c.size("router_hidden_size"), c.size("num_experts") + 1
    router = RouterNetwork(
        "gate",
        Linear("down_proj", c.size("hidden_size"), inner, bias=True),
        None if first else parameter("router_states_scale", inner, minor=True),
        Norm("router_mlp.norm", "rmsnorm", inner),
        (
            Linear("router_mlp.fc1", inner, inner, bias=True),
            Linear("router_mlp.fc2", inner, inner, bias=True),
            Linear("router_mlp.out_proj", inner, choices),
        ),
        experts.correction(c, "balancing_biases", "num_experts"),
    )
    biases = router.biases.replace(tensor=router.biases.tensor._replace(shape=(choices,)))
    made = experts.mixture(c, experts="num_experts", width="moe_intermediate_size")
    return CarriedMixture("mlp", router.replace(biases=biases), made.experts)


def scales(c: Config) -> tuple[Parameter, ...]:
    """A scale and an offset of what each sub-layer adds to the stream, and of the stream itself."""
    places = ("post_attention_residual_scale", "post_mlp_residual_scale")
    vectors = ("hidden_states_scale", "hidden_states_bias", "residual_scale", "residual_bias")
    return tuple(
        parameter(f"{place}.{vector}", c.size("hidden_size"), minor=True) for place in places for vector in vectors
    )


@family("zaya", heads=tops.CAUSAL_LM | {"ForCausalLM": tops.lm_head(bias_flag="lm_head_bias")})
def zaya(c: Config) -> Module:
    """ZAYA1 (arXiv 2511.17127); transformers' ZayaModel."""
    h = c.size("hidden_size")

    def one(kind: tuple[int | None, bool]) -> Module:
        window, first = kind
        norms = tuple(InWeightsFormat(name, "rmsnorm", h) for name in decoders.PRE_NORM)
        return ScaledSums("layers", (attention(c, window), mixture(c, first)), norms, vectors=scales(c))

    types = layer_types(c, lambda _: FULL, (WINDOW, FULL))
    kinds = [(c.number("sliding_window") if kind == WINDOW else None, place == 0) for place, kind in enumerate(types)]
    made = decoders.decoder(c, one, kinds)
    inputs = tuple(parameter(f"input_hidden_states_{kind}", h, minor=True) for kind in ("scale", "bias"))
    return made.as_type(ScaledInput, vectors=inputs, norm=InWeightsFormat("norm", "rmsnorm", h))
