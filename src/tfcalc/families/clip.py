"""CLIP and SigLIP: a text and a vision tower whose vectors are compared."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, find, subconfig
from tfcalc.configs.tops import Top, bare
from tfcalc.core.number import Num, product
from tfcalc.families import image_kit
from tfcalc.families.images import grid
from tfcalc.nn.basic import Embedding, Linear, Stored, parameter
from tfcalc.nn.compared import Compared, Probe, Projected, TextTower, WithWeights, Words
from tfcalc.nn.embeddings import BUFFER, Positions, Sines
from tfcalc.nn.encoder import Layers
from tfcalc.nn.image_heads import MEAN, OTHERS
from tfcalc.nn.images import Resized
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Module
from tfcalc.nn.tower import Tower

IMAGES_ONLY = "ForImageClassification"
NORMS = ("layer_norm1", "layer_norm2")
FUSED = ("in_proj[q]", "in_proj[k]", "in_proj[v]", "out_proj")
"""torch.nn.MultiheadAttention keeps one matrix for three, here told apart: the query is one vector."""


def encoder(c: Config, *, causal: bool = False) -> Layers:
    """Pre-norm layers with biases everywhere."""
    subs = image_kit.attention(c, causal=causal), image_kit.network(c)
    return Layers("encoder", (), image_kit.stack(c, PreNorm("layers", subs, image_kit.norms(c, *NORMS))))


def text_tower(
    c: Config, *, causal: bool, head: Linear | None = None, position: Module | None = None, scales: bool = False
) -> TextTower:
    """Tokens with positions, layers, a final norm."""
    h = c.size("hidden_size")
    tokens = Embedding("token_embedding", c.size("vocab_size"), h, scales=scales)
    places = position or Positions("position_embedding", c.size("max_position_embeddings"), h, BUFFER)
    (last,) = image_kit.norms(c, "final_layer_norm")
    return TextTower("text_model", Words("embeddings", (tokens, places), None), encoder(c, causal=causal), last, head)


def projected(name: str) -> Top:
    """A tower's vector in the space that both share."""

    def top(c: Config, base: Module) -> Module:
        assert isinstance(base, Tower | TextTower)
        return Projected("", base, Linear(name, c.size("hidden_size"), c.size("projection_dim")))

    return top


@family("clip_text_model", heads={"Model": bare, "ModelWithProjection": projected("text_projection")})
def clip_text(c: Config) -> Module:
    """CLIP's text tower looks only back."""
    return text_tower(c, causal=True)


@family("clip_vision_model", heads={"Model": bare, "ModelWithProjection": projected("visual_projection")})
def clip_vision(c: Config) -> Module:
    """A class token before the patches, which have no bias; a norm before the layers too."""
    first, last = image_kit.norms(c, "pre_layrnorm", "post_layernorm")  # as it is spelt
    patches = image_kit.patches(c, "patch_embedding", bias=False)
    places = image_kit.positions(c, "position_embedding", 1, looked_up=BUFFER)
    table = image_kit.embeddings(c, ("class_embedding",), patches, places)
    count = product(grid(c)) + 1
    return Tower("vision_model", image_kit.pixels(c), count, table, first, encoder(c), last, alone=True)


def both(c: Config, text: str, vision: str) -> tuple[TextTower, Tower]:
    """The text and the vision tower."""
    read = find(text).base(tower(c, "text", text)).but(name="text_model")
    assert isinstance(read, TextTower)
    return read, seen(c, vision)


def seen(c: Config, model_type: str) -> Tower:
    """The vision tower, which is all that there is where images are classified."""
    made = find(model_type).base(tower(c, "vision", model_type)).but(name="vision_model")
    assert isinstance(made, Tower)
    return made.but(pools=c.head != IMAGES_ONLY)


def tower(c: Config, which: str, model_type: str) -> Config:
    """The config of a tower: old files have it twice, and the one that ends in ``_dict`` wins."""
    twice = c.get(f"{which}_config_dict") is not None
    return subconfig(c, f"{which}_config_dict" if twice else f"{which}_config", model_type)


def width(c: Config, which: str, model_type: str) -> Num:
    """The hidden size of a tower."""
    return tower(c, which, model_type).size("hidden_size")


def classifier(model_type: str, reads: str) -> Top:
    """Classes of an image, from its vision tower."""
    return image_kit.classifier("classifier", width=lambda c: width(c, "vision", model_type), reads=reads)


@family("clip", heads={"Model": bare, IMAGES_ONLY: classifier("clip_vision_model", OTHERS)})
def clip(c: Config) -> Module:
    """Radford et al. 2021 (arXiv 2103.00020): both towers are projected without bias; a trained temperature."""
    if c.head == IMAGES_ONLY:
        return seen(c, "clip_vision_model")
    towers, shared = both(c, "clip_text_model", "clip_vision_model"), c.size("projection_dim")
    of_images = Linear("visual_projection", width(c, "vision", "clip_vision_model"), shared)
    of_texts = Linear("text_projection", width(c, "text", "clip_text_model"), shared)
    return Compared("clip", *towers, (of_images, of_texts), temperature(), by_hand=True)


def temperature(name: str = "logit_scale") -> Stored:
    """A trained number."""
    return parameter(name)


@family("siglip_text_model", architecture="SiglipTextModel", heads={"Model": bare})
@family("siglip2_text_model", architecture="Siglip2TextModel", heads={"Model": bare})
def siglip_text(c: Config) -> Module:
    """SigLIP's text tower looks both ways, and projects its last vector itself."""
    h, given = c.size("hidden_size"), c.optional("projection_size")
    return text_tower(c, causal=False, head=Linear("head", h, h if given is None else given, "", True))


@family("siglip_vision_model", heads={"Model": bare})
def siglip_vision(c: Config) -> Module:
    """No class token: a trained query reads the patches."""
    places = image_kit.positions(c, "position_embedding", looked_up=BUFFER)
    table = image_kit.embeddings(c, (), image_kit.patches(c, "patch_embedding"), places)
    return _with_head(c, image_kit.pixels(c), product(grid(c)), table)


@family("siglip2_vision_model", heads={"Model": bare})
def siglip2_vision(c: Config) -> Module:
    """Images of any shape, of up to ``num_patches`` patches."""
    h, count, side = c.size("hidden_size"), c.size("num_patches"), c.size("patch_size")
    pixels = c.size("num_channels") * side * side
    patches = Linear("patch_embedding", pixels, h, "", True)
    table = image_kit.embeddings(c, (), patches, Resized("position_embedding", count, h))
    return _with_head(c, (pixels,), count, table)


def _with_head(c: Config, pixels: tuple[Num, ...], count: Num, table: Module) -> Tower:
    (last,) = image_kit.norms(c, "post_layernorm")
    head = pooling(c) if c.flag("vision_use_head") else None
    return Tower("vision_model", pixels, count, table, None, encoder(c), last, head)


def pooling(c: Config) -> Probe:
    """One trained query attends to all patches; a feed-forward network after it."""
    reader = image_kit.attention(c, name="attention", names=FUSED, dropout="", of=WithWeights)
    assert isinstance(reader, WithWeights)
    (norm,) = image_kit.norms(c, "layernorm")
    return Probe("head", parameter("probe", c.size("hidden_size")), reader, norm, image_kit.network(c))


@family("siglip", heads={"Model": bare, IMAGES_ONLY: classifier("siglip_vision_model", MEAN)})
def siglip(c: Config) -> Module:
    """Zhai et al. 2023 (arXiv 2303.15343): a trained temperature and bias for each pair's logit."""
    return _compared(c, "siglip_text_model", "siglip_vision_model")


@family("siglip2", heads={"Model": bare, IMAGES_ONLY: classifier("siglip2_vision_model", MEAN)})
def siglip2(c: Config) -> Module:
    """Tschannen et al. 2025 (arXiv 2502.14786)."""
    return _compared(c, "siglip2_text_model", "siglip2_vision_model")


def _compared(c: Config, text: str, vision: str) -> Module:
    if c.head == IMAGES_ONLY:
        return seen(c, vision)
    return Compared("siglip", *both(c, text, vision), (), temperature(), temperature("logit_bias"))


@family("tipsv2_text_model", heads={"Model": bare})
def tipsv2_text(c: Config) -> Module:
    """The text tower of TIPSv2 (transformers' Tipsv2TextModel): fixed positions, which are not stored."""
    return text_tower(c, causal=False, position=Sines("position_embedding", c.size("hidden_size")), scales=True)
