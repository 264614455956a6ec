"""Ordinary attention with DeepSeek's experts: dense layers first, shared experts, a correction of the router."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfcalc.blocks import GATED, LLAMA_NAMES, Attention
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.families.config import Config
from tfcalc.families.deepseek import mlp_types, sparse_after
from tfcalc.families.family import family
from tfcalc.families.heads import CAUSAL_LM
from tfcalc.families.llama import PRE_NORM, SANDWICH, attention, decoder, gated, head_dim, kv_heads, qk_norms
from tfcalc.families.mixtral import correction, layers, mixture, shared, sinks, swiglu
from tfcalc.leaves import activation, linear, norm, parameter
from tfcalc.workload import Workload

SLIDING, FULL = "sliding_attention", "full_attention"


def dense_or_sparse(
    c: Config,
    run: Workload,
    kinds: Sequence[str],
    mixer: Component,
    experts: Callable[[], Component],
    *,
    names: tuple[str, ...] = PRE_NORM,
    bias: bool = False,
) -> Component:
    """Layers of this ``mixer``, some with ``experts``, some with a dense network (and a ``bias``)."""

    def parts(kind: str) -> tuple[Component, ...]:
        return mixer, experts() if kind == "sparse" else gated(c, run, bias=bias)

    return decoder(c, run, *layers(c, run, kinds, parts, names=names))


def dense_first(c: Config, every: int = 1) -> list[str]:
    """Experts in ``every`` so many of the layers after the first ``first_k_dense_replace``."""
    return sparse_after(c, c.number("first_k_dense_replace", least=0), every)


def routed(c: Config, run: Workload, experts: str = "n_routed_experts", *, common: Num | None = None) -> Component:
    """Experts of ``moe_intermediate_size``, the router's correction, and shared experts ``common`` to all tokens."""
    beside = () if common is None else (swiglu("shared_experts", common, c, run),)
    within = *beside, correction(c, experts=experts)
    return mixture(c, run, experts=experts, width="moe_intermediate_size", within=within)


def heads(
    c: Config,
    run: Workload,
    count: Num,
    groups: Num,
    width: Num,
    *,
    value_width: Num | None = None,
    output_bias: bool | None = None,
    within: tuple[Component, ...] = (),
) -> Component:
    """Attention with so many heads of this width, where these are not the config's."""
    block = Attention(
        c.size("hidden_size"),
        count,
        groups,
        width,
        width if value_width is None else value_width,
        bias=c.flag("attention_bias"),
        output_bias=output_bias,
        names=LLAMA_NAMES,
        within=within,
    )
    return block("self_attn", run.target, run.target, run, causal=True)


def output_gate(c: Config, run: Workload) -> tuple[Component, ...]:
    """What multiplies the heads' values, of the attention's input."""
    width, tokens = c.size("num_attention_heads") * head_dim(c), run.target.tokens
    gate = linear("gate_proj", c.size("hidden_size"), width, tokens, bias=False, letter="gate")
    return gate, activation("gate", "sigmoid", width * tokens)


@family(
    "deepseek",
    architecture="DeepseekForCausalLM",
    heads=CAUSAL_LM,
    vocab_size=102400,
    hidden_size=4096,
    intermediate_size=11008,
    moe_intermediate_size=1407,
    num_hidden_layers=30,
    num_attention_heads=32,
    num_key_value_heads=32,
    n_shared_experts=None,
    n_routed_experts=None,
    num_experts_per_tok=None,
    moe_layer_freq=1,
    first_k_dense_replace=0,
    hidden_act="silu",
    max_position_embeddings=2048,
    tie_word_embeddings=False,
    attention_bias=False,
)
def deepseek(c: Config, run: Workload) -> Component:
    """DeepSeekMoE (arXiv 2401.06066), by its own code: ordinary attention, experts where their number is given."""
    experts = c.get("n_routed_experts") is not None
    kinds = dense_first(c, c.number("moe_layer_freq")) if experts else sparse_after(c, c.number("num_hidden_layers"))

    def mlp() -> Component:
        some = c.get("n_shared_experts") is not None
        beside = (swiglu("shared_experts", shared(c), c, run),) if some else ()
        width = "moe_intermediate_size"
        return mixture(c, run, experts="n_routed_experts", width=width, names=GATED, within=beside)

    return dense_or_sparse(c, run, kinds, attention(c, run, bias=c.flag("attention_bias")), mlp)


@family(
    "glm4_moe",
    architecture="Glm4MoeForCausalLM",
    heads=CAUSAL_LM,
    aliases={"num_local_experts": "n_routed_experts"},
    vocab_size=151552,
    hidden_size=4096,
    intermediate_size=10944,
    moe_intermediate_size=1408,
    num_hidden_layers=46,
    num_attention_heads=96,
    num_key_value_heads=8,
    n_shared_experts=1,
    n_routed_experts=128,
    num_experts_per_tok=8,
    first_k_dense_replace=1,
    use_qk_norm=False,
    hidden_act="silu",
    max_position_embeddings=131072,
    tie_word_embeddings=False,
    attention_bias=False,
)
def glm4_moe(c: Config, run: Workload) -> Component:
    """GLM-4.5 (arXiv 2508.06471): biases on queries, keys and values; norms of them in the largest one only."""
    h, a, g, tokens = c.number("hidden_size"), c.number("num_attention_heads"), kv_heads(c), run.target.tokens
    # Its own default is 4096 among 96 heads, which transformers rounds down.
    d = h // a if c.get("head_dim") is None and h % a else head_dim(c)
    qk = norm("q_norm", "rmsnorm", d, tokens * a), norm("k_norm", "rmsnorm", d, tokens * g)
    mixer = heads(
        c, run, c.size("num_attention_heads"), g, d, output_bias=False, within=qk if c.flag("use_qk_norm") else ()
    )
    return dense_or_sparse(c, run, dense_first(c), mixer, lambda: routed(c, run, common=shared(c)))


@family(
    "dots1",
    architecture="Dots1ForCausalLM",
    heads=CAUSAL_LM,
    aliases={"num_local_experts": "n_routed_experts"},
    vocab_size=152064,
    hidden_size=4608,
    intermediate_size=10944,
    moe_intermediate_size=1408,
    num_hidden_layers=62,
    num_attention_heads=32,
    num_key_value_heads=32,
    n_shared_experts=None,
    n_routed_experts=None,
    num_experts_per_tok=None,
    first_k_dense_replace=0,
    hidden_act="silu",
    max_position_embeddings=2048,
    tie_word_embeddings=False,
    attention_bias=False,
)
def dots1(c: Config, run: Workload) -> Component:
    """dots.llm1 (arXiv 2506.05767): Qwen3's attention."""
    mixer = attention(c, run, bias=c.flag("attention_bias"), within=qk_norms("rmsnorm", c, run))
    return dense_or_sparse(c, run, dense_first(c), mixer, lambda: routed(c, run, common=shared(c)))


@family(
    "solar_open",
    architecture="SolarOpenForCausalLM",
    heads=CAUSAL_LM,
    aliases={"num_local_experts": "n_routed_experts"},
    vocab_size=196608,
    hidden_size=4096,
    moe_intermediate_size=1280,
    num_hidden_layers=48,
    num_attention_heads=64,
    num_key_value_heads=8,
    head_dim=128,
    n_shared_experts=1,
    n_routed_experts=128,
    num_experts_per_tok=8,
    hidden_act="silu",
    max_position_embeddings=131072,
    tie_word_embeddings=False,
    attention_bias=False,
)
def solar_open(c: Config, run: Workload) -> Component:
    """Solar Open (transformers' SolarOpenModel): GLM-4.5 without dense layers and norms of queries and keys."""
    mixer = attention(c, run, bias=c.flag("attention_bias"), output_bias=False)
    return dense_or_sparse(c, run, sparse_after(c, 0), mixer, lambda: routed(c, run, common=shared(c)))


@family(
    "exaone_moe",
    architecture="ExaoneMoeForCausalLM",
    heads=CAUSAL_LM,
    vocab_size=102400,
    hidden_size=4096,
    intermediate_size=16384,
    moe_intermediate_size=1024,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=32,
    num_shared_experts=1,
    num_experts=64,
    num_experts_per_tok=8,
    first_k_dense_replace=1,
    mlp_layer_types=None,
    hidden_act="silu",
    max_position_embeddings=2048,
    tie_word_embeddings=False,
)
def exaone_moe(c: Config, run: Workload) -> Component:
    """K-EXAONE (transformers' ExaoneMoeModel): EXAONE 4's norms of queries and keys."""
    mixer = attention(c, run, within=qk_norms("rmsnorm", c, run))

    def experts() -> Component:
        return routed(c, run, "num_experts", common=shared(c, "num_shared_experts"))

    return dense_or_sparse(c, run, mlp_types(c, dense_first(c)), mixer, experts)


@family(
    "hy_v3",
    architecture="HYV3ForCausalLM",
    heads=CAUSAL_LM,
    aliases={"num_local_experts": "num_experts"},
    vocab_size=120832,
    hidden_size=4096,
    intermediate_size=13312,
    moe_intermediate_size=1536,
    num_hidden_layers=80,
    num_attention_heads=64,
    num_key_value_heads=8,
    head_dim=128,
    num_shared_experts=1,
    num_experts=192,
    num_experts_per_tok=8,
    mlp_layer_types=None,
    hidden_act="silu",
    max_position_embeddings=131072,
    tie_word_embeddings=False,
    attention_bias=False,
    mlp_bias=False,
)
def hy_v3(c: Config, run: Workload) -> Component:
    """Hunyuan 3 (transformers' HYV3Model): without shared experts, one stands as wide as a dense layer."""
    bias = c.flag("mlp_bias")

    def experts() -> Component:
        some = c.number("num_shared_experts", least=0) > 0
        common = shared(c, "num_shared_experts") if some else c.size("intermediate_size")
        beside = swiglu("shared_experts", common, c, run, bias=bias)
        within = beside, correction(c, "e_score_correction_bias", "num_experts")
        return mixture(c, run, experts="num_experts", width="moe_intermediate_size", within=within)

    mixer = attention(c, run, bias=c.flag("attention_bias"), within=qk_norms("rmsnorm", c, run))
    return dense_or_sparse(c, run, mlp_types(c, sparse_after(c, 1)), mixer, experts, bias=bias)


@family(
    "kolibri1",
    architecture="Kolibri1ForCausalLM",
    heads=CAUSAL_LM,
    aliases={"num_local_experts": "num_experts"},
    vocab_size=128000,
    hidden_size=2560,
    moe_intermediate_size=512,
    shared_expert_intermediate_size=512,
    num_hidden_layers=50,
    num_attention_heads=48,
    num_key_value_heads=4,
    head_dim=128,
    num_experts=384,
    num_experts_per_tok=6,
    hidden_act="silu",
    max_position_embeddings=262144,
    tie_word_embeddings=False,
)
def kolibri1(c: Config, run: Workload) -> Component:
    """Kolibri (transformers' Kolibri1Model): four norms a layer, a shared expert of its own width, no dense layer."""
    names = (*PRE_NORM, "post_self_attn_layernorm", "post_mlp_layernorm")
    common = c.size("shared_expert_intermediate_size", least=0)
    mixer = attention(c, run, within=qk_norms("rmsnorm", c, run))
    kinds = sparse_after(c, 0)
    return dense_or_sparse(c, run, kinds, mixer, lambda: routed(c, run, "num_experts", common=common), names=names)


@family(
    "beam",
    architecture="BeamForCausalLM",
    heads=CAUSAL_LM,
    vocab_size=151936,
    hidden_size=5120,
    intermediate_size=20480,
    moe_intermediate_size=2560,
    num_hidden_layers=52,
    num_attention_heads=48,
    num_key_value_heads=8,
    head_dim=128,
    num_experts=256,
    num_experts_per_tok=8,
    mlp_layer_types=None,
    hidden_act="silu",
    max_position_embeddings=8192,
    tie_word_embeddings=False,
    attention_bias=False,
)
def beam(c: Config, run: Workload) -> Component:
    """Beam (transformers' BeamModel): a gate on attention's output with one bias a head, four norms a layer."""
    bias = parameter("gate_bias", c.size("num_attention_heads"), minor=True)
    within = (*qk_norms("rmsnorm", c, run), *output_gate(c, run), bias)
    mixer = attention(c, run, bias=c.flag("attention_bias"), within=within)
    kinds = mlp_types(c, sparse_after(c, 3))
    return dense_or_sparse(c, run, kinds, mixer, lambda: routed(c, run, "num_experts"), names=SANDWICH)


@family(
    "afmoe",
    architecture="AfmoeForCausalLM",
    heads=CAUSAL_LM,
    vocab_size=200192,
    hidden_size=2048,
    intermediate_size=6144,
    moe_intermediate_size=1408,
    num_hidden_layers=32,
    num_dense_layers=1,
    num_attention_heads=16,
    num_key_value_heads=None,
    head_dim=128,
    num_experts=64,
    num_experts_per_tok=6,
    num_shared_experts=2,
    hidden_act="silu",
    max_position_embeddings=16384,
    tie_word_embeddings=False,
    attention_bias=False,
)
def afmoe(c: Config, run: Workload) -> Component:
    """Arcee's Trinity (transformers' AfmoeModel): gated attention, four norms; the correction is a frozen parameter."""

    def experts() -> Component:
        beside = swiglu("shared_experts", shared(c, "num_shared_experts"), c, run)
        within = beside, parameter("expert_bias", c.size("num_experts"), minor=True, frozen=True)
        width = "moe_intermediate_size"
        return mixture(c, run, experts="num_experts", width=width, router="router.gate", within=within)

    within = (*qk_norms("rmsnorm", c, run), *output_gate(c, run))
    mixer = attention(c, run, bias=c.flag("attention_bias"), within=within)
    names = (*PRE_NORM, "pre_mlp_layernorm", "post_mlp_layernorm")
    return dense_or_sparse(c, run, sparse_after(c, c.number("num_dense_layers", least=0)), mixer, experts, names=names)


def mimo_attention(kind: str, c: Config, run: Workload) -> Component:
    """Where it slides, with twice as many keys and values, and sinks."""
    sliding = kind == SLIDING
    groups = kv_heads(c)
    if sliding and c.number("num_attention_heads") % (2 * c.number("num_key_value_heads")):
        field = c.path("num_key_value_heads")
        raise InvalidModel(f"twice {field} must divide num_attention_heads where attention slides", f"halve {field}")
    return heads(
        c,
        run,
        c.size("num_attention_heads"),
        2 * groups if sliding else groups,
        c.size("head_dim"),
        value_width=c.size("v_head_dim"),
        output_bias=False,
        within=(sinks(c),) if sliding else (),
    )


def mimo_layer_types(c: Config) -> list[str]:
    """Full attention in the first layer and every sixth, where it is not said."""
    count = c.number("num_hidden_layers")
    if c.has("layer_types"):
        return c.words("layer_types", count, (SLIDING, FULL))
    return [SLIDING if place and (place + 1) % 6 else FULL for place in range(count)]


@family(
    "mimo_v2_flash",
    architecture="MiMoV2FlashForCausalLM",
    heads=CAUSAL_LM,
    aliases={"num_local_experts": "n_routed_experts"},
    vocab_size=152576,
    hidden_size=4096,
    intermediate_size=16384,
    moe_intermediate_size=2048,
    num_hidden_layers=48,
    num_attention_heads=64,
    num_key_value_heads=4,
    head_dim=192,
    v_head_dim=128,
    n_routed_experts=256,
    num_experts_per_tok=8,
    layer_types=None,
    mlp_layer_types=None,
    hidden_act="silu",
    max_position_embeddings=131072,
    tie_word_embeddings=False,
    attention_bias=False,
)
def mimo_v2_flash(c: Config, run: Workload) -> Component:
    """MiMo-V2-Flash (arXiv 2601.02780): values narrower than keys; sliding layers have more of both."""

    def parts(kind: tuple[str, str]) -> tuple[Component, ...]:
        window, mlp = kind
        return mimo_attention(window, c, run), routed(c, run) if mlp == "sparse" else gated(c, run)

    kinds = list(zip(mimo_layer_types(c), mlp_types(c, sparse_after(c, 1)), strict=True))
    return decoder(c, run, *layers(c, run, kinds, parts))


@family(
    "laguna",
    architecture="LagunaForCausalLM",
    heads=CAUSAL_LM,
    vocab_size=100352,
    hidden_size=2048,
    intermediate_size=8192,
    moe_intermediate_size=512,
    shared_expert_intermediate_size=512,
    num_hidden_layers=40,
    num_attention_heads=48,
    num_attention_heads_per_layer=None,
    num_key_value_heads=8,
    head_dim=128,
    num_experts=256,
    num_experts_per_tok=8,
    gating=True,
    mlp_layer_types=None,
    hidden_act="silu",
    max_position_embeddings=131072,
    tie_word_embeddings=False,
    attention_bias=False,
)
def laguna(c: Config, run: Workload) -> Component:
    """Poolside's Laguna (transformers' LagunaModel): gated attention, whose layers may differ in their query heads."""

    def experts() -> Component:
        beside = swiglu("shared_experts", c.size("shared_expert_intermediate_size", least=0), c, run)
        correct = parameter("gate.e_score_correction_bias", c.size("num_experts"), minor=True, frozen=True)
        return mixture(c, run, experts="num_experts", width="moe_intermediate_size", within=(beside, correct))

    def parts(kind: tuple[int, str]) -> tuple[Component, ...]:
        queries, mlp = kind
        return laguna_attention(queries, c, run), experts() if mlp == "sparse" else gated(c, run)

    count = c.number("num_hidden_layers")
    given = c.get("num_attention_heads_per_layer") is not None
    queries = c.numbers("num_attention_heads_per_layer", count, least=1) if given else [0] * count
    return decoder(c, run, *layers(c, run, list(zip(queries, mlp_types(c, sparse_after(c, 1)), strict=True)), parts))


def laguna_attention(count: int, c: Config, run: Workload) -> Component:
    """Attention of so many heads (0: of ``num_attention_heads``), gated head by head, or element by element."""
    groups, d, tokens = c.number("num_key_value_heads"), c.size("head_dim"), run.target.tokens
    if (count or c.number("num_attention_heads")) % groups:
        raise InvalidModel(f"num_key_value_heads {groups} must divide every layer's query heads", "give a divisor")
    a = count or c.size("num_attention_heads")
    width = a if c.get("gating") in (True, "per-head") else a * d
    gate = linear("g_proj", c.size("hidden_size"), width, tokens, bias=False, letter="gate")
    qk = norm("q_norm", "rmsnorm", d, tokens * a), norm("k_norm", "rmsnorm", d, tokens * c.size("num_key_value_heads"))
    within = (*qk, gate, activation("gate", "softplus", width * tokens))
    return heads(c, run, a, c.size("num_key_value_heads"), d, within=within)
