"""OLMo, and EXAONE 4 that norms in the same places."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.layers import NormAfterSublayer
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.decoders import POST_NORM
from tfcalc.zoo.blocks.layers import full_and_sliding, no_rope_if_global, windows


@family("olmo")
def olmo(c: Config) -> Module:
    """OLMo (arXiv 2402.00838): norms without any weight; queries, keys and values may be cut off."""
    mixer, plain = decoders.attention(c, bias=c.flag("attention_bias")), "layernorm-plain"
    mixer = mixer.replace(rope=decoders.rope(c, angles="float32"), clipped=c.get("clip_qkv") is not None)
    return decoders.decoder(
        c, decoders.layer(c, mixer, decoders.gated(c), norm=plain, code="float32"), norm=plain, code="float32"
    )


@family("olmo2", "olmo3")
def olmo2(c: Config) -> Module:
    """OLMo 2 (arXiv 2501.00656): norms after the sub-layers, and of all queries and all keys together.

    OLMo 3 (arXiv 2512.13961) has windows in all layers but every fourth.
    """
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", whole=True, code="olmo")
    mixer = mixer.replace(rope=decoders.rope(c, angles="float32"))
    layer = decoders.layer(c, mixer, decoders.gated(c), of=NormAfterSublayer, names=POST_NORM, code="olmo")
    layers = decoders.with_windows(layer, windows(c, lambda place: (place + 1) % 4 != 0))
    return decoders.decoder(c, layers, code="olmo", masks=full_and_sliding(c))


@family("exaone4")
def exaone4(c: Config) -> Module:
    """EXAONE 4.0 (arXiv 2507.11407): norms after the sub-layers, and of each head's query and key.

    Where some layers see a window, the others know no positions.
    """
    layer = decoders.layer(
        c, decoders.attention(c, qk_norms="rmsnorm"), decoders.gated(c), of=NormAfterSublayer, names=POST_NORM
    )
    return decoders.decoder(c, decoders.with_windows(layer, patterned(c), **no_rope_if_global(c)), masks=(None,))


def patterned(c: Config) -> list[int | None]:
    """EXAONE's windows: in all layers but every Nth; 0, or a word such as ``LLLG``, goes with ``layer_types``."""
    given = c.get("sliding_window_pattern")
    every = given if isinstance(given, int) and given else None
    return windows(c, lambda place: every is not None and (place + 1) % every != 0)
