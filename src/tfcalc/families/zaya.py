"""ZAYA1: compressed convolutional attention, and a router that is a network of its own."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import layer, stack
from tfcalc.blocks.convolved_attention import ConvolvedAttention
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.core.number import floor_div
from tfcalc.errors import InvalidModel
from tfcalc.families.llama import PRE_NORM, decoder, kv_heads, norms
from tfcalc.families.mixtral import lm_head_by, mixture
from tfcalc.families.windows import told
from tfcalc.leaves import activation, buffer, linear, norm, parameter
from tfcalc.workload import Workload

WINDOW, FULL = "hybrid_sliding", "hybrid"


def attention(window: int | None, c: Config, run: Workload) -> Component:
    """Half of each value comes from the token before, so their width is even."""
    groups = kv_heads(c)
    if c.number("num_key_value_heads") * c.number("head_dim") % 2:
        raise InvalidModel(f"head_dim {c.number('head_dim')} leaves values of odd width", "give an even one")
    block = ConvolvedAttention(
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        groups,
        c.size("head_dim"),
        (c.size("cca_time0"), c.size("cca_time1")),
        bias=c.flag("attention_bias"),
        window=window,
        rotary=floor_div(c.size("head_dim"), 2),
    )
    return block("self_attn", run.target, run)


def router(first: bool, c: Config, run: Workload) -> Component:
    """Three layers deep; all but the first add what the router before them saw. One more choice is to do nothing."""
    inner, choices, tokens = c.size("router_hidden_size"), c.size("num_experts") + 1, run.target.tokens
    return Component(
        "gate",
        "router",
        parts=(
            linear("down_proj", c.size("hidden_size"), inner, tokens),
            *([] if first else [parameter("router_states_scale", inner, minor=True)]),
            norm("router_mlp.norm", "rmsnorm", inner, tokens),
            linear("router_mlp.fc1", inner, inner, tokens),
            activation("activation_1", "gelu", inner * tokens),
            linear("router_mlp.fc2", inner, inner, tokens),
            activation("activation_2", "gelu", inner * tokens),
            linear("router_mlp.out_proj", inner, choices, tokens, bias=False),
            buffer("balancing_biases", choices),
        ),
    )


def scales(c: Config) -> Iterator[Component]:
    """A scale and an offset of the stream, and of what each sub-layer adds to it."""
    for place in ("post_attention_residual_scale", "post_mlp_residual_scale"):
        for vector in ("hidden_states_scale", "hidden_states_bias", "residual_scale", "residual_bias"):
            yield parameter(f"{place}.{vector}", c.size("hidden_size"), minor=True)


@family("zaya", architecture="ZayaForCausalLM", heads=CAUSAL_LM | {"ForCausalLM": lm_head_by("lm_head_bias")})
def zaya(c: Config, run: Workload) -> Component:
    """ZAYA1 (arXiv 2511.17127); transformers' ZayaModel."""
    h = c.size("hidden_size")

    def make(kind: tuple[int | None, bool]) -> Component:
        window, first = kind
        routing = router(first, c, run)
        experts = mixture(c, run, experts="num_experts", width="moe_intermediate_size", routing=routing)
        parts = attention(window, c, run), experts, *scales(c), *norms(PRE_NORM, "rmsnorm", c, run)
        return layer("layers", parts, run.target.tokens * h)

    count = c.number("num_hidden_layers")
    types = c.words("layer_types", count, (WINDOW, FULL)) if c.has("layer_types") else [FULL] * count
    seen = told(run, [c.number("sliding_window") if kind == WINDOW else None for kind in types])
    kinds = [(window, place == 0) for place, window in enumerate(seen)]
    base = decoder(c, run, *stack("layers", kinds, c.size("num_hidden_layers"), make))
    inputs = (parameter(f"input_hidden_states_{kind}", h, minor=True) for kind in ("scale", "bias"))
    return base._replace(parts=(*base.parts, *inputs))
