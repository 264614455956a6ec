"""The habits of mixtures of experts."""

from __future__ import annotations

from tfcalc.implementations.transformers.habits.code import Flag, Habits
from tfcalc.implementations.transformers.habits.decoders import COHERE, GRANITE, OLMO2

EVERY_SUM: Flag = ("", True)
"""The chosen experts' weights are always divided by their sum."""
SIGMOID = Habits(router="sigmoid", router_logits="copies", normalizes=("norm_topk_prob", True))
"""DeepSeek-V3's router, which many have."""
GRANITE_MOE = GRANITE._replace(norms="pre", router="best first", router_logits="float32")
MIXTURES: dict[str, Habits] = {
    "afmoe": Habits(
        rmsnorm="olmo",
        router="sigmoid",
        router_logits="float32",
        normalizes=EVERY_SUM,
        normalizes_in_place=False,
        masks=2,
    ),
    "aria_text": Habits(router="best first"),
    "axk1": SIGMOID,
    "cohere2_moe": COHERE._replace(masks=2, router="best first", router_logits="float32"),
    "deepseek_v2": Habits(router="groups", router_logits="copies", angles="complex", turns_in_float32=True),
    "deepseek_v3": SIGMOID,
    "deepseek_v32": SIGMOID,
    "dots1": SIGMOID._replace(normalizes=("norm_topk_prob", False)),
    "dots3_note_text": SIGMOID._replace(angles="float32", angles_by_type=True, masks=2),
    "ernie4_5_moe": Habits(
        router="gathered softmax",
        router_logits="copies",
        router_weights="float32",
        angles="float32",
        angles_by_layer=True,
        turns_in_float32=True,
    ),
    "exaone_moe": SIGMOID._replace(masks=2),
    "flex_olmo": OLMO2,
    "flint": Habits(sinks="beside", scores_in_float32=True, normalizes=EVERY_SUM),
    "glm4_moe": SIGMOID._replace(joins_turned=True),
    "glm4_moe_lite": SIGMOID,
    "glm_moe_dsa": SIGMOID,
    "gpt_oss": Habits(
        rmsnorm="olmo",
        router="best first",
        clamps_gates=True,
        joins_turned=True,
        half_angles=True,
        masks=2,
    ),
    "granitemoe": GRANITE_MOE,
    "granitemoe_swa": GRANITE_MOE._replace(masks=2, sinks="scale"),
    "granitemoeshared": GRANITE_MOE,
    "hunyuan_v1_moe": Habits(
        norms_turned_heads=True, normalizes=EVERY_SUM, router_logits="copies", router_weights="float32"
    ),
    "hy_v3": SIGMOID._replace(normalizes=EVERY_SUM, normalizes_in_place=False),
    "minimax": Habits(normalizes=EVERY_SUM, routes_in_float32=True),
    "minimax_m2": Habits(router="sigmoid", router_logits="float32", normalizes=EVERY_SUM, joins_turned=True),
    "mixtral": Habits(normalizes=EVERY_SUM, routes_in_float32=True),
    "olmoe": Habits(clips="clip_qkv"),
    "phimoe": Habits(router="sparse mixer"),
    "qwen3_5_moe_text": Habits(rmsnorm="gemma", joins_turned=True, angles_by_token=True, normalizes=EVERY_SUM),
    "solar_open": SIGMOID,
}
"""By ``model_type``."""
