"""T5Gemma: a Gemma that reads, and a Gemma that writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import labels
from tfcalc.core.component import Cached, Weight
from tfcalc.core.number import Num, Pairs
from tfcalc.nn.attention import Attention, CrossAttention
from tfcalc.nn.basic import Embedding, Linear, Norm, Parameter, parameter
from tfcalc.nn.encoder_decoder import EncoderDecoder, EncoderOnly, EncoderStack
from tfcalc.nn.layers import Sandwich
from tfcalc.nn.model import Decoder, ModelWithHead, Predictions
from tfcalc.nn.module import Context, Module
from tfcalc.nn.positions import Rope, RopeCode
from tfcalc.ops.attention import rotary
from tfcalc.ops.select import put_in_place
from tfcalc.ops.shapes import beside, cat, merge_heads, narrow, reshape, transpose
from tfcalc.ops.work import by_token
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.decoders import head_dim, kv_heads
from tfcalc.zoo.blocks.gemma import CODE
from tfcalc.zoo.blocks.layers import LLAMA_NAMES, full_and_sliding, multi_head, one_module_per_kind, stack, windows
from tfcalc.zoo.blocks.vision_language import Projector, VisionLanguageModel, tower

END_OF_IMAGE = "end of image"
"""What the vector of the word that ends an image is called, which two stacks may share."""


class MergedAttention(Attention):
    """Queries of the stream see its keys and those of the context's ``memory``, which the same maps make.

    Only the stream's own are turned by their positions. Of both all are counted and cached, whatever the window.

    Source: transformers' T5Gemma2MergedAttention (arXiv 2512.14856).
    """

    def sees(self, ctx: Context) -> Sequences:
        """The stream, and what the encoder read."""
        assert ctx.memory is not None
        stream, memory = ctx.stream, ctx.memory.of
        return Sequences(stream.batch, stream.length + memory.length, stream.seen + memory.seen)

    def pairs(self, ctx: Context) -> Pairs:
        """Pairs of query and key, without the window."""
        return ctx.run.pairs(ctx.stream, self.sees(ctx), causal=self.causal)

    def cached(self, ctx: Context) -> tuple[Cached, ...]:
        """Cache entries: keys and values of both sequences, without a window."""
        made = {"K": self.key_dim, "V": self.value_dim}
        return by_token(ctx.stream, self.sees(ctx), self.kv_heads, made, causal=self.causal)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for ``x``, of b × l × h, over itself and the memory."""
        assert ctx.memory is not None
        if not x.trace.emits_kernels:  # two attentions to the mathematics; a program puts the keys of both side by side
            return self._counted(x, ctx.memory.vectors, ctx)
        q, k, v = self.project(x, x, ctx)
        if self.rope is not None:
            q, k = rotary(q, k, self.rope.width, lambda: ctx.backend.rotate(q, k, self, ctx))
        keys, values = (each(ctx.memory.vectors) for each in self.inward[1:])
        keys = self.norm_heads(keys, 1, self.kv_heads, ctx)
        values = reshape(values, *keys.shape[:3], self.value_dim)
        k, v = cat([k, transpose(keys, 1, 2)], 2), cat([v, transpose(values, 1, 2)], 2)
        return self.output(merge_heads(self.attend(q, k, v, ctx), self.heads * self.value_dim))

    def _counted(self, x: Tensor, memory: Tensor, ctx: Context) -> Tensor:
        keys = self.sees(ctx)
        read = beside([x, memory], (keys.batch, keys.length, x.width))
        q, k, v = self.project(x, read, ctx)
        if self.rope is not None:
            rotary(q, narrow(k, x.shape[1], 2), self.rope.width, lambda: (q, k))
        return self.output(merge_heads(self.attend(q, k, v, ctx), self.heads * self.value_dim))


class MarkedDecoder(Decoder):
    """A stack that puts a vector of its own in the place of the word that ends an image (``marked``).

    Without one it has that of the stack which ran before.
    """

    marked: Parameter | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The vector behind the table."""
        table, *others = super().parts
        return iter(each for each in (table, self.marked, *others) if each is not None)

    def embed_tokens(self, x: Tensor, ctx: Context) -> Tensor:
        """Look up the vectors, and replace those of the word that ends an image."""
        words = super().embed_tokens(x, ctx)
        if self.marked is not None:
            x.trace.forget(END_OF_IMAGE)
            x.trace.alias(END_OF_IMAGE, self.marked.weight(x.trace))
        vector = x.trace.weight(Weight("E", (words.width,), tied_to=END_OF_IMAGE))
        return put_in_place(words, x.trace.to(vector, words.dtype), x.trace.new(x.shape, "bool", "end of image"))


class TextStack(MarkedDecoder):
    """The one that reads the source."""

    kind = "text_model"


class MergedDecoder(MarkedDecoder):
    """The one that reads what the other has made: its masks let all of that be seen."""

    def begun(self, words: Tensor, ctx: Context) -> Context:
        """Return the context, with masks of all keys."""
        ctx = super().begun(words, ctx)
        assert ctx.memory is not None
        length, masks = ctx.memory.of.length, {}
        for window, mask in ctx.masks.items():
            further = words.trace.new((*mask.shape[:-1], length), mask.dtype, "mask")
            masks[window] = cat([mask, further], -1)
            words.trace.belongs(masks[window])
        return ctx._replace(masks=masks)


class SeeingEncoder(VisionLanguageModel):
    """An encoder of text that reads images, too."""

    kind = "encoder"

    @property
    def parts(self) -> Iterator[Module]:
        """The text first."""
        return iter((self.text, self.tower, *self.between))


Made = TypeVar("Made", bound=Decoder)
Marked = TypeVar("Marked", bound=MarkedDecoder)
ENCODER = "encoder"
"""What the encoder's table of words is called by those that share it."""
ENCODER_ONLY = "EncoderModel"
MODULE = {
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "attention_bias": False,
    "sliding_window": 4096,
}
OF_EACH = ("vocab_size", "attn_logit_softcapping", "final_logit_softcapping")
"""Defaults of both stacks that the two generations differ in."""
IMAGES = {"mm_tokens_per_image": 256}


def side(c: Config, name: str) -> Config:
    """The nested config of the ``encoder`` or the ``decoder``."""
    return c.sub(name, defaults=stack_of(c))


def stack_of(c: Config) -> dict[str, object]:
    """The defaults of a stack."""
    return MODULE | {name: c.defaults[name] for name in OF_EACH if name in c.defaults}


def mixer(
    c: Config,
    whole: Config,
    name: str,
    of: type[Attention] = Attention,
    *,
    read: Num | None = None,
    **more: Any,
) -> Attention:
    """Gemma's attention; keys and values may be made of vectors of another width (``read``), and are not rotated then.

    Probabilities of dropout are those of the ``whole``.
    """
    h, a, g, d = c.size("hidden_size"), c.size("num_attention_heads"), kv_heads(c), head_dim(c)
    made = multi_head(of, name, LLAMA_NAMES, h, a, d, groups=g, source=read, bias=c.flag("attention_bias"), **more)
    rope, caps = Rope(d) if read is None else None, c.get("attn_logit_softcapping") is not None
    return made.replace(rope=rope, capped=caps, dropout=bool(whole.get("attention_dropout")))


def layer(c: Config, whole: Config, *mixers: Attention) -> Module:
    """A norm before and after each mixer of tokens, and the feed-forward network."""
    drops, sublayers = bool(whole.get("dropout_rate")), (*(one.name for one in mixers), "feedforward")
    ffn = decoders.gated(c, act="hidden_activation").replace(dropout=drops)
    places = [f"{when}_{each}_layernorm" for each in sublayers for when in ("pre", "post")]
    return decoders.layer(c, *mixers, ffn, of=Sandwich, names=places, code=CODE, dropped=drops)


def stacked(
    c: Config, whole: Config, name: str, of: type[Made], layers: Module | Sequence[Module], scale: str, **more: Any
) -> Made:
    """Encoder or decoder, whose vectors of words are multiplied by a number, perhaps one of the format ``scale``."""
    h, drops = c.size("hidden_size"), bool(whole.get("dropout_rate"))
    words, last = Embedding("embed_tokens", c.size("vocab_size"), h), Norm("norm", "rmsnorm", h, CODE)
    made = of(name, words, stack(c, layers), last, **more)
    return made.replace(scales=True, scale=scale, dropped=drops, drops_output=drops)


def logits(c: Config, base: Module) -> Module:
    """Logits by the decoder's table of words, or a matrix of their own."""
    inner, tied = side(c, "decoder"), c.flag("tie_word_embeddings")
    made = tops.logits("out_proj", inner.size("hidden_size"), inner.size("vocab_size"), tied=tied)
    caps = inner.get("final_logit_softcapping") is not None
    return ModelWithHead("", base, Predictions("lm_head", None, None, made), capped=caps, shifted=False)


def scores(c: Config, base: Module) -> Module:
    """Classes of the decoder's vectors; of the encoder's, where there is no decoder."""
    inner = side(c, "decoder" if c.flag("is_encoder_decoder") else "encoder")
    made = Linear("out_proj", inner.size("hidden_size"), labels(c), "", True)
    return ModelWithHead("", base, Predictions("score", None, None, made))


@family(
    "t5gemma",
    heads={
        "Model": tops.bare,
        ENCODER_ONLY: tops.bare,
        "ForConditionalGeneration": logits,
        "ForSequenceClassification": scores,
        "ForTokenClassification": scores,
    },
    vocab_size=256000,  # of each of its stacks, as what follows
    attn_logit_softcapping=50.0,
    final_logit_softcapping=30.0,
)
def t5gemma(c: Config) -> Module:
    """T5Gemma (arXiv 2504.06225): the two may differ in size, and have a table of words each."""
    reads, alone = side(c, "encoder"), "Classification" in c.head and not c.flag("is_encoder_decoder")
    one = layer(reads, c, mixer(reads, c, "self_attn", causal=False))
    encoder = stacked(reads, c, "encoder", EncoderStack, one, "float64")
    if c.head == ENCODER_ONLY or alone:
        return EncoderOnly("model", encoder)
    writes = side(c, "decoder")
    reader = mixer(writes, c, "cross_attn", CrossAttention, read=reads.size("hidden_size"))
    one = layer(writes, c, mixer(writes, c, "self_attn"), reader)
    decoder = stacked(writes, c, "decoder", Decoder, one, "float64")
    return EncoderDecoder("model", None, encoder, decoder)


@family(
    "t5gemma2",
    heads={
        "Model": tops.bare,
        "ForConditionalGeneration": logits,
        "ForSequenceClassification": scores,
        "ForTokenClassification": scores,
    },
    vocab_size=262208,  # of each of its stacks
)
def t5gemma2(c: Config) -> Module:
    """T5Gemma 2 (arXiv 2512.14856): the encoder sees images too; the decoder reads it and itself by one attention.

    The table of words is one for both, as is the vector of the word that ends an image.
    """
    whole, writes = c.sub("encoder", defaults=IMAGES), side(c, "decoder")
    reads, tied = whole.sub("text_config", defaults=stack_of(c)), c.flag("tie_word_embeddings")
    text = marked(reads, c, "text_model", TextStack, Attention, causal=False)
    text = text.replace(table=text.table.replace(known_as=ENCODER)) if tied else text
    decoder = marked(writes, c, "decoder", MergedDecoder, MergedAttention)
    decoder = decoder.replace(table=decoder.table.replace(tied_to=ENCODER), marked=None) if tied else decoder
    return EncoderDecoder("model", None, seeing(whole, reads, text), decoder)


def marked(c: Config, whole: Config, name: str, of: type[Marked], attention: type[Attention], **more: Any) -> Marked:
    """A stack of layers with normed heads, all but every sixth of which see a window, by angles of their own."""
    h, d = c.size("hidden_size"), head_dim(c)
    norms = tuple(Norm(each, "rmsnorm", d, CODE) for each in ("q_norm", "k_norm"))

    def one(window: int | None) -> Module:
        made = mixer(c, whole, "self_attn", attention, **more)
        always = bool(window) or made.causal
        made = made.replace(norms=norms, window=window, rope=Rope(d, RopeCode(by_window=True)), capped=False)
        return layer(c, whole, made.replace(always_masked=always))

    layers = one_module_per_kind(one, windows(c, lambda place: (place + 1) % 6 != 0))
    mark = parameter("embed_tokens.eoi_embedding", h)
    return stacked(c, whole, name, of, layers, "", marked=mark, masks=full_and_sliding(c))


def seeing(whole: Config, text: Config, reads: MarkedDecoder) -> Module:
    """The encoder: a stack that reads text, an encoder of images, and a map of its averaged vectors to words."""
    images = whole.sub("vision_config", "siglip_vision_model", head="Model")
    h = images.size("hidden_size")
    steps = Norm("mm_soft_emb_norm", "rmsnorm", h, CODE), Linear("mm_input_projection", h, text.size("hidden_size"))
    between = (Projector("multi_modal_projector", steps),)
    return SeeingEncoder("encoder", tower(images), between, reads, whole.size("mm_tokens_per_image"), h)
