"""The texts and the towers of models of text and images, by themselves."""

from random import Random
from typing import Any

from tests.verify.random_configs import Space, space
from tests.verify.spaces import vl

TEXTS = {
    "glm4v_text": vl.glm4v,
    "mllama_text_model": vl.mllama,
    "qwen2_5_vl_text": vl.qwen2_5_vl,
    "qwen2_vl_text": vl.qwen2_vl,
    "qwen3_vl_moe_text": vl.qwen3_vl_moe,
    "qwen3_vl_text": vl.qwen3_vl,
}
TOWERS = {
    "gemma4_vision": vl.gemma4,
    "glm4v_vision": vl.glm4v,
    "mllama_vision_model": vl.mllama,
    "qwen2_5_vl_vision": vl.qwen2_5_vl,
    "qwen2_vl_vision": vl.qwen2_vl,
    "qwen3_5_moe_vision": vl.qwen3_5_moe,
    "qwen3_5_vision": vl.qwen3_5,
    "qwen3_vl_moe_vision": vl.qwen3_vl_moe,
    "qwen3_vl_vision": vl.qwen3_vl,
}
EARS = {"gemma4_audio": vl.gemma4}
OF_THE_WHOLE = ("architectures", "image_token_id", "vision_config")


def part_of(whole: Space, field: str) -> Space:
    """What stands in this field of the whole's config, or among its own fields."""

    def draw(random: Random) -> dict[str, Any]:
        drawn = whole(random)
        while field != "text_config" and field not in drawn:
            drawn = whole(random)
        own = drawn.get(field, drawn)
        return {name: value for name, value in own.items() if name not in (*OF_THE_WHOLE, "model_type")}

    return draw


for names, field in ((TEXTS, "text_config"), (TOWERS, "vision_config"), (EARS, "audio_config")):
    for model_type, whole in names.items():
        space(model_type)(part_of(whole, field))
