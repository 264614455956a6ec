"""Recurrent mixers: short convolutions over time, Mamba, Mamba-2, gated delta networks."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.configs.config import Config
from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num, ceil_div, divide
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.basic import Linear, Norm, Parameter, parameter
from tfcalc.nn.module import Context, Module, TimeLoop
from tfcalc.ops import recurrences
from tfcalc.ops.convolution import causal_convolution, convolution, summed_step
from tfcalc.ops.elementwise import activation, mul
from tfcalc.ops.linear_attention import delta_rule
from tfcalc.ops.recurrences import States, state_space
from tfcalc.ops.rows import norm
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import cat, reshape, split, transpose
from tfcalc.ops.work import CONVOLUTION, FP32, STATE, by_sequence
from tfcalc.tape.tensor import Tensor


class ShortConvolution(Module):
    """A convolution of each channel by itself, over its last ``kernel`` tokens.

    In decoding the last ``kernel`` inputs are cached, or those before the new one where a step is ``summed``: products
    and sums instead of a convolution; each has ``bits`` bits, where these are not the model's.
    """

    kind = "convolution"

    channels: Num
    kernel: Num
    bias: bool = True
    summed: bool = False
    bits: int | None = None

    def own_params(self) -> Cost:
        """W and b."""
        weight = Weight("w", (self.channels, 1, self.kernel))
        return Cost(weights=(weight, *([Weight("b", (self.channels,), minor=True, key="bias")] if self.bias else [])))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the convolution of ``x``, of b × c × l."""
        weight, bias, *_ = *self.weights(x.trace), None
        kept = self.kernel - 1 if self.summed else self.kernel
        cached = by_sequence(ctx.stream, CONVOLUTION, self.channels, kept, self.bits)
        step = ctx.stream.cached is not None
        if step and self.summed:
            return summed_step(x, weight, bias, cached=cached)
        return causal_convolution(x, weight, bias, cached=cached, step=step)


class GroupedConvolution(Module):
    """A convolution over time, without zeros at its ends: ``groups`` of channels each ``read`` as many as they make."""

    kind = "convolution"

    groups: Num
    read: Num
    kernel: Num

    @property
    def channels(self) -> Num:
        """Number of channels of all groups."""
        return self.groups * self.read

    def own_params(self) -> Cost:
        """W and b."""
        weight = Weight("w", (self.channels, self.read, self.kernel))
        return Cost(weights=(weight, Weight("b", (self.channels,), minor=True, key="bias")))

    def forward(self, x: Tensor, places: Num) -> Tensor:
        """Return the convolution of ``x``, of b × c × l, at this number of ``places``."""
        weight, bias = self.weights(x.trace)
        return convolution(x, weight, bias, places, self.groups)


class Mamba(Module):
    """Channels after a short convolution, each a recurrence over ``states`` numbers; a second half gates.

    The time step comes through a vector of ``rank``; with it B and C are made of the input (``x_proj``). Each of the
    three may have a norm.

    Source: Gu and Dao 2023 (arXiv 2312.00752), section 3.4; transformers' MambaMixer.
    """

    kind = "ssm"
    loops = TimeLoop(0.02)

    in_proj: Linear
    conv1d: ShortConvolution
    activation: str
    x_proj: Linear
    norms: tuple[Norm, ...]
    dt_proj: Linear
    A_log: Parameter
    D: Parameter
    out_proj: Linear
    rank: Num
    states: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the mixer's output for ``x``, of b × l × h."""
        channels = self.conv1d.channels
        inner, gate = (transpose(each, 1, 2) for each in split(self.in_proj(x), [channels] * 2))
        inner = self._convolved(inner, ctx)
        made = self.x_proj(inner)
        step, b, c = split(made, [self.rank, self.states, self.states])
        if self.norms:
            step, b, c = (norm(each, ctx) for norm, each in zip(self.norms, (step, b, c), strict=True))
        if not x.trace.emits_kernels:  # one selective scan; its kernels depend on the library
            return self.out_proj(self._counted(inner, self.dt_proj(step), ctx))
        return self.out_proj(ctx.backend.scan(self, ctx, inner, gate, step, b, c))

    def _convolved(self, x: Tensor, ctx: Context) -> Tensor:
        """Token by token again, and activated, in the format that it was given in."""
        trace = x.trace
        made = self.conv1d(trace.to(x, trace.weights_format), ctx)
        made = ctx.activation(self.activation, made)
        return transpose(trace.to(made, x.dtype), 1, 2)

    def _counted(self, x: Tensor, step: Tensor, ctx: Context) -> Tensor:
        """Δ's softplus, the recurrence, and the gate."""
        channels, states = self.conv1d.channels, self.states
        activation("softplus", step, lambda: step, name="time_step")
        cached = by_sequence(ctx.stream, STATE, channels, states, FP32)
        formula = recurrences.selective_scan("scan", x.rows, channels, states)
        made = recurrence(formula, x, x.shape, lambda: x, cached=cached)
        return activation("silu", made, lambda: made, name="gate")


class GroupedNorm(Norm):
    """A norm of each of the ``groups`` of a row by itself, with a weight for the whole row."""

    groups: Num = 1

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the norm of each row."""
        (weight,) = self.weights(x.trace)

        def code() -> Tensor:
            groups = reshape(x, *x.shape[:-1], self.groups, divide(self.width, self.groups))
            return mul(reshape(ctx.backend.norm(self, groups, None, None), *x.shape), weight)

        return norm(self.form, x, weight, None, code)


class Mamba2(Module):
    """``heads`` states of ``states`` × ``head_dim``, each decayed by one number; the heads of a group share B and C.

    One matrix makes gate, input, B, C and time step; a short convolution mixes input, B and C. A ``norm`` of the output
    together with its gate may follow, of each group by itself, or before the gate (``gate_last``). States are carried
    over ``chunk`` tokens at a time.

    Source: Dao and Gu 2024 (arXiv 2405.21060), section 7; transformers' Mamba2Mixer.
    """

    kind = "ssm"
    loops = TimeLoop(0.02)

    in_proj: Linear
    conv1d: ShortConvolution
    activation: str
    dt_bias: Parameter
    A_log: Parameter
    D: Parameter
    norm: tuple[Norm, ...]
    out_proj: Linear
    heads: Num
    head_dim: Num
    states: Num
    groups: Num
    chunk: Num
    gate_last: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the mixer's output for ``x``, of b × l × h."""
        trace, channels, shared = x.trace, self.out_proj.fan_in, self.groups * self.states
        gate, mixed, step = split(self.project(x), [channels, self.conv1d.channels, self.heads])
        made = self.conv1d(trace.to(transpose(mixed, 1, 2), trace.weights_format), ctx)
        made = ctx.activation(self.activation, made)
        inner, b, c = split(transpose(trace.to(made, mixed.dtype), 1, 2), [channels, shared, shared])
        made = reshape(self._scanned(inner, b, c, step, ctx), *x.shape[:2], channels)
        return self.out_proj(trace.to(self._gated(made, gate, ctx), x.dtype))

    def project(self, x: Tensor) -> Tensor:
        """Map the input to the gate, what is convolved, and the steps."""
        return self.in_proj(x)

    def _scanned(self, x: Tensor, b: Tensor, c: Tensor, step: Tensor, ctx: Context) -> Tensor:
        """The recurrence; in the tree with the softplus of the time step."""
        stream, heads, rows = ctx.stream, self.heads, x.shape[:2]
        if not x.trace.emits_kernels:  # counted apart; kernels make it inside the scan
            activation("softplus", step, lambda: step, "time_step")
        states = States(stream.batch, stream.length, heads, self.states, self.head_dim, step=stream.cached is not None)
        x = reshape(x, *rows, heads, self.head_dim)
        b, c = (reshape(each, *rows, self.groups, self.states) for each in (b, c))
        cached = by_sequence(stream, STATE, heads, self.states * self.head_dim, FP32)
        formula = state_space("scan", states, self.chunk)
        return recurrence(formula, x, x.shape, lambda: ctx.backend.scan(self, ctx, x, b, c, step), cached=cached)

    def _gated(self, x: Tensor, gate: Tensor, ctx: Context) -> Tensor:
        """``norm(x · silu(gate))`` in fp32, or without a norm in the format that they have."""
        trace = x.trace
        if self.norm:
            x, gate = trace.to(x, "float32"), trace.to(gate, "float32")
        gate = ctx.activation("silu", gate, "gate")
        x = x if self.gate_last else mul(x, gate)
        for each in self.norm:
            x = each(x, ctx)
        return mul(x, gate) if self.gate_last else x


class GatedDeltaNet(Module):
    """``value_heads`` states of ``key_dim`` × ``value_dim``; the ``key_heads`` are shared evenly among them.

    Queries, keys and values, ``mixed`` by one map or by three, pass a short convolution. A head writes with strength β
    and decays by exp(−exp(A)·softplus(a + dt)), of which ``strengths`` are the maps; a norm of each head's output is
    gated.

    Source: Yang et al. 2024 (arXiv 2412.06464), section 3; transformers' Qwen3_5GatedDeltaNet, OlmoHybridGatedDeltaNet.
    """

    kind = "ssm"
    loops = TimeLoop(0.02)

    mixed: tuple[Linear, ...]
    gate: Linear | None
    strengths: tuple[Linear, ...]
    conv1d: ShortConvolution
    activation: str
    dt_bias: Parameter
    A_log: Parameter
    norm: Norm
    output: Linear
    key_heads: Num
    value_heads: Num
    key_dim: Num
    value_dim: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the mixer's output for ``x``, of b × l × h."""
        maps = [each(x) for each in self.mixed]
        q, k, v = self._heads(maps[0] if len(maps) == 1 else cat(maps), ctx)
        strength, decay = (each(x) for each in self.strengths)
        gate = self.gate
        assert gate is not None
        return self.norm_heads(self._mixed(q, k, v, strength, decay, ctx), lambda: gate(x), ctx)

    def _heads(self, mixed: Tensor, ctx: Context) -> list[Tensor]:
        """Queries, keys and values, head by head, after the convolution."""
        keys, width = self.key_heads * self.key_dim, self.value_heads * self.value_dim
        shapes = ((self.key_heads, self.key_dim),) * 2 + ((self.value_heads, self.value_dim),)
        wide = split(self._convolved(transpose(mixed, 1, 2), ctx), [keys, keys, width])
        return [reshape(each, *mixed.shape[:2], *shape) for each, shape in zip(wide, shapes, strict=True)]

    def norm_heads(self, made: Tensor, gate: Callable[[], Tensor], ctx: Context) -> Tensor:
        """Head by head, gated, and mapped back."""
        rows, heads, width = made.shape[:2], self.value_heads, self.value_dim
        made = self.norm(reshape(made, made.rows, width), ctx)
        return self.output(reshape(self._gated(made, gate, ctx), *rows, heads * width))

    def _convolved(self, x: Tensor, ctx: Context) -> Tensor:
        made = self.conv1d(x.trace.to(x, x.trace.weights_format), ctx)
        made = ctx.activation(self.activation, made)
        return transpose(x.trace.to(made, x.dtype), 1, 2)

    def _mixed(self, q: Tensor, k: Tensor, v: Tensor, strength: Tensor, decay: Tensor, ctx: Context) -> Tensor:
        """The delta rule; in the tree with the softplus of the decay."""
        stream, heads = ctx.stream, self.value_heads
        if not q.trace.emits_kernels:  # counted apart; kernels make it inside the delta rule
            activation("softplus", decay, lambda: decay, "time_step")
        step = stream.cached is not None
        states = States(stream.batch, stream.length, heads, self.key_dim, self.value_dim, step=step)
        cached = by_sequence(stream, STATE, heads, self.key_dim * self.value_dim, FP32)
        code = lambda: ctx.backend.scan(self, ctx, q, k, v, strength, decay)  # noqa: E731  # too long for one line
        return recurrence(delta_rule("scan", states), v, v.shape, code, cached=cached)

    def _gated(self, made: Tensor, opens: Callable[[], Tensor], ctx: Context) -> Tensor:
        """Return the output gated in fp32, then in the format of the norm."""
        trace, given = made.trace, made.dtype
        gate = trace.to(reshape(opens(), *made.shape), "float32")
        gate = ctx.activation("silu", gate, "gate")
        return trace.to(mul(made, gate), given)


class JointDeltaNet(GatedDeltaNet):
    """One map makes queries, keys, values and gates, another strengths and decays: key head by key head.

    Source: transformers' Qwen3NextGatedDeltaNet.
    """

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the mixer's output for ``x``, of b × l × h."""
        keys, heads, rows = self.key_heads, self.value_heads, x.shape[:2]
        each = divide(heads, keys)
        wide, narrow = (made(x) for made in self.mixed)
        wide = reshape(wide, *rows, keys, 2 * self.key_dim + 2 * each * self.value_dim)
        q, k, v, gate = split(wide, [self.key_dim, self.key_dim, each * self.value_dim, each * self.value_dim])
        strength, decay = split(reshape(narrow, *rows, keys, 2 * each), [each, each])
        v, gate = (reshape(part, *rows, heads, self.value_dim) for part in (v, gate))
        strength, decay = (reshape(part, *rows, heads) for part in (strength, decay))
        q, k = (reshape(part, *rows, keys * self.key_dim) for part in (q, k))
        v = reshape(v, *rows, heads * self.value_dim)
        q, k, v = self._heads(cat([q, k, v]), ctx)
        return self.norm_heads(self._mixed(q, k, v, strength, decay, ctx), lambda: gate, ctx)


def time_step_rank(c: Config, name: str) -> Num:
    """The rank of Mamba's time step: given, or ``"auto"``, a sixteenth of the hidden size, rounded up."""
    rank: Num = ceil_div(c.size("hidden_size"), 16) if c.get(name) == "auto" else c.size(name)
    return rank


class Channels(NamedTuple):
    """The width of a state-space mixer: as a size, which may be a symbol, and as a number."""

    size: Num
    number: int

    def split(self, c: Config, n_heads: str) -> Num:
        """Return the channels of each of these heads. Raises InvalidModel where it does not come out even."""
        heads = c.number(n_heads)
        if self.number % heads:
            raise InvalidModel(f"{c.path(n_heads)} {heads} does not divide {self.number} channels", "give a divisor")
        width: Num = divide(self.size, c.size(n_heads))
        return width


def expanded(c: Config, expand: str) -> Channels:
    """Channels of a mixer: the hidden size times the factor in the field ``expand``."""
    return Channels(c.size(expand) * c.size("hidden_size"), c.number(expand) * c.number("hidden_size"))


def mamba2_head_dim(c: Config, n_heads: str, head_dim: str, channels: Channels) -> Num:
    """The width of a Mamba-2 head: given, or ``"auto"``. Raises InvalidModel where heads do not fill the channels."""
    width = channels.split(c, n_heads)
    if c.get(head_dim) == "auto":
        return width
    if c.number(n_heads) * c.number(head_dim) != channels.number:
        raise InvalidModel(
            f"{c.path(head_dim)} {c.number(head_dim)} of {n_heads} {c.number(n_heads)} do not fill the channels",
            f"{n_heads}·{head_dim} must be {channels.number}",
        )
    return c.size(head_dim)


def of_channels(
    c: Config, name: str, inner: Num, sizes: tuple[Num, Num, Num], *, norms: str, bias: bool, conv_bias: bool
) -> Mamba:
    """Mamba's mixer of ``inner`` channels; the ``sizes`` of the time step's rank, state and kernel."""
    h, (rank, states, kernel) = c.size("hidden_size"), sizes
    widths = {"dt_layernorm": rank, "b_layernorm": states, "c_layernorm": states}
    return Mamba(
        name,
        Linear("in_proj", h, 2 * inner, "in", bias),
        ShortConvolution("conv1d", inner, kernel, conv_bias),
        c.word("hidden_act"),
        Linear("x_proj", inner, rank + 2 * states, "x"),
        tuple(Norm(name, norms, width) for name, width in widths.items()) if norms else (),
        Linear("dt_proj", rank, inner, "Δ", bias=True),
        parameter("A_log", inner, states),
        parameter("D", inner, minor=True),
        Linear("out_proj", inner, h, "out", bias),
        rank,
        states,
    )


def mamba2_mixer(
    c: Config,
    name: str,
    channels: tuple[Num, Num, Num],
    sizes: tuple[Num, Num, Num, Num],
    *,
    bias: bool,
    conv_bias: bool,
    act: str = "",
) -> Mamba2:
    """Mamba-2's mixer: its ``channels``, heads and their width; the ``sizes`` of state, groups, kernel and chunk."""
    (inner, heads, width), (states, groups, kernel, chunk) = channels, sizes
    h, mixed = c.size("hidden_size"), inner + 2 * groups * states
    return Mamba2(
        name,
        Linear("in_proj", h, inner + mixed + heads, "in", bias),
        ShortConvolution("conv1d", mixed, kernel, conv_bias),
        act or c.word("hidden_act"),
        parameter("dt_bias", heads, minor=True),
        parameter("A_log", heads, minor=True),
        parameter("D", heads, minor=True),
        (GroupedNorm("norm", "rmsnorm", inner, groups=groups),),
        Linear("out_proj", inner, h, "out", bias),
        heads,
        width,
        states,
        groups,
        chunk,
    )


LINEAR, FULL = "linear_attention", "full_attention"


LEGACY = {"mamba": LINEAR, "attention": FULL}
"""What older files call these layers."""


FINAL = ("model", "embed_tokens", "final_layernorm")


def mixer_types(
    c: Config, pattern: Callable[[int], str], name: str = "layer_types", known: tuple[str, ...] = (LINEAR, FULL)
) -> list[str]:
    """One word for each layer: those of the file, older ones translated, or else what ``pattern`` says of each."""
    count = c.number("num_hidden_layers")
    if c.get(name) is None:
        return [pattern(place) for place in range(count)]
    return [LEGACY.get(word, word) for word in c.words(name, count, (*known, *LEGACY))]


def first(c: Config, *names: str) -> str:
    """The name that the file gives, the earliest of these; the last where it gives none."""
    return next((name for name in names if c.has(name)), names[-1])
