"""Hybrids of attention and state-space layers: Jamba, Granite 4, Nemotron-H."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import LatentMixture, PlainExperts, RouterCode
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import mul, residual, scaled
from tfcalc.printable import quoted
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo import granite_moe
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.experts import COPIES, correction, mixture
from tfcalc.zoo.blocks.layers import network
from tfcalc.zoo.blocks.state_space import (
    FINAL,
    FULL,
    LEGACY,
    LINEAR,
    Channels,
    Mamba2,
    expanded,
    first,
    mamba2_head_dim,
    mamba2_mixer,
    mixer_types,
    of_channels,
    time_step_rank,
)


class MultipliedAttention(Attention):
    """Keys are multiplied by a number."""

    def project(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Scale the keys."""
        q, k, v = super().project(x, source, ctx)
        return q, scaled(k), v


class MultipliedMamba2(Mamba2):
    """The input is multiplied by a number, and what it is mapped to by one for each of its parts."""

    def project(self, x: Tensor) -> Tensor:
        """Scale the input, and each part of the output."""
        made = self.in_proj(scaled(x))
        return mul(made, x.trace.given((1, 1, made.width), x.trace.weights_format, "multipliers"))


class MultipliedFeedForward(GatedFeedForward):
    """The input is mapped before the gate, which is multiplied by a number, as is the output."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the network's output for each token."""
        assert self.gate is not None
        up = self.up(x)
        return scaled(self.down(mul(up, self.activated(scaled(self.gate(x)), ctx))))


class Mixed(PreNorm):
    """``x + (f(norm(x)) + g(norm(x)))``, each times a number, and then ``x + h(norm(x))``.

    Source: transformers' FalconH1DecoderLayer.
    """

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Side by side, and one after them."""
        recurrent, attention, last = self.sublayers
        before, behind = (norm for norm in self.norms if norm is not None)
        normed = before(x, ctx)
        made = scaled(recurrent(normed, ctx))
        x = residual(x, residual(made, scaled(attention(scaled(normed), ctx)), attention.name), recurrent.name)
        return residual(x, last(behind(x, ctx), ctx), last.name)


PRE_FF_NORM = ("input_layernorm", "pre_ff_layernorm")


def periodic(c: Config, name: str) -> list[bool]:
    """Return for each layer whether it is the ``…_offset``-th of its ``…_period``."""
    period, offset = c.number(f"{name}_period"), c.number(f"{name}_offset", least=0)
    if offset >= period:
        raise InvalidModel(
            f"{c.path(f'{name}_offset')} {offset} is not below {name}_period {period}", "count it from 0"
        )
    return [place % period == offset for place in range(c.number("num_hidden_layers"))]


@family("jamba")
def jamba(c: Config) -> Module:
    """Jamba (arXiv 2403.19887): attention in one layer of eight, experts in one of two; norms inside Mamba."""
    several = c.number("num_experts", least=0) > 1

    def one(kind: tuple[bool, bool]) -> Module:
        attends, sparse = kind
        mixer = decoders.attention(c).replace(rope=None) if attends else jamba_mixer(c)
        ffn = jamba_experts(c) if sparse and several else decoders.gated(c, name="feed_forward")
        return decoders.layer(c, mixer, ffn, names=PRE_FF_NORM)

    kinds = list(zip(periodic(c, "attn_layer"), periodic(c, "expert_layer"), strict=True))
    return decoders.decoder(c, one, kinds, names=FINAL, masks=(None,))


def jamba_mixer(c: Config) -> Module:
    """Mamba with norms of time step, B and C."""
    channels = c.size("mamba_expand") * c.size("hidden_size")
    sizes = time_step_rank(c, "mamba_dt_rank"), c.size("mamba_d_state"), c.size("mamba_d_conv")
    bias, conv_bias = c.flag("mamba_proj_bias"), c.flag("mamba_conv_bias")
    return of_channels(c, "mamba", channels, sizes, norms="rmsnorm", bias=bias, conv_bias=conv_bias)


def jamba_experts(c: Config) -> Module:
    """Experts, the sum of whose weights is whatever it is."""
    return mixture(c, name="feed_forward", experts="num_experts", router="router", code=RouterCode(result="stream"))


@family("granitemoehybrid", heads={"Model": tops.bare, "ForCausalLM": tops.lm_head(scales=True)})
def granite_hybrid(c: Config) -> Module:
    """Granite 4: Mamba-2 or attention, then experts (none of them in a dense model) beside a network for all tokens.

    Attention knows positions only where the config says so.
    """
    rope = decoders.rope(c) if c.get("position_embedding_type") == "rope" else None
    width = c.size("shared_intermediate_size", least=0)
    shared = decoders.gated(c, name="shared_mlp", width=width, names=("input_linear", "output_linear"))

    def one(kind: str) -> Module:
        attention = decoders.attention(c, bias=c.flag("attention_bias")).replace(rope=rope)
        mixer = attention if kind == FULL else bamba_mixer(c)
        if c.number("num_local_experts", least=0):
            return granite_moe.layer(c, mixer, shared)
        return decoders.layer(c, mixer, shared).replace(scales=True)

    return decoders.decoder(c, one, mixer_types(c, lambda _: LINEAR), masks=(None,)).replace(scales=True)


@family(
    "bamba",
    heads={"Model": tops.bare, "ForCausalLM": tops.lm_head()},
    partial_rotary_factor=0.5,  # by __post_init__
)
def bamba(c: Config) -> Module:
    """Bamba (IBM, 2024): Mamba-2, attention in the layers of ``attn_layer_indices``."""
    attends = c.numbers("attn_layer_indices") if c.get("attn_layer_indices") is not None else []
    ffn = decoders.gated(c, bias=c.flag("mlp_bias")).replace(name="feed_forward")

    def one(attending: bool) -> Module:
        mixer = decoders.attention(c, bias=c.flag("attention_bias")) if attending else bamba_mixer(c)
        return decoders.layer(c, mixer, ffn, names=PRE_FF_NORM)

    kinds = [place in attends for place in range(c.number("num_hidden_layers"))]
    return decoders.decoder(c, one, kinds, names=FINAL, masks=(None,))


def bamba_mixer(c: Config, *, output_bias: bool | None = None, of: type[Mamba2] = Mamba2) -> Mamba2:
    """Mamba-2 by the names of fields that Bamba, Granite and Falcon-H1 share."""
    given = c.optional("mamba_d_ssm")
    channels = expanded(c, "mamba_expand") if given is None else Channels(given, c.number("mamba_d_ssm"))
    heads, bias = c.size("mamba_n_heads"), c.flag("mamba_proj_bias")
    width = mamba2_head_dim(c, "mamba_n_heads", "mamba_d_head", channels)
    sizes = c.size("mamba_d_state"), c.size("mamba_n_groups"), c.size("mamba_d_conv"), c.size("mamba_chunk_size")
    made = mamba2_mixer(
        c, "mamba", (channels.size, heads, width), sizes, bias=bias, conv_bias=c.flag("mamba_conv_bias")
    )
    output = made.out_proj if output_bias is None else made.out_proj.replace(bias=output_bias)
    return made.as_type(of, out_proj=output)


@family("falcon_h1", heads={"Model": tops.bare, **tops.scaled_lm()})
def falcon_h1(c: Config) -> Module:
    """Falcon-H1 (arXiv 2507.22448): attention and Mamba-2 side by side in every layer, their outputs added."""
    mixer = bamba_mixer(c, output_bias=c.flag("projectors_bias"), of=MultipliedMamba2)
    mixer = (
        mixer.replace(gate_last=c.flag("mamba_norm_before_gate"))
        if c.flag("mamba_rms_norm")
        else mixer.replace(norm=())
    )
    attention = decoders.attention(c, bias=c.flag("attention_bias")).as_type(MultipliedAttention)
    ffn = decoders.gated(c, name="feed_forward", bias=c.flag("mlp_bias")).as_type(MultipliedFeedForward)
    made = decoders.layer(c, mixer, attention, ffn, of=Mixed, names=PRE_FF_NORM)
    return decoders.decoder(c, made, names=FINAL).replace(scales=True)


MOE, MLP = "moe", "mlp"
PATTERN = {"M": LINEAR, "E": MOE, "*": FULL, "-": MLP}
"""Nemotron-H's letters for its layers."""


def nemotron_layers(c: Config) -> list[str]:
    """One kind for each layer: a list, a pattern such as ``M-M*``, or transformers' four layers."""
    if c.get("layers_block_type") is not None:
        words = c.words("layers_block_type", None, (*PATTERN.values(), *LEGACY))
        return [LEGACY.get(word, word) for word in words]
    pattern = c.word("hybrid_override_pattern")
    if set(pattern) - set(PATTERN):
        wrong = "".join(sorted(set(pattern) - set(PATTERN)))
        raise InvalidModel(f"hybrid_override_pattern: {quoted(wrong)} is not known", f"letters: {' '.join(PATTERN)}")
    return [PATTERN[letter] for letter in pattern]


@family(
    "nemotron_h",
    heads={"Model": tops.bare, "ForCausalLM": tops.never_tied},
    hybrid_override_pattern="ME*-",  # by __post_init__
)
def nemotron_h(c: Config) -> Module:
    """Nemotron-H (arXiv 2504.03624), Nemotron 3: one norm and one mixer a layer, be it Mamba-2, attention or an MLP."""
    makers: dict[str, Callable[[], Module]] = {
        LINEAR: lambda: nemotron_mixer(c),
        FULL: lambda: decoders.attention(c).replace(name="mixer", rope=None),
        MOE: lambda: nemotron_experts(c),
        MLP: lambda: relu2(c, "mixer", c.size("hidden_size"), c.size("intermediate_size")),
    }

    def one(kind: str) -> Module:
        return decoders.layer(c, makers[kind](), names=("norm",), code="helium")

    kinds, names = nemotron_layers(c), ("model", "embeddings", "norm_f")
    return decoders.decoder(c, one, kinds, code="helium", names=names, masks=(None,), count=len(kinds))


def nemotron_mixer(c: Config) -> Module:
    """Mamba-2 whose width is that of its heads, not a multiple of the hidden size."""
    heads, width = c.size("mamba_num_heads"), c.size("mamba_head_dim")
    groups, kernel = c.size(first(c, "mamba_n_groups", "n_groups")), c.size(first(c, "mamba_d_conv", "conv_kernel"))
    sizes = c.size("ssm_state_size"), groups, kernel, c.size(first(c, "mamba_chunk_size", "chunk_size"))
    conv_bias = c.flag(first(c, "mamba_conv_bias", "use_conv_bias"))
    channels = heads * width, heads, width
    act, bias = c.word("mamba_hidden_act"), c.flag("use_bias")
    return mamba2_mixer(c, "mixer", channels, sizes, bias=bias, conv_bias=conv_bias, act=act)


def nemotron_experts(c: Config) -> Module:
    """Experts chosen with a correction that is not trained, in a narrower space where ``moe_latent_size`` is given."""
    h, latent, bias = c.size("hidden_size"), c.optional("moe_latent_size"), c.flag("mlp_bias")
    ways: tuple[Linear, ...] = ()
    if latent is not None:
        ways = Linear("fc1_latent_proj", h, latent, bias=bias), Linear("fc2_latent_proj", latent, h, bias=bias)
    shared = relu2(c, "shared_experts", h, c.size("moe_shared_expert_intermediate_size"))
    act, width = c.word("mlp_hidden_act"), c.size("moe_intermediate_size")
    how = COPIES | {"normalized": bool(c.get("norm_topk_prob")), "scales": True}
    mixed = mixture(c, experts="n_routed_experts", width=width, act=act, name="mixer", **how)
    read = h if latent is None else latent
    up, down = Linear("up_proj", read, width, "1"), Linear("down_proj", width, read, "2")
    many = mixed.experts.as_type(PlainExperts, up=up, down=down)
    return LatentMixture(mixed.name, mixed.router, many, (shared,), stored=(correction(c),), ways=ways)


def relu2(c: Config, name: str, width: Num, inner: Num) -> FeedForward:
    """A network without a gate."""
    return network(name, decoders.PLAIN, width, inner, c.word("mlp_hidden_act"), bias=c.flag("mlp_bias"))
