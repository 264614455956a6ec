"""Granite's mixtures of experts: Mixtral's with multipliers that cost nothing, and perhaps a shared network beside."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import FeedForward
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.families.llama import attention, decoder, uniform
from tfcalc.families.mixtral import mixture, sinks
from tfcalc.families.windows import by_window, windows
from tfcalc.workload import Workload


def shared_mlp(c: Config, run: Workload) -> Iterator[Component]:
    """The network that every token goes through beside its experts; none where it is 0 wide."""
    if c.number("shared_intermediate_size", least=0):
        block = FeedForward(
            c.size("hidden_size"),
            c.size("shared_intermediate_size"),
            c.word("hidden_act"),
            names=("input_linear", "output_linear"),
            gated=True,
        )
        yield block("shared_mlp", run.target, run)


def granite(c: Config, run: Workload, *shared: Component) -> Component:
    """Layers of attention, experts, and what is ``shared`` by all tokens."""
    return decoder(c, run, granite_layers(c, run, *shared))


def granite_layers(
    c: Config, run: Workload, *shared: Component, within: tuple[Component, ...] = (), window: int | None = None
) -> Component:
    """Layers whose attention has parts ``within`` and may see a ``window``."""
    mixer = attention(c, run, bias=c.flag("attention_bias"), within=within, window=window)
    experts = mixture(c, run, name="block_sparse_moe", router="router")
    return uniform(c, run, mixer, experts, *shared)


@family("granitemoe", architecture="GraniteMoeForCausalLM", heads=CAUSAL_LM)
def granitemoe(c: Config, run: Workload) -> Component:
    """Granite 3.0 (IBM 2024, technical report); transformers' GraniteMoeModel."""
    return granite(c, run)


@family("granitemoeshared", architecture="GraniteMoeSharedForCausalLM", heads=CAUSAL_LM)
def granitemoeshared(c: Config, run: Workload) -> Component:
    """Granite with a shared network (transformers' GraniteMoeSharedModel)."""
    return granite(c, run, *shared_mlp(c, run))


@family("granitemoe_swa", architecture="GraniteMoeSWAForCausalLM", heads=CAUSAL_LM)
def granitemoe_swa(c: Config, run: Workload) -> Component:
    """Granite with sliding windows (transformers' GraniteMoeSWAModel): every head has a sink, in full attention too."""

    def one(window: int | None) -> Component:
        return granite_layers(c, run, *shared_mlp(c, run), within=(sinks(c),), window=window)

    return decoder(c, run, *by_window(c, run, windows(c, lambda place: place % 4 > 0), one))
