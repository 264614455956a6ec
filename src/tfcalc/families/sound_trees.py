"""Trees of models that hear, as long as some are trees: Whisper's stem, and an encoder before a language model."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import nested
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.families.sound_kit import language
from tfcalc.leaves import activation, convolution
from tfcalc.workload import Workload


def stem(width: Num, channels: Num, frames: Num) -> Iterator[Component]:
    """Two convolutions over time, of which the second halves it."""
    yield convolution("conv1", channels, width, (3,), 2 * frames, input_gradient=False)
    yield activation("conv1_activation", "gelu", 2 * frames * width)
    yield convolution("conv2", width, width, (3,), frames)
    yield activation("conv2_activation", "gelu", frames * width)


def listener(c: Config, run: Workload, ears: Component, *projector: Component) -> Component:
    """An encoder of sound, a ``projector`` of its frames, and the language model that reads them among its words."""
    return Component(
        "model",
        "listener",
        parts=(
            ears._replace(name="audio_tower"),
            Component("multi_modal_projector", "projector", parts=projector),
            nested(language(c), run, "language_model"),
        ),
    )


def never(_whole: Config, _text: Config) -> bool:
    """``tie_word_embeddings`` is not heeded."""
    return False
