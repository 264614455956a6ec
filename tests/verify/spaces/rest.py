"""Those that came last: successors of others, and language models that hear in other ways."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space
from tests.verify.spaces.bart import GENERATION, both_stacks, of
from tests.verify.spaces.granite_speech import granite_speech
from tests.verify.spaces.mamba import nemotron_h
from tests.verify.spaces.whisper import ears

TOKENS = "ForTokenClassification"


def some(random: Random, **choices: list[Any]) -> dict[str, Any]:
    """Each field as often given as not."""
    return {name: random.choice(values) for name, values in choices.items() if coin(random)}


def given(random: Random, **configs: dict[str, Any]) -> dict[str, Any]:
    """Nested configs, of which one is now and then left out."""
    return {name: config for name, config in configs.items() if random.random() < 0.85}


def qwen3(random: Random) -> dict[str, Any]:
    """Any Qwen3."""
    named = {"model_type": "qwen3"} if coin(random) else {}
    return grouped(random, head_dim=True) | named | some(random, attention_bias=[True, False])


@space("granite_speech_plus")
def granite_speech_plus(random: Random) -> dict[str, Any]:
    """The projector may read several layers."""
    drawn = granite_speech(random) | of(random, "GraniteSpeechPlus", "Model", GENERATION)
    drawn["encoder_config"]["model_type"] = "granite_speech_plus_encoder"
    encoder = drawn["encoder_config"]
    if coin(random):
        chosen = random.sample(range(encoder["num_layers"]), random.randint(0, encoder["num_layers"]))
        encoder["cat_hidden_layers"] = chosen
        drawn["projector_config"]["encoder_hidden_size"] = encoder["hidden_dim"] * (len(chosen) + 1)
    return drawn


@space("molmo2_text")
def molmo2_text(random: Random) -> dict[str, Any]:
    """Norms of heads or of whole projections, biases, further words."""
    return (
        grouped(random, head_dim=True)
        | some(
            random,
            qk_norm_type=["qwen3", "olmo"],
            additional_vocab_size=[0, 5, 17],
            norm_after=[True, False],
            hidden_act=["silu", "gelu"],
        )
        | ({random.choice(["attention_bias", "qkv_bias"]): True} if coin(random) else {})
        | {"architectures": ["Molmo2TextModel"]}
    )


@space("moss_transcribe_diarize")
def moss_transcribe_diarize(random: Random) -> dict[str, Any]:
    """Any Qwen3, frames joined by any number, biases or not."""
    return (
        given(random, text_config=qwen3(random), audio_config=ears(random))
        | some(
            random,
            projector_bias=[True, False],
            audio_merge_size=[1, 2, 4],
            projector_hidden_act=["gelu", "silu"],
            tie_word_embeddings=[True, False],
        )
        | {"audio_token_id": 1}
        | of(random, "MossTranscribeDiarize", "Model", GENERATION)
    )


@space("qwen3_asr")
def qwen3_asr(random: Random) -> dict[str, Any]:
    """Any number of bins, channels and windows; classes of tokens with a bias or without."""
    heads = random.choice([2, 4])
    audio = {
        random.choice(["d_model", "hidden_size"]): heads * random.choice([4, 6]),
        random.choice(["encoder_attention_heads", "num_attention_heads"]): heads,
        random.choice(["encoder_ffn_dim", "intermediate_size"]): random.choice([24, 48]),
        random.choice(["encoder_layers", "num_hidden_layers"]): random.randint(1, 3),
        "num_mel_bins": random.choice([8, 10, 17]),
        "downsample_hidden_size": random.choice([6, 10]),
        "output_dim": random.choice([12, 16]),
        **some(random, n_window=[50, 52], n_window_infer=[200, 800], activation_function=["gelu", "relu"]),
    }  # transformers takes 13 frames a piece for granted
    return (
        given(random, text_config=qwen3(random), audio_config=audio)
        | some(random, tie_word_embeddings=[True, False], token_classification_bias=[True, False])
        | {"audio_token_id": 1}
        | of(random, "Qwen3ASR", "Model", GENERATION, TOKENS)
    )


def _hears(random: Random) -> dict[str, Any]:
    heads = random.choice([2, 4])  # where keys are shared, transformers builds it, but cannot run it
    return {
        "hidden_size": heads * random.choice([4, 8]),
        "intermediate_size": random.choice([24, 40]),
        "num_hidden_layers": random.randint(1, 3),
        "num_attention_heads": heads,
        **some(random, num_key_value_heads=[1, heads, heads, None, None], hidden_act=["gelu", "relu"], head_dim=[4, 6]),
    }


@space("nemo_speechlm")
def nemo_speechlm(random: Random) -> dict[str, Any]:
    """Encoders of any width, any Nemotron-H."""
    factor, heard = random.choice([2, 4]), _hears(random)
    stacked = {"subsampling_factor": factor}
    speakers = {
        "hidden_size": random.choice([6, 10]),
        "num_speakers": 8,
        "audio_hidden_size": heard["hidden_size"],
        **stacked,
    }
    bins = some(random, num_mel_bins=[8, 10])  # both hear the same
    audio = {
        "asr_config": _hears(random) | stacked | bins,
        "diarization_config": {
            "model_type": "nemotron3_diarization",
            "audio_config": heard | stacked | bins,
            "head_config": speakers,
            "streaming_config": stacked,
        },
    }
    classes = random.choice([7, 11])
    timed = _hears(random) | {"vocab_size": classes, "blank_token_id": classes - 1}
    text = nemotron_h(random) | {"model_type": "nemotron_h"}
    text.pop("architectures", None)
    return {
        "text_config": text,
        **given(random, audio_config=audio, word_timestamp_config=timed | some(random, upsampling_factor=[1, 2, 3])),
    } | of(random, "Nemotron3_5Transcribe", "Model", GENERATION)


@space("phi4_multimodal")
def phi4_multimodal(random: Random) -> dict[str, Any]:
    """Images of any size, stems of any depth, convolutions of any width."""
    heads, ears_of = random.choice([2, 4]), random.choice([2, 4])
    vision = {
        "hidden_size": heads * 8,
        "intermediate_size": random.choice([24, 40]),
        "num_hidden_layers": random.randint(1, 3),
        "num_attention_heads": heads,
        "image_size": random.choice([28, 42, 50]),
        "patch_size": random.choice([7, 14]),
        "image_token_id": 1,
        **some(random, num_channels=[1, 4], hidden_act=["gelu", "relu"], vision_use_head=[False]),
    }
    audio = {
        "hidden_size": ears_of * 8,
        "audio_token_id": 2,
        "intermediate_size": random.choice([24, 40]),
        "num_blocks": random.randint(1, 3),
        "num_attention_heads": ears_of,
        **some(
            random,
            depthwise_multiplier=[1, 2],
            kernel_size=[1, 5],
            input_size=[8, 13],
            time_reduction=[2, 4, 16],
            bias_max_distance=[50, 80],
            bias_symmetric=[True, False],
            nemo_conv_channels=[6, 12],
            activation=["gelu", "relu"],
        ),
    }
    runs = random.random() < 0.8  # transformers builds others, but cannot run them
    audio |= (
        {"ext_pw_out_channel": ears_of * 8, "depthwise_separable_out_channel": ears_of * 8}
        if runs
        else some(
            random,
            ext_pw_out_channel=[6, 16],
            depthwise_separable_out_channel=[10, 16],
            time_reduction=[6],
            downsample_rate=[2],
        )
    )
    return (
        grouped(random, head_dim=True)
        | given(random, vision_config=vision, audio_config=audio)
        | {"architectures": [random.choice(["Phi4MultimodalModel", "Phi4MultimodalForCausalLM"])]}
    )


@space("seamless_m4t_v2")
def seamless_m4t_v2(random: Random) -> dict[str, Any]:
    """Texts only."""
    config = both_stacks(random)
    config["hidden_size"] = config.pop("d_model")
    return config | {"architectures": ["SeamlessM4Tv2ForTextToText"]}


@space("ultravbert")
def ultravbert(random: Random) -> dict[str, Any]:
    """A tower with its head or without, Llama's flags."""
    heads = random.choice([2, 4])
    vision = {
        "hidden_size": heads * 8,
        "intermediate_size": random.choice([24, 40]),
        "num_hidden_layers": random.randint(1, 3),
        "num_attention_heads": heads,
        "image_size": random.choice([32, 64]),
        "patch_size": random.choice([4, 8]),
        **some(random, vision_use_head=[True, False], model_type=["siglip_vision_model"]),
    }
    text = grouped(random, head_dim=True) | some(
        random, attention_bias=[True, False], mlp_bias=[True, False], model_type=["ultrabert"]
    )
    return (
        {"vision_config": vision}
        | {"text_config": text | {"prediction_head_size": random.choice([6, 20])}}
        | some(random, pixel_shuffle_factor=[1, 2], tie_word_embeddings=[True, False])
        | of(random, "UltraVBert", "Model", "ForMaskedLM", "ForSequenceClassification", TOKENS)
    )


def _codec(random: Random, ratios: list[int], channels: int) -> dict[str, Any]:
    return {
        "num_filters": random.choice([2, 3]),
        "hidden_size": random.choice([5, 8]),
        "downsampling_ratios": ratios,
        "depths": random.choices([0, 1, 3], k=len(ratios) + random.choice([1, 1, 2])),
        "channels": channels,
        **some(random, kernel_size=[3, 5], ffn_expansion=[2, 3], hidden_act=["gelu", "relu"]),
    }


@space("vibevoice_asr")
def vibevoice_asr(random: Random) -> dict[str, Any]:
    """Encoders of any depth that make as many frames of the same sound, any Qwen2."""
    ratios, channels = random.choices([1, 2, 3, 5], k=random.randint(0, 3)), random.choice([1, 2])
    codecs = {
        f"{name}_tokenizer_encoder_config": _codec(random, random.sample(ratios, len(ratios)), channels)
        for name in ("acoustic", "semantic")
    }
    return (
        (codecs if random.random() < 0.85 else {})
        | {"audio_token_id": 1}
        | {"text_config": grouped(random) | {"model_type": "qwen2"}}
        | of(random, "VibeVoiceAsr", "Model", GENERATION)
    )
