"""The language model of Emu3; its image tokenizer is not covered."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import lm_head
from tfcalc.core.component import Component
from tfcalc.workload import Workload


def text(c: Config) -> Config:
    """The nested config of the language model."""
    return c.sub("text_config", "emu3_text_model")


def of_text(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Logits over the vocabulary of texts and images."""
    yield from lm_head()(text(c), run, base)


@family("emu3", architecture="Emu3ForCausalLM", heads={"ForCausalLM": of_text})
def emu3(c: Config, run: Workload) -> Component:
    """Emu3 (arXiv 2409.18869): Llama over tokens of texts and images."""
    return nested(text(c), run, "model")
