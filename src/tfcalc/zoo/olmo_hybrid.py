"""OLMo Hybrid: gated delta networks in three layers of four, OLMo's attention in the fourth."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, divide, floor_div
from tfcalc.nn.basic import Linear, Norm, parameter
from tfcalc.nn.layers import NormAfterSublayer, PreNorm
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.decoders import POST_NORM
from tfcalc.zoo.blocks.state_space import FULL, LINEAR, GatedDeltaNet, ShortConvolution, mixer_types

CODE = "olmo"


def delta_net(c: Config) -> Module:
    """Delta network: as many heads as attention has, of 3/4 of the hidden size, values twice as wide, unless given."""
    h, heads = c.size("hidden_size"), c.size("num_attention_heads")
    key, value = c.optional("linear_key_head_dim"), c.optional("linear_value_head_dim")
    keys, values = c.optional("linear_num_key_heads"), c.optional("linear_num_value_heads")
    keys, values = heads if keys is None else keys, heads if values is None else values
    key = floor_div(divide(3 * h, keys), 4) if key is None else key
    value = 2 * key if value is None else value
    wide: dict[str, Num] = {"q_proj": keys * key, "k_proj": keys * key, "v_proj": values * value}
    return GatedDeltaNet(
        "linear_attn",
        tuple(Linear(name, h, width) for name, width in wide.items()),
        Linear("g_proj", h, values * value),
        tuple(Linear(name, h, values) for name in ("b_proj", "a_proj")),
        ShortConvolution("conv1d", 2 * keys * key + values * value, c.size("linear_conv_kernel_dim"), bias=False),
        c.word("hidden_act"),
        parameter("dt_bias", values, minor=True),
        parameter("A_log", values, minor=True),
        Norm("o_norm", "rmsnorm", value),
        Linear("o_proj", values * value, h, "O"),
        keys,
        values,
        key,
        value,
    )


@family("olmo_hybrid", heads={"Model": tops.bare, "ForCausalLM": tops.lm_head()})
def olmo_hybrid(c: Config) -> Module:
    """OLMo Hybrid (Ai2, 2026): recurrent layers have norms before their halves, attention layers after them."""

    def one(kind: str) -> PreNorm:
        if kind == LINEAR:
            return decoders.layer(c, delta_net(c), decoders.gated(c), code=CODE)
        mixer = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", whole=True, code=CODE)
        mixer = mixer.replace(rope=decoders.rope(c, angles="float32"))
        return decoders.layer(c, mixer, decoders.gated(c), of=NormAfterSublayer, names=POST_NORM, code=CODE)

    last = c.number("num_hidden_layers") - 1
    attends = range(3, last + 1, 4) or [last]
    kinds = mixer_types(c, lambda place: FULL if place in attends else LINEAR)
    return decoders.decoder(c, one, kinds, code=CODE, masks=(None,))
