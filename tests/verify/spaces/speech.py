"""Language models that hear with encoders of other kinds than Whisper's."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space
from tests.verify.spaces.bart import GENERATION, of


def ears(random: Random) -> dict[str, Any]:
    """A small encoder with rotary positions."""
    heads = random.choice([2, 4])
    return {
        "hidden_size": heads * random.choice([4, 8]),
        "num_attention_heads": heads,
        "intermediate_size": random.choice([24, 48]),
        "num_hidden_layers": random.randint(1, 3),
        "num_mel_bins": random.choice([8, 10]),
        "max_position_embeddings": 24,
    }


@space("glmasr_encoder")
def glmasr_encoder(random: Random) -> dict[str, Any]:
    """The encoder by itself."""
    groups = {"num_key_value_heads": random.choice([None, 1, 2])}
    return ears(random) | groups | {"architectures": ["GlmAsrEncoder"]}


@space("glmasr")
def glmasr(random: Random) -> dict[str, Any]:
    """Tied by the outer flag only; grouped heads."""
    return {
        "text_config": grouped(random, head_dim=True) | {"model_type": "llama"},
        "audio_config": ears(random)
        | {"model_type": "glmasr_encoder", "num_key_value_heads": random.choice([None, 1, 2])},
        "audio_token_id": 1,
        "tie_word_embeddings": coin(random),
    } | of(random, "GlmAsr", "Model", GENERATION)


@space("voxtral_realtime")
def voxtral_realtime(random: Random) -> dict[str, Any]:
    """Heads of any width."""
    return {
        "text_config": grouped(random, head_dim=True) | {"model_type": "voxtral_realtime_text"},
        "audio_config": ears(random) | {"model_type": "voxtral_realtime_encoder", "head_dim": random.choice([4, 6, 8])},
        "downsample_factor": random.choice([2, 4]),
        "tie_word_embeddings": coin(random),
    } | of(random, "VoxtralRealtime", "Model", GENERATION)
