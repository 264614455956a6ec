"""Models of text and images, and the texts that only they have."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space

FULL, SLIDING = "full_attention", "sliding_attention"


def two_kinds(random: Random, count: int, shared: int) -> dict[str, Any]:
    """Layers that see all or a window; those that reuse keys and values come after one of each kind."""
    own = [FULL, SLIDING, *random.choices([FULL, SLIDING], k=count - shared - 2)]
    random.shuffle(own)
    return {
        "num_hidden_layers": count,
        "num_kv_shared_layers": shared,
        "layer_types": [*own, *random.choices([FULL, SLIDING], k=max(shared - 1, 0)), *([FULL] if shared else [])],
    }


def gemma_text(random: Random) -> dict[str, Any]:
    """What Gemma 3n and 4 have in common."""
    count = random.randint(3, 7)
    return (
        grouped(random)
        | {
            "head_dim": random.choice([4, 8, 10]),
            "attention_bias": coin(random),
            "vocab_size_per_layer_input": random.randint(40, 90),
            "hidden_size_per_layer_input": random.choice([6, 8]),
            "hidden_activation": "gelu_pytorch_tanh",
        }
        | two_kinds(random, count, random.choice([0, 0, 1, count - 2]))
    )


@space("gemma3n_text")
def gemma3n_text(random: Random) -> dict[str, Any]:
    """Layers of any width, streams, low ranks."""
    drawn = gemma_text(random)
    if coin(random):
        drawn["intermediate_size"] = random.choices([16, 24, 40], k=drawn["num_hidden_layers"])
    drawn |= {
        "architectures": [random.choice(["Gemma3nForCausalLM", "Gemma3nTextModel"])],
        "altup_num_inputs": random.choice([2, 3, 4]),
        "laurel_rank": random.choice([2, 5]),
    }
    if coin(random):
        drawn["activation_sparsity_pattern"] = random.choices([0.0, 0.95], k=drawn["num_hidden_layers"])
    return drawn


@space("gemma4_text")
def gemma4_text(random: Random) -> dict[str, Any]:
    """Two widths of heads, keys that are the values, experts, tables for each layer or not."""
    drawn = gemma_text(random)
    heads = drawn["num_attention_heads"]
    if coin(random):  # transformers cannot run shared keys without tables
        drawn |= {"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0}
    if coin(random):
        drawn |= {"enable_moe_block": True, "num_experts": 6, "top_k_experts": 2, "moe_intermediate_size": 12}
    if random.random() < 0.3:
        del drawn["layer_types"]
        drawn |= {"num_kv_shared_layers": 0, "num_hidden_layers": 8}
    if random.random() < 0.3:
        types = drawn.get("layer_types", [])  # as transformers writes them: the same for all layers of a type
        own = {"head_dim": 16, "num_key_value_heads": heads}
        last = len(types) - 1
        drawn["per_layer_config"] = {f"{i:02}": own for i, kind in enumerate(types) if kind == FULL or i == last}
    return drawn | {
        "architectures": [random.choice(["Gemma4ForCausalLM", "Gemma4TextModel"])],
        "global_head_dim": random.choice([8, 12]),
        "attention_k_eq_v": coin(random),
        "num_global_key_value_heads": random.choice([None, 1, heads]),
        "use_double_wide_mlp": coin(random),
        "use_bidirectional_attention": random.choice([None, "vision", "all"]),
    }


def small_text(random: Random, **further: Any) -> dict[str, Any]:
    """A text within another config."""
    return grouped(random) | {"bos_token_id": 0, "eos_token_id": 0} | further


def conditional(random: Random, prefix: str, *, both: str = "tie_word_embeddings") -> dict[str, Any]:
    """The bare model or the one that writes; tied or not."""
    kind = random.choice(["Model", "ForConditionalGeneration", "ForConditionalGeneration"])
    return {"architectures": [prefix + kind], both: coin(random)}


def qwen_tower(random: Random) -> dict[str, Any]:
    """A tower of any-size images."""
    heads = random.choice([1, 2, 4])
    return {
        "depth": random.randint(1, 4),
        "num_heads": heads,
        "in_channels": random.choice([1, 3]),
        "patch_size": random.choice([4, 7]),
        "spatial_merge_size": random.choice([1, 2]),
        "temporal_patch_size": random.choice([1, 2]),
    }


def seen_as_text(whole: dict[str, Any], text: dict[str, Any], out: str = "out_hidden_size") -> dict[str, Any]:
    """The whole, whose tower makes vectors as wide as the text's, and no more often than the text has layers."""
    whole["vision_config"][out] = text["hidden_size"]
    deep = whole["vision_config"].get("deepstack_visual_indexes", [])
    text["num_hidden_layers"] = max(text["num_hidden_layers"], len(deep))
    return whole | {"image_token_id": 3}


def in_three(text: dict[str, Any]) -> dict[str, Any]:
    """Rotary positions in three dimensions, which share half of a head's width."""
    half = text["hidden_size"] // text["num_attention_heads"] // 2
    sections = [half - 2 * (half // 4), half // 4, half // 4]
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": sections}
    return text | {"rope_parameters": rope}


@space("qwen2_vl")
def qwen2_vl(random: Random) -> dict[str, Any]:
    """Text fields nested or at the top; tied by either config."""
    vision = qwen_tower(random)
    vision |= {"embed_dim": 8 * vision["num_heads"], "mlp_ratio": random.choice([2, 4])}
    text = in_three(small_text(random))
    whole = seen_as_text({"vision_config": vision, **conditional(random, "Qwen2VL")}, text, "hidden_size")
    return whole | {"text_config": text} if coin(random) else text | whole


@space("qwen2_5_vl")
def qwen2_5_vl(random: Random) -> dict[str, Any]:
    """Text fields nested or at the top; tied by either config."""
    vision = qwen_tower(random)
    vision |= {"hidden_size": 8 * vision["num_heads"], "intermediate_size": 20}
    least = vision["patch_size"] * vision["spatial_merge_size"]
    vision |= {"fullatt_block_indexes": [0, 2], "window_size": random.choice([least, 56])}
    if coin(random):
        vision["model_type"] = "qwen2_5_vl"
    text = in_three(small_text(random))
    whole = seen_as_text({"vision_config": vision, **conditional(random, "Qwen2_5_VL")}, text)
    return whole | {"text_config": text} if coin(random) else text | whole


def qwen3_tower(random: Random) -> dict[str, Any]:
    """With a table of positions; where early layers go to the text too, for so few vectors that any text has them."""
    drawn, deep = qwen_tower(random), random.choice([[], [0], [0, 1]])
    return (
        drawn
        | {
            "depth": drawn["depth"] + len(deep),
            "hidden_size": 8 * drawn["num_heads"],
            "intermediate_size": random.choice([20, 36]),
            "num_position_embeddings": random.choice([16, 64]),
            "deepstack_visual_indexes": deep,
        }
        | ({"spatial_merge_size": 2, "num_position_embeddings": 16} if deep else {})
    )


@space("qwen3_vl")
def qwen3_vl(random: Random) -> dict[str, Any]:
    """Any number of layers whose vectors go to the text too."""
    text = small_text(random, attention_bias=coin(random), head_dim=random.choice([8, 16]))
    whole = {"text_config": text, "vision_config": qwen3_tower(random), **conditional(random, "Qwen3VL")}
    return seen_as_text(whole, text)


@space("qwen3_vl_moe")
def qwen3_vl_moe(random: Random) -> dict[str, Any]:
    """Some layers dense."""
    text = small_text(random, attention_bias=coin(random), num_experts=6, num_experts_per_tok=2)
    text |= {"moe_intermediate_size": 12, "decoder_sparse_step": random.choice([1, 2])}
    text |= {"mlp_only_layers": random.choice([None, [0]])}
    whole = {"text_config": text, "vision_config": qwen3_tower(random), **conditional(random, "Qwen3VLMoe")}
    return seen_as_text(whole, text)


def delta_text(random: Random) -> dict[str, Any]:
    """Linear attention between full one, of which transformers' cache needs a layer."""
    count = random.randint(4, 5)
    return small_text(random) | {
        "num_hidden_layers": count,
        "head_dim": 8,
        "attention_bias": coin(random),
        "linear_key_head_dim": 4,
        "linear_value_head_dim": 6,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        **({"layer_types": [*random.choices([FULL, "linear_attention"], k=count - 1), FULL]} if coin(random) else {}),
    }


@space("qwen3_5")
def qwen3_5(random: Random) -> dict[str, Any]:
    """A dense text."""
    text = delta_text(random)
    whole = {"text_config": text, "vision_config": qwen3_tower(random), **conditional(random, "Qwen3_5")}
    return seen_as_text(whole, text)


@space("qwen3_5_moe")
def qwen3_5_moe(random: Random) -> dict[str, Any]:
    """A text of experts."""
    experts = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 12}
    text = delta_text(random) | experts | {"shared_expert_intermediate_size": 10}
    whole = {"text_config": text, "vision_config": qwen3_tower(random), **conditional(random, "Qwen3_5Moe")}
    return seen_as_text(whole, text)


def siglip(random: Random) -> dict[str, Any]:
    """A tower with or without its head, or none given."""
    heads = random.choice([1, 2, 4])
    return {
        "hidden_size": heads * 8,
        "num_attention_heads": heads,
        "num_hidden_layers": random.randint(1, 3),
        "intermediate_size": 24,
        "image_size": random.choice([32, 48]),
        "patch_size": 8,
        "vision_use_head": coin(random),
    }


@space("gemma3")
def gemma3(random: Random) -> dict[str, Any]:
    """Any head on it."""
    text = small_text(random, head_dim=random.choice([8, 10]), attention_bias=coin(random))
    whole = {"text_config": text, "vision_config": siglip(random), "mm_tokens_per_image": 4}
    sorting = {"architectures": ["Gemma3ForSequenceClassification"], "num_labels": 3}
    return whole | conditional(random, "Gemma3") | (sorting if random.random() < 0.2 else {})


@space("paligemma")
def paligemma(random: Random) -> dict[str, Any]:
    """Gemma 1 or 2."""
    text = small_text(random, head_dim=8, model_type=random.choice(["gemma", "gemma2"]))
    vision = siglip(random) | {"model_type": "siglip_vision_model"}
    whole = {"text_config": text, "vision_config": vision, "projection_dim": random.choice([12, 16])}
    return whole | conditional(random, "PaliGemma")


def clip_tower(random: Random) -> dict[str, Any]:
    """CLIP's or SigLIP's tower."""
    drawn = siglip(random) | {"model_type": random.choice(["clip_vision_model", "siglip_vision_model"])}
    if drawn["model_type"].startswith("clip"):
        del drawn["vision_use_head"]
    return drawn


def any_text(random: Random) -> dict[str, Any]:
    """One of several text models."""
    return small_text(random, model_type=random.choice(["llama", "mistral", "qwen2"]))


def llava_like(random: Random) -> dict[str, Any]:
    """A projector with or without biases, of one or two layers' vectors, the last or not."""
    return {
        "text_config": any_text(random),
        "vision_config": clip_tower(random),
        "multimodal_projector_bias": coin(random),
        "vision_feature_layer": random.choice([-1, -2, 1, [-1, -2], [0, -2]]),
    }


@space("llava")
def llava(random: Random) -> dict[str, Any]:
    """Tied by either config; with or without the first vector."""
    strategy = {"vision_feature_select_strategy": random.choice(["default", "full"])}
    return llava_like(random) | strategy | conditional(random, "Llava")


@space("llava_next")
def llava_next(random: Random) -> dict[str, Any]:
    """Tied by the outer config; tiles that are laid side by side, without a first vector."""
    drawn = llava_like(random)
    firsts = drawn["vision_config"]["model_type"] == "clip_vision_model"
    side = drawn["vision_config"]["image_size"]
    return (
        drawn
        | {
            "vision_feature_select_strategy": "default" if firsts else "full",
            "image_grid_pinpoints": random.choice([[[side, 2 * side], [2 * side, 2 * side]], [[2 * side, side]]]),
        }
        | conditional(random, "LlavaNext")
    )


@space("mistral3")
def mistral3(random: Random) -> dict[str, Any]:
    """Patches merged or not; Pixtral's tower, of which one layer's vectors are taken: the norm has no more width."""
    vision = siglip(random) | {"model_type": "pixtral"}
    del vision["vision_use_head"]
    return (
        llava_like(random)
        | {
            "vision_config": vision,
            "spatial_merge_size": random.choice([1, 2]),
            "vision_feature_layer": random.choice([-1, -2, [-1]]),
        }
        | conditional(random, "Mistral3")
    )


@space("pixtral")
def pixtral(random: Random) -> dict[str, Any]:
    """The tower by itself."""
    vision = siglip(random)
    del vision["vision_use_head"]
    return vision | {"architectures": ["PixtralVisionModel"], "num_channels": random.choice([1, 3])}


@space("internvl")
def internvl(random: Random) -> dict[str, Any]:
    """Norms, biases, tokens and positions on and off."""
    vision = siglip(random) | {
        name: coin(random)
        for name in (
            "attention_bias",
            "use_qk_norm",
            "use_mask_token",
            "use_absolute_position_embeddings",
            "use_mean_pooling",
        )
    }
    del vision["vision_use_head"]
    vision["norm_type"] = random.choice(["layer_norm", "rms_norm"])
    whole = {"text_config": any_text(random), "vision_config": vision}
    ratio = random.choice([0.5, 0.25, 1.0] if vision["image_size"] == 32 else [0.5, 1.0])
    return whole | {"downsample_ratio": ratio} | conditional(random, "InternVL")


@space("idefics3")
def idefics3(random: Random) -> dict[str, Any]:
    """Patches side by side or not."""
    vision = siglip(random)
    del vision["vision_use_head"]
    whole = {"text_config": any_text(random), "vision_config": vision, "scale_factor": random.choice([1, 2])}
    return whole | conditional(random, "Idefics3")


@space("smolvlm")
def smolvlm(random: Random) -> dict[str, Any]:
    """The same."""
    return idefics3(random) | conditional(random, "SmolVLM")


def gemma4_tower(random: Random) -> dict[str, Any]:
    """Clipped or not, standardised or not."""
    heads = random.choice([2, 4])
    return {
        "hidden_size": heads * 8,
        "num_attention_heads": heads,
        "num_key_value_heads": random.choice([1, 2, heads]),
        "head_dim": random.choice([8, 12]),
        "num_hidden_layers": random.randint(1, 3),
        "intermediate_size": 24,
        "patch_size": random.choice([4, 8]),
        "position_embedding_size": random.choice([48, 64]),
        "pooling_kernel_size": random.choice([2, 3]),
        "use_clipped_linears": coin(random),
        "standardize": coin(random),
    }


def gemma4_ears(random: Random) -> dict[str, Any]:
    """Clipped or not."""
    return {
        "hidden_size": 24,
        "num_attention_heads": random.choice([2, 3]),
        "num_hidden_layers": random.randint(1, 3),
        "subsampling_conv_channels": [random.choice([8, 10]), 4],
        "conv_kernel_size": random.choice([3, 5]),
        "output_proj_dims": random.choice([10, 24]),
        "use_clipped_linears": coin(random),
    }


@space("gemma4")
def gemma4(random: Random) -> dict[str, Any]:
    """Images, sounds, both or none."""
    text = gemma4_text(random)
    del text["architectures"]
    whole = {"text_config": text, **conditional(random, "Gemma4")}
    seeing = {"vision_config": gemma4_tower(random)} if coin(random) else {}
    return whole | seeing | ({"audio_config": gemma4_ears(random)} if coin(random) else {})


@space("gemma4_unified_text")
def gemma4_unified_text(random: Random) -> dict[str, Any]:
    """Neither experts nor tables, whatever the config says of them."""
    kind = random.choice(["Gemma4UnifiedForCausalLM", "Gemma4UnifiedTextModel"])
    return gemma4_text(random) | {"architectures": [kind]}


@space("gemma4_unified")
def gemma4_unified(random: Random) -> dict[str, Any]:
    """Images, sounds, both or none."""
    text = gemma4_text(random)
    del text["architectures"]
    whole = {"text_config": text, **conditional(random, "Gemma4Unified")}
    vision = {
        "patch_size": random.choice([2, 4]),
        "pooling_kernel_size": random.choice([1, 3]),
        "mm_embed_dim": 20,
        "mm_posemb_size": random.choice([48, 64]),
        "output_proj_dims": 20,
    }
    seeing = {"vision_config": vision} if coin(random) else {}
    return whole | seeing | ({"audio_config": {"audio_embed_dim": 30}} if coin(random) else {})


@space("aya_vision")
def aya_vision(random: Random) -> dict[str, Any]:
    """An inner width of its own, or the text's."""
    text = small_text(random, model_type=random.choice(["cohere", "cohere2"]))
    vision = siglip(random) | {"model_type": "siglip_vision_model"}
    inner = {"alignment_intermediate_size": 30} if coin(random) else {}
    whole = {"text_config": text, "vision_config": vision, "downsample_factor": random.choice([1, 2])}
    return whole | inner | conditional(random, "AyaVision")


@space("modernvbert")
def modernvbert(random: Random) -> dict[str, Any]:
    """Biases, ties, heads."""
    text = small_text(random, **{name: coin(random) for name in ("decoder_bias", "classifier_bias", "norm_bias")})
    vision = siglip(random) | {"model_type": "siglip_vision_model"}
    kind = random.choice(["Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"])
    return {
        "architectures": ["ModernVBert" + kind],
        "text_config": text | {"model_type": "modernbert"},
        "vision_config": vision,
        "pixel_shuffle_factor": random.choice([1, 2]),
        "tie_word_embeddings": coin(random),
        "num_labels": random.choice([2, 5]),
    }


@space("glm4v")
def glm4v(random: Random) -> dict[str, Any]:
    """Biases or not; tied by either config."""
    vision = qwen_tower(random)
    vision |= {
        "hidden_size": 8 * vision["num_heads"],
        "attention_bias": coin(random),
        "image_size": vision["patch_size"] * random.choice([4, 8]),
        "intermediate_size": 20,
    }
    text = in_three(small_text(random))
    return seen_as_text({"text_config": text, "vision_config": vision, **conditional(random, "Glm4v")}, text)


@space("mllama")
def mllama(random: Random) -> dict[str, Any]:
    """Any layers that read images, of any shapes."""
    count = random.randint(1, 4)
    text = small_text(random, num_hidden_layers=count)
    text["cross_attention_layers"] = [place for place in range(count) if coin(random)]
    heads, depth = random.choice([2, 4]), random.randint(1, 3)
    early = random.sample(range(depth), random.randint(1, depth))
    vision: dict[str, Any] = {
        "hidden_size": 8 * heads,
        "attention_heads": heads,
        "num_hidden_layers": depth,
        "num_global_layers": random.randint(1, 2),
        "intermediate_size": 24,
        "intermediate_layers_indices": early,
        "vision_output_dim": 8 * heads * (1 + len(early)),
        "image_size": random.choice([32, 48]),
        "patch_size": 8,
    }
    if coin(random):
        vision |= {"max_num_tiles": 2, "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]]}
    kind = random.choice(["Model", "ForConditionalGeneration", "ForCausalLM"])
    return {"text_config": text, "vision_config": vision, "architectures": ["Mllama" + kind]}


@space("got_ocr2")
def got_ocr2(random: Random) -> dict[str, Any]:
    """Positions of either sort, layers that see windows or all."""
    heads = random.choice([2, 4])
    vision = {
        "hidden_size": 8 * heads,
        "num_attention_heads": heads,
        "num_hidden_layers": random.randint(1, 4),
        "output_channels": random.choice([8, 12]),
        "image_size": random.choice([32, 48]),
        "patch_size": 8,
        "window_size": random.choice([0, 2, 3]),
        "global_attn_indexes": random.choice([[], [0], [1, 2]]),
        "mlp_dim": 24,
        **{name: coin(random) for name in ("qkv_bias", "use_abs_pos", "use_rel_pos")},
    }
    return {"text_config": any_text(random), "vision_config": vision, **conditional(random, "GotOcr2")}
