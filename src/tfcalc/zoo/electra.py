"""BERTs whose words' vectors have a width of their own: ALBERT, ELECTRA, ConvBERT, RemBERT, RoFormer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top
from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num, floor_div
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import OWN_SOFTMAX, Attention
from tfcalc.nn.basic import Linear, Parameter, parameter
from tfcalc.nn.embeddings import BUFFER, PLACES, AngleTable, Embeddings
from tfcalc.nn.embeddings import TOKENS as EVERY
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.heads import POOLED, TOKENS
from tfcalc.nn.layers import PostNorm
from tfcalc.nn.model import Predictions
from tfcalc.nn.module import Context, Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.nn.stack import Stack, each_turn
from tfcalc.ops.convolution import same_convolution
from tfcalc.ops.elementwise import add, mul
from tfcalc.ops.mixed import convolved
from tfcalc.ops.rows import softmax
from tfcalc.ops.shapes import cat, contiguous, reshape, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import encoders
from tfcalc.zoo.blocks.encoders import PAIRED, GroupedLinear, GroupedMap
from tfcalc.zoo.blocks.layers import one_module_per_kind


class ChannelConvolution(Module):
    """A convolution over time of each channel by itself, which looks as far ahead as back."""

    kind = "convolution"

    channels: Num
    kernel: Num

    def own_params(self) -> Cost:
        """W."""
        return Cost(weights=(Weight("w", (self.channels, 1, self.kernel)),))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Return the convolution of ``x``, of b × l × c."""
        (weight,) = self.weights(x.trace)
        return transpose(same_convolution(transpose(x, 1, 2), weight), 1, 2)


class Nearby(Module):
    """Mix of each token's neighbours, by kernels that its query makes with a convolved key.

    The key is a ``depthwise`` and then a ``pointwise`` convolution, with a ``shift``; ``kernel_map`` makes kernels of
    ``kernel`` tokens, ``value_map`` what they mix.
    """

    depthwise: ChannelConvolution
    pointwise: GroupedMap
    shift: Parameter
    kernel_map: Linear
    value_map: Linear
    kernel: Num

    def of(self, x: Tensor, q: Tensor, heads: Num, width: Num) -> Tensor:
        """Return the mix, of b × l × a × d, for tokens and their queries, of b × l × a·d."""
        near = add(self.pointwise(self.depthwise(x)), transpose(self.shift.weight(x.trace), 0, 1))
        kernels = self.kernel_map(mul(near, q))
        kernels = softmax(reshape(kernels, x.rows * heads, self.kernel, 1))
        values = contiguous(transpose(self.value_map(x), 1, 2))
        return reshape(convolved(values, kernels, heads, width), *x.shape[:2], heads, width)


class MixedAttention(Attention):
    """Half of the width is attention, half are convolutions: each head's kernel is a map of query × convolved key.

    Some classes hold such attention, and never run it (``reads``).

    Source: Jiang et al. 2020 (ConvBERT, arXiv 2008.02496), section 3.3; transformers' ConvBertSelfAttention.
    """

    causal: bool = False
    nearby: Nearby | None = None
    reads: bool = True

    @property
    def parts(self) -> Iterator[Module]:
        """The output last."""
        inside = () if self.nearby is None else self.nearby.parts
        return iter((*self.inward, *inside, self.output))

    def runs(self, ctx: Context) -> bool:
        """Return whether its output is read."""
        return self.reads

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for the tokens of ``x``, which see each other and convolve their neighbours."""
        assert self.nearby is not None
        query, key, value = self.inward
        k, v, q = key(x), value(x), query(x)
        a, d = self.heads, self.key_dim
        beside = self.nearby.of(x, q, a, d)
        given = [transpose(reshape(each, *x.shape[:2], a, d), 1, 2) for each in (q, k, v)]
        mixed = reshape(self.mixed(given, ctx), *x.shape[:2], a, d)
        return self.output(reshape(cat([mixed, beside], axis=2), *x.shape[:2], 2 * a * d))


class Repeated(Module):
    """Layers that run ``times`` times, one turn upon another.

    Source: Lan et al. 2019 (ALBERT, arXiv 1909.11942), section 3.1.
    """

    kind = "layer"

    layers: Stack
    times: Num

    @property
    def passes(self) -> Num:
        """Number of runs."""
        return self.times

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the layers turn by turn where it matters what is live when, else one turn for all."""
        ctx = ctx._replace(run=ctx.run.replaced(recompute="none"))  # its layers run again together, if they do
        if x.trace.every_layer:
            for _ in each_turn(self.times):
                x = self.layers(x, ctx)
            return x
        with x.trace.passes(self.times):
            return self.layers(x, ctx)


def width_of_words(c: Config) -> Num:
    """``embedding_size``, where a config has one."""
    return c.size("hidden_size" if c.get("embedding_size") is None else "embedding_size")


def summed_choice(c: Config, base: Module) -> Module:
    """One number of each sequence, of a map of the first token's vector (``summary_use_proj``)."""
    names = ("sequence_summary.summary", "classifier") if c.flag("summary_use_proj") else ("classifier",)
    return encoders.dense_classes(names, 1, act="gelu", dropped="")(c, base)


ALBERT_PREDICTIONS = encoders.predictions("predictions", ("dense", "LayerNorm", "decoder"), width="embedding_size")
DROPPED = "classifier_dropout_prob"
ALBERT_TOPS: dict[str, Top] = {
    **encoders.TASKS,
    **encoders.lm(ALBERT_PREDICTIONS),
    "ForSequenceClassification": encoders.classes("classifier", reads=POOLED, dropped=DROPPED),
    "ForMultipleChoice": encoders.classes("classifier", 1, reads=POOLED, dropped=DROPPED),
    "ForPreTraining": encoders.pretraining(ALBERT_PREDICTIONS, "sop_classifier.classifier", None),
}
GROUPED = ("num_hidden_layers", "num_hidden_groups")


@family("albert", heads=ALBERT_TOPS)
def albert(c: Config) -> Module:
    """Lan et al. 2019 (arXiv 1909.11942): one group of layers (``num_hidden_groups``) is run again and again."""
    e, h, n, groups = c.size("embedding_size"), c.size("hidden_size"), *map(c.number, GROUPED)
    runs = Counter(layer * groups // n for layer in range(n))
    inner = Stack("albert_layers", (albert_layer(c),) * c.number("inner_group_num"), c.size("inner_group_num"))

    times = [runs[index] for index in range(groups)]

    def group(turns: int) -> Module:
        return Repeated("albert_layer_groups", inner, c.quotient(*GROUPED) if len(set(times)) == 1 else turns)

    repeated = Stack("albert_layer_groups", tuple(one_module_per_kind(group, times)), c.size("num_hidden_groups"))
    widen = Linear("embedding_hidden_mapping_in", e, h, "", True)
    pooler = encoders.pooler(c, PAIRED, "pooler")
    return Encoder(
        "albert", narrow(c), (), Layers("encoder", (widen,), repeated), pooler=pooler, pools=c.head in PAIRED
    )


def albert_layer(c: Config) -> PostNorm:
    """Attention and a network, whose names do not tell what they are."""
    mixer = encoders.attention(c, names=("query", "key", "value", "dense"))
    ffn, norms = encoders.network(c, names=("ffn", "ffn_output")), ("attention.LayerNorm", "full_layer_layer_norm")
    made = tuple(encoders.norm(c, name) for name in norms)
    return PostNorm("albert_layers", (mixer, ffn), made, encoders.drops(c), undropped=("(ffn)",))


GENERATOR_TOPS: dict[str, Top] = {
    **encoders.TASKS,
    **encoders.apart(
        ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head"),
        width="embedding_size",
        act="gelu",
    ),
    "ForSequenceClassification": encoders.dense_classes(act="gelu"),
    "ForMultipleChoice": summed_choice,
    "ForPreTraining": encoders.dense_classes(
        ("discriminator_predictions.dense", "discriminator_predictions.dense_prediction"),
        1,
        reads=TOKENS,
        dropped="",
        act="",
    ),
}


def narrow(c: Config, width: Num | None = None, indices: str = "") -> Embeddings:
    """Words, positions and token types of a width of their own."""
    e = width_of_words(c) if width is None else width
    indices = indices or (PLACES if width is None else EVERY)
    return encoders.embeddings(
        c, encoders.positions(c, width=e), encoders.token_types(c, width=e, indices=indices), width=e
    )


def to_hidden(c: Config) -> tuple[Linear, ...]:
    """The map to the hidden size, where the widths differ."""
    if c.get("embedding_size") is None or c.number("embedding_size") == c.number("hidden_size"):
        return ()
    return (Linear("embeddings_project", c.size("embedding_size"), c.size("hidden_size"), "", True),)


@family("electra", architecture="ElectraForPreTraining", heads=GENERATOR_TOPS)
def electra(c: Config) -> Module:
    """Clark et al. 2020 (arXiv 2003.10555): BERT without a pooler; it tells real words from those of a generator."""
    memory = encoders.cross_attention(c, readers=("Model", "ForCausalLM"))
    layers = encoders.stack(c, encoders.attention(c), cross=memory)
    return Encoder("electra", narrow(c), to_hidden(c), Layers("encoder", (), layers))


CONVBERT_TOPS: dict[str, Top] = {
    **{name: top for name, top in GENERATOR_TOPS.items() if name != "ForPreTraining"},
    "ForSequenceClassification": encoders.dense_classes(act=""),
}


@family("convbert", heads=CONVBERT_TOPS)
def convbert(c: Config) -> Module:
    """Jiang et al. 2020 (arXiv 2008.02496): half of each layer's heads are convolutions; none reads a memory."""
    memory = mixed_attention("crossattention", c).replace(reads=False) if encoders.cross_attention(c) else None
    for width in ("hidden_size", "intermediate_size"):
        c.quotient(width, "num_groups")
    groups, ffn = c.size("num_groups"), encoders.network(c)
    if c.number("num_groups") > 1:
        up, down = (GroupedLinear(m.name, m.fan_in, m.fan_out, "", True, groups=groups) for m in (ffn.up, ffn.down))
        ffn = ffn.replace(up=up, down=down)
    layers = encoders.stack(c, mixed_attention("attention", c), ffn=ffn, cross=memory)
    return Encoder("convbert", narrow(c, indices=BUFFER), to_hidden(c), Layers("encoder", (), layers))


def mixed_attention(name: str, c: Config) -> MixedAttention:
    """Attention of a part of the heads (one for every ``head_ratio``), beside convolutions."""
    heads = max(c.number("num_attention_heads") // c.number("head_ratio"), 1)
    if c.number("hidden_size") % (2 * heads):
        raise InvalidModel(
            f"{c.path('hidden_size')} {c.number('hidden_size')} is not divisible by 2 × {heads} heads",
            "give a multiple of it",
        )
    h, k = c.size("hidden_size"), c.size("conv_kernel_size")
    d = floor_div(h, 2 * heads)
    half, conv = heads * d, "self.key_conv_attn_layer"
    inward = tuple(Linear(f"self.{part}", h, half, part[0].upper(), True) for part in ("query", "key", "value"))
    return MixedAttention(
        name,
        heads,
        heads,
        d,
        d,
        inward,
        (),
        Linear("output.dense", h, h, "O", True),
        dropout=bool(c.get("attention_probs_dropout_prob")),
        eager=OWN_SOFTMAX,
        nearby=Nearby(
            "",
            ChannelConvolution(f"{conv}.depthwise", h, k),
            GroupedMap(f"{conv}.pointwise", h, half),
            parameter(f"{conv}.bias", half, 1, minor=True),
            Linear("self.conv_kernel_layer", half, heads * k, "", True),
            Linear("self.conv_out_layer", h, half, "", True),
            k,
        ),
    )


def rembert_predictions(c: Config) -> Predictions:
    """Logits by a matrix of its own."""
    e, kind = c.size("output_embedding_size"), c.word("hidden_act")
    dense = Linear("dense", c.size("hidden_size"), e, "", True)
    decoder = Linear("decoder", e, c.size("vocab_size"), "vocab", True, None, "output")
    return Predictions("cls.predictions", dense, encoders.norm(c, "LayerNorm", e), decoder, None, kind)


@family("rembert", heads=encoders.TASKS | encoders.lm(rembert_predictions))
def rembert(c: Config) -> Module:
    """Chung et al. 2020 (arXiv 2010.12821): narrow words at the input, wide ones at the output, never tied."""
    e = c.size("input_embedding_size")
    widen = Linear("embedding_hidden_mapping_in", e, c.size("hidden_size"), "", True)
    layers = Layers("encoder", (widen,), encoders.stack(c, encoders.attention(c), cross=encoders.cross_attention(c)))
    return Encoder("rembert", narrow(c, e), (), layers, pooler=encoders.pooler(c, PAIRED), pools=c.head in PAIRED)


def of_narrow_words(c: Config) -> Predictions:
    """Logits by the words' own vectors, however wide these are."""
    return encoders.predicted("cls.predictions", c, width_of_words(c))


ROFORMER_TOPS: dict[str, Top] = {
    **encoders.TASKS,
    **encoders.lm(of_narrow_words),
    "ForSequenceClassification": encoders.dense_classes(act=""),
    "ForMultipleChoice": summed_choice,
    "ForQuestionAnswering": encoders.ANSWER,
}


@family("roformer", heads=ROFORMER_TOPS)
def roformer(c: Config) -> Module:
    """Su et al. 2021 (arXiv 2104.09864): rotary positions; their sines are a parameter, though not trained."""
    e, d = width_of_words(c), c.quotient("hidden_size", "num_attention_heads")
    sines = AngleTable("embed_positions", c.size("max_position_embeddings"), d)
    layers = encoders.stack(
        c, encoders.attention(c, rope=Rope(d, RopeCode(by_layer=True))), cross=encoders.cross_attention(c)
    )
    words = encoders.embeddings(c, encoders.token_types(c, width=e, indices=EVERY), width=e)
    return Encoder("roformer", words, to_hidden(c), Layers("encoder", (sines,), layers))
