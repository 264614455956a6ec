"""Those that took over DeepSeek's latent attention."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, space
from tests.verify.spaces.deepseek import built_as, direct, latent, routed

CLASSIFIERS = ("ForSequenceClassification", "ForTokenClassification")


def typed(random: Random, **otherwise: Any) -> dict[str, Any]:
    """Dense and sparse layers by a list, or by what stands ``otherwise`` in the config."""
    config = routed(random)
    del config["first_k_dense_replace"]
    types = [random.choice(["dense", "sparse"]) for _ in range(config["num_hidden_layers"])]
    return config | ({"mlp_layer_types": types} if coin(random) else otherwise)


@space("minicpm3")
def minicpm3(random: Random) -> dict[str, Any]:
    """Values of a width of their own, or not."""
    config = latent(random) | direct(random) | {"mlp_bias": coin(random)}
    config["hidden_size"] = config["num_attention_heads"] * random.choice([8, 12])
    if coin(random):
        del config["v_head_dim"]
    return config | built_as(random, "MiniCPM3", CLASSIFIERS[0])


@space("youtu")
def youtu(random: Random) -> dict[str, Any]:
    """No experts."""
    return latent(random) | direct(random) | built_as(random, "Youtu")


@space("glm4_moe_lite")
def glm4_moe_lite(random: Random) -> dict[str, Any]:
    """One dense layer, or those of a list."""
    return typed(random) | direct(random) | built_as(random, "Glm4MoeLite")


@space("axk1")
def axk1(random: Random) -> dict[str, Any]:
    """Experts in every few layers."""
    every = {"first_k_dense_replace": random.randint(0, 3), "moe_layer_freq": random.randint(1, 3)}
    return typed(random, **every) | built_as(random, "AXK1", *CLASSIFIERS)


@space("axk2")
def axk2(random: Random) -> dict[str, Any]:
    """An indexer and gated norms of any size."""
    every = {"first_k_dense_replace": random.randint(0, 3), "moe_layer_freq": random.randint(1, 3)}
    return {
        **typed(random, **every),
        "index_n_heads": random.choice([2, 3]),
        "index_head_dim": random.choice([8, 12]),
        "gated_norm_rank": random.choice([4, 6]),
        **built_as(random, "AXK2", *CLASSIFIERS),
    }


@space("longcat_flash")
def longcat_flash(random: Random) -> dict[str, Any]:
    """Experts that do nothing, or none such; a router with a bias."""
    config = latent(random)
    width, count = config["qk_nope_head_dim"] + config["qk_rope_head_dim"], config.pop("num_hidden_layers")
    return {
        **config,
        "head_dim": config["qk_rope_head_dim"],
        **({"num_layers": count} if coin(random) else {"num_hidden_layers": 2 * count}),
        "ffn_hidden_size": config.pop("intermediate_size"),
        "expert_ffn_hidden_size": random.choice([8, 12]),
        "n_routed_experts": random.choice([4, 6]),
        "zero_expert_num": random.choice([0, 2, 3]),
        "moe_topk": random.choice([1, 2]),
        "router_bias": coin(random),
        "qk_head_dim": random.choice([None, width]),
        **built_as(random, "LongcatFlash"),
    }


@space("dots3_note_text")
def dots3_note_text(random: Random) -> dict[str, Any]:
    """Windows with sizes of their own; experts by a number, a list or the layers' names."""
    config = routed(random)
    del config["first_k_dense_replace"]
    count = config["num_hidden_layers"]
    rope, nope, heads = random.choice([2, 4]), random.choice([4, 6]), random.choice([2, 3])
    windows = {
        "swa_num_attention_heads": heads,
        "swa_num_key_value_heads": heads,
        "swa_q_lora_rank": random.choice([8, 12]),
        "swa_kv_lora_rank": random.choice([8, 12]),
        "swa_head_dim": rope + nope,
        "swa_qk_nope_head_dim": nope,
        "swa_v_head_dim": random.choice([4, 6]),
        **({"swa_qk_rope_head_dim": rope} if coin(random) else {}),
    }
    kinds = random.choices(["sliding_attention", "indexed_attention", "full_attention"], k=count)
    own = {"num_attention_heads": heads, "num_key_value_heads": heads, "q_lora_rank": 6, "kv_lora_rank": 8}
    own |= {"head_dim": rope + nope, "qk_nope_head_dim": nope, "qk_rope_head_dim": rope, "v_head_dim": 6}
    saved = {str(place): own for place, kind in enumerate(kinds) if kind == "sliding_attention"}
    where: dict[str, Any] = random.choice(
        [windows, windows | {"layer_types": kinds}, {"layer_types": kinds, "per_layer_config": saved}]
    )
    often: dict[str, Any] = random.choice(
        [
            {},
            {"first_k_dense_replace": random.randint(0, 3), "moe_layer_freq": random.randint(1, 2)},
            {"moe_layer_freq": random.choices([0, 1], k=count)},
            {"mlp_layer_types": random.choices(["dense", "sparse"], k=count)},
        ]
    )
    flags: dict[str, Any] = random.choice([{}, {"use_dsa": coin(random)}, {"use_sliding_window": coin(random)}])
    return {
        **config,
        "shared_experts_intermediate_size": random.choice([8, 16]),
        random.choice(["sliding_window", "sliding_window_size"]): random.choice([4, 7]),
        "index_n_heads": random.choice([2, 3]),
        "index_head_dim": random.choice([8, 12]),
        **where,
        **often,
        **flags,
        "architectures": [random.choice(["Dots3NoteForCausalLM", "Dots3NoteTextModel"])],
    }


@space("dots3_note_vision_encoder")
def dots3_note_vision_encoder(random: Random) -> dict[str, Any]:
    """Layers with experts by a pyramid, or all with as many."""
    heads, count, merge = random.choice([2, 3]), random.randint(1, 4), random.choice([1, 2])
    width = heads * random.choice([8, 16])
    where: dict[str, Any] = random.choice(
        [
            {"pyramid_num_routed": random.choices([-1, 2, 4], k=count)},
            {"mlp_layer_types": random.choices(["dense", "sparse"], k=count)},
            {"mlp_layer_types": ["dense"] * count, "mlp_bias": True},
            {
                "mlp_layer_types": ["sparse"] * count,
                "per_layer_config": {"0": {"num_local_experts": 3, "num_experts_per_tok": 2}},
            },
        ]
    )
    return {
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_hidden_layers": count,
        "intermediate_size": random.choice([24, 40]),
        "moe_intermediate_size": random.choice([8, 12]),
        "num_local_experts": random.choice([4, 5]),
        "num_channels": random.choice([1, 3]),
        "patch_size": random.choice([4, 6]),
        "attention_bias": coin(random),
        "adapter_in_dim": width,
        "adapter_out_dim": random.choice([24, 40]),
        "adapter_merge_size": merge,
        "spatial_merge_size": merge,
        **where,
    }


@space("dots3_note_audio_encoder")
def dots3_note_audio_encoder(random: Random) -> dict[str, Any]:
    """Bands that do not divide evenly."""
    heads = random.choice([2, 4])
    width = heads * random.choice([8, 16])
    return {
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_hidden_layers": random.randint(1, 3),
        "intermediate_size": random.choice([24, 40]),
        "feature_size": random.choice([16, 20, 31]),
        "downsample_hidden_size": random.choice([6, 8]),
        "attention_bias": coin(random),
        "adapter_input_size": width,
        "adapter_out_dim": random.choice([24, 40]),
    }


@space("dots3_note")
def dots3_note(random: Random) -> dict[str, Any]:
    """All three; the whole's flag ties the head."""
    text = dots3_note_text(random)
    del text["architectures"]
    out = {"adapter_out_dim": text["hidden_size"]}
    return {
        "text_config": text,
        "vision_config": dots3_note_vision_encoder(random) | out,
        "audio_config": dots3_note_audio_encoder(random) | out,
        "audio_token_id": 1,
        "image_token_id": 2,
        "tie_word_embeddings": coin(random),
        "architectures": [random.choice(["Dots3NoteForConditionalGeneration", "Dots3NoteModel"])],
    }


@space("inkling2_text")
def inkling2_text(random: Random) -> dict[str, Any]:
    """Windows with heads of their own."""
    count = random.randint(1, 8)
    kinds = random.choices(["hybrid", "hybrid_sliding"], k=count)
    groups, others = random.choice([1, 2]), random.choice([1, 3])
    return {
        "hidden_size": random.choice([24, 40]),
        "num_hidden_layers": count,
        "num_attention_heads": groups * random.choice([1, 2]),
        "num_key_value_heads": groups,
        "head_dim": random.choice([4, 8]),
        "swa_num_attention_heads": others * random.choice([1, 2]),
        "swa_num_key_value_heads": others,
        "swa_head_dim": random.choice([6, 8]),
        "sliding_window_size": random.choice([8, 16]),
        "d_rel": random.choice([2, 4]),
        "rel_extent": random.choice([10, 20]),
        "n_layers_per_attn_res_block": random.choice([1, 2, 3]),
        "conv_kernel_size": random.choice([2, 4]),
        "moe_intermediate_size": random.choice([8, 12]),
        "n_routed_experts": random.choice([4, 6]),
        "num_experts_per_tok": random.choice([1, 2]),
        "vocab_size": random.randint(50, 120),
        "unpadded_vocab_size": 40,
        "pad_token_id": 0,
        "eos_token_id": 1,
        **({"layer_types": kinds} if coin(random) else {}),
        "architectures": [random.choice(["Inkling2ForCausalLM", "Inkling2TextModel"])],
    }
