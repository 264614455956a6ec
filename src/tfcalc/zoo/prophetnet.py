"""ProphetNet: an encoder-decoder that guesses the next few words at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, logits, renamed
from tfcalc.core.number import Num, Pairs, product
from tfcalc.nn.attention import OWN_SOFTMAX, Attention, CrossAttention
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.embeddings import TOKENS, Positions, numbered
from tfcalc.nn.encoder_decoder import EncoderDecoder, EncoderStack
from tfcalc.nn.layers import PostNorm
from tfcalc.nn.model import Decoder, ModelWithHead
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack, each_turn
from tfcalc.ops.attention import attend
from tfcalc.ops.einsum import einsum
from tfcalc.ops.elementwise import add, dropout, dropping, scaled
from tfcalc.ops.rows import position, softmax
from tfcalc.ops.select import gathered
from tfcalc.ops.shapes import (
    beside,
    cat,
    contiguous,
    narrow,
    part,
    permute,
    reshape,
    select,
    split,
    stack,
    transpose,
    unsqueeze,
)
from tfcalc.ops.work import by_token
from tfcalc.tape.tensor import Shape, Tensor
from tfcalc.workload import Sequences
from tfcalc.zoo.blocks import layers as layer_blocks
from tfcalc.zoo.blocks.encoder_decoders import ALONE
from tfcalc.zoo.blocks.layers import network


class NgramAttention(Attention):
    """The main stream reads itself; each of ``ngram`` further streams reads the main one and itself.

    The streams follow each other. A map of each token (``distances``) gives its own bias for each of ``buckets``
    buckets of distances, for each head. No library's kernel runs it.

    Source: Qi et al. 2020 (ProphetNet, arXiv 2001.04063), section 3.2; transformers' ProphetNetNgramSelfAttention.
    """

    distances: Linear | None = None
    ngram: Num = 1
    buckets: Num = 0

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for the tokens of all streams."""
        words = ctx.run.target
        lengths = [words.length, *further(x, words.length, self.ngram)]
        query, key, value = self.inward
        q, *asking = split(self._headed(scaled(query(x))), lengths, axis=2)
        k, *keys = split(self._headed(key(x)), lengths, axis=2)
        v, *values = split(self._headed(value(x)), lengths, axis=2)
        main, *guesses = split(x, lengths, axis=1)
        if ctx.cache is not None:
            k, v = ctx.cache.update(k, v)
        made = self._main(q, k, v, self._near(main, k.shape[2]), words, ctx)
        made = self.output(reshape(transpose(made, 1, 2), x.shape[0], 1, words.length, self._width))
        ahead = self._ahead(asking, [k, *keys], [v, *values], guesses, words, ctx)
        ahead = reshape(transpose(ahead, 2, 3), x.shape[0], self.ngram, words.length, self._width)
        return reshape(cat([made, self.output(ahead)], 1), *x.shape)

    @property
    def _width(self) -> Num:
        return self.heads * self.key_dim

    def _headed(self, x: Tensor) -> Tensor:
        return contiguous(transpose(reshape(x, *x.shape[:2], self.heads, self.key_dim), 1, 2))

    # --- biases

    def _near(self, x: Tensor, seen: Num) -> Tensor:
        """Return the biases of the main stream's scores."""
        (b, length, _), a = x.shape, self.heads
        assert self.distances is not None
        made = permute(reshape(self.distances(x), b, length, self.buckets, a), (0, 3, 1, 2))
        return self._chosen(made, seen, (b, a, length, seen))

    def _far(self, x: Tensor, seen: Num) -> Tensor:
        """Return the biases of the further streams' scores, which are side by side."""
        (b, length, n, _), a = x.shape, self.heads
        assert self.distances is not None
        made = reshape(self.distances(transpose(x, 1, 2)), b, n, length, self.buckets, a)
        return self._chosen(permute(made, (0, 2, 1, 4, 3)), seen, (b, n, a, length, seen))

    def _chosen(self, made: Tensor, seen: Num, shape: Shape) -> Tensor:
        rows = product(shape[:-1])
        return reshape(gathered(reshape(made, rows, self.buckets), seen, (rows, seen)), *shape)

    # --- scores

    def _main(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, words: Sequences, ctx: Context) -> Tensor:
        pairs = ctx.run.pairs(words, words, causal=True)

        def code(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
            p = add(einsum("bntc,bncs->bnts", q, transpose(k, 2, 3)), bias)
            if not ctx.run.decoding:
                p = add(p, p.trace.given((q.shape[2], k.shape[2]), p.trace.weights_format, "mask"))
            return einsum("bntc,bncs->bnts", self._weights(p, ctx), v)

        return self._mixed("attend", code, [q, k, v, bias], pairs, ctx)

    def _ahead(
        self,
        asking: list[Tensor],
        keys: list[Tensor],
        values: list[Tensor],
        guesses: list[Tensor],
        words: Sequences,
        ctx: Context,
    ) -> Tensor:
        """Return each further stream's attention to the main one, whose keys and values come first, and to itself."""
        number, seen = words.tokens * self.ngram, words.seen + words.length
        pairs = Pairs((2, number, seen), number * seen, ctx.run.fused)
        (k, *own), (v, *further_values) = keys, values
        b, a, length, d = asking[0].shape
        if not k.trace.emits_kernels:  # the further streams are counted as one
            assert self.distances is not None
            self.distances(guesses[0])
            return self._mixed("attend_ahead", lambda *_: k, [asking[0], k, v], pairs, ctx)
        n = self.ngram
        q = stack(asking, (b, n, a, length, d))
        k = stack([cat([k, each], 2) for each in own], (b, n, a, seen, d))
        v = beside([unsqueeze(cat([v, each], 2), 2) for each in further_values], (b, a, n, seen, v.width))
        bias = self._far(stack(guesses, (b, length, n, guesses[0].width)), seen)

        def code(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
            p = add(einsum("bnhtc,bnhsc->bnhts", q, k), bias)
            if not ctx.run.decoding:
                p = add(p, p.trace.given((n, 1, length, seen), p.dtype, "mask"))
            return einsum("bnhts,bnhsc->bnhtc", self._weights(p, ctx), transpose(v, 1, 2))

        return self._mixed("attend_ahead", code, [q, k, v, bias], pairs, ctx)

    def _weights(self, p: Tensor, ctx: Context) -> Tensor:
        p = p.trace.to(softmax(p, "float32"), p.dtype)
        return dropout(p, "attend_dropout") if self.dropout and ctx.drops else p

    def _mixed(self, name: str, code: Callable[..., Tensor], given: list[Tensor], pairs: Pairs, ctx: Context) -> Tensor:
        """Attend by this ``code``; the main stream's keys and values are cached."""
        trace, words = given[0].trace, ctx.run.target
        kept = by_token(words, words, self.heads, {"K": self.key_dim, "V": self.value_dim})

        def run(*given: Tensor) -> Tensor:
            q, k, v, *_ = given
            made = attend(q, k, v, pairs, lambda: code(*given), cached=kept if name == "attend" else (), name=name)
            if self.dropout and ctx.drops:
                trace.count(dropping(made, self.heads * pairs.scores, f"{name}_dropout"))
            return made

        return trace.checkpoint(run, *given) if ctx.run.recompute == "selective" else run(*given)


def further(x: Tensor, length: Num, ngram: Num) -> list[Num]:
    """The lengths of the further streams; where operations are counted they are one."""
    return [length for _ in each_turn(ngram, "streams")] if x.trace.emits_kernels else [length * ngram]  # likewise


class NgramDecoder(Decoder):
    """A decoder whose layers read a stream of words, and behind it ``ngram`` streams of guesses.

    A guess is at the next place, and begins as the vector of its stream and of that place.
    """

    guesses: Embedding | None = None
    ngram: Num = 1

    @property
    def parts(self) -> Iterator[Module]:
        """The table of guesses behind the other tables."""
        parts = (self.table, *self.added, self.guesses, self.normed, self.layers)
        return (each for each in parts if each is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the vectors of all streams, of b × (1 + n)·l × h, for token ids."""
        (b, length), trace = x.shape, x.trace
        (places,) = self.added
        main = add(self.embed_tokens(x, ctx), places(x, ctx))
        streams = [main, *self._guessing(x)]
        every = Sequences(b, length * (self.ngram + 1))
        ctx = ctx._replace(stream=every)
        masks = [  # and the buckets of distances, until the end
            trace.new((length, length), main.dtype, "mask"),
            trace.new((self.ngram, length, 2 * length), main.dtype, "mask"),
            trace.new((b, length, length), "int32", "buckets"),
            trace.new((b, length, 2 * length), "int32", "buckets"),
        ]
        ctx = self.begun(main, ctx)
        x = self.sum_embeddings([beside(streams, (b, every.length, main.width))], ctx)
        streams.clear()
        made = self.layers.run([x], ctx)
        masks.clear()
        return made

    def _guessing(self, x: Tensor) -> list[Tensor]:
        (places,), trace = self.added, x.trace
        assert isinstance(places, Positions)
        assert self.guesses is not None
        with trace.inside(places):
            (table,) = places.weights(trace)
            at = position(table, numbered(x, x.shape), x.elements * self.ngram)
        with trace.inside(self.guesses):
            (rows,) = self.guesses.weights(trace)
        if trace.emits_kernels:  # likewise
            return [add(select(rows, 0), at) for _ in each_turn(self.ngram, "streams")]
        return [trace.view(add(rows, at), (x.shape[0], x.shape[1] * self.ngram, at.width), None)]


class WithGuesses(ModelWithHead):
    """Logits of ``ngram`` streams of guesses alone, whose words are not read.

    A program may copy those of the first guess (``copies_first``).
    """

    ngram: Num = 1
    copies_first: bool = False

    def read(self, made: Tensor, x: Tensor, ctx: Context) -> Tensor:
        """The loss of all guesses, or their logits."""
        (b, length), n = x.shape, self.ngram
        read = reshape(part(made, 1, n * length), b, n, length, made.width)
        if ctx.run.logits == "last":
            read = narrow(read, 1, 2)
        if not ctx.run.training:
            return self.logits(read, ctx)
        labels = x.trace.new((n, b, length), "int64", "labels")
        return ctx.backend.head_and_loss(self, read, labels, ctx)

    def logits(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits: where a loss reads them, those of one stream behind those of another."""
        made = super().logits(x, ctx)
        if not ctx.run.training:
            return made
        x.trace.until_loss_ends(made)
        if self.copies_first:
            x.trace.until_loss_ends(contiguous(select(made, 1)))
        return contiguous(transpose(made, 0, 1))


class BesideDecoder(Module):
    """A decoder by itself, beside the table of words that it would share with an encoder."""

    kind = "decoder"

    shared: Embedding
    decoder: Module

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the decoder's output for token ids."""
        return self.decoder(x, ctx)


NAMES = ("query_proj", "key_proj", "value_proj", "out_proj")


def attention(c: Config, side: str, name: str, of: type[Attention] = Attention, **more: Any) -> Attention:
    """Multi-head attention with biases."""
    h, heads = c.size("hidden_size"), f"num_{side}_attention_heads"
    a, d = c.size(heads), c.quotient("hidden_size", heads)
    *maps, back = (Linear(each, h, h, letter, True) for each, letter in zip(NAMES, "QKVO", strict=True))
    drops = bool(c.get("attention_dropout"))
    return of(
        name, a, a, d, d, tuple(maps), (), back, causal=False, masked=False, dropout=drops, eager=OWN_SOFTMAX, **more
    )


def layers(c: Config, side: str, *mixers: Module) -> Stack:
    """Equal layers of these mixers and a network, with a norm behind each."""
    h, depth = c.size("hidden_size"), f"num_{side}_layers"
    ffn = network(
        "feed_forward", ("intermediate", "output"), h, c.size(f"{side}_ffn_dim"), c.word("activation_function")
    )
    sublayers = (*mixers, ffn.replace(dropout=bool(c.get("activation_dropout"))))
    norms = tuple(norm(c, f"{sub.name}_layer_norm") for sub in sublayers)
    return layer_blocks.stack(c, PostNorm("layers", sublayers, norms, bool(c.get("dropout"))), depth)


def norm(c: Config, name: str) -> Norm:
    """A LayerNorm of the model's width."""
    return Norm(name, "layernorm", c.size("hidden_size"))


def tables(c: Config, *, tied: bool) -> tuple[Embedding, Positions]:
    """Tables of words and of positions."""
    h, words = c.size("hidden_size"), "word_embeddings"
    places = Positions("position_embeddings", c.size("max_position_embeddings"), h, TOKENS)
    return Embedding(words, c.size("vocab_size"), h, words if tied else None), places


def guesses(*, copies_first: bool) -> Top:
    """Logits of the guesses alone, not of the words themselves."""

    def top(c: Config, base: Module) -> Module:
        tied = c.flag("tie_word_embeddings")
        head = logits("lm_head", c.size("hidden_size"), c.size("vocab_size"), tied=tied)
        return WithGuesses("", base, head, ngram=c.size("ngram"), copies_first=copies_first, shifted=False)

    return renamed("prophetnet", top)


@family(
    "prophetnet",
    architecture="ProphetNetForCausalLM",
    heads={"Model": bare, "ForConditionalGeneration": guesses(copies_first=True), ALONE: guesses(copies_first=False)},
)
def prophetnet(c: Config) -> Module:
    """Qi et al. 2020 (arXiv 2001.04063): beside the words themselves, the decoder has ``ngram`` streams of guesses."""
    tied, dropped = c.flag("tie_word_embeddings"), bool(c.get("dropout"))
    first = norm(c, "embeddings_layer_norm")
    shared, places = tables(c, tied=False)
    words, _ = tables(c, tied=tied)
    decoder = NgramDecoder(
        "decoder",
        words,
        layers(c, "decoder", *_mixers(c)),
        None,
        added=(places,),
        dropped=dropped,
        normed=first,
        guesses=Embedding("ngram_embeddings", c.size("ngram"), c.size("hidden_size")),
        ngram=c.size("ngram"),
    )
    if c.head == ALONE:
        return BesideDecoder("model", shared, decoder)
    made = layers(c, "encoder", attention(c, "encoder", "self_attn"))
    encoder = EncoderStack("encoder", words, made, None, added=(places,), dropped=dropped, normed=first)
    return EncoderDecoder("model", shared, encoder, decoder)


def _mixers(c: Config) -> list[Module]:
    """Attention of the streams; and to the encoder, which a decoder by itself may hold and never runs."""
    sizes = {"ngram": c.size("ngram"), "buckets": c.size("num_buckets")}
    letters = c.size("num_buckets") * c.size("num_decoder_attention_heads")
    distances = Linear("relative_pos_embeddings", c.size("hidden_size"), letters, "rel", True)
    sublayers: list[Module] = [attention(c, "decoder", "self_attn", NgramAttention, distances=distances, **sizes)]
    if c.flag("add_cross_attention"):
        sublayers.append(attention(c, "decoder", "cross_attn", CrossAttention, reads=c.head != ALONE))
    return sublayers
