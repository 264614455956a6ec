"""Gemma: Llama with a head width of its own, a tied head, and norms on both sides of each sub-layer."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.families.llama import SANDWICH, attention, decoder, gated, qk_norms, uniform
from tfcalc.families.windows import by_window, windows
from tfcalc.workload import Workload


@family("gemma", architecture="GemmaForCausalLM", heads=CAUSAL_LM)
def gemma(c: Config, run: Workload) -> Component:
    """Gemma (arXiv 2403.08295): Llama with GeGLU and a tied head."""
    return decoder(c, run, uniform(c, run, attention(c, run, bias=c.flag("attention_bias")), gated(c, run)))


@family("gemma2", architecture="Gemma2ForCausalLM", heads=CAUSAL_LM)
def gemma2(c: Config, run: Workload) -> Component:
    """Gemma 2 (arXiv 2408.00118): four norms a layer; every other layer sees a window."""

    def one(window: int | None) -> Component:
        mixer = attention(c, run, bias=c.flag("attention_bias"), window=window)
        return uniform(c, run, mixer, gated(c, run, act="hidden_activation"), names=SANDWICH, ends_with_sum=False)

    return decoder(c, run, *by_window(c, run, windows(c, lambda place: place % 2 == 0), one))


@family("vaultgemma", architecture="VaultGemmaForCausalLM", heads=CAUSAL_LM)
def vaultgemma(c: Config, run: Workload) -> Component:
    """VaultGemma (arXiv 2510.15001): Gemma 2 without the norms after the sub-layers."""
    names = ("input_layernorm", "pre_feedforward_layernorm")

    def one(window: int | None) -> Component:
        mixer = attention(c, run, bias=c.flag("attention_bias"), window=window)
        return uniform(c, run, mixer, gated(c, run, act="hidden_activation"), names=names)

    return decoder(c, run, *by_window(c, run, windows(c, lambda place: place % 2 == 0), one))


@family(
    "gemma3_text",
    architecture="Gemma3TextModel",
    heads=CAUSAL_LM,
    sliding_window_pattern=6,  # by __post_init__, for older configs
)
def gemma3(c: Config, run: Workload) -> Component:
    """Gemma 3 (arXiv 2503.19786): four norms a layer, and a norm of each head's query and key.

    All layers but every sixth see a window.
    """
    every, causal = c.number("sliding_window_pattern"), not c.flag("use_bidirectional_attention")

    def one(window: int | None) -> Component:
        bias, normed = c.flag("attention_bias"), qk_norms("rmsnorm", c, run)
        mixer = attention(c, run, bias=bias, within=normed, window=window, causal=causal)
        return uniform(c, run, mixer, gated(c, run, act="hidden_activation"), names=SANDWICH, ends_with_sum=False)

    return decoder(c, run, *by_window(c, run, windows(c, lambda place: (place + 1) % every != 0), one))
