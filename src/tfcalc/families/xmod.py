"""X-MOD: RoBERTa with a small network in each layer for each language."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import floor_div
from tfcalc.families import bert_kit as kit
from tfcalc.families.bert_kit import FIRST_TOKEN, POST_NORM
from tfcalc.families.bert_tops import ROBERTA_TOPS
from tfcalc.families.layers import stack
from tfcalc.nn.basic import Linear
from tfcalc.nn.embeddings import TOKENS
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.language import LanguageAdapter, LanguageLayer
from tfcalc.nn.module import Module


def adapters(c: Config) -> Iterator[LanguageAdapter]:
    """One for each of ``languages``, of which a text goes through its own."""
    h, languages = c.size("hidden_size"), c.words("languages", None, some=True)
    narrow, act = floor_div(h, c.number("adapter_reduction_factor")), c.word("hidden_act")
    for place, language in enumerate(dict.fromkeys(languages)):
        maps = Linear("dense1", h, narrow, "1", True), Linear("dense2", narrow, h, "2", True)
        yield LanguageAdapter(f"output.adapter_modules.{language}", *maps, act, read=not place)


@family("xmod", heads=ROBERTA_TOPS)
def xmod(c: Config) -> Module:
    """Pfeiffer et al. 2022 (arXiv 2205.06266): with ``pre_norm``, a norm after the last layer too."""
    cross, first = kit.cross_attention(c), c.flag("pre_norm")
    subs = (kit.attention(c), *([cross] if cross else []), kit.network(c))
    names = POST_NORM if cross else POST_NORM[::2]
    layer = LanguageLayer(
        "layer",
        subs,
        tuple(kit.norm(c, name) for name in names),
        kit.drops(c),
        first=first,
        adapters=tuple(adapters(c)),
        adapter_norm=kit.norm(c, "output.adapter_layer_norm") if c.flag("adapter_layer_norm") else None,
        reuses=c.flag("adapter_reuse_layer_norm"),
        adds_normed=c.flag("ln_before_adapter"),
    )
    return Encoder(
        "roberta",
        kit.embeddings(c, *kit.with_tables(c, TOKENS)),
        (),
        Layers("encoder", (), stack(c, layer), kit.norm(c, "LayerNorm") if first else None),
        pooler=kit.pooler(c, FIRST_TOKEN),
        pools=c.head in kit.PAIRED,
    )
