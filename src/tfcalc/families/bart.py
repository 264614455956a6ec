"""BART and its kin: an encoder and a decoder of one shape, one table of words for both and for the output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from tfcalc.blocks import Attention, FeedForward, layer, stack
from tfcalc.blocks.sliding_attention import SlidingAttention
from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.configs.heads import bare, classifier, labels, lm_head, output, renamed
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, floor_div
from tfcalc.families import seq2seq_kit as kit
from tfcalc.leaves import activation, buffer, embedding, learned_position, linear, norm, sinusoidal_position
from tfcalc.nn.module import Module
from tfcalc.workload import Sequences, Workload

ALONE = "ForCausalLM"
"""The head that goes with the decoder by itself."""
NAMES = ("q_proj", "k_proj", "v_proj", "out_proj")
ALIASES = {
    "num_attention_heads": "encoder_attention_heads",
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
}
Positions = Callable[[Num, Num, Num], Component]
"""Makes a table of so many rows, so wide, for so many tokens."""
Reader = Callable[["Side", Workload], Iterable[Component]]
Writer = Callable[["Side", Workload, Sequences | None], Iterable[Component]]
"""They make all layers of the encoder, and of the decoder, which reads what the encoder made, if there is one."""


class Side(NamedTuple):
    """The sizes of one of the two stacks.

    ``ends_with_sum``: the sum with the last sub-layer is what leaves a layer (see :func:`tfcalc.blocks.layer`).
    """

    width: Num
    heads: Num
    head_dim: Num
    d_ff: Num
    layers: Num
    activation: str
    ends_with_sum: bool = False


def side(c: Config, name: str, *, width: str = "d_model", ends_with_sum: bool = False) -> Side:
    """The ``encoder``'s or the ``decoder``'s."""
    heads = f"{name}_attention_heads"
    return Side(
        c.size(width),
        c.size(heads),
        c.quotient(width, heads),
        c.size(f"{name}_ffn_dim"),
        c.size(f"{name}_layers"),
        c.word("activation_function"),
        ends_with_sum,
    )


def sum_last(c: Config, run: Workload, default: float = 0.1, name: str = "dropout") -> bool:
    """Whether no dropout stands before the last sum of a layer whose norms stand before its sub-layers."""
    given = c.get(name)
    return not (run.drops and (default if given is None else given))


def attention(
    name: str,
    s: Side,
    queries: Sequences,
    keys: Sequences,
    run: Workload,
    *,
    causal: bool = False,
    bias: bool = True,
    key_bias: bool | None = None,
    pieces: int | None = None,
) -> Component:
    """Multi-head attention under the names that fairseq gave its projections."""
    block = Attention(
        s.width,
        s.heads,
        s.heads,
        s.head_dim,
        s.head_dim,
        bias=bias,
        key_bias=key_bias,
        names=NAMES,
        pieces=pieces,
    )
    return block(name, queries, keys, run, causal=causal)


def feed_forward(s: Side, stream: Sequences, run: Workload, *, bias: bool = True) -> Component:
    """Two maps, which stand in the layer itself."""
    return FeedForward(s.width, s.d_ff, s.activation, bias=bias, names=("fc1", "fc2"))("(ffn)", stream, run)


def encoder_layer(s: Side, stream: Sequences, mixer: Component, ffn: Component) -> Component:
    """Self-attention and feed-forward network, each with a norm."""
    return layer(
        "layers",
        (
            mixer,
            norm("self_attn_layer_norm", "layernorm", s.width, stream.tokens),
            ffn,
            norm("final_layer_norm", "layernorm", s.width, stream.tokens),
        ),
        stream.tokens * s.width,
        ends_with_sum=s.ends_with_sum,
    )


def decoder_layer(
    s: Side,
    run: Workload,
    memory: Sequences | None,
    *,
    bias: bool = True,
    key_bias: bool | None = None,
) -> Component:
    """Like the encoder's, and attention to its output (``memory``). Without one that is stored, but does not run."""
    stream, read = run.target, memory or run.source
    runs = 1 if memory else 0
    reading = attention("encoder_attn", s, stream, read, run, bias=bias, key_bias=key_bias)
    return layer(
        "layers",
        (
            attention("self_attn", s, stream, stream, run, causal=True, bias=bias, key_bias=key_bias),
            norm("self_attn_layer_norm", "layernorm", s.width, stream.tokens),
            reading._replace(passes=runs),
            norm("encoder_attn_layer_norm", "layernorm", s.width, stream.tokens)._replace(passes=runs),
            feed_forward(s, stream, run),
            norm("final_layer_norm", "layernorm", s.width, stream.tokens),
        ),
        stream.tokens * s.width,
        ends_with_sum=s.ends_with_sum,
    )


def half(
    name: str, s: Side, stream: Sequences, *inside: Component, norms: tuple[str, ...] = ("layer_norm",)
) -> Component:
    """One of the two stacks: tables and layers (``inside``), and norms before or after all layers."""
    return Component(name, name, parts=(*inside, *(norm(each, "layernorm", s.width, stream.tokens) for each in norms)))


def words(c: Config, tokens: Num, *, rows: str = "vocab_size", tied: bool = False) -> Component:
    """One stack's table of words, which may be the one that both share."""
    tied_to = "shared" if tied else None
    return embedding("embed_tokens", c.size(rows), c.size("d_model"), tokens, tied_to=tied_to)


def shared(c: Config) -> Component:
    """The table that both stacks have in common: stored here, looked up there."""
    return embedding("shared", c.size("vocab_size"), c.size("d_model"), 0)


def learned(rows: Num, width: Num, tokens: Num, *, spare: int = 0) -> Component:
    """A trained table of positions. BART's has two ``spare`` rows: fairseq counted from the padding word's index."""
    return learned_position("embed_positions", rows + spare, width, tokens)


SINES = partial(sinusoidal_position, "embed_positions")


def reading(s: Side, run: Workload) -> Iterator[Component]:
    """The encoder's layers."""
    stream = run.source
    mixer = attention("self_attn", s, stream, stream, run)
    yield encoder_layer(s, stream, mixer, feed_forward(s, stream, run))._replace(copies=s.layers)


def writing(s: Side, run: Workload, memory: Sequences | None) -> Iterator[Component]:
    """The decoder's layers."""
    yield decoder_layer(s, run, memory)._replace(copies=s.layers)


def seq2seq(
    c: Config,
    run: Workload,
    *,
    positions: Positions,
    norms: tuple[str, ...] = ("layer_norm",),
    places: str = "max_position_embeddings",
    reader: Reader = reading,
    writer: Writer = writing,
    rows: str = "vocab_size",
    share: bool = True,
    pre_norm: bool = False,
    filled: Workload | None = None,
) -> Component:
    """Shared table, encoder and decoder; as a ``ForCausalLM`` only the decoder, whose table is its own.

    ``rows`` is the field with the length of the decoder's own table, if it has one: where they do not ``share`` it, or
    it is not tied. ``places`` is that with the number of positions (``{}`` stands for the stack's name). ``pre_norm``
    says that norms stand before sub-layers. The encoder may run on sequences that are ``filled`` up.
    """
    alone, tied = c.head == ALONE, share and c.flag("tie_word_embeddings")
    ends_with_sum = pre_norm and sum_last(c, run)
    s = side(c, "decoder", ends_with_sum=ends_with_sum)
    decoder = half(
        "decoder",
        s,
        run.target,
        words(c, run.target.tokens, rows=rows, tied=tied and not alone),
        positions(c.size(places.format("decoder")), s.width, run.target.tokens),
        *writer(s, run, None if alone else run.source),
        norms=norms,
    )
    if alone:
        return Component("model", "decoder", parts=(decoder,))
    s, read = side(c, "encoder", ends_with_sum=ends_with_sum), filled or run
    encoder = half(
        "encoder",
        s,
        read.source,
        words(c, read.source.tokens, tied=tied),
        positions(c.size(places.format("encoder")), s.width, read.source.tokens),
        *reader(s, read),
        norms=norms,
    )
    return Component("model", "encoder-decoder", parts=(*([shared(c)] if share else []), encoder, decoder))


def generation(c: Config, run: Workload, base: Component, *, rows: str = "vocab_size") -> Iterator[Component]:
    """Logits by the shared table, and a bias on them that is stored but not trained."""
    yield base
    yield buffer("final_logits_bias", c.size(rows))
    yield output("lm_head", c.size("d_model"), c.size(rows), run, tied=c.flag("tie_word_embeddings"))


def sentence(default: int = 2) -> Head:
    """A class for each sequence, from its last token; ``default`` classes where no one says how many."""

    def head(c: Config, run: Workload, base: Component) -> Iterator[Component]:
        h, sequences = c.size("d_model"), run.target.batch
        classes = labels(c) if c.has("num_labels") or c.get("id2label") else default
        yield base
        yield Component(
            "classification_head",
            "head",
            parts=(
                linear("dense", h, h, sequences),
                activation("tanh", "tanh", sequences * h),
                linear("out_proj", h, classes, sequences),
            ),
        )

    return head


SPANS = classifier("qa_outputs", width="d_model", bias=True, classes=2)
HEADS: dict[str, Head] = {
    "Model": bare,
    "ForConditionalGeneration": generation,
    ALONE: lm_head(width="d_model"),
    "ForSequenceClassification": sentence(),
    "ForQuestionAnswering": SPANS,
}


@family(
    "bart",
    architecture="BartForConditionalGeneration",
    heads=kit.HEADS | {"ForSequenceClassification": kit.sentence(default=3)},
    aliases=ALIASES,
)
def bart(c: Config) -> Module:
    """Lewis et al. 2019 (arXiv 1910.13461): a norm of the embedding, none after the last layer."""
    return kit.seq2seq(c, kit.BART_PLACES, normed=True)


@family("mbart", architecture="MBartForConditionalGeneration", heads=kit.HEADS, aliases=ALIASES)
def mbart(c: Config) -> Module:
    """Liu et al. 2020 (arXiv 2001.08210): a norm of the embedding, and one after the last layer."""
    return kit.seq2seq(c, kit.BART_PLACES, normed=True, pre_norm=True)


@family("blenderbot", architecture="BlenderbotForConditionalGeneration", heads=kit.HEADS, aliases=ALIASES)
def blenderbot(c: Config) -> Module:
    """Roller et al. 2020 (arXiv 2004.13637): positions without spare rows."""
    return kit.seq2seq(c, kit.learned(), pre_norm=True)


@family("pegasus", architecture="PegasusForConditionalGeneration", heads=kit.HEADS, aliases=ALIASES)
def pegasus(c: Config) -> Module:
    """Zhang et al. 2019 (arXiv 1912.08777): fixed positions, which count as parameters that are not trained."""
    return kit.seq2seq(c, kit.sines(stored=True), pre_norm=True)


@family(
    "m2m_100",
    architecture="M2M100ForConditionalGeneration",
    heads={"Model": tops.bare, "ForConditionalGeneration": kit.generation(bias=False)},
    aliases=ALIASES,
)
def m2m_100(c: Config) -> Module:
    """Fan et al. 2020 (arXiv 2010.11125); NLLB-200 (arXiv 2207.04672). Fixed positions that no checkpoint holds."""
    return kit.seq2seq(c, kit.sines(stored=False), pre_norm=True)


@family(
    "led",
    architecture="LEDForConditionalGeneration",
    heads={
        "Model": bare,
        "ForConditionalGeneration": renamed("led", generation),
        "ForQuestionAnswering": renamed("led", SPANS),
    },
    aliases=ALIASES,
)
def led(c: Config, run: Workload) -> Component:
    """Beltagy et al. 2020 (arXiv 2004.05150), section 7: BART with Longformer's attention in the encoder.

    Its sequences are filled up to whole windows. No token is global: only a mask would say which.
    """
    count, given = c.number("encoder_layers"), c.get("attention_window")
    windows = (
        c.numbers("attention_window", count) if isinstance(given, list) else [c.number("attention_window")] * count
    )
    whole = ceil_div(run.size("source_len"), max(windows)) * max(windows)
    return seq2seq(
        c,
        run,
        positions=learned,
        places="max_{}_position_embeddings",
        norms=("layernorm_embedding",),
        reader=partial(_windowed, windows),
        filled=run.replaced(source_len=whole),
    )


def _windowed(windows: Sequence[int], s: Side, run: Workload) -> Iterator[Component]:
    stream, length = run.source, run.size("source_len")
    names = ("longformer_self_attn.query", "longformer_self_attn.key", "longformer_self_attn.value", "output")

    def make(window: int) -> Component:
        block = SlidingAttention(s.width, s.heads, s.head_dim, window, 0, names)
        mixer = block("self_attn", stream, floor_div(length, window // 2))
        runs = 0 if run.decoding else 1  # what was read has been read
        return encoder_layer(s, stream, mixer._replace(passes=runs), feed_forward(s, stream, run))

    yield from stack("layers", windows, s.layers, make)


def _target_rows(c: Config) -> str:
    return "decoder_vocab_size" if c.get("decoder_vocab_size") else "vocab_size"


def translation(c: Config, base: Module) -> Module:
    """Logits over the words of the language that is translated to."""
    own = not c.flag("share_encoder_decoder_embeddings")
    return kit.generation(rows=_target_rows(c) if own else "vocab_size")(c, base)


def _own_words(c: Config, base: Module) -> Module:
    """Logits of the decoder by itself: tied, over the words of its own table."""
    rows = _target_rows(c) if c.flag("tie_word_embeddings") else "vocab_size"
    return kit.generation(rows=rows, bias=False)(c, base)


@family(
    "marian",
    architecture="MarianMTModel",
    heads={"Model": tops.bare, "MTModel": translation, ALONE: _own_words},
    aliases=ALIASES,
)
def marian(c: Config) -> Module:
    """Junczys-Dowmunt et al. 2018 (arXiv 1804.00344): the two languages may have a table each."""
    share = c.flag("share_encoder_decoder_embeddings")
    return kit.seq2seq(c, kit.sines(stored=True), rows=_target_rows(c), share=share)
