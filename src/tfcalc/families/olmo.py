"""OLMo, and EXAONE 4 that norms in the same places."""

from __future__ import annotations

from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.families.llama import LLAMA, attention, decoder, gated, qk_norms, uniform
from tfcalc.workload import Workload

OLMO: dict[str, Any] = LLAMA | {"vocab_size": 50304}
POST_NORM = ("post_attention_layernorm", "post_feedforward_layernorm")


@family("olmo", architecture="OlmoForCausalLM", heads=CAUSAL_LM, **OLMO)
def olmo(c: Config, run: Workload) -> Component:
    """OLMo (arXiv 2402.00838): norms without any weight."""
    mixer, plain = attention(c, run, bias=c.flag("attention_bias")), "layernorm-plain"
    return decoder(c, run, uniform(c, run, mixer, gated(c, run), norm=plain), final=plain)


@family("olmo2", architecture="Olmo2ForCausalLM", heads=CAUSAL_LM, **OLMO)
@family("olmo3", architecture="Olmo3ForCausalLM", heads=CAUSAL_LM, **OLMO)
def olmo2(c: Config, run: Workload) -> Component:
    """OLMo 2 (arXiv 2501.00656): norms after the sub-layers, and of all queries and all keys together."""
    mixer = attention(c, run, bias=c.flag("attention_bias"), within=qk_norms("rmsnorm", c, run, whole=True))
    return decoder(c, run, uniform(c, run, mixer, gated(c, run), names=POST_NORM))


@family(
    "exaone4",
    architecture="Exaone4ForCausalLM",
    heads=CAUSAL_LM,
    **LLAMA | {"vocab_size": 102400, "intermediate_size": 16384, "num_key_value_heads": 32},
)
def exaone4(c: Config, run: Workload) -> Component:
    """EXAONE 4.0 (arXiv 2507.11407): norms after the sub-layers, and of each head's query and key."""
    mixer = attention(c, run, within=qk_norms("rmsnorm", c, run))
    return decoder(c, run, uniform(c, run, mixer, gated(c, run), names=POST_NORM))
