"""BERTs that read long sequences: their attention does not compare all pairs."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import stack
from tfcalc.blocks.landmark_attention import LandmarkAttention
from tfcalc.blocks.sliding_attention import SlidingAttention
from tfcalc.blocks.sparse_blocks import SparseBlocks
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.core.component import Component
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import ceil_div
from tfcalc.families import bert_kit as kit
from tfcalc.families.bert import (
    FIRST_TOKEN,
    attention,
    bert_like,
    embeddings,
    feed_forward,
    layers,
    pooler,
    positions,
    stacked,
    token_types,
    with_tables,
)
from tfcalc.families.bert_heads import (
    ANSWER,
    BERT_HEADS,
    PREDICTIONS,
    ROBERTA_HEADS,
    TASKS,
    classes,
    dense_classes,
    lm,
    on_top,
)
from tfcalc.families.bert_tops import BERT_TOPS
from tfcalc.leaves import buffer, convolution, norm
from tfcalc.nn.basic import Buffer, Linear
from tfcalc.nn.embeddings import BUFFER
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.fourier import Fourier
from tfcalc.nn.module import Module
from tfcalc.workload import Workload

MARKED = ("ForSequenceClassification", "ForQuestionAnswering", "ForMultipleChoice")
"""The classes that show a token to all others: the first, or their question, which is one token here."""


@family("longformer", architecture="LongformerForMaskedLM", heads=ROBERTA_HEADS)
def longformer(c: Config, run: Workload) -> Component:
    """Beltagy et al. 2020 (arXiv 2004.05150): RoBERTa with attention to what is near, and to tokens that all see.

    Sequences are filled up to whole windows.
    """
    a, d = c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    count, n_global = c.number("num_hidden_layers"), int(c.head in MARKED)
    given = c.get("attention_window")
    windows = (
        c.numbers("attention_window", count) if isinstance(given, list) else [c.number("attention_window")] * count
    )
    widest = max(windows)
    whole = ceil_div(run.target.length, widest)
    filled = run.replaced(seq_len=whole * widest)

    def made(window: int) -> Component:
        block = SlidingAttention(c.size("hidden_size"), a, d, window, n_global)
        return layers(c, filled, block("attention", filled.target, whole * (2 * widest // window)))

    stacks = stack("layer", windows, c.size("num_hidden_layers"), made)
    parts = (embeddings(c, filled, *with_tables(c, filled)), stacked(*stacks), *pooler(c, run, FIRST_TOKEN))
    return Component("longformer", "encoder", parts=parts)


def span(c: Config, run: Workload) -> Iterator[Component]:
    """A feed-forward network, and then where the answer begins and ends."""
    name = "qa_classifier"
    last = norm("output.LayerNorm", "layernorm", c.size("hidden_size"), run.target.tokens)
    yield Component(name, "head", parts=(feed_forward(c, run), last, *classes("qa_outputs", 2)(c, run)))


BIG_BIRD_HEADS: dict[str, Head] = {
    **BERT_HEADS,
    "ForSequenceClassification": on_top(dense_classes()),
    "ForQuestionAnswering": on_top(span),
}
BIG_BIRD_POOLED = tuple(head for head in BIG_BIRD_HEADS if head != "ForQuestionAnswering")
BIG_BIRD_READ = ("Model", "ForPreTraining", "ForMultipleChoice")


@family("big_bird", architecture="BigBirdForMaskedLM", heads=BIG_BIRD_HEADS)
def big_bird(c: Config, run: Workload) -> Component:
    """Zaheer et al. 2020 (arXiv 2007.14062): all classes but question answering keep the pooler.

    Long sequences are filled up to whole blocks, and a block sees only a few others.
    """
    bias, sparse = c.flag("use_bias"), c.word("attention_type", ("block_sparse", "original_full")) == "block_sparse"
    mixer = None
    if sparse and not (c.flag("add_cross_attention") or run.decoding):
        blocks = SparseBlocks(c.number("block_size"), c.number("num_random_blocks"))
        run, length = run.replaced(seq_len=blocks.filled(run.target.length)), run.target.length
        mixer = blocks.instead(attention(c, run, bias=bias), c.size("num_attention_heads"), run, length)
    made = bert_like("bert", c, run, *with_tables(c, run), pooled=(), bias=bias, mixer=mixer)
    return made._replace(parts=(*made.parts, *pooler(c, run, BIG_BIRD_POOLED, "pooler", read=BIG_BIRD_READ)))


# -- attention of linear cost


FURTHER_HEADS: dict[str, Head] = {
    **TASKS,
    **lm(PREDICTIONS),
    "ForSequenceClassification": on_top(dense_classes()),
    "ForMultipleChoice": on_top(dense_classes(("pre_classifier", "classifier"), 1)),
    "ForQuestionAnswering": ANSWER,
}


def linear_bert(name: str, c: Config, run: Workload, window: str = "", attend: Component | None = None) -> Component:
    """BERT without a pooler, with two more positions; each head's values are convolved where a ``window`` is given."""
    within = (value_convolution(c, run, window),) if window and c.get(window) is not None else ()
    tables = (positions(c, run, offset=2), token_types(c, run))
    mixer = attention(c, run, within=within)
    parts = tuple(part if attend is None or part.kind != "attend" else attend for part in mixer.parts)
    return bert_like(name, c, run, *tables, pooled=(), mixer=mixer._replace(parts=parts), cross=False)


def value_convolution(c: Config, run: Workload, window: str) -> Component:
    """A convolution over the tokens, with a kernel for each head."""
    a, d = c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    return convolution("self.conv", a, a, (c.size(window), 1), run.target.tokens * d, groups=a, bias=False)


@family("nystromformer", architecture="NystromformerForMaskedLM", heads=FURTHER_HEADS)
def nystromformer(c: Config, run: Workload) -> Component:
    """Xiong et al. 2021 (arXiv 2102.03902): scores by way of a few landmarks; of all pairs where each token is one."""
    landmarks, attend = c.number("num_landmarks"), None
    if landmarks != c.number("segment_means_seq_len"):
        d = c.quotient("hidden_size", "num_attention_heads")
        attend = LandmarkAttention(c.size("num_attention_heads"), d, landmarks)("attend", run.target)
    return linear_bert("nystromformer", c, run, "conv_kernel_size", attend)


@family("yoso", architecture="YosoForMaskedLM", heads=FURTHER_HEADS)
def yoso(c: Config, run: Workload) -> Component:
    """Zeng et al. 2021 (arXiv 2111.09714): scores by hashing."""
    return linear_bert("yoso", c, run, "conv_window")


@family("mra", architecture="MraForMaskedLM", heads=FURTHER_HEADS)
def mra(c: Config, run: Workload) -> Component:
    """Zeng et al. 2022 (arXiv 2207.10284): scores at several resolutions; the numbers of positions are stored."""
    words, *rest = linear_bert("mra", c, run).parts
    numbers = buffer("position_ids", 1, c.size("max_position_embeddings"))
    return Component("mra", "encoder", parts=(words._replace(parts=(*words.parts, numbers)), *rest))


@family("fnet", architecture="FNetForMaskedLM", heads=BERT_TOPS)
def fnet(c: Config) -> Module:
    """Lee-Thorp et al. 2021 (arXiv 2105.03824): a Fourier transform in the place of attention; all have the pooler."""
    h = c.size("hidden_size")
    words = kit.embeddings(c, *kit.with_tables(c, BUFFER)).but(projection=Linear("projection", h, h, "", True))
    mixer = Fourier("fourier", tuple(fourier_matrices(c)))
    norms = ("fourier.output.LayerNorm", "", "output.LayerNorm")
    layers = kit.stack(c, mixer, norms=norms, undropped=("fourier",))
    pooler = kit.pooler(c, tuple(BERT_TOPS))
    return Encoder("fnet", words, (), Layers("encoder", (), layers), pooler=pooler, pools=c.head in kit.PAIRED)


def fourier_matrices(c: Config) -> Iterator[Buffer]:
    """The transform's matrices, stored where it runs as products with them."""
    if c.flag("use_tpu_fourier_optimizations") and c.number("max_position_embeddings") <= TPU_LONGEST:
        sizes = {"self.dft_mat_hidden": c.size("hidden_size"), "self.dft_mat_seq": c.size("tpu_short_seq_length")}
        for name, size in sizes.items():
            yield Buffer(name, Weight(name, (size, size), key=""))


TPU_LONGEST = 4096
