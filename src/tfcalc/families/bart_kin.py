"""BART's further kin: other sizes, prompts, sparse attention, experts."""

from __future__ import annotations

from functools import partial

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.families import seq2seq_kit as kit
from tfcalc.families.bert_tops import MASKED
from tfcalc.families.layers import by_kind
from tfcalc.nn.basic import Embedding, Linear
from tfcalc.nn.embeddings import TOKENS, Positions
from tfcalc.nn.encoder_decoder import Alone, EncoderDecoder, EncoderStack, Open, OpenDecoder
from tfcalc.nn.filled import BlockAttention, FilledStack
from tfcalc.nn.global_local import GlobalLocalAttention, GlobalLocalLayer, MarkedStack
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Router
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.paired import PairStack
from tfcalc.nn.prompts import Prompt, Prompted, PromptedCross, PromptedDecoder
from tfcalc.nn.sparse_blocks import SparseBlocks
from tfcalc.nn.stack import Stack
from tfcalc.nn.switch import Networks, Switch


@family(
    "plbart",
    architecture="PLBartForCausalLM",
    heads={head: build for head, build in kit.HEADS.items() if head != "ForQuestionAnswering"},
)
def plbart(c: Config) -> Module:
    """Ahmad et al. 2021 (arXiv 2103.06333): BART for programs."""
    return kit.seq2seq(c, kit.BART_PLACES, normed=True)


@family("blenderbot-small", architecture="BlenderbotSmallForCausalLM", heads=kit.HEADS)
def blenderbot_small(c: Config) -> Module:
    """Roller et al. 2020 (arXiv 2004.13637): the smallest is normed as BART is."""
    return kit.seq2seq(c, kit.learned(), normed=True)


@family("mvp", architecture="MvpForCausalLM", heads=kit.HEADS)
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
    heads=kit.HEADS | {kit.ALONE: tops.lm_head(width="d_model", ties=(), shifted=False, upcasts=False)},
)
def bigbird_pegasus(c: Config) -> Module:
    """Zaheer et al. 2020 (arXiv 2007.14062): the encoder's attention is sparse, or full; a flag for biases of all.

    Where it is sparse, long sequences are filled up to whole blocks, and a block sees only a few others. Its
    ``ForCausalLM`` is the one that transformers does not tie.
    """
    sparse = c.word("attention_type", ("block_sparse", "original_full")) == "block_sparse"
    blocks = SparseBlocks(c.number("block_size"), c.number("num_random_blocks"), "int64") if sparse else None
    layers, reader = partial(_sparse, blocks), partial(FilledStack, filling=blocks, front=False)
    return kit.seq2seq(c, kit.learned(), pre_norm=True, layers=layers, last="layernorm_embedding", reader=reader)


def _sparse(blocks: SparseBlocks | None, c: Config, side: str) -> Stack:
    bias = c.flag("use_bias")
    if side == "decoder":
        subs = kit.mixers(c, side, bias=bias)
    else:
        names = ("self.query", "self.key", "self.value", "output")
        subs = [
            kit.attention(c, side, "self_attn", BlockAttention, bias=bias, names=names, causal=False, blocks=blocks)
        ]
    return kit.stack(c, side, kit.layer(c, [*subs, kit.network(c, side)], pre_norm=True))


@family("pegasus_x", heads={"Model": tops.bare, "ForConditionalGeneration": kit.generation(bias=False)})
def pegasus_x(c: Config) -> Module:
    """Phang et al. 2022 (arXiv 2208.04347): blocks of tokens, and global tokens with a norm of their own; no biases."""
    marked = Embedding("embed_global", c.size("num_global_tokens"), c.size("d_model"))
    reader = partial(MarkedStack, marked=marked, block=c.number("block_size"))
    return kit.seq2seq(c, kit.sines(stored=False), pre_norm=True, layers=_global_tokens, reader=reader)


def _global_tokens(c: Config, side: str) -> Stack:
    """Staggered, every other layer's blocks begin in the middle of those of the others."""
    if side == "decoder":
        return kit.equal_layers(c, side, pre_norm=True, mixer=partial(kit.attention, bias=False))
    like = kit.attention(c, side, "self_attn", bias=False)
    block, depth, staggers = c.number("block_size"), c.number("encoder_layers"), c.flag("stagger_local_blocks")
    mixer = GlobalLocalAttention(like.name, like.heads, like.key_dim, like.inward, like.output, block, like.dropout)
    first, last, marked = (kit.norm(c, f"{name}_layer_norm") for name in ("self_attn", "final", "global_self_attn"))
    one = GlobalLocalLayer("layers", mixer, first, kit.network(c, side), last, marked, bool(c.get("dropout")))
    layers = by_kind(lambda staggered: one.but(staggered=staggered), [staggers and at % 2 == 1 for at in range(depth)])
    return PairStack("layers", (*layers[:-1], layers[-1].but(last_of=depth)), c.size("encoder_layers"))


@family("nllb-moe", heads={"Model": tops.bare, "ForConditionalGeneration": kit.generation(bias=False)})
def nllb_moe(c: Config) -> Module:
    """NLLB-200 (arXiv 2207.04672): every so many layers, two of many networks for each token."""
    return kit.seq2seq(c, kit.sines(stored=False), pre_norm=True, layers=_sparse_layers)


def _sparse_layers(c: Config, side: str) -> Stack:
    """Layers of which each ``step``-th has experts."""
    step, depth = c.number(f"{side}_sparse_step", least=0), c.number(f"{side}_layers")
    h, count = c.size("d_model"), c.size("num_experts")
    expert = Networks(**kit.network(c, side, "experts", as_weights=True).__dict__, count=count, chosen=2)
    router = Router("router.classifier", h, count, bias=c.flag("router_bias"), chosen=2, normalized=True)
    subs = kit.mixers(c, side, reader="cross_attention")

    def one(ffn: Module) -> PreNorm:
        return kit.layer(c, [*subs, ffn], "ff_layer_norm", pre_norm=True, inner=True)

    dense, sparse = one(kit.network(c, side, "ffn", as_weights=True)), one(Switch("ffn", router, expert))
    return kit.stack(c, side, [sparse if step > 0 and (place + 1) % step == 0 else dense for place in range(depth)])


def _text_to_text(c: Config, base: Module) -> Module:
    assert isinstance(base, EncoderDecoder)
    named = base.but(encoder=base.encoder.but(name="text_encoder"), decoder=base.decoder.but(name="text_decoder"))
    return Open("", named, kit.logits(c), **MASKED)


@family("seamless_m4t", "seamless_m4t_v2", heads={"ForTextToText": _text_to_text}, aliases={"hidden_size": "d_model"})
def seamless_m4t(c: Config) -> Module:
    """Seamless Communication et al. 2023 (arXiv 2308.11596, 2312.05187): its translator of texts, which is NLLB's."""
    return kit.seq2seq(c, kit.sines(stored=False), pre_norm=True, layers=_translator)


def _translator(c: Config, side: str) -> Stack:
    ffn = kit.network(c, side, "ffn", as_weights=True)
    subs = kit.mixers(c, side, reader="cross_attention", ones=False)
    return kit.stack(c, side, kit.layer(c, [*subs, ffn], "ffn_layer_norm", pre_norm=True, inner=True))


@family("fsmt", heads={"Model": tops.bare, "ForConditionalGeneration": lambda c, base: Alone("", base)})
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
