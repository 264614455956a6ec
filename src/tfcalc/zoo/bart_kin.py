"""BART's further variants: other sizes, prompts, blocks of a sequence with a few tokens that all see, experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, ceil_div, divide
from tfcalc.nn.attention import Attention, CrossAttention
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.embeddings import TOKENS, Positions, numbered
from tfcalc.nn.encoder_decoder import Alone, EncoderDecoder, EncoderStack, InlineDecoder, Open
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Networks, Router, Switch
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import EqualLayers, Stack
from tfcalc.ops.attention import attend
from tfcalc.ops.einsum import einsum
from tfcalc.ops.elementwise import add, dropout, dropping, residual, scaled
from tfcalc.ops.rows import softmax
from tfcalc.ops.shapes import cat, contiguous, expand, pad, part, permute, reshape, select, split, transpose, unsqueeze
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences
from tfcalc.zoo.blocks import encoder_decoders
from tfcalc.zoo.blocks.blocked_attention import BlockAttention, PaddedStack, SparseBlocks
from tfcalc.zoo.blocks.encoders import MASKED
from tfcalc.zoo.blocks.layers import one_module_per_kind


class PairLayer(Module):
    """A layer that reads two tensors, and makes two for the next."""

    kind = "layer"

    def both(self, given: list[Tensor], ctx: Context) -> list[Tensor]:
        """Return the outputs for the two tensors in the list, which are taken out of it."""
        raise NotImplementedError


class PairStack(Stack):
    """Layers of that kind, one upon another."""

    def both(self, given: list[Tensor], ctx: Context) -> list[Tensor]:
        """Run the layers from the bottom to the top on the two tensors in the list, which are taken out of it."""
        trace, made = given[0].trace, [*given]
        given.clear()
        for group in self.running(made[0], ctx):
            with trace.group(group):
                made = self._pair(group, made, ctx)
        return made

    def _pair(self, group: EqualLayers, given: list[Tensor], ctx: Context) -> list[Tensor]:
        trace, one = given[0].trace, group.layer
        assert isinstance(one, PairLayer)

        def layer(*both: Tensor) -> list[Tensor]:
            made = one.both([*both], ctx)
            trace.layer_ends()
            return made

        if group.again:
            return trace.checkpoints(layer, *given, early_stop=ctx.run.early_stop, by_operation=ctx.run.by_operation)
        made = one.both(given, ctx)
        trace.layer_ends()
        return made


class GlobalLocalAttention(Module):
    """A token sees its ``block`` of tokens and those that are ``marked``; these see everything.

    Both kinds go through the same maps, and no library's kernel runs it. ``read`` says whether anything reads what the
    marked tokens make.

    Source: Phang et al. 2022 (arXiv 2208.04347), section 3.3; transformers' PegasusXGlobalLocalAttention.
    """

    kind = "attention"

    heads: Num
    head_dim: Num
    inward: tuple[Linear, ...]
    output: Linear
    block: int
    dropout: bool = False

    def both(self, given: list[Tensor], ctx: Context, *, read: bool) -> list[Tensor]:
        """Return the outputs for tokens and marked tokens, which attend to each other."""
        with given[0].trace.inside(self):
            return self._both(given, ctx, read=read)

    def _both(self, given: list[Tensor], ctx: Context, *, read: bool) -> list[Tensor]:
        x, marked = given
        given.clear()
        query, key, value = self.inward
        q, k, v = (self._headed(each) for each in (scaled(query(x)), key(x), value(x)))
        with unread(x, read=read):
            asking = self._headed(scaled(query(marked)))
        keys, values = (self._headed(each(marked)) for each in (key, value))
        with unread(x, read=read):
            answers = self._of_marked(asking, keys, values, k, v, ctx)
        made = self._of_blocks(q, k, v, keys, values, ctx)
        made = self.output(self._merged(made, x.shape[1]))
        with unread(x, read=read):
            return [made, self.output(self._merged(answers, marked.shape[1]))]

    def _headed(self, x: Tensor) -> Tensor:
        return contiguous(transpose(reshape(x, *x.shape[:2], self.heads, self.head_dim), 1, 2))

    def _merged(self, x: Tensor, length: Num) -> Tensor:
        """Merge the heads: b × a × l × d, or b × a × blocks × l × d, becomes b × l × a·d."""
        *outer, last = range(2, len(x.shape))
        x = contiguous(permute(x, (0, *outer, 1, last)))
        return reshape(x, x.shape[0], length, self.heads * self.head_dim)

    def _of_marked(self, q: Tensor, keys: Tensor, values: Tensor, k: Tensor, v: Tensor, ctx: Context) -> Tensor:
        """Return the attention output of marked tokens, which see themselves and all others."""

        def code(q: Tensor, *given: Tensor) -> Tensor:
            keys, values, k, v = given
            every, each = cat([keys, k], 2), cat([values, v], 2)
            p = self._weights(einsum("bhgf,bhxf->bhgx", q, every), (1, 1), ctx)
            return einsum("bhgx,bhxf->bhgf", p, each)

        return self.attend("attend_global", code, [q, keys, values, k, v], k.shape[2] + keys.shape[2], ctx)

    def _of_blocks(self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, ctx: Context) -> Tensor:
        """Return the attention output of tokens, each of which sees its block and the marked tokens."""
        b, a, length, d = q.shape
        rows, blocks = keys.shape[2], ceil_div(length, self.block)

        def code(*given: Tensor) -> Tensor:
            q, k, v = (reshape(each, b, a, blocks, self.block, d) for each in given[:3])
            keys, values = given[3:]
            p = cat([einsum("bhnkf,bhgf->bhnkg", q, keys), einsum("bhnkf,bhnxf->bhnkx", q, k)])
            to_marked, to_block = split(self._weights(p, (1, blocks, 1), ctx), [rows, self.block])
            return add(einsum("bhnkg,bhgf->bhnkf", to_marked, values), einsum("bhnkx,bhnxf->bhnkf", to_block, v))

        return self.attend("attend_local", code, [q, k, v, keys, values], self.block + rows, ctx)

    def _weights(self, p: Tensor, axes: tuple[Num, ...], ctx: Context) -> Tensor:
        """Return the attention weights: the softmax of the scores, of which those of padding tokens are masked."""
        trace = p.trace
        p = softmax(add(p, trace.new((p.shape[0], *axes, p.width), trace.weights_format, "mask")))
        return dropout(p, "attend_dropout") if self.dropout and ctx.drops else p

    def attend(self, name: str, code: Callable[..., Tensor], given: list[Tensor], seen: Num, ctx: Context) -> Tensor:
        """Attend by this ``code``; each query sees ``seen`` keys."""
        (q, k, v, *_), trace = given, given[0].trace
        stream = ctx.stream._replace(length=q.shape[2])
        pairs = ctx.run.pairs(stream, stream._replace(cached=seen), causal=False)

        def run(*given: Tensor) -> Tensor:
            made = attend(given[0], k, v, pairs, lambda: code(*given), name=name)
            if self.dropout and ctx.drops:
                trace.count(dropping(made, self.heads * pairs.scores, f"{name}_dropout"))
            return made

        return trace.checkpoint(run, *given) if ctx.run.recompute == "selective" else run(*given)


def unread(x: Tensor, *, read: bool) -> AbstractContextManager[None]:
    """Return a context whose outputs count as unused, unless something reads them (``read``)."""
    return nullcontext() if read else x.trace.output_unused()


class GlobalLocalLayer(PairLayer):
    """Attention and a network of the tokens, and of those that are marked, each with a norm before it.

    ``staggered`` blocks begin and end half a block later: there is half a block more at both ends. In the last of
    ``last_of`` layers nothing reads the output for marked tokens; but a layer that backward recomputes as a whole is
    computed in full.
    """

    mixer: GlobalLocalAttention
    mixer_norm: Norm
    ffn: FeedForward
    ffn_norm: Norm
    marked_norm: Norm
    dropped: bool = False
    staggered: bool = False
    last_of: int = 0

    def both(self, given: list[Tensor], ctx: Context) -> list[Tensor]:
        """Return the layer's outputs for tokens and marked tokens."""
        x, marked = given
        given.clear()
        read, length = self._is_read(ctx), x.shape[1]
        normed = [self.mixer_norm(x, ctx), self.marked_norm(marked, ctx)]
        if self.staggered and not ctx.run.decoding:
            normed[0] = pad(normed[0], 1, length + 2 * (self.mixer.block // 2))
        made, of_marked = self.mixer.both(normed, ctx, read=read)
        if self.staggered and not ctx.run.decoding:
            made = part(made, 1, length)
        x = self._added(x, made, self.mixer, ctx)
        with unread(x, read=read):
            marked = self._added(marked, of_marked, self.mixer, ctx)
        x = self._added(x, self.ffn(self.ffn_norm(x, ctx), ctx), self.ffn, ctx)
        with unread(x, read=read):
            marked = self._added(marked, self.ffn(self.ffn_norm(marked, ctx), ctx), self.ffn, ctx)
        return [x, marked]

    def _added(self, x: Tensor, made: Tensor, sub: Module, ctx: Context) -> Tensor:
        return residual(x, dropout(made, f"{sub.name}_dropout") if self.dropped and ctx.drops else made, sub.name)

    def _is_read(self, ctx: Context) -> bool:
        """Return whether the output for marked tokens is read, or gets a gradient of zeros."""
        every = ctx.every_whole or (0 if ctx.run.early_stop else ctx.run.every)
        return not self.last_of or not ctx.run.training or (every > 0 and (self.last_of - 1) % every == 0)


class MarkedStack(EncoderStack):
    """Encoder whose layers read ``marked`` vectors beside the stream, which is padded to whole blocks."""

    marked: Embedding | None = None
    block: int = 1

    @property
    def parts(self) -> Iterator[Module]:
        """The table of marked vectors behind the others."""
        assert self.marked is not None
        parts = (self.table, *self.added, self.marked, self.layers, self.normed, self.norm)
        return (each for each in parts if each is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the encoder's output for token ids ``x``."""
        assert self.marked is not None
        assert self.norm is not None
        assert isinstance(self.layers, PairStack)
        batch, length = x.shape
        whole, rows = ceil_div(length, self.block) * self.block, 0 if ctx.run.decoding else self.marked.rows
        words = self.embed_tokens(x, ctx)
        given = [self.sum_embeddings([words, *(each(x, ctx) for each in self.added)], ctx)]
        if not x.trace.same_size(whole, length):
            given[0] = pad(given[0], 1, whole)
        places = expand(numbered(x, (1, rows)), batch, rows)
        given.append(self.marked(places, ctx))
        x.trace.forget("embedding")  # that is no table of words
        made, _ = self.layers.both(given, ctx._replace(stream=ctx.stream._replace(length=whole)))
        return self.norm(part(made, 1, length), ctx)


class Prompt(Module):
    """Keys and values for all layers, made of a short table by two maps.

    Source: Li and Liang 2021 (arXiv 2101.00190), section 4.3; Tang et al. 2022 (arXiv 2206.12131), section 3.2.
    """

    kind = "prompt"

    table: Embedding
    inward: Linear
    outward: Linear
    heads: Num
    width: Num
    dropped: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return keys and values for a prompt's places, 2n × a × p × d: twice as many as there are layers."""
        inner = self.inward(self.table(x, ctx))
        inner = ctx.activation("gelu", inner, "prompt_trans.1")
        made = self.outward(inner)
        each = self.heads * self.width
        if not x.trace.emits_kernels:  # the map of a prompt is counted; what is cut of it moves nothing
            return made
        made = reshape(made, self.table.rows, divide(made.width, each), self.heads, self.width)
        return permute(dropout(made, "prompt_dropout") if self.dropped and ctx.drops else made, (1, 2, 0, 3))


class Prompted(Attention):
    """Attention that sees ``length`` keys of a ``prompt`` beside its usual keys."""

    prompt: str = ""
    length: Num = 0

    def seen(self, ctx: Context) -> Sequences:
        """The prompt's, and those."""
        keys = self.sees(ctx)
        return keys._replace(cached=keys.seen + self.length)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        """Attend with the prompt's keys and values beside those of the sequence."""
        return super().attend(q, *_beside(self, ctx.given[self.prompt], k, v, ctx), name)


class PromptedCross(CrossAttention, Prompted):
    """Cross-attention that sees a prompt's keys beside those that an encoder's output makes."""


class PromptedDecoder(Decoder):
    """A decoder whose layers read prompts."""

    prompts: tuple[Prompt, ...] = ()

    @property
    def parts(self) -> Iterator[Module]:
        """The decoder's, and the prompts."""
        return iter((*super().parts, *self.prompts))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the decoder's output for token ids ``x``, with the prompts given to its layers."""
        places = x.trace.new((self.prompts[0].table.rows,), "int64", "places of a prompt")
        made = {each.name: each(places, ctx) for each in self.prompts}
        x.trace.forget("embedding")  # heads are tied to the table of words
        return super().forward(x, ctx._replace(given=made))


def _beside(attention: Attention, prompt: Tensor, k: Tensor, v: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Context]:
    """Keys, values and masks with those of a prompt before them."""
    if not k.trace.emits_kernels:  # a prompt's keys are counted by what attention sees
        return k, v, ctx
    one = unsqueeze(select(prompt, 0), 0)
    k, v = (cat((expand(one, each.shape[0], *one.shape[1:]), each), 2) for each in (k, v))
    mask = ctx.masks.get(attention.mask) if attention.looks_at_mask else None
    if mask is not None:
        seen = mask.trace.new((*mask.shape[:-1], one.shape[2]), "float32", "mask of a prompt")
        ctx = ctx._replace(masks={**ctx.masks, attention.mask: cat((seen, mask), -1)})
    return k, v, ctx


@family(
    "plbart",
    architecture="PLBartForCausalLM",
    heads={head: build for head, build in encoder_decoders.HEADS.items() if head != "ForQuestionAnswering"},
)
def plbart(c: Config) -> Module:
    """Ahmad et al. 2021 (arXiv 2103.06333): BART for programs."""
    return encoder_decoders.seq2seq(c, encoder_decoders.BART_PLACES, normed=True)


@family("blenderbot-small", architecture="BlenderbotSmallForCausalLM", heads=encoder_decoders.HEADS)
def blenderbot_small(c: Config) -> Module:
    """Roller et al. 2020 (arXiv 2004.13637): the smallest is normed as BART is."""
    return encoder_decoders.seq2seq(c, encoder_decoders.learned(), normed=True)


@family("mvp", architecture="MvpForCausalLM", heads=encoder_decoders.HEADS)
def mvp(c: Config) -> Module:
    """Tang et al. 2022 (arXiv 2206.12131): BART with prompts for each layer's attention.

    In transformers 5 it is only the decoder that gets them: the encoder takes ``use_prompt`` for another argument.
    """
    places = encoder_decoders.learned(2, TOKENS)
    if not c.flag("use_prompt") or c.head == encoder_decoders.ALONE:
        return encoder_decoders.seq2seq(c, places, normed=True)
    whole = encoder_decoders.seq2seq(c, places, normed=True, layers=_prompted)
    assert isinstance(whole, EncoderDecoder)
    prompts = tuple(_prompt(c, name) for name in ("self_attn_prompt", "cross_attn_prompt"))
    return whole.replace(decoder=whole.decoder.as_type(PromptedDecoder, prompts=prompts))


def _prompt(c: Config, name: str) -> Prompt:
    h, inner, layers = c.size("d_model"), c.size("prompt_mid_dim"), c.size("decoder_layers")
    heads = "decoder_attention_heads"
    table = Embedding("prompt_embedding", c.size("prompt_length"), h)
    maps = Linear("prompt_trans.0", h, inner, "", True), Linear("prompt_trans.2", inner, 2 * layers * h, "", True)
    return Prompt(name, table, *maps, c.size(heads), c.quotient("d_model", heads), bool(c.get("dropout")))


def _prompted(c: Config, side: str) -> Stack:
    if side == "encoder":
        return encoder_decoders.equal_layers(c, side, pre_norm=False)
    rows = c.size("prompt_length")
    looks = encoder_decoders.attention(
        c, side, "self_attn", Prompted, given_ones=True, prompt="self_attn_prompt", length=rows
    )
    reads = encoder_decoders.attention(c, side, "encoder_attn", PromptedCross, prompt="cross_attn_prompt", length=rows)
    return encoder_decoders.stack(
        c, side, encoder_decoders.layer(c, [looks, reads, encoder_decoders.network(c, side)], pre_norm=False)
    )


@family(
    "bigbird_pegasus",
    architecture="BigBirdPegasusForCausalLM",
    heads=encoder_decoders.HEADS
    | {encoder_decoders.ALONE: tops.lm_head(width="d_model", ties=(), shifted=False, upcasts=False)},
)
def bigbird_pegasus(c: Config) -> Module:
    """Zaheer et al. 2020 (arXiv 2007.14062): the encoder's attention is sparse, or full; a flag for biases of all.

    Where it is sparse, long sequences are filled up to whole blocks, and a block sees only a few others. Its
    ``ForCausalLM`` is the one that transformers does not tie.
    """
    sparse = c.word("attention_type", ("block_sparse", "original_full")) == "block_sparse"
    blocks = SparseBlocks(c.number("block_size"), c.number("num_random_blocks"), "int64") if sparse else None
    layers, reader = partial(_sparse, blocks), partial(PaddedStack, filling=blocks, front=False)
    return encoder_decoders.seq2seq(
        c, encoder_decoders.learned(), pre_norm=True, layers=layers, last="layernorm_embedding", reader=reader
    )


def _sparse(blocks: SparseBlocks | None, c: Config, side: str) -> Stack:
    bias = c.flag("use_bias")
    if side == "decoder":
        sublayers = encoder_decoders.mixers(c, side, bias=bias)
    else:
        names = ("self.query", "self.key", "self.value", "output")
        sublayers = [
            encoder_decoders.attention(
                c, side, "self_attn", BlockAttention, bias=bias, names=names, causal=False, blocks=blocks
            )
        ]
    return encoder_decoders.stack(
        c, side, encoder_decoders.layer(c, [*sublayers, encoder_decoders.network(c, side)], pre_norm=True)
    )


@family("pegasus_x", heads={"Model": tops.bare, "ForConditionalGeneration": encoder_decoders.generation(bias=False)})
def pegasus_x(c: Config) -> Module:
    """Phang et al. 2022 (arXiv 2208.04347): blocks of tokens, and global tokens with a norm of their own; no biases."""
    marked = Embedding("embed_global", c.size("num_global_tokens"), c.size("d_model"))
    reader = partial(MarkedStack, marked=marked, block=c.number("block_size"))
    return encoder_decoders.seq2seq(
        c, encoder_decoders.sines(stored=False), pre_norm=True, layers=_global_tokens, reader=reader
    )


def _global_tokens(c: Config, side: str) -> Stack:
    """Return the layers; if staggered, every other layer's blocks begin in the middle of those of the others."""
    if side == "decoder":
        return encoder_decoders.equal_layers(
            c, side, pre_norm=True, mixer=partial(encoder_decoders.attention, bias=False)
        )
    like = encoder_decoders.attention(c, side, "self_attn", bias=False)
    block, depth, staggers = c.number("block_size"), c.number("encoder_layers"), c.flag("stagger_local_blocks")
    mixer = GlobalLocalAttention(like.name, like.heads, like.key_dim, like.inward, like.output, block, like.dropout)
    first, last, marked = (
        encoder_decoders.norm(c, f"{name}_layer_norm") for name in ("self_attn", "final", "global_self_attn")
    )
    one = GlobalLocalLayer(
        "layers", mixer, first, encoder_decoders.network(c, side), last, marked, bool(c.get("dropout"))
    )
    layers = one_module_per_kind(
        lambda staggered: one.replace(staggered=staggered), [staggers and at % 2 == 1 for at in range(depth)]
    )
    return PairStack("layers", (*layers[:-1], layers[-1].replace(last_of=depth)), c.size("encoder_layers"))


@family("nllb-moe", heads={"Model": tops.bare, "ForConditionalGeneration": encoder_decoders.generation(bias=False)})
def nllb_moe(c: Config) -> Module:
    """NLLB-200 (arXiv 2207.04672): in every k-th layer, two of many networks for each token."""
    return encoder_decoders.seq2seq(c, encoder_decoders.sines(stored=False), pre_norm=True, layers=_sparse_layers)


def _sparse_layers(c: Config, side: str) -> Stack:
    """Layers of which each ``step``-th has experts."""
    step, depth = c.number(f"{side}_sparse_step", least=0), c.number(f"{side}_layers")
    h, count = c.size("d_model"), c.size("num_experts")
    expert = encoder_decoders.network(c, side, "experts", as_weights=True).as_type(Networks, count=count, chosen=2)
    router = Router("router.classifier", h, count, bias=c.flag("router_bias"), chosen=2, normalized=True)
    sublayers = encoder_decoders.mixers(c, side, reader="cross_attention")

    def one(ffn: Module) -> PreNorm:
        return encoder_decoders.layer(c, [*sublayers, ffn], "ff_layer_norm", pre_norm=True, inner=True)

    dense, sparse = one(encoder_decoders.network(c, side, "ffn", as_weights=True)), one(Switch("ffn", router, expert))
    return encoder_decoders.stack(
        c, side, [sparse if step > 0 and (place + 1) % step == 0 else dense for place in range(depth)]
    )


def _text_to_text(c: Config, base: Module) -> Module:
    assert isinstance(base, EncoderDecoder)
    named = base.replace(
        encoder=base.encoder.replace(name="text_encoder"), decoder=base.decoder.replace(name="text_decoder")
    )
    return Open("", named, encoder_decoders.logits(c), **MASKED)


@family("seamless_m4t", "seamless_m4t_v2", heads={"ForTextToText": _text_to_text}, aliases={"hidden_size": "d_model"})
def seamless_m4t(c: Config) -> Module:
    """Seamless Communication et al. 2023 (arXiv 2308.11596, 2312.05187): its translator of texts, which is NLLB's."""
    return encoder_decoders.seq2seq(c, encoder_decoders.sines(stored=False), pre_norm=True, layers=_translator)


def _translator(c: Config, side: str) -> Stack:
    ffn = encoder_decoders.network(c, side, "ffn", as_weights=True)
    sublayers = encoder_decoders.mixers(c, side, reader="cross_attention", ones=False)
    return encoder_decoders.stack(
        c, side, encoder_decoders.layer(c, [*sublayers, ffn], "ffn_layer_norm", pre_norm=True, inner=True)
    )


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
        return of(
            side, words, encoder_decoders.equal_layers(c, side, pre_norm=False), None, added=places, dropped=drops
        )

    read = target if tied else c.size("src_vocab_size")
    encoder = half("encoder", EncoderStack, Embedding("embed_tokens", read, h, "decoder" if tied else None, True))
    words = Embedding("embed_tokens", target, h, scales=True, known_as="decoder" if tied else "")
    head = Linear("output_projection", h, target, "vocab", False, "embedding" if tied else None, "output")
    decoder = InlineDecoder("decoder", half("decoder", Decoder, words), head, **MASKED)
    return EncoderDecoder("model", None, encoder, decoder)
