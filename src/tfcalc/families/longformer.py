"""BERTs that read long sequences: their attention does not compare all pairs."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top
from tfcalc.core.cost import Tensor as Weight
from tfcalc.families import bert_kit as kit
from tfcalc.families import bert_tops
from tfcalc.families.bert_tops import BERT_TOPS
from tfcalc.families.windows import attention_windows
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Buffer, Linear
from tfcalc.nn.convolved_attention import HashedAttention, HashedEncoder, HeadConvolution, LandmarkAttention
from tfcalc.nn.embeddings import BUFFER, TOKENS, Embeddings, Positions
from tfcalc.nn.embeddings_kin import Numbered
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.filled import AnswerNetwork, BlockAttention, FilledEncoder, Windows
from tfcalc.nn.fourier import Fourier
from tfcalc.nn.heads import Headed
from tfcalc.nn.module import Module
from tfcalc.nn.sliding import SlidingAttention
from tfcalc.nn.sparse_blocks import SparseBlocks
from tfcalc.nn.stack import Stack

MARKED = ("ForSequenceClassification", "ForQuestionAnswering", "ForMultipleChoice")
"""The classes that show a token to all others: the first, or their question, which is one token here."""


@family("longformer", architecture="LongformerForMaskedLM", heads=bert_tops.ROBERTA_TOPS)
def longformer(c: Config) -> Module:
    """Beltagy et al. 2020 (arXiv 2004.05150): RoBERTa with attention to what is near, and to tokens that all see.

    Sequences are filled up to whole windows.
    """
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    marked, windows = int(c.head in MARKED), attention_windows(c)
    names, drops = ("self.query", "self.key", "self.value"), bool(c.get("attention_probs_dropout_prob"))

    def layer(window: int) -> Module:
        maps = tuple(Linear(name, h, h, "", True) for name in names)
        own = tuple(Linear(f"{name}_global", h, h, "", True) for name in names)
        back = Linear("output.dense", h, h, "O", True)
        mixer = SlidingAttention("attention", a, d, maps, own, back, window, max(windows), marked, drops)
        return kit.stack(c, mixer).layers[0]

    made = {window: layer(window) for window in dict.fromkeys(windows)}
    stack = Stack("layer", tuple(made[window] for window in windows), c.size("num_hidden_layers"))
    return FilledEncoder(
        "longformer",
        kit.embeddings(c, *kit.with_tables(c, TOKENS)),
        (),
        Layers("encoder", (), stack),
        pooler=kit.pooler(c, kit.FIRST_TOKEN),
        pools=c.head in kit.PAIRED,
        filling=Windows(max(windows)),
    )


def span(c: Config, base: Module) -> Module:
    """A feed-forward network, and then where the answer begins and ends."""
    logits = Linear("qa_outputs", c.size("hidden_size"), 2, "", True)
    return Headed("", base, AnswerNetwork("qa_classifier", kit.network(c), kit.norm(c, "output.LayerNorm"), logits))


BIG_BIRD_TOPS: dict[str, Top] = {
    **BERT_TOPS,
    "ForSequenceClassification": bert_tops.dense_classes(act=""),
    "ForQuestionAnswering": span,
}
BIG_BIRD_POOLED = tuple(head for head in BIG_BIRD_TOPS if head != "ForQuestionAnswering")
BIG_BIRD_READ = ("Model", "ForPreTraining", "ForMultipleChoice")


@family("big_bird", architecture="BigBirdForMaskedLM", heads=BIG_BIRD_TOPS)
def big_bird(c: Config) -> Module:
    """Zaheer et al. 2020 (arXiv 2007.14062): all classes but question answering keep the pooler.

    Long sequences are filled up to whole blocks, and a block sees only a few others.
    """
    bias, sparse = c.flag("use_bias"), c.word("attention_type", ("block_sparse", "original_full")) == "block_sparse"
    blocks = None
    if sparse and not c.flag("add_cross_attention"):
        blocks = SparseBlocks(c.number("block_size"), c.number("num_random_blocks"))
    mixer = kit.attention(c, bias=bias, of=BlockAttention, causal=c.flag("is_decoder"), blocks=blocks)
    made = kit.bert_like("bert", c, *kit.with_tables(c, BUFFER), pooled=(), bias=bias, mixer=mixer)
    own = made.__dict__ | {"pooler": kit.pooler(c, BIG_BIRD_POOLED, "pooler"), "pools": c.head in BIG_BIRD_READ}
    return FilledEncoder(**own, filling=blocks)


# -- attention of linear cost


FURTHER_TOPS: dict[str, Top] = {
    **bert_tops.TASKS,
    **bert_tops.lm(bert_tops.PREDICTIONS),
    "ForSequenceClassification": bert_tops.dense_classes(act=""),
    "ForMultipleChoice": bert_tops.dense_classes(("pre_classifier", "classifier"), 1, act="relu", dropped=""),
    "ForQuestionAnswering": bert_tops.ANSWER,
}


def linear_bert(name: str, c: Config, mixer: Attention) -> Encoder:
    """BERT without a pooler, with two more positions."""
    rows, h = c.size("max_position_embeddings") + 2, c.size("hidden_size")
    places = Positions("position_embeddings", rows, h, BUFFER)
    return kit.bert_like(name, c, places, kit.token_types(c, indices=BUFFER), pooled=(), mixer=mixer, cross=False)


def convolution(c: Config, window: str) -> HeadConvolution | None:
    """One of each head's values, where a ``window`` is given."""
    if c.get(window) is None:
        return None
    return HeadConvolution("self.conv", c.size("num_attention_heads"), c.size(window))


@family("nystromformer", architecture="NystromformerForMaskedLM", heads=FURTHER_TOPS)
def nystromformer(c: Config) -> Module:
    """Xiong et al. 2021 (arXiv 2102.03902): scores by way of a few landmarks; of all pairs where each token is one."""
    landmarks = c.number("num_landmarks")
    few = landmarks if landmarks != c.number("segment_means_seq_len") else None
    beside = convolution(c, "conv_kernel_size")
    mixer = kit.attention(c, of=LandmarkAttention, causal=False, dropout=False, beside=beside, landmarks=few)
    return linear_bert("nystromformer", c, mixer)


@family("yoso", architecture="YosoForMaskedLM", heads=FURTHER_TOPS)
def yoso(c: Config) -> Module:
    """Zeng et al. 2021 (arXiv 2111.09714): scores by hashing."""
    mixer = kit.attention(c, of=HashedAttention, causal=False, dropout=False, beside=convolution(c, "conv_window"))
    return HashedEncoder(**linear_bert("yoso", c, mixer).__dict__)


@family("mra", architecture="MraForMaskedLM", heads=FURTHER_TOPS)
def mra(c: Config) -> Module:
    """Zeng et al. 2022 (arXiv 2207.10284): scores at several resolutions; the numbers of positions are stored."""
    made = linear_bert("mra", c, kit.attention(c, causal=False))
    numbers = Buffer("position_ids", Weight("position_ids", (1, c.size("max_position_embeddings")), key=""))
    words = made.table
    assert isinstance(words, Embeddings)
    return made.but(table=Numbered(words.name, words.tables, words.norm, words.dropped, numbers=numbers))


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
