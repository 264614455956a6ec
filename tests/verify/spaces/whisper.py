"""Whisper, and language models that hear."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space
from tests.verify.spaces.bart import CAUSAL, GENERATION, both_stacks, of


@space("whisper")
def whisper(random: Random) -> dict[str, Any]:
    """All heads."""
    return (
        both_stacks(random)
        | {
            "num_mel_bins": random.choice([8, 10]),
            "max_source_positions": random.choice([16, 20]),
            "max_target_positions": random.choice([12, 18]),
            "use_weighted_layer_sum": coin(random),
            "classifier_proj_size": random.choice([6, 9]),
        }
        | of(random, "Whisper", "Model", GENERATION, CAUSAL, "ForAudioClassification")
    )


def ears(random: Random) -> dict[str, Any]:
    """A small encoder of sound, of which a projector can read as many numbers at once as its inner layers are wide."""
    heads = random.choice([2, 4])
    return {
        "hidden_size": heads * random.choice([4, 6]),
        "num_attention_heads": heads,
        "intermediate_size": random.choice([24, 48]),
        "num_hidden_layers": random.randint(1, 3),
        "num_mel_bins": random.choice([8, 10]),
        "max_source_positions": random.choice([24, 48]),
    }


def some_of(random: Random, fields: dict[str, Any]) -> dict[str, Any]:
    """A nested config, at times without one of its fields."""
    return {name: value for name, value in fields.items() if "heads" in name or random.random() < 0.95}


@space("voxtral_encoder")
def voxtral_encoder(random: Random) -> dict[str, Any]:
    """The encoder by itself."""
    return ears(random) | {"architectures": ["VoxtralEncoder"]}


@space("audioflamingo3_encoder")
def audioflamingo3_encoder(random: Random) -> dict[str, Any]:
    """The encoder by itself."""
    return ears(random) | {"architectures": ["AudioFlamingo3Encoder"]}


@space("moss_transcribe_diarize_audio")
def moss_transcribe_diarize_audio(random: Random) -> dict[str, Any]:
    """The encoder by itself."""
    return ears(random) | {"architectures": ["MossTranscribeDiarizeAudioModel"]}


@space("qwen2_audio_encoder")
def qwen2_audio_encoder(random: Random) -> dict[str, Any]:
    """The encoder by itself."""
    return ears(random) | {"architectures": ["Qwen2AudioEncoder"]}


@space("voxtral")
def voxtral(random: Random) -> dict[str, Any]:
    """Any Llama, any encoder; fields that are left out have Voxtral's own defaults."""
    return {
        "text_config": some_of(random, grouped(random) | {"head_dim": random.choice([4, 8]), "model_type": "llama"}),
        "audio_config": ears(random) | {"model_type": "voxtral_encoder"},
        "audio_token_id": 1,
    } | of(random, "Voxtral", "Model", GENERATION)


@space("qwen2_audio")
def qwen2_audio(random: Random) -> dict[str, Any]:
    """Any Qwen2."""
    return {
        "text_config": grouped(random) | {"model_type": "qwen2"},
        "audio_config": ears(random) | {"model_type": "qwen2_audio_encoder"},
        "audio_token_index": 1,
    } | of(random, "Qwen2Audio", "Model", GENERATION)


def _flamingo(random: Random) -> dict[str, Any]:
    return {
        "text_config": grouped(random) | {"model_type": "qwen2"},
        "audio_config": ears(random) | {"model_type": "audioflamingo3_encoder"},
        "projector_bias": coin(random),
        "audio_token_id": 1,
    }


@space("audioflamingo3")
def audioflamingo3(random: Random) -> dict[str, Any]:
    """With and without biases of the projector."""
    return _flamingo(random) | of(random, "AudioFlamingo3", "Model", GENERATION)


@space("musicflamingo")
def musicflamingo(random: Random) -> dict[str, Any]:
    """The same."""
    return _flamingo(random) | of(random, "MusicFlamingo", "Model", GENERATION)


@space("moonshine")
def moonshine(random: Random) -> dict[str, Any]:
    """Keys and values for each head, and as many in both stacks: what else transformers builds, it cannot run."""
    heads = random.choice([2, 4])
    groups = random.choice([None, heads])
    return {
        "hidden_size": heads * random.choice([4, 8]),
        "intermediate_size": random.choice([24, 40]),
        "encoder_num_hidden_layers": random.randint(1, 3),
        "decoder_num_hidden_layers": random.randint(1, 3),
        "encoder_num_attention_heads": heads,
        "decoder_num_attention_heads": heads,
        "encoder_num_key_value_heads": groups,
        "decoder_num_key_value_heads": groups,
        "vocab_size": random.randint(50, 120),
        "attention_bias": coin(random),
        "tie_word_embeddings": coin(random),
        "pad_token_id": 0,
    } | of(random, "Moonshine", "Model", GENERATION)
