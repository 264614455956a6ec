"""OLMo Hybrid: gated delta networks in three layers of four, OLMo's attention in the fourth."""

from __future__ import annotations

from tfcalc.blocks import layer, stack
from tfcalc.blocks.gated_delta import SEPARATE, GatedDeltaNet
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide, floor_div
from tfcalc.families.hybrid import FULL, LINEAR, LM, layer_types
from tfcalc.families.llama import PRE_NORM, attention, decoder, gated, norms, qk_norms
from tfcalc.workload import Workload


def delta_net(c: Config, run: Workload) -> Component:
    """As many heads as attention has, of three quarters of the hidden size, values twice as wide, unless given."""
    heads, key, value = (
        c.size("num_attention_heads"),
        c.optional("linear_key_head_dim"),
        c.optional("linear_value_head_dim"),
    )
    keys, values = c.optional("linear_num_key_heads"), c.optional("linear_num_value_heads")
    keys = heads if keys is None else keys
    width: Num = floor_div(divide(3 * c.size("hidden_size"), keys), 4) if key is None else key
    block = GatedDeltaNet(
        c.size("hidden_size"),
        keys,
        heads if values is None else values,
        width,
        2 * width if value is None else value,
        c.size("linear_conv_kernel_dim"),
        c.word("hidden_act"),
        SEPARATE,
        ("o_norm", "o_proj"),
    )
    return block("linear_attn", run.target)


@family("olmo_hybrid", architecture="OlmoHybridForCausalLM", heads=LM)
def olmo_hybrid(c: Config, run: Workload) -> Component:
    """OLMo Hybrid (Ai2, 2026): recurrent layers have norms before their halves, attention layers after them."""

    def made(kind: str) -> Component:
        if kind == LINEAR:
            mixer, names = delta_net(c, run), PRE_NORM
        else:
            within = qk_norms("rmsnorm", c, run, whole=True)
            mixer = attention(c, run, bias=c.flag("attention_bias"), within=within)
            names = ("post_attention_layernorm", "post_feedforward_layernorm")
        parts = (mixer, gated(c, run), *norms(names, "rmsnorm", c, run))
        return layer("layers", parts, run.target.tokens * c.size("hidden_size"), ends_with_sum=kind == LINEAR)

    last = c.number("num_hidden_layers") - 1
    attends = range(3, last + 1, 4) or [last]
    kinds = layer_types(c, lambda place: FULL if place in attends else LINEAR)
    return decoder(c, run, *stack("layers", kinds, c.size("num_hidden_layers"), made))
