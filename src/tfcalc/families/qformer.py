"""The Q-Former: a few trained queries that read an encoder's vectors, in the layers of BERT."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import Attention, FeedForward, layer, stack
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import linear, norm
from tfcalc.workload import Sequences, Workload


@family("blip_2_qformer", architecture="Blip2QFormerModel", heads={"Model": bare})
def qformer(c: Config, run: Workload) -> Component:
    """Li et al. 2023 (BLIP-2, arXiv 2301.12597): some layers read the encoder; texts have networks of their own."""
    return reader(c, run)


def reader(c: Config, run: Workload, *, same_queries: bool = False) -> Component:
    """The same; ``same_queries`` for all that is read are one batch up to the first layer's cross-attention."""
    h, stream, depth = c.size("hidden_size"), run.target, c.number("num_hidden_layers")
    step, asked = c.number("cross_attention_frequency"), stream._replace(batch=1) if same_queries else stream

    def make(kind: tuple[bool, bool]) -> Component:
        reads, first = kind
        return layer("layer", _layer(c, run, asked if first else stream, reads=reads), stream.tokens * h)

    layers = stack(
        "layer",
        [(place % step == 0, same_queries and place == 0) for place in range(depth)],
        c.size("num_hidden_layers"),
        make,
    )
    return Component(
        "qformer",
        "encoder",
        parts=(
            norm("layernorm", "layernorm", h, asked.tokens),
            Component("encoder", "encoder", parts=tuple(layers)),
        ),
    )


def _layer(c: Config, run: Workload, asked: Sequences, *, reads: bool) -> Iterator[Component]:
    yield from _attention(c, run, "attention", asked, asked, asked)
    if reads:
        width = c.size("encoder_hidden_size")
        yield from _attention(c, run, "crossattention", asked, run.target, run.source, key_width=width)
    yield from _network(c, run, "intermediate_query", "output_query")
    if c.flag("use_qformer_text_input"):
        # Texts go through these; a workload of queries alone does not.
        for part in _network(c, run, "intermediate", "output"):
            yield part._replace(passes=0)


def _attention(
    c: Config,
    run: Workload,
    name: str,
    asked: Sequences,
    answered: Sequences,
    keys: Sequences,
    key_width: Num | None = None,
) -> Iterator[Component]:
    """Queries made of those that are ``asked``, each of which is ``answered`` for every sequence of keys."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    block = Attention(
        h,
        a,
        a,
        d,
        d,
        bias=True,
        key_width=key_width,
        value_width=key_width,
        names=("attention.query", "attention.key", "attention.value", "output.dense"),
    )
    made = block(name, answered, keys, run, causal=False)
    query = linear("attention.query", h, h, asked.tokens, letter="Q")
    yield made._replace(parts=(query, *made.parts[1:]))
    yield norm(f"{name}.output.LayerNorm", "layernorm", h, answered.tokens)


def _network(c: Config, run: Workload, inward: str, outward: str) -> Iterator[Component]:
    h = c.size("hidden_size")
    names = (f"{inward}.dense", f"{outward}.dense")
    ffn = FeedForward(h, c.size("intermediate_size"), c.word("hidden_act"), bias=True, names=names)
    yield ffn(f"({outward} ffn)", run.target, run)
    yield norm(f"{outward}.LayerNorm", "layernorm", h, run.target.tokens)
