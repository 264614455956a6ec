"""What language models that read images are composed of: a tower, a projector, and any text model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tfcalc.configs.config import MOST_LAYERS, Config
from tfcalc.configs.family import subconfig
from tfcalc.configs.tops import Top, bare, labels, logits
from tfcalc.core.number import Num, product
from tfcalc.families import image_kit
from tfcalc.families.images import grid
from tfcalc.nn.basic import Linear
from tfcalc.nn.encoder import Layers
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.reader import ImageReader, Projector
from tfcalc.nn.stack import Stack
from tfcalc.nn.tower import ReadEarly, Tower

CLASS_TOKENS = ("class_embedding", "cls_token")
Text = Callable[[Config], Config]
Tied = Callable[[Config, Config], bool]


def outer(c: Config, _text: Config) -> bool:
    """Only what the whole's config says of ``tie_word_embeddings`` counts."""
    return c.flag("tie_word_embeddings")


def either(c: Config, text: Config) -> bool:
    """One of both configs may tie the head."""
    return c.flag("tie_word_embeddings") or text.flag("tie_word_embeddings")


def conditional(text: Text, *, tied: Tied = outer, cap: str = "") -> Top:
    """Logits of the text model's vectors; a field of its config may say that they have a ``cap``."""

    def top(c: Config, base: Module) -> Module:
        language = text(c)
        shared = tied(c, language)
        head = logits("lm_head", language.size("hidden_size"), language.size("vocab_size"), tied=shared)
        return WithHead("", base, head, capped=bool(cap) and language.get(cap) is not None)

    return top


def classifier(text: Text, name: str = "score", *, bias: bool = False) -> Top:
    """Classes of the text model's vectors."""

    def top(c: Config, base: Module) -> Module:
        return WithHead("", base, Linear(name, text(c).size("hidden_size"), labels(c), "", bias))

    return top


def heads(text: Text, *, tied: Tied = outer, cap: str = "") -> dict[str, Top]:
    """The bare model, the one that writes, and one that sorts what it has read."""
    return {
        "Model": bare,
        "ForConditionalGeneration": conditional(text, tied=tied, cap=cap),
        "ForSequenceClassification": classifier(text),
    }


def text_of(model_type: str, *, over: Mapping[str, object] | None = None) -> Text:
    """Any text model, but one of this type where none is named, which has the defaults ``over`` its own."""
    return lambda c: subconfig(c, "text_config", model_type, over=over, free=True)


def reader(
    tower: Module,
    between: tuple[Module, ...],
    text: Config,
    *,
    vectors: Num | None,
    width: Num,
    name: str = "language_model",
    together: Num = 1,
    tiles: Num = 1,
) -> ImageReader:
    """A tower, what is ``between`` it and the text, and the text model; see :class:`ImageReader`."""
    return ImageReader("model", tower, between, image_kit.nested(text, name), vectors, width, together, tiles)


def patches_of(vision: Config) -> Num | None:
    """How many patches a tower gives to the text: those of one image, or any number where images are of any size."""
    return None if vision.get("image_size") is None else product(grid(vision))


def tower(vision: Config, name: str = "vision_tower", late: Num = 0) -> Module:
    """A tower of which every vector is read, as it is so many (``late``) layers before the end, and nothing else."""
    made = image_kit.nested_as(vision, Tower, name)
    return made.but(pools=False, layers=_without_late(made.layers, late))


def _without_late(layers: Layers | Stack, late: Num) -> Layers | Stack:
    if isinstance(layers, Layers):
        return layers.but(layers=_without_late(layers.layers, late))
    return ReadEarly(layers.name, layers.layers, layers.count, late) if late else layers


def feature_layers(c: Config) -> list[int]:
    """The layers of the tower whose vectors are taken, side by side."""
    if isinstance(c.get("vision_feature_layer"), list | tuple):
        return c.numbers("vision_feature_layer", least=-MOST_LAYERS, some=True)
    return [c.number("vision_feature_layer", least=-MOST_LAYERS)]


def late(c: Config, vision: Config) -> int:
    """How many layers there are above those that are taken."""
    count = vision.number("num_hidden_layers")
    return count - max(layer if layer >= 0 else count + 1 + layer for layer in feature_layers(c))


def taken(c: Config, vision: Config, tower: Module) -> Num:
    """How many vectors are taken of each image: all, or all but the first (``vision_feature_select_strategy``)."""
    whole = (node for each in tower.components() for node in each.walk())
    firsts = sum(node.component.name in CLASS_TOKENS for node in whole)
    count: Num = product(grid(vision)) + firsts - (c.get("vision_feature_select_strategy") == "default")
    return count


def two_maps(
    c: Config, fan_in: Num, width: Num, *before: Module, bias: bool, act: str = "projector_hidden_act"
) -> Projector:
    """Two linear maps with an activation between them, and what stands before them."""
    maps = Linear("linear_1", fan_in, width, "", bias), Linear("linear_2", width, width, "", bias)
    return Projector("multi_modal_projector", (*before, *maps), c.word(act))
