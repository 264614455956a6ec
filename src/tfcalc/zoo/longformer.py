"""BERTs that read long sequences: their attention does not compare all pairs."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top
from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Buffer, Linear, buffer
from tfcalc.nn.embeddings import BUFFER, TOKENS, Embeddings, Positions
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.heads import Headed
from tfcalc.nn.module import Context, Module
from tfcalc.ops.attention import attend
from tfcalc.ops.convolution import head_convolution
from tfcalc.ops.elementwise import add, mul
from tfcalc.ops.fourier import fourier
from tfcalc.ops.hashing import attend_by_hashes
from tfcalc.ops.landmarks import attend_landmarks
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import encoders
from tfcalc.zoo.blocks.blocked_attention import (
    AnswerNetwork,
    BlockAttention,
    PaddedEncoder,
    SlidingAttention,
    SparseBlocks,
    Windows,
)
from tfcalc.zoo.blocks.encoders import BERT_TOPS, Numbered
from tfcalc.zoo.blocks.layers import attention_windows, one_module_per_kind, stack


class HeadConvolution(Module):
    """Convolution over the tokens, with a kernel of ``kernel`` weights for each head."""

    kind = "convolution"

    heads: Num
    kernel: Num

    def own_params(self) -> Cost:
        """W."""
        return Cost(weights=(Weight("w", (self.heads, 1, self.kernel, 1)),))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Return the convolved values, for ``x`` of b × a × l × d."""
        (weight,) = self.weights(x.trace)
        return head_convolution(x, weight)


class ConvolvedAttention(Attention):
    """Attention, to whose result convolved values may be added."""

    beside: HeadConvolution | None = None

    def attend(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        """Attend, and add the convolved values."""
        made = self.compare(q, k, v, ctx, name)
        return made if self.beside is None else add(made, self.beside(self.convolve(v, ctx)))

    def compare(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str) -> Tensor:
        """Return the attention output of queries over keys and values."""
        return super().attend(q, k, v, ctx, name)

    def convolve(self, v: Tensor, ctx: Context) -> Tensor:
        """Return the input of the convolution."""
        return v


class LandmarkAttention(ConvolvedAttention):
    """Attention with scores by way of ``landmarks``; without any, over all pairs, and none of them dropped."""

    landmarks: Num | None = None

    def compare(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str) -> Tensor:
        """Compare by way of landmarks."""
        if self.landmarks is None:
            return super().compare(q, k, v, ctx, name)
        return attend_landmarks(q, k, v, self.landmarks, name)


class HashedAttention(ConvolvedAttention):
    """Scores by the chance that two have the same hash; counted as if there were scores of all pairs."""

    def compare(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str) -> Tensor:
        """Compare by hashes, counted as all pairs."""
        pairs = ctx.run.pairs(ctx.stream, ctx.stream, causal=self.causal)
        cached = self.cached(ctx)
        return attend(q, k, v, pairs, lambda: attend_by_hashes(q, k, v), cached=cached, name=name)

    def convolve(self, v: Tensor, ctx: Context) -> Tensor:
        """Mask the values that are convolved."""
        return v if ctx.places is None else mul(v, ctx.places)


class HashedEncoder(Encoder):
    """An encoder whose layers read which tokens are there."""

    def encode(self, x: Tensor, ctx: Context, *, reads: bool) -> tuple[Tensor, Tensor | None]:
        """Encode with the mask of tokens that are there."""
        there = x.trace.new((x.shape[0], 1, x.shape[1], 1), "float32", "tokens that are there")
        return super().encode(x, ctx._replace(places=there), reads=reads)


class Fourier(Module):
    """Tokens mixed by their frequencies. The ``matrices`` of the transform may be stored.

    Source: Lee-Thorp et al. 2021 (arXiv 2105.03824), section 3.2.
    """

    kind = "mixer"

    matrices: tuple[Buffer, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Mix the tokens of ``x``, of b × l × h."""
        return fourier(x)


MARKED = ("ForSequenceClassification", "ForQuestionAnswering", "ForMultipleChoice")
"""The classes that show a token to all others: the first, or their question, which is one token here."""


@family("longformer", heads=encoders.ROBERTA_TOPS)
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
        return encoders.stack(c, mixer).layers[0]

    return PaddedEncoder(
        "longformer",
        encoders.embeddings(c, *encoders.with_tables(c, TOKENS)),
        (),
        Layers("encoder", (), stack(c, one_module_per_kind(layer, windows))),
        pooler=encoders.pooler(c, encoders.FIRST_TOKEN),
        pools=c.head in encoders.PAIRED,
        filling=Windows(max(windows)),
    )


def span(c: Config, base: Module) -> Module:
    """A feed-forward network, and then where the answer begins and ends."""
    logits = Linear("qa_outputs", c.size("hidden_size"), 2, "", True)
    return Headed(
        "", base, AnswerNetwork("qa_classifier", encoders.network(c), encoders.norm(c, "output.LayerNorm"), logits)
    )


BIG_BIRD_TOPS: dict[str, Top] = {
    **BERT_TOPS,
    "ForSequenceClassification": encoders.dense_classes(act=""),
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
    mixer = encoders.attention(c, bias=bias, of=BlockAttention, causal=c.flag("is_decoder"), blocks=blocks)
    made = encoders.bert_like("bert", c, *encoders.with_tables(c, BUFFER), pooled=(), bias=bias, mixer=mixer)
    pooler = encoders.pooler(c, BIG_BIRD_POOLED, "pooler")
    return made.as_type(PaddedEncoder, pooler=pooler, pools=c.head in BIG_BIRD_READ, filling=blocks)


# -- attention of linear cost


FURTHER_TOPS: dict[str, Top] = {
    **encoders.TASKS,
    **encoders.lm(encoders.PREDICTIONS),
    "ForSequenceClassification": encoders.dense_classes(act=""),
    "ForMultipleChoice": encoders.dense_classes(("pre_classifier", "classifier"), 1, act="relu", dropped=""),
    "ForQuestionAnswering": encoders.ANSWER,
}


def linear_bert(name: str, c: Config, mixer: Attention) -> Encoder:
    """BERT without a pooler, with two more positions."""
    rows, h = c.size("max_position_embeddings") + 2, c.size("hidden_size")
    places = Positions("position_embeddings", rows, h, BUFFER)
    return encoders.bert_like(
        name, c, places, encoders.token_types(c, indices=BUFFER), pooled=(), mixer=mixer, cross=False
    )


def convolution(c: Config, window: str) -> HeadConvolution | None:
    """Convolution of each head's values, where a ``window`` is given."""
    if c.get(window) is None:
        return None
    return HeadConvolution("self.conv", c.size("num_attention_heads"), c.size(window))


@family("nystromformer", heads=FURTHER_TOPS)
def nystromformer(c: Config) -> Module:
    """Xiong et al. 2021 (arXiv 2102.03902): scores by way of a few landmarks; of all pairs where each token is one."""
    landmarks = c.number("num_landmarks")
    few = landmarks if landmarks != c.number("segment_means_seq_len") else None
    beside = convolution(c, "conv_kernel_size")
    mixer = encoders.attention(c, of=LandmarkAttention, causal=False, dropout=False, beside=beside, landmarks=few)
    return linear_bert("nystromformer", c, mixer)


@family("yoso", heads=FURTHER_TOPS)
def yoso(c: Config) -> Module:
    """Zeng et al. 2021 (arXiv 2111.09714): scores by hashing."""
    mixer = encoders.attention(c, of=HashedAttention, causal=False, dropout=False, beside=convolution(c, "conv_window"))
    return linear_bert("yoso", c, mixer).as_type(HashedEncoder)


@family("mra", heads=FURTHER_TOPS)
def mra(c: Config) -> Module:
    """Zeng et al. 2022 (arXiv 2207.10284): scores at several resolutions; the numbers of positions are stored."""
    made = linear_bert("mra", c, encoders.attention(c, causal=False))
    numbers = buffer("position_ids", 1, c.size("max_position_embeddings"))
    words = made.table
    assert isinstance(words, Embeddings)
    return made.replace(table=Numbered(words.name, words.tables, words.norm, words.dropped, numbers=numbers))


@family("fnet", heads=BERT_TOPS)
def fnet(c: Config) -> Module:
    """Lee-Thorp et al. 2021 (arXiv 2105.03824): a Fourier transform in the place of attention; all have the pooler."""
    h = c.size("hidden_size")
    words = encoders.embeddings(c, *encoders.with_tables(c, BUFFER)).replace(
        projection=Linear("projection", h, h, "", True)
    )
    mixer = Fourier("fourier", tuple(fourier_matrices(c)))
    norms = ("fourier.output.LayerNorm", "", "output.LayerNorm")
    layers = encoders.stack(c, mixer, norms=norms, undropped=("fourier",))
    pooler = encoders.pooler(c, tuple(BERT_TOPS))
    return Encoder("fnet", words, (), Layers("encoder", (), layers), pooler=pooler, pools=c.head in encoders.PAIRED)


def fourier_matrices(c: Config) -> Iterator[Buffer]:
    """The transform's matrices, stored where it runs as products with them."""
    if c.flag("use_tpu_fourier_optimizations") and c.number("max_position_embeddings") <= TPU_LONGEST:
        sizes = {"self.dft_mat_hidden": c.size("hidden_size"), "self.dft_mat_seq": c.size("tpu_short_seq_length")}
        for name, size in sizes.items():
            yield buffer(name, size, size)


TPU_LONGEST = 4096
