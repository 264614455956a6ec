"""OLMo, and EXAONE 4 that norms in the same places."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.families.llama import attention, decoder, gated, qk_norms, uniform
from tfcalc.families.windows import by_window, windows
from tfcalc.workload import Workload

POST_NORM = ("post_attention_layernorm", "post_feedforward_layernorm")


@family("olmo", architecture="OlmoForCausalLM", heads=CAUSAL_LM)
def olmo(c: Config, run: Workload) -> Component:
    """OLMo (arXiv 2402.00838): norms without any weight."""
    mixer, plain = attention(c, run, bias=c.flag("attention_bias")), "layernorm-plain"
    return decoder(c, run, uniform(c, run, mixer, gated(c, run), norm=plain), final=plain)


@family("olmo2", architecture="Olmo2ForCausalLM", heads=CAUSAL_LM)
@family("olmo3", architecture="Olmo3ForCausalLM", heads=CAUSAL_LM)
def olmo2(c: Config, run: Workload) -> Component:
    """OLMo 2 (arXiv 2501.00656): norms after the sub-layers, and of all queries and all keys together.

    OLMo 3 (arXiv 2512.13961) has windows in all layers but every fourth.
    """

    def one(window: int | None) -> Component:
        normed = qk_norms("rmsnorm", c, run, whole=True)
        mixer = attention(c, run, bias=c.flag("attention_bias"), within=normed, window=window)
        return uniform(c, run, mixer, gated(c, run), names=POST_NORM, ends_with_sum=False)

    return decoder(c, run, *by_window(c, run, windows(c, lambda place: (place + 1) % 4 != 0), one))


@family("exaone4", architecture="Exaone4ForCausalLM", heads=CAUSAL_LM)
def exaone4(c: Config, run: Workload) -> Component:
    """EXAONE 4.0 (arXiv 2507.11407): norms after the sub-layers, and of each head's query and key."""

    def one(window: int | None) -> Component:
        mixer = attention(c, run, within=qk_norms("rmsnorm", c, run), window=window)
        return uniform(c, run, mixer, gated(c, run), names=POST_NORM, ends_with_sum=False)

    return decoder(c, run, *by_window(c, run, patterned(c), one))


def patterned(c: Config) -> list[int | None]:
    """EXAONE's windows: in all layers but every Nth; 0, or a word such as ``LLLG``, goes with ``layer_types``."""
    given = c.get("sliding_window_pattern")
    every = given if isinstance(given, int) and given else None
    return windows(c, lambda place: every is not None and (place + 1) % every != 0)
