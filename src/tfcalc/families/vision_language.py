"""Language models that read images: a vision tower, a projector of what it sees, and the text model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, nested
from tfcalc.configs.heads import bare, classifier, output
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import activation, linear
from tfcalc.workload import Workload

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


def two_maps(
    c: Config, fan_in: Num, width: Num, tokens: Num, *, bias: bool, act: str = "projector_hidden_act"
) -> Iterator[Component]:
    """Two linear maps with an activation between them."""
    yield linear("linear_1", fan_in, width, tokens, bias=bias)
    yield activation("act", c.word(act), tokens * width)
    yield linear("linear_2", width, width, tokens, bias=bias)
