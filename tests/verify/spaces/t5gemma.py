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


@space("t5gemma2")
def t5gemma2(random: Random) -> dict[str, Any]:
    """Both stacks as wide, and with as many words; images of any size."""
    encoder, decoder = gemma(random) | {"head_dim": 8}, gemma(random) | {"head_dim": 6}
    heads = random.choice([2, 4])
    decoder |= {"hidden_size": 24, "vocab_size": encoder["vocab_size"]}
    images = {
        "model_type": "siglip_vision_model",
        "hidden_size": heads * 4,
        "intermediate_size": random.choice([12, 20]),
        "num_hidden_layers": random.randint(1, 3),
        "num_attention_heads": heads,
        "image_size": 16,
        "patch_size": random.choice([4, 8]),
    }
    return {
        "encoder": {
            "text_config": encoder | {"hidden_size": 24},
            "vision_config": images,
            "mm_tokens_per_image": 4,
        },
        "decoder": decoder,
        "tie_word_embeddings": coin(random),
    } | of(random, "T5Gemma2", "Model", GENERATION, "ForSequenceClassification", "ForTokenClassification")
