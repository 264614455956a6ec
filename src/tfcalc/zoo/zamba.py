"""Zamba and Zamba2: Mamba in every layer, and a transformer block that several layers share.

Zamba2's layers have low-rank maps of their own beside the shared ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, divide
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention, attentions
from tfcalc.nn.basic import BlockDiagonal, Linear, Norm
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Context, Module, TimeLoop
from tfcalc.nn.positions import Rope
from tfcalc.ops.elementwise import add, residual
from tfcalc.ops.products import linear, matmul
from tfcalc.ops.shapes import beside, cat, contiguous, copied, expand, narrow, reshape, split, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.layers import FUSED, LLAMA_NAMES, multi_head
from tfcalc.zoo.blocks.state_space import (
    FINAL,
    LINEAR,
    Mamba,
    expanded,
    mamba2_mixer,
    mixer_types,
    of_channels,
    time_step_rank,
)


class LowRank(Module):
    """Two maps, one after the other, which are the layer's own whatever is shared around them.

    Source: Hu et al. 2021 (LoRA, arXiv 2106.09685), section 4.1.
    """

    kind = "adapter"

    down: Linear
    up: Linear

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Return the output of both maps for each row."""
        with x.trace.shares(""):
            return self.up(self.down(x))


def adapted(made: Tensor, x: Tensor, adapter: LowRank) -> Tensor:
    """``x W + (x A) B``; where operations are counted, the adapters of all layers run together elsewhere."""
    # adapters of all layers are counted together with the block
    return add(made, adapter(x)) if x.trace.emits_kernels else made


class WithAdapters(Module):
    """Module with ``adapters`` beside its maps, which the model holds."""

    adapters: tuple[LowRank, ...] = ()

    @property
    def parts(self) -> Iterator[Module]:
        """Parts without the adapters."""
        return (part for part in super().parts if not isinstance(part, LowRank))


class AdaptedAttention(WithAdapters, Attention):
    """Attention with adapters beside the maps that make queries, keys and values, or without any.

    Source: Glorioso et al. 2024 (arXiv 2411.15242), section 2.
    """

    def project(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Add each adapter's output to its map's."""
        if not self.adapters:
            return super().project(x, source, ctx)
        made = [each(x) for each in self.inward]
        made = [adapted(one, x, adapter) for one, adapter in zip(made, self.adapters, strict=True)]
        wide = ((self.heads, self.key_dim), (self.kv_heads, self.key_dim), (self.kv_heads, self.value_dim))
        q, k, v = (transpose(reshape(one, *x.shape[:2], *axes), 1, 2) for one, axes in zip(made, wide, strict=True))
        return q, k, v


class AdaptedNetwork(WithAdapters, GatedFeedForward):
    """A gated network with an adapter beside the map that makes gate and input."""

    def gated(self, x: Tensor, ctx: Context) -> Tensor:
        """Add the adapter's output to that of gate and input."""
        (adapter,) = self.adapters
        gate, up = split(adapted(self.up(x), x, adapter), [self.down.fan_in] * 2)
        return self.halves_gated(gate, up, ctx)


class AdaptersOf(Module):
    """The adapters of a module, or those of its parts."""

    kind = "adapter"

    adapters: tuple[Module, ...]

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Run the adapters one by one."""
        for each in self.adapters:
            each(x)
        return x


class Adapters(Module):
    """Sets of adapters: ``stored`` of them, of which ``read`` run, one by each layer that shares a block."""

    kind = "layer"

    adapters: AdaptersOf
    stored: Num
    read: Num

    @property
    def copies(self) -> Num:
        """The sets."""
        return self.stored

    @property
    def active(self) -> Num:
        """Number of sets that tokens pass through: those that are ``read``."""
        return self.read

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Run the adapters of one layer, all together."""
        return self.adapters(x)


class MapOfHeads(BlockDiagonal):
    """A map of each head's channels by a matrix of its own; a bias, if there is one, is added by whoever asks."""

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Map ``x``, of heads × b × i × l; where operations are counted, of one head's b × l × i, and with the bias."""
        weight, *bias = self.own_params().weights
        if not x.trace.emits_kernels:  # one product for all heads; a program runs a batched one
            return linear(x, x.trace.weight(weight), *(x.trace.weight(each) for each in bias), letter=self.letter)
        stored = reshape(x.trace.weight(weight, self.blocks), self.blocks, 1, self.fan_out, self.fan_in)
        return matmul(expand(x.trace.lower(stored), self.blocks, x.shape[1], *stored.shape[2:]), x)


class MambaOfHeads(Mamba):
    """Mamba whose channels are split among ``heads`` heads.

    Source: Glorioso et al. 2024 (Zamba, arXiv 2405.16712); transformers' ZambaMambaMixer.
    """

    loops = TimeLoop(0.04)

    heads: Num = 1

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the mixer's output for ``x``, of b × l × h."""
        channels, (b, l, _) = self.conv1d.channels, x.shape
        width = divide(channels, self.heads)
        if not x.trace.emits_kernels:  # heads are counted as channels side by side; a program runs them as a batch
            inner, _ = split(self.in_proj(x), [channels] * 2)
            inner = self._convolved(transpose(inner, 1, 2), ctx)
            made = self.x_proj(narrow(inner, width, 2))
            self.dt_proj(split(made, [self.rank, self.states, self.states])[0])
            return self.out_proj(self._counted(inner, inner, ctx))
        inner, gate = self._halves(transpose(self.in_proj(x), 1, 2))
        inner = transpose(self._convolved(contiguous(inner), ctx), 1, 2)
        inner, gate = (transpose(reshape(each, b, self.heads, width, l), 0, 1) for each in (inner, gate))
        made = transpose(self.x_proj(inner), 2, 3)
        step, *shared = split(made, [self.rank, self.states, self.states])
        step = self.dt_proj(transpose(step, 2, 3))
        return self.out_proj(ctx.backend.scan(self, ctx, inner, gate, step, *shared))

    def _halves(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Split ``x``, of b × 2c × l, channel by channel."""
        b, _, l = x.shape
        channels = self.conv1d.channels
        inner, gate = split(reshape(x, b, channels, 2, l), [1, 1], 2)
        return _squeezed(inner), _squeezed(gate)


def _squeezed(x: Tensor) -> Tensor:
    b, channels, _, l = x.shape
    strides = None if x.strides is None else (*x.strides[:2], x.strides[3])
    return x.trace.view(x, (b, channels, l), strides)


WORDS = "vectors of words"


class Block(Module):
    """A norm before attention and another before the network, without sums; attention reads wider vectors."""

    kind = "layer"

    attention: Attention
    network: Module
    norms: tuple[Norm, Norm]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the block's output for the residual stream beside the words' vectors."""
        for norm, sub in zip(self.norms, (self.attention, self.network), strict=True):
            x = sub(norm(x, ctx), ctx)
        return x


class Shared(Module):
    """Blocks that layers share: ``stored`` of them, each used by ``users`` layers, none of which owns it."""

    kind = "layer"

    block: Block
    stored: Num
    users: Num

    @property
    def copies(self) -> Num:
        """The blocks."""
        return self.stored

    @property
    def passes(self) -> Num:
        """Number of times that each runs."""
        return self.users

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the block once for all layers."""
        return self.block(x, ctx)


class AfterBlock(PreNorm):
    """``x + f(norm(x + y))``: y is what a block has made."""

    def forward(self, x: Tensor, *given: Tensor | Context) -> Tensor:
        """Return the layer's output for the residual stream and y."""
        made, ctx = given
        assert isinstance(made, Tensor)
        assert isinstance(ctx, Context)
        ((norm, sub),) = self.running(ctx)
        return residual(x, sub(norm(residual(x, made, "block"), ctx), ctx), sub.name)


class Hybrid(Module):
    """A ``block`` that reads the words' vectors again, a map of what it makes, and a mixer that reads both sums.

    The model holds the block. Layers with one ``key`` have the same weights in it; without any they are its own.

    Source: Glorioso et al. 2024 (arXiv 2405.16712), section 2.
    """

    kind = "layer"

    mamba_decoder: AfterBlock
    linear: Linear
    block: Block
    key: str = ""

    @property
    def parts(self) -> Iterator[Module]:
        """Parts without the block."""
        return iter((self.mamba_decoder, self.linear))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the layer; where operations are counted, the block runs once for all layers, and not here."""
        made = x
        if x.trace.emits_kernels:  # the block is counted once for all layers, by the decoder
            with x.trace.shares(self.key):
                made = self.block(cat([x, ctx.given[WORDS]]), ctx)
        return self.mamba_decoder(x, self.linear(made), ctx)


class BlockSharingDecoder(Decoder):
    """A decoder that holds the blocks which its layers share, and what adapts them, and gives them the words' vectors.

    Those together with the stream have the ``width`` that blocks read.
    """

    shared: tuple[Module, ...] = ()
    width: Num = 0

    @property
    def parts(self) -> Iterator[Module]:
        """The decoder's, and the blocks."""
        return iter((*super().parts, *self.shared))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the decoder's output for token ids."""
        words = self.embed_tokens(x, ctx)
        readers = [each for shared in self.shared for each in attentions(shared)]
        ctx = ctx.backend.begin(ctx, words, readers, self.masks)
        ctx = ctx._replace(given={WORDS: copied(words, name="clone")})
        made = self.layers.run([words], ctx)
        words.trace.beside(lambda: self._all_shared(made, words, ctx))
        return made if self.norm is None else self.norm(made, ctx)

    def _all_shared(self, made: Tensor, words: Tensor, ctx: Context) -> None:
        for each in self.shared:
            each(beside([made, words], (*made.shape[:-1], self.width)), ctx)


HYBRID = "hybrid"
HEADS = {"Model": tops.bare, "ForCausalLM": tops.lm_head(), "ForSequenceClassification": tops.classifier()}


def shared_attention(c: Config) -> Attention:
    """Attention that reads a layer's input beside the embedding, and so is twice as wide as what it gives."""
    width, a, g = attention_width(c), c.size("num_attention_heads"), decoders.kv_heads(c)
    given = c.optional("attention_head_dim")
    d = divide(2 * c.size("hidden_size"), a) if given is None else given
    if given is None and 2 * c.number("hidden_size") % c.number("num_attention_heads"):
        raise InvalidModel(
            f"2·{c.path('hidden_size')} is not divisible by {c.path('num_attention_heads')}", "give attention_head_dim"
        )
    made = multi_head(Attention, "self_attn", LLAMA_NAMES, width, a, d, groups=g, out=c.size("hidden_size"))
    return made.replace(dropout=bool(c.get("attention_dropout")))


def attention_width(c: Config) -> Num:
    """Width that the shared block reads: twice the hidden size, unless it is given."""
    given = c.optional("attention_hidden_size")
    return 2 * c.size("hidden_size") if given is None else given


def shared_block(c: Config, name: str, attention: Attention, network: Module) -> Block:
    """A transformer block that layers may share."""
    norms = (
        Norm("input_layernorm", "rmsnorm", attention_width(c)),
        Norm("pre_ff_layernorm", "rmsnorm", c.size("hidden_size")),
    )
    return Block(name, attention, network, norms)


def decoder(
    c: Config, kinds: Sequence[str], mixer: Module, blocks: Sequence[tuple[Block, str]], shared: Sequence[Module]
) -> Module:
    """Layers of a ``mixer``, of which the hybrid ones read these ``blocks`` with their keys in turn."""
    h, places = c.size("hidden_size"), (place for place in range(len(kinds)))
    own = decoders.layer(c, mixer, names=("input_layernorm",))
    after = AfterBlock("mamba_decoder", own.sublayers, own.norms)
    reading = [Hybrid("layers", after, Linear("linear", h, h), *each) for each in blocks]
    made = [reading[next(places) % len(reading)] if kind == HYBRID else own for kind in kinds]
    base = decoders.decoder(c, made, names=FINAL, masks=(None,))
    return base.as_type(BlockSharingDecoder, shared=tuple(shared), width=attention_width(c))


@family("zamba", heads=HEADS)
def zamba(c: Config) -> Module:
    """Zamba (arXiv 2405.16712): one block for all hybrid layers; with untied embeddings transformers unties it too."""
    kinds = mixer_types(c, lambda place: zamba_pattern(c, place), "layers_block_type", (LINEAR, HYBRID))
    ffn = decoders.gated(c, name="feed_forward")
    block, uses = shared_block(c, "shared_transf", shared_attention(c), ffn), kinds.count(HYBRID)
    tied = c.flag("tie_word_embeddings")
    stored = 1 if tied else uses
    shared = [Shared(f"layers[{uses} share]", block, stored, divide(uses, stored))] if uses else ()
    return decoder(c, kinds, zamba_mixer(c), [(block, block.name if tied else "")], shared)


def zamba_mixer(c: Config) -> MambaOfHeads:
    """Mamba with heads."""
    channels, heads = expanded(c, "mamba_expand"), c.size("n_mamba_heads")
    width, rank, states = (
        channels.split(c, "n_mamba_heads"),
        time_step_rank(c, "mamba_dt_rank"),
        c.size("mamba_d_state"),
    )
    mixer = of_channels(
        c,
        "mamba",
        channels.size,
        (rank, states, c.size("mamba_d_conv")),
        norms="",
        bias=c.flag("mamba_proj_bias"),
        conv_bias=c.flag("mamba_conv_bias"),
    )
    return mixer.as_type(
        MambaOfHeads,
        x_proj=MapOfHeads("x_proj", width, rank + 2 * states, "x", blocks=heads),
        dt_proj=MapOfHeads("dt_proj", rank, width, "Δ", bias=True, blocks=heads),
        activation=c.word("hidden_mamba_act"),
        heads=heads,
    )


def zamba_pattern(c: Config, place: int) -> str:
    """The third layer is hybrid; after it, one of each period."""
    period, offset = c.number("attn_layer_period"), c.number("attn_layer_offset", least=0)
    return HYBRID if place == 2 or (place > 2 and (place - 3) % period == offset) else LINEAR


ZAMBA2_HYBRID = (*range(6, 43, 6), 47, 51)


@family("zamba2", heads=HEADS)
def zamba2(c: Config) -> Module:
    """Zamba2 (arXiv 2411.15242): ``num_mem_blocks`` shared blocks in turn, adapted to each layer by low-rank maps."""
    kinds, block = zamba2_kinds(c), zamba2_block(c)
    uses, blocks, tied = kinds.count(HYBRID), c.number("num_mem_blocks"), c.flag("tie_word_embeddings")
    # which layers have the same block as a layer: those that are a multiple of ``blocks`` away
    sharing = [len(range(place % blocks, uses, blocks)) for place in range(uses)]
    sharing = sharing[:blocks] if tied else sharing
    users = Counter(sharing if tied else [1] * uses)
    shared: list[Module] = [Shared(f"layers[{each} share]", block, stored, each) for each, stored in users.items()]
    if uses:
        adapters = Adapters("layers[adapters]", adapters_of(block), sum(sharing), uses)
        shared.append(adapters)
    in_turn = [(block, f"{block.name}.{each}" if tied else "") for each in range(blocks)]
    return decoder(c, kinds, zamba2_mixer(c), in_turn, shared)


def zamba2_mixer(c: Config) -> Module:
    """Mamba-2; all its channels together are as wide as its heads."""
    channels, bias = expanded(c, "mamba_expand"), c.flag("add_bias_linear")
    widths = channels.size, c.size("n_mamba_heads"), channels.split(c, "n_mamba_heads")
    sizes = c.size("mamba_d_state"), c.size("mamba_ngroups"), c.size("mamba_d_conv"), c.size("chunk_size")
    return mamba2_mixer(c, "mamba", widths, sizes, bias=bias, conv_bias=True, act="silu")


def zamba2_block(c: Config) -> Block:
    """A shared block whose maps have adapters."""
    h, width, rank = c.size("hidden_size"), attention_width(c), c.size("adapter_rank")
    letters = "qkv" if c.flag("use_shared_attention_adapter") else ""
    adapters = tuple(low_rank(f"linear_{each}_adapter_list", width, width, rank) for each in letters)
    plain = shared_attention(c)
    rope = Rope(plain.key_dim) if c.flag("use_mem_rope") else None
    attention = plain.as_type(AdaptedAttention, adapters=adapters, rope=rope)
    given = c.optional("intermediate_size")
    inner = 4 * h if given is None else given
    ffn = decoders.gated(c, name="feed_forward", width=inner, bias=c.flag("add_bias_linear"), names=FUSED)
    adapter = low_rank("gate_up_proj_adapter_list", h, 2 * inner, rank)
    return shared_block(c, "shared_transformer", attention, ffn.as_type(AdaptedNetwork, adapters=(adapter,)))


def low_rank(name: str, fan_in: Num, fan_out: Num, rank: Num) -> LowRank:
    """Two matrices, one after the other."""
    return LowRank(name, Linear("0", fan_in, rank), Linear("1", rank, fan_out))


def adapters_of(block: Block) -> AdaptersOf:
    """Adapters of the block's attention and its network, by the same names."""
    adapted = [each for each in (block.attention, block.network) if isinstance(each, WithAdapters)]
    return AdaptersOf(block.name, tuple(AdaptersOf(each.name, each.adapters) for each in adapted))


def zamba2_kinds(c: Config) -> list[str]:
    """``layers_block_type``, or the 54 layers of Zamba2-2.7B."""
    if c.get("layers_block_type") is None and c.number("num_hidden_layers") != 54:
        raise InvalidModel("layers_block_type is missing", "only a model of 54 layers may leave it out")
    return mixer_types(
        c, lambda place: HYBRID if place in ZAMBA2_HYBRID else LINEAR, "layers_block_type", (LINEAR, HYBRID)
    )
