"""X-MOD: RoBERTa with a small network in each layer for each language."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, floor_div
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.embeddings import TOKENS
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.layers import PostNorm
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import dropout, residual
from tfcalc.ops.select import index, put
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import encoders
from tfcalc.zoo.blocks.encoders import FIRST_TOKEN, POST_NORM, ROBERTA_TOPS
from tfcalc.zoo.blocks.layers import stack


class LanguageAdapter(FeedForward):
    """A narrow network; the text is in its language, or not (``read``)."""

    kind = "adapter"

    read: bool = True

    @property
    def active(self) -> Num | None:
        """Number of these that run for a token: 1 if it is ``read``, else 0."""
        return 1 if self.read else 0


class LanguageLayer(PostNorm):
    """Sub-layers with a norm behind the sum, or before each (``first``); what comes last goes through an adapter.

    That reads a norm of its own, or the last one again (``reuses``), and is added to what was before that norm or
    behind it (``adds_normed``).

    Source: Pfeiffer et al. 2022 (arXiv 2205.06266), section 3.
    """

    first: bool = False
    adapters: tuple[LanguageAdapter, ...] = ()
    adapter_norm: Norm | None = None
    reuses: bool = False
    adds_normed: bool = False

    @property
    def parts(self) -> Iterator[Module]:
        """The adapters last."""
        yield from super().parts
        if self.adapter_norm is not None:
            yield self.adapter_norm
        yield from self.adapters

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another, the adapters behind the last."""
        for norm, sub in self.running(ctx):
            made = self.dropping(sub, sub(norm(x, ctx) if self.first else x, ctx), ctx)
            x = residual(x, made, sub.name)
            x = self._adapted(x, ctx) if sub is self.sublayers[-1] else x
            x = x if self.first else norm(x, ctx)
        return x

    def _adapted(self, x: Tensor, ctx: Context) -> Tensor:
        norm = self.adapter_norm or (self.norms[-1] if self.reuses else None)
        normed = x if norm is None else norm(x, ctx)
        kept = normed if self.adds_normed else x
        for each in self.adapters:
            if each.read:
                mask = x.trace.new(x.shape[:1], "bool", "language")
                made = put(each(index(normed, mask, x.shape), ctx), mask)
        if self.dropped and ctx.drops:
            made = dropout(made, "adapter_dropout")
        return residual(kept, made, "adapter")


def adapters(c: Config) -> Iterator[LanguageAdapter]:
    """Adapters, one for each of ``languages``, of which a text goes through its own."""
    h, languages = c.size("hidden_size"), c.words("languages", None, some=True)
    narrow, act = floor_div(h, c.number("adapter_reduction_factor")), c.word("hidden_act")
    for place, language in enumerate(dict.fromkeys(languages)):
        maps = Linear("dense1", h, narrow, "1", True), Linear("dense2", narrow, h, "2", True)
        yield LanguageAdapter(f"output.adapter_modules.{language}", *maps, act, read=not place)


@family("xmod", heads=ROBERTA_TOPS)
def xmod(c: Config) -> Module:
    """Pfeiffer et al. 2022 (arXiv 2205.06266): with ``pre_norm``, a norm after the last layer too."""
    cross, first = encoders.cross_attention(c), c.flag("pre_norm")
    sublayers = (encoders.attention(c), *([cross] if cross else []), encoders.network(c))
    names = POST_NORM if cross else POST_NORM[::2]
    layer = LanguageLayer(
        "layer",
        sublayers,
        tuple(encoders.norm(c, name) for name in names),
        encoders.drops(c),
        first=first,
        adapters=tuple(adapters(c)),
        adapter_norm=encoders.norm(c, "output.adapter_layer_norm") if c.flag("adapter_layer_norm") else None,
        reuses=c.flag("adapter_reuse_layer_norm"),
        adds_normed=c.flag("ln_before_adapter"),
    )
    return Encoder(
        "roberta",
        encoders.embeddings(c, *encoders.with_tables(c, TOKENS)),
        (),
        Layers("encoder", (), stack(c, layer), encoders.norm(c, "LayerNorm") if first else None),
        pooler=encoders.pooler(c, FIRST_TOKEN),
        pools=c.head in encoders.PAIRED,
    )
