"""Llama 4 and Kimi K2.5: text with experts behind a vision tower."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space
from tests.verify.spaces.deepseek import direct, routed


@space("llama4_text")
def llama4_text(random: Random) -> dict[str, Any]:
    """Experts in all layers, in every second or third, or in listed ones."""
    config = grouped(random, head_dim=True)
    count = config["num_hidden_layers"]
    where: dict[str, Any] = random.choice(
        [
            {},
            {"interleave_moe_layer_step": random.randint(1, 3)},
            {"moe_layers": random.sample(range(count), k=count // 2)},
        ]
    )
    return {
        "head_dim": 8,
        **config,
        "intermediate_size_mlp": random.choice([20, 36]),
        "num_local_experts": random.choice([2, 4]),
        "num_experts_per_tok": random.choice([1, 2]),
        "attention_bias": coin(random),
        "use_qk_norm": coin(random),
        "attention_chunk_size": random.choice([4, 7]),
        "no_rope_layer_interval": random.randint(1, 3),
        **where,
        "architectures": [random.choice(["Llama4ForCausalLM", "Llama4TextModel"])],
    }


@space("llama4_vision_model")
def llama4_vision_model(random: Random) -> dict[str, Any]:
    """Images that patches fill, or do not."""
    heads, patch, out = random.choice([2, 4]), random.choice([4, 6]), random.choice([24, 40])
    width, ratio = heads * random.choice([8, 16]), random.choice([0.25, 0.5, 1.0, 2.0])
    return {
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_hidden_layers": random.randint(1, 3),
        "intermediate_size": int(width / ratio**2),  # what pixels that are shuffled into the width make of it
        "num_channels": random.choice([1, 3]),
        "patch_size": patch,
        "image_size": patch * random.choice([4] if ratio < 0.5 else [2, 4]) + random.choice([0, 1]),
        "projector_input_dim": out,
        "projector_output_dim": out,
        "vision_output_dim": out,
        "pixel_shuffle_ratio": ratio,
    }


@space("llama4")
def llama4(random: Random) -> dict[str, Any]:
    """Both together; a head is tied by the text's own flag."""
    text, vision = llama4_text(random), llama4_vision_model(random)
    return {
        "text_config": {key: value for key, value in text.items() if key != "architectures"},
        "vision_config": vision,
        "tie_word_embeddings": coin(random),
    }


@space("kimi_k25_vision")
def kimi_k25_vision(random: Random) -> dict[str, Any]:
    """Tables of positions that need not be square, but none that is higher than wide: it would be read past its end."""
    heads, high = random.choice([2, 4]), random.choice([4, 6])
    return {
        "hidden_size": heads * 8,
        "num_attention_heads": heads,
        "num_hidden_layers": random.randint(1, 3),
        "intermediate_size": random.choice([40, 56]),
        "patch_size": random.choice([4, 6]),
        "pos_emb_height": high,
        "pos_emb_width": high + random.choice([0, 2]),
        "merge_kernel_size": random.choice([[2, 2], [1, 2]]),
    }


@space("kimi_k25")
def kimi_k25(random: Random) -> dict[str, Any]:
    """The whole's flag ties the head."""
    vision = kimi_k25_vision(random)
    return {
        "text_config": {"model_type": "deepseek_v3", **routed(random), **direct(random)},
        "vision_config": vision,
        "projection_hidden_size": vision["hidden_size"],
        "tie_word_embeddings": coin(random),
        "architectures": [random.choice(["Kimi_K25ForConditionalGeneration", "Kimi_K25Model"])],
    }
