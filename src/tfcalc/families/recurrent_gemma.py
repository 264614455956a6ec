"""RecurrentGemma: Griffin's recurrent blocks, and local attention in every third layer."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, floor_div
from tfcalc.errors import InvalidModel
from tfcalc.families import kit
from tfcalc.families.gemma import CODE
from tfcalc.nn.basic import BlockDiagonal, Linear, parameter
from tfcalc.nn.convolution import ShortConvolution
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.griffin import RGLRU, RecurrentBlock
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Module

NORMS = ("temporal_pre_norm", "channel_pre_norm")


def recurrent(c: Config) -> Module:
    """The block with the RG-LRU; its gates have as many blocks as there are heads."""
    field = "hidden_size" if c.get("lru_width") is None else "lru_width"
    h, width, heads = c.size("hidden_size"), c.size(field), c.size("num_attention_heads")
    block: Num = c.quotient(field, "num_attention_heads")
    lru = RGLRU(
        "rg_lru",
        parameter("recurrent_param", width, minor=True),
        *(BlockDiagonal(name, block, block, bias=True, blocks=heads) for name in ("input_gate", "recurrent_gate")),
    )
    return RecurrentBlock(
        "temporal_block",
        Linear("linear_y", h, width, "y", bias=True),
        c.word("hidden_activation"),
        Linear("linear_x", h, width, "x", bias=True),
        ShortConvolution("conv_1d", width, c.size("conv1d_width"), summed=True),
        lru,
        Linear("linear_out", width, h, "out", bias=True),
    )


def attention(c: Config) -> Module:
    """Attention in a window; each layer makes its own angles."""
    bias, window = c.flag("attention_bias"), c.number("attention_window_size")
    mixer = kit.attention(c, bias=bias, output_bias=True, window=window)
    return mixer.but(name="temporal_block", rope=kit.rope(c, by_layer=True, copies=True))


def block_types(c: Config) -> list[str]:
    """``block_types`` over and over again, one for each layer."""
    cycle = c.words("block_types", None, ("recurrent", "attention"))
    if not cycle:
        raise InvalidModel(f"{c.path('block_types')} is empty", 'write ["recurrent", "recurrent", "attention"]')
    return [cycle[place % len(cycle)] for place in range(c.number("num_hidden_layers"))]


@family(
    "recurrent_gemma",
    architecture="RecurrentGemmaForCausalLM",
    heads={"Model": tops.bare, "ForCausalLM": tops.lm_head(cap="logits_soft_cap")},
    aliases={"sliding_window": "attention_window_size"},
    partial_rotary_factor=0.5,  # by convert_rope_params_to_dict
)
def recurrent_gemma(c: Config) -> Module:
    """RecurrentGemma (arXiv 2404.07839): ``intermediate_size`` counts gate and input, twice the network's width."""
    h, act = c.size("hidden_size"), c.word("hidden_activation")
    half: Num = floor_div(c.size("intermediate_size"), 2)
    gate, up = (Linear(name, h, half, letter, bias=True) for name, letter in (("gate_proj", "g"), ("up_proj", "1")))
    ffn = GatedFeedForward("mlp_block", gate, up, Linear("down_proj", half, h, "2", bias=True), act)

    def one(kind: str) -> PreNorm:
        mixer = recurrent(c) if kind == "recurrent" else attention(c)
        return kit.layer(c, mixer, ffn, names=NORMS, code=CODE)

    windows = (c.number("attention_window_size"),)
    names = ("model", "embed_tokens", "final_norm")
    return kit.decoder(c, one, block_types(c), code=CODE, names=names, masks=windows).but(scales=True, scale="bfloat16")
