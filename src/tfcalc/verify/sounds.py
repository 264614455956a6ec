"""One clip for each sequence, as transformers' models hear it: raw, or as a spectrogram, with words in its place."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

import torch

from tfcalc.workload import Workload

MASKS = ("input_features_mask", "feature_attention_mask", "padding_mask")
"""How models call the mask of a spectrogram's frames."""
TOKENS = ("audio_token_id", "audio_token_index")
"""How configs call the word that stands for a vector of sound."""


def sounds(built: Any, run: Workload) -> dict[str, Any]:
    """The arguments that make a clip; none where a token is decoded, for then it has been heard."""
    known, batch = signature(built.forward).parameters, int(run.batch_size)  # type: ignore[call-overload]
    if run.decoding:
        return {}
    if "input_values" in known and hasattr(built, "_get_feat_extract_output_lengths"):
        return {"input_values": torch.zeros(batch, _samples(built, int(run.source.length)))}  # type: ignore[call-overload]
    audio = getattr(built.config, "audio_config", built.config)
    if "input_features" not in known or frames(audio) is None:
        return {}
    found = {"input_features": torch.zeros(batch, audio.num_mel_bins, frames(audio))}
    found |= {name: torch.ones(batch, frames(audio), dtype=torch.long) for name in MASKS if name in known}
    return found | _words(built, run, found)


def frames(audio: Any) -> int | None:
    """Of a spectrogram: twice as many as the encoder has positions."""
    places = getattr(audio, "max_source_positions", getattr(audio, "max_position_embeddings", None))
    return None if places is None else 2 * int(places)


def _samples(built: Any, heard: int) -> int:
    """The shortest clip of which the encoder makes so many frames."""
    samples = heard
    while built._get_feat_extract_output_lengths(samples) < heard:
        samples += 1
    return samples


def _words(built: Any, run: Workload, found: Mapping[str, Any]) -> dict[str, Any]:
    """A text in which as many words stand for sound as the projector makes vectors."""
    token = next((getattr(built.config, name) for name in TOKENS if hasattr(built.config, name)), None)
    if token is None:
        return {}
    ids = torch.zeros(int(run.batch_size), int(run.seq_len), dtype=torch.long)  # type: ignore[call-overload]
    ids[:, : _vectors(built, found) // ids.shape[0]] = token
    return {"input_ids": ids}


def _vectors(built: Any, found: Mapping[str, Any]) -> int:
    """How many the projector makes of all clips: as the model itself finds out, or as its encoder says."""
    listens = getattr(built.base_model, "get_audio_features", None)
    if listens is None or "input_ids" in signature(listens).parameters:
        batch, _, length = found["input_features"].shape
        return int(batch * built.base_model.audio_tower._get_feat_extract_output_lengths(length)[-1])
    with torch.no_grad():
        made = listens(**{name: value for name, value in found.items() if name in signature(listens).parameters})
    vectors = getattr(made, "pooler_output", made)
    numbers, width = sum(one.numel() for one in vectors), built.config.get_text_config().hidden_size
    return int(numbers // width)
