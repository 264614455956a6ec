"""Mixtures of experts whose configs have fields of their own: ERNIE 4.5, Hunyuan-Large, Command A, Aria."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.families.deepseek import mlp_types, sparse_after
from tfcalc.families.llama import attention, decoder, gated, qk_norms, uniform
from tfcalc.families.mixtral import layers, lm_head_by, mixture, shared, swiglu
from tfcalc.families.windows import told, windows
from tfcalc.leaves import parameter
from tfcalc.workload import Workload


def ernie_layers(c: Config) -> list[bool]:
    """Experts in every ``moe_layer_interval``-th layer from ``moe_layer_start_index`` on; -1 ends with the last one."""
    every, count = c.number("moe_layer_interval"), c.number("num_hidden_layers")
    last = count - 1 if c.get("moe_layer_end_index") == -1 else c.number("moe_layer_end_index", least=0)
    first = c.number("moe_layer_start_index", least=0)
    return [first <= place <= last and (place + 1) % every == 0 for place in range(count)]


@family(
    "ernie4_5_moe",
    architecture="Ernie4_5_MoeForCausalLM",
    heads=CAUSAL_LM | {"ForCausalLM": lm_head_by("use_bias")},
    aliases={"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"},
)
def ernie4_5_moe(c: Config, run: Workload) -> Component:
    """ERNIE 4.5 (Baidu 2025, technical report): one flag for all biases, the head's too; experts have none."""
    bias, experts = c.flag("use_bias"), "moe_num_experts"

    def within() -> Iterator[Component]:
        yield parameter("gate.moe_statics.e_score_correction_bias", c.size(experts), minor=True, frozen=True)
        if c.number("moe_num_shared_experts", least=0):
            yield swiglu("shared_experts", shared(c, "moe_num_shared_experts"), c, run, bias=bias)

    def parts(sparse: bool) -> tuple[Component, ...]:
        mixer = attention(c, run, bias=bias)
        if not sparse:
            return mixer, gated(c, run, bias=bias)
        width = "moe_intermediate_size"
        return mixer, mixture(c, run, experts=experts, each="moe_k", width=width, within=tuple(within()))

    return decoder(c, run, *layers(c, run, ernie_layers(c), parts))


@family(
    "hunyuan_v1_moe",
    architecture="HunYuanMoEV1ForCausalLM",
    heads=CAUSAL_LM,
    aliases={"num_local_experts": "num_experts", "num_experts_per_tok": "moe_topk"},
)
def hunyuan_v1_moe(c: Config, run: Workload) -> Component:
    """Hunyuan-A13B (transformers' HunYuanMoEV1Model): a shared network as wide as an expert; k may differ by layer."""
    names = ("query_layernorm", "key_layernorm")
    within = (part._replace(name=name) for part, name in zip(qk_norms("rmsnorm", c, run), names, strict=True))
    mixer = attention(c, run, bias=c.flag("attention_bias"), within=tuple(within))
    beside = swiglu("shared_mlp", c.size("intermediate_size"), c, run)

    def parts(each: int | str) -> tuple[Component, ...]:
        return mixer, mixture(c, run, experts="num_experts", each=each, router="gate.wg", first=(beside,))

    count, listed = c.number("num_hidden_layers"), isinstance(c.get("moe_topk"), list)
    kinds: Sequence[int | str] = c.numbers("moe_topk", count, least=1) if listed else ["moe_topk"] * count
    return decoder(c, run, *layers(c, run, kinds, parts))


@family(
    "cohere2_moe",
    architecture="Cohere2MoeForCausalLM",
    heads=CAUSAL_LM,
    first_k_dense_replace=0,  # by __post_init__, for older configs
)
def cohere2_moe(c: Config, run: Workload) -> Component:
    """Cohere 2 with experts (transformers' Cohere2MoeModel): attention and experts side by side, after one norm."""
    norm = "layernorm-no-bias" if c.get("rms_norm_eps") is None else "rmsnorm"
    some = c.number("num_shared_experts", least=0) > 0

    def mlp(kind: str) -> Component:
        if kind == "dense":
            return swiglu("mlp", dense_width(c), c, run)
        common = shared(c, "num_shared_experts", "intermediate_size")
        return mixture(
            c, run, experts="num_experts", within=(swiglu("shared_experts", common, c, run),) if some else ()
        )

    def parts(kind: tuple[int | None, str]) -> tuple[Component, ...]:
        window, network = kind
        return attention(c, run, bias=c.flag("attention_bias"), window=window), mlp(network)

    dense = c.number("first_k_dense_replace", least=0)
    kinds = list(zip(told(run, cohere_windows(c, dense)), mlp_types(c, sparse_after(c, dense)), strict=True))
    return decoder(c, run, *layers(c, run, kinds, parts, norm=norm, names=("input_layernorm",)), final=norm)


def cohere_windows(c: Config, dense: int) -> list[int | None]:
    """Every fourth layer sees everything, counted apart in the ``dense`` layers at the bottom and above them."""
    above, below = c.number("sliding_window_pattern"), c.number("prefix_dense_sliding_window_pattern")
    return windows(c, lambda place: (place + 1) % below > 0 if place < dense else (place - dense + 1) % above > 0)


def dense_width(c: Config) -> Num:
    """The first layers' own width, else that of an expert."""
    own = c.optional("prefix_dense_intermediate_size")
    return c.size("intermediate_size") if own is None else own


@family("aria_text", architecture="AriaTextForCausalLM", heads=CAUSAL_LM)
def aria_text(c: Config, run: Workload) -> Component:
    """Aria (arXiv 2410.05993): only the shared experts may have biases."""
    common = shared(c, "moe_num_shared_experts", "intermediate_size")
    beside = swiglu("shared_experts", common, c, run, bias=c.flag("mlp_bias"))
    experts = mixture(c, run, experts="moe_num_experts", each="moe_topk", router="router", within=(beside,))
    return decoder(c, run, uniform(c, run, attention(c, run, bias=c.flag("attention_bias")), experts))
