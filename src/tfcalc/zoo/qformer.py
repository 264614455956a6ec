"""The Q-Former: a few trained queries that read an encoder's vectors, in the layers of BERT."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks.q_former import Given, reader


def given(c: Config, base: Module) -> Module:
    """Model by itself, which is given vectors."""
    return Given("", base, c.size("hidden_size"), c.size("encoder_hidden_size"))


@family("blip_2_qformer", heads={"Model": given})
def qformer(c: Config) -> Module:
    """Li et al. 2023 (BLIP-2, arXiv 2301.12597): some layers read the encoder; texts have networks of their own."""
    return reader(c)
