"""Zamba and Zamba2: Mamba in every layer, and a transformer block that several layers share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfcalc.blocks import FUSED, GATED, LLAMA_NAMES, Attention, FeedForward, layer, stack
from tfcalc.blocks.mamba import Mamba
from tfcalc.blocks.mamba2 import Mamba2
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, classifier, lm_head
from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.errors import InvalidModel
from tfcalc.families.hybrid import LINEAR, layer_types, named_decoder
from tfcalc.families.llama import kv_heads
from tfcalc.families.mamba import expanded, time_step_rank
from tfcalc.leaves import linear, norm
from tfcalc.workload import Workload

HYBRID = "hybrid"
HEADS = {"Model": bare, "ForCausalLM": lm_head(), "ForSequenceClassification": classifier()}


def mamba_layers(c: Config, run: Workload, kinds: Sequence[str], mixer: Component) -> Iterator[Component]:
    """What each layer has of its own: Mamba, and in hybrid ones a map of what the shared block gives."""
    h, t = c.size("hidden_size"), run.target.tokens
    own = (mixer, norm("input_layernorm", "rmsnorm", h, t))

    def made(kind: str) -> Component:
        if kind == LINEAR:
            return layer("layers", own, t * h)
        parts = (layer("mamba_decoder", own, t * h), linear("linear", h, h, t, bias=False))
        return Component("layers", "layer", parts=parts)

    return stack("layers", kinds, c.size("num_hidden_layers"), made)


def shared_attention(c: Config, run: Workload) -> Component:
    """Attention that reads a layer's input beside the embedding, and so is twice as wide as what it gives."""
    width, a = attention_width(c), c.size("num_attention_heads")
    given = c.optional("attention_head_dim")
    d = divide(2 * c.size("hidden_size"), a) if given is None else given
    if given is None and 2 * c.number("hidden_size") % c.number("num_attention_heads"):
        raise InvalidModel(
            f"2·{c.path('hidden_size')} is not divisible by {c.path('num_attention_heads')}", "give attention_head_dim"
        )
    block = Attention(width, a, kv_heads(c), d, d, names=LLAMA_NAMES, output_to=c.size("hidden_size"))
    return block("self_attn", run.target, run.target, run, causal=True)


def attention_width(c: Config) -> Num:
    """What the shared block reads: twice the hidden size, unless it is given."""
    given = c.optional("attention_hidden_size")
    return 2 * c.size("hidden_size") if given is None else given


def shared_block(c: Config, run: Workload, name: str, ffn: FeedForward, *, uses: int, stored: int) -> Component:
    """A transformer block that so many layers use; it stands beside them, for none of them owns it."""
    h, t = c.size("hidden_size"), run.target.tokens
    norms = norm("input_layernorm", "rmsnorm", attention_width(c), t), norm("pre_ff_layernorm", "rmsnorm", h, t)
    block = layer(name, (shared_attention(c, run), ffn("feed_forward", run.target, run), *norms), t * h)
    return Component(f"layers[{uses} share]", "layer", parts=(block,), copies=stored, passes=divide(uses, stored))


@family(
    "zamba",
    architecture="ZambaForCausalLM",
    heads=HEADS,
    aliases={"layer_types": "layers_block_type", "head_dim": "attention_head_dim"},
)
def zamba(c: Config, run: Workload) -> Component:
    """Zamba (arXiv 2405.16712): one block for all hybrid layers; with untied embeddings transformers unties it too."""
    h, channels = c.size("hidden_size"), expanded(c, "mamba_expand")
    channels.split(c, "n_mamba_heads")
    mixer = Mamba(
        h,
        channels.size,
        c.size("mamba_d_state"),
        time_step_rank(c, "mamba_dt_rank"),
        c.size("mamba_d_conv"),
        c.word("hidden_mamba_act"),
        bias=c.flag("mamba_proj_bias"),
        conv_bias=c.flag("mamba_conv_bias"),
        heads=c.size("n_mamba_heads"),
    )
    kinds = layer_types(c, lambda place: zamba_pattern(c, place), "layers_block_type", (LINEAR, HYBRID))
    ffn = FeedForward(h, c.size("intermediate_size"), c.word("hidden_act"), names=GATED, gated=True)
    layers = list(mamba_layers(c, run, kinds, mixer("mamba", run.target)))
    if uses := kinds.count(HYBRID):
        stored = 1 if c.flag("tie_word_embeddings") else uses
        layers.append(shared_block(c, run, "shared_transf", ffn, uses=uses, stored=stored))
    return named_decoder(c, run, *layers)


def zamba_pattern(c: Config, place: int) -> str:
    """The third layer is hybrid; after it, one of each period."""
    period, offset = c.number("attn_layer_period"), c.number("attn_layer_offset", least=0)
    return HYBRID if place == 2 or (place > 2 and (place - 3) % period == offset) else LINEAR


ZAMBA2_HYBRID = (*range(6, 43, 6), 47, 51)


@family(
    "zamba2",
    architecture="Zamba2ForCausalLM",
    heads=HEADS,
    aliases={"layer_types": "layers_block_type", "head_dim": "attention_head_dim"},
)
def zamba2(c: Config, run: Workload) -> Component:
    """Zamba2 (arXiv 2411.15242): ``num_mem_blocks`` shared blocks in turn, adapted to each layer by low-rank maps."""
    h, bias, channels = c.size("hidden_size"), c.flag("add_bias_linear"), expanded(c, "mamba_expand")
    mixer = Mamba2(
        h,
        c.size("n_mamba_heads"),
        channels.split(c, "n_mamba_heads"),
        channels.size,
        c.size("mamba_d_state"),
        c.size("mamba_ngroups"),
        c.size("mamba_d_conv"),
        "silu",
        c.size("chunk_size"),
        bias=bias,
    )
    kinds = zamba2_kinds(c)
    given = c.optional("intermediate_size")
    inner = 4 * h if given is None else given
    ffn = FeedForward(h, inner, c.word("hidden_act"), bias=bias, names=FUSED, gated=True)
    layers = mamba_layers(c, run, kinds, mixer("mamba", run.target))
    uses, blocks, tied = kinds.count(HYBRID), c.number("num_mem_blocks"), c.flag("tie_word_embeddings")
    # which layers have the same block as a layer: those that are a multiple of ``blocks`` away
    sharing = [len(range(place % blocks, uses, blocks)) for place in range(uses)]
    if tied:
        sharing = sharing[:blocks]
    blocks_in_turn = (
        shared_block(c, run, "shared_transformer", ffn, uses=users if tied else 1, stored=1) for users in sharing
    )
    adapted = adapters(c, run, inner)._replace(copies=sum(sharing), active=uses)
    return named_decoder(c, run, *layers, *blocks_in_turn, adapted)


def adapters(c: Config, run: Workload, inner: Num) -> Component:
    """Low-rank maps that are added to a shared block's own, one set for each layer that uses it."""
    width, t = attention_width(c), run.target.tokens
    maps = ("q", "k", "v") if c.flag("use_shared_attention_adapter") else ()
    pairs = [low_rank(f"linear_{each}_adapter_list", width, width, c.size("adapter_rank"), t) for each in maps]
    up = low_rank("gate_up_proj_adapter_list", c.size("hidden_size"), 2 * inner, c.size("adapter_rank"), t)
    parts = (Component("self_attn", "adapter", parts=tuple(pairs)), Component("feed_forward", "adapter", parts=(up,)))
    block = Component("shared_transformer", "adapter", parts=parts)
    return Component("layers[adapters]", "layer", parts=(block,))


def low_rank(name: str, fan_in: Num, fan_out: Num, rank: Num, tokens: Num) -> Component:
    """Two matrices, one after the other."""
    down, up = linear("0", fan_in, rank, tokens, bias=False), linear("1", rank, fan_out, tokens, bias=False)
    return Component(name, "adapter", parts=(down, up))


def zamba2_kinds(c: Config) -> list[str]:
    """``layers_block_type``, or the 54 layers of Zamba2-2.7B."""
    if c.get("layers_block_type") is None and c.number("num_hidden_layers") != 54:
        raise InvalidModel("layers_block_type is missing", "only a model of 54 layers may leave it out")
    return layer_types(
        c, lambda place: HYBRID if place in ZAMBA2_HYBRID else LINEAR, "layers_block_type", (LINEAR, HYBRID)
    )
