"""The text of Molmo 2."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.basic import Embedding
from tfcalc.nn.layers import NormAfterSublayer, PreNorm
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders


@family("molmo2_text", heads={"Model": tops.bare})
def molmo2_text(c: Config) -> Module:
    """Molmo 2 (arXiv 2601.10611): queries and keys normed as in Qwen3 or as in OLMo 2, and words for what is seen.

    Norms come before the sub-layers, or after them (``norm_after``).
    """
    whole = c.word("qk_norm_type", ("qwen3", "olmo")) == "olmo"
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), output_bias=False, qk_norms="rmsnorm", whole=whole)
    made = decoders.decoder(
        c, decoders.layer(c, mixer, decoders.gated(c), of=NormAfterSublayer if c.flag("norm_after") else PreNorm)
    )
    rows = c.size("vocab_size") + c.size("additional_vocab_size", least=0)
    return made.replace(table=Embedding("embed_tokens", rows, c.size("hidden_size")))
