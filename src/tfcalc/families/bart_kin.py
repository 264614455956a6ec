"""BART's further kin: other sizes, prompts, sparse attention, experts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from tfcalc.blocks import Attention, FeedForward, layer, stack
from tfcalc.blocks.experts import MixtureOfExperts
from tfcalc.blocks.global_local_attention import GlobalLocalAttention
from tfcalc.blocks.sparse_blocks import SparseBlocks
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, lm_head, output
from tfcalc.core.component import Component
from tfcalc.core.gradient import reached
from tfcalc.core.number import Num, ceil_div
from tfcalc.core.sharing import without_weights
from tfcalc.families import seq2seq_kit as kit
from tfcalc.families.bart import (
    ALIASES,
    ALONE,
    BART_POSITIONS,
    HEADS,
    NAMES,
    SINES,
    Side,
    Writer,
    attention,
    decoder_layer,
    encoder_layer,
    feed_forward,
    half,
    learned,
    reading,
    seq2seq,
    side,
    writing,
)
from tfcalc.leaves import activation, embedding, linear, norm
from tfcalc.nn.module import Module
from tfcalc.workload import Sequences, Workload

BARE_AND_GENERATION = {"Model": bare, "ForConditionalGeneration": lm_head(width="d_model")}


@family(
    "plbart",
    architecture="PLBartForCausalLM",
    heads={head: build for head, build in kit.HEADS.items() if head != "ForQuestionAnswering"},
    aliases=ALIASES,
)
def plbart(c: Config) -> Module:
    """Ahmad et al. 2021 (arXiv 2103.06333): BART for programs."""
    return kit.seq2seq(c, kit.BART_PLACES, normed=True)


@family("blenderbot-small", architecture="BlenderbotSmallForCausalLM", heads=kit.HEADS, aliases=ALIASES)
def blenderbot_small(c: Config) -> Module:
    """Roller et al. 2020 (arXiv 2004.13637): the smallest is normed as BART is."""
    return kit.seq2seq(c, kit.learned(), normed=True)


@family("mvp", architecture="MvpForCausalLM", heads=HEADS, aliases=ALIASES)
def mvp(c: Config, run: Workload) -> Component:
    """Tang et al. 2022 (arXiv 2206.12131): BART with prompts for each layer's attention.

    In transformers 5 it is only the decoder that gets them: the encoder takes ``use_prompt`` for another argument.
    """
    prompts = c.flag("use_prompt") and c.head != ALONE
    writer: Writer = partial(_prompted, c) if prompts else writing
    return seq2seq(c, run, positions=BART_POSITIONS, norms=("layernorm_embedding",), writer=writer)


def _prompted(c: Config, s: Side, run: Workload, memory: Sequences | None) -> Iterator[Component]:
    """Keys and values for each layer, made of a short table by two maps."""
    rows, inner = c.size("prompt_length"), c.size("prompt_mid_dim")
    yield decoder_layer(s, run, memory, prompt=rows)._replace(copies=s.layers)
    for name in ("self_attn_prompt", "cross_attn_prompt"):
        yield Component(
            name,
            "prompt",
            parts=(
                embedding("prompt_embedding", rows, s.width, rows),
                linear("prompt_trans.0", s.width, inner, rows),
                activation("prompt_trans.1", "gelu", rows * inner),
                linear("prompt_trans.2", inner, 2 * s.layers * s.width, rows),
            ),
        )


@family(
    "bigbird_pegasus",
    architecture="BigBirdPegasusForCausalLM",
    heads=HEADS | {ALONE: lambda c, run, base: _untied(c, run, base)},
    aliases=ALIASES,
)
def bigbird_pegasus(c: Config, run: Workload) -> Component:
    """Zaheer et al. 2020 (arXiv 2007.14062): the encoder's attention is sparse, or full; a flag for biases of all.

    Where it is sparse, long sequences are filled up to whole blocks, and a block sees only a few others.
    """
    sparse = c.word("attention_type", ("block_sparse", "original_full")) == "block_sparse"
    bias, blocks, filled = c.flag("use_bias"), None, run
    if sparse and not run.decoding:
        blocks = SparseBlocks(c.number("block_size"), c.number("num_random_blocks"))
        filled = run.replaced(source_len=blocks.filled(run.size("source_len")))
    return seq2seq(
        c,
        run,
        positions=learned,
        norms=("layernorm_embedding",),
        reader=partial(_sparse, bias=bias, blocks=blocks, length=run.size("source_len")),
        writer=partial(_plain_writer, bias=bias),
        pre_norm=True,
        filled=filled,
    )


def _sparse(s: Side, run: Workload, *, bias: bool, blocks: SparseBlocks | None, length: Num) -> Iterator[Component]:
    """``length`` is that of the sequences before they are filled up."""
    stream, names = run.source, ("self.query", "self.key", "self.value", "output")
    block = Attention(s.width, s.heads, s.heads, s.head_dim, s.head_dim, bias=bias, names=names)
    mixer = block("self_attn", stream, stream, run, causal=False)
    mixer = blocks.instead(mixer, s.heads, run, length) if blocks else mixer
    yield encoder_layer(s, stream, mixer, feed_forward(s, stream, run))._replace(copies=s.layers)


def _plain_writer(s: Side, run: Workload, memory: Sequences | None, *, bias: bool) -> Iterator[Component]:
    yield decoder_layer(s, run, memory, bias=bias)._replace(copies=s.layers)


def _untied(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Its ``ForCausalLM`` is the one that transformers does not tie."""
    yield base
    yield output("lm_head", c.size("d_model"), c.size("vocab_size"), run, tied=False)


@family("pegasus_x", architecture="PegasusXForConditionalGeneration", heads=BARE_AND_GENERATION, aliases=ALIASES)
def pegasus_x(c: Config, run: Workload) -> Component:
    """Phang et al. 2022 (arXiv 2208.04347): blocks of tokens, and global tokens with a norm of their own; no biases."""
    return seq2seq(
        c,
        run,
        positions=partial(SINES, stored="nothing"),
        reader=partial(_global_tokens, c),
        writer=partial(_plain_writer, bias=False),
        pre_norm=True,
    )


def _global_tokens(c: Config, s: Side, run: Workload) -> Iterator[Component]:
    """The last block is filled up; staggered, every other layer's blocks have half a block more at both ends.

    Nothing reads what the last layer makes of the global tokens.
    """
    rows, side, depth = c.size("num_global_tokens"), c.number("block_size"), c.number("encoder_layers")
    length = ceil_div(run.size("source_len"), side) * side
    marked, everything = run.beside(rows), run.beside(length + rows)
    mixer = GlobalLocalAttention(s.width, s.heads, s.head_dim, side, rows, NAMES)

    def make(kind: tuple[bool, bool]) -> Component:
        staggered, read = kind
        attends = mixer("self_attn", length + (2 * (side // 2) if staggered else 0), run, read=read)
        ffn = feed_forward(s, run.beside(length), run)
        beside = without_weights(feed_forward(s, marked, run))._replace(name="(ffn)[global]")
        ffn = ffn._replace(parts=(*ffn.parts, reached(beside, int(read))))
        made = encoder_layer(s, everything, attends, ffn)
        global_norm = norm("global_self_attn_layer_norm", "layernorm", s.width, marked.tokens)
        return made._replace(parts=(*made.parts, global_norm))

    yield embedding("embed_global", rows, s.width, marked.tokens)
    staggers, unread = c.flag("stagger_local_blocks"), _last_is_unread(depth, run)
    kinds = [(staggers and place % 2 == 1, not (unread and place == depth - 1)) for place in range(depth)]
    yield from stack("layers", kinds, s.layers, make)


def _last_is_unread(depth: int, run: Workload) -> bool:
    """Whether backward passes by what is not read: reentrant checkpointing gives it a gradient of zeros."""
    zeros = run.every > 0 and (depth - 1) % run.every == 0 and not run.early_stop
    return run.training and not zeros


@family("nllb-moe", architecture="NllbMoeForConditionalGeneration", heads=BARE_AND_GENERATION, aliases=ALIASES)
def nllb_moe(c: Config, run: Workload) -> Component:
    """NLLB-200 (arXiv 2207.04672): every so many layers, two of many networks for each token."""
    positions = partial(SINES, stored="nothing")
    return seq2seq(
        c,
        run,
        positions=positions,
        reader=partial(_experts_read, c),
        writer=partial(_experts_write, c),
        pre_norm=True,
    )


def _experts_read(c: Config, s: Side, run: Workload) -> Iterator[Component]:
    stream = run.source
    mixer = attention("self_attn", s, stream, stream, run)
    yield from _sparsely(c, "encoder", s, run, stream, {"self_attn_layer_norm": mixer})


def _experts_write(c: Config, s: Side, run: Workload, memory: Sequences | None) -> Iterator[Component]:
    yield from _sparsely(c, "decoder", s, run, run.target, _writers(s, run, memory or run.source))


def _writers(s: Side, run: Workload, memory: Sequences) -> dict[str, Component]:
    """The decoder's two attentions, each by the name of its norm."""
    stream = run.target
    return {
        "self_attn_layer_norm": attention("self_attn", s, stream, stream, run, causal=True),
        "cross_attention_layer_norm": attention("cross_attention", s, stream, memory, run),
    }


def _sparsely(
    c: Config, name: str, s: Side, run: Workload, stream: Sequences, mixers: dict[str, Component]
) -> Iterator[Component]:
    """Layers of which each ``step``-th has experts."""
    step, depth = c.number(f"{name}_sparse_step", least=0), c.number(f"{name}_layers")
    expert = FeedForward(s.width, s.d_ff, s.activation, bias=True, names=("fc1", "fc2"))
    router, bias = "router.classifier", c.flag("router_bias")
    experts = MixtureOfExperts(s.width, c.size("num_experts"), 2, expert, router=router, router_bias=bias)

    def make(sparse: bool) -> Component:
        ffn = (experts if sparse else expert)("ffn", stream, run)
        return _normed(s, stream, mixers | {"ff_layer_norm": ffn})

    return stack("layers", [step > 0 and (place + 1) % step == 0 for place in range(depth)], s.layers, make)


def _normed(s: Side, stream: Sequences, sublayers: dict[str, Component]) -> Component:
    parts = [
        part for name, each in sublayers.items() for part in (each, norm(name, "layernorm", s.width, stream.tokens))
    ]
    return layer("layers", parts, stream.tokens * s.width, ends_with_sum=s.ends_with_sum)


def _text_to_text(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    table, *stacks = base.parts
    yield table
    yield from (each._replace(name=f"text_{each.name}") for each in stacks)
    yield output("lm_head", c.size("d_model"), c.size("vocab_size"), run, tied=c.flag("tie_word_embeddings"))


TEXT_TO_TEXT: dict[str, Any] = {
    "heads": {"ForTextToText": _text_to_text},
    "aliases": {
        "hidden_size": "d_model",
        "num_hidden_layers": "decoder_layers",
        "num_attention_heads": "decoder_attention_heads",
    },
}


@family("seamless_m4t", architecture="SeamlessM4TForTextToText", **TEXT_TO_TEXT)
@family("seamless_m4t_v2", architecture="SeamlessM4Tv2ForTextToText", **TEXT_TO_TEXT)
def seamless_m4t(c: Config, run: Workload) -> Component:
    """Seamless Communication et al. 2023 (arXiv 2308.11596, 2312.05187): its translator of texts, which is NLLB's."""
    positions = partial(SINES, stored="nothing")
    return seq2seq(c, run, positions=positions, reader=_translated, writer=_translating, pre_norm=True)


def _translated(s: Side, run: Workload) -> Iterator[Component]:
    stream = run.source
    yield _translator(s, run, stream, {"self_attn_layer_norm": attention("self_attn", s, stream, stream, run)})


def _translating(s: Side, run: Workload, memory: Sequences | None) -> Iterator[Component]:
    yield _translator(s, run, run.target, _writers(s, run, memory or run.source))


def _translator(s: Side, run: Workload, stream: Sequences, mixers: dict[str, Component]) -> Component:
    ffn = FeedForward(s.width, s.d_ff, s.activation, bias=True, names=("fc1", "fc2"))("ffn", stream, run)
    return _normed(s, stream, mixers | {"ffn_layer_norm": ffn})._replace(copies=s.layers)


@family(
    "fsmt",
    architecture="FSMTForConditionalGeneration",
    heads={"Model": bare, "ForConditionalGeneration": lambda c, run, base: (base,)},
    aliases={**ALIASES, "vocab_size": "tgt_vocab_size"},
)
def fsmt(c: Config, run: Workload) -> Component:
    """Ng et al. 2019 (arXiv 1907.06616): a table for each language, and the output matrix within the decoder.

    Tied, all three are one, as long as the target language has words. Positions begin as sines, after the padding
    word's index, and nothing keeps them from being trained.
    """
    source, target = run.source, run.target
    places = c.size("max_position_embeddings") + (c.number("pad_token_id", least=0) + 1)
    reads, writes = side(c, "encoder"), side(c, "decoder")
    h, target_words = reads.width, c.size("tgt_vocab_size")
    encoder = half(
        "encoder",
        reads,
        source,
        _source_words(c, h, source.tokens),
        learned(places, h, source.tokens),
        *reading(reads, run),
        norms=(),
    )
    decoder = half(
        "decoder",
        writes,
        target,
        embedding("embed_tokens", target_words, h, target.tokens),
        learned(places, h, target.tokens),
        *writing(writes, run, source),
        output("output_projection", h, target_words, run, tied=c.flag("tie_word_embeddings")),
        norms=(),
    )
    return Component("model", "encoder-decoder", parts=(encoder, decoder))


def _source_words(c: Config, width: Num, tokens: Num) -> Component:
    tied = c.flag("tie_word_embeddings")
    rows = "tgt_vocab_size" if tied else "src_vocab_size"
    return embedding("embed_tokens", c.size(rows), width, tokens, tied_to="decoder" if tied else None)
