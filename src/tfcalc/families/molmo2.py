"""The text of Molmo 2."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.families.llama import attention, decoder, gated, qk_norms, uniform
from tfcalc.leaves import embedding
from tfcalc.workload import Workload


@family("molmo2_text", architecture="Molmo2TextModel", heads={"Model": bare}, aliases={"qkv_bias": "attention_bias"})
def molmo2_text(c: Config, run: Workload) -> Component:
    """Molmo 2 (arXiv 2601.10611): queries and keys normed as in Qwen3 or as in OLMo 2, and words for what is seen.

    Where a layer's norms stand (``norm_after``) does not change how many there are, but what is saved last.
    """
    whole = c.word("qk_norm_type", ("qwen3", "olmo")) == "olmo"
    within = qk_norms("rmsnorm", c, run, whole=whole)
    mixer = attention(c, run, bias=c.flag("attention_bias"), output_bias=False, within=within)
    base = decoder(c, run, uniform(c, run, mixer, gated(c, run), ends_with_sum=not c.flag("norm_after")))
    rows = c.size("vocab_size") + c.size("additional_vocab_size", least=0)
    words = embedding("embed_tokens", rows, c.size("hidden_size"), run.target.tokens)
    return base._replace(parts=(words, *base.parts[1:]))
