"""InternVL: a tower with scales for what each sub-layer adds, whose neighbouring patches are laid side by side."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, subconfig
from tfcalc.configs.tops import bare
from tfcalc.core.number import product
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import OWN_SOFTMAX
from tfcalc.nn.basic import Norm, parameter
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import vision_tower
from tfcalc.zoo.blocks.layers import LLAMA_NAMES, stack
from tfcalc.zoo.blocks.vision_language import heads, patches_of, reader, text_of, tower, two_maps
from tfcalc.zoo.blocks.vision_tower import VIT_NORMS, LayerScale, Tower, grid

FORMS = {"layer_norm": "layernorm", "rms_norm": "rmsnorm"}


@family("internvl_vision", heads={"Model": bare})
def internvl_vision(c: Config) -> Module:
    """InternViT (arXiv 2312.14238): scales for what each sub-layer adds; all heads may be normalised together."""
    h, drops, form = c.size("hidden_size"), bool(c.get("hidden_dropout_prob")), FORMS[c.word("norm_type", list(FORMS))]
    names = (*LLAMA_NAMES[:3], "projection_layer")
    mixer = vision_tower.attention(c, name="attention", names=names, bias=c.flag("attention_bias"), eager=OWN_SOFTMAX)
    if c.flag("use_qk_norm"):
        mixer = mixer.replace(norms=vision_tower.norms(c, "q_norm", "k_norm", form="rmsnorm"), whole=True)
    layer = LayerScale(
        "encoder.layer",
        (mixer, vision_tower.network(c)),
        vision_tower.norms(c, *VIT_NORMS, form=form),
        drops,
        undropped=("attention",),
        scalers=tuple(parameter(name, h, minor=True) for name in ("lambda_1", "lambda_2")),
    )
    patches = vision_tower.patches(c, "patch_embeddings.projection")
    placed = c.flag("use_absolute_position_embeddings")
    places = vision_tower.positions(c, "position_embeddings", 1) if placed else None
    mask = ("mask_token",) if c.flag("use_mask_token") else ()
    table = vision_tower.embeddings(c, ("cls_token",), patches, places, mask, dropped=drops)
    last = None if c.flag("use_mean_pooling") else Norm("layernorm", "layernorm", h)
    count = product(grid(c)) + 1
    return Tower("vision_tower", vision_tower.pixels(c), count, table, None, stack(c, layer), last)


qwen_text = text_of("qwen2")


@family("internvl", heads=heads(qwen_text))
def internvl(c: Config) -> Module:
    """InternVL 3 (arXiv 2504.10479): neighbouring patches are laid side by side, and normalised together."""
    vision, text = subconfig(c, "vision_config", "internvl_vision"), qwen_text(c)
    together = int(1 / c.factor("downsample_ratio")) ** 2
    if not together:
        raise InvalidModel(f"{c.path('downsample_ratio')} {c.factor('downsample_ratio')} is above 1", "such as 0.5")
    fan_in = together * vision.size("hidden_size")
    first = Norm("layer_norm", "layernorm", fan_in)
    projector = two_maps(c, fan_in, text.size("hidden_size"), first, bias=True)
    return reader(tower(vision), (projector,), text, vectors=patches_of(vision), width=fan_in, together=together)
