"""Zamba and Zamba2: Mamba in every layer, and a transformer block that several layers share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, divide
from tfcalc.errors import InvalidModel
from tfcalc.families import kit
from tfcalc.families.hybrid import FINAL, LINEAR, layer_types
from tfcalc.families.layers import multi_head
from tfcalc.families.mamba import expanded, mamba2_mixer, of_channels, time_step_rank
from tfcalc.families.names import FUSED, LLAMA_NAMES
from tfcalc.nn.adapted import AdaptedAttention, AdaptedNetwork, Adapters, AdaptersOf, LowRank, WithAdapters
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.mamba_heads import MambaOfHeads, MapOfHeads
from tfcalc.nn.module import Module
from tfcalc.nn.rope import Rope
from tfcalc.nn.shared_blocks import AfterBlock, Block, BlockSharingDecoder, Hybrid, Shared

HYBRID = "hybrid"
HEADS = {"Model": tops.bare, "ForCausalLM": tops.lm_head(), "ForSequenceClassification": tops.classifier()}


def shared_attention(c: Config) -> Attention:
    """Attention that reads a layer's input beside the embedding, and so is twice as wide as what it gives."""
    width, a, g = attention_width(c), c.size("num_attention_heads"), kit.kv_heads(c)
    given = c.optional("attention_head_dim")
    d = divide(2 * c.size("hidden_size"), a) if given is None else given
    if given is None and 2 * c.number("hidden_size") % c.number("num_attention_heads"):
        raise InvalidModel(
            f"2·{c.path('hidden_size')} is not divisible by {c.path('num_attention_heads')}", "give attention_head_dim"
        )
    made = multi_head(Attention, "self_attn", LLAMA_NAMES, width, a, d, groups=g, out=c.size("hidden_size"))
    return made.but(dropout=bool(c.get("attention_dropout")))


def attention_width(c: Config) -> Num:
    """What the shared block reads: twice the hidden size, unless it is given."""
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
    own = kit.layer(c, mixer, names=("input_layernorm",))
    after = AfterBlock("mamba_decoder", own.subs, own.norms)
    reading = [Hybrid("layers", after, Linear("linear", h, h), *each) for each in blocks]
    made = [reading[next(places) % len(reading)] if kind == HYBRID else own for kind in kinds]
    base = kit.decoder(c, made, names=FINAL, masks=(None,))
    return base.to(BlockSharingDecoder, shared=tuple(shared), width=attention_width(c))


@family("zamba", heads=HEADS)
def zamba(c: Config) -> Module:
    """Zamba (arXiv 2405.16712): one block for all hybrid layers; with untied embeddings transformers unties it too."""
    kinds = layer_types(c, lambda place: zamba_pattern(c, place), "layers_block_type", (LINEAR, HYBRID))
    ffn = kit.gated(c, name="feed_forward")
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
    return mixer.to(
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
    attention = plain.to(AdaptedAttention, adapters=adapters, rope=rope)
    given = c.optional("intermediate_size")
    inner = 4 * h if given is None else given
    ffn = kit.gated(c, name="feed_forward", width=inner, bias=c.flag("add_bias_linear"), names=FUSED)
    adapter = low_rank("gate_up_proj_adapter_list", h, 2 * inner, rank)
    return shared_block(c, "shared_transformer", attention, ffn.to(AdaptedNetwork, adapters=(adapter,)))


def low_rank(name: str, fan_in: Num, fan_out: Num, rank: Num) -> LowRank:
    """Two matrices, one after the other."""
    return LowRank(name, Linear("0", fan_in, rank), Linear("1", rank, fan_out))


def adapters_of(block: Block) -> AdaptersOf:
    """Those of its attention and its network, by the same names."""
    adapted = [each for each in (block.attention, block.network) if isinstance(each, WithAdapters)]
    return AdaptersOf(block.name, tuple(AdaptersOf(each.name, each.adapters) for each in adapted))


def zamba2_kinds(c: Config) -> list[str]:
    """``layers_block_type``, or the 54 layers of Zamba2-2.7B."""
    if c.get("layers_block_type") is None and c.number("num_hidden_layers") != 54:
        raise InvalidModel("layers_block_type is missing", "only a model of 54 layers may leave it out")
    return layer_types(
        c, lambda place: HYBRID if place in ZAMBA2_HYBRID else LINEAR, "layers_block_type", (LINEAR, HYBRID)
    )
