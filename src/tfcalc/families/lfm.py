"""LFM2 and LFM3 of Liquid AI: short convolutions, and attention in some layers."""

from __future__ import annotations

from tfcalc.blocks import FUSED, Attention, FeedForward, layer, stack
from tfcalc.blocks.experts import MixtureOfExperts
from tfcalc.blocks.short_convolution import ShortConvolution
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, output
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, floor_div, scaled
from tfcalc.families.hybrid import FULL, first, layer_types
from tfcalc.families.llama import head_dim, kv_heads, norms, qk_norms, rotary_width
from tfcalc.families.mamba import backbone
from tfcalc.families.mixtral import chosen
from tfcalc.leaves import buffer, linear
from tfcalc.workload import Workload

CONV, SLIDING = "conv", "sliding_attention"
KNOWN = (CONV, FULL, SLIDING)
NORMS = ("operator_norm", "ffn_norm")
W = ("w1", "w3", "w2")


def lm_head(c: Config, run: Workload, base: Component) -> tuple[Component, ...]:
    """Logits; the flag that ties them is ``tie_embedding`` where the file has one."""
    tied = c.flag(first(c, "tie_embedding", "tie_word_embeddings"))
    return base, output("lm_head", c.size("hidden_size"), c.size("vocab_size"), run, tied=tied)


HEADS = {"Model": bare, "ForCausalLM": lm_head}


def convolution(c: Config, run: Workload) -> Component:
    """The mixer of most layers."""
    return ShortConvolution(c.size("hidden_size"), c.size("conv_L_cache"), c.flag("conv_bias"))("conv", run.target)


def lfm_attention(
    c: Config, run: Workload, last: str, names: tuple[str, str], *, gate: bool = False, window: int | None = None
) -> Component:
    """Attention with norms of queries and keys by these ``names``; a ``gate`` is a number for each head's output."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), head_dim(c)
    within = [part._replace(name=name) for part, name in zip(qk_norms("rmsnorm", c, run), names, strict=True)]
    if gate:
        within.append(linear("g_proj", h, a, run.target.tokens, bias=False, letter="g"))
    projections = ("q_proj", "k_proj", "v_proj", last)
    bias = c.flag("attention_bias")
    block = Attention(
        h,
        a,
        kv_heads(c),
        d,
        d,
        bias=bias,
        names=projections,
        within=tuple(within),
        window=window,
        rotary=rotary_width(c, d),
    )
    return block("self_attn", run.target, run.target, run, causal=True)


def network(c: Config, run: Workload, width: Num) -> Component:
    """SwiGLU by Liquid's names."""
    block = FeedForward(c.size("hidden_size"), width, "silu", names=W, gated=True)
    return block("feed_forward", run.target, run)


def adjusted(c: Config) -> Num:
    """Two thirds of ``intermediate_size``, times a factor, rounded up to a multiple; or the size itself."""
    width = c.size(first(c, "block_ff_dim", "intermediate_size"))
    if not c.flag("block_auto_adjust_ff_dim"):
        return width
    two_thirds: Num = floor_div(2 * width, 3)
    multiple = c.number("block_multiple_of")
    rounded: Num = multiple * ceil_div(scaled(two_thirds, c.factor("block_ffn_dim_multiplier")), multiple)
    return rounded


def lfm(c: Config, run: Workload, *layers: Component) -> Component:
    """Embedding, layers, and the norm that LFM calls the embedding's."""
    return backbone(c, run, *layers, name="model", tokens="embed_tokens", final="embedding_norm")


@family("lfm2", architecture="Lfm2ForCausalLM", heads=HEADS)
def lfm2(c: Config, run: Workload) -> Component:
    """LFM2 (arXiv 2511.23404); without ``layer_types``, attention is where ``full_attn_idxs`` says, or everywhere."""
    given = None if c.get("full_attn_idxs") is None else c.numbers("full_attn_idxs")

    def made(kind: str) -> Component:
        mixer = convolution(c, run) if kind == CONV else lfm2_attention(c, run)
        parts = (mixer, network(c, run, adjusted(c)), *norms(NORMS, "rmsnorm", c, run))
        return layer("layers", parts, run.target.tokens * c.size("hidden_size"), ends_with_sum=True)

    kinds = layer_types(c, lambda place: FULL if given is None or place in given else CONV, known=KNOWN)
    return lfm(c, run, *stack("layers", kinds, c.size("num_hidden_layers"), made))


def lfm2_attention(c: Config, run: Workload) -> Component:
    """LFM2's attention."""
    return lfm_attention(c, run, "out_proj", ("q_layernorm", "k_layernorm"))


@family("lfm2_moe", architecture="Lfm2MoeForCausalLM", heads=HEADS)
def lfm2_moe(c: Config, run: Workload) -> Component:
    """LFM2 with experts in all but the first layers; the bias that balances them is stored, but not trained."""
    h, stream = c.size("hidden_size"), run.target

    def made(kind: tuple[str, bool]) -> Component:
        mixer = convolution(c, run) if kind[0] == CONV else lfm2_attention(c, run)
        ffn = network(c, run, c.size("intermediate_size")) if kind[1] else lfm2_experts(c, run)
        parts = (mixer, ffn, *norms(NORMS, "rmsnorm", c, run))
        return layer("layers", parts, stream.tokens * h, ends_with_sum=True)

    places, dense = range(c.number("num_hidden_layers")), c.number("num_dense_layers", least=0)
    # transformers needs ``layer_types``; where they are missing, half of the layers attend
    words = layer_types(c, lambda place: FULL if place % 2 else CONV, known=KNOWN)
    kinds = [(words[place], place < dense) for place in places]
    return lfm(c, run, *stack("layers", kinds, c.size("num_hidden_layers"), made))


def lfm2_experts(c: Config, run: Workload) -> Component:
    """The experts of LFM2."""
    h, experts = c.size("hidden_size"), c.size("num_experts")
    expert = FeedForward(h, c.size("moe_intermediate_size"), "silu", names=FUSED, gated=True)
    within = (buffer("expert_bias", experts),) if c.flag("use_expert_bias") else ()
    block = MixtureOfExperts(h, experts, chosen(c, "num_experts"), expert, within=within)
    return block("feed_forward", run.target, run)


@family("lfm3", architecture="Lfm3ForCausalLM", heads=HEADS)
def lfm3(c: Config, run: Workload) -> Component:
    """LFM3 (Liquid AI, 2026): a gate for each head, and norms after both halves of a layer."""
    h, sandwich = c.size("hidden_size"), ("post_operator_norm", "post_ffn_norm")
    names = (*NORMS, *sandwich) if c.flag("use_sandwich_norm") else NORMS

    def made(kind: str) -> Component:
        gate = c.flag("use_attention_gate")
        if kind == CONV:
            mixer = convolution(c, run)
        else:
            window = c.number("sliding_window") if kind == SLIDING and run.tells_masks else None
            mixer = lfm_attention(c, run, "o_proj", ("q_norm", "k_norm"), gate=gate, window=window)
        parts = (mixer, network(c, run, c.size("intermediate_size")), *norms(names, "rmsnorm", c, run))
        return layer("layers", parts, run.target.tokens * h, ends_with_sum=names is NORMS)

    return lfm(c, run, *stack("layers", layer_types(c, lfm3_pattern, known=KNOWN), c.size("num_hidden_layers"), made))


def lfm3_pattern(place: int) -> str:
    """Every second layer attends, in turn to all tokens and to a window; the first does not."""
    if place % 4 == 2:
        return FULL
    return SLIDING if place and place % 4 == 0 else CONV
