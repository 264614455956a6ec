"""T5 and its variants: positions are a bias of the attention scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, classifier, logits
from tfcalc.core.number import Num, Pairs, ceil_div, floor_div
from tfcalc.core.traced import value_of
from tfcalc.nn.attention import OWN_SOFTMAX, Attention, CrossAttention, attentions
from tfcalc.nn.basic import Embedding, Norm
from tfcalc.nn.encoder_decoder import EncoderAlone, EncoderDecoder, EncoderStack, Open
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Networks, Router, RouterCode, Switch
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Context, Module
from tfcalc.nn.positions import RelativeBias
from tfcalc.nn.stack import around
from tfcalc.ops.attention import attend
from tfcalc.ops.einsum import einsum
from tfcalc.ops.elementwise import add, added_in_place, dropout, dropping
from tfcalc.ops.rows import looked_up, softmax
from tfcalc.ops.shapes import beside, cat, contiguous, copied, pad, part, permute, reshape, transpose, unsqueeze
from tfcalc.tape.tensor import Call, Leaf, MatMul, Tensor
from tfcalc.workload import Sequences
from tfcalc.zoo.blocks import encoder_decoders, layers
from tfcalc.zoo.blocks.encoders import MASKED
from tfcalc.zoo.blocks.layers import gated, multi_head, stack


class LocalAttention(Attention):
    """A token sees its block of ``block`` tokens, and the blocks before and after it; the last one is filled up.

    With ``summarised``, it also sees a normed sum of every ``summarised`` tokens, whose keys and values the same maps
    make.
    Whatever kernel is asked for, the products are the program's own.

    Source: Guo et al. 2021 (arXiv 2112.07916), section 3.1; transformers' LongT5TransientGlobalAttention.
    """

    causal: bool = False
    block: int = 1
    summarised: int | None = None
    summary_norm: Norm | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for ``x``, of b × l × h."""
        summaries = self._summaries(x, ctx)
        if not x.trace.emits_kernels:  # counted by pairs; a program pads and copies blocks
            return self._counted(x, summaries, ctx)
        q, k, v = (self._by_head(each(x)) for each in self.inward)
        side = [] if summaries is None else [self._by_head(each(summaries)) for each in self.inward[1:]]

        def mixed(*given: Tensor) -> Tensor:
            return self._mixed(given, ctx)

        again = ctx.run.recompute == "selective"
        made = x.trace.checkpoint(mixed, q, k, v, *side) if again else mixed(q, k, v, *side)
        return self.output(part(made, 1, x.shape[1]))

    def pairs(self, ctx: Context) -> Pairs:
        """Pairs of queries with the keys of blocks, and of summaries."""
        length = ctx.stream.length
        queries = Sequences(ctx.stream.batch, ceil_div(length, self.block) * self.block)
        keys = Sequences(ctx.stream.batch, 3 * self.block + self.count(ctx))
        return ctx.run.pairs(queries, keys, causal=False)

    def count(self, ctx: Context) -> Num:
        """Number of summaries."""
        return 0 if self.summarised is None else floor_div(ctx.stream.length, self.summarised)

    def _summaries(self, x: Tensor, ctx: Context) -> Tensor | None:
        """``P X`` with a fixed P that says which vectors of a sequence each sum is made of: ``2·b·m·l·h`` FLOPs."""
        if self.summary_norm is None:
            return None
        trace, (b, l, h), count = x.trace, x.shape, self.count(ctx)
        product = MatMul("P X", (2, b, count, l, h), (x,))
        call = Call("einsum", (x,), (b, count, h), x.dtype, products=(product,), leaf=Leaf("global_inputs", "pool"))

        def code() -> Tensor:
            return einsum("bnd,bng->bgd", x, trace.new((b, l, count), x.dtype, "which sum"))

        return self.summary_norm(trace.composite(call, code), ctx)

    def _counted(self, x: Tensor, summaries: Tensor | None, ctx: Context) -> Tensor:
        b, l, h = x.shape
        read = x if summaries is None else beside([x, summaries], (b, l + self.count(ctx), h))
        made = (each(one) for each, one in zip(self.inward, (x, read, read), strict=True))
        q, k, v = (transpose(self._by_head(each), 1, 2) for each in made)
        pairs = self.pairs(ctx)
        mixed = attend(q, k, v, pairs, lambda: q)
        if self.dropout and ctx.drops:
            x.trace.count(dropping(mixed, self.heads * pairs.scores, "attend_dropout"))
        return self.output(reshape(transpose(mixed, 1, 2), b, l, self.heads * self.value_dim))

    def _by_head(self, x: Tensor) -> Tensor:
        return reshape(x, *x.shape[:2], self.heads, self.key_dim)

    def _mixed(self, given: tuple[Tensor, ...], ctx: Context) -> Tensor:
        """Attend by blocks, for q, k and v of b × l × a × d; the output is as long as the blocks."""
        assert ctx.bias is not None
        q, k, v, *side = given
        trace, blocks = q.trace, ceil_div(q.shape[1], self.block)
        q, k, v = (in_blocks(each, 1, blocks, self.block) for each in (q, k, v))
        k, v = _neighbours(k), _neighbours(v)
        if side:
            k, v = (cat([each, _tiled(one, blocks)], 2) for each, one in zip((k, v), side, strict=True))
        scores = added_in_place(einsum("bnqhd,bnkhd->bnhqk", q, k), ctx.bias)
        p = trace.to(softmax(trace.to(scores, "float32")), scores.dtype)
        p = dropout(p, "attend_dropout") if self.dropout and ctx.drops else p
        made = contiguous(einsum("bnhqk,bnkhd->bnqhd", trace.to(p, v.dtype), v))
        return reshape(made, made.shape[0], blocks * self.block, self.heads * self.value_dim)


def in_blocks(x: Tensor, axis: int, blocks: Num, size: int) -> Tensor:
    """Cut an axis into ``blocks`` blocks, the last one padded."""
    whole = blocks * size
    x = x if value_of(whole) == value_of(x.shape[axis]) else pad(x, axis, whole)
    return reshape(x, *x.shape[:axis], blocks, size, *x.shape[axis + 1 :])


def _neighbours(x: Tensor) -> Tensor:
    """Return each block beside the ones before and after it, for ``x`` of b × n × block × a × d."""
    blocks = x.shape[1]
    wider = pad(x, 1, blocks + 2)
    return cat([part(wider, 1, blocks) for _ in range(3)], 2)


def _tiled(x: Tensor, blocks: Num) -> Tensor:
    """Copy ``x`` for each block."""
    return copied(x, (x.shape[0], blocks, *x.shape[1:]), "repeat")


class LocalStack(EncoderStack):
    """An encoder whose layers share the biases of near distances, and those of how far summaries are, where it has any.

    Masks are numbers that are added to them, in fp32.
    """

    near: RelativeBias | None = None
    far: RelativeBias | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The tables of biases behind that of words."""
        table, *others = super().parts
        return iter(each for each in (table, self.near, self.far, *others) if each is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the encoder's output for token ids."""
        if x.trace.emits_kernels:  # biases of whole blocks, whose number is known there; they move no product
            mixer = next(each for each in attentions(self.layers) if isinstance(each, LocalAttention))

            def biases(ids: Tensor) -> Tensor:
                return self._biases(ids, mixer, ctx)

            ctx = ctx._replace(bias=x.trace.checkpoint(biases, x) if ctx.run.every else biases(x))
        return super().forward(x, ctx)

    def _biases(self, ids: Tensor, mixer: LocalAttention, ctx: Context) -> Tensor:
        """Return the biases of the scores, of b × n × a × block × keys."""
        trace, (b, l) = ids.trace, ids.shape
        size, blocks = mixer.block, ceil_div(l, mixer.block)
        assert self.near is not None
        made = _rows(self.near, trace.new((size, 3 * size), "int64", "buckets"))
        made = unsqueeze(unsqueeze(permute(made, (2, 0, 1)), 0), 0)
        made = add(made, trace.new((b, blocks, 1, size, 3 * size), "float32", "mask"))
        if self.far is None:
            return made
        count = mixer.count(ctx)
        far = permute(_rows(self.far, trace.new((b, l, count), "int64", "buckets")), (0, 3, 1, 2))
        far = in_blocks(add(trace.new((b, 1, l, count), "float32", "mask"), far), 2, blocks, size)
        far = trace.to(transpose(far, 1, 2), trace.compute)
        return cat([trace.to(made, trace.compute), far], -1)


def _rows(table: RelativeBias, places: Tensor) -> Tensor:
    with places.trace.inside(table):
        (weight,) = table.own_params().weights
        return looked_up(places.trace.weight(weight), places)


MakeNetworks = Callable[[Config, str], Sequence[Module]]
"""Makes the networks of a stack's layers, of the config and the stack's name."""
NAMES = ("q", "k", "v", "o")
ENCODER_ONLY = ("EncoderModel", "ForTokenClassification")


def drops(c: Config) -> bool:
    """Return whether embeddings, scores, networks and outputs have dropout."""
    return bool(c.get("dropout_rate"))


def network(c: Config) -> FeedForward | GatedFeedForward:
    """The feed-forward network; ``feed_forward_proj`` says its activation, and with ``gated-`` before it its gate."""
    gate, _, kind = c.word("feed_forward_proj").rpartition("-")
    gates = c.flag("is_gated_act") if c.has("is_gated_act") else gate == "gated"
    kind = "gelu_new" if (gate, kind) == ("gated", "gelu") else kind
    if not gates:
        return plain("DenseReluDense", c, kind)
    h, f, drop = c.size("d_model"), c.size("d_ff"), drops(c)
    return gated("DenseReluDense", ("wi_0", "wi_1", "wo"), h, f, kind, dropout=drop, as_weights=True)


def plain(name: str, c: Config, kind: str) -> FeedForward:
    """A network without a gate."""
    h, f, drop = c.size("d_model"), c.size("d_ff"), drops(c)
    return layers.network(name, ("wi", "wo"), h, f, kind, bias=False, dropout=drop, as_weights=True)


def attention(c: Config, name: str, of: type[Attention] = Attention, **more: Any) -> Attention:
    """Attention without biases; the heads together need not be as wide as the model."""
    h, a, d = c.size("d_model"), c.size("num_heads"), c.size("d_kv")
    return multi_head(of, name, NAMES, h, a, d, dropout=drops(c), eager=OWN_SOFTMAX, **more)


def norm(c: Config, name: str) -> Norm:
    """T5LayerNorm, of the model's width."""
    return Norm(name, "rmsnorm", c.size("d_model"), "t5")


def relative(c: Config, name: str = "relative_attention_bias") -> RelativeBias:
    """Bias that is added to a score, by head and by the distance of the two tokens, in buckets."""
    return RelativeBias(name, c.size("relative_attention_num_buckets"), c.size("num_heads"))


def layer(c: Config, *sublayers: Module) -> PreNorm:
    """Layer with a norm before each sub-layer."""
    named = tuple(each.replace(name=f"layer.{place}.{each.name}") for place, each in enumerate(sublayers))
    return PreNorm(
        "block", named, tuple(norm(c, f"layer.{place}.layer_norm") for place in range(len(sublayers))), drops(c)
    )


def half(
    c: Config,
    side: str,
    of: type[Decoder],
    mixers: Sequence[Attention],
    networks: MakeNetworks,
    *,
    everywhere: bool = False,
    tied: bool = True,
    table: str = "SelfAttention",
) -> Decoder:
    """Encoder or decoder stack.

    All layers share the first one's ``table`` of distances, unless they have one each (``everywhere``).
    """
    made = stack(c, around(lambda ffn: layer(c, *mixers, ffn), networks(c, side)), depth(c, side))
    bias = None if everywhere else relative(c, f"block[0].layer.0.{table}.relative_attention_bias")
    words = Embedding("embed_tokens", c.size("vocab_size"), c.size("d_model"), "shared" if tied else None)
    last = norm(c, "final_layer_norm")
    return of(side, words, made, last, dropped=drops(c), relative=bias, drops_output=drops(c))


def depth(c: Config, side: str) -> str:
    """The field with the number of layers: the decoder's are as many as the encoder's unless told otherwise."""
    return "num_layers" if side == "encoder" or c.get("num_decoder_layers") is None else "num_decoder_layers"


def equal_networks(c: Config, side: str) -> list[Module]:
    """A dense network for each layer."""
    return [network(c)] * c.number(depth(c, side))


def seq2seq(
    c: Config,
    networks: MakeNetworks = equal_networks,
    *,
    everywhere: bool = False,
    tied: bool = True,
    mixer: Attention | None = None,
) -> Module:
    """Shared table of words, encoder, and decoder where the head needs one.

    ``networks`` makes those of a stack's layers. The encoder may have a ``mixer`` of its own. ``tied`` tables of words
    are one.
    """
    own = relative(c) if everywhere else None
    table = Embedding("shared", c.size("vocab_size"), c.size("d_model"))
    looks = attention(c, "SelfAttention", causal=False, table=own) if mixer is None else mixer
    encoder = half(c, "encoder", EncoderStack, [looks], networks, everywhere=everywhere, tied=tied, table=looks.name)
    if c.head in ENCODER_ONLY:
        return EncoderAlone("transformer", table, encoder)
    reader = attention(c, "EncDecAttention", CrossAttention, adds_zeros=everywhere)
    mixers = attention(c, "SelfAttention", table=own), reader
    decoder = half(c, "decoder", Decoder, mixers, networks, everywhere=everywhere, tied=tied)
    return EncoderDecoder("transformer", table, encoder, decoder)


def generation(*, scaled: bool, always: bool = False) -> Top:
    """Logits by the table of words, or (T5 1.1 and later) by a matrix of their own.

    They are made of a multiple: where the config says so, or the table of words makes them, or ``always``.
    """

    def top(c: Config, base: Module) -> Module:
        tied, given = c.flag("tie_word_embeddings"), c.get("scale_decoder_outputs")
        head = logits("lm_head", c.size("d_model"), c.size("vocab_size"), tied=tied)
        times = always or (scaled and bool(tied if given is None else given))
        return Open("", base, head, scaled=times, **MASKED)

    return top


def spans(c: Config, base: Module) -> Module:
    """Logits of where the answer begins and ends."""
    made = classifier("qa_outputs", width="d_model", bias=True)(c, base)
    return Open("", base, made.head)  # type: ignore[attr-defined]  # it is one with a head


UNSCALED: dict[str, Top] = {
    "Model": bare,
    "EncoderModel": bare,
    "ForConditionalGeneration": generation(scaled=False),
    "ForSequenceClassification": encoder_decoders.sentence(),
    "ForTokenClassification": classifier("classifier", width="d_model", bias=True),
    "ForQuestionAnswering": spans,
}
ALWAYS = UNSCALED | {"ForConditionalGeneration": generation(scaled=True, always=True)}
HEADS = UNSCALED | {"ForConditionalGeneration": generation(scaled=True)}


ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "head_dim": "d_kv",
}
LONG_HEADS = {name: HEADS[name] for name in ("Model", "EncoderModel", "ForConditionalGeneration")}


@family(
    "t5",
    heads=HEADS,
    tie_word_embeddings=True,  # forced by __post_init__
)
def t5(c: Config) -> Module:
    """Raffel et al. 2019 (arXiv 1910.10683); 1.1 and Flan-T5 have a gate, and an output matrix of their own.

    transformers 5 ties that matrix all the same, but loads the published one: ``tie_word_embeddings`` decides here.
    """
    return seq2seq(c)


@family("mt5", heads=UNSCALED)
def mt5(c: Config) -> Module:
    """Xue et al. 2020 (arXiv 2010.11934): T5 1.1 with more words."""
    return seq2seq(c)


@family(
    "umt5",
    heads=ALWAYS,
    tie_word_embeddings=True,  # forced by __post_init__
)
def umt5(c: Config) -> Module:
    """Chung et al. 2023 (arXiv 2304.09151): a table of relative positions in each layer."""
    return seq2seq(c, everywhere=True)


@family("longt5", heads=LONG_HEADS)
def longt5(c: Config) -> Module:
    """Guo et al. 2021 (arXiv 2112.07916): the encoder sees what is near, and summaries of blocks of the rest.

    A block is the token itself and as many as ``local_radius`` says.
    """
    far = c.word("encoder_attention_type", ("local", "transient-global")) != "local"
    name = "TransientGlobalSelfAttention" if far else "LocalSelfAttention"
    mixer = attention(c, name, LocalAttention, causal=False, block=c.number("local_radius") + 1)
    if far:
        normed = norm(c, "global_input_layer_norm")
        mixer = mixer.replace(summarised=c.number("global_block_size"), summary_norm=normed)
    whole = seq2seq(c, mixer=mixer)
    assert isinstance(whole, EncoderDecoder | EncoderAlone)
    assert isinstance(whole.encoder, Decoder)
    table = f"block[0].layer.0.{name}.global_relative_attention_bias"
    everywhere = relative(c, table) if far else None
    own = whole.encoder.as_type(LocalStack, near=whole.encoder.relative, far=everywhere, relative=None)
    return whole.replace(encoder=own)


@family("switch_transformers", heads=UNSCALED | {"ForConditionalGeneration": generation(scaled=True)})
def switch_transformers(c: Config) -> Module:
    """Fedus et al. 2021 (arXiv 2101.03961): in every k-th layer, one of many networks for each token."""
    return seq2seq(c, _sometimes_experts, tied=c.flag("tie_word_embeddings"))


def _sometimes_experts(c: Config, side: str) -> list[Module]:
    """The second layer has experts, and each that is ``step`` after it."""
    dense, h, count = plain("mlp", c, c.word("dense_act_fn")), c.size("d_model"), c.size("num_experts")
    experts = dense.as_type(Networks, name="experts", count=count)
    code = RouterCode(logits="copies", format="float32", result="stream")
    router = Router("router.classifier", h, count, bias=c.flag("router_bias"), code=code)
    switch = Switch("mlp", router, experts, bool(c.get("router_jitter_noise")))
    layers, some = c.number(depth(c, side)), c.number(f"num_sparse_{side}_layers", least=0)
    step = (
        c.number(f"{side}_sparse_step", least=0) if c.has(f"{side}_sparse_step") else layers // some if some else layers
    )
    return [switch if step == 1 or (step > 0 and place % step == 1) else dense for place in range(layers)]
