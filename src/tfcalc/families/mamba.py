"""Mamba, Mamba-2, Falcon Mamba: state-space models without attention, one mixer and one norm a layer."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.blocks import layer
from tfcalc.blocks.mamba import Mamba
from tfcalc.blocks.mamba2 import Mamba2
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, lm_head
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, divide
from tfcalc.errors import InvalidModel
from tfcalc.leaves import embedding, norm
from tfcalc.workload import Workload

HEADS = {"Model": bare, "ForCausalLM": lm_head()}


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


def backbone(
    c: Config,
    run: Workload,
    *layers: Component,
    name: str = "backbone",
    tokens: str = "embeddings",
    final: str = "norm_f",
    norm_kind: str = "rmsnorm",
    before: tuple[Component, ...] = (),
) -> Component:
    """Embedding, layers, final norm, by the names that state-space models have for them."""
    h, t = c.size("hidden_size"), run.target.tokens
    table = embedding(tokens, c.size("vocab_size"), h, t)
    return Component(name, "decoder", parts=(table, *before, *layers, norm(final, norm_kind, h, t)))


@family("mamba", architecture="MambaForCausalLM", heads=HEADS)
def mamba(c: Config, run: Workload) -> Component:
    """Mamba (arXiv 2312.00752)."""
    return mamba_layers(c, run)


@family("falcon_mamba", architecture="FalconMambaForCausalLM", heads=HEADS)
def falcon_mamba(c: Config, run: Workload) -> Component:
    """Falcon Mamba (arXiv 2410.05355): norms of time step, B and C, without weights."""
    return mamba_layers(c, run, norms="rmsnorm-plain")


def mamba_layers(c: Config, run: Workload, norms: str = "") -> Component:
    """Layers of Mamba's mixer; ``intermediate_size`` rules over ``expand``."""
    h, stream = c.size("hidden_size"), run.target
    given = c.optional("intermediate_size")
    mixer = Mamba(
        h,
        c.size("expand") * h if given is None else given,
        c.size("state_size"),
        time_step_rank(c, "time_step_rank"),
        c.size("conv_kernel"),
        c.word("hidden_act"),
        bias=c.flag("use_bias"),
        conv_bias=c.flag("use_conv_bias"),
        norms=norms,
    )
    return mixing(c, run, mixer("mixer", stream))


@family("mamba2", architecture="Mamba2ForCausalLM", heads=HEADS)
def mamba2(c: Config, run: Workload) -> Component:
    """Mamba-2 (arXiv 2405.21060)."""
    h, stream, channels = c.size("hidden_size"), run.target, expanded(c, "expand")
    mixer = Mamba2(
        h,
        c.size("num_heads"),
        mamba2_head_dim(c, "num_heads", "head_dim", channels),
        channels.size,
        c.size("state_size"),
        c.size("n_groups"),
        c.size("conv_kernel"),
        c.word("hidden_act"),
        c.size("chunk_size"),
        bias=c.flag("use_bias"),
        conv_bias=c.flag("use_conv_bias"),
    )
    return mixing(c, run, mixer("mixer", stream))


def mixing(c: Config, run: Workload, mixer: Component) -> Component:
    """Layers of a norm and this mixer."""
    h, t = c.size("hidden_size"), run.target.tokens
    parts = (norm("norm", "rmsnorm", h, t), mixer)
    return backbone(c, run, layer("layers", parts, t * h, copies=c.size("num_hidden_layers"), ends_with_sum=True))
