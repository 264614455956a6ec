"""Granite Speech."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space
from tests.verify.spaces.bart import GENERATION, of


@space("granite_speech")
def granite_speech(random: Random) -> dict[str, Any]:
    """Windows, queries and layers of any number; heads of any width."""
    heads, readers = random.choice([2, 4]), random.choice([2, 3])
    encoder = {
        "model_type": "granite_speech_encoder",
        "input_dim": random.choice([8, 12]),
        "num_layers": random.randint(1, 4),
        "hidden_dim": heads * random.choice([4, 6]),
        "feedforward_mult": random.choice([2, 4]),
        "num_heads": heads,
        "dim_head": random.choice([None, 5]),
        "output_dim": random.choice([7, 9]),
        "context_size": 6,
        "max_pos_emb": random.choice([8, 16]),
        "conv_kernel_size": random.choice([3, 5]),
        "conv_expansion_factor": random.choice([1, 2]),
    }
    projector = {
        "model_type": "blip_2_qformer",
        "hidden_size": readers * 4,
        "num_attention_heads": readers,
        "num_hidden_layers": random.randint(1, 5),
        "intermediate_size": random.choice([12, 20]),
        "encoder_hidden_size": encoder["hidden_dim"],
        "cross_attention_frequency": random.choice([1, 2, 3]),
        "use_qformer_text_input": coin(random),
    }
    return {
        "encoder_config": encoder,
        "projector_config": projector,
        "text_config": grouped(random) | {"model_type": "granite"},
        "downsample_rate": random.choice([2, 5]),
        "window_size": random.choice([10, 20]),
        "tie_word_embeddings": coin(random),
    } | of(random, "GraniteSpeech", "Model", GENERATION)


@space("blip_2_qformer")
def qformer(random: Random) -> dict[str, Any]:
    """The projector by itself: vectors that read others."""
    drawn: dict[str, Any] = granite_speech(random)["projector_config"]
    return drawn | {"architectures": ["Blip2QFormerModel"]}
