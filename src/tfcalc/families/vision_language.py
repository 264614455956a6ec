"""Language models that read images: a vision tower, a projector of what it sees, and the text model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tfcalc.configs.config import MOST_LAYERS, Config
from tfcalc.configs.family import Head, nested
from tfcalc.configs.heads import bare, classifier, output
from tfcalc.core.component import Component
from tfcalc.core.number import Num, floor_div, product
from tfcalc.families.images import grid, image
from tfcalc.families.unread import read_early, unread_heads
from tfcalc.leaves import activation, linear
from tfcalc.workload import Sequences, Workload

CLASS_TOKENS = ("class_embedding", "cls_token")
Text = Callable[[Config], Config]
Tied = Callable[[Config, Config], bool]


def outer(c: Config, _text: Config) -> bool:
    """Only what the whole's config says of ``tie_word_embeddings`` counts."""
    return c.flag("tie_word_embeddings")


def either(c: Config, text: Config) -> bool:
    """One of both configs may tie the head."""
    return c.flag("tie_word_embeddings") or text.flag("tie_word_embeddings")


def conditional(text: Text, *, tied: Tied = outer) -> Head:
    """Logits of the text model's vectors."""

    def head(c: Config, run: Workload, base: Component) -> Iterator[Component]:
        language = text(c)
        yield base
        yield output("lm_head", language.size("hidden_size"), language.size("vocab_size"), run, tied=tied(c, language))

    return head


def heads(text: Text, *, tied: Tied = outer) -> dict[str, Head]:
    """The bare model, the one that writes, and one that sorts what it has read."""
    return {
        "Model": bare,
        "ForConditionalGeneration": conditional(text, tied=tied),
        "ForSequenceClassification": classifier("score", width=lambda c: text(c).size("hidden_size")),
    }


def reader(
    run: Workload, text: Config, tower: Component, *between: Component, name: str = "language_model"
) -> Component:
    """A tower, what is ``between`` it and the text, and the text model."""
    return Component("model", "multimodal", parts=(tower, *between, nested(text, run, name)))


def seen(vision: Config, run: Workload) -> Num:
    """How many patches a tower gives to the text: those of one image for each sequence.

    Where images may be of any size, as many as ``source_len`` of the workload says.
    """
    return run.source.tokens if vision.get("image_size") is None else image(vision, run).tokens


def side_by_side(vision: Config, run: Workload, side: Num) -> Num:
    """How many vectors there are where squares of ``side`` × ``side`` patches become one each."""
    return run.beside(product(floor_div(length, side) for length in grid(vision))).tokens


def two_maps(
    c: Config, fan_in: Num, width: Num, tokens: Num, *, bias: bool, act: str = "projector_hidden_act"
) -> Iterator[Component]:
    """Two linear maps with an activation between them."""
    yield linear("linear_1", fan_in, width, tokens, bias=bias)
    yield activation("act", c.word(act), tokens * width)
    yield linear("linear_2", width, width, tokens, bias=bias)


def feature_layers(c: Config) -> list[int]:
    """The layers of the tower whose vectors are taken, side by side."""
    if isinstance(c.get("vision_feature_layer"), list | tuple):
        return c.numbers("vision_feature_layer", least=-MOST_LAYERS)
    return [c.number("vision_feature_layer", least=-MOST_LAYERS)]


def as_read(c: Config, run: Workload, vision: Config, tower: Component) -> Component:
    """The tower as its reader leaves it: without what its head makes, and without layers above those that are taken."""
    count = vision.number("num_hidden_layers")
    last = max(layer if layer >= 0 else count + 1 + layer for layer in feature_layers(c))
    return unread_heads(read_early(tower, run, count - last), run)


def taken(c: Config, run: Workload, vision: Config, tower: Component) -> Sequences:
    """The vectors that are taken of a tower: all, or all but the first (``vision_feature_select_strategy``)."""
    firsts = sum(node.component.name in CLASS_TOKENS for node in tower.walk())
    return image(vision, run, firsts - (c.get("vision_feature_select_strategy") == "default"))
