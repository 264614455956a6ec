"""The Q-Former: a few trained queries that read an encoder's vectors, in the layers of BERT."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import Attention, FeedForward, layer, stack
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import norm
from tfcalc.workload import Sequences, Workload


@family(
    "blip_2_qformer",
    architecture="Blip2QFormerModel",
    heads={"Model": bare},
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    hidden_act="gelu",
    cross_attention_frequency=2,
    encoder_hidden_size=1408,
    use_qformer_text_input=False,
)
def qformer(c: Config, run: Workload) -> Component:
    """Li et al. 2023 (BLIP-2, arXiv 2301.12597): some layers read the encoder; texts have networks of their own."""
    h, stream, depth = c.size("hidden_size"), run.target, c.number("num_hidden_layers")
    step = c.number("cross_attention_frequency")
    layers = stack(
        "layer",
        [place % step == 0 for place in range(depth)],
        c.size("num_hidden_layers"),
        lambda reads: layer("layer", _layer(c, run, reads=reads), stream.tokens * h),
    )
    return Component(
        "qformer",
        "encoder",
        parts=(
            norm("layernorm", "layernorm", h, stream.tokens),
            Component("encoder", "encoder", parts=tuple(layers)),
        ),
    )


def _layer(c: Config, run: Workload, *, reads: bool) -> Iterator[Component]:
    stream = run.target
    yield from _attention(c, run, "attention", stream)
    if reads:
        yield from _attention(c, run, "crossattention", run.source, key_width=c.size("encoder_hidden_size"))
    yield from _network(c, run, "intermediate_query", "output_query")
    if c.flag("use_qformer_text_input"):
        # Texts go through these; a workload of queries alone does not.
        for part in _network(c, run, "intermediate", "output"):
            yield part._replace(passes=0)


def _attention(
    c: Config, run: Workload, name: str, keys: Sequences, key_width: Num | None = None
) -> Iterator[Component]:
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
    yield block(name, run.target, keys, run, causal=False)
    yield norm(f"{name}.output.LayerNorm", "layernorm", h, run.target.tokens)


def _network(c: Config, run: Workload, inward: str, outward: str) -> Iterator[Component]:
    h = c.size("hidden_size")
    names = (f"{inward}.dense", f"{outward}.dense")
    ffn = FeedForward(h, c.size("intermediate_size"), c.word("hidden_act"), bias=True, names=names)
    yield ffn(f"({outward} ffn)", run.target, run)
    yield norm(f"{outward}.LayerNorm", "layernorm", h, run.target.tokens)
