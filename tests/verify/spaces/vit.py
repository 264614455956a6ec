"""Vision transformers, and pairs of a text and a vision tower."""

from math import ceil
from random import Random
from typing import Any

from tests.verify.random_configs import coin, space

HEADS = ("Model", "ForImageClassification", "ForMaskedImageModeling")


def images(random: Random) -> dict[str, Any]:
    """Images of whole patches, or with pixels left over; both may be higher than wide."""
    return {
        "image_size": random.choice([32, 48, 50, [32, 48], [50, 40]]),
        "patch_size": random.choice([8, 16, 7, [8, 16]]),
        "num_channels": random.choice([1, 3]),
    }


def widths(random: Random) -> dict[str, Any]:
    """A small encoder."""
    heads = random.choice([1, 2, 4])
    return {
        "hidden_size": heads * random.choice([4, 8, 12]),
        "num_attention_heads": heads,
        "num_hidden_layers": random.randint(1, 4),
        "intermediate_size": random.choice([24, 40]),
        "hidden_act": random.choice(["gelu", "relu", "quick_gelu", "gelu_pytorch_tanh"]),
    }


def labels(random: Random) -> dict[str, Any]:
    """How many classes, if any."""
    return random.choice([{}, {"num_labels": random.choice([1, 7])}, {"id2label": {str(i): f"L{i}" for i in range(5)}}])


def one_head(random: Random, *heads: str) -> dict[str, Any]:
    """What stands on it, and images: as high as wide where pixels are guessed, for so they are put together again."""
    kind = random.choice(heads)
    return {"architectures": [kind], **(square(random) if kind.endswith(HEADS[2]) else images(random))}


@space("vit")
def vit(random: Random) -> dict[str, Any]:
    """Biases, heads of any width, a pooler of another width."""
    return (
        widths(random)
        | labels(random)
        | one_head(random, *("ViT" + head for head in HEADS))
        | {
            "qkv_bias": coin(random),
            "encoder_stride": random.choice([4, 16]),
            "pooler_output_size": random.choice([None, 10]),
            "pooler_act": random.choice(["tanh", "relu"]),
            **({"head_dim": 6} if coin(random) else {}),
        }
    )


@space("deit")
def deit(random: Random) -> dict[str, Any]:
    """ViT, with one head more."""
    kinds = [*HEADS, "ForImageClassificationWithTeacher"]
    return vit(random) | one_head(random, *("DeiT" + kind for kind in kinds))


@space("dinov2")
def dinov2(random: Random) -> dict[str, Any]:
    """Gated or not, masks or not."""
    drawn = vit(random) | {"architectures": ["Dinov2" + random.choice([*HEADS[:2], "Backbone"])]}
    del drawn["intermediate_size"]
    return (
        drawn
        | square(random)
        | {
            "mlp_ratio": random.choice([2, 3, 4]),
            "use_swiglu_ffn": coin(random),
            "use_mask_token": coin(random),
            "layerscale_value": random.choice([0.0, 1.0]),
        }
    )


def _both(size: Any) -> list[int]:
    return size if isinstance(size, list) else [size, size]


@space("swin")
def swin(random: Random) -> dict[str, Any]:
    """Stages of any depth and number of heads, windows that fit into the last."""
    stages = random.randint(1, 4)
    heads = [random.choice([1, 2, 4]) for _ in range(stages)]
    drawn = one_head(random, *("Swin" + head for head in HEADS)) | {"patch_size": random.choice([2, 3])}
    shortest = ceil(min(_both(drawn["image_size"])) / drawn["patch_size"] / 2 ** (stages - 1))
    return (
        drawn
        | labels(random)
        | {
            "embed_dim": 4 * random.choice([2, 3, 6]),
            "depths": [random.randint(1, 3) for _ in range(stages)],
            "num_heads": heads,
            "window_size": random.choice([size for size in (2, 4, 7) if size <= shortest]),
            "mlp_ratio": random.choice([4, 2.0, 2.667]),
            "qkv_bias": coin(random),
            "use_absolute_embeddings": coin(random),
            "encoder_stride": random.choice([4, 16]),
        }
    )


def square(random: Random) -> dict[str, Any]:
    """Images as high as wide, in whole patches or not."""
    return {
        "image_size": random.choice([32, 48, 50]),
        "patch_size": random.choice([8, 16, 7]),
        "num_channels": random.choice([1, 3]),
    }


def texts(random: Random) -> dict[str, Any]:
    """A small text tower."""
    return widths(random) | {
        "vocab_size": random.randint(50, 120),
        "max_position_embeddings": random.choice([16, 77]),
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


@space("clip_text_model")
def clip_text(random: Random) -> dict[str, Any]:
    """With and without its projection."""
    kind = random.choice(["CLIPTextModel", "CLIPTextModelWithProjection"])
    return texts(random) | {"architectures": [kind], "projection_dim": random.choice([8, 20])}


@space("clip_vision_model")
def clip_vision(random: Random) -> dict[str, Any]:
    """With and without its projection."""
    kind = random.choice(["CLIPVisionModel", "CLIPVisionModelWithProjection"])
    return widths(random) | square(random) | {"architectures": [kind], "projection_dim": random.choice([8, 20])}


@space("clip")
def clip(random: Random) -> dict[str, Any]:
    """Towers of different widths."""
    twice = {"vision_config_dict": widths(random) | square(random)} if random.random() < 0.3 else {}
    return (
        labels(random)
        | twice
        | {
            "architectures": ["CLIP" + random.choice(HEADS[:2])],
            "projection_dim": random.choice([8, 20]),
            "text_config": texts(random),
            "vision_config": widths(random) | square(random),
        }
    )


@space("siglip_vision_model")
def siglip_vision(random: Random) -> dict[str, Any]:
    """With and without a head that reads the patches."""
    drawn = widths(random) | square(random) | {"vision_use_head": coin(random)}
    return drawn | {"architectures": ["SiglipVisionModel"]}


@space("siglip_text_model")
def siglip_text(random: Random) -> dict[str, Any]:
    """A projection of its own width, or not."""
    projection = {"projection_size": 20} if coin(random) else {}
    return texts(random) | projection | {"architectures": ["SiglipTextModel"]}


@space("siglip")
def siglip(random: Random) -> dict[str, Any]:
    """Towers of different widths; where both are compared, each has a head, and they end alike."""
    text, vision = siglip_text(random), siglip_vision(random)
    for drawn in (text, vision):
        del drawn["architectures"]
    kind = random.choice(HEADS[:2])
    if kind == "Model":
        text["projection_size"], vision["vision_use_head"] = vision["hidden_size"], True
    return labels(random) | {"architectures": ["Siglip" + kind], "text_config": text, "vision_config": vision}


@space("siglip2")
def siglip2(random: Random) -> dict[str, Any]:
    """Images of any shape."""
    drawn = siglip(random)
    del drawn["vision_config"]["image_size"]
    drawn["vision_config"]["num_patches"] = random.choice([16, 64])
    return drawn | {"architectures": ["Siglip2" + drawn["architectures"][0].removeprefix("Siglip")]}


@space("dinov3_vit")
def dinov3(random: Random) -> dict[str, Any]:
    """Biases each by itself, registers, gates."""
    flags = ("query_bias", "key_bias", "value_bias", "proj_bias", "mlp_bias", "use_gated_mlp")
    return (
        widths(random)
        | images(random)
        | {name: coin(random) for name in flags}
        | {
            "architectures": ["DINOv3ViT" + random.choice(["Model", "Backbone"])],
            "num_register_tokens": random.choice([0, 4]),
        }
    )


@space("tipsv2_text_model")
def tipsv2_text(random: Random) -> dict[str, Any]:
    """Positions that are not stored."""
    return texts(random) | {"architectures": ["Tipsv2TextModel"], "scale_sqrt_depth": coin(random)}
