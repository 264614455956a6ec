"""BART's further kin: other sizes, prompts, sparse attention, experts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from tfcalc.blocks import Attention, stack
from tfcalc.blocks.global_local_attention import GlobalLocalAttention
from tfcalc.blocks.sparse_blocks import SparseBlocks
from tfcalc.configs import tops
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
    HEADS,
    NAMES,
    SINES,
    Side,
    decoder_layer,
    encoder_layer,
    feed_forward,
    learned,
    seq2seq,
)
from tfcalc.families.bert_tops import MASKED
from tfcalc.leaves import embedding, norm
from tfcalc.nn.basic import Embedding, Linear
from tfcalc.nn.embeddings import TOKENS, Positions
from tfcalc.nn.encoder_decoder import Alone, EncoderDecoder, EncoderStack, Open, OpenDecoder
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Router
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.prompts import Prompt, Prompted, PromptedCross, PromptedDecoder
from tfcalc.nn.stack import Stack
from tfcalc.nn.switch import Networks, Switch
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


@family("mvp", architecture="MvpForCausalLM", heads=kit.HEADS, aliases=ALIASES)
def mvp(c: Config) -> Module:
    """Tang et al. 2022 (arXiv 2206.12131): BART with prompts for each layer's attention.

    In transformers 5 it is only the decoder that gets them: the encoder takes ``use_prompt`` for another argument.
    """
    places = kit.learned(2, TOKENS)
    if not c.flag("use_prompt") or c.head == kit.ALONE:
        return kit.seq2seq(c, places, normed=True)
    whole = kit.seq2seq(c, places, normed=True, layers=_prompted)
    assert isinstance(whole, EncoderDecoder)
    prompts = tuple(_prompt(c, name) for name in ("self_attn_prompt", "cross_attn_prompt"))
    return whole.but(decoder=PromptedDecoder(**whole.decoder.__dict__, prompts=prompts))


def _prompt(c: Config, name: str) -> Prompt:
    h, inner, layers = c.size("d_model"), c.size("prompt_mid_dim"), c.size("decoder_layers")
    heads = "decoder_attention_heads"
    table = Embedding("prompt_embedding", c.size("prompt_length"), h)
    maps = Linear("prompt_trans.0", h, inner, "", True), Linear("prompt_trans.2", inner, 2 * layers * h, "", True)
    return Prompt(name, table, *maps, c.size(heads), c.quotient("d_model", heads), bool(c.get("dropout")))


def _prompted(c: Config, side: str) -> Stack:
    if side == "encoder":
        return kit.equal_layers(c, side, pre_norm=False)
    rows = c.size("prompt_length")
    looks = kit.attention(c, side, "self_attn", Prompted, given_ones=True, prompt="self_attn_prompt", length=rows)
    reads = kit.attention(c, side, "encoder_attn", PromptedCross, prompt="cross_attn_prompt", length=rows)
    return kit.stack(c, side, kit.layer(c, [looks, reads, kit.network(c, side)], pre_norm=False))


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


@family(
    "nllb-moe",
    architecture="NllbMoeForConditionalGeneration",
    heads={"Model": tops.bare, "ForConditionalGeneration": kit.generation(bias=False)},
    aliases=ALIASES,
)
def nllb_moe(c: Config) -> Module:
    """NLLB-200 (arXiv 2207.04672): every so many layers, two of many networks for each token."""
    return kit.seq2seq(c, kit.sines(stored=False), pre_norm=True, layers=_sparse_layers)


def _sparse_layers(c: Config, side: str) -> Stack:
    """Layers of which each ``step``-th has experts."""
    step, depth = c.number(f"{side}_sparse_step", least=0), c.number(f"{side}_layers")
    h, count = c.size("d_model"), c.size("num_experts")
    expert = kit.network(c, side, "experts", Networks, as_weights=True, count=count, chosen=2)
    router = Router("router.classifier", h, count, bias=c.flag("router_bias"), chosen=2, normalized=True)
    subs = kit.mixers(c, side, reader="cross_attention")
    kinds: dict[bool, PreNorm] = {}
    for sparse, ffn in (
        (False, kit.network(c, side, "ffn", as_weights=True)),
        (True, Switch("ffn", router, expert)),
    ):
        kinds[sparse] = kit.layer(c, [*subs, ffn], "ff_layer_norm", pre_norm=True, inner=True)
    return kit.stack(c, side, [kinds[step > 0 and (place + 1) % step == 0] for place in range(depth)])


def _text_to_text(c: Config, base: Module) -> Module:
    assert isinstance(base, EncoderDecoder)
    named = base.but(encoder=base.encoder.but(name="text_encoder"), decoder=base.decoder.but(name="text_decoder"))
    return Open("", named, kit.logits(c), **MASKED)


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
def seamless_m4t(c: Config) -> Module:
    """Seamless Communication et al. 2023 (arXiv 2308.11596, 2312.05187): its translator of texts, which is NLLB's."""
    return kit.seq2seq(c, kit.sines(stored=False), pre_norm=True, layers=_translator)


def _translator(c: Config, side: str) -> Stack:
    ffn = kit.network(c, side, "ffn", as_weights=True)
    subs = kit.mixers(c, side, reader="cross_attention", ones=False)
    return kit.stack(c, side, kit.layer(c, [*subs, ffn], "ffn_layer_norm", pre_norm=True, inner=True))


@family(
    "fsmt",
    architecture="FSMTForConditionalGeneration",
    heads={"Model": tops.bare, "ForConditionalGeneration": lambda c, base: Alone("", base)},
    aliases={**ALIASES, "vocab_size": "tgt_vocab_size"},
)
def fsmt(c: Config) -> Module:
    """Ng et al. 2019 (arXiv 1907.06616): a table for each language, and the output matrix within the decoder.

    Tied, all three are one, as long as the target language has words. Positions begin as sines, after the padding
    word's index, and nothing keeps them from being trained.
    """
    h, tied, drops = c.size("d_model"), c.flag("tie_word_embeddings"), bool(c.get("dropout"))
    target = c.size("tgt_vocab_size")
    rows = c.size("max_position_embeddings") + (c.number("pad_token_id", least=0) + 1)
    places = (Positions("embed_positions", rows, h, TOKENS),)

    def half(side: str, of: type[Decoder], words: Embedding) -> Decoder:
        return of(side, words, kit.equal_layers(c, side, pre_norm=False), None, added=places, dropped=drops)

    read = target if tied else c.size("src_vocab_size")
    encoder = half("encoder", EncoderStack, Embedding("embed_tokens", read, h, "decoder" if tied else None, True))
    words = Embedding("embed_tokens", target, h, scales=True, known_as="decoder" if tied else "")
    head = Linear("output_projection", h, target, "vocab", False, "embedding" if tied else None, "output")
    decoder = OpenDecoder("decoder", half("decoder", Decoder, words), head, **MASKED)
    return EncoderDecoder("model", None, encoder, decoder)
