"""Mamba, Mamba-2, Falcon Mamba: state-space models without attention, one mixer and one norm a layer."""

from __future__ import annotations

from tfcalc.blocks import layer
from tfcalc.blocks.mamba import Mamba
from tfcalc.blocks.mamba2 import Mamba2
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, divide
from tfcalc.errors import InvalidModel
from tfcalc.families.config import Config
from tfcalc.families.family import family
from tfcalc.families.heads import bare, lm_head
from tfcalc.leaves import embedding, norm
from tfcalc.workload import Workload

HEADS = {"Model": bare, "ForCausalLM": lm_head()}


def time_step_rank(c: Config, name: str) -> Num:
    """The rank of Mamba's time step: given, or ``"auto"``, a sixteenth of the hidden size, rounded up."""
    rank: Num = ceil_div(c.size("hidden_size"), 16) if c.get(name) == "auto" else c.size(name)
    return rank


def mamba2_head_dim(c: Config, n_heads: str, head_dim: str, expand: str) -> Num:
    """The width of a Mamba-2 head: given, or ``"auto"``. Raises InvalidModel where heads do not fill the channels."""
    heads, channels = c.number(n_heads), c.number(expand) * c.number("hidden_size")
    auto = c.get(head_dim) in (None, "auto")
    if channels % heads or (not auto and heads * c.number(head_dim) != channels):
        raise InvalidModel(
            f"{c.path(n_heads)} {heads} of {c.path(head_dim)} {c.get(head_dim)} do not fill {channels} channels",
            f"{n_heads}·{head_dim} is {expand}·hidden_size",
        )
    width: Num = divide(c.size(expand) * c.size("hidden_size"), c.size(n_heads)) if auto else c.size(head_dim)
    return width


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


MAMBA = {
    "vocab_size": 50280,
    "hidden_size": 768,
    "state_size": 16,
    "num_hidden_layers": 32,
    "expand": 2,
    "conv_kernel": 4,
    "use_bias": False,
    "use_conv_bias": True,
    "hidden_act": "silu",
    "time_step_rank": "auto",
    "tie_word_embeddings": True,
}


@family("falcon_mamba", architecture="FalconMambaForCausalLM", heads=HEADS, **MAMBA)
@family("mamba", architecture="MambaForCausalLM", heads=HEADS, **MAMBA)
def mamba(c: Config, run: Workload) -> Component:
    """Mamba (arXiv 2312.00752). ``intermediate_size`` rules over ``expand``; Falcon Mamba's norms have no weights."""
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
    )
    parts = (norm("norm", "rmsnorm", h, stream.tokens), mixer("mixer", stream))
    return backbone(c, run, layer("layers", parts, stream.tokens * h, copies=c.size("num_hidden_layers")))


@family(
    "mamba2",
    architecture="Mamba2ForCausalLM",
    heads=HEADS,
    num_heads=128,
    head_dim=64,
    vocab_size=32768,
    hidden_size=4096,
    state_size=128,
    num_hidden_layers=64,
    expand=2,
    conv_kernel=4,
    n_groups=8,
    use_bias=False,
    use_conv_bias=True,
    hidden_act="silu",
    tie_word_embeddings=False,
)
def mamba2(c: Config, run: Workload) -> Component:
    """Mamba-2 (arXiv 2405.21060)."""
    h, stream = c.size("hidden_size"), run.target
    mixer = Mamba2(
        h,
        c.size("num_heads"),
        mamba2_head_dim(c, "num_heads", "head_dim", "expand"),
        c.size("expand") * h,
        c.size("state_size"),
        c.size("n_groups"),
        c.size("conv_kernel"),
        c.word("hidden_act"),
        bias=c.flag("use_bias"),
        conv_bias=c.flag("use_conv_bias"),
    )
    parts = (norm("norm", "rmsnorm", h, stream.tokens), mixer("mixer", stream))
    return backbone(c, run, layer("layers", parts, stream.tokens * h, copies=c.size("num_hidden_layers")))
