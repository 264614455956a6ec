"""ZAYA1: compressed convolutional attention, and a router that is a network of its own."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import floor_div
from tfcalc.errors import InvalidModel
from tfcalc.families import experts, kit
from tfcalc.families.windows import layer_types
from tfcalc.nn.basic import Linear, Norm, Stored, parameter
from tfcalc.nn.carried import CarriedMixture, InWeightsFormat, RouterNetwork, ScaledInput, ScaledSums
from tfcalc.nn.convolution import GroupedConvolution
from tfcalc.nn.convolved_keys import ConvolvedKeys
from tfcalc.nn.module import Module
from tfcalc.nn.rope import Rope

WINDOW, FULL = "hybrid_sliding", "hybrid"


def attention(c: Config, window: int | None) -> ConvolvedKeys:
    """Half of each value comes from the token before, so their width is even."""
    h, a, g, d, bias = (
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        kit.kv_heads(c),
        c.size("head_dim"),
        c.flag("attention_bias"),
    )
    if c.number("num_key_value_heads") * c.number("head_dim") % 2:
        raise InvalidModel(f"head_dim {c.number('head_dim')} leaves values of odd width", "give an even one")
    half = floor_div(g * d, 2)
    maps = {"q_proj": (a * d, "Q"), "k_proj": (g * d, "K"), "v_proj_current": (half, "V")}
    return ConvolvedKeys(
        "self_attn",
        a,
        g,
        d,
        d,
        tuple(Linear(f"qkv_proj.{name}", h, width, letter, bias) for name, (width, letter) in maps.items()),
        (),
        Linear("o_proj", a * d, h, "O", bias),
        rope=Rope(floor_div(d, 2), by_window=True, partial=True),
        window=window,
        dropout=bool(c.get("attention_dropout")),
        delayed=Linear("qkv_proj.v_proj_delayed", h, half, "V'", bias),
        depthwise=GroupedConvolution("qkv_proj.conv_qk_depthwise", (a + g) * d, 1, c.size("cca_time0")),
        by_head=GroupedConvolution("qkv_proj.conv_qk_grouped", a + g, d, c.size("cca_time1")),
        temperature=parameter("qk_norm.temp", g, minor=True),
    )


def mixture(c: Config, first: bool) -> CarriedMixture:
    """The router is three layers deep; all but the first add what the router before them saw."""
    inner, choices = c.size("router_hidden_size"), c.size("num_experts") + 1
    router = RouterNetwork(
        "gate",
        Linear("down_proj", c.size("hidden_size"), inner, bias=True),
        None if first else parameter("router_states_scale", inner, minor=True),
        Norm("router_mlp.norm", "rmsnorm", inner),
        (
            Linear("router_mlp.fc1", inner, inner, bias=True),
            Linear("router_mlp.fc2", inner, inner, bias=True),
            Linear("router_mlp.out_proj", inner, choices),
        ),
        experts.correction(c, "balancing_biases", "num_experts"),
    )
    biases = router.biases.but(tensor=router.biases.tensor._replace(shape=(choices,)))
    made = experts.mixture(c, experts="num_experts", width="moe_intermediate_size")
    return CarriedMixture("mlp", router.but(biases=biases), made.experts)


def scales(c: Config) -> tuple[Stored, ...]:
    """A scale and an offset of what each sub-layer adds to the stream, and of the stream itself."""
    places = ("post_attention_residual_scale", "post_mlp_residual_scale")
    vectors = ("hidden_states_scale", "hidden_states_bias", "residual_scale", "residual_bias")
    return tuple(
        parameter(f"{place}.{vector}", c.size("hidden_size"), minor=True) for place in places for vector in vectors
    )


@family(
    "zaya",
    architecture="ZayaForCausalLM",
    heads=tops.CAUSAL_LM | {"ForCausalLM": tops.lm_head(bias_flag="lm_head_bias")},
)
def zaya(c: Config) -> Module:
    """ZAYA1 (arXiv 2511.17127); transformers' ZayaModel."""
    h = c.size("hidden_size")

    def one(kind: tuple[int | None, bool]) -> Module:
        window, first = kind
        norms = tuple(InWeightsFormat(name, "rmsnorm", h) for name in kit.PRE_NORM)
        return ScaledSums("layers", (attention(c, window), mixture(c, first)), norms, vectors=scales(c))

    types = layer_types(c, lambda _: FULL, (WINDOW, FULL))
    kinds = [(c.number("sliding_window") if kind == WINDOW else None, place == 0) for place, kind in enumerate(types)]
    made = kit.decoder(c, one, kinds)
    inputs = tuple(parameter(f"input_hidden_states_{kind}", h, minor=True) for kind in ("scale", "bias"))
    return made.to(ScaledInput, vectors=inputs, norm=InWeightsFormat("norm", "rmsnorm", h))
