"""Ordinary attention with DeepSeek's experts: dense layers first, shared experts, a correction of the router."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfcalc.blocks import GATED, LLAMA_NAMES, Attention
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.families.deepseek import mlp_types, sparse_after
from tfcalc.families.llama import PRE_NORM, attention, decoder, gated, head_dim, kv_heads, qk_norms, rotary_width
from tfcalc.families.mixtral import correction, layers, mixture, shared, swiglu
from tfcalc.families.windows import told, windows
from tfcalc.leaves import norm
from tfcalc.workload import Workload


def dense_or_sparse(
    c: Config,
    run: Workload,
    kinds: Sequence[str],
    mixer: Callable[[int | None], Component],
    experts: Callable[[], Component],
    *,
    names: tuple[str, ...] = PRE_NORM,
    bias: bool = False,
    seen: Sequence[int | None] | None = None,
    rotated: Sequence[bool] | None = None,
) -> Component:
    """Layers with a ``mixer`` of the window that is ``seen``, some with ``experts``, some dense (with a ``bias``).

    Where it is said which layers know positions, they are not ``rotated`` in the others.
    """

    def parts(kind: tuple[int | None, bool, str]) -> tuple[Component, ...]:
        window, rotates, mlp = kind
        mixed = mixer(window)
        if not rotates:
            mixed = mixed._replace(parts=tuple(part for part in mixed.parts if part.kind != "rotary"))
        return mixed, experts() if mlp == "sparse" else gated(c, run, bias=bias)

    count = len(kinds)
    all_kinds = list(zip(told(run, seen or [None] * count), rotated or [True] * count, kinds, strict=True))
    return decoder(c, run, *layers(c, run, all_kinds, parts, names=names))


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
    window: int | None = None,
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
        window=window,
        rotary=rotary_width(c, width),
    )
    return block("self_attn", run.target, run.target, run, causal=True)


@family(
    "deepseek",
    architecture="DeepseekForCausalLM",
    heads=CAUSAL_LM,
    like="llama",
    vocab_size=102400,
    moe_intermediate_size=1407,
    num_hidden_layers=30,
    moe_layer_freq=1,
    first_k_dense_replace=0,
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

    mixer = attention(c, run, bias=c.flag("attention_bias"))
    return dense_or_sparse(c, run, kinds, lambda _: mixer, mlp)


@family(
    "glm4_moe",
    architecture="Glm4MoeForCausalLM",
    heads=CAUSAL_LM,
    aliases={"num_local_experts": "n_routed_experts"},
    partial_rotary_factor=0.5,  # by __post_init__
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
    return dense_or_sparse(c, run, dense_first(c), lambda _: mixer, lambda: routed(c, run, common=shared(c)))


@family("dots1", architecture="Dots1ForCausalLM", heads=CAUSAL_LM, aliases={"num_local_experts": "n_routed_experts"})
def dots1(c: Config, run: Workload) -> Component:
    """dots.llm1 (arXiv 2506.05767): Qwen3's attention; windows after the first ``max_window_layers``."""
    seen = windows(c, lambda place: place >= c.number("max_window_layers", least=0))

    def mixer(window: int | None) -> Component:
        return attention(c, run, bias=c.flag("attention_bias"), within=qk_norms("rmsnorm", c, run), window=window)

    return dense_or_sparse(c, run, dense_first(c), mixer, lambda: routed(c, run, common=shared(c)), seen=seen)


@family(
    "solar_open",
    architecture="SolarOpenForCausalLM",
    heads=CAUSAL_LM,
    aliases={"num_local_experts": "n_routed_experts"},
)
def solar_open(c: Config, run: Workload) -> Component:
    """Solar Open (transformers' SolarOpenModel): GLM-4.5 without dense layers and norms of queries and keys."""
    mixer = attention(c, run, bias=c.flag("attention_bias"), output_bias=False)
    return dense_or_sparse(c, run, sparse_after(c, 0), lambda _: mixer, lambda: routed(c, run, common=shared(c)))


@family("exaone_moe", architecture="ExaoneMoeForCausalLM", heads=CAUSAL_LM)
def exaone_moe(c: Config, run: Workload) -> Component:
    """K-EXAONE (transformers' ExaoneMoeModel): EXAONE 4's norms of queries and keys; every fourth layer sees all."""
    seen = windows(c, lambda place: (place + 1) % c.number("sliding_window_pattern") > 0)

    def mixer(window: int | None) -> Component:
        return attention(c, run, within=qk_norms("rmsnorm", c, run), window=window)

    def experts() -> Component:
        return routed(c, run, "num_experts", common=shared(c, "num_shared_experts"))

    some = c.get("sliding_window") is not None  # then layers without a window know no positions
    rotated = [window is not None for window in seen] if some else None
    return dense_or_sparse(c, run, mlp_types(c, dense_first(c)), mixer, experts, seen=seen, rotated=rotated)


@family("hy_v3", architecture="HYV3ForCausalLM", heads=CAUSAL_LM, aliases={"num_local_experts": "num_experts"})
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
    return dense_or_sparse(c, run, mlp_types(c, sparse_after(c, 1)), lambda _: mixer, experts, bias=bias)


@family("kolibri1", architecture="Kolibri1ForCausalLM", heads=CAUSAL_LM, aliases={"num_local_experts": "num_experts"})
def kolibri1(c: Config, run: Workload) -> Component:
    """Kolibri (transformers' Kolibri1Model): four norms a layer, a shared expert of its own width, no dense layer."""
    names = (*PRE_NORM, "post_self_attn_layernorm", "post_mlp_layernorm")
    common = c.size("shared_expert_intermediate_size", least=0)
    seen = windows(c, lambda place: (place + 1) % 5 > 0)

    def mixer(window: int | None) -> Component:
        return attention(c, run, within=qk_norms("rmsnorm", c, run), window=window)

    def experts() -> Component:
        return routed(c, run, "num_experts", common=common)

    return dense_or_sparse(c, run, sparse_after(c, 0), mixer, experts, names=names, seen=seen)
