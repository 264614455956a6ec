"""Trained queries that read what an encoder has made, in layers like BERT's (the Q-Former)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention, CrossAttention
from tfcalc.nn.basic import Norm
from tfcalc.nn.encoder import Layers
from tfcalc.nn.layers import PostNorm
from tfcalc.nn.module import Context, Encoded, Module
from tfcalc.ops.elementwise import dropout, residual
from tfcalc.ops.shapes import expand
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks.encoders import attention, drops, network, norm
from tfcalc.zoo.blocks.layers import LAYERS, one_module_per_kind, stack


class Asking(CrossAttention):
    """Cross-attention whose queries may be one sequence for all that is read: each sequence of keys answers them."""

    def project(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Repeat the queries for each sequence of keys."""
        q, k, v = super().project(x, source, ctx)
        return expand(q, k.shape[0], *q.shape[1:]), k, v


class QueryLayer(PostNorm):
    """Queries see each other, some layers read the memory, and a network follows; what is ``unread`` is for texts.

    The queries may be ``shared``: one sequence for all that is read, until the first attention to it.
    """

    shared: bool = False
    unread: tuple[Module, ...] = ()

    @property
    def apart(self) -> bool:
        """Return whether the queries are shared: such a layer is distinguished even where only one sequence is read."""
        return self.shared

    @property
    def parts(self) -> Iterator[Module]:
        """Parts that run, followed by those that do not."""
        return iter((*super().parts, *self.unread))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        for last, sub in self.running(ctx):
            asks = isinstance(sub, Asking)
            own = ctx if asks else ctx._replace(stream=ctx.stream._replace(batch=x.shape[0]))
            made = self.dropping(sub, sub(x, own), ctx)
            x = last(residual(expand(x, *made.shape), made, sub.name), ctx)
        return x


class QueryReader(Module):
    """A norm of the queries, and layers in which they read the context's ``memory``.

    Source: Li et al. 2023 (BLIP-2, arXiv 2301.12597), section 3.1.
    """

    kind = "encoder"

    norm: Norm
    layers: Layers
    dropped: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the layers' output for the queries' vectors."""
        x = self.norm(x, ctx)
        return self.layers(dropout(x, "embedding_dropout") if self.dropped and ctx.drops else x, ctx)


class Given(Module):
    """A model by itself that is given vectors of this ``width``, one for each token of the stream, and no words.

    What it reads has another width (``read``).
    """

    kind = "model"

    model: Module
    width: Num
    read: Num | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The model's own."""
        return self.model.parts

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the model's output for the vectors that take the place of these token ids."""
        trace, kind, source = x.trace, x.trace.weights_format, ctx.run.source
        # a program is given the memory, which is counted where it is made
        if trace.emits_kernels and self.read is not None:
            memory = trace.given((source.batch, source.length, self.read), kind, "memory")
            ctx = ctx._replace(memory=Encoded(memory, source))
        return self.model.forward(trace.given((*x.shape, self.width), kind, "vectors"), ctx)


NAMES = ("attention.query", "attention.key", "attention.value", "output.dense")


QUERIES, TEXTS = ("intermediate_query", "output_query"), ("intermediate", "output")
"""Where the networks stand that read queries, and those that read texts."""


def reader(c: Config, *, shared: bool = False) -> QueryReader:
    """Q-Former of a config; ``shared`` queries are one batch for all that is read, up to the first cross-attention."""
    step = c.number("cross_attention_frequency")
    kinds = [(place % step == 0, shared and place == 0) for place in range(c.number(LAYERS))]
    layers = stack(c, one_module_per_kind(lambda kind: _query_layer(c, reads=kind[0], shared=kind[1]), kinds))
    return QueryReader("qformer", norm(c, "layernorm"), Layers("encoder", (), layers), drops(c))


def _query_layer(c: Config, *, reads: bool, shared: bool) -> QueryLayer:
    mixers = [attention(c, names=NAMES, causal=False), *([_reading(c)] if reads else [])]
    names = [*(f"{each.name}.output.LayerNorm" for each in mixers), f"{QUERIES[1]}.LayerNorm"]
    unread = (_network(c, *TEXTS), norm(c, f"{TEXTS[1]}.LayerNorm")) if c.flag("use_qformer_text_input") else ()
    sublayers = (*mixers, _network(c, *QUERIES))
    norms = tuple(norm(c, name) for name in names)
    return QueryLayer("layer", sublayers, norms, drops(c), shared=shared, unread=unread)


def _reading(c: Config) -> Attention:
    """Keys and values are made of vectors of the encoder's width."""
    made = attention(c, name="crossattention", names=NAMES, of=Asking)
    q, *others = made.inward
    return made.replace(inward=(q, *(each.replace(fan_in=c.size("encoder_hidden_size")) for each in others)))


def _network(c: Config, inward: str, outward: str) -> Module:
    return network(c, name=f"({outward} ffn)", names=(f"{inward}.dense", f"{outward}.dense"))
