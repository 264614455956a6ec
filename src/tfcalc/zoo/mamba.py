"""Mamba, Mamba-2, Falcon Mamba: state-space models without attention, one mixer and one norm a layer."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders, state_space
from tfcalc.zoo.blocks.state_space import (
    expanded,
    mamba2_head_dim,
    mamba2_mixer,
    of_channels,
    time_step_rank,
)

TOPS = {"Model": tops.bare, "ForCausalLM": tops.lm_head()}


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


def stacked(c: Config, mixer: Module) -> Module:
    """Layers of a norm and this mixer."""
    made = decoders.layer(c, mixer, names=("norm",)).replace(in_float32=c.flag("residual_in_fp32"))
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
