"""Mixtures of experts whose layers differ in their heads: MiMo-V2-Flash, Laguna."""

from __future__ import annotations

from tfcalc.blocks import LLAMA_NAMES, Attention
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.families.deepseek import mlp_types, sparse_after
from tfcalc.families.llama import decoder, gated, kv_heads, rotary_width
from tfcalc.families.mixtral import correction, layers, mixture, sinks, swiglu
from tfcalc.families.windows import told, windows
from tfcalc.leaves import activation, linear, norm, parameter
from tfcalc.workload import Workload

SLIDING, FULL = "sliding_attention", "full_attention"


def routed(c: Config, run: Workload) -> Component:
    """Experts of ``moe_intermediate_size``, and the router's correction."""
    return mixture(c, run, experts="n_routed_experts", width="moe_intermediate_size", within=(correction(c),))


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
        window=mimo_window(c) if sliding else None,
    )


def mimo_window(c: Config) -> int:
    """A query's own key and those before it; ``sliding_window_size`` does not count its own."""
    return c.number("sliding_window_size") + 1 if c.has("sliding_window_size") else c.number("sliding_window")


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
    partial_rotary_factor=0.334,  # by __post_init__
)
def mimo_v2_flash(c: Config, run: Workload) -> Component:
    """MiMo-V2-Flash (arXiv 2601.02780): values narrower than keys; sliding layers have more of both."""

    def parts(kind: tuple[str, str]) -> tuple[Component, ...]:
        window, mlp = kind
        return mimo_attention(window, c, run), routed(c, run) if mlp == "sparse" else gated(c, run)

    kinds = list(zip(mimo_layer_types(c), mlp_types(c, sparse_after(c, 1)), strict=True))
    return decoder(c, run, *layers(c, run, kinds, parts))


@family("laguna", architecture="LagunaForCausalLM", heads=CAUSAL_LM)
def laguna(c: Config, run: Workload) -> Component:
    """Poolside's Laguna (transformers' LagunaModel): gated attention, whose layers may differ in their query heads."""

    def experts() -> Component:
        beside = swiglu("shared_experts", c.size("shared_expert_intermediate_size", least=0), c, run)
        correct = parameter("gate.e_score_correction_bias", c.size("num_experts"), minor=True, frozen=True)
        return mixture(c, run, experts="num_experts", width="moe_intermediate_size", within=(beside, correct))

    def parts(kind: tuple[int | None, int, str]) -> tuple[Component, ...]:
        window, queries, mlp = kind
        return laguna_attention(queries, window, c, run), experts() if mlp == "sparse" else gated(c, run)

    count = c.number("num_hidden_layers")
    given = c.get("num_attention_heads_per_layer") is not None
    queries = c.numbers("num_attention_heads_per_layer", count, least=1) if given else [0] * count
    seen = told(run, windows(c, lambda _: False))
    return decoder(
        c, run, *layers(c, run, list(zip(seen, queries, mlp_types(c, sparse_after(c, 1)), strict=True)), parts)
    )


def laguna_attention(count: int, window: int | None, c: Config, run: Workload) -> Component:
    """Attention of so many heads (0: of ``num_attention_heads``), gated head by head, or element by element."""
    groups, d, tokens = c.number("num_key_value_heads"), c.size("head_dim"), run.target.tokens
    if (count or c.number("num_attention_heads")) % groups:
        raise InvalidModel(f"num_key_value_heads {groups} must divide every layer's query heads", "give a divisor")
    a = count or c.size("num_attention_heads")
    width = a if c.get("gating") in (True, "per-head") else a * d
    gate = linear("g_proj", c.size("hidden_size"), width, tokens, bias=False, letter="gate")
    qk = norm("q_norm", "rmsnorm", d, tokens * a), norm("k_norm", "rmsnorm", d, tokens * c.size("num_key_value_heads"))
    within = (*qk, gate, activation("gate", "softplus", width * tokens))
    return heads(c, run, a, c.size("num_key_value_heads"), d, within=within, window=window)
