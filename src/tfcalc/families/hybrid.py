"""Hybrids of attention and state-space layers: Jamba, Granite 4, Nemotron-H."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.blocks import FUSED, GATED, FeedForward, layer, stack
from tfcalc.blocks.experts import MixtureOfExperts
from tfcalc.blocks.mamba import Mamba
from tfcalc.blocks.mamba2 import Mamba2
from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM, bare, lm_head, output
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.families import kit
from tfcalc.families.llama import PRE_NORM, attention, norms
from tfcalc.families.mamba import Channels, backbone, expanded, mamba2_head_dim, mamba2_mixer, time_step_rank
from tfcalc.families.mixtral import chosen
from tfcalc.leaves import buffer, linear, norm
from tfcalc.nn.module import Module
from tfcalc.printable import quoted
from tfcalc.workload import Workload

LINEAR, FULL = "linear_attention", "full_attention"
LEGACY = {"mamba": LINEAR, "attention": FULL}
"""What older files call these layers."""


LM = {"Model": bare, "ForCausalLM": lm_head()}
PRE_FF_NORM = ("input_layernorm", "pre_ff_layernorm")


def layer_types(
    c: Config, pattern: Callable[[int], str], name: str = "layer_types", known: tuple[str, ...] = (LINEAR, FULL)
) -> list[str]:
    """One word for each layer: those of the file, older ones translated, or else what ``pattern`` says of each."""
    count = c.number("num_hidden_layers")
    if c.get(name) is None:
        return [pattern(place) for place in range(count)]
    return [LEGACY.get(word, word) for word in c.words(name, count, (*known, *LEGACY))]


def periodic(c: Config, name: str) -> list[bool]:
    """Whether a layer is the ``…_offset``-th of its ``…_period``, for each layer."""
    period, offset = c.number(f"{name}_period"), c.number(f"{name}_offset", least=0)
    if offset >= period:
        raise InvalidModel(
            f"{c.path(f'{name}_offset')} {offset} is not below {name}_period {period}", "count it from 0"
        )
    return [place % period == offset for place in range(c.number("num_hidden_layers"))]


def swiglu(c: Config, width: Num, names: tuple[str, ...] = GATED, *, bias: bool = False) -> FeedForward:
    """A gated feed-forward network of this width."""
    return FeedForward(c.size("hidden_size"), width, c.word("hidden_act"), bias=bias, names=names, gated=True)


@family("jamba", architecture="JambaForCausalLM", heads=CAUSAL_LM, aliases={"num_local_experts": "num_experts"})
def jamba(c: Config, run: Workload) -> Component:
    """Jamba (arXiv 2403.19887): attention in one layer of eight, experts in one of two; norms inside Mamba."""
    h, stream = c.size("hidden_size"), run.target
    mamba = Mamba(
        h,
        c.size("mamba_expand") * h,
        c.size("mamba_d_state"),
        time_step_rank(c, "mamba_dt_rank"),
        c.size("mamba_d_conv"),
        c.word("hidden_act"),
        bias=c.flag("mamba_proj_bias"),
        conv_bias=c.flag("mamba_conv_bias"),
        norms="rmsnorm",
    )
    several = c.number("num_experts", least=0) > 1

    def made(kind: tuple[bool, bool]) -> Component:
        attends, sparse = kind
        mixer = attention(c, run, rotated=False) if attends else mamba("mamba", stream)
        width = c.size("intermediate_size")
        if sparse and several:
            experts = c.size("num_experts"), chosen(c, "num_experts"), swiglu(c, width, FUSED)
            ffn = MixtureOfExperts(h, *experts, router="router")("feed_forward", stream, run)
        else:
            ffn = swiglu(c, width)("feed_forward", stream, run)
        parts = (mixer, ffn, *norms(PRE_FF_NORM, "rmsnorm", c, run))
        return layer("layers", parts, stream.tokens * h, ends_with_sum=True)

    kinds = list(zip(periodic(c, "attn_layer"), periodic(c, "expert_layer"), strict=True))
    layers = stack("layers", kinds, c.size("num_hidden_layers"), made)
    return named_decoder(c, run, *layers)


@family(
    "granitemoehybrid",
    architecture="GraniteMoeHybridForCausalLM",
    heads=LM,
    aliases={"layers_block_type": "layer_types"},
)
def granite_hybrid(c: Config, run: Workload) -> Component:
    """Granite 4: Mamba-2 or attention, then experts (none of them in a dense model) beside a network for all tokens."""
    h, stream = c.size("hidden_size"), run.target
    mamba = granite_mamba2(c)

    def made(kind: str) -> Component:
        mixer = mamba("mamba", stream) if kind == LINEAR else granite_attention(c, run)
        shared = swiglu(c, c.size("shared_intermediate_size", least=0), ("input_linear", "output_linear"))
        parts = [mixer, *norms(PRE_NORM, "rmsnorm", c, run)]
        if c.number("num_local_experts", least=0):
            experts = c.size("num_local_experts"), chosen(c)
            expert = swiglu(c, c.size("intermediate_size"), FUSED)
            parts.append(MixtureOfExperts(h, *experts, expert, router="router")("block_sparse_moe", stream, run))
        parts.append(shared("shared_mlp", stream, run))
        return layer("layers", parts, stream.tokens * h, ends_with_sum=True)

    layers = stack("layers", layer_types(c, lambda _: LINEAR), c.size("num_hidden_layers"), made)
    return named_decoder(c, run, *layers, final="norm")


def granite_attention(c: Config, run: Workload) -> Component:
    """Granite's attention, which knows positions only where the config says so."""
    rotated = c.get("position_embedding_type") == "rope"
    return attention(c, run, bias=c.flag("attention_bias"), rotated=rotated)


def granite_mamba2(c: Config) -> Mamba2:
    """Mamba-2 by the names of fields that Granite, Bamba and Falcon-H1 share."""
    given = c.optional("mamba_d_ssm")
    channels = expanded(c, "mamba_expand") if given is None else Channels(given, c.number("mamba_d_ssm"))
    return Mamba2(
        c.size("hidden_size"),
        c.size("mamba_n_heads"),
        mamba2_head_dim(c, "mamba_n_heads", "mamba_d_head", channels),
        channels.size,
        c.size("mamba_d_state"),
        c.size("mamba_n_groups"),
        c.size("mamba_d_conv"),
        c.word("hidden_act"),
        c.size("mamba_chunk_size"),
        bias=c.flag("mamba_proj_bias"),
        conv_bias=c.flag("mamba_conv_bias"),
    )


@family(
    "bamba",
    architecture="BambaForCausalLM",
    heads={"Model": tops.bare, "ForCausalLM": tops.lm_head()},
    partial_rotary_factor=0.5,  # by __post_init__
)
def bamba(c: Config) -> Module:
    """Bamba (IBM, 2024): Mamba-2, attention in the layers of ``attn_layer_indices``."""
    attends = c.numbers("attn_layer_indices") if c.get("attn_layer_indices") is not None else []
    ffn = kit.gated(c, bias=c.flag("mlp_bias")).but(name="feed_forward")

    def one(attending: bool) -> Module:
        mixer = kit.attention(c, bias=c.flag("attention_bias")) if attending else bamba_mixer(c)
        return kit.layer(c, mixer, ffn, names=PRE_FF_NORM)

    kinds = [place in attends for place in range(c.number("num_hidden_layers"))]
    return kit.decoder(c, one, kinds, names=("model", "embed_tokens", "final_layernorm"), masks=(None,))


def bamba_mixer(c: Config) -> Module:
    """Mamba-2."""
    channels, heads = expanded(c, "mamba_expand"), c.size("mamba_n_heads")
    width = mamba2_head_dim(c, "mamba_n_heads", "mamba_d_head", channels)
    sizes = c.size("mamba_d_state"), c.size("mamba_n_groups"), c.size("mamba_d_conv"), c.size("mamba_chunk_size")
    bias, conv_bias = c.flag("mamba_proj_bias"), c.flag("mamba_conv_bias")
    return mamba2_mixer(c, "mamba", (channels.size, heads, width), sizes, bias=bias, conv_bias=conv_bias)


@family("falcon_h1", architecture="FalconH1ForCausalLM", heads=LM)
def falcon_h1(c: Config, run: Workload) -> Component:
    """Falcon-H1 (arXiv 2507.22448): attention and Mamba-2 side by side in every layer, their outputs added."""
    gated_norm, bias = c.flag("mamba_rms_norm"), c.flag("projectors_bias")
    mamba = granite_mamba2(c)._replace(gated_norm=gated_norm, output_bias=bias)
    mixers = mamba("mamba", run.target), attention(c, run, bias=c.flag("attention_bias"))
    made = pre_ff_layer(c, run, *mixers)
    return named_decoder(c, run, made._replace(copies=c.size("num_hidden_layers")))


def pre_ff_layer(c: Config, run: Workload, *mixers: Component) -> Component:
    """Mixers, then a gated network, each after a norm."""
    ffn = swiglu(c, c.size("intermediate_size"), bias=c.flag("mlp_bias"))("feed_forward", run.target, run)
    parts = (*mixers, ffn, *norms(PRE_FF_NORM, "rmsnorm", c, run))
    return layer("layers", parts, run.target.tokens * c.size("hidden_size"), ends_with_sum=True)


def named_decoder(c: Config, run: Workload, *layers: Component, final: str = "final_layernorm") -> Component:
    """The decoder by the names that hybrids have for its parts."""
    return backbone(c, run, *layers, name="model", tokens="embed_tokens", final=final)


MOE, MLP = "moe", "mlp"
PATTERN = {"M": LINEAR, "E": MOE, "*": FULL, "-": MLP}
"""Nemotron-H's letters for its layers."""


def nemotron_layers(c: Config) -> list[str]:
    """One kind for each layer: a list, a pattern such as ``M-M*``, or transformers' four layers."""
    if c.get("layers_block_type") is not None:
        words = c.words("layers_block_type", None, (*PATTERN.values(), *LEGACY))
        return [LEGACY.get(word, word) for word in words]
    pattern = c.word("hybrid_override_pattern")
    if set(pattern) - set(PATTERN):
        wrong = "".join(sorted(set(pattern) - set(PATTERN)))
        raise InvalidModel(f"hybrid_override_pattern: {quoted(wrong)} is not known", f"letters: {' '.join(PATTERN)}")
    return [PATTERN[letter] for letter in pattern]


def never_tied(c: Config, run: Workload, base: Component) -> tuple[Component, ...]:
    """Logits by a matrix of its own, whatever ``tie_word_embeddings`` says."""
    return base, output("lm_head", c.size("hidden_size"), c.size("vocab_size"), run, tied=False)


@family(
    "nemotron_h",
    architecture="NemotronHForCausalLM",
    heads={"Model": bare, "ForCausalLM": never_tied},
    aliases={"layer_types": "layers_block_type", "num_local_experts": "n_routed_experts"},
    hybrid_override_pattern="ME*-",  # by __post_init__
)
def nemotron_h(c: Config, run: Workload) -> Component:
    """Nemotron-H (arXiv 2504.03624), Nemotron 3: one norm and one mixer a layer, be it Mamba-2, attention or an MLP."""
    h, stream = c.size("hidden_size"), run.target

    def mixer(kind: str) -> Component:
        if kind == LINEAR:
            return nemotron_mamba2(c)("mixer", stream)
        if kind == FULL:
            return attention(c, run, name="mixer", rotated=False)
        if kind == MOE:
            return nemotron_experts(c, run)
        return relu2(c, h, c.size("intermediate_size"))("mixer", stream, run)

    def made(kind: str) -> Component:
        parts = (norm("norm", "rmsnorm", h, stream.tokens), mixer(kind))
        return layer("layers", parts, stream.tokens * h, ends_with_sum=True)

    kinds = nemotron_layers(c)
    return backbone(c, run, *stack("layers", kinds, len(kinds), made), name="model")


def nemotron_mamba2(c: Config) -> Mamba2:
    """Mamba-2 whose width is that of its heads, not a multiple of the hidden size."""
    heads, width = c.size("mamba_num_heads"), c.size("mamba_head_dim")
    return Mamba2(
        c.size("hidden_size"),
        heads,
        width,
        heads * width,
        c.size("ssm_state_size"),
        c.size(first(c, "mamba_n_groups", "n_groups")),
        c.size(first(c, "mamba_d_conv", "conv_kernel")),
        c.word("mamba_hidden_act"),
        c.size(first(c, "mamba_chunk_size", "chunk_size")),
        bias=c.flag("use_bias"),
        conv_bias=c.flag(first(c, "mamba_conv_bias", "use_conv_bias")),
    )


def nemotron_experts(c: Config, run: Workload) -> Component:
    """Experts chosen with a correction that is not trained, in a narrower space where ``moe_latent_size`` is given."""
    h, latent, stream, bias = c.size("hidden_size"), c.optional("moe_latent_size"), run.target, c.flag("mlp_bias")
    ways: tuple[Component, ...] = ()
    if latent is not None:
        ways = (
            linear("fc1_latent_proj", h, latent, stream.tokens, bias=bias),
            linear("fc2_latent_proj", latent, h, stream.tokens, bias=bias),
        )
    shared = relu2(c, h, c.size("moe_shared_expert_intermediate_size"))("shared_experts", stream, run)
    block = MixtureOfExperts(
        h,
        c.size("n_routed_experts"),
        chosen(c, "n_routed_experts"),
        relu2(c, h if latent is None else latent, c.size("moe_intermediate_size"))._replace(bias=False),
        within=(buffer("gate.e_score_correction_bias", c.size("n_routed_experts")), *ways, shared),
    )
    return block("mixer", stream, run)


def relu2(c: Config, width: Num, inner: Num) -> FeedForward:
    """A network without a gate."""
    return FeedForward(width, inner, c.word("mlp_hidden_act"), bias=c.flag("mlp_bias"), names=("up_proj", "down_proj"))


def first(c: Config, *names: str) -> str:
    """The name that the file gives, the earliest of these; the last where it gives none."""
    return next((name for name in names if c.has(name)), names[-1])
