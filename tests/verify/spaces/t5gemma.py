"""T5Gemma."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space
from tests.verify.spaces.bart import GENERATION, of


def gemma(random: Random) -> dict[str, Any]:
    """One of the two stacks."""
    return grouped(random, head_dim=True) | {"attention_bias": coin(random)}


@space("t5gemma")
def t5gemma(random: Random) -> dict[str, Any]:
    """Two stacks of different sizes; for some classes the encoder by itself."""
    both = {"encoder": gemma(random), "decoder": gemma(random), "tie_word_embeddings": coin(random)}
    if random.random() < 0.2:
        return both | {"is_encoder_decoder": False} | of(random, "T5Gemma", "EncoderModel", "ForTokenClassification")
    heads = ("Model", GENERATION, "ForSequenceClassification", "ForTokenClassification")
    return both | of(random, "T5Gemma", *heads)
