"""One clip for each sequence, as transformers' models hear it: raw, or as a spectrogram, with words in its place."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import TYPE_CHECKING

import torch

from tfcalc.workload import Workload

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel

MASKS = ("input_features_mask", "feature_attention_mask", "padding_mask")
"""Names of the mask of a spectrogram's frames."""
TOKENS = ("audio_token_id", "audio_token_index")
"""Fields with the token that represents a vector of sound."""


def sounds(built: PreTrainedModel, run: Workload) -> Mapping[str, Tensor | list[int]]:
    """The arguments that make a clip; none where a token is decoded, for then it has been heard."""
    known, batch = _known(built), int(run.batch_size)  # type: ignore[call-overload]
    if run.decoding:
        return {}
    if "input_values" in known and hasattr(built, "_get_feat_extract_output_lengths"):
        return {"input_values": torch.zeros(batch, _samples(built, int(run.source.length)))}  # type: ignore[call-overload]
    codec = _codec(built.config)
    if "input_values" in known and codec is not None:
        raw = torch.zeros(batch, codec.channels, int(run.source.length) * codec.hop_length)  # type: ignore[call-overload]
        return {"input_values": raw} | _words(built, run, {"input_values": raw})
    if "image_pixel_values" in known and "audio_input_features" in known:
        return _with_an_image(built.config, run)
    if "input_features" not in known:
        return {}
    audio = getattr(built.config, "audio_config", built.config)
    found = _as_long_as_asked(built.config, audio, run, known)
    if not found and frames(audio) is not None:
        found = {"input_features": torch.zeros(batch, audio.num_mel_bins, frames(audio))}
        found |= {name: torch.ones(batch, frames(audio), dtype=torch.long) for name in MASKS if name in known}
    return found | _words(built, run, found) if found else {}


def _known(built: PreTrainedModel) -> Mapping[str, Parameter]:
    """The arguments that it names; and the base model's, where a head for any model hands all others on."""
    known = signature(built.forward).parameters
    handed_on = type(built).__name__.endswith("ForTokenClassification") and "kwargs" in known
    return {**signature(built.base_model.forward).parameters, **known} if handed_on else known


def _codec(config: PreTrainedConfig) -> PreTrainedConfig | None:
    """The config of what reads raw sound beside words, with the samples that become a frame, or None."""
    return next((one for one in vars(config).values() if hasattr(one, "hop_length") and hasattr(one, "channels")), None)


def _as_long_as_asked(
    config: PreTrainedConfig, audio: PreTrainedConfig, run: Workload, known: Mapping[str, Parameter]
) -> dict[str, Tensor]:
    """Spectrogram whose frames make the source, where encoders take any length; nothing where all have one length.

    It is cut into frames that lie side by side (``subsampling_factor``), frames that are read as they come
    (``input_dim``; with as many pitches as convolutions have channels, in fours), chunks with their samples
    (``samples_per_token``), or pieces (``n_window``); or each word has frames of its own (``downsample_factor``).
    """
    batch, length = int(run.batch_size), int(run.source.length)  # type: ignore[call-overload]
    bands = getattr(getattr(config, "encoder_config", None), "input_dim", None)
    if bands is not None:
        return {"input_features": torch.zeros(batch, length, bands)}
    if audio is config and hasattr(audio, "subsampling_conv_channels"):
        return {"input_features": torch.zeros(batch, length, audio.subsampling_conv_channels[0] // 4 * 4)}
    if audio is not config and hasattr(audio, "subsampling_factor") and "input_features_mask" in known:
        count, bins = length * audio.subsampling_factor, audio.asr_config.num_mel_bins
        return _masked(torch.zeros(batch, count, bins), count, count)
    if hasattr(audio, "samples_per_token"):
        count = length * audio.samples_per_token // audio.hop_length
        return {
            "input_features": torch.zeros(batch, audio.feature_size, count),
            "chunk_sample_lengths": torch.full((batch,), length * audio.samples_per_token),
        }
    if hasattr(audio, "n_window") and "input_features_mask" in known:
        piece = 2 * audio.n_window
        made = -(-piece // HALVED)
        whole, rest = divmod(length, made)
        count = piece * -(-length // made)
        return _masked(torch.zeros(batch, audio.num_mel_bins, count), count, whole * piece + rest * HALVED)
    if hasattr(config, "downsample_factor") and "encoder_inputs_embeds" in known:
        count = 2 * config.downsample_factor * int(run.seq_len)  # type: ignore[call-overload]
        return {"input_features": torch.zeros(batch, audio.num_mel_bins, count)}
    return {}


def _with_an_image(config: PreTrainedConfig, run: Workload) -> Mapping[str, Tensor | list[int]]:
    """A clip and the smallest image (whole, and as one crop), with words for all vectors of that and one for sound."""
    audio, vision, batch = config.audio_config, config.vision_config, int(run.batch_size)  # type: ignore[call-overload]
    side, grid = vision.image_size, vision.image_size // vision.patch_size
    half, length = -(-grid // 2), int(run.source.length)  # type: ignore[call-overload]
    words = torch.zeros(batch, int(run.seq_len), dtype=torch.long)  # type: ignore[call-overload]
    words[:, : 2 * half * (half + 1) + 1] = vision.image_token_id
    words[:, -1] = audio.audio_token_id
    return {
        "input_ids": words,
        "image_pixel_values": torch.ones(batch, 2, vision.num_channels, side, side),
        "image_sizes": torch.full((batch, 2), vision.crop_size),
        "image_attention_mask": torch.ones(batch, 2, grid, grid),
        "audio_input_features": torch.ones(batch, length * audio.time_reduction, audio.input_size),
        "audio_embed_sizes": [1] * batch,
    }


HALVED = 8
"""Frames that become one where three convolutions halve them."""


def _masked(features: Tensor, count: int, there: int) -> dict[str, Tensor]:
    """Inputs with a mask that shows the first frames."""
    mask = torch.zeros(features.shape[0], count, dtype=torch.long)
    mask[:, :there] = 1
    return {"input_features": features, "input_features_mask": mask}


def frames(audio: PreTrainedConfig) -> int | None:
    """Frames of a spectrogram: two for each position of the encoder."""
    places = getattr(audio, "max_source_positions", getattr(audio, "max_position_embeddings", None))
    return None if places is None else 2 * int(places)


def _samples(built: PreTrainedModel, heard: int) -> int:
    """Shortest clip of which the encoder makes this number of frames."""
    samples = heard
    while built._get_feat_extract_output_lengths(samples) < heard:
        samples += 1
    return samples


def _words(built: PreTrainedModel, run: Workload, found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A text in which as many words stand for sound as the projector makes vectors."""
    token = next((getattr(built.config, name) for name in TOKENS if hasattr(built.config, name)), None)
    if token is None:
        return {}
    ids = torch.zeros(int(run.batch_size), int(run.seq_len), dtype=torch.long)  # type: ignore[call-overload]
    ids[:, : _vectors(built, found) // ids.shape[0]] = token
    return {"input_ids": ids}


def _vectors(built: PreTrainedModel, found: Mapping[str, Tensor]) -> int:
    """Vectors that the projector makes of all clips: by the model's own rule, or by its encoder's."""
    listens = getattr(built.base_model, "get_audio_features", None)
    if listens is None or "input_ids" in signature(listens).parameters:
        batch, _, length = found["input_features"].shape
        return int(batch * built.base_model.audio_tower._get_feat_extract_output_lengths(length)[-1])
    with torch.no_grad():
        made = listens(**{name: value for name, value in found.items() if name in signature(listens).parameters})
    vectors = getattr(made, "pooler_output", made)
    numbers, width = sum(one.numel() for one in vectors), built.config.get_text_config().hidden_size
    return int(numbers // width)
