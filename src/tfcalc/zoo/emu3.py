"""The language model of Emu3; its image tokenizer is not covered."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks.vision_tower import nested


def text(c: Config) -> Config:
    """The nested config of the language model."""
    return c.sub("text_config", "emu3_text_model")


def of_text(c: Config, base: Module) -> Module:
    """Logits over the vocabulary of texts and images."""
    return tops.lm_head()(text(c), base)


@family("emu3", heads={"ForCausalLM": of_text})
def emu3(c: Config) -> Module:
    """Emu3 (arXiv 2409.18869): Llama over tokens of texts and images."""
    return nested(text(c), "model")
