"""T5 and its kin: positions are a bias of the attention's scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from tfcalc.blocks import Attention, layer, stack
from tfcalc.blocks import FeedForward as FeedForwardTree
from tfcalc.blocks.local_attention import LocalAttention
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.configs.heads import bare, output
from tfcalc.core.component import Component
from tfcalc.families import t5_kit as kit
from tfcalc.families.bart import sum_last
from tfcalc.leaves import embedding, norm, parameter
from tfcalc.nn.basic import Linear
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.mixture import Router
from tfcalc.nn.module import Module
from tfcalc.nn.switch import Networks, Switch
from tfcalc.workload import Sequences, Workload

ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "head_dim": "d_kv",
}
NAMES = ("q", "k", "v", "o")
ENCODER_ONLY = ("EncoderModel", "ForTokenClassification")
Network = Callable[[Config, Workload, Sequences], Component]
Mixer = Callable[..., Component]


def dense(c: Config, run: Workload, stream: Sequences) -> Component:
    """The feed-forward network; ``feed_forward_proj`` says its activation, and with ``gated-`` before it its gate."""
    gate, _, kind = c.word("feed_forward_proj").rpartition("-")
    gated = c.flag("is_gated_act") if c.has("is_gated_act") else gate == "gated"
    kind = "gelu_new" if (gate, kind) == ("gated", "gelu") else kind
    names = ("wi_0", "wi_1", "wo") if gated else ("wi", "wo")
    made = FeedForwardTree(c.size("d_model"), c.size("d_ff"), kind, names=names, gated=gated)
    return made("DenseReluDense", stream, run)


def relative_bias(c: Config, name: str = "relative_attention_bias") -> Component:
    """What is added to a score, by head and by the distance of the two tokens, in buckets."""
    table = parameter(name, c.size("relative_attention_num_buckets"), c.size("num_heads"))
    return table._replace(kind="position")


def attention(
    c: Config,
    run: Workload,
    name: str,
    queries: Sequences,
    keys: Sequences,
    *within: Component,
    causal: bool = False,
) -> Component:
    """Without biases; the heads together need not be as wide as the model."""
    h, a, d = c.size("d_model"), c.size("num_heads"), c.size("d_kv")
    block = Attention(h, a, a, d, d, names=NAMES, within=within)
    return block(name, queries, keys, run, causal=causal)


def looking_around(c: Config, run: Workload, *within: Component) -> Component:
    """The encoder's self-attention."""
    return attention(c, run, "SelfAttention", run.source, run.source, *within)


class Kin(NamedTuple):
    """What differs among them.

    ``mixer`` is the encoder's self-attention, and ``tables`` are those of its first layer that all layers add to their
    scores. ``ffn`` makes a layer's network, or ``experts``
    where ``sparse`` says so, for each layer of a stack of so many. ``tied`` tables of words are one, whatever
    ``tie_word_embeddings`` says of the output.
    """

    mixer: Mixer = looking_around
    tables: tuple[str, ...] = ("SelfAttention.relative_attention_bias",)
    ffn: Network = dense
    experts: Network = dense
    sparse: Callable[[Config, str, int], list[bool]] | None = None
    tied: bool = True


def block(c: Config, run: Workload, stream: Sequences, *sublayers: Component) -> Component:
    """A layer: each of its sub-layers has a norm beside it."""
    h = c.size("d_model")
    parts: list[Component] = []
    for place, each in enumerate(sublayers):
        parts.append(each._replace(name=f"layer.{place}.{each.name}"))
        parts.append(norm(f"layer.{place}.layer_norm", "rmsnorm", h, stream.tokens))
    return layer("block", parts, stream.tokens * h, ends_with_sum=sum_last(c, run, name="dropout_rate"))


def encoder(c: Config, run: Workload, kin: Kin) -> Component:
    """Its layers attend both ways."""
    return _half(c, run, "encoder", run.source, kin, "num_layers", kin.mixer(c, run), tables=kin.tables)


def decoder(c: Config, run: Workload, kin: Kin) -> Component:
    """Its layers look back, and at what the encoder made. They are as many as the encoder's unless told otherwise."""
    stream, depth = run.target, "num_layers" if c.get("num_decoder_layers") is None else "num_decoder_layers"
    mixer = attention(c, run, "SelfAttention", stream, stream, causal=True)
    reader = attention(c, run, "EncDecAttention", stream, run.source)
    return _half(c, run, "decoder", stream, kin, depth, mixer, reader, tables=Kin().tables)


def _half(
    c: Config,
    run: Workload,
    name: str,
    stream: Sequences,
    kin: Kin,
    depth: str,
    *mixers: Component,
    tables: tuple[str, ...],
) -> Component:
    h, tied_to = c.size("d_model"), "shared" if kin.tied or c.flag("tie_word_embeddings") else None
    count = c.number(depth)
    blocks = stack(
        "block",
        kin.sparse(c, name, count) if kin.sparse else [False] * count,
        c.size(depth),
        lambda sparse: block(c, run, stream, *mixers, (kin.experts if sparse else kin.ffn)(c, run, stream)),
    )
    return Component(
        name,
        name,
        parts=(
            embedding("embed_tokens", c.size("vocab_size"), h, stream.tokens, tied_to=tied_to),
            *(relative_bias(c, f"block[0].layer.0.{table}") for table in tables),
            *blocks,
            norm("final_layer_norm", "rmsnorm", h, stream.tokens),
        ),
    )


def seq2seq(c: Config, run: Workload, kin: Kin) -> Component:
    """Shared table of words, encoder, and decoder where the head needs one."""
    table = embedding("shared", c.size("vocab_size"), c.size("d_model"), 0)
    if c.head in ENCODER_ONLY:
        return Component("transformer", "encoder-decoder", parts=(table, encoder(c, run.by_itself, kin)))
    return Component("transformer", "encoder-decoder", parts=(table, encoder(c, run, kin), decoder(c, run, kin)))


def generation(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Logits by the table of words, or (T5 1.1 and later) by a matrix of their own."""
    yield from base.parts
    yield output("lm_head", c.size("d_model"), c.size("vocab_size"), run, tied=c.flag("tie_word_embeddings"))


HEADS: dict[str, Head] = {"Model": bare, "EncoderModel": bare, "ForConditionalGeneration": generation}


@family(
    "t5",
    architecture="T5ForConditionalGeneration",
    heads=kit.HEADS,
    aliases=ALIASES,
    tie_word_embeddings=True,  # forced by __post_init__
)
def t5(c: Config) -> Module:
    """Raffel et al. 2019 (arXiv 1910.10683); 1.1 and Flan-T5 have a gate, and an output matrix of their own.

    transformers 5 ties that matrix all the same, but loads the published one: ``tie_word_embeddings`` decides here.
    """
    return kit.seq2seq(c)


@family("mt5", architecture="MT5ForConditionalGeneration", heads=kit.UNSCALED, aliases=ALIASES)
def mt5(c: Config) -> Module:
    """Xue et al. 2020 (arXiv 2010.11934): T5 1.1 with more words."""
    return kit.seq2seq(c)


@family(
    "umt5",
    architecture="UMT5ForConditionalGeneration",
    heads=kit.ALWAYS,
    aliases=ALIASES,
    tie_word_embeddings=True,  # forced by __post_init__
)
def umt5(c: Config) -> Module:
    """Chung et al. 2023 (arXiv 2304.09151): a table of relative positions in each layer."""
    return kit.seq2seq(c, everywhere=True)


@family("longt5", architecture="LongT5ForConditionalGeneration", heads=HEADS, aliases=ALIASES)
def longt5(c: Config, run: Workload) -> Component:
    """Guo et al. 2021 (arXiv 2112.07916): the encoder sees what is near, and summaries of blocks of the rest."""
    if c.word("encoder_attention_type", ("local", "transient-global")) == "local":
        return seq2seq(c, run, Kin(mixer=_local, tables=("LocalSelfAttention.relative_attention_bias",)))
    name = "TransientGlobalSelfAttention"
    tables = (f"{name}.relative_attention_bias", f"{name}.global_relative_attention_bias")
    return seq2seq(c, run, Kin(mixer=partial(_local, name=name, summarised="global_block_size"), tables=tables))


def _local(c: Config, run: Workload, *, name: str = "LocalSelfAttention", summarised: str = "") -> Component:
    """A block is the token itself and as many as ``local_radius`` says."""
    block = LocalAttention(
        c.size("d_model"),
        c.size("num_heads"),
        c.size("d_kv"),
        c.number("local_radius") + 1,
        NAMES,
        c.number(summarised) if summarised else None,
    )
    return block(name, run.source, run)


@family(
    "switch_transformers",
    architecture="SwitchTransformersForConditionalGeneration",
    heads=kit.UNSCALED | {"ForConditionalGeneration": kit.generation(scaled=True)},
    aliases={name: own for name, own in ALIASES.items() if name != "head_dim"},
)
def switch_transformers(c: Config) -> Module:
    """Fedus et al. 2021 (arXiv 2101.03961): every so many layers, one of many networks for each token."""
    return kit.seq2seq(c, _sometimes_experts, tied=c.flag("tie_word_embeddings"))


def _sometimes_experts(c: Config, side: str) -> list[Module]:
    """The second layer has experts, and each that is ``step`` after it."""
    h, f, kind, code = c.size("d_model"), c.size("d_ff"), c.word("dense_act_fn"), kit.kept_as(c)
    up, down, count = Linear("wi", h, f, "1"), Linear("wo", f, h, "2"), c.size("num_experts")
    experts = Networks("experts", up, down, kind, count=count, **code)
    router = Router("router.classifier", h, count, bias=c.flag("router_bias"), logits="copies", format="float32")
    switch = Switch("mlp", router.but(result="stream"), experts, bool(c.get("router_jitter_noise")))
    dense, depth = FeedForward("mlp", up, down, kind, **code), c.number(kit.depth(c, side))
    some = c.number(f"num_sparse_{side}_layers", least=0)
    step = (
        c.number(f"{side}_sparse_step", least=0) if c.has(f"{side}_sparse_step") else depth // some if some else depth
    )
    return [switch if step == 1 or (step > 0 and place % step == 1) else dense for place in range(depth)]
