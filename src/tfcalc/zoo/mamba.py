"""Mamba, Mamba-2, Falcon Mamba: state-space models without attention, one mixer and one norm a layer."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, ceil_div, divide
from tfcalc.errors import InvalidModel
from tfcalc.nn.basic import Linear, Norm, parameter
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders, state_space
from tfcalc.zoo.blocks.state_space import GroupedNorm, Mamba2, ShortConvolution

TOPS = {"Model": tops.bare, "ForCausalLM": tops.lm_head()}


def time_step_rank(c: Config, name: str) -> Num:
    """The rank of Mamba's time step: given, or ``"auto"``, a sixteenth of the hidden size, rounded up."""
    rank: Num = ceil_div(c.size("hidden_size"), 16) if c.get(name) == "auto" else c.size(name)
    return rank


class Channels(NamedTuple):
    """The width of a state-space mixer: as a size, which may be a symbol, and as a number."""

    size: Num
    number: int

    def split(self, c: Config, n_heads: str) -> Num:
        """What each of these heads has of it. Raises InvalidModel where it does not come out even."""
        heads = c.number(n_heads)
        if self.number % heads:
            raise InvalidModel(f"{c.path(n_heads)} {heads} does not divide {self.number} channels", "give a divisor")
        width: Num = divide(self.size, c.size(n_heads))
        return width


def expanded(c: Config, expand: str) -> Channels:
    """So many channels for each of the hidden size."""
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


@family("mamba", heads=TOPS)
def mamba(c: Config) -> Module:
    """Mamba (arXiv 2312.00752)."""
    return stacked(c, mamba_mixer(c))


@family("falcon_mamba", heads=TOPS)
def falcon_mamba(c: Config) -> Module:
    """Falcon Mamba (arXiv 2410.05355): norms of time step, B and C, without weights."""
    return stacked(c, mamba_mixer(c, norms="rmsnorm-plain"))


def mamba_mixer(c: Config, norms: str = "") -> state_space.Mamba:
    """Mamba's mixer; ``intermediate_size`` rules over ``expand``."""
    given, sizes = c.optional("intermediate_size"), (time_step_rank(c, "time_step_rank"), c.size("state_size"))
    inner = c.size("expand") * c.size("hidden_size") if given is None else given
    bias, conv_bias = c.flag("use_bias"), c.flag("use_conv_bias")
    return of_channels(c, "mixer", inner, (*sizes, c.size("conv_kernel")), norms=norms, bias=bias, conv_bias=conv_bias)


def of_channels(
    c: Config, name: str, inner: Num, sizes: tuple[Num, Num, Num], *, norms: str, bias: bool, conv_bias: bool
) -> state_space.Mamba:
    """Mamba's mixer of so many channels; the ``sizes`` of the time step's rank, state and kernel."""
    h, (rank, states, kernel) = c.size("hidden_size"), sizes
    widths = {"dt_layernorm": rank, "b_layernorm": states, "c_layernorm": states}
    return state_space.Mamba(
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


def stacked(c: Config, mixer: Module) -> Module:
    """Layers of a norm and this mixer."""
    made = decoders.layer(c, mixer, names=("norm",)).but(in_float32=c.flag("residual_in_fp32"))
    return decoders.decoder(c, made, names=("backbone", "embeddings", "norm_f"))


@family("mamba2", heads=TOPS)
def mamba2(c: Config) -> Module:
    """Mamba-2 (arXiv 2405.21060)."""
    channels, heads = expanded(c, "expand"), c.size("num_heads")
    width = mamba2_head_dim(c, "num_heads", "head_dim", channels)
    mixer = mamba2_mixer(
        c,
        "mixer",
        (channels.size, heads, width),
        (c.size("state_size"), c.size("n_groups"), c.size("conv_kernel"), c.size("chunk_size")),
        bias=c.flag("use_bias"),
        conv_bias=c.flag("use_conv_bias"),
    )
    return stacked(c, mixer)


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
